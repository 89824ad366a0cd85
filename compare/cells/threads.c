/* Sums in types of 16 bits, in the order in which threads have them; products of a matrix and a vector element by element. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "fixtures/io/wide.h"

/* What m sums side by side add up: number i of n, in sum c, is x[i * along + c * across] * y[i * y_along + c * y_across]; y NULL: x alone. */
struct terms { size_t n, m; const double *x, *y; size_t along, across, y_along, y_across; };

WIDE_LOOP static void term(const struct terms *t, size_t i, double *to)
{
	const double *x = t->x + i * t->along, *y = t->y ? t->y + i * t->y_along : NULL;

	for (size_t c = 0; c < t->m && !y; c++) to[c] = x[c * t->across];
	for (size_t c = 0; c < t->m && y; c++) to[c] = x[c * t->across] * y[c * t->y_across];
}

WIDE_LOOP static void add(double *y, const double *x, size_t n, enum type type)
{
	for (size_t i = 0; i < n; i++) y[i] += x[i];
	round_into(y, y, n, type);
}

/* to: the k-th number of each thread in turn r; how many threads have one. */
static size_t standing(const struct terms *t, struct threads by, size_t r, size_t k, double *to)
{
	const size_t threads = by.warps * by.lanes, first = r * threads * by.vector + k;
	size_t n = first < t->n ? (t->n - first - 1) / by.vector + 1 : 0;

	if (n > threads) n = threads;
	for (size_t i = 0; i < n; i++) term(t, first + i * by.vector, to + i * t->m);
	return n;
}

/* Of each warp's lanes, then of the warps, by halves; `threads` have a sum. */
static void over_threads(double *sum, size_t m, size_t threads, struct threads by, enum type type)
{
	for (size_t w = 0; w * by.lanes < threads; w++) {
		double *of = sum + w * by.lanes * m;
		size_t left = threads - w * by.lanes < by.lanes ? threads - w * by.lanes : by.lanes;
		for (size_t half = by.lanes / 2; half; half /= 2)
			if (left > half) add(of, of + half * m, (left - half) * m, type), left = half;
	}
	for (size_t half = by.warps / 2; half; half /= 2)
		for (size_t w = 0; w < half && (w + half) * by.lanes < threads; w++) add(sum + w * by.lanes * m, sum + (w + half) * by.lanes * m, m, type);
}

/* Sums in that type, y[m], in turns over all threads: each thread's numbers in turn, then lanes, then warps. fused: of products, as LLVM contracts them:
 * the first onto the second, which is rounded, and each further one onto what is there; where it adds up two rows side by side (`each_second`), each
 * second one is rounded before it is added (ColossalAI's decode kernel, its PTX). */
static void in_threads(const struct terms *t, struct threads by, enum type type, bool fused, double *y)
{
	const size_t all = by.warps * by.lanes, some = (t->n + by.vector - 1) / by.vector, threads = some < all ? some : all;
	double *sum = malloc((2 * threads * t->m + 1) * sizeof *sum), *more = sum ? sum + threads * t->m : NULL;

	for (size_t c = 0; c < t->m; c++) y[c] = sum ? 0 : (double)NAN;
	if (!sum || !t->n) {
		free(sum);
		return;
	}
	standing(t, by, 0, 0, sum);
	for (size_t r = 0; r * all * by.vector < t->n; r++) {
		for (size_t k = !r; k < by.vector; k++) {
			const bool second = by.each_second ? k % 2 == 1 : r * by.vector + k == 1;
			size_t n = standing(t, by, r, k, more) * t->m;
			if (fused && second) round_into(more, more, n, type);
			add(sum, more, n, type);
		}
	}
	round_into(sum, sum, threads * t->m, type);     /* changes nothing but in threads of one number */
	over_threads(sum, t->m, threads, by, type);
	memcpy(y, sum, t->m * sizeof *y);
	free(sum);
}

/* A sum in the cell's type: `vector` elements a thread, 32 lanes, `warps` warps, over the whole vector in turns. In
 * the result of a tensor core four lanes have a row's tile of 8, two elements each (PTX ISA 9.0, section 9.7.15.5.8, m16n8k16), and a warp a tile in turn. */
void sum_narrow(const struct cell *c, struct block y, struct block a)
{
	const size_t n = a.rows * a.cols, vector = (size_t)c->p[1];

	y.at[0] = 0;
	for (size_t i = 0; i < n && c->exact; i++) y.at[0] += a.at[i];
	if (!c->exact) in_threads(&(struct terms){ .n = n, .m = 1, .x = a.at, .along = 1 }, (struct threads){ vector, vector == 2 ? 4 : 32, (size_t)c->p[0], false }, c->grid, false, y.at);
}

const int threads_ways[] = { [BY_ROWS] = 4, [BY_ROWS_IN_PAIRS] = 2, [BY_COLUMNS] = 16 };

struct threads element_threads(int by, int which)
{
	static const size_t many[] = { 4, 2, 8, 1 };

	if (by == BY_COLUMNS) return (struct threads){ 1, many[which % 4], many[which / 4], false };
	return (struct threads){ (size_t)8 >> which, 32, 1, by == BY_ROWS_IN_PAIRS };
}

const char *element_threads_said(int by, int which, char room[THREADS_ROOM])
{
	const struct threads t = element_threads(by, which);

	snprintf(room, THREADS_ROOM, "%zu warps, %zu lanes, threads of %zu%s", t.warps, t.lanes, t.vector, t.each_second ? ", each second product rounded" : "");
	return room;
}

/* y[m]: each product rounded, added up in float32 */
static void rounded_products(const struct terms *t, enum type type, double *y)
{
	double *x = malloc((t->m + 1) * sizeof *x);

	for (size_t c = 0; c < t->m; c++) y[c] = x ? 0 : (double)NAN;
	for (size_t i = 0; i < t->n && x; i++) {
		term(t, i, x);
		round_into(x, x, t->m, type);
		for (size_t c = 0; c < t->m; c++) y[c] += x[c];
	}
	round_into(y, y, t->m, IN_F32);
	free(x);
}

/* y [m, n] = a [m, k] b [k, n] of which m or n is 1: products in a type of 16 bits, rounded and added up in float32, or in that by threads. */
void by_element(const struct cell *c, struct block y, const struct block *a)
{
	const bool ta = c->p[0], tb = c->p[1], of_a = y.cols == 1;
	const size_t k = ta ? a[0].rows : a[0].cols, down = ta ? 1 : a[0].cols, over = tb ? a[1].cols : 1;
	const struct terms t = { .n = k, .m = of_a ? y.rows : y.cols, .x = a[0].at, .along = ta ? a[0].cols : 1, .across = of_a ? down : 0,
		.y = a[1].at, .y_along = tb ? 1 : a[1].cols, .y_across = of_a ? 0 : over };

	if (c->p[3] >= BY_ROWS) in_threads(&t, element_threads(c->p[3], c->p[5]), (enum type)c->p[4], true, y.at);
	else rounded_products(&t, (enum type)c->p[4], y.at);
}
