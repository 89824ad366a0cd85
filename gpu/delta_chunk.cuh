/* The gated delta rule in chunks of 64 tokens on tensor cores, first part: what does not depend on the state, for all chunks
 * at once. Per chunk and value head, G the running sum of g and L the chunk's length:
 *
 *   A_ij = beta_i e^(G_i - G_j) k_i·k_j  (j < i),    T = (I + A)^-1,
 *   U = T (beta v),    W = T (beta e^G k),    P_ij = e^(G_i - G_j) q_i·k_j  (j <= i).
 *
 * Operands of a product on tensor cores are sums of PARTS numbers in bf16, those that follow the remainders; of the products of
 * two such, those of parts i and j with i + j >= PARTS are left out.
 *   PARTS 1: k after its norm, beta v, beta e^G k, T, U and W are rounded to bf16.
 *   PARTS 3: 24 bits. q, k and v stand as they were given, in bf16: their norms, gates and beta are factors of rows of P and of
 *   columns of T, and nothing is rounded but in f32.
 * A and T are f32: T's blocks of 16 x 16 by substitution, then merged in twos.
 *
 * Records are in the order in which a warp of the second part holds them (mma.cuh), 16 bytes a lane. */
#ifndef ETALON_DELTA_CHUNK_CUH
#define ETALON_DELTA_CHUNK_CUH

#include "gpu/delta_rule.cuh"
#include "gpu/mma.cuh"

namespace chunked {

enum { CHUNK = 64, D = 128, WARPS = 4, BLOCK = 16, BLOCKS = CHUNK / BLOCK, STEPS = D / 16, LOWER = BLOCKS * (BLOCKS + 1) / 2 };

/* Tokens [start, start + length) of the call, length 1 .. CHUNK. */
struct extent { int64_t start; int length; };

/* Of a key head and chunk. q: b of tokens 16m + {0,8} by dk 16j; k: b of dk 16p + {0,8} by tokens 16s, zeros past the end. */
struct alignas(128) key_record {
	uint4 q[BLOCKS][STEPS][32], k[BLOCKS][STEPS][32];
};

/* Of a value head and chunk. W: b of tokens 16m + {0,8} by dk 16j; P: b of tokens i 16m + {0,8} by tokens j 16s, s <= m.
 * read: e^G, times q's norm; write: e^(G_L - G), times k's norm if k stands as given; end: e^G_L.
 * U: sums of dv 16d by tokens 8n, f32, or two n in bf16. */
template <int PARTS> struct alignas(128) head_record {
	uint4 W[PARTS][BLOCKS][STEPS][32], P[PARTS][LOWER][32];
	float read[CHUNK], write[CHUNK], end[4];
	uint4 U[D / 16][PARTS == 1 ? BLOCKS : 2 * BLOCKS][32];
};

__device__ constexpr int lower_block(int m, int s) { return m * (m + 1) / 2 + s; }

/* x and y as sums of PARTS numbers in bf16. */
template <int PARTS> __device__ void split(unsigned (&to)[PARTS], float x, float y)
{
#pragma unroll
	for (int p = 0; p < PARTS; p++) {
		__nv_bfloat162 z = __floats2bfloat162_rn(x, y);
		memcpy(&to[p], &z, sizeof z);
		x -= __low2float(z);            /* exact */
		y -= __high2float(z);
	}
}

/* One part of sums of neighbouring columns as b of the rows. */
template <int PARTS> __device__ void store_split(uint4 *to, int stride, const float (&x)[4], const float (&y)[4])
{
	unsigned a[PARTS], b[PARTS], c[PARTS], d[PARTS];

	split(a, x[0], x[1]);
	split(b, y[0], y[1]);
	split(c, x[2], x[3]);
	split(d, y[2], y[3]);
#pragma unroll
	for (int p = 0; p < PARTS; p++)
		to[p * stride] = make_uint4(a[p], b[p], c[p], d[p]);
}

/* Rows of 128 in 16 pieces of 16 bytes; piece c of row r is kept at c ^ r % 8. */
struct alignas(128) tile {
	bf16 at[CHUNK * D];

