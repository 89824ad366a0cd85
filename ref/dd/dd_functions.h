/* Elementary functions in double-double, without branches, so that loops over them become vector code. Bounds
 * are relative, in u^2 = 2^-106, for results above 2^-960, whose low part is no subnormal number; below, 2^-1074
 * are added. Tables: exact to 2^-106, by MPFR. */
#ifndef ETALON_DD_FUNCTIONS_H
#define ETALON_DD_FUNCTIONS_H

#include <stdint.h>

#include "dd.h"

/* 1/i! from i = 2 */
static const dd dd_factorial[] = {
	{ 0x1p-1, 0 }, { 0x1.5555555555555p-3, 0x1.5555555555555p-57 }, { 0x1.5555555555555p-5, 0x1.5555555555555p-59 },
	{ 0x1.1111111111111p-7, 0x1.1111111111111p-63 }, { 0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65 },
	{ 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73 }, { 0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76 },
	{ 0x1.71de3a556c734p-19, -0x1.c154f8ddc6cp-73 }, { 0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76 },
	{ 0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80 }, { 0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83 },
	{ 0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87 }, { 0x1.93974a8c07c9dp-37, 0x1.05d6f8a2efd1fp-92 },
	{ 0x1.ae7f3e733b81fp-41, 0x1.1d8656b0ee8cbp-97 }, { 0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101 },
	{ 0x1.952c77030ad4ap-49, 0x1.ac981465ddc6cp-103 }, { 0x1.6827863b97d97p-53, 0x1.eec01221a8b0bp-107 },
	{ 0x1.2f49b46814157p-57, 0x1.2650f61dbdcb4p-112 }, { 0x1.e542ba4020225p-62, 0x1.ea72b4afe3c2fp-120 },
	{ 0x1.71b8ef6dcf572p-66, -0x1.d043ae40c4647p-120 }, { 0x1.0ce396db7f853p-70, -0x1.aebcdbd20331cp-124 },
	{ 0x1.761b41316381ap-75, -0x1.3423c7d91404fp-130 }, { 0x1.f2cf01972f578p-80, -0x1.9ada5fcc1ab14p-135 },
	{ 0x1.3f3ccdd165fa9p-84, -0x1.58ddadf344487p-139 }, { 0x1.88e85fc6a4e5ap-89, -0x1.71c37ebd1654p-143 },
	{ 0x1.d1ab1c2dccea3p-94, 0x1.054d0c78aea14p-149 },
};
/* 1/(2i + 1) from i = 1 */
static const dd dd_odd[] = {
	{ 0x1.5555555555555p-2, 0x1.5555555555555p-56 }, { 0x1.999999999999ap-3, -0x1.999999999999ap-57 },
	{ 0x1.2492492492492p-3, 0x1.2492492492492p-57 }, { 0x1.c71c71c71c71cp-4, 0x1.c71c71c71c71cp-58 },
	{ 0x1.745d1745d1746p-4, -0x1.745d1745d1746p-59 }, { 0x1.3b13b13b13b14p-4, -0x1.3b13b13b13b14p-58 },
	{ 0x1.1111111111111p-4, 0x1.1111111111111p-60 }, { 0x1.e1e1e1e1e1e1ep-5, 0x1.e1e1e1e1e1e1ep-61 },
	{ 0x1.af286bca1af28p-5, 0x1.af286bca1af28p-59 }, { 0x1.8618618618618p-5, 0x1.8618618618618p-59 },
	{ 0x1.642c8590b2164p-5, 0x1.642c8590b2164p-60 }, { 0x1.47ae147ae147bp-5, -0x1.eb851eb851eb8p-61 },
	{ 0x1.2f684bda12f68p-5, 0x1.2f684bda12f68p-59 }, { 0x1.1a7b9611a7b96p-5, 0x1.1a7b9611a7b96p-61 },
	{ 0x1.0842108421084p-5, 0x1.0842108421084p-60 }, { 0x1.f07c1f07c1f08p-6, -0x1.f07c1f07c1f08p-61 },
	{ 0x1.d41d41d41d41dp-6, 0x1.075075075075p-60 }, { 0x1.bacf914c1badp-6, -0x1.bacf914c1badp-60 },
	{ 0x1.a41a41a41a41ap-6, 0x1.069069069069p-60 }, { 0x1.8f9c18f9c18fap-6, -0x1.f3831f3831f38p-61 },
	{ 0x1.7d05f417d05f4p-6, 0x1.7d05f417d05f4p-62 }, { 0x1.6c16c16c16c17p-6, -0x1.f49f49f49f49fp-61 },
	{ 0x1.5c9882b931057p-6, 0x1.310572620ae4cp-61 },
};
static const dd dd_ln2 = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };
static const dd dd_per_ln2 = { 0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56 };
static const double dd_ln2_rest = 0x1.7b57a079a1934p-111;

