/* f32: float throughout, sums in order. */
#include <math.h>

#include "calc_private.h"

#define E float
#define F(name) name##f
#include "arith_real.h"

static void load(calc *c, void *y, const double *x, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++) ((E *)y)[i] = (E)x[i];
}

static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++) {
		hi[i] = (double)((const E *)x)[i];
		if (lo) lo[i] = 0;
	}
}

const struct arith arith_f32 = {
	.name = "f32", .what = "float, sums in order", .precision = 24,
	.size = size, .init = init, .load = load, .read = take, ARITH_LOOPS
};