	__device__ bf16 *piece(int row, int c) { return at + row * D + (c ^ row % 8) * 8; }
	/* a of rows 16m by columns 16j; b of rows 16m + {0,8} by columns 16j; b of columns 16p + {0,8} by rows 16s; a of columns 16d by rows 16s */
	__device__ bf16 *rows_a(int m, int j, int lane) { return piece(16 * m + lane % 16, 2 * j + lane / 16); }
	__device__ bf16 *rows_b(int m, int j, int lane) { return piece(16 * m + lane / 16 * 8 + lane % 8, 2 * j + lane / 8 % 2); }
	__device__ bf16 *columns_b(int s, int p, int lane) { return piece(16 * s + lane / 8 % 2 * 8 + lane % 8, 2 * p + lane / 16); }
	__device__ bf16 *columns_a(int s, int d, int lane) { return piece(16 * s + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2); }
};

enum { STRIDE = CHUNK + 8, HALF_STRIDE = CHUNK / 2 + 4 };

struct workspace {
	tile k, v;
	union {
		tile q;
		struct { float T[CHUNK][STRIDE], X[CHUNK / 2][HALF_STRIDE]; };  /* A, then T; blocks above the diagonal are not used */
	};
	float G[CHUNK], beta[CHUNK], q_norm[CHUNK], k_norm[CHUNK], beta_k[CHUNK], beta_decay_k[CHUNK];
};

__device__ inline void fetch(tile &to, const bf16 *from, size_t row_stride, int length)
{
	for (int i = (int)threadIdx.x; i < CHUNK * D / 8; i += WARPS * 32) {
		int row = i / (D / 8), c = i % (D / 8);
		mma_form::copy_chunk(to.piece(row, c), from + (row < length ? row : 0) * row_stride + c * 8, row < length);
	}
}

/* G and beta, by one warp; past the end nothing decays and nothing is written. */
__device__ inline void gates(workspace &w, const rule &m, const extent &x, int h, int lane)
{
	for (int t = lane; t < CHUNK; t += 32) {
		size_t at = (size_t)(x.start + t) * m.Hv + h;
		w.G[t] = w.beta[t] = 0.0f;
		if (t < x.length) {
			if (m.gated)
				w.G[t] = log_decay_of(m, at, h);
			w.beta[t] = beta_of(m, at);
		}
	}
	__syncwarp();
	float first = w.G[2 * lane], sum = first + w.G[2 * lane + 1];
	for (int d = 1; d < 32; d *= 2) {
		float below = __shfl_up_sync(0xffffffffu, sum, d);
		if (lane >= d)
			sum += below;
	}
	float before = __shfl_up_sync(0xffffffffu, sum, 1);
	w.G[2 * lane] = (lane ? before : 0.0f) + first;
	w.G[2 * lane + 1] = sum;
}

/* (sum x^2 + eps)^-1/2 of a row, by two neighbouring lanes with half a row each. */
__device__ inline float norm_of(tile &x, int row, int half, float eps)
{
	float squares = 0.0f;

#pragma unroll
	for (int c = 0; c < 8; c++) {
		float z[8];
		load(z, x.piece(row, half * 8 + c));
#pragma unroll
		for (int i = 0; i < 8; i++)
			squares += z[i] * z[i];
	}
	return 1.0f / sqrtf(lane_sum(squares, 1, 2) + eps);
}

__device__ inline void scale_half_row(tile &x, int row, int half, float factor)
{
#pragma unroll
	for (int c = 0; c < 8; c++) {
		float z[8];
		load(z, x.piece(row, half * 8 + c));
#pragma unroll
		for (int i = 0; i < 8; i++)
			z[i] *= factor;
		store(x.piece(row, half * 8 + c), z);
	}
}

/* d [16,8] of tokens 16m by tokens 8n, n < 2(m + 1): x k' */
__device__ inline void gram(float (&d)[2 * BLOCKS][4], tile &x, tile &k, int m, int lane)
{
#pragma unroll
	for (int j = 0; j < STEPS; j++) {
		unsigned a[4], b[4];
		mma_form::load_matrices(a, x.rows_a(m, j, lane));
#pragma unroll
		for (int s = 0; s < BLOCKS; s++) {
			if (s <= m) {
				mma_form::load_matrices(b, k.rows_b(s, j, lane));
				mma_form::multiply(d[2 * s], a, b[0], b[1], bf16{});
				mma_form::multiply(d[2 * s + 1], a, b[2], b[3], bf16{});
			}
		}
	}
}

/* Sums [16,8] of tokens 16m by tokens 8n times e^(G_i - G_j) row_i column_j; 0 where j > i, and where j = i if strict. */
template <bool STRICT>
__device__ void decayed(float (&d)[4], const workspace &w, int m, int n, int lane, const float *row, const float *column)
{
#pragma unroll
	for (int e = 0; e < 4; e++) {
		int i = 16 * m + e / 2 * 8 + lane / 4, j = 8 * n + lane % 4 * 2 + e % 2;
		d[e] = j + STRICT <= i ? d[e] * (expf(w.G[i] - w.G[j]) * (row[i] * column[j])) : 0.0f;
	}
}

/* A, left to this warp's rows 16 warp of T, and P to the record, of rows 16 (3 - warp). T lies where q was: all are done with it. */
template <int PARTS> __device__ void gram_matrices(workspace &w, head_record<PARTS> &to, int warp, int lane)
{
	float d[2 * BLOCKS][4] = {};
	int m = BLOCKS - 1 - warp;

	gram(d, w.q, w.k, m, lane);
#pragma unroll
	for (int s = 0; s < BLOCKS; s++)
		if (s <= m) {
			decayed<false>(d[2 * s], w, m, 2 * s, lane, w.q_norm, w.k_norm);
			decayed<false>(d[2 * s + 1], w, m, 2 * s + 1, lane, w.q_norm, w.k_norm);
			store_split<PARTS>(&to.P[0][lower_block(m, s)][lane], LOWER * 32, d[2 * s], d[2 * s + 1]);
		}
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			d[n][e] = 0.0f;
	gram(d, w.k, w.k, warp, lane);
	__syncthreads();
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++)
		if (n < 2 * (warp + 1)) {
			decayed<true>(d[n], w, warp, n, lane, w.beta_k, w.k_norm);
#pragma unroll
			for (int e = 0; e < 4; e += 2)
				*reinterpret_cast<float2 *>(&w.T[16 * warp + e / 2 * 8 + lane / 4][8 * n + lane % 4 * 2]) = make_float2(d[n][e], d[n][e + 1]);
		}
}

