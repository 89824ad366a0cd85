/* The symmetric product of f32 matrices by fused multiply-adds: no tensor core sums products of
 * f32. A block of 256 threads on a tile of 64 x 64, 4 x 4 elements a thread; sums run down K. */
#ifndef ETALON_SYMMETRIC_FMA_CUH
#define ETALON_SYMMETRIC_FMA_CUH

#include "gpu/kernels/symmetric.cuh"

namespace fma_form {

enum { TILE = 64, DEPTH = 16, THREADS = 256 };

/* A slice of TILE rows and DEPTH columns, turned: slice[k][row]. The row is padded by four, which
 * keeps its pieces of 16 bytes aligned. */
struct slice { float at[DEPTH][TILE + 4]; };

/* This thread's four elements of row `row` from column k; zeros beyond the matrix. */
__device__ inline pack<4, float> fetch(const float *X, int row, int k, int rows, int ld, int K)
{
	return load_part<true, 4>(X + (size_t)row * ld + k, row < rows && k < K ? 4 : 0);
}

__device__ inline void put(slice &to, const pack<4, float> &x, int row, int k)
{
#pragma unroll
	for (int j = 0; j < 4; j++)
		to.at[k + j][row] = x.at[j];
}

/* Grid: lower tiles, batch. */
static __global__ void __launch_bounds__(THREADS) symmetric_fma(symmetric_product<float> all)
{
	__shared__ union { struct { slice A, B; } in; staged_tile<float, TILE, TILE> out; } memory;
	symmetric_product<float> p = one_of(all, blockIdx.y);
	corner at = lower_tile<TILE, TILE>((int)blockIdx.x, p.s);
	int thread = (int)threadIdx.x, my_row = thread / 16 * 4, my_column = thread % 16 * 4;
	int load_row = thread / 4, load_k = thread % 4 * 4;
	float sum[4][4] = {};

	pack<4, float> a = fetch(p.A, at.row + load_row, load_k, p.s, p.ld_in, p.K);
	pack<4, float> b = fetch(p.B, at.column + load_row, load_k, p.s, p.ld_in, p.K);
	for (int k = 0; k < p.K; k += DEPTH) {
		put(memory.in.A, a, load_row, load_k);
		put(memory.in.B, b, load_row, load_k);
		__syncthreads();
		a = fetch(p.A, at.row + load_row, k + DEPTH + load_k, p.s, p.ld_in, p.K);
		b = fetch(p.B, at.column + load_row, k + DEPTH + load_k, p.s, p.ld_in, p.K);
#pragma unroll
		for (int d = 0; d < DEPTH; d++) {
			float x[4], y[4];
			load(x, &memory.in.A.at[d][my_row]);
			load(y, &memory.in.B.at[d][my_column]);
#pragma unroll
			for (int i = 0; i < 4; i++)
#pragma unroll
				for (int j = 0; j < 4; j++)
					sum[i][j] += x[i] * y[j];
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j += 2) {
			int r = at.row + my_row + i, c = at.column + my_column + j;
			finish(p, r, c, earlier(p, r, c), sum[i][j], sum[i][j + 1]);
			memory.out.put(my_row + i, my_column + j, sum[i][j], sum[i][j + 1]);
		}
	__syncthreads();
	store_tile<THREADS>(p, at, memory.out.straight, memory.out.turned);
}

inline cudaError_t launch_symmetric(const symmetric_product<float> &p, cudaStream_t stream)
{
	symmetric_fma<<<dim3(lower_tiles<TILE, TILE>(p.s), p.batch), THREADS, 0, stream>>>(p);
	return cudaSuccess;
}

}
#endif
