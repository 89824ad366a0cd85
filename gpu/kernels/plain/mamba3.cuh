/* Mamba-3's recurrence of rank R, token by token; rank 1 has no projections.
 *
 *   theta <- theta + pi tanh(angles) dt;  q_r, k_r = q + q_bias, k + k_bias, their first 2 A dimensions turned as neighbouring pairs
 *   l = sigmoid(trap);  S <- e^adt S + sum_r (1 - l) dt e^adt (up_r v_1) k_1r' + l dt (up_r v) k_r'
 *   y = sum_r down_r (S q_r + D up_r v) silu(open_r z)
 *
 * q, k [T,R,Hq,Dk]; v, z, y [T,H,Dv]; adt, dt, trap [T,H]; biases [H,R,Dk]; angles [T,H,A]; up, open, down [H,R,Dv]; D [H];
 * states: angle [N,H,A], state [N,H,Dv,Dk], k [N,H,R,Dk], v [N,H,Dv].
 *
 * Threads: a block a head of a sequence; thread e has row e of the state, in global memory, and element e of v, z and y. Angles, queries
 * and keys lie in shared memory.
 *
 * Numbers: angles, their cosines and sines are f64, each rounded to f32 once; everything else between load and store is f32. */
#ifndef ETALON_MAMBA3_CUH
#define ETALON_MAMBA3_CUH

#include "gpu/kernels/plain/plain.cuh"

struct mamba3_call {
	operand q, k, v, adt, dt, trap, q_bias, k_bias, angles, D, z, up, open, down, first_angle, first_state, first_k, first_v;
	result y, last_angle, last_state, last_k, last_v;       /* the last two may be absent */
	float *state;           /* [N,H,Dv,Dk] */
	tokens of;
	int R, H, Hq, Dk, Dv, A;

	/* Element i of R x Dk, with its bias, turned. */
	__device__ float turned(const operand &x, const operand &bias, int t, int h, int i, const double *theta) const
	{
		int r = i / Dk, d = i % Dk, other = d ^ 1;
		size_t row = (((size_t)t * R + r) * Hq + h / (H / Hq)) * Dk, of_bias = ((size_t)h * R + r) * Dk;
		float own = x.at(row + d) + bias.at(of_bias + d);

		if (d >= 2 * A)
			return own;
		float beside = x.at(row + other) + bias.at(of_bias + other), c = (float)cos(theta[d / 2]), s = (float)sin(theta[d / 2]);
		return d % 2 ? own * c + beside * s : own * c - beside * s;
	}
	__device__ float factor(const operand &x, size_t i) const { return x.data ? x.at(i) : 1.0f; }
};

__device__ inline float at_or_zero(const operand &x, size_t i) { return x.data ? x.at(i) : 0.0f; }