/* sum[i] of row r and columns c + i of A B, over columns [first, last) of A, multiples of 4. */
template <int N> __device__ void row_product(float (&sum)[N], const float *A_row, const float *B, int stride, int first, int last)
{
	for (int p = first; p < last; p += 4) {
		float a[4], b[4];
		load(a, A_row + p);
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int n = 0; n < N; n += 4) {
				load(b, B + (p + i) * stride + n);
#pragma unroll
				for (int k = 0; k < 4; k++)
					sum[n + k] += a[i] * b[k];
			}
	}
}

/* T = (I + A)^-1 within the blocks on the diagonal: a thread on a column of a block, sixteen threads of one warp on a block. */
__device__ inline void invert_blocks(workspace &w, int thread)
{
	int first = thread / BLOCK * BLOCK, column = thread % BLOCK;
	float t[BLOCK];

#pragma unroll
	for (int i = 0; i < BLOCK; i++) {
		t[i] = i == column;
#pragma unroll
		for (int p = 0; p < i; p++)
			t[i] -= w.T[first + i][first + p] * t[p];
	}
	__syncwarp();
#pragma unroll
	for (int i = 0; i < BLOCK; i++)
		w.T[first + i][first + column] = t[i];
}

/* The lower left block of the inverse of [[T1, 0], [A, T2]] of size 2 SIZE, in place: -T2 A T1, by `lanes` threads of which this
 * is `lane`, which have X for themselves. */
template <int SIZE, int LANES> __device__ void merge_blocks(float (*T)[STRIDE], float (*X)[HALF_STRIDE], int lane)
{
	constexpr int N = SIZE * SIZE / LANES, ACROSS = SIZE / N;
	int r = lane / ACROSS, c = lane % ACROSS * N, half = c / BLOCK * BLOCK;
	float sum[N] = {};

	row_product(sum, T[SIZE + r], &T[0][c], STRIDE, half, SIZE);
	store(&X[r][c], sum);
	__syncthreads();
#pragma unroll
	for (int i = 0; i < N; i++)
		sum[i] = 0.0f;
	row_product(sum, &T[SIZE + r][SIZE], &X[0][c], HALF_STRIDE, 0, r / BLOCK * BLOCK + BLOCK);
#pragma unroll
	for (int i = 0; i < N; i++)
		sum[i] = -sum[i];
	store(&T[SIZE + r][c], sum);
	__syncthreads();
}

