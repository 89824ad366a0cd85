#include "xray_terms.h"

#include <float.h>
#include <math.h>

#include "fixtures/io/wide.h"

WIDE_LOOP void terms_of_step(const double *r, const double *shape2, const double *floor2, const double *scale, size_t n, double *term,
	double *weight)
{
	#pragma GCC ivdep
	for (size_t j = 0; j < n; j++) {
		double r2 = r[j] * r[j], shape = shape2[j], v = floor2[j] + shape * scale[j];
		double t = shape * (2 * v / (v + r2) * r2 - floor2[j]) / (v * v), w = shape * shape / (v * v);
		int in = (floor2[j] > 0) & (fabs(r[j]) <= DBL_MAX);
		term[j] = in ? t : 0;
		weight[j] = in ? w : 0;
	}
}

WIDE_LOOP void terms_of_size(const double *d, const double *with, const double *without, const double *floor2, size_t n, double *term,
	double *stored)
{
	#pragma GCC ivdep
	for (size_t j = 0; j < n; j++) {
		double apart = with[j] - without[j];
		int in = (floor2[j] > 0) & (fabs(d[j]) <= DBL_MAX);
		term[j] = in ? d[j] * d[j] / floor2[j] : 0;
		stored[j] = in ? apart * apart / floor2[j] : 0;
	}
}
