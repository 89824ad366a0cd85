/* Double-double: x = hi + lo with |lo| <= ulp(hi)/2, some 106 bits, double's range. Relative errors with
 * u = 2^-53, from Joldes, Muller and Popescu (2017), barring underflow. Where double arithmetic on the high
 * parts would be infinite or NaN, so is the high part here, and the low part means nothing. */
#ifndef ETALON_DD_H
#define ETALON_DD_H

#include <math.h>
#include <stdbool.h>

/* Loops over these become vector code only where all is inlined. */
#define INLINE static inline __attribute__((always_inline, unused))

typedef struct { double hi, lo; } dd;

#define DD_U2 0x1p-106          /* u^2 */

INLINE dd dd_of(double x) { return (dd){ x, 0 }; }
INLINE double dd_double(dd x) { return x.hi + x.lo; }
INLINE dd dd_neg(dd x) { return (dd){ -x.hi, -x.lo }; }
INLINE dd dd_abs(dd x) { return x.hi < 0 ? dd_neg(x) : x; }
INLINE dd dd_scale(dd x, double power_of_two) { return (dd){ x.hi * power_of_two, x.lo * power_of_two }; }
INLINE bool dd_less(dd x, dd y) { return x.hi < y.hi || (x.hi == y.hi && x.lo < y.lo); }

INLINE dd dd_two_sum(double a, double b)         /* a + b exactly */
{
	double s = a + b, bb = s - a;

	return (dd){ s, (a - (s - bb)) + (b - bb) };
}

INLINE dd dd_fast_two_sum(double a, double b)    /* a + b exactly, |a| >= |b| or a == 0 */
{
	double s = a + b;

	return (dd){ s, b - (s - a) };
}

/* The same where a may have overflowed: b, made from the error of that, is then without meaning. */
INLINE dd dd_join(double a, double b)
{
	return dd_fast_two_sum(a, fabs(b) <= 0x1.fffffffffffffp1023 ? b : 0);
}

INLINE dd dd_two_prod(double a, double b)        /* a b exactly */
{
	double p = a * b;

	return (dd){ p, fma(a, b, -p) };
}

INLINE dd dd_add(dd x, dd y)                     /* 3 u^2 (1 + 5u) */
{
	dd s = dd_two_sum(x.hi, y.hi), t = dd_two_sum(x.lo, y.lo);

	s = dd_join(s.hi, s.lo + t.hi);
	return dd_join(s.hi, t.lo + s.lo);
}

INLINE dd dd_add_less(dd x, dd y)                /* |y| <= |x| / 2, finite: 6 u^2 */
{
	dd s = dd_fast_two_sum(x.hi, y.hi);

	return dd_fast_two_sum(s.hi, s.lo + (x.lo + y.lo));
}

INLINE dd dd_sub(dd x, dd y) { return dd_add(x, dd_neg(y)); }

INLINE dd dd_mul(dd x, dd y)                     /* 5 u^2 */
{
	dd p = dd_two_prod(x.hi, y.hi);

	return dd_join(p.hi, p.lo + fma(x.hi, y.lo, x.lo * y.hi));
}

INLINE dd dd_div(dd x, dd y)                     /* 15 u^2 */
{
	double q = x.hi / y.hi;
	dd r = dd_sub(x, dd_mul(y, dd_of(q)));

	return dd_join(q, r.hi / y.hi);
}

INLINE dd dd_sqrt(dd x)                          /* x >= 0; one Newton step, below 8 u^2 */
{
	double s = sqrt(x.hi);

	return dd_join(s, dd_sub(x, dd_two_prod(s, s)).hi / (2 * s));
}

/* y += a x, off by 7 u^2 |a x| + 4 u^2 (|y| + |a x|) at most: as good as accurate operations where nothing
 * cancels, and cheaper. */
INLINE dd dd_fma(dd a, dd x, dd y)
{
	dd p = dd_two_prod(a.hi, x.hi), s = dd_two_sum(y.hi, p.hi);

	return dd_join(s.hi, s.lo + (y.lo + (p.lo + fma(a.hi, x.lo, a.lo * x.hi))));
}

#endif
