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

#include "gpu/device/device.cuh"

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

/* A tile in shared memory: rows of an odd number of 16-byte pieces, so that eight rows' pieces of a
 * column of pieces lie in different banks. */
template <class F, int ROWS, int COLUMNS> struct alignas(128) tile {
	static constexpr int V = 16 / sizeof(F), PITCH = (COLUMNS / V | 1) * V;
	F at[ROWS][PITCH];
};

/* The largest power of two that is at most n. */
__host__ __device__ constexpr int power_below(int n) { return n < 2 ? 1 : 2 * power_below(n / 2); }

/* Rows [first, first + COUNT) of the tile at `at` of a matrix to D, by pieces of V neighbours: those
 * below the diagonal, of MIRROR those above it. By TEAM threads, this one `member`, in strips of
 * WIDTH pieces across from piece FROM, so that a thread stays in its column. */
template <bool MIRROR, int TEAM, int COUNT, int FROM = 0, class F, int ROWS, int COLUMNS>
__device__ void store_rows(const symmetric_product<F> &p, corner at, const tile<F, ROWS, COLUMNS> &from, int first, int member)
{
	constexpr int V = 16 / sizeof(F), ACROSS = COLUMNS / V, WIDTH = power_below(ACROSS - FROM), STEP = TEAM / WIDTH;
	constexpr int STEPS = (COUNT + STEP - 1) / STEP;
	int i = first + member / WIDTH, j = (FROM + member % WIDTH) * V, row = at.row + i, column = at.column + j;
	int end = MIRROR ? min(p.s, column) : p.s, begin = MIRROR ? 0 : column + V - 1;
	pack<V, F> piece[STEPS];
	F *to = p.D + (size_t)row * p.ld + column;

#pragma unroll
	for (int n = 0; n < STEPS; n++)
		if (COUNT % STEP == 0 || i + n * STEP < first + COUNT)
			piece[n] = load_pack<V>(&from.at[i + n * STEP][j]);
	if (column >= p.ld)
		end = 0;
#pragma unroll
	for (int n = 0; n < STEPS; n++, to += (size_t)STEP * p.ld)
		if ((COUNT % STEP == 0 || i + n * STEP < first + COUNT) && row + n * STEP >= begin && row + n * STEP < end)
			*reinterpret_cast<pack<V, F> *>(to) = piece[n];
	if constexpr (FROM + WIDTH < ACROSS)
		store_rows<MIRROR, TEAM, COUNT, FROM + WIDTH>(p, at, from, first, member);
}

/* The piece of row `i` of the tile that the diagonal crosses, if it does. */
template <class F, int BM, int BN>
__device__ void store_crossing(const symmetric_product<F> &p, corner at, const tile<F, BM, BN> &straight,
                               const tile<F, BN, BM> &turned, int i)
{
	constexpr int V = 16 / sizeof(F);
	int row = at.row + i, column = row / V * V, j = column - at.column;

	if (row >= p.s || j < 0 || j >= BN)
		return;
	pack<V, F> piece = load_pack<V>(&straight.at[i][j]), above = load_pack<V>(&turned.at[row - at.column][column - at.row]);
#pragma unroll
	for (int k = 0; k < V; k++)
		if (column + k > row)
			piece.at[k] = above.at[k];
	*reinterpret_cast<pack<V, F> *>(p.D + (size_t)row * p.ld + column) = piece;
}

/* A finished tile to D, what is below the diagonal mirrored; turned: the tile's transpose. All
 * THREADS threads, at least BM, after a barrier. */
template <int THREADS, class F, int BM, int BN>
__device__ void store_tile(const symmetric_product<F> &p, corner at, const tile<F, BM, BN> &straight,
                           const tile<F, BN, BM> &turned)
{
	int thread = (int)threadIdx.x;

	store_rows<false, THREADS, BM>(p, at, straight, 0, thread);
	store_rows<true, THREADS, BN>(p, { at.column, at.row }, turned, 0, thread);
	if (thread < BM)
		store_crossing(p, at, straight, turned, thread);
}

/* A finished tile and its transpose. */
template <class F, int BM, int BN> struct staged_tile {
	tile<F, BM, BN> straight;
	tile<F, BN, BM> turned;

	/* row, column: within the tile; column even. */
	__device__ void put(int row, int column, float x, float y)
	{
		pair<F> both;

		from_float(both.x, x);
		from_float(both.y, y);
		*reinterpret_cast<pair<F> *>(&straight.at[row][column]) = both;
		turned.at[column][row] = both.x;
		turned.at[column + 1][row] = both.y;
	}
};

#endif
