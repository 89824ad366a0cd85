/* Mamba-2's recurrence, token by token.
 *
 *   d = softplus(dt + dt_bias) or dt + dt_bias, limited;  S <- e^(A d) S + d x B';  y = S C + D x;  y <- y silu(z)
 *
 * x, z, y [T,H,P]; dt [T,H]; A, D, dt_bias [H]; B, C [T,G,M]; states [N,H,P,M].
 *
 * Threads: a block a head of a sequence; thread p has row p of the state, in global memory, and element p of x and y.
 *
 * Numbers: everything between load and store is f32; sums over M run from its first element on. */
#include "gpu/kernels/plain/plain.cuh"

struct ssd_call {
	operand x, dt, A, B, C, D, z, dt_bias, initial;
	result y, last;
	float *state;           /* [N,H,P,M] */
	tokens of;
	int H, G, P, M;
	bool positive;
	float least, most;
};

__global__ void ssd(const __grid_constant__ ssd_call m)
{
	int p = (int)threadIdx.x, h = (int)blockIdx.x, n = (int)blockIdx.y, g = h / (m.H / m.G);
	size_t row = (((size_t)n * m.H + h) * m.P + p) * m.M;
	float *S = m.state + row, bias = m.dt_bias.data ? m.dt_bias.at(h) : 0.0f;

	for (int i = 0; i < m.M; i++)
		S[i] = m.initial.data ? m.initial.at(row + i) : 0.0f;
	for (int t = m.of.begin(n); t < m.of.end(n); t++) {
		size_t at = ((size_t)t * m.H + h) * m.P + p, group = ((size_t)t * m.G + g) * m.M;
		float d = m.dt.at((size_t)t * m.H + h) + bias, x = m.x.at(at), y = 0.0f;

		d = fminf(fmaxf(m.positive ? softplus(d) : d, m.least), m.most);
		float decay = expf(m.A.at(h) * d);
		for (int i = 0; i < m.M; i++) {
			S[i] = decay * S[i] + d * x * m.B.at(group + i);
			y += S[i] * m.C.at(group + i);
		}
		if (m.D.data)
			y += m.D.at(h) * x;
		put(m.y, at, m.z.data ? y * silu(m.z.at(at)) : y);
	}
	for (int i = 0; i < m.M; i++)
		put(m.last, row + i, S[i]);
}

const char *run_ssd(capture &c)
{
	input x(c, "x", REQUIRED), dt(c, "dt", REQUIRED), A(c, "A", REQUIRED), B(c, "B", REQUIRED), C(c, "C", REQUIRED);
	input D(c, "D", OPTIONAL), z(c, "z", OPTIONAL), dt_bias(c, "dt_bias", OPTIONAL), initial(c, "initial_state", OPTIONAL);
	output y(c, "y", REQUIRED), last(c, "final_state", REQUIRED);
	std::vector<int64_t> cuts = sequence_cuts(c, x.dim(0));
	buffer of = uploaded(cuts), state(last.host().count * sizeof(float));
	int P = small(x.dim(2), "P", 1024), H = small(x.dim(1), "H");

	float_dtypes({ &x.host(), &dt.host(), &A.host(), &B.host(), &C.host(), capture_in(&c, "D"), capture_in(&c, "z"),
		capture_in(&c, "dt_bias"), capture_in(&c, "initial_state"), &y.host(), &last.host() });
	ssd_call m = {
		x.any(), dt.any(), A.any(), B.any(), C.any(), D.any(), z.any(), dt_bias.any(), initial.any(), y.any(), last.any(),
		state.as<float>(), { of.as<int64_t>() }, H, small(B.dim(1), "G"), P, small(B.dim(2), "M"),
		capture_bool(&c, "dt_softplus", false), (float)capture_number(&c, "dt_min", 0), (float)capture_number(&c, "dt_max", INFINITY)
	};
	launch("ssd", ssd, dim3(H, (unsigned)cuts.size() - 1), P, 0, m);
	y.fetch();
	last.fetch();
	return "ssd";
}
