/* What a direction is against what is left around a replica. */
#include <math.h>

#include "xray.h"

/* What float32's noise, run after run, makes of the coefficient of d: its rms. */
static double noise_error(const struct xray *x, const float *noise, const double *weight)
{
	double dd = 0, square = 0;

	for (size_t j = 0; j < x->n; j++) dd += weight[j] > 0 ? weight[j] * x->d[j] * x->d[j] : 0;
	for (int k = 0; k < FLOOR_RUNS; k++) {
		double dy = 0;
		for (size_t j = 0; j < x->n; j++) dy += weight[j] > 0 ? weight[j] * x->d[j] * (double)noise[(size_t)k * x->n + j] : 0;
		square += dy * dy / FLOOR_RUNS;
	}
	return dd > 0 ? sqrt(square) / dd : 0;
}

static struct coefficient fit_to(const struct xray *x, const double *y, const double *weight, const float *noise)
{
	struct sample s = { x->n, x->blocks, x->block, weight };
	const double *d = x->d;
	struct coefficient c;

	fit(&s, y, &d, 1, &c);
	if (c.determined) c.error = fmax(c.error, noise_error(x, noise, weight));
	return c;
}

struct coefficient xray_fit_stored(const struct xray *x)
{
	return fit_to(x, x->r, x->weight, x->noise);
}

struct coefficient xray_fit(const struct xray *x)
{
	struct coefficient a = xray_fit_stored(x), b = fit_to(x, x->raw, x->raw_weight, x->raw_noise);

	return fabs(a.value - 1) / a.error < fabs(b.value - 1) / b.error || a.gain > b.gain ? a : b;
}

double xray_size(const struct xray *x)
{
	double sum[MAX_BLOCKS] = { 0 }, stored[MAX_BLOCKS] = { 0 }, n[MAX_BLOCKS] = { 0 }, largest = 0;

	for (size_t j = 0; j < x->n; j++) {
		enum dtype t = out_dtype(x->call, xray_out(x, j));
		int b = x->block[j];
		if (!(x->floor2[j] > 0)) continue;
		n[b]++;
		if (!isfinite(x->d[j])) continue;
		double d = stored_as(t, x->base[j] + x->d[j], 0) - stored_as(t, x->base[j], 0);
		sum[b] += x->d[j] * x->d[j] / x->floor2[j];
		stored[b] += d * d / x->floor2[j];
	}
	for (int b = 0; b < x->blocks; b++)
		if (n[b] > 0) largest = fmax(largest, fmax(sum[b], stored[b]) / n[b]);
	return sqrt(largest);
}

int xray_overflows(const struct xray *x)
{
	int any = 0;

	for (size_t j = 0; j < x->n; j++) {
		if (isfinite(x->d[j]) || !isfinite(x->base[j])) continue;
		if (isfinite(x->got[j])) return -1;
		any = 1;
	}
	return any;
}

double xray_left(const struct xray *x)
{
	double sum = 0, n = 0;

	for (size_t j = 0; j < x->n; j++) {
		if (x->weight[j] > 0) sum += x->r[j] * x->r[j] / x->floor2[j], n++;
		else if (isinf(x->r[j])) return INFINITY;
	}
	return n > 0 ? sum / n : 0;
}

bool xray_rounds_inside(const struct xray *x)
{
	for (int k = 0; x->call->op->sites[k].name; k++)
		if (x->replica.round[k].on && !site_store(x->call, k)) return true;
	return false;
}

bool xray_explained(struct xray *x, double share[MAX_OUT])
{
	struct plan plain = plan_plain(&arith_f64, arith_f64.precision);

	if (!xray_direction(x, &plain)) return false;
	for (int o = 0; o < MAX_OUT; o++) {
		double before = 0, after = 0;
		for (size_t j = x->first[o]; j < x->first[o + 1]; j++) {
			double e = x->raw[j] - x->d[j];
			before += e * e;
			after += x->r[j] * x->r[j];
		}
		share[o] = before > 0 ? 1 - after / before : before == 0 ? 1 : (double)NAN;
	}
	return true;
}

struct sample xray_sample(const struct xray *x)
{
	return (struct sample){ x->n, x->blocks, x->block, x->weight };
}
