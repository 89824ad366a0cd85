/* Double-double against MPFR, in units of u^2. */
#ifndef ETALON_TEST_DD_UNITS_H
#define ETALON_TEST_DD_UNITS_H

#include <math.h>
#include <mpfr.h>
#include <string.h>

#include "ref/dd/dd_form.h"
#include "tests/helpers.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
enum { EXACT = 400 };

static uint64_t stream = 7;
static double uniform(void) { return (double)(int64_t)random_bits(&stream) * 0x1p-63; }   /* -1 .. 1 */

/* x with a low part, which is 0 every fourth time */
static dd widened(double x)
{
	return dd_fast_two_sum(x, random_bits(&stream) >> 62 ? x * uniform() * 0x1p-53 : 0);
}

static void set(mpfr_ptr y, dd x)
{
	mpfr_set_d(y, x.hi, MPFR_RNDN);
	mpfr_add_d(y, y, x.lo, MPFR_RNDN);
}

/* |y - truth| / |size| in u^2, what is below 2^-1074 apart; NaN stays. */
static double units(dd y, mpfr_srcptr truth, mpfr_srcptr size)
{
	mpfr_t d;

	mpfr_init2(d, EXACT);
	set(d, y);
	mpfr_sub(d, d, truth, MPFR_RNDN);
	mpfr_abs(d, d, MPFR_RNDN);
	mpfr_sub_d(d, d, 0x1p-1074, MPFR_RNDN);
	if (mpfr_sgn(d) < 0) mpfr_set_zero(d, 1);
	if (!mpfr_zero_p(d)) mpfr_div(d, d, size, MPFR_RNDN);
	double u = fabs(mpfr_get_d(d, MPFR_RNDU)) / DD_U2;
	mpfr_clear(d);
	return u;
}

static bool same(const double *a, const double *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(a + i, b + i, sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return false;
	return true;
}

/* A test's setup: its state is the form to be used. */
static int use(void **state)
{
	stream = 7;
	dd_use(*state);
	return 0;
}
#define IN_FORM(test, form) { #test, test, use, NULL, (void *)(uintptr_t)(form) }

#endif
