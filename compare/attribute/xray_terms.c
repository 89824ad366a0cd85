#include "xray_terms.h"

#include <float.h>
#include <math.h>

#include "fixtures/io/wide.h"

/* Four lanes, in as many registers as it takes. */
enum { LANES = 4 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));
typedef double lanes_at __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));
typedef long long mask __attribute__((vector_size(LANES * sizeof(double))));
#define AT(p) (*(const lanes_at *)(p))
#define WHERE(m, x) ((lanes)((mask)(x) & (m)))
#define SUM(x) (((x)[0] + (x)[1]) + ((x)[2] + (x)[3]))

/* A lane that takes no part may be no number. */
WIDE_LOOP void sums_of_step(const double *r, const double *shape2, const double *floor2, double scale, size_t n, double *term, double *weight)
{
	lanes sum = { 0 }, sum_weight = { 0 }, by = { scale, scale, scale, scale };
	size_t j = 0;

	for (; j + LANES <= n; j += LANES) {
		lanes y = AT(r + j), r2 = y * y, shape = AT(shape2 + j), f = AT(floor2 + j), v = f + shape * by;
		mask in = (f > 0) & (y <= DBL_MAX) & (y >= -DBL_MAX);
		sum += WHERE(in, shape * (2 * v / (v + r2) * r2 - f) / (v * v));
		sum_weight += WHERE(in, shape * shape / (v * v));
	}
	*term += SUM(sum), *weight += SUM(sum_weight);
	for (; j < n; j++) {
		double r2 = r[j] * r[j], shape = shape2[j], v = floor2[j] + shape * scale;
		if (!(floor2[j] > 0) || !(fabs(r[j]) <= DBL_MAX)) continue;
		*term += shape * (2 * v / (v + r2) * r2 - floor2[j]) / (v * v);
		*weight += shape * shape / (v * v);
	}
}

WIDE_LOOP void sums_of_size(const double *d, const double *with, const double *without, const double *floor2, size_t n, struct sums_of_size *s)
{
	lanes d2 = { 0 }, stored2 = { 0 };
	size_t j = 0;

	for (; j + LANES <= n; j += LANES) {
		lanes x = AT(d + j), f = AT(floor2 + j), apart = AT(with + j) - AT(without + j);
		mask in = (f > 0) & (x <= DBL_MAX) & (x >= -DBL_MAX);
		d2 += WHERE(in, x * x / f);
		stored2 += WHERE(in, apart * apart / f);
	}
	s->d2 += SUM(d2), s->stored2 += SUM(stored2);
	for (; j < n; j++) {
		double apart = with[j] - without[j];
		if (!(floor2[j] > 0) || !(fabs(d[j]) <= DBL_MAX)) continue;
		s->d2 += d[j] * d[j] / floor2[j];
		s->stored2 += apart * apart / floor2[j];
	}
}

WIDE_LOOP double sum_of_squares(const double *w, const double *y, size_t n)
{
	lanes yy = { 0 };
	size_t j = 0;

	for (; j + LANES <= n; j += LANES) {
		lanes u = AT(w + j), v = AT(y + j);
		yy += WHERE(u > 0, u * v * v);
	}
	double sum = SUM(yy);
	for (; j < n; j++) sum += w[j] > 0 ? w[j] * y[j] * y[j] : 0;
	return sum;
}

WIDE_LOOP void sums_of_fit(const double *w, const double *y, const double *d, const float *noise, size_t apart, size_t n, struct sums_of_fit *s)
{
	lanes dy = { 0 }, dd = { 0 }, of[NOISE_RUNS] = { { 0 } };
	size_t j = 0;

	for (; j + LANES <= n; j += LANES) {
		lanes u = AT(w + j), v = AT(y + j), x = AT(d + j);
		mask in = u > 0;
		lanes ux = WHERE(in, u * x);
		dy += ux * WHERE(in, v);
		dd += ux * WHERE(in, x);
		for (size_t k = 0; k < NOISE_RUNS; k++) {
			const float *z = noise + k * apart + j;
			of[k] += ux * (lanes){ (double)z[0], (double)z[1], (double)z[2], (double)z[3] };
		}
	}
	s->dy += SUM(dy), s->dd += SUM(dd);
	for (size_t k = 0; k < NOISE_RUNS; k++) s->noise[k] += SUM(of[k]);
	for (; j < n; j++) {
		double ux = w[j] * d[j];
		if (!(w[j] > 0)) continue;
		s->dy += ux * y[j], s->dd += ux * d[j];
		for (size_t k = 0; k < NOISE_RUNS; k++) s->noise[k] += ux * (double)noise[k * apart + j];
	}
}

WIDE_LOOP void terms_of_votes(const double *got, const double *d, const double *with, const double *without, const double *floor2, const float *noise,
	size_t apart, size_t n, int64_t *vote)
{
	double most[TERMS] = { 0 };

	for (size_t k = 0; k < NOISE_RUNS; k++)
		for (size_t j = 0; j < n; j++) {
			double x = fabs((double)noise[k * apart + j]);
			most[j] = x > most[j] ? x : most[j];
		}
	#pragma GCC ivdep
	for (size_t j = 0; j < n; j++) {
		double distance = fabs(with[j] - without[j]), off = fabs(got[j] - without[j]);
		int64_t in = (floor2[j] > 0) & (fabs(d[j]) <= DBL_MAX) & (distance > 0) & (distance >= 8 * most[j]);
		vote[j] = in * (1 + FOR_BASE * (off < 0.25 * distance) + FOR_CLOSE * (off <= 0.05 * distance));
	}
}
