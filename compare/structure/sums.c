/* Sums in the orders that kernels have: running ones, and those in bf16. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

/* Of a vector: in each warp of 32 by doubling distances, then onto the sum of those before; or in turn. */
void sum_scan(const struct cell *c, struct block y, struct block a)
{
	size_t n = a.rows * a.cols;

	if (c->cols.n > 1 && c->rows.n > 1) {
		for (size_t i = 0; i < n; i++) y.at[i] = a.at[i] + (i >= a.cols ? y.at[i - a.cols] : 0), y.at[i] = c->exact ? y.at[i] : round_one(y.at[i], IN_F32);
		return;
	}
	if (c->exact || c->p[0] == SCAN_IN_TURN) {
		for (size_t i = 0; i < n; i++) y.at[i] = a.at[i] + (i ? y.at[i - 1] : 0), y.at[i] = c->exact ? y.at[i] : round_one(y.at[i], IN_F32);
		return;
	}
	memcpy(y.at, a.at, n * sizeof *y.at);
	for (size_t b = 0; b < n; b += 32) {
		size_t m = n - b < 32 ? n - b : 32;
		for (size_t d = 1; d < 32; d *= 2)
			for (size_t i = m; i-- > d;) y.at[b + i] = round_one(y.at[b + i] + y.at[b + i - d], IN_F32);
		for (size_t i = 0; i < m && b; i++) y.at[b + i] = round_one(y.at[b + i] + y.at[b - 1], IN_F32);
	}
}

/* A sum of bf16 numbers in bf16: `vector` elements a thread, 32 lanes, `warps` warps, over the whole vector in turns. */
void sum_narrow(const struct cell *c, struct block y, struct block a)
{
	size_t n = a.rows * a.cols, warps = (size_t)c->p[0], vector = (size_t)c->p[1], all = warps * 32 * vector, turns = 1;

	if (c->exact) {
		y.at[0] = 0;
		for (size_t i = 0; i < n; i++) y.at[0] += a.at[i];
		return;
	}
	while (turns * all < n) turns *= 2;
	size_t threads = warps * 32;
	double *sum = calloc(threads, sizeof *sum);
	if (!sum) {
		y.at[0] = (double)NAN;
		return;
	}
	for (size_t t = 0; t < threads; t++) {
		for (size_t r = 0; r < turns; r++) {
			for (size_t k = 0; k < vector; k++) {
				size_t i = r * all + t * vector + k;
				double x = i < n ? a.at[i] : 0;
				sum[t] = r + k ? round_one(sum[t] + x, IN_BF16) : x;
			}
		}
	}
	for (size_t half = 16; half; half /= 2)
		for (size_t w = 0; w < warps; w++)
			for (size_t i = 0; i < half; i++) sum[w * 32 + i] = round_one(sum[w * 32 + i] + sum[w * 32 + half + i], IN_BF16);
	for (size_t half = warps / 2; half; half /= 2)
		for (size_t w = 0; w < half; w++) sum[w * 32] = round_one(sum[w * 32] + sum[(w + half) * 32], IN_BF16);
	y.at[0] = sum[0];
	free(sum);
}
