/* What GPUs' programs compute otherwise than rounded right: elementary functions of PTX's approximate instructions, to the bit, each step rounded
 * to a float; sums in the orders that kernels have, running ones and those in bf16. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "ref/approx/approx.h"

static float over(float x) { return approx(APPROX_RCP, x, false); }
static float ex2(float x) { return approx(APPROX_EX2, x, false); }
static float lg2_ln2(float x) { return approx(APPROX_LG2, x, false) * 0x1.62e43p-1f; }
static float root(float x) { return approx(APPROX_SQRT, x, false); }
static float rsqrt(float x) { return approx(APPROX_RSQRT, x, false); }
static float over_root(float x) { return over(root(x)); }
static float over_exact_root(float x) { return 1 / sqrtf(x); }
static float sine(float x) { return approx(APPROX_SIN, x, false); }
static float cosine(float x) { return approx(APPROX_COS, x, false); }
static float hyperbolic(float x) { return approx(APPROX_TANH, x, false); }
static float sigmoid(float x) { return over(1 + approx_expf(-x)); }
static float fast_sigmoid(float x) { return over(1 + approx_fast_expf(-x)); }
static float softplus(float x) { return x > 20 ? x : (float)log1p((double)approx_expf(x)); }      /* PyTorch's */
static float silu(float x) { return x * sigmoid(x); }
static float fast_silu(float x) { return x * fast_sigmoid(x); }

/* said: with its argument in brackets behind it */
static const struct { float (*of)(float x); const char *said; } ways[FN_COUNT][MAX_WAY] = {
	[FN_EXP] = { { approx_expf, "expf" }, { approx_fast_expf, "fast_expf" } },
	[FN_EXP2] = { { ex2, "ex2_approx" } },
	[FN_LOG] = { { lg2_ln2, "ln(2) * lg2_approx" } },
	[FN_SQRT] = { { root, "sqrt_approx" } },
	[FN_RSQRT] = { { rsqrt, "rsqrt_approx" }, { over_exact_root, "1 / sqrt" }, { over_root, "1 / sqrt_approx" } },
	[FN_RECIP] = { { over, "rcp_approx" } },
	[FN_SIN] = { { sine, "sin_approx" } },
	[FN_COS] = { { cosine, "cos_approx" } },
	[FN_TANH] = { { hyperbolic, "tanh_approx" } },
	[FN_SIGMOID] = { { sigmoid, "sigmoid_expf" }, { fast_sigmoid, "sigmoid_fast_expf" } },
	[FN_SOFTPLUS] = { { softplus, "log1p_expf" } },
	[FN_SILU] = { { silu, "silu_expf" }, { fast_silu, "silu_fast_expf" } },
};

const char *way_name(enum fn f, int way) { return f >= FN_COUNT || way < 1 || way > MAX_WAY ? NULL : ways[f][way - 1].said; }
double way_value(enum fn f, int way, double x) { return (double)ways[f][way - 1].of((float)x); }

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

/* The sum of a[n] in that type, in turns over all threads: each thread's elements in turn, then lanes, then warps, by halves. fused: of products, as
 * LLVM contracts them: the first onto the second, which is rounded, and each further one onto what is there; where it adds up two rows side by side
 * (`each_second`), each second one is rounded before it is added (ColossalAI's decode kernel, its PTX). */
static double in_threads(const double *a, size_t n, struct threads by, enum type type, bool fused)
{
	const size_t threads = by.warps * by.lanes, all = threads * by.vector;
	double *sum = calloc(threads, sizeof *sum), y;
	size_t turns = 1;

	if (!sum) return (double)NAN;
	while (turns * all < n) turns *= 2;
	for (size_t t = 0; t < threads; t++) {
		for (size_t r = 0; r < turns; r++) {
			for (size_t k = 0; k < by.vector; k++) {
				size_t i = r * all + t * by.vector + k;
				double x = i < n ? a[i] : 0;
				bool second = by.each_second ? k % 2 == 1 : r * by.vector + k == 1;
				sum[t] = r + k ? round_one(sum[t] + (fused && second ? round_one(x, type) : x), type) : x;
			}
		}
		if (fused && turns * by.vector == 1) sum[t] = round_one(sum[t], type);
	}
	for (size_t half = by.lanes / 2; half; half /= 2)
		for (size_t w = 0; w < by.warps; w++)
			for (size_t i = 0; i < half; i++) sum[w * by.lanes + i] = round_one(sum[w * by.lanes + i] + sum[w * by.lanes + half + i], type);
	for (size_t half = by.warps / 2; half; half /= 2)
		for (size_t w = 0; w < half; w++) sum[w * by.lanes] = round_one(sum[w * by.lanes] + sum[(w + half) * by.lanes], type);
	y = sum[0];
	free(sum);
	return y;
}

/* A sum in the cell's type: `vector` elements a thread, 32 lanes, `warps` warps, over the whole vector in turns. In
 * the result of a tensor core four lanes have a row's tile of 8, two elements each (PTX ISA 9.0, section 9.7.15.5.8, m16n8k16), and a warp a tile in turn. */
void sum_narrow(const struct cell *c, struct block y, struct block a)
{
	const size_t n = a.rows * a.cols, vector = (size_t)c->p[1];

	y.at[0] = 0;
	for (size_t i = 0; i < n && c->exact; i++) y.at[0] += a.at[i];
	if (!c->exact) y.at[0] = in_threads(a.at, n, (struct threads){ vector, vector == 2 ? 4 : 32, (size_t)c->p[0], false }, c->grid, false);
}

struct threads element_threads(int way)
{
	enum { ROWS = 6, SECOND = ROWS + 16 };
	static const size_t many[] = { 4, 2, 8, 1 };

	if (way < ROWS) return (struct threads){ (size_t)8 >> (way - 2), 32, 1, false };
	if (way >= SECOND) return (struct threads){ (size_t)8 >> (way - SECOND), 32, 1, true };
	return (struct threads){ 1, many[(way - ROWS) % 4], many[(way - ROWS) / 4], false };
}

const char *element_threads_said(int way, char room[THREADS_ROOM])
{
	const struct threads t = element_threads(way);

	snprintf(room, THREADS_ROOM, "%zu warps, %zu lanes, threads of %zu%s", t.warps, t.lanes, t.vector, t.each_second ? ", each second product rounded" : "");
	return room;
}

/* y [m, n] = a [m, k] b [k, n] of which m or n is 1: products in a type of 16 bits, rounded and added up in float32, or in that by threads. */
void by_element(const struct cell *c, struct block y, const struct block *a)
{
	const bool ta = c->p[0], tb = c->p[1];
	const enum type type = (enum type)c->p[4];
	const size_t k = ta ? a[0].rows : a[0].cols, down = ta ? 1 : a[0].cols, along = ta ? a[0].cols : 1, of_b = tb ? 1 : a[1].cols, over_b = tb ? a[1].cols : 1;
	double *x = malloc((k + 1) * sizeof *x);

	for (size_t i = 0; i < y.rows * y.cols; i++) {
		const size_t row = i / y.cols, col = i % y.cols;
		double sum = 0;
		y.at[i] = (double)NAN;
		if (!x) continue;
		for (size_t j = 0; j < k; j++) x[j] = a[0].at[row * down + j * along] * a[1].at[j * of_b + col * over_b];
		if (c->p[3] > 1) {
			y.at[i] = in_threads(x, k, element_threads(c->p[3]), type, true);
			continue;
		}
		round_into(x, x, k, type);
		for (size_t j = 0; j < k; j++) sum += x[j];
		y.at[i] = round_one(sum, IN_F32);
	}
	free(x);
}
