/* What the two parts of the chunked gated delta rule hand on: records in the order in which a warp of the second part holds them
 * (mma.cuh), 16 bytes a lane; numbers split into parts of bf16; tiles in shared memory. */
#ifndef ETALON_DELTA_RECORDS_CUH
#define ETALON_DELTA_RECORDS_CUH

#include <type_traits>

#include "gpu/device/mma.cuh"

namespace chunked {

enum { CHUNK = 64, D = 128, WARPS = 4, BLOCK = 16, BLOCKS = CHUNK / BLOCK, STEPS = D / 16, LOWER = BLOCKS * (BLOCKS + 1) / 2 };

/* Tokens [start, start + length) of the call, length 1 .. CHUNK. */
struct extent { int64_t start; int length; };

using matrix = unsigned[32];     /* 8 x 8 in bf16, a word a lane as of b: lane l has (l/4, 2(l%4) + {0,1}) */
using block = matrix[4];        /* 16 x 16: rows 0-7 of columns 0-7, of columns 8-15, rows 8-15 of the same */

/* [64,128] as operands of wgmma: two halves of 64 columns, rows of 128 bytes in pieces of 16, piece c of row r at c ^ r % 8. */
struct alignas(1024) tile {
	bf16 at[2][CHUNK][D / 2];

	__device__ bf16 *piece(int row, int c) { return &at[c / 8][row][(c % 8 ^ row % 8) * 8]; }
};

/* Of a key head and chunk, as they were given; zeros past the end. */
struct key_record { tile q, k; };

/* Of a value head and chunk. W: tokens 16m by dk 16j; P: tokens i 16m by tokens j 16s, s <= m.
 * read: e^G, times q's norm; write: e^(G_L - G), times k's norm; end: e^G_L.
 * U: tokens 16m by dv 16d, in bf16; or, where PARTS is 2, in f32: row r of a matrix is the r/2 + r%2*4-th, so that a warp reads
 * a column's two neighbours from all banks. */
template <int PARTS> using values = std::conditional_t<PARTS == 1, block, float[4][64]>;
template <int PARTS> struct alignas(128) head_record {
	block W[PARTS][STEPS][BLOCKS], P[PARTS][LOWER];
	float read[CHUNK], write[CHUNK], end[4];
	values<PARTS> U[D / 16][BLOCKS];
};

__device__ constexpr int lower_block(int m, int s) { return s * (2 * BLOCKS + 1 - s) / 2 + m - s; }

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

/* Sums of neighbouring tiles [16,8] as parts of a [16,16]. */
template <int PARTS, int N, int TILES> __device__ void as_a(unsigned (&a)[PARTS][N][4], const float (&x)[TILES][4])
{
	static_assert(TILES == 2 * N, "two tiles each");
#pragma unroll
	for (int n = 0; n < N; n++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			unsigned part[PARTS];
			split(part, x[2 * n + i / 2][i % 2 * 2], x[2 * n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
			for (int p = 0; p < PARTS; p++)
				a[p][n][i] = part[p];
		}
}

__device__ inline unsigned pair(float x, float y)
{
	unsigned one[1];

	split(one, x, y);
	return one[0];
}

/* The parts of sums x and y of neighbouring columns, each part as a block `stride` after the one before. */
template <int PARTS> __device__ void store_split(block *to, int stride, const float (&x)[4], const float (&y)[4], int lane)
{
	unsigned word[4][PARTS];

	split(word[0], x[0], x[1]);
	split(word[1], y[0], y[1]);
	split(word[2], x[2], x[3]);
	split(word[3], y[2], y[3]);
#pragma unroll
	for (int p = 0; p < PARTS; p++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			to[p * stride][i][lane] = word[i][p];
}

}
#endif
