/* The gated delta rule in chunks of 64 tokens on tensor cores, first part: what does not depend on the state, for all chunks
 * at once. Per chunk and value head, G the running sum of g and L the chunk's length:
 *
 *   A_ij = beta_i e^(G_i - G_j) k_i·k_j  (j < i),    T = (I + A)^-1,
 *   U = T (beta v),    W = T (beta e^G k),    P_ij = e^(G_i - G_j) q_i·k_j  (j <= i).
 *
 * Operands of a product on tensor cores are sums of PARTS numbers in bf16, those that follow the remainders; of the products of
 * two such, those of parts i and j with i + j >= PARTS are left out.
 * PARTS 1 is bf16, PARTS 2 is 17 bits. q, k and v stand as they were given, in bf16: their norms, gates and beta are factors of
 * rows of P and of columns of T. A and T are f32, and U too where PARTS is 2. */
#ifndef ETALON_DELTA_CHUNK_CUH
#define ETALON_DELTA_CHUNK_CUH

#include "gpu/kernels/delta_tokens.cuh"

namespace chunked {

/* x [16 of m, 16 of s] k' and the same of a second x. */
__device__ inline void gram(float (&first)[2][4], float (&second)[2][4], tile &x, tile &k, int m, int s, int lane)
{
#pragma unroll 4
	for (int j = 0; j < STEPS; j++) {
		unsigned a[4], b[4], c[4];
		mma_form::load_matrices(a, x.rows_a(m, j, lane));
		mma_form::load_matrices(c, k.rows_a(m, j, lane));
		mma_form::load_matrices(b, k.rows_b(s, j, lane));
#pragma unroll
		for (int n = 0; n < 2; n++) {
			mma_form::multiply(first[n], a, b[2 * n], b[2 * n + 1], bf16{});
			mma_form::multiply(second[n], c, b[2 * n], b[2 * n + 1], bf16{});
		}
	}
}

/* Of P and A, block (m, s): times e^(G_i - G_j) k_norm_j and q_norm_i or beta_k_i; P 0 where j > i, A where j >= i. */
__device__ inline void decay(float (&P)[2][4], float (&A)[2][4], const workspace &w, int m, int s, int lane)
{
#pragma unroll
	for (int half = 0; half < 2; half++) {
		int i = BLOCK * m + 8 * half + lane / 4;
		float G = w.G[i], row_P = w.q_norm[i], row_A = w.beta_k[i];
#pragma unroll
		for (int n = 0; n < 2; n++) {
			int j = BLOCK * s + 8 * n + lane % 4 * 2;
			float2 G_j = *reinterpret_cast<const float2 *>(&w.G[j]), k = *reinterpret_cast<const float2 *>(&w.k_norm[j]);
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float left = expf(G - (e ? G_j.y : G_j.x)), column = e ? k.y : k.x;
				float &p = P[n][2 * half + e], &a = A[n][2 * half + e];
				p = j + e <= i ? p * (left * (row_P * column)) : 0.0f;
				a = j + e < i ? a * (left * (row_A * column)) : 0.0f;
			}
		}
	}
}

/* A to T, which lies where q was, and P to the record. Of the ten blocks warps 0, 1 and 2 have those of rows 3 (but the last),
 * 2 and 1, warp 3 two of the diagonal. */
template <int PARTS> __device__ void gram_matrices(workspace &w, head_record<PARTS> &to, int warp, int lane)
{
	constexpr int MOST = 3;
	float A[MOST][2][4];
	auto row = [=](int i) { return warp < 3 ? 3 - warp : 3 - 3 * i; };
	auto column = [=](int i) { return warp < 3 ? i : 3 - 3 * i; };
	int count = warp < 2 ? MOST : 2;

#pragma unroll
	for (int i = 0; i < MOST; i++)
		if (i < count) {
			float P[2][4] = {};
#pragma unroll
			for (int n = 0; n < 2; n++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					A[i][n][e] = 0.0f;
			gram(P, A[i], w.q, w.k, row(i), column(i), lane);
			decay(P, A[i], w, row(i), column(i), lane);
			store_split<PARTS>(&to.P[0][lower_block(row(i), column(i))], LOWER, P[0], P[1], lane);
		}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < MOST; i++)
#pragma unroll
		for (int n = 0; n < 2 && i < count; n++)
#pragma unroll
			for (int e = 0; e < 4; e += 2)
				*reinterpret_cast<float2 *>(&w.T[BLOCK * row(i) + e / 2 * 8 + lane / 4][BLOCK * column(i) + 8 * n + lane % 4 * 2]) =
					make_float2(A[i][n][e], A[i][n][e + 1]);
}

/* T_ij factor_j of rows 16m + i and columns 16s + j, 16s + j + 1. */
template <int PARTS> __device__ void split_T(unsigned (&to)[PARTS], workspace &w, int m, int s, int i, int j, const float *factor)
{
	float2 t = *reinterpret_cast<const float2 *>(inverse_at(w.T, m, s, i, j));

	split(to, t.x * factor[BLOCK * s + j], t.y * factor[BLOCK * s + j + 1]);
}

