/* What a plan's answer says of its score before there is its noise. */
#include <math.h>
#include <string.h>

#include "xray_private.h"

/* What sums of as many terms may be off by. */
static const double rounding = 1e-9;

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
	*least = sum - rounding * ((double)x->n + fabs(sum));
	return true;
}
