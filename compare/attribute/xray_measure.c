/* What the emulation leaves and explains. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "xray_private.h"

bool xray_rounds_inside(const struct xray *x)
{
	if (x->shift) return x->structure->n_rounding > 0;
	for (int k = 0; x->call->op->sites[k].name; k++)
		if (x->emulation.round[k].on && !site_store(x->call, k)) return true;
	return false;
}

struct sample xray_sample(const struct xray *x)
{
	return (struct sample){ x->n, x->blocks, x->block, x->weight };
}

/* Weighed squares of float32's noise, mean over its runs, and of d. */
static void add_amplified(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	(void)i, (void)with;
	for (size_t j = from; j < to; j++) {
		double d = isfinite(x->d[j]) ? x->d[j] : 0, v = 0;
		for (int k = 0; k < FLOOR_RUNS; k++) v += xray_noise2(x, k, j) / FLOOR_RUNS;
		sum[0] += v * x->weight[j];
		sum[1] += d * d * x->weight[j];
	}
}

bool xray_amplified(struct xray *x, double *share)
{
	struct stream plain = { .plan = plan_plain(&arith_f64, arith_f64.precision) };
	double sum[2] = { 0 };
	bool ok = true;

	*share = 0;
	if (!xray_rounds_inside(x) || !x->call->op->iterates) return true;
	plain.plan.form = x->emulation.form;
	plain.plan.chunk = x->emulation.chunk;
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, XRAY_WEIGHTS | XRAY_NOISE) && xray_direction(x, &plain);
		for (int i = 0; ok && i < MAX_OUT; i++) xray_add_up(x, i, add_amplified, NULL, sum, 2);
	}
	stream_end(&plain);
	*share = sum[1] > 0 ? sum[0] / sum[1] : 0;
	return ok;
}

/* Squares of the distance from the exact answer, and from the emulation's as it is stored. */
static void add_explained(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	(void)with;
	for (size_t j = from; j < to; j++) {
		double e = x->raw[j] - x->d[j] + (x->shift ? x->shift[x->first_element[i] + xray_place(x, i, j)] : 0);
		sum[0] += e * e;
		sum[1] += x->r[j] * x->r[j];
	}
}

bool xray_explained(struct xray *x, double share[MAX_OUT])
{
	struct stream plain = { .plan = plan_plain(&arith_f64, arith_f64.precision) };
	double sum[MAX_OUT][2] = { { 0 } };
	const uint64_t before = x->work;
	bool ok = true;

	if (xray_told_left(x, LEFT_EXPLAINED, NULL, share)) return true;
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, XRAY_BASE) && xray_direction(x, &plain);
		for (int o = 0; ok && o < MAX_OUT; o++) xray_add_up(x, o, add_explained, NULL, sum[o], 2);
	}
	stream_end(&plain);
	for (int o = 0; o < MAX_OUT; o++) share[o] = sum[o][0] > 0 ? 1 - sum[o][1] / sum[o][0] : sum[o][0] == 0 ? 1 : (double)NAN;
	if (ok) xray_tell_left(x, LEFT_EXPLAINED, false, share, x->work - before);
	return ok;
}

/* ---- quartiles ---- */

/* Values in sixteenths of an octave, from 2^-LEAST: the first holds what is smaller, the last what is larger. */
enum { LEAST = 8, OCTAVES = 32, SIXTEENTHS = 16, CLASSES = OCTAVES * SIXTEENTHS };

/* Sixteenths from 2^-LEAST down to the smallest number: a double's exponent and the first bits of its fraction. */
static const uint64_t smallest = (uint64_t)(1023 - LEAST) * SIXTEENTHS;

static size_t class_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	bits >>= 48;
	return bits < smallest ? 0 : bits - smallest >= CLASSES ? CLASSES - 1 : (size_t)(bits - smallest);
}

/* The class's lower end. */
static double class_value(size_t k)
{
	uint64_t bits = (smallest + k) << 48;
	double x;

	memcpy(&x, &bits, sizeof x);
	return k ? x : 0;
}