static __global__ void mamba3(const __grid_constant__ mamba3_call m)
{
	extern __shared__ double theta[];       /* [A], then three of R x Dk floats */
	float *q = reinterpret_cast<float *>(theta + m.A), *k = q + m.R * m.Dk, *k_1 = k + m.R * m.Dk;
	int e = (int)threadIdx.x, h = (int)blockIdx.x, n = (int)blockIdx.y, RD = m.R * m.Dk;
	size_t nh = (size_t)n * m.H + h, row = (nh * m.Dv + e) * m.Dk, projected = (size_t)h * m.R * m.Dv + e;
	float *S = m.state + row, v_1 = at_or_zero(m.first_v, nh * m.Dv + e);
	const double pi = 3.141592653589793;

	for (int i = 0; i < m.Dk; i++)
		S[i] = at_or_zero(m.first_state, row + i);
	for (int p = e; p < m.A; p += m.Dv)
		theta[p] = at_or_zero(m.first_angle, nh * m.A + p);
	for (int i = e; i < RD; i += m.Dv)
		k[i] = at_or_zero(m.first_k, nh * RD + i);
	for (int t = m.of.begin(n); t < m.of.end(n); t++) {
		size_t th = (size_t)t * m.H + h;
		float dt = m.dt.at(th), alpha = expf(m.adt.at(th)), l = sigmoid(m.trap.at(th)), v = m.v.at(th * m.Dv + e), y = 0.0f;

		for (int p = e; p < m.A; p += m.Dv) {
			theta[p] += pi * tanh((double)m.angles.at(th * m.A + p)) * (double)dt;
			theta[p] -= floor(theta[p] / (2 * pi)) * (2 * pi);
		}
		__syncthreads();
		for (int i = e; i < RD; i += m.Dv) {
			k_1[i] = k[i];
			k[i] = m.turned(m.k, m.k_bias, t, h, i, theta);
			q[i] = m.turned(m.q, m.q_bias, t, h, i, theta);
		}
		__syncthreads();
		for (int i = 0; i < m.Dk; i++) {
			float sum = alpha * S[i];
			for (int r = 0; r < m.R; r++) {
				float up = m.factor(m.up, projected + (size_t)r * m.Dv);
				sum += (1.0f - l) * dt * alpha * (up * v_1) * k_1[r * m.Dk + i] + l * dt * (up * v) * k[r * m.Dk + i];
			}
			S[i] = sum;
		}
		for (int r = 0; r < m.R; r++) {
			size_t of = projected + (size_t)r * m.Dv;
			float sum = at_or_zero(m.D, h) * m.factor(m.up, of) * v;
			for (int i = 0; i < m.Dk; i++)
				sum += S[i] * q[r * m.Dk + i];
			y += m.factor(m.down, of) * (m.z.data ? sum * silu(m.factor(m.open, of) * m.z.at(th * m.Dv + e)) : sum);
		}
		put(m.y, th * m.Dv + e, y);
		v_1 = v;
		__syncthreads();
	}
	for (int i = 0; i < m.Dk; i++)
		put(m.last_state, row + i, S[i]);
	for (int p = e; p < m.A; p += m.Dv)
		put(m.last_angle, nh * m.A + p, (float)theta[p]);
	for (int i = e; i < RD && m.last_k.data; i += m.Dv)
		put(m.last_k, nh * RD + i, k[i]);
	if (m.last_v.data)
		put(m.last_v, nh * m.Dv + e, v_1);
}

/* Runs it on c, whose op has a rank or has none; returns its name. */
inline const char *run_rank(capture &c, bool ranked)
{
	input q(c, "q", REQUIRED), k(c, "k", REQUIRED), v(c, "v", REQUIRED), adt(c, "adt", REQUIRED), dt(c, "dt", REQUIRED);
	input trap(c, "trap", REQUIRED), q_bias(c, "q_bias", REQUIRED), k_bias(c, "k_bias", REQUIRED), angles(c, "angles", REQUIRED);
	enum presence needed = ranked ? REQUIRED : OPTIONAL;
	input D(c, "D", OPTIONAL), z(c, "z", OPTIONAL), up(c, "mimo_v", needed), open(c, "mimo_z", OPTIONAL), down(c, "mimo_o", needed);
	input angle(c, "initial_angle", OPTIONAL), state(c, "initial_state", OPTIONAL), key(c, "initial_k", OPTIONAL), value(c, "initial_v", OPTIONAL);
	output y(c, "y", REQUIRED), last_angle(c, "final_angle", REQUIRED), last(c, "final_state", REQUIRED);
	output last_k(c, "final_k", OPTIONAL), last_v(c, "final_v", OPTIONAL);
	std::vector<int64_t> cuts = sequence_cuts(c, v.dim(0));
	buffer of = uploaded(cuts), held(last.host().count * sizeof(float));
	int R = ranked ? small(q.dim(1), "R") : 1, H = small(v.dim(1), "H"), Hq = small(q.dim(ranked + 1), "Hq"), Dk = small(q.dim(ranked + 2), "Dk");
	int A = small(angles.dim(2), "A");

	for (const tensor *t = c.tensors.item; t < c.tensors.item + c.tensors.n; t++)
		if (t != capture_in(&c, "cu_seqlens"))
			float_dtypes({ t });
	mamba3_call m = {
		q.any(), k.any(), v.any(), adt.any(), dt.any(), trap.any(), q_bias.any(), k_bias.any(), angles.any(), D.any(), z.any(),
		up.any(), open.any(), down.any(), angle.any(), state.any(), key.any(), value.any(), y.any(), last_angle.any(), last.any(), last_k.any(),
		last_v.any(), held.as<float>(), { of.as<int64_t>() }, R, H, Hq, Dk, small(v.dim(2), "Dv", 1024), A
	};
	launch("mamba3", mamba3, dim3(H, (unsigned)cuts.size() - 1), m.Dv, A * sizeof(double) + 3 * R * Dk * sizeof(float), m);
	for (output *o : { &y, &last_angle, &last, &last_k, &last_v })
		o->fetch();
	return ranked ? "mamba3_mimo" : "mamba3";
}

#endif
