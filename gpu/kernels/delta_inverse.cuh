/* T = (I + A)^-1 of a chunk, A [64,64] strictly lower, in blocks of 16 x 16: those on the diagonal by substitution in f32, in
 * place; those below by products of FINE parts of bf16, kept above the diagonal: T_rs, s < r, in the place of block (s, r),
 * since A is read until all are done. */
#ifndef ETALON_DELTA_INVERSE_CUH
#define ETALON_DELTA_INVERSE_CUH

#include "gpu/kernels/delta_records.cuh"

namespace chunked {

enum { STRIDE = CHUNK + 8 };

/* Element (i, j), j <= i, i in block row m and j in block column s, of T. */
__device__ inline float *inverse_at(float (*T)[STRIDE], int m, int s, int i, int j) { return &T[BLOCK * s + i][BLOCK * m + j]; }

/* Block `warp` on the diagonal, by that warp: a lane on a column. */
__device__ inline void invert_block(float (*T)[STRIDE], int warp, int lane)
{
	int first = warp * BLOCK;
	float t[BLOCK];

	if (lane >= BLOCK)
		return;
#pragma unroll
	for (int i = 0; i < BLOCK; i++) {
		t[i] = i == lane;
#pragma unroll
		for (int p = 0; p < i; p++)
			t[i] -= T[first + i][first + p] * t[p];
	}
	__syncwarp(0xffffu);
#pragma unroll
	for (int i = 0; i < BLOCK; i++)
		T[first + i][first + lane] = t[i];
}

/* A block of T or A, row-major, as parts of an operand b of its rows. */
template <int FINE> __device__ void rows_as_b(unsigned (&b)[2][2][FINE], const float (*block_of)[STRIDE], int lane)
{
#pragma unroll
	for (int n = 0; n < 2; n++)
#pragma unroll
		for (int k = 0; k < 2; k++) {
			float2 x = *reinterpret_cast<const float2 *>(&block_of[8 * n + lane / 4][8 * k + lane % 4 * 2]);
			split(b[n][k], x.x, x.y);
		}
}

/* large + small += a b', products of smaller parts to small. */
template <int FINE> __device__ void multiply_fine(float (&large)[2][4], float (&small)[2][4], const unsigned (&a)[FINE][1][4],
                                                   const unsigned (&b)[2][2][FINE])
{
#pragma unroll
	for (int order = FINE - 1; order >= 0; order--)
#pragma unroll
		for (int p = order; p >= 0; p--)
#pragma unroll
			for (int n = 0; n < 2; n++)
				mma_form::multiply(order ? small[n] : large[n], a[p][0], b[n][0][order - p], b[n][1][order - p], bf16{});
}

/* Blocks below the diagonal of block column s < BLOCKS - 1, by a warp: T_rs = -T_rr sum_{s<=p<r} A_rp T_ps, turned. */
template <int FINE> __device__ void substitute(float (*T)[STRIDE], int s, int lane)
{
	unsigned column[BLOCKS - 1][FINE][1][4], b[2][2][FINE];
	float first[2][4];

#pragma unroll
	for (int n = 0; n < 2; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			first[n][e] = T[BLOCK * s + 8 * n + lane % 4 * 2 + e % 2][BLOCK * s + e / 2 * 8 + lane / 4];
	as_a(column[0], first);
#pragma unroll
	for (int i = 0; i < BLOCKS - 1; i++) {
		int r = s + 1 + i;
		float large[2][4] = {}, small[2][4] = {};
		unsigned a[FINE][1][4];
		if (r >= BLOCKS)
			break;
#pragma unroll
		for (int d = 0; d <= i; d++) {
			rows_as_b(b, reinterpret_cast<const float (*)[STRIDE]>(&T[BLOCK * r][BLOCK * (s + d)]), lane);
			multiply_fine(large, small, column[d], b);
		}
#pragma unroll
		for (int n = 0; n < 2; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				large[n][e] = -(large[n][e] + small[n][e]);
		as_a(a, large);
#pragma unroll
		for (int n = 0; n < 2; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				large[n][e] = small[n][e] = 0.0f;
		rows_as_b(b, reinterpret_cast<const float (*)[STRIDE]>(&T[BLOCK * r][BLOCK * r]), lane);
		multiply_fine(large, small, a, b);
#pragma unroll
		for (int n = 0; n < 2; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				large[n][e] += small[n][e];
				*inverse_at(T, r, s, 8 * n + lane % 4 * 2 + e % 2, e / 2 * 8 + lane / 4) = large[n][e];
			}
		if (i + 1 < BLOCKS - 1)
			as_a(column[i + 1 < BLOCKS - 1 ? i + 1 : 0], large);
	}
}

}
#endif
