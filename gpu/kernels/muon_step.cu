/* One step of Muon on a weight.
 *
 *   V <- mu V + G;  U = G + mu V, or V;  O = newton_schulz(U);  W <- (1 - lr wd) W - lr s O
 *
 * of momentum_kind mean (1 - mu) G in both places of G;
 * weight, grad, momentum [N,M]; s = 0.2 sqrt(max(n,m)) or sqrt(max(1,n/m)), n x m the matrix's
 * shape. With `split` the rows are cut into blocks, each a matrix of its own.
 *
 * Threads: before and after the iteration one for each element.
 *
 * Numbers: all between load and store is f32, U and O too, but the iterates (newton_schulz.cu). U
 * sees V before it is rounded for out.momentum. */
#include "gpu/kernels/muon_step.cuh"

#include "gpu/kernels/newton_schulz_plan.cuh"

__global__ void take_momentum(muon m, size_t count)
{
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	float g = m.mean ? (1.0f - m.mu) * m.G.at(i) : m.G.at(i), v[1] = { m.mu * m.V.at(i) + g };
	store(m.new_V, i, v);
	m.U[i] = m.nesterov ? g + m.mu * v[0] : v[0];
}

/* Elements [first, first + count), whose step is scaled by s. */
__global__ void take_step(muon m, size_t first, size_t count, float s)
{
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= count)
		return;
	float w[1] = { (1.0f - m.lr * m.decay) * m.W.at(first + i) - m.lr * s * m.O[first + i] };
	store(m.new_W, first + i, w);
}

void enqueue_momentum(cudaStream_t stream, const muon &m, size_t count)
{
	launch_on(stream, "take_momentum", take_momentum, blocks(count, 256), 256, 0, m, count);
}

void enqueue_step(cudaStream_t stream, const muon &m, size_t first, size_t count, float s)
{
	launch_on(stream, "take_step", take_step, blocks(count, 256), 256, 0, m, first, count, s);
}

static float scale(enum scale_rule rule, float n, float m)
{
	return rule == RMS_SCALE ? 0.2f * sqrtf(fmaxf(n, m)) : sqrtf(fmaxf(1.0f, n / m));
}

static enum scale_rule rule_of(const capture &c)
{
	static const char *const names[] = { "0.2*sqrt(max(n,m))", "sqrt(max(1,n/m))" };
	const char *given = capture_string(&c, "scale", "");

	for (int rule = RMS_SCALE; rule <= SPECTRAL_SCALE; rule++)
		if (strcmp(given, names[rule]) == 0)
			return (enum scale_rule)rule;
	refuse(E_PARAM, "scale", "must be given: %s or %s, not '%s'", names[RMS_SCALE], names[SPECTRAL_SCALE], given);
}

/* absent: NAN where it must be given. */
static float number(const capture &c, const char *name, double absent)
{
	float x = (float)capture_number(&c, name, absent);

	if (!std::isfinite(x))
		refuse(E_PARAM, name, "a finite number must be given");
	return x;
}

/* Rows of the matrices that the weight is cut into; their sum is N. */
static std::vector<size_t> blocks_of(const capture &c, size_t N)
{
	const json_t *given = json_object_get(c.params, "split");
	std::vector<size_t> rows;
	size_t sum = 0;

	if (!given)
		return { N };
	for (size_t i = 0; i < json_array_size(given); i++) {
		json_int_t n = json_integer_value(json_array_get(given, i));

		if (n < 1 || (size_t)n > N - sum)
			refuse(E_PARAM, "split", "element %zu: not rows of the %zu", i, N);
		rows.push_back((size_t)n);
		sum += (size_t)n;
	}
	if (sum != N)
		refuse(E_PARAM, "split", "blocks of %zu rows in all, not of %zu", N, sum);
	return rows;
}

template <class F> static void orthogonalise(const newton_schulz_plan &plan, const muon &m, size_t first, size_t n, cublas &general)
{
	newton_schulz<F> work(plan, small(n, "n", 1 << 20), small(m.M, "M", 1 << 20), 1, general, OWN, nullptr);

	work.load({ m.U + first, DT_F32 });
	work.iterate();
	work.answer({ m.O + first, DT_F32 });
}

const char *run_muon_step(capture &c)
{
	newton_schulz_plan plan = plan_of(c);
	input W(c, "weight", REQUIRED), G(c, "grad", REQUIRED), V(c, "momentum", REQUIRED);
	output new_W(c, "weight", REQUIRED), new_V(c, "momentum", REQUIRED);
	size_t N = W.dim(0), M = W.dim(1), first = 0;
	buffer U(N * M * sizeof(float)), O(N * M * sizeof(float));
	cublas general;

	float_dtypes({ &W.host(), &G.host(), &V.host(), &new_W.host(), &new_V.host() });
	muon m = { W.any(), G.any(), V.any(), new_W.any(), new_V.any(), U.as<float>(), O.as<float>(), M,
	           number(c, "lr", NAN), number(c, "momentum", NAN), number(c, "weight_decay", 0),
	           capture_bool(&c, "nesterov", true), rule_of(c), is_second(c, "momentum_kind", "sum", "mean") };

	enqueue_momentum(nullptr, m, N * M);
	for (size_t n : blocks_of(c, N)) {
		by_iterate(c, [&](auto zero) { orthogonalise<decltype(zero)>(plan, m, first, n, general); });
		enqueue_step(nullptr, m, first, n * M, scale(m.rule, (float)n, (float)M));
		first += n * M;
	}
	new_W.fetch();
	new_V.fetch();
	return "muon_step";
}