/* U': a warp on 32 columns dv; small products first. */
template <int PARTS> __device__ void make_U(workspace &w, head_record<PARTS> &to, int warp, int lane)
{
	unsigned a[2][BLOCKS][4];

#pragma unroll
	for (int half = 0; half < 2; half++)
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
			mma_form::load_turned(a[half][s], w.v.columns_a(s, 2 * warp + half, lane));
#pragma unroll 1
	for (int m = 0; m < BLOCKS; m++) {
		float d[2][2][4] = {};          /* [half][n][e] */
#pragma unroll
		for (int n = 0; n < 2; n++) {
			unsigned b[BLOCKS][2][PARTS];
#pragma unroll
			for (int s = 0; s < BLOCKS; s++)
#pragma unroll
				for (int k = 0; k < 2 && s <= m; k++)
					split_T(b[s][k], w, m, s, 8 * n + lane / 4, 8 * k + lane % 4 * 2, w.beta);
#pragma unroll
			for (int p = PARTS - 1; p >= 0; p--)
#pragma unroll
				for (int s = 0; s < BLOCKS; s++)
					if (s <= m) {
						mma_form::multiply(d[0][n], a[0][s], b[s][0][p], b[s][1][p], bf16{});
						mma_form::multiply(d[1][n], a[1][s], b[s][0][p], b[s][1][p], bf16{});
					}
		}
#pragma unroll
		for (int half = 0; half < 2; half++) {
			auto &U = to.U[2 * warp + half];
			if constexpr (PARTS == 1)
				U[m][lane] = make_uint4(pair(d[half][0][0], d[half][0][1]), pair(d[half][1][0], d[half][1][1]),
				                        pair(d[half][0][2], d[half][0][3]), pair(d[half][1][2], d[half][1][3]));
			else
#pragma unroll
				for (int n = 0; n < 2; n++)
					store(reinterpret_cast<float *>(&U[2 * m + n][lane]), d[half][n]);
		}
	}
}

/* W: a warp on 32 columns dk; small products first. */
template <int PARTS> __device__ void make_W(workspace &w, head_record<PARTS> &to, int warp, int lane)
{
	unsigned b[2][BLOCKS][4];

#pragma unroll
	for (int half = 0; half < 2; half++)
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
			mma_form::load_turned(b[half][s], w.k.columns_b(s, 2 * warp + half, lane));
#pragma unroll 1
	for (int m = 0; m < BLOCKS; m++) {
		float d[2][2][4] = {};          /* [half][n][e] */
		unsigned a[BLOCKS][4][PARTS];
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
#pragma unroll
			for (int k = 0; k < 4 && s <= m; k++)
				split_T(a[s][k], w, m, s, k % 2 * 8 + lane / 4, k / 2 * 8 + lane % 4 * 2, w.beta_decay_k);
#pragma unroll
		for (int i = PARTS - 1; i >= 0; i--)
#pragma unroll
			for (int s = 0; s < BLOCKS; s++)
				if (s <= m) {
					unsigned part[4] = { a[s][0][i], a[s][1][i], a[s][2][i], a[s][3][i] };
#pragma unroll
					for (int half = 0; half < 2; half++) {
						mma_form::multiply(d[half][0], part, b[half][s][0], b[half][s][1], bf16{});
						mma_form::multiply(d[half][1], part, b[half][s][2], b[half][s][3], bf16{});
					}
				}
#pragma unroll
		for (int half = 0; half < 2; half++)
			store_split<PARTS>(&to.W[0][2 * warp + half][m], BLOCKS * STEPS, d[half][0], d[half][1], lane);
	}
}

enum { BLOCKS_PER_SM = 4 };
static_assert(BLOCKS_PER_SM * (sizeof(workspace) + 1024) <= 228 * 1024, "a block takes 1 KB more of a multiprocessor's 228 KB");

/* Grid: chunks x value heads. */
template <int PARTS> __global__ void __launch_bounds__(WARPS * 32, BLOCKS_PER_SM)
delta_chunks(rule m, tokens<bf16> all, const extent *extents, key_record *keys, head_record<PARTS> *heads)
{
	extern __shared__ __align__(128) char bytes[];
	workspace &w = *reinterpret_cast<workspace *>(bytes);
	extent x = extents[blockIdx.x];
	int h = (int)blockIdx.y, group = m.Hv / m.Hk, hk = h / group;
	int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
	size_t key = ((size_t)x.start * m.Hk + hk) * D;
	head_record<PARTS> &to = heads[(size_t)blockIdx.x * m.Hv + h];

	fetch(w.q, all.q + key, (size_t)m.Hk * D, x.length);
	fetch(w.k, all.k + key, (size_t)m.Hk * D, x.length);
	fetch(w.v, all.v + ((size_t)x.start * m.Hv + h) * D, (size_t)m.Hv * D, x.length);
	mma_form::commit();
	if (warp == 0)
		gates(w, m, x, h, lane);
	mma_form::wait_all_but<0>();
	__syncthreads();
	token_factors(w, to, m, x.length, thread);
	__syncthreads();
	if (h % group == 0)
		store_keys(w, keys[(size_t)blockIdx.x * m.Hk + hk], warp, lane);
	gram_matrices(w, to, warp, lane);
	__syncthreads();
	if (thread < CHUNK)
		invert_blocks(w.T, thread);
	__syncthreads();
	if (warp < BLOCKS - 1)
		substitute(w.T, warp, lane);
	__syncthreads();
	make_U(w, to, warp, lane);
	make_W(w, to, warp, lane);
}

}
#endif
