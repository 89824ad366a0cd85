/* What float32 leaves around an emulation, from a few runs of it in float32. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

const double xray_exact = 0x1p-6;

/* A kernel computes in float32, whatever it stores: of an output in float64 too a unit is
 * float32's. */
double xray_unit(const struct xray *x, int i, size_t j, double y)
{
	const enum format f = x->grid[i] == FMT_F64 ? FMT_F32 : x->grid[i];
	double ulp = dtype_info[out_dtype(x->call, i)].is_float
		? format_ulp(f, fmax(fabs(y), x->typical[i])) : 1;

	return fmax(ulp, 0x1p-16 * sqrt(x->shape2[j]));
}

/* ---- the grid ---- */
static const enum format coarser[] = { FMT_BF16, FMT_F16 };
enum { COARSER = sizeof coarser / sizeof *coarser };

static bool on_grid(const struct xray *x, int i, enum format f)
{
	for (size_t j = x->first[i]; j < x->first[i + 1]; j++)
		if (isfinite(x->got[j]) && (format_round(f, ROUND_NEAREST_EVEN, x->got[j], 0) != x->got[j]
				|| format_round(f, ROUND_NEAREST_EVEN, x->centre[j], 0) != x->centre[j])) return false;
	return true;
}

/* Mean square of the emulation's output i, of the strip held. */
static void add_typical(const struct xray *x, int i, double *sum)
{
	double n = (double)x->call->out_count[i];

	for (size_t j = x->first[i]; j < x->first[i + 1]; j++) *sum += isfinite(x->centre[j]) ? x->centre[j] * x->centre[j] / n : 0;
}

/* The grid of each output: of its dtype, or a coarser one that the kernel's outputs and the emulation's are all on. What
 * put them there was not the store, and what float32 made of them before is then no smaller where they are small. */
static bool find_grids(struct xray *x)
{
	bool off[MAX_OUT][COARSER] = { { false } };
	double typical[MAX_OUT] = { 0 };

	for (int i = 0; i < MAX_OUT; i++)
		for (int k = 0; k < COARSER && x->call->out_count[i]; k++)
			off[i][k] = format_info[coarser[k]].precision >= format_info[dtype_info[out_dtype(x->call, i)].format].precision;
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_CENTRE)) return false;
		for (int i = 0; i < MAX_OUT; i++) {
			for (int k = 0; k < COARSER; k++) off[i][k] = off[i][k] || !on_grid(x, i, coarser[k]);
			if (!off[i][0] || !off[i][1]) add_typical(x, i, &typical[i]);
		}
	}
	for (int i = 0; i < MAX_OUT; i++) {
		int k = !off[i][0] ? 0 : !off[i][1] ? 1 : COARSER;
		x->grid[i] = k < COARSER ? coarser[k] : dtype_info[out_dtype(x->call, i)].format;
		x->typical[i] = k < COARSER ? sqrt(typical[i]) : 0;
	}
	return true;
}

/* ---- the noise ---- */
double xray_noise2(const struct xray *x, int k, size_t j)
{
	double noise = (double)x->noise[(size_t)k * x->n + j];

	return x->shape2[j] > 0 ? noise * noise : 0;
}

static void noise_streams(struct xray *x)
{
	struct stream *ahead[FLOOR_RUNS];

	for (int k = 0; k < FLOOR_RUNS; k++) {
		struct plan p = x->emulation;
		p.arith = k < FLOOR_RUNS - 1 ? &arith_noisy : x->emulation.arith == &arith_f32 ? &arith_f32_tree : &arith_f32;
		p.bits = p.arith->precision;
		p.seed = (uint64_t)k + 1;
		stream_begin(&x->of_noise[k], &p);
		ahead[k] = &x->of_noise[k];
	}
	xray_ahead(x, ahead, FLOOR_RUNS);
}

static float number(double x) { return isfinite(x) ? (float)x : 0; }