INLINE double dd_round(double x) { return (x + 0x1.8p52) - 0x1.8p52; }          /* |x| < 2^51: to the nearest integer */
INLINE dd dd_choose(bool c, dd x, dd y) { return (dd){ c ? x.hi : y.hi, c ? x.lo : y.lo }; }

/* 2^k, k integer, |k| < 1000 */
INLINE double dd_power(double k)
{
	union { double d; uint64_t u; } v = { .d = k + (0x1.8p52 + 1023) };

	v.u <<= 52;
	return v.d;
}

/* Σ_{i < n} x^i c[i step], the terms from m on, which are below 2^-53 of the sum, in double. |x| < 0.7, terms fall. */
INLINE dd dd_series(dd x, const dd *c, int step, int m, int n)
{
	double t = c[(n - 1) * step].hi;

	#pragma GCC unroll 32
	for (int i = n - 2; i >= m; i--) t = c[i * step].hi + x.hi * t;
	dd s = dd_add_less(c[(m - 1) * step], dd_mul(x, dd_of(t)));
	#pragma GCC unroll 32
	for (int i = m - 2; i >= 0; i--) s = dd_add_less(c[i * step], dd_mul(x, s));
	return s;
}

/* e^x - 1, |x| <= 0.35: at x/8 to the 15th power, then three times y <- 2y + y^2. 24 u^2. */
INLINE dd dd_expm1_near(dd x)
{
	x = dd_scale(x, 0.125);
	dd y = dd_add_less(x, dd_mul(dd_mul(x, x), dd_series(x, dd_factorial, 1, 8, 14)));
	#pragma GCC unroll 3
	for (int i = 0; i < 3; i++) y = dd_add_less(dd_scale(y, 2), dd_mul(y, y));
	return y;
}

/* x within ±bound, the low part with it; NaN stays. */
INLINE dd dd_clamp(dd x, double bound)
{
	double least = x.hi < -bound ? -bound : x.hi, most = x.hi > bound ? bound : least;

	return (dd){ most, most == x.hi ? x.lo : 0 };
}

/* x - k ln 2, k = the integer nearest x / ln 2, |x| <= 800: within 6 u^2 |x - k ln 2| + 2^-150. */
INLINE dd dd_less_ln2(dd x, double *k)
{
	*k = dd_round(x.hi * dd_per_ln2.hi);
	x = dd_sub(x, dd_two_prod(*k, dd_ln2.hi));
	x = dd_sub(x, dd_two_prod(*k, dd_ln2.lo));
	return dd_sub(x, dd_of(*k * dd_ln2_rest));
}

/* 2^k x, |k| < 1998 */
INLINE dd dd_times_power(dd x, double k)
{
	double half = dd_round(k * 0.5), a = dd_power(half), b = dd_power(k - half);

	return (dd){ x.hi * a * b, x.lo * a * b };
}

INLINE dd dd_exp(dd x)                                  /* 24 u^2 */
{
	double k;

	x = dd_less_ln2(dd_clamp(x, 800), &k);
	return dd_times_power(dd_add_less(dd_of(1), dd_expm1_near(x)), k);
}

