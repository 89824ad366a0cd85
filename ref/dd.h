/* Double-double: x = hi + lo with |lo| <= ulp(hi)/2, some 106 bits, double's range. Relative errors with
 * u = 2^-53, from Joldes, Muller and Popescu (2017), barring underflow. Not for infinities. */
#ifndef ETALON_DD_H
#define ETALON_DD_H

#include <math.h>
#include <stdbool.h>

typedef struct { double hi, lo; } dd;

#define DD_U2 0x1p-106          /* u^2 */

static inline dd dd_of(double x) { return (dd){ x, 0 }; }
static inline double dd_double(dd x) { return x.hi + x.lo; }
static inline dd dd_neg(dd x) { return (dd){ -x.hi, -x.lo }; }
static inline dd dd_abs(dd x) { return x.hi < 0 ? dd_neg(x) : x; }
static inline dd dd_scale(dd x, double power_of_two) { return (dd){ x.hi * power_of_two, x.lo * power_of_two }; }
static inline bool dd_less(dd x, dd y) { return x.hi < y.hi || (x.hi == y.hi && x.lo < y.lo); }

static inline dd dd_two_sum(double a, double b)         /* a + b exactly */
{
	double s = a + b, bb = s - a;

	return (dd){ s, (a - (s - bb)) + (b - bb) };
}

static inline dd dd_fast_two_sum(double a, double b)    /* a + b exactly, |a| >= |b| or a == 0 */
{
	double s = a + b;

	return (dd){ s, b - (s - a) };
}

static inline dd dd_two_prod(double a, double b)        /* a b exactly */
{
	double p = a * b;

	return (dd){ p, fma(a, b, -p) };
}

static inline dd dd_add(dd x, dd y)                     /* 3 u^2 (1 + 5u) */
{
	dd s = dd_two_sum(x.hi, y.hi), t = dd_two_sum(x.lo, y.lo);

	s = dd_fast_two_sum(s.hi, s.lo + t.hi);
	return dd_fast_two_sum(s.hi, t.lo + s.lo);
}

static inline dd dd_sub(dd x, dd y) { return dd_add(x, dd_neg(y)); }

static inline dd dd_mul(dd x, dd y)                     /* 5 u^2 */
{
	dd p = dd_two_prod(x.hi, y.hi);

	return dd_fast_two_sum(p.hi, p.lo + fma(x.hi, y.lo, x.lo * y.hi));
}

static inline dd dd_div(dd x, dd y)                     /* 15 u^2 */
{
	double q = x.hi / y.hi;
	dd r = dd_sub(x, dd_mul(y, dd_of(q)));

	return dd_fast_two_sum(q, r.hi / y.hi);
}

static inline dd dd_sqrt(dd x)                          /* x >= 0; one Newton step, below 8 u^2 */
{
	double s = sqrt(x.hi);

	return s == 0 ? dd_of(0) : dd_fast_two_sum(s, dd_sub(x, dd_two_prod(s, s)).hi / (2 * s));
}

#endif