bool xray_noise_of_strip(struct xray *x)
{
	double *y = x->d, *stored = x->trial;

	xray_store(x, x->centre, stored);
	for (size_t k = 0; k < FLOOR_RUNS; k++) {
		float *raw = x->raw_noise + k * x->n, *noise = x->noise + k * x->n;
		if (!xray_run(x, &x->of_noise[k], y)) return false;
		#pragma omp parallel for if (x->n > WORTH)
		for (size_t j = 0; j < x->n; j++) raw[j] = number(y[j] - x->centre[j]);
		xray_store(x, y, y);
		#pragma omp parallel for if (x->n > WORTH)
		for (size_t j = 0; j < x->n; j++) noise[j] = number(y[j] - stored[j]);
	}
	return true;
}

/* What float32 moves is no copy, although no site but its store reaches it: a product of recorded matrices. */
static void mark_computed(struct xray *x)
{
	for (int i = 0; i < MAX_OUT; i++) {
		#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++)
			for (size_t k = 0; k < FLOOR_RUNS; k++) {
				if (x->shape2[j] != 0 || x->raw_noise[k * x->n + j] == 0) continue;
				x->shape2[j] = DBL_MIN;
				x->reach[x->first_element[i] + xray_place(x, i, j)] = BY_FLOAT32;
			}
	}
}

/* ---- the floor ---- */
/* The mean of the runs' values, the largest taken as no more than four times the mean of the others and
 * four units: where a rounding inside the emulation flips early, all that follows goes with it, and one
 * such run says nothing of the others. */
static double tame_mean(const double *run, double unit2)
{
	double sum = 0, largest = 0;

	for (int k = 0; k < FLOOR_RUNS; k++) sum += run[k], largest = fmax(largest, run[k]);
	double others = sum - largest;
	return (others + fmin(largest, 4 * (others / (FLOOR_RUNS - 1) + unit2))) / FLOOR_RUNS;
}

/* Σ over elements [at, at + row) that a site reaches, as the mean over them. */
static double row_floor(const struct xray *x, size_t at, size_t row, double unit)
{
	double run[FLOOR_RUNS] = { 0 }, n = 0;

	for (size_t j = at; j < at + row; j++) {
		n += x->shape2[j] > 0;
		for (int k = 0; k < FLOOR_RUNS; k++) run[k] += xray_noise2(x, k, j);
	}
	return n > 0 ? tame_mean(run, unit * unit) / n : 0;
}

/* The mean square of the units of output i's row at element `at`. */
static double row_unit2(const struct xray *x, int i, size_t at, size_t row)
{
	double sum = 0;

	for (size_t j = at; j < at + row; j++) sum += pow(xray_unit(x, i, j, x->centre[j]), 2);
	return sum / (double)row;
}

/* A difference in units: what a store that flips makes, two of them at most, in the element's own, the rest in its
 * row's. Where noise that has nothing to do with the store meets an answer that nearly cancels, it is thousands of the
 * element's own. */
static double in_units(double noise2, double unit2, double row_unit2)
{
	double flip = fmin(noise2, 4 * unit2);

	return flip / unit2 + (noise2 - flip) / row_unit2;
}

/* Noise in units, run by run, and elements that are reached. All doubles. */
struct flips { double units[MAX_BLOCKS][FLOOR_RUNS], count[MAX_BLOCKS]; };
enum { FLIPS = sizeof(struct flips) / sizeof(double) };

/* The mean square over each row, and the units over its block. */
static void add_rows(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	struct flips *t = (struct flips *)sum;
	size_t row = x->row[i];

	(void)with;
	for (size_t at = from; at < to; at += row) {
		double mean = row_unit2(x, i, at, row);
		for (size_t j = at; j < at + row; j++) {
			double unit = xray_unit(x, i, j, x->centre[j]);
			for (int k = 0; k < FLOOR_RUNS; k++) t->units[x->block[j]][k] += in_units(xray_noise2(x, k, j), unit * unit, mean);
			t->count[x->block[j]] += x->shape2[j] > 0;
		}
		x->row_floor[xray_row(x, i, at)] = row_floor(x, at, row, sqrt(mean));
	}
}

