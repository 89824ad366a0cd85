/* The gated delta rule in chunks of 64 tokens on tensor cores, first part: what does not depend on the state, for all chunks
 * at once. Per chunk and value head, G the running sum of g and L the chunk's length:
 *
 *   A_ij = beta_i e^(G_i - G_j) k_i·k_j  (j < i),    T = (I + A)^-1,
 *   U = T (beta v),    W = T (beta e^G k),    P_ij = e^(G_i - G_j) q_i·k_j  (j <= i).
 *
 * Operands of a product on tensor cores are sums of PARTS numbers in bf16, those that follow the remainders; of the products of
 * two such, those of parts i and j with i + j >= PARTS are left out.
 * PARTS 1 is bf16, PARTS 2 is 17 bits. q, k and v stand as they were given, in bf16: their norms, gates and beta are factors of
 * rows of P and of columns of T. A and T are f32, and U too where PARTS is 2.
 *
 * A block of one warpgroup has a key head and its value heads, one after the other: the products q k' and k k' are the same for
 * all of them and stay in registers. A warp has tokens 16m. */
#ifndef ETALON_DELTA_CHUNK_CUH
#define ETALON_DELTA_CHUNK_CUH

#include "gpu/device/hopper.cuh"
#include "gpu/kernels/delta_tokens.cuh"