INLINE dd dd_exp2(dd x)                                 /* 24 u^2 */
{
	x = dd_clamp(x, 1200);
	double k = dd_round(x.hi);
	x = dd_mul(dd_sub(x, dd_of(k)), dd_ln2);
	return dd_times_power(dd_add_less(dd_of(1), dd_expm1_near(x)), k);
}

INLINE dd dd_rsqrt(dd x)                                /* 12 u^2: y + y (1 - x y y) / 2 */
{
	double y = 1 / sqrt(x.hi);
	dd r = dd_sub(dd_of(1), dd_mul(dd_mul(x, dd_of(y)), dd_of(y)));

	return dd_join(y, y * (0.5 * r.hi));
}

INLINE dd dd_recip(dd x) { return dd_div(dd_of(1), x); }        /* 15 u^2 */

/* 2 atanh s, |s| < 0.172: 2s + 2s (s^2/3 + s^4/5 + ...). 16 u^2. */
INLINE dd dd_twice_atanh(dd s)
{
	dd z = dd_mul(s, s);

	s = dd_scale(s, 2);
	return dd_add_less(s, dd_mul(s, dd_mul(z, dd_series(z, dd_odd, 1, 10, 21))));
}

/* log(1 + t), 0 <= t <= 1: by (1 + t)/2 where t is above √2 - 1. 32 u^2. */
INLINE dd dd_log1p_unit(dd t)
{
	bool big = t.hi > 0.4142135623730951;
	dd s = dd_div(dd_sub(t, dd_of(big ? 1 : 0)), dd_add(t, dd_of(big ? 3 : 2)));
	dd y = dd_twice_atanh(s);

	return dd_choose(big, dd_add(dd_ln2, y), y);
}

INLINE dd dd_times_sign(dd x, double sign) { return dd_scale(x, copysign(1, sign)); }
INLINE dd dd_exp_minus_abs(dd x) { return dd_exp(dd_times_sign(x, -x.hi)); }

/* 1/(1 + e^-x), as e^x/(1 + e^x) where x < 0. 45 u^2. */
INLINE dd dd_sigmoid(dd x)
{
	dd e = dd_exp_minus_abs(x);

	return dd_div(dd_choose(x.hi < 0, e, dd_of(1)), dd_add(dd_of(1), e));
}

INLINE dd dd_silu(dd x) { return dd_mul(x, dd_sigmoid(x)); }    /* 50 u^2 */

/* max(x, 0) + log1p e^-|x|. 60 u^2. */
INLINE dd dd_softplus(dd x)
{
	return dd_add(dd_choose(x.hi > 0, x, dd_of(x.hi < 0 ? 0 : x.hi)), dd_log1p_unit(dd_exp_minus_abs(x)));
}

/* E/(E + 2), E = e^2x - 1; where E is no small number as 2^k (e^r - 1) + (2^k - 1). 80 u^2. */
INLINE dd dd_tanh(dd x)
{
	double k;
	dd a = dd_clamp(dd_times_sign(x, x.hi), 40), r = dd_less_ln2(dd_scale(a, 2), &k);
	double power = dd_power(k);
	dd e = dd_add(dd_scale(dd_expm1_near(r), power), dd_two_sum(power, -1));

	return dd_times_sign(dd_div(e, dd_add(e, dd_of(2))), x.hi);
}

/* sin (quarter 0) or cos (1) of r + q π/2, |r| <= 0.786; q integer. 16 u^2. */
INLINE dd dd_circular(dd r, double q, double quarter)
{
	dd w = dd_neg(dd_mul(r, r));
	dd sine = dd_add_less(r, dd_mul(r, dd_mul(w, dd_series(w, dd_factorial + 1, 2, 8, 13))));
	dd cosine = dd_add_less(dd_of(1), dd_mul(w, dd_series(w, dd_factorial, 2, 8, 13)));

	q += quarter;
	q -= 4 * dd_round(q * 0.25);                    /* -2 .. 2 */
	dd y = dd_choose(fabs(q) == 1, cosine, sine);
	return dd_choose((q == -1) | (fabs(q) == 2), dd_neg(y), y);
}

#endif
