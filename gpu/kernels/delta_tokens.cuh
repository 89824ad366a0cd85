/* The tokens of a chunk in a block's shared memory: loaded, gated and normalised. */
#ifndef ETALON_DELTA_TOKENS_CUH
#define ETALON_DELTA_TOKENS_CUH

#include "gpu/kernels/delta_inverse.cuh"
#include "gpu/kernels/delta_rule.cuh"

namespace chunked {

/* Value heads whose gates are known at a time. */
enum { GATED = WARPS };

struct workspace {
	tile k, v[2];
	union {
		tile q;
		float T[CHUNK][STRIDE];         /* A below the diagonal; T as delta_inverse.cuh has it */
	};
	float q_norm[CHUNK], k_norm[CHUNK], G[GATED][CHUNK], beta[GATED][CHUNK], beta_decay_k[GATED][CHUNK];
};

__device__ inline void fetch(tile &to, const bf16 *from, size_t row_stride, int length)
{
	for (int i = (int)threadIdx.x; i < CHUNK * D / 8; i += WARPS * 32) {
		int row = i / (D / 8), c = i % (D / 8);
		mma_form::copy_chunk(to.piece(row, c), from + (row < length ? row : 0) * row_stride + c * 8, row < length);
	}
}

/* G and beta of value head h as the g-th, by one warp; past the end nothing decays and nothing is written. */
__device__ inline void gates(workspace &w, int g, const rule &m, const extent &x, int h, int lane)
{
	float *G = w.G[g], *beta = w.beta[g];

	for (int t = lane; t < CHUNK; t += 32) {
		size_t at = (size_t)(x.start + t) * m.Hv + h;
		G[t] = beta[t] = 0.0f;
		if (t < x.length) {
			if (m.gated)
				G[t] = log_decay_of(m, at, h);
			beta[t] = beta_of(m, at);
		}
	}
	__syncwarp();
	float first = G[2 * lane], sum = first + G[2 * lane + 1];
	for (int d = 1; d < 32; d *= 2) {
		float below = __shfl_up_sync(0xffffffffu, sum, d);
		if (lane >= d)
			sum += below;
	}
	float before = __shfl_up_sync(0xffffffffu, sum, 1);
	G[2 * lane] = (lane ? before : 0.0f) + first;
	G[2 * lane + 1] = sum;
}

/* Of half a row the piece c, in an order that keeps two neighbouring lanes off each other's banks. */
__device__ inline bf16 *half_piece(tile &x, int row, int half, int c) { return x.piece(row, half * 8 + (c ^ half * 4)); }

/* (sum x^2 + eps)^-1/2 of a row, by two neighbouring lanes with half a row each. */
__device__ inline float norm_of(tile &x, int row, int half, float eps)
{
	float squares = 0.0f;

#pragma unroll
	for (int c = 0; c < 8; c++) {
		float z[8];
		load(z, half_piece(x, row, half, c));
#pragma unroll
		for (int i = 0; i < 8; i++)
			squares += z[i] * z[i];
	}
	return 1.0f / sqrtf(lane_sum(squares, 1, 2) + eps);
}

/* Norms of q and k. */
__device__ inline void norms(workspace &w, const rule &m, int length, int thread)
{
	int t = thread / 2, half = thread % 2;
	float q = m.l2norm ? norm_of(w.q, t, half, m.l2_eps) : 1.0f, k = m.l2norm ? norm_of(w.k, t, half, m.l2_eps) : 1.0f;

	if (half)
		return;
	w.q_norm[t] = t < length ? q : 0.0f;    /* l2_eps may be 0 */
	w.k_norm[t] = t < length ? k : 0.0f;
}

/* What else is one number a token, of the g-th value head. */
template <int PARTS> __device__ void token_factors(workspace &w, int g, head_record<PARTS> &to, int thread)
{
	if (thread >= CHUNK)
		return;
	float decay = expf(w.G[g][thread]), left = expf(w.G[g][CHUNK - 1] - w.G[g][thread]), k = w.k_norm[thread];

	w.beta_decay_k[g][thread] = w.beta[g][thread] * decay * k;
	to.read[thread] = decay * w.q_norm[thread];
	to.write[thread] = left * k;
	if (thread == 0)
		to.end[0] = expf(w.G[g][CHUNK - 1]);
}

}
#endif