/* T_ij factor_j of rows i and columns j, j + 1. */
template <int PARTS> __device__ void split_T(unsigned (&to)[PARTS], const workspace &w, int i, int j, const float *factor)
{
	float2 t = *reinterpret_cast<const float2 *>(&w.T[i][j]);

	if (PARTS > 1)
		split(to, t.x * factor[j], t.y * factor[j + 1]);
	else
		split(to, t.x, t.y);
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
					split_T(b[s][k], w, 16 * m + 8 * n + lane / 4, 16 * s + 8 * k + lane % 4 * 2, w.beta);
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
				store_split<1>(&U[m][lane], 0, d[half][0], d[half][1]);
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
#pragma unroll 1
	for (int m = 0; m < BLOCKS; m++) {
		unsigned a[BLOCKS][4][PARTS];
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
#pragma unroll
			for (int k = 0; k < 4 && s <= m; k++)
				split_T(a[s][k], w, 16 * m + k % 2 * 8 + lane / 4, 16 * s + k / 2 * 8 + lane % 4 * 2, w.beta_decay_k);
#pragma unroll
		for (int p = 2 * warp; p < 2 * warp + 2; p++) {
			float d[2][4] = {};
			unsigned b[BLOCKS][4];
#pragma unroll
			for (int s = 0; s < BLOCKS; s++)
				if (s <= m)
					mma_form::load_turned(b[s], w.k.columns_b(s, p, lane));
#pragma unroll
			for (int i = PARTS - 1; i >= 0; i--)
#pragma unroll
				for (int s = 0; s < BLOCKS; s++)
					if (s <= m) {
						unsigned part[4] = { a[s][0][i], a[s][1][i], a[s][2][i], a[s][3][i] };
						mma_form::multiply(d[0], part, b[s][0], b[s][1], bf16{});
						mma_form::multiply(d[1], part, b[s][2], b[s][3], bf16{});
					}
			store_split<PARTS>(&to.W[0][m][p][lane], BLOCKS * STEPS * 32, d[0], d[1]);
		}
	}
}

__device__ inline void store_keys(workspace &w, key_record &to, int warp, int lane)
{
	unsigned x[4];

	for (int j = 0; j < STEPS; j++) {
		mma_form::load_matrices(x, w.q.rows_b(warp, j, lane));
		to.q[warp][j][lane] = make_uint4(x[0], x[1], x[2], x[3]);
		mma_form::load_turned(x, w.k.columns_b(warp, j, lane));
		to.k[warp][j][lane] = make_uint4(x[0], x[1], x[2], x[3]);
	}
}

/* Norms, and what else is one number a token. PARTS 1: k is normalised and rounded in place, and its factor is 1. */
template <int PARTS> __device__ void token_factors(workspace &w, head_record<PARTS> &to, const rule &m, int length, int thread)
{
	int t = thread / 2, half = thread % 2;
	float q = m.l2norm ? norm_of(w.q, t, half, m.l2_eps) : 1.0f, k = m.l2norm ? norm_of(w.k, t, half, m.l2_eps) : 1.0f;
	if (t >= length)
		q = k = 0.0f;           /* l2_eps may be 0 */
	float decay = expf(w.G[t]), left = expf(w.G[CHUNK - 1] - w.G[t]);

	if (PARTS == 1 && m.l2norm) {
		scale_half_row(w.k, t, half, k);
		k = 1.0f;
	}
	if (half)
		return;
	w.q_norm[t] = q;
	w.k_norm[t] = k;
	w.beta_k[t] = w.beta[t] * k;
	w.beta_decay_k[t] = w.beta[t] * decay * k;
	to.read[t] = decay * q;
	to.write[t] = left * k;
	if (t == 0)
		to.end[0] = expf(w.G[CHUNK - 1]);
}

/* Grid: chunks x value heads. */
enum { BLOCKS_PER_SM = 4 };      /* a workspace is a quarter of 228 KB, 1 KB of each being the system's */

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
		invert_blocks(w, thread);
	if (PARTS == 1) {
		scale_half_row(w.v, thread / 2, thread % 2, w.beta[thread / 2]);
		scale_half_row(w.k, thread / 2, thread % 2, w.beta_decay_k[thread / 2]);
	}
	__syncthreads();
	int pair = thread / 64 * 2 * BLOCK;
	merge_blocks<BLOCK, 64>(reinterpret_cast<float (*)[STRIDE]>(&w.T[pair][pair]), w.X + thread / 64 * BLOCK, thread % 64);
	merge_blocks<2 * BLOCK, 128>(w.T, w.X, thread);
	make_U(w, to, warp, lane);
	make_W(w, to, warp, lane);
}

}
#endif
