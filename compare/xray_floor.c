/* What float32 leaves around a replica, from a few runs of it in float32. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

/* The variance, in ulp², of an element that no site reaches: it should be equal to the bit. */
static const double exact = 0x1p-6;

/* The unit of an element's noise: an ulp of what is stored, or, where the answer nearly cancels, what
 * float32 leaves of a bf16 rounding's effect, 2^(8-24). */
static double unit_at(const struct xray *x, int i, size_t j)
{
	return fmax(format_ulp(x->grid[i], fmax(fabs(x->base[j]), x->typical[i])), 0x1p-16 * sqrt(x->shape2[j]));
}

static bool on_grid(const struct xray *x, int i, enum format f)
{
	for (size_t j = x->first[i]; j < x->first[i + 1]; j++)
		if (isfinite(x->got[j]) && (format_round(f, ROUND_NEAREST_EVEN, x->got[j], 0) != x->got[j]
				|| format_round(f, ROUND_NEAREST_EVEN, x->base[j], 0) != x->base[j])) return false;
	return true;
}

/* rms of the replica's output i */
static double typical(const struct xray *x, int i)
{
	double sum = 0, n = (double)x->call->out_count[i];

	for (size_t j = x->first[i]; j < x->first[i + 1]; j++) sum += isfinite(x->base[j]) ? x->base[j] * x->base[j] / n : 0;
	return sqrt(sum);
}

/* The grid of output i: of its dtype, or a coarser one that the kernel's outputs and the replica's are all on. What
 * put them there was not the store, and what float32 made of them before is then no smaller where they are small. */
static void find_grid(struct xray *x, int i)
{
	enum format own = dtype_info[out_dtype(x->call, i)].format, coarser[] = { FMT_BF16, FMT_F16 };

	for (size_t k = 0; k < sizeof coarser / sizeof *coarser; k++)
		if (format_info[coarser[k]].precision < format_info[own].precision && on_grid(x, i, coarser[k])) {
			x->grid[i] = coarser[k];
			x->typical[i] = typical(x, i);
			return;
		}
	x->grid[i] = own;
	x->typical[i] = 0;
}

/* The mean of the runs' values, the largest taken as no more than four times the mean of the others and
 * four units: where a rounding inside the replica tips over early, all that follows goes with it, and one
 * such run says nothing of the others. */
static double tame_mean(const double *run, double unit2)
{
	double sum = 0, largest = 0;

	for (int k = 0; k < FLOOR_RUNS; k++) sum += run[k], largest = fmax(largest, run[k]);
	double others = sum - largest;
	return (others + fmin(largest, 4 * (others / (FLOOR_RUNS - 1) + unit2))) / FLOOR_RUNS;
}

static double noise2(const struct xray *x, int k, size_t j)
{
	double noise = (double)x->noise[(size_t)k * x->n + j];

	return x->shape2[j] > 0 ? noise * noise : 0;
}

/* floor2 of the elements [at, at + row): the mean over those that a site reaches. */
static void row_floor(struct xray *x, size_t at, size_t row, double unit)
{
	double run[FLOOR_RUNS] = { 0 }, n = 0;

	for (size_t j = at; j < at + row; j++) {
		n += x->shape2[j] > 0;
		for (int k = 0; k < FLOOR_RUNS; k++) run[k] += noise2(x, k, j);
	}
	double mean = n > 0 ? tame_mean(run, unit * unit) / n : 0;
	for (size_t j = at; j < at + row; j++) x->floor2[j] = mean;
}

/* The mean square of the units of output i's row at element `at`. */
static double row_unit2(const struct xray *x, int i, size_t at, size_t row)
{
	double sum = 0;

	for (size_t j = at; j < at + row; j++) sum += pow(unit_at(x, i, j), 2);
	return sum / (double)row;
}

/* A difference in units: what a store that tips over makes, two of them at most, in the element's own, the rest in its
 * row's. Where noise that has nothing to do with the store meets an answer that nearly cancels, it is thousands of the
 * element's own. */
static double in_units(double noise2, double unit2, double row_unit2)
{
	double tip = fmin(noise2, 4 * unit2);

	return tip / unit2 + (noise2 - tip) / row_unit2;
}

/* floor2 of output i from the runs' noise: the mean square over the element's row, and, so that a rounding
 * that tips over once in a thousand elements is expected everywhere, over the block, in units, with one
 * unit more than was seen. */
static void pool_floor(struct xray *x, int i)
{
	double units[MAX_BLOCKS][FLOOR_RUNS] = {{ 0 }}, count[MAX_BLOCKS] = { 0 };
	size_t row = out_row(x->call, i);

	for (size_t at = x->first[i]; at < x->first[i + 1]; at += row) {
		double mean = row_unit2(x, i, at, row);
		for (size_t j = at; j < at + row; j++) {
			double unit = unit_at(x, i, j);
			for (int k = 0; k < FLOOR_RUNS; k++) units[x->block[j]][k] += in_units(noise2(x, k, j), unit * unit, mean);
			count[x->block[j]] += x->shape2[j] > 0;
		}
		row_floor(x, at, row, sqrt(mean));
	}
	for (size_t j = x->first[i]; j < x->first[i + 1]; j++) {
		double unit = unit_at(x, i, j);
		int b = x->block[j];
		if (x->stride > 1 && x->base[j] == 0) x->floor2[j] = 0;
		else if (x->shape2[j] > 0) x->floor2[j] += (tame_mean(units[b], 1) + 1.0 / FLOOR_RUNS) / count[b] * unit * unit;
		else x->floor2[j] = exact * unit * unit;
	}
}

