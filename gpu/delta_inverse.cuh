/* T = (I + A)^-1 of a chunk in f32, A [64,64] strictly lower, in place in shared memory: blocks of 16 x 16 by substitution, then
 * merged in twos. Blocks above the diagonal are neither read nor written. */
#ifndef ETALON_DELTA_INVERSE_CUH
#define ETALON_DELTA_INVERSE_CUH

#include "gpu/delta_records.cuh"

namespace chunked {

enum { STRIDE = CHUNK + 8, HALF_STRIDE = CHUNK / 2 + 4 };

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

/* Within the blocks on the diagonal: a thread on a column of a block, sixteen threads of one warp on a block. */
__device__ inline void invert_blocks(float (*T)[STRIDE], int thread)
{
	int first = thread / BLOCK * BLOCK, column = thread % BLOCK;
	float t[BLOCK];

#pragma unroll
	for (int i = 0; i < BLOCK; i++) {
		t[i] = i == column;
#pragma unroll
		for (int p = 0; p < i; p++)
			t[i] -= T[first + i][first + p] * t[p];
	}
	__syncwarp();
#pragma unroll
	for (int i = 0; i < BLOCK; i++)
		T[first + i][first + column] = t[i];
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

/* The two merges, by all threads; what each wrote is seen by all. */
__device__ inline void merge_all(float (*T)[STRIDE], float (*X)[HALF_STRIDE], int thread)
{
	int pair = thread / 64 * 2 * BLOCK;

	merge_blocks<BLOCK, 64>(reinterpret_cast<float (*)[STRIDE]>(&T[pair][pair]), X + thread / 64 * BLOCK, thread % 64);
	merge_blocks<2 * BLOCK, 128>(T, X, thread);
}

}
#endif
