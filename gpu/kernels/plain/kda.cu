/* Kimi delta attention, token by token.
 *
 *   S <- diag(e^g) S;  u = beta (v - S'k);  S <- S + k u';  o = scale S'q
 *   g as given, or -e^A_log softplus(a + dt_bias), or lower_bound sigmoid(e^A_log (a + dt_bias))
 *
 * q, k [T,Hk,Dk]; v, o [T,Hv,Dv]; g, a [T,Hv,Dk]; beta [T,Hv]; A_log [Hv]; dt_bias [Hv,Dk]; states [N,Hv,Dk,Dv].
 *
 * Threads: a block a value head of a sequence; thread e has column e of the state, in global memory, and element e of v and o.
 *
 * Numbers: everything between load and store is f32; sums over Dk run from its first element on. */
#include "gpu/kernels/plain/delta_channels.cuh"

#include <cstring>

struct kda_call {
	operand q, k, v, g, beta, a, A_log, dt_bias, initial;
	result o, last;
	float *state;           /* [N,Hv,Dk,Dv] */
	tokens of;
	int Hk, Hv, Dk, Dv;
	bool normed, bounded;
	float eps, scale, lower_bound;

	/* (sum x^2 + eps)^-1/2 of a row, or 1 */
	__device__ float inverse(const operand &x, size_t row) const
	{
		float sum = 0.0f;

		for (int d = 0; d < Dk; d++)
			sum += x.at(row + d) * x.at(row + d);
		return normed ? 1.0f / sqrtf(sum + eps) : 1.0f;
	}
	__device__ float log_decay(size_t row, int h, int d) const
	{
		if (g.data)
			return g.at(row + d);
		float x = a.at(row + d) + dt_bias.at((size_t)h * Dk + d), rate = expf(A_log.at(h));
		return bounded ? lower_bound * sigmoid(rate * x) : -rate * softplus(x);
	}
};

__global__ void kda(const __grid_constant__ kda_call m)
{
	int e = (int)threadIdx.x, h = (int)blockIdx.x, n = (int)blockIdx.y;
	size_t column = ((size_t)n * m.Hv + h) * m.Dk * m.Dv + e;
	float *S = m.state + column;

	for (int d = 0; d < m.Dk; d++)
		S[d * m.Dv] = m.initial.data ? m.initial.at(column + (size_t)d * m.Dv) : 0.0f;
	for (int t = m.of.begin(n); t < m.of.end(n); t++) {
		size_t keys = ((size_t)t * m.Hk + h / (m.Hv / m.Hk)) * m.Dk, gates = ((size_t)t * m.Hv + h) * m.Dk;
		size_t at = ((size_t)t * m.Hv + h) * m.Dv + e;
		float unit_q = m.inverse(m.q, keys), unit_k = m.inverse(m.k, keys), beta = m.beta.at((size_t)t * m.Hv + h);
		auto key = [&](int d) { return unit_k * m.k.at(keys + d); };
		float o = delta_step(S, m.Dk, m.Dv, beta * m.v.at(at), [&](int d) { return m.log_decay(gates, h, d); },
			[&](int d) { return beta * key(d); }, key, [&](int d) { return unit_q * m.q.at(keys + d); });
		put(m.o, at, m.scale * o);
	}
	for (int d = 0; d < m.Dk; d++)
		put(m.last, column + (size_t)d * m.Dv, S[d * m.Dv]);
}

const char *run_kda(capture &c)
{
	bool given = capture_in(&c, "g");
	enum presence raw = given ? OPTIONAL : REQUIRED;
	input q(c, "q", REQUIRED), k(c, "k", REQUIRED), v(c, "v", REQUIRED), beta(c, "beta", REQUIRED), g(c, "g", OPTIONAL);
	input a(c, "a", raw), A_log(c, "A_log", raw), dt_bias(c, "dt_bias", raw), initial(c, "initial_state", OPTIONAL);
	output o(c, "o", REQUIRED), last(c, "final_state", REQUIRED);
	std::vector<int64_t> cuts = sequence_cuts(c, q.dim(0));
	buffer of = uploaded(cuts), state(last.host().count * sizeof(float));
	int Hv = small(v.dim(1), "Hv"), Dk = small(q.dim(2), "Dk"), Dv = small(v.dim(2), "Dv", 1024);

	float_dtypes({ &q.host(), &k.host(), &v.host(), &beta.host(), capture_in(&c, "g"), capture_in(&c, "a"), capture_in(&c, "A_log"),
		capture_in(&c, "dt_bias"), capture_in(&c, "initial_state"), &o.host(), &last.host() });
	kda_call m = {
		q.any(), k.any(), v.any(), g.any(), beta.any(), a.any(), A_log.any(), dt_bias.any(), initial.any(), o.any(), last.any(),
		state.as<float>(), { of.as<int64_t>() }, small(q.dim(1), "Hk"), Hv, Dk, Dv, capture_bool(&c, "qk_l2norm", false),
		strcmp(capture_string(&c, "gate", "softplus"), "bounded") == 0, (float)capture_number(&c, "l2_eps", 1e-6),
		(float)capture_number(&c, "scale", 1 / sqrt((double)Dk)), (float)capture_number(&c, "lower_bound", -5)
	};
	launch("kda", kda, dim3(Hv, (unsigned)cuts.size() - 1), Dv, 0, m);
	o.fetch();
	last.fetch();
	return "kda";
}