/* The upper quartile of n values. */
static double upper_quartile(const uint32_t *count)
{
	size_t n = 0, k = 0, below = 0;

	for (size_t i = 0; i < CLASSES; i++) n += count[i];
	while (k < CLASSES && below + count[k] < n - n / 4) below += count[k++];
	return n ? class_value(k) : 0;
}

/* |r| and each run's noise, in units, of the strip held: count [blocks][1 + FLOOR_RUNS][CLASSES]. Each thread counts runs of its own. */
static void count_classes(struct xray *x, uint32_t *count)
{
	double *unit = x->trial;

	for (int i = 0; i < MAX_OUT; i++) {
		#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++) unit[j] = xray_unit(x, i, j, x->base[j]);
	}
	#pragma omp parallel for schedule(dynamic) if (x->n > WORTH)
	for (size_t k = 0; k < 1 + FLOOR_RUNS; k++)
		for (size_t j = 0; j < x->n; j++) {
			if (!(x->weight[j] > 0)) continue;
			double y = k ? (double)x->noise[(k - 1) * x->n + j] : x->r[j];
			count[((size_t)x->block[j] * (1 + FLOOR_RUNS) + k) * CLASSES + class_of(fabs(y) / unit[j])]++;
		}
}

bool xray_is_even(struct xray *x, bool *even)
{
	const uint64_t before = x->work;
	if (xray_told_left(x, LEFT_EVEN, even, NULL)) return true;
	uint32_t *count = calloc((size_t)x->blocks * (1 + FLOOR_RUNS) * CLASSES, sizeof *count);
	bool ok = count || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "quartiles of %d blocks", x->blocks);

	for (size_t s = 0; ok && s < x->strips; s++)
		if ((ok = xray_refresh_strip(x, s, XRAY_WEIGHTS | XRAY_NOISE))) count_classes(x, count);
	*even = ok;
	for (int b = 0; *even && b < x->blocks; b++) {
		const uint32_t *of = count + (size_t)b * (1 + FLOOR_RUNS) * CLASSES;
		double noise = 0;
		for (size_t k = 1; k <= FLOOR_RUNS; k++) noise = fmax(noise, upper_quartile(of + k * CLASSES));
		*even = upper_quartile(of) <= 4 * noise + 0.5;
	}
	free(count);
	if (ok) xray_tell_left(x, LEFT_EVEN, *even, NULL, x->work - before);
	return ok;
}

/* Twice the log of the chance that element j of output i, in the strip held, lies on the output's coarser grid, were the emulation as it was
 * rebased the kernel: 0 where it is there itself, but for what is float32's own of it, or what it may flush to 0. */
static double by_chance(const struct xray *x, int i, size_t j)
{
	const struct format_info *store = &format_info[dtype_info[out_dtype(x->call, i)].format], *grid = &format_info[x->grid[i]];
	double y = x->base[j], off = fabs(y - format_round(x->grid[i], ROUND_NEAREST_EVEN, y, 0));

	if (!isfinite(y) || !isfinite(x->got[j]) || off <= float32s_share * fmax(fabs(y), x->typical[i]) + FLT_MIN) return 0;
	return 2 * M_LN2 * (store->precision - grid->precision);
}

/* Is the emulation off a grid that the kernel and the refreshed emulation are on? */
static bool misses_grid(struct xray *x, bool *yes)
{
	double unlikely = 0;

	for (int i = 0; i < MAX_OUT; i++) {
		if (!x->call->out_count[i] || x->grid[i] == dtype_info[out_dtype(x->call, i)].format) continue;
		for (size_t s = 0; s < x->strips && unlikely < worth_keeping; s++) {
			if (!xray_refresh_strip(x, s, XRAY_BASE)) return false;
			for (size_t j = x->first[i]; j < x->first[i + 1]; j++) unlikely += by_chance(x, i, j);
		}
	}
	*yes = unlikely >= worth_keeping;
	return true;
}

bool xray_scores(struct xray *x, double most, bool *yes)
{
	bool missed = false;

	*yes = x->score < most;
	if (*yes && !misses_grid(x, &missed)) return false;
	*yes = *yes && !missed;
	return true;
}
