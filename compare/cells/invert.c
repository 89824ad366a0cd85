/* (I + A)^-1 of a strictly lower A by blocks, as kernels do it: blocks inverted alone, then merged two by two or by columns; operands of the
 * merges rounded, and what is stored. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

static const enum type merge_type[] = { IN_F32, IN_TF32, IN_TF32_RN, IN_F16, IN_BF16 }, store_type[] = { IN_F32, IN_F16, IN_BF16 };

/* rows [i, i + m) and columns [j, j + n) of a matrix with `ld` columns, as a block of its own, rounded */
static void take(double *to, const double *from, size_t ld, size_t i, size_t m, size_t j, size_t n, enum type t)
{
	for (size_t r = 0; r < m; r++) memcpy(to + r * n, from + (i + r) * ld + j, n * sizeof *to);
	round_cells(to, m * n, t);
}

/* T's diagonal block from b on: x_i = e_i - sum_j A_ij x_j, in floats by fused multiply-adds, or exactly. */
static void alone(double *T, const double *A, size_t ld, size_t b, size_t n, bool fused)
{
	for (size_t i = b; i < b + n; i++) {
		double *x = T + i * ld;
		x[i] = 1;
		for (size_t j = b; j < i; j++)
			for (size_t k = b; k <= j; k++) {
				if (fused) x[k] = (double)fmaf((float)-A[i * ld + j], (float)T[j * ld + k], (float)x[k]);
				else x[k] -= A[i * ld + j] * T[j * ld + k];
			}
	}
}

struct merge { double *T, *a, *b, *c, *d; const double *A; size_t ld; enum type high, low, store; bool halves; int sums; };

static void times(const struct merge *g, double *y, const double *a, const double *b, size_t m, size_t k, size_t n)
{
	multiply(&(struct product){ .sums = g->sums, .y = y, .a = a, .b = b, .m = m, .k = k, .n = n });
}

/* The block below the diagonal of w rows and m more: T = -(T_d A) T_a, the last sum in two halves if it is split. */
static void two(const struct merge *g, size_t b, size_t w, size_t m, bool last)
{
	enum type t = last ? g->high : g->low;
	size_t n = g->ld, h = w / 2;

	take(g->a, g->T, n, b + w, m, b + w, m, t);
	take(g->b, g->A, n, b + w, m, b, w, t);
	times(g, g->c, g->a, g->b, m, m, w);
	for (size_t i = 0; i < m * w; i++) g->c[i] = -g->c[i];
	round_cells(g->c, m * w, IN_F32);
	round_cells(g->c, m * w, g->store);
	round_cells(g->c, m * w, t);
	take(g->b, g->T, n, b, w, b, w, t);
	if (g->halves && last) {
		for (int k = 0; k < 2; k++) {
			double *y = k ? g->a : g->d, *c = k ? g->c : g->a;
			size_t part = k ? w - h : h, from = k ? h : 0;
			for (size_t i = 0; i < m; i++) memmove(c + i * part, g->c + i * w + from, part * sizeof *c);
			times(g, y, c, g->b + from * w, m, part, w);
			round_cells(y, m * w, IN_F32);
			round_cells(y, m * w, g->store);
		}
		for (size_t i = 0; i < m * w; i++) g->d[i] += g->a[i];
	} else times(g, g->d, g->c, g->b, m, w, w);
	round_cells(g->d, m * w, IN_F32);
	round_cells(g->d, m * w, g->store);
	for (size_t r = 0; r < m; r++) memcpy(g->T + (b + w + r) * n + b, g->d + r * w, w * sizeof *g->d);
}

/* T_ij = -T_ii (sum_m A_im T_mj), and -(T_ii A_ij) T_jj for neighbours */
static void by_columns(const struct merge *g, size_t w)
{
	size_t n = g->ld;

	for (size_t gap = w; gap < n; gap += w) {
		for (size_t i = gap; i < n; i += w) {
			size_t j = i - gap, m = n - i < w ? n - i : w;
			take(g->a, g->T, n, i, m, i, m, g->high);
			if (gap == w) {
				take(g->b, g->A, n, i, m, j, w, g->high);
				times(g, g->c, g->a, g->b, m, m, w);
			} else {
				take(g->d, g->A, n, i, m, j, gap, g->high);
				take(g->b, g->T, n, j, gap, j, w, g->high);
				times(g, g->c, g->d, g->b, m, gap, w);
			}
			round_cells(g->c, m * w, IN_F32);
			round_cells(g->c, m * w, g->store);
			round_cells(g->c, m * w, g->high);
			if (gap == w) {
				take(g->b, g->T, n, j, w, j, w, g->high);
				times(g, g->d, g->c, g->b, m, w, w);
			} else times(g, g->d, g->a, g->c, m, m, w);
			for (size_t k = 0; k < m * w; k++) g->d[k] = -g->d[k];
			round_cells(g->d, m * w, IN_F32);
			round_cells(g->d, m * w, g->store);
			for (size_t r = 0; r < m; r++) memcpy(g->T + (i + r) * n + j, g->d + r * w, w * sizeof *g->d);
		}
	}
}

/* how: base, store, by columns, 2 how sums are added + are those of blocks alone fused, operands, 2 operands below + halves; full: the size of a whole chunk */
void invert(struct block y, struct block x, const int *how, size_t full, bool exact)
{
	size_t n = x.rows, base = exact ? n : (size_t)how[0];
	double *room = calloc(5 * n * n + 1, sizeof *room), *A = room;
	struct merge g = { .T = y.at, .A = A, .ld = n, .high = merge_type[how[4]], .low = merge_type[how[5] / 2], .store = store_type[how[1]],
		.halves = how[5] & 1, .sums = how[3] / 2, .a = room + n * n, .b = room + 2 * n * n, .c = room + 3 * n * n, .d = room + 4 * n * n };

	memset(y.at, 0, n * n * sizeof *y.at);
	if (!room) {
		y.at[0] = (double)__builtin_nan("");
		return;
	}
	for (size_t i = 0; i < n; i++) memcpy(A + i * n, x.at + i * n, i * sizeof *A);
	if (!exact) round_cells(A, n * n, g.store);
	for (size_t b = 0; b < n && base; b += base) alone(y.at, A, n, b, n - b < base ? n - b : base, !exact && how[3] & 1);
	if (exact) {
		free(room);
		return;
	}
	round_cells(y.at, n * n, IN_F32);
	round_cells(y.at, n * n, g.store);
	if (how[2]) by_columns(&g, base);
	for (size_t w = base; w < n && !how[2]; w *= 2)
		for (size_t b = 0; b + w < n; b += 2 * w) two(&g, b, w, n - b - w < w ? n - b - w : w, 2 * w >= full);
	free(room);
}
