/* A tile of a row-major matrix [rows,columns] in the registers of a warp or a block: WIDTH lanes
 * across, COLS columns each; 32/WIDTH lanes x WARPS warps down, ROWS rows each. Rows and columns
 * beyond the matrix are held as zeros and never stored. */
#ifndef ETALON_TILE_CUH
#define ETALON_TILE_CUH

#include "gpu/device/device.cuh"

struct place { int row, column; };      /* a thread's first row and column of the matrix */

/* warp: 0 .. WARPS-1; tile: counted along the columns. */
template <int ROWS, int COLS, int WIDTH> __device__ place place_in_tile(int warp, int tile)
{
	int lane = (int)threadIdx.x % 32;

	return { (warp * (32 / WIDTH) + lane / WIDTH) * ROWS, (tile * WIDTH + lane % WIDTH) * COLS };
}

/* S = this thread's part of the matrix at p; WIDE as in load_part, for COLS elements. */
template <bool WIDE, class F, int ROWS, int COLS>
__device__ void load_tile(float (&S)[ROWS][COLS], const F *p, place my, int rows, int columns)
{
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		int valid = my.row + i < rows ? columns - my.column : 0;
		pack<COLS, F> x = load_part<WIDE, COLS>(p + (ptrdiff_t)(my.row + i) * columns + my.column, valid);
#pragma unroll
		for (int j = 0; j < COLS; j++)
			S[i][j] = to_float(x.at[j]);
	}
}

template <bool WIDE, class F, int ROWS, int COLS>
__device__ void store_tile(F *p, const float (&S)[ROWS][COLS], place my, int rows, int columns)
{
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		int valid = my.row + i < rows ? columns - my.column : 0;
		store_part<WIDE>(p + (ptrdiff_t)(my.row + i) * columns + my.column, S[i], valid);
	}
}

/* Sums x over the rows' threads, for all of them. Each WARPS neighbouring warps of the block have a tile of their own,
 * and so a part [WARPS][WIDTH][N] in shared memory, used by no other sum of the kernel; NULL for one warp. */
template <int WIDTH, int WARPS, int N> __device__ void sum_rows(float (&x)[N], float *part)
{
	int warp = (int)threadIdx.x / 32 % WARPS, across = (int)threadIdx.x % WIDTH;

#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = lane_sum(x[i], WIDTH, 32);
	if (WARPS == 1)
		return;
	if (threadIdx.x % 32 < WIDTH)
#pragma unroll
		for (int i = 0; i < N; i++)
			part[(warp * WIDTH + across) * N + i] = x[i];
	__syncthreads();
#pragma unroll
	for (int i = 0; i < N; i++) {
		x[i] = 0.0f;
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			x[i] += part[(w * WIDTH + across) * N + i];
	}
}

#endif
