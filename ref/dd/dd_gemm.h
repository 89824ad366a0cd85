/* Products of matrices: tiles of C of 64 x 64, whose sums stay in the second cache; A and B packed for each 128 terms;
 * R x 2 vectors of sums in registers. */
#include <string.h>

enum { TILE = 64, DEPTH = 128, R = W == 8 ? 4 : 2, PANEL = 2 * W };

struct packed { double hi[TILE * DEPTH], lo[TILE * DEPTH]; };
struct tile { double h[TILE * TILE], l[TILE * TILE]; };

/* Panels of `width` rows, each term's elements together: element (i, t) at (i / width) width k + t width + i % width.
 * Rows past m are 0. */
INLINE void pack(struct packed *p, size_t width, dds at, size_t row, size_t term, size_t m, size_t k)
{
	for (size_t first = 0; first < m; first += width)
		for (size_t t = 0; t < k; t++)
			for (size_t i = first; i < first + width; i++) {
				size_t to = first * k + t * width + (i - first), of = i * row + t * term;
				p->hi[to] = i < m ? at.hi[of] : 0;
				p->lo[to] = i < m ? at.lo[of] : 0;
			}
}

/* h, l [R, PANEL] of a tile += a b over k terms, counted from a multiple of DD_TERMS. */
INLINE void micro(double *h, double *l, const double *ah, const double *al, const double *bh, const double *bl, size_t k)
{
	struct vsum s[R][2];

	#pragma GCC unroll 8
	for (int i = 0; i < R; i++)
		#pragma GCC unroll 2
		for (int j = 0; j < 2; j++) s[i][j] = (struct vsum){ v_load(h + i * TILE + j * W), v_load(l + i * TILE + j * W) };
	for (size_t first = 0; first < k; first += DD_TERMS) {
		size_t n = k - first < DD_TERMS ? k - first : DD_TERMS;
		for (size_t t = 0; t < n; t++, ah += R, al += R, bh += PANEL, bl += PANEL) {
			vd xh[2] = { v_load(bh), v_load(bh + W) }, xl[2] = { v_load(bl), v_load(bl + W) };
			#pragma GCC unroll 8
			for (int i = 0; i < R; i++)
				#pragma GCC unroll 2
				for (int j = 0; j < 2; j++) v_add_term(&s[i][j], v_set(ah[i]), v_set(al[i]), xh[j], xl[j]);
		}
		#pragma GCC unroll 8
		for (int i = 0; i < R; i++)
			#pragma GCC unroll 2
			for (int j = 0; j < 2; j++) v_normalise(&s[i][j]);
	}
	#pragma GCC unroll 8
	for (int i = 0; i < R; i++)
		#pragma GCC unroll 2
		for (int j = 0; j < 2; j++) v_store(h + i * TILE + j * W, s[i][j].h), v_store(l + i * TILE + j * W, s[i][j].l);
}

/* One tile of C, m x n at most TILE. */
static void gemm_tile(dds C, size_t stride, struct dd_operand A, struct dd_operand B, size_t m, size_t n, size_t k)
{
	struct packed a, b;
	struct tile c;

	memset(&c, 0, sizeof c);
	for (size_t first = 0; first < k; first += DEPTH) {
		size_t depth = k - first < DEPTH ? k - first : DEPTH;
		pack(&a, R, from(A.at, first * A.column), A.row, A.column, m, depth);
		pack(&b, PANEL, from(B.at, first * B.row), B.column, B.row, n, depth);
		for (size_t j = 0; j < n; j += PANEL)
			for (size_t i = 0; i < m; i += R)
				micro(c.h + i * TILE + j, c.l + i * TILE + j, a.hi + i * depth, a.lo + i * depth, b.hi + j * depth,
					b.lo + j * depth, depth);
	}
	for (size_t i = 0; i < m; i++) {
		memcpy(C.hi + i * stride, c.h + i * TILE, n * sizeof(double));
		memcpy(C.lo + i * stride, c.l + i * TILE, n * sizeof(double));
	}
}

static void gemm(dds C, size_t stride, struct dd_operand A, struct dd_operand B, size_t m, size_t n, size_t k, bool lower)
{
	#pragma omp parallel for collapse(2) schedule(dynamic) if (m * n * k > 1 << 18)
	for (size_t i = 0; i < m; i += TILE)
		for (size_t j = 0; j < n; j += TILE) {
			struct dd_operand a = { from(A.at, i * A.row), A.row, A.column }, b = { from(B.at, j * B.column), B.row, B.column };
			if (lower && j > i) continue;
			gemm_tile(from(C, i * stride + j), stride, a, b, m - i < TILE ? m - i : TILE, n - j < TILE ? n - j : TILE, k);
		}
}
