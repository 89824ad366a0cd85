/* The symmetric product: D = alpha A B' + beta C + diagonal I of which only the lower triangle is
 * computed; the upper one is its mirror, to the bit.
 *
 * A, B [batch,s,K] with rows of ld_in elements; C, D [batch,s,s] with rows of ld elements; matrices
 * of a batch follow each other. C symmetric, or NULL with beta = 0. D is none of A, B, C.
 * A B' is taken to be symmetric in exact arithmetic: X X', or a product of polynomials of one
 * symmetric matrix (then B' = B).
 *
 * ld_in and ld are multiples of 8, bases are 16-byte aligned, and elements between the end of a
 * row and ld are zeros, in D too.
 *
 * Numbers: sums over K in f32, alpha AB' + beta C + diagonal in f32, one rounding to F.
 *
 * Here: what the kernels (symmetric_fma.cuh, symmetric_mma.cuh, symmetric_wgmma.cuh) share. */
#ifndef ETALON_SYMMETRIC_CUH
#define ETALON_SYMMETRIC_CUH

#include "gpu/device.cuh"

template <class F> struct symmetric_product {
	const F *A, *B, *C;
	F *D;
	int s, K, ld_in, ld, batch;
	float alpha, beta, diagonal;
};

/* The operands of matrix m of the batch. */
template <class F> __device__ symmetric_product<F> one_of(symmetric_product<F> p, size_t m)
{
	p.A += m * p.s * p.ld_in;
	p.B += m * p.s * p.ld_in;
	p.C = p.C ? p.C + m * p.s * p.ld : nullptr;
	p.D += m * p.s * p.ld;
	return p;
}

/* ---- tiles of BM x BN that touch the lower triangle, row of tiles after row of tiles ---- */

struct corner { int row, column; };     /* of a tile: its first element */

/* Tiles in the row of tiles that begins with row `row`. */
template <int BM, int BN> __host__ __device__ int tiles_across(int row, int s)
{
	int columns = row + BM < s ? row + BM : s;
	return (columns + BN - 1) / BN;
}

template <int BM, int BN> int lower_tiles(int s)
{
	int n = 0;

	for (int row = 0; row < s; row += BM)
		n += tiles_across<BM, BN>(row, s);
	return n;
}

template <int BM, int BN> __device__ corner lower_tile(int index, int s)
{
	int row = 0;

	for (int n; index >= (n = tiles_across<BM, BN>(row, s)); row += BM)
		index -= n;
	return { row, index * BN };
}

/* ---- the epilogue ---- */

template <class F> struct alignas(2 * sizeof(F)) pair { F x, y; };

/* C's elements (row, column) and (row, column + 1), column even; zeros beyond the matrix and without C. */
template <class F> __device__ pair<F> earlier(const symmetric_product<F> &p, int row, int column)
{
	if (p.C && row < p.s && column < p.ld)
		return *reinterpret_cast<const pair<F> *>(p.C + (size_t)row * p.ld + column);
	return {};
}

/* Sums of AB' at those two places to the values to be stored. */
template <class F>
__device__ void finish(const symmetric_product<F> &p, int row, int column, const pair<F> &c, float &x, float &y)
{
	x = p.alpha * x + p.beta * to_float(c.x);
	y = p.alpha * y + p.beta * to_float(c.y);
	if (row == column && row < p.s)
		x += p.diagonal;
	if (row == column + 1 && row < p.s)
		y += p.diagonal;
}

/* A finished tile in shared memory, as it is and turned, so that both are stored by whole rows. */
template <class F, int BM, int BN> struct alignas(16) staged_tile {
	static constexpr int V = 16 / sizeof(F);
	F straight[BM][BN + V], turned[BN][BM + V];

	/* row, column: within the tile; column even. */
	__device__ void put(int row, int column, float x, float y)
	{
		pair<F> both;

		from_float(both.x, x);
		from_float(both.y, y);
		*reinterpret_cast<pair<F> *>(&straight[row][column]) = both;
		turned[column][row] = both.x;
		turned[column + 1][row] = both.y;
	}

	/* To D: elements on and below the diagonal where they are, those below it mirrored. All
	 * `threads` threads, after a barrier. */
	__device__ void store(const symmetric_product<F> &p, corner at, int thread, int threads) const
	{
		for (int i = thread; i < BM * (BN / V); i += threads)
			store_piece<0>(p, at.row + i / (BN / V), at.column + i % (BN / V) * V,
			               &straight[i / (BN / V)][i % (BN / V) * V]);
		for (int i = thread; i < BN * (BM / V); i += threads)
			store_piece<1>(p, at.column + i / (BM / V), at.row + i % (BM / V) * V,
			               &turned[i / (BM / V)][i % (BM / V) * V]);
	}

	/* V neighbours of a row of D, V-aligned; MIRROR 0: those with column <= row; 1: column > row. */
	template <int MIRROR>
	__device__ static void store_piece(const symmetric_product<F> &p, int row, int column, const F *from)
	{
		F *to = p.D + (size_t)row * p.ld + column;

		if (row >= p.s || column >= p.ld)
			return;
		if (MIRROR ? column > row : column + V - 1 <= row) {
			*reinterpret_cast<pack<V, F> *>(to) = *reinterpret_cast<const pack<V, F> *>(from);
			return;
		}
#pragma unroll
		for (int j = 0; j < V; j++)
			if (MIRROR ? column + j > row : column + j <= row)
				to[j] = from[j];
	}
};

#endif
