/* Sums and products of MPFR's numbers of 128 bits, rounded to nearest, ties to even: mpfr_add's and mpfr_mul's bits in half of the time
 * (tests/ref/arith/test_round128.c). Zeros, infinities, NaN and exponents near MPFR's own limits are left to MPFR. */
#ifndef ETALON_ROUND128_H
#define ETALON_ROUND128_H

#include <mpfr.h>
#include <stdbool.h>
#include <stdint.h>

_Static_assert(GMP_NUMB_BITS == 64, "a number of 128 bits is two limbs");
typedef unsigned __int128 u128;

static inline u128 mantissa128(const __mpfr_struct *x) { return (u128)x->_mpfr_d[1] << 64 | x->_mpfr_d[0]; }

/* Of two numbers with a mantissa of their own and exponents that neither a sum nor a product takes out of MPFR's range. */
static inline bool plain128(const __mpfr_struct *a, const __mpfr_struct *b)
{
	const mpfr_exp_t most = (mpfr_exp_t)1 << 28;

	return a->_mpfr_exp > -most && a->_mpfr_exp < most && b->_mpfr_exp > -most && b->_mpfr_exp < most;
}

/* y = ± (hi + lo 2^-128) 2^(e - 128), rounded; hi has its top bit set. What is below lo's last bit stands in that bit. */
static inline void round128(__mpfr_struct *y, int sign, mpfr_exp_t e, u128 hi, u128 lo)
{
	bool half = lo >> 127, more = lo << 1 != 0;

	if (half && (more || (hi & 1)) && !++hi) hi = (u128)1 << 127, e++;
	y->_mpfr_sign = sign;
	y->_mpfr_exp = e;
	y->_mpfr_d[0] = (mp_limb_t)hi;
	y->_mpfr_d[1] = (mp_limb_t)(hi >> 64);
}

/* y = a b; y may be either. */
static inline void mul128(__mpfr_struct *y, const __mpfr_struct *a, const __mpfr_struct *b)
{
	if (!plain128(a, b)) {
		mpfr_mul(y, a, b, MPFR_RNDN);
		return;
	}
	uint64_t a0 = a->_mpfr_d[0], a1 = a->_mpfr_d[1], b0 = b->_mpfr_d[0], b1 = b->_mpfr_d[1];
	u128 low = (u128)a0 * b0, left = (u128)a1 * b0, right = (u128)a0 * b1;
	u128 middle = (low >> 64) + (uint64_t)left + (uint64_t)right;
	u128 hi = (u128)a1 * b1 + (left >> 64) + (right >> 64) + (middle >> 64), lo = middle << 64 | (uint64_t)low;
	mpfr_exp_t e = a->_mpfr_exp + b->_mpfr_exp;

	if (!(hi >> 127)) hi = hi << 1 | lo >> 127, lo <<= 1, e--;
	round128(y, a->_mpfr_sign * b->_mpfr_sign, e, hi, lo);
}

/* s 2^128 >> d, as hi and lo; what is shifted out stands in lo's last bit. */
static inline void shifted128(u128 s, uint64_t d, u128 *hi, u128 *lo)
{
	*hi = d < 128 ? s >> d : 0;
	if (d < 128) *lo = d ? s << (128 - d) : 0;
	else *lo = d < 256 ? s >> (d - 128) | (d > 128 && s << (256 - d) != 0) : 0;     /* no rounding sees what is further away */
}

static inline int leading128(u128 x) { return x >> 64 ? __builtin_clzll((uint64_t)(x >> 64)) : 64 + __builtin_clzll((uint64_t)x); }

/* y = a + b; y may be either. */
static inline void add128(__mpfr_struct *y, const __mpfr_struct *a, const __mpfr_struct *b)
{
	if (!plain128(a, b)) {
		mpfr_add(y, a, b, MPFR_RNDN);
		return;
	}
	u128 big = mantissa128(a), small = mantissa128(b), hi, lo;
	mpfr_exp_t e = a->_mpfr_exp, d = e - b->_mpfr_exp;
	int sign = a->_mpfr_sign;
	bool same = sign == b->_mpfr_sign;

	if (d < 0 || (d == 0 && big < small)) {
		u128 other = big;
		big = small, small = other;
		d = -d, e = b->_mpfr_exp, sign = b->_mpfr_sign;
	}
	shifted128(small, (uint64_t)d, &hi, &lo);
	if (same) {
		hi += big;
		if (hi < big) lo = lo >> 1 | hi << 127, hi = hi >> 1 | (u128)1 << 127, e++;
	} else {
		hi = big - hi - (lo != 0);
		lo = -lo;
		if (!hi && !lo) {
			mpfr_set_zero(y, 1);
			return;
		}
		if (!hi) hi = lo, lo = 0, e -= 128;
		int up = leading128(hi);
		if (up) hi = hi << up | lo >> (128 - up), lo <<= up, e -= up;
	}
	round128(y, sign, e, hi, lo);
}

#endif
