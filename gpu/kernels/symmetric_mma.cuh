/* The symmetric product by mma.sync (m16n8k16, f16 or bf16, sums in f32): any GPU from sm_80 on.
 *
 * A block of 8 warps on a tile of 128 x 128: 2 warps down, 4 across, 64 x 32 elements each. Slices
 * of 64 columns of A and B stream through a ring of STAGES in shared memory by cp.async. In a
 * slice, a row is 8 chunks of 16 bytes; chunk c of row r is kept at c ^ (r % 8), so that the eight
 * rows that ldmatrix reads together lie in different banks. */
#ifndef ETALON_SYMMETRIC_MMA_CUH
#define ETALON_SYMMETRIC_MMA_CUH

#include "gpu/device/mma.cuh"
#include "gpu/kernels/symmetric.cuh"

namespace mma_form {

enum { TILE = 128, DEPTH = 64, STAGES = 3, THREADS = 256, CHUNKS = DEPTH / 8 };

template <class F> struct alignas(128) slice {
	F at[TILE * DEPTH];

	__device__ F *chunk(int row, int c) { return at + row * DEPTH + (c ^ row % 8) * 8; }
};
template <class F> union memory {
	struct { slice<F> A[STAGES], B[STAGES]; } in;
	staged_tile<F, TILE, TILE> out;
};

/* Rows [row, row + TILE) and columns [k, k + DEPTH) of X, zeros beyond the matrix. */
template <class F> __device__ void fetch(slice<F> &to, const F *X, int row, int k, const symmetric_product<F> &p)
{
#pragma unroll
	for (int i = (int)threadIdx.x; i < TILE * CHUNKS; i += THREADS) {
		int r = i / CHUNKS, c = i % CHUNKS;
		bool valid = row + r < p.s && k + c * 8 < p.K;
		copy_chunk(to.chunk(r, c), valid ? X + (size_t)(row + r) * p.ld_in + k + c * 8 : X, valid);
	}
}

/* sum [64,32] += A B' over one slice. */
template <class F> __device__ void multiply_slice(float (&sum)[4][4][4], slice<F> &A, slice<F> &B, int row, int column)
{
	int lane = (int)threadIdx.x % 32;

#pragma unroll
	for (int k = 0; k < CHUNKS; k += 2) {
		unsigned a[4][4], b[2][4];
#pragma unroll
		for (int i = 0; i < 4; i++)     /* matrices: rows 0-7, 8-15 of chunk k, then of k + 1 */
			load_matrices(a[i], A.chunk(row + i * 16 + lane % 16, k + lane / 16));
#pragma unroll
		for (int j = 0; j < 2; j++)     /* matrices: chunks k, k + 1 of rows 0-7, then of 8-15 */
			load_matrices(b[j], B.chunk(column + j * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2));
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int j = 0; j < 4; j++)
				multiply(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1], F{});
	}
}

/* Grid: lower tiles, batch. */
template <class F> __global__ void __launch_bounds__(THREADS, 2) symmetric_mma(symmetric_product<F> all)
{
	extern __shared__ __align__(128) char bytes[];
	memory<F> &m = *reinterpret_cast<memory<F> *>(bytes);
	symmetric_product<F> p = one_of(all, blockIdx.y);
	corner at = lower_tile<TILE, TILE>((int)blockIdx.x, p.s);
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	int row = warp / 4 * 64, column = warp % 4 * 32, slices = (p.K + DEPTH - 1) / DEPTH;
	float sum[4][4][4] = {};

	for (int n = 0; n < STAGES - 1; n++) {
		if (n < slices) {
			fetch(m.in.A[n], p.A, at.row, n * DEPTH, p);
			fetch(m.in.B[n], p.B, at.column, n * DEPTH, p);
		}
		commit();
	}
	for (int n = 0; n < slices; n++) {
		int ahead = n + STAGES - 1;

		wait_all_but<STAGES - 2>();
		__syncthreads();        /* slice n is there, and all are done with slice n - 1 */
		if (ahead < slices) {
			fetch(m.in.A[ahead % STAGES], p.A, at.row, ahead * DEPTH, p);
			fetch(m.in.B[ahead % STAGES], p.B, at.column, ahead * DEPTH, p);
		}
		commit();
		multiply_slice(sum, m.in.A[n % STAGES], m.in.B[n % STAGES], row, column);
	}
	wait_all_but<0>();
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
#pragma unroll
			for (int h = 0; h < 2; h++) {
				int r = row + i * 16 + h * 8 + lane / 4, c = column + j * 8 + lane % 4 * 2;
				float &x = sum[i][j][2 * h], &y = sum[i][j][2 * h + 1];
				finish(p, at.row + r, at.column + c, earlier(p, at.row + r, at.column + c), x, y);
				m.out.put(r, c, x, y);
			}
	__syncthreads();
	store_tile<THREADS>(p, at, m.out.straight, m.out.turned);
}

template <class F> cudaError_t launch_symmetric(const symmetric_product<F> &p, cudaStream_t stream)
{
	cudaError_t status = cudaFuncSetAttribute(symmetric_mma<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
	                                          sizeof(memory<F>));

	if (status == cudaSuccess)
		symmetric_mma<F><<<dim3(lower_tiles<TILE, TILE>(p.s), p.batch), THREADS, sizeof(memory<F>), stream>>>(p);
	return status;
}

}
#endif