static float number(double x) { return isfinite(x) ? (float)x : 0; }

/* The noise of one run: y [n] is what it answered, centre [n] what the replica stores. */
static void add_noise(struct xray *x, int k, double *y, const double *centre)
{
	float *raw = x->raw_noise + (size_t)k * x->n, *stored = x->noise + (size_t)k * x->n;

	for (size_t j = 0; j < x->n; j++) raw[j] = number(y[j] - x->base[j]);
	xray_store(x, y, y);
	for (size_t j = 0; j < x->n; j++) stored[j] = number(y[j] - centre[j]);
}

/* What float32 moves is no copy, although no site but its store reaches it: a product of recorded matrices. */
static void mark_computed(struct xray *x)
{
	for (int k = 0; k < FLOOR_RUNS; k++)
		for (size_t j = 0; j < x->n; j++)
			if (x->shape2[j] == 0 && x->raw_noise[(size_t)k * x->n + j] != 0) x->shape2[j] = DBL_MIN;
}

bool xray_floor(struct xray *x)
{
	double *centre = x->raw;        /* until xray_rebase */
	struct plan p = x->replica;

	xray_store(x, x->base, centre);
	for (int k = 0; k < FLOOR_RUNS; k++) {
		p.arith = k < FLOOR_RUNS - 1 ? &arith_noisy : x->replica.arith == &arith_f32 ? &arith_f32_tree : &arith_f32;
		p.bits = p.arith->precision;
		p.seed = (uint64_t)k + 1;
		if (!xray_run(x, &p, x->r)) return false;
		add_noise(x, k, x->r, centre);
	}
	mark_computed(x);
	for (int i = 0; i < MAX_OUT; i++) {
		if (!x->call->out_count[i]) continue;
		find_grid(x, i);
		pool_floor(x, i);
	}
	return true;
}

double xray_amplified(struct xray *x)
{
	struct plan plain = plan_plain(&arith_f64, arith_f64.precision);
	double noise = 0, error = 0;

	if (!xray_rounds_inside(x) || !x->call->op->iterates) return 0;
	plain.form = x->replica.form;
	plain.chunk = x->replica.chunk;
	if (!xray_direction(x, &plain)) return -1;
	for (size_t j = 0; j < x->n; j++) {
		double d = isfinite(x->d[j]) ? x->d[j] : 0, v = 0;
		for (int k = 0; k < FLOOR_RUNS; k++) v += noise2(x, k, j) / FLOOR_RUNS;
		noise += v * x->weight[j];
		error += d * d * x->weight[j];
	}
	return error > 0 ? noise / error : 0;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The upper quartile of |y| in units over elements `list` [n]; y is the replica's r, or, for k >= 0, a run's noise. */
static double upper_quartile(const struct xray *x, const size_t *list, size_t n, int k, double *size)
{
	for (size_t i = 0; i < n; i++) {
		size_t j = list[i];
		double y = k < 0 ? x->r[j] : (double)x->noise[(size_t)k * x->n + j];
		size[i] = fabs(y) / unit_at(x, xray_out(x, j), j);
	}
	qsort(size, n, sizeof *size, by_size);
	return n ? size[n - 1 - n / 4] : 0;
}

/* The elements that count, block by block: list [n], those of block b from first[b]. */
static void list_blocks(const struct xray *x, size_t *list, size_t *first)
{
	size_t at[UINT8_MAX + 2] = { 0 };

	for (size_t j = 0; j < x->n; j++) at[x->block[j] + 1] += x->weight[j] > 0;
	for (int b = 0; b < x->blocks; b++) at[b + 1] += at[b];
	memcpy(first, at, ((size_t)x->blocks + 1) * sizeof *at);
	for (size_t j = 0; j < x->n; j++)
		if (x->weight[j] > 0) list[at[x->block[j]]++] = j;
}

bool xray_is_even(struct xray *x)
{
	size_t first[UINT8_MAX + 2], *list = malloc(x->n * sizeof *list);
	bool even = list != NULL;

	if (list) list_blocks(x, list, first);
	for (int b = 0; even && b < x->blocks; b++) {
		const size_t *of = list + first[b], n = first[b + 1] - first[b];
		double noise = 0;
		for (int k = 0; k < FLOOR_RUNS; k++) noise = fmax(noise, upper_quartile(x, of, n, k, x->trial));
		even = upper_quartile(x, of, n, -1, x->trial) <= 4 * noise + 0.5;
	}
	free(list);
	return even;
}
