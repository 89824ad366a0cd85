/* Mamba-2's core, token by token: convolution, state space recurrence and gated norm.
 *
 *   (x, B, C) = silu(conv(xBC) + conv_bias);  d = softplus(dt + dt_bias);  S <- e^(A d) S + d x B';  u = S C + D x
 *   y = w u silu(z) (mean (u silu(z))^2 + eps)^-1/2, or w u (mean u^2 + eps)^-1/2 silu(z); the mean goes over a group's heads
 *
 * xBC [T,E], E = H P + 2 G M; z, y [T,H,P]; dt [T,H]; conv_weight [E,W]; conv_bias [E]; A, D, dt_bias [H]; norm_weight [H P];
 * conv_state [N,E,W-1]; states [N,H,P,M].
 *
 * Threads: a block of H P a sequence; a thread has a row of the state, in global memory, and an element of x, z and y. The convolution's
 * outputs and the squares lie in shared memory.
 *
 * Numbers: everything between load and store is f32; a mean's sum runs from the group's first element on. */
#include "gpu/kernels/plain/plain.cuh"

struct chain_call {
	operand xBC, z, dt, conv_weight, conv_bias, A, D, dt_bias, norm_weight, conv_state, initial;
	result y, last;
	float *state;           /* [N,H,P,M] */
	tokens of;
	int E, W, H, P, G, M;
	float eps;
	bool norm_first;
};

/* Channel c of the convolution at token t of sequence n. */
__device__ static float convolved(const chain_call &m, int n, int t, int c)
{
	float sum = m.conv_bias.data ? m.conv_bias.at(c) : 0.0f;

	for (int i = 0; i < m.W; i++) {
		int at = t + 1 + i - m.W, held = at - m.of.begin(n) + m.W - 1;
		float x = at >= m.of.begin(n) ? m.xBC.at((size_t)at * m.E + c)
			: m.conv_state.data ? m.conv_state.at(((size_t)n * m.E + c) * (m.W - 1) + held) : 0.0f;
		sum += x * m.conv_weight.at((size_t)c * m.W + i);
	}
	return silu(sum);
}

__global__ void conv_ssd_norm(const __grid_constant__ chain_call m)
{
	extern __shared__ float mixed[];        /* [E], then [H P] */
	int width = m.H * m.P, e = (int)threadIdx.x, h = e / m.P, n = (int)blockIdx.x, in_group = width / m.G, g = e / in_group;
	float *squares = mixed + m.E, *B = mixed + width + g * m.M, *C = B + m.G * m.M;
	size_t row = ((size_t)n * width + e) * m.M;
	float *S = m.state + row;

	for (int i = 0; i < m.M; i++)
		S[i] = m.initial.at(row + i);
	for (int t = m.of.begin(n); t < m.of.end(n); t++) {
		float d = softplus(m.dt.at((size_t)t * m.H + h) + m.dt_bias.at(h)), decay = expf(m.A.at(h) * d), u = 0.0f, sum = 0.0f;

		for (int c = e; c < m.E; c += width)
			mixed[c] = convolved(m, n, t, c);
		__syncthreads();
		for (int i = 0; i < m.M; i++) {
			S[i] = decay * S[i] + d * mixed[e] * B[i];
			u += S[i] * C[i];
		}
		u += (m.D.data ? m.D.at(h) : 0.0f) * mixed[e];
		float gate = silu(m.z.at((size_t)t * width + e));
		u = m.norm_first ? u : u * gate;
		squares[e] = u * u;
		__syncthreads();
		for (int i = 0; i < in_group; i++)
			sum += squares[g * in_group + i];
		float y = u / sqrtf(sum / (float)in_group + m.eps) * m.norm_weight.at(e);
		put(m.y, (size_t)t * width + e, m.norm_first ? y * gate : y);
	}
	for (int i = 0; i < m.M; i++)
		put(m.last, row + i, S[i]);
}

const char *run_conv_ssd_norm(capture &c)
{
	input xBC(c, "xBC", REQUIRED), z(c, "z", REQUIRED), dt(c, "dt", REQUIRED), weight(c, "conv_weight", REQUIRED), bias(c, "conv_bias", OPTIONAL);
	input A(c, "A", REQUIRED), D(c, "D", OPTIONAL), dt_bias(c, "dt_bias", REQUIRED), norm_weight(c, "norm_weight", REQUIRED);
	input held(c, "conv_state", OPTIONAL), initial(c, "initial_state", REQUIRED);
	output y(c, "y", REQUIRED), last(c, "final_state", REQUIRED);
	std::vector<int64_t> cuts = sequence_cuts(c, xBC.dim(0));
	buffer of = uploaded(cuts), state(last.host().count * sizeof(float));
	int E = small(xBC.dim(1), "E", 8192), H = small(z.dim(1), "H"), P = small(z.dim(2), "P"), M = small(initial.dim(3), "M");
	int width = small(z.dim(1) * z.dim(2), "H P", 1024);

	float_dtypes({ &xBC.host(), &z.host(), &dt.host(), &weight.host(), capture_in(&c, "conv_bias"), &A.host(), capture_in(&c, "D"), &dt_bias.host(),
		&norm_weight.host(), capture_in(&c, "conv_state"), &initial.host(), &y.host(), &last.host() });
	chain_call m = {
		xBC.any(), z.any(), dt.any(), weight.any(), bias.any(), A.any(), D.any(), dt_bias.any(), norm_weight.any(), held.any(), initial.any(),
		y.any(), last.any(), state.as<float>(), { of.as<int64_t>() }, E, small(weight.dim(1), "W"), H, P, (E - width) / (2 * M), M,
		(float)capture_number(&c, "eps", 1e-5), capture_bool(&c, "norm_before_gate", false)
	};
	launch("conv_ssd_norm", conv_ssd_norm, (unsigned)cuts.size() - 1, width, (E + width) * sizeof(float), m);
	y.fetch();
	last.fetch();
	return "conv_ssd_norm";
}