namespace chunked {

/* Tiles as wgmma names their elements. */
template <int TILES> __device__ float (&flat(float (&x)[TILES][4]))[4 * TILES] { return reinterpret_cast<float (&)[4 * TILES]>(x); }

using gram = float[CHUNK / 8][4];

/* Issues QK = q k' and KK = k k'. */
__device__ inline void gram_matrices(gram &QK, gram &KK, workspace &w)
{
#pragma unroll
	for (int n = 0; n < CHUNK / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			QK[n][e] = KK[n][e] = 0.0f;
	hopper::products_begin();
#pragma unroll
	for (int j = 0; j < STEPS; j++) {
		unsigned q = hopper::matrix_place(w.q.at[j / 4]) + j % 4 * 2, k = hopper::matrix_place(w.k.at[j / 4]) + j % 4 * 2;
		hopper::multiply<bf16>(flat(QK), q, k);
		hopper::multiply<bf16>(flat(KK), k, k);
	}
	hopper::products_commit();
}

template <int PARTS> __device__ float decay_between(float G_i, float G_j)
{
	if constexpr (PARTS == 1)
		return __expf(G_i - G_j);       /* within (2 + |G|) 2^-23: T and P are rounded to bf16 */
	else
		return expf(G_i - G_j);
}

/* Of the g-th value head: P = QK e^(G_i - G_j) q_norm_i k_norm_j to the record, 0 where j > i; A = KK e^(G_i - G_j) beta_i k_norm_i
 * k_norm_j to T, 0 where j >= i. */
template <int PARTS>
__device__ void decay(workspace &w, int g, head_record<PARTS> &to, const gram &QK, const gram &KK, int warp, int lane)
{
	float G[2], row_P[2], row_A[2];

#pragma unroll
	for (int half = 0; half < 2; half++) {
		int i = BLOCK * warp + 8 * half + lane / 4;
		G[half] = w.G[g][i], row_P[half] = w.q_norm[i], row_A[half] = w.beta[g][i] * w.k_norm[i];
	}
#pragma unroll
	for (int s = 0; s < BLOCKS; s++)
		if (s <= warp) {
			float P[2][4];
#pragma unroll
			for (int n = 0; n < 2; n++) {
				int j = BLOCK * s + 8 * n + lane % 4 * 2;
				float2 G_j = *reinterpret_cast<const float2 *>(&w.G[g][j]), k = *reinterpret_cast<const float2 *>(&w.k_norm[j]);
#pragma unroll
				for (int half = 0; half < 2; half++) {
					int i = BLOCK * warp + 8 * half + lane / 4;
					float A[2];
#pragma unroll
					for (int e = 0; e < 2; e++) {
						float left = decay_between<PARTS>(G[half], e ? G_j.y : G_j.x) * (e ? k.y : k.x);
						P[n][2 * half + e] = j + e <= i ? QK[2 * s + n][2 * half + e] * (left * row_P[half]) : 0.0f;
						A[e] = j + e < i ? KK[2 * s + n][2 * half + e] * (left * row_A[half]) : 0.0f;
					}
					*reinterpret_cast<float2 *>(&w.T[i][j]) = make_float2(A[0], A[1]);
				}
			}
			store_split<PARTS>(&to.P[0][lower_block(warp, s)], LOWER, P[0], P[1], lane);
		}
}

/* T_ij factor_j, this warp's rows, as an operand a. */
template <int PARTS> __device__ void scaled_T(unsigned (&a)[PARTS][BLOCKS][4], workspace &w, const float *factor, int warp, int lane)
{
#pragma unroll
	for (int s = 0; s < BLOCKS; s++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			unsigned part[PARTS] = {};
			int j = i / 2 * 8 + lane % 4 * 2;
			if (s <= warp) {
				float2 t = *reinterpret_cast<const float2 *>(inverse_at(w.T, warp, s, i % 2 * 8 + lane / 4, j));
				float2 f = *reinterpret_cast<const float2 *>(&factor[BLOCK * s + j]);
				split(part, t.x * f.x, t.y * f.y);
			}
#pragma unroll
			for (int p = 0; p < PARTS; p++)
				a[p][s][i] = part[p];
		}
}

/* x = a y of half of y's columns, small products first. */
template <int PARTS> __device__ void times_half(float (&x)[D / 16][4], const unsigned (&a)[PARTS][BLOCKS][4], bf16 (&y)[CHUNK][D / 2])
{
	hopper::products_begin();
#pragma unroll
	for (int p = PARTS - 1; p >= 0; p--)
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
			hopper::multiply<1>(flat(x), a[p][s], hopper::turned_descriptor(y[BLOCK * s], sizeof y), p < PARTS - 1 || s);
	hopper::products_commit();
	hopper::products_wait<0>();
	hopper::hold(flat(x));
}

/* Columns 16d + {0..15} of U. */
__device__ inline void store_values(block (&to)[BLOCKS], const float (&x)[4], const float (&y)[4], int warp, int lane)
{
	store_split<1>(&to[warp], 0, x, y, lane);
}

__device__ inline void store_values(float (&to)[BLOCKS][4][64], const float (&x)[4], const float (&y)[4], int warp, int lane)
{
	int row = lane / 4, at = (row / 2 + row % 2 * 4) * 8 + lane % 4 * 2;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		const float (&z)[4] = i % 2 ? y : x;
		*reinterpret_cast<float2 *>(&to[warp][i][at]) = make_float2(z[i / 2 * 2], z[i / 2 * 2 + 1]);
	}
}

/* U and W of the g-th value head, whose v is in `v`. */
template <int PARTS>
__device__ void solve(workspace &w, int g, head_record<PARTS> &to, tile &v, int warp, int lane)
{
	unsigned a[PARTS][BLOCKS][4];
	float x[D / 16][4];

	scaled_T(a, w, w.beta[g], warp, lane);
#pragma unroll
	for (int half = 0; half < 2; half++) {
		times_half(x, a, v.at[half]);
#pragma unroll
		for (int d = 0; d < D / 32; d++)
			store_values(to.U[half * D / 32 + d], x[2 * d], x[2 * d + 1], warp, lane);
	}
	scaled_T(a, w, w.beta_decay_k[g], warp, lane);
#pragma unroll
	for (int half = 0; half < 2; half++) {
		times_half(x, a, w.k.at[half]);
#pragma unroll
		for (int d = 0; d < D / 32; d++)
			store_split<PARTS>(&to.W[0][half * D / 32 + d][warp], BLOCKS * STEPS, x[2 * d], x[2 * d + 1], lane);
	}
}

/* Blocks on a multiprocessor. */
template <int PARTS> constexpr int blocks_together = PARTS == 1 ? 3 : 2;
static_assert(blocks_together<1> * (sizeof(workspace) + 1024) <= 228 * 1024, "a block takes 1 KB more of a multiprocessor's 228 KB");

/* Grid: chunks x key heads, those of a chunk beside each other. */
template <int PARTS> __global__ void __launch_bounds__(WARPS * 32, blocks_together<PARTS>)
delta_chunks(rule m, tokens<bf16> all, const extent *extents, key_record *keys, head_record<PARTS> *heads)
{
	extern __shared__ __align__(1024) char bytes[];
	workspace &w = *reinterpret_cast<workspace *>(bytes);
	int chunk = (int)blockIdx.x / m.Hk, hk = (int)blockIdx.x % m.Hk, group = m.Hv / m.Hk, first = hk * group;
	int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
	extent x = extents[chunk];
	size_t key = ((size_t)x.start * m.Hk + hk) * D;
	gram QK, KK;
	auto fetch_values = [&](int i) {
		if (i < group)
			fetch(w.v[i % 2], all.v + ((size_t)x.start * m.Hv + first + i) * D, (size_t)m.Hv * D, x.length);
		mma_form::commit();
	};
	auto fetch_gates = [&](int i) {
		if (i + warp < group)
			gates(w, warp, m, x, first + i + warp, lane);
	};

	hopper::let_later_grid_begin();
	fetch(w.q, all.q + key, (size_t)m.Hk * D, x.length);
	fetch(w.k, all.k + key, (size_t)m.Hk * D, x.length);
	mma_form::commit();
	fetch_values(0);
	fetch_values(1);
	fetch_gates(0);
	mma_form::wait_all_but<2>();
	hopper::shared_fence();
	__syncthreads();
	gram_matrices(QK, KK, w);
	if (thread == 0) {
		key_record &to = keys[blockIdx.x];
		hopper::store_run(&to.q, &w.q, sizeof to.q);
		hopper::store_run(&to.k, &w.k, sizeof to.k);
		hopper::stores_commit();
	}
	norms(w, m, x.length, thread);
	hopper::products_wait<0>();
	hopper::hold(flat(QK));
	hopper::hold(flat(KK));
	if (thread == 0)
		hopper::stores_have_read();
	__syncthreads();        /* norms are there, and q may be overwritten */
	for (int i = 0; i < group; i++) {
		head_record<PARTS> &to = heads[(size_t)chunk * m.Hv + first + i];
		int g = i % GATED;
		if (i && g == 0) {
			__syncthreads();
			fetch_gates(i);
			__syncthreads();
		}
		token_factors(w, g, to, thread);
		decay(w, g, to, QK, KK, warp, lane);
		__syncwarp();
		invert_block(w.T, warp, lane);
		__syncthreads();        /* A is there; all are done with the value head before */
		if (i)
			fetch_values(i + 1);
		if (warp < BLOCKS - 1)
			substitute<PARTS + 1>(w.T, warp, lane);
		mma_form::wait_all_but<1>();
		hopper::shared_fence();
		__syncthreads();        /* T and v are there */
		solve(w, g, to, w.v[i % 2], warp, lane);
	}
	if (thread == 0)
		hopper::stores_done();
}

}
#endif