/* The noise's mean square over the element's row, and, so that a rounding that flips once in a thousand elements is
 * expected everywhere, over the block, in units, with one unit more than was seen. */
bool xray_find_floor(struct xray *x)
{
	struct flips t = { 0 };

	if (!find_grids(x)) return false;
	noise_streams(x);
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_NOISE)) return false;
		mark_computed(x);
		for (int i = 0; i < MAX_OUT; i++)
			if (x->call->out_count[i]) xray_add_up(x, i, add_rows, NULL, (double *)&t, FLIPS);
	}
	for (int b = 0; b < x->blocks; b++) x->block_floor[b] = (tame_mean(t.units[b], 1) + 1.0 / FLOOR_RUNS) / t.count[b];
	return true;
}

void xray_floor_of_strip(struct xray *x)
{
	for (int i = 0; i < MAX_OUT; i++) {
		#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++) {
			double unit = xray_unit(x, i, j, x->centre[j]);
			if (x->shape2[j] > 0) x->floor2[j] = x->row_floor[xray_row(x, i, j)] + x->block_floor[x->block[j]] * unit * unit;
			else x->floor2[j] = xray_exact * unit * unit;
		}
	}
}

/* ---- what a plan's answer says of its score before there is its noise ---- */

const double xray_rounding = 1e-9;

/* The least unit of an element's noise: its type's, or a coarser grid's, which float16's and bf16's small numbers are on. */
static double least_unit(const struct xray *x, int i, double y)
{
	const struct dtype_info *d = &dtype_info[out_dtype(x->call, i)];

	return d->is_float ? fmin(format_ulp(d->format, y), format_ulp(FMT_BF16, y)) : 1;
}

struct bounding { const double *y, *r; double share[MAX_BLOCKS]; };

/* The score of an element is log((v + r²)² / (v ulp²)), which is least where v is r². A floor is no less than the share of a unit² that one
 * step of one unit in all runs is in its block, or xray_exact. */
static void add_least(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	const struct bounding *b = with;

	for (size_t j = from; j < to; j++) {
		double r = b->r[j], ulp = xray_ulp(x, i, x->got[j]);
		if (!isfinite(r)) {
			sum[0] += isnan(r) ? xray_agree : xray_disagree;
			continue;
		}
		double unit = least_unit(x, i, b->y[j]), v = fmax(b->share[x->block[j]] * unit * unit, r * r), w = v + r * r;
		sum[0] += log(w / v * (w / (ulp * ulp)));
	}
}

static void count_shares(const struct xray *x, struct bounding *b)
{
	double count[MAX_BLOCKS] = { 0 };

	for (size_t j = 0; j < x->n; j++) count[x->block[j]]++;
	for (int k = 0; k < x->blocks; k++) b->share[k] = fmin(xray_exact, 1 / (FLOOR_RUNS * fmax(1, count[k])));
}

bool xray_score_at_least(struct xray *x, const struct plan *p, double *least)
{
	struct bounding b = { x->d, x->trial, { 0 } };
	struct stream stream[MAX_SITE + 1], l = { .plan = *p };
	double sum = 0;

	*least = -INFINITY;
	if (x->strips > 1 || x->shift) return true;
	uint64_t before = x->work;
	bool ok = xray_run(x, &l, x->d), impossible = x->impossible;
	stream_end(&l);
	if (!ok || impossible) return ok;
	x->work += (x->work - before) * (uint64_t)(xray_shape_streams(x, p, stream) + 1 + FLOOR_RUNS);     /* as if it had been refreshed */
	xray_store(x, x->d, x->trial);
	#pragma omp parallel for if (x->n > WORTH)
	for (size_t j = 0; j < x->n; j++) x->trial[j] = xray_residual(x, j, x->trial[j]);
	count_shares(x, &b);
	for (int i = 0; i < MAX_OUT; i++) xray_add_up(x, i, add_least, &b, &sum, 1);
	*least = sum - xray_rounding * ((double)x->n + fabs(sum));
	return true;
}
