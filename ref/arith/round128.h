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

/* ± m 2^(e - 128), m's top bit set; m is 0 for 0. */
struct number128 { u128 m; mpfr_exp_t e; int sign; };

static inline struct number128 number128(const __mpfr_struct *x) { return (struct number128){ mantissa128(x), x->_mpfr_exp, x->_mpfr_sign }; }

static inline void set128(__mpfr_struct *y, struct number128 x)
{
	if (!x.m) {
		mpfr_set_zero(y, 1);
		return;
	}
	y->_mpfr_sign = x.sign;
	y->_mpfr_exp = x.e;
	y->_mpfr_d[0] = (mp_limb_t)x.m;
	y->_mpfr_d[1] = (mp_limb_t)(x.m >> 64);
}

/* ± (hi + lo 2^-128) 2^(e - 128), rounded; hi has its top bit set. What is below lo's last bit stands in that bit. No branch is a coin's toss. */
static inline struct number128 round128(int sign, mpfr_exp_t e, u128 hi, u128 lo)
{
	const bool half = lo >> 127, more = (lo << 1 | (hi & 1)) != 0;

	hi += half & more;
	return __builtin_expect(!hi, 0) ? (struct number128){ (u128)1 << 127, e + 1, sign } : (struct number128){ hi, e, sign };
}

static inline struct number128 product128(struct number128 a, struct number128 b)
{
	uint64_t a0 = (uint64_t)a.m, a1 = (uint64_t)(a.m >> 64), b0 = (uint64_t)b.m, b1 = (uint64_t)(b.m >> 64);
	u128 low = (u128)a0 * b0, left = (u128)a1 * b0, right = (u128)a0 * b1;
	u128 middle = (low >> 64) + (uint64_t)left + (uint64_t)right;
	u128 hi = (u128)a1 * b1 + (left >> 64) + (right >> 64) + (middle >> 64), lo = middle << 64 | (uint64_t)low;
	mpfr_exp_t e = a.e + b.e;
	if (!(hi >> 127)) hi = hi << 1 | lo >> 127, lo <<= 1, e--;
	return round128(a.sign * b.sign, e, hi, lo);
}

/* s 2^128 >> d, as hi and lo; what is shifted out stands in lo's last bit. */
static inline void shifted128(u128 s, uint64_t d, u128 *hi, u128 *lo)
{
	*hi = d < 128 ? s >> d : 0;
	if (d < 128) *lo = d ? s << (128 - d) : 0;
	else *lo = d < 256 ? s >> (d - 128) | (d > 128 && s << (256 - d) != 0) : 0;     /* no rounding sees what is further away */
}

static inline int leading128(u128 x) { return x >> 64 ? __builtin_clzll((uint64_t)(x >> 64)) : 64 + __builtin_clzll((uint64_t)x); }

static inline struct number128 sum128(struct number128 a, struct number128 b)
{
	const bool less = a.e < b.e || (a.e == b.e && a.m < b.m);
	const struct number128 big = less ? b : a, small = less ? a : b;
	mpfr_exp_t e = big.e;
	u128 hi, lo;

	shifted128(small.m, (uint64_t)(e - small.e), &hi, &lo);
	if (a.sign == b.sign) {
		hi += big.m;
		const int down = hi < big.m;
		if (down) lo = lo >> 1 | hi << 127, hi = hi >> 1 | (u128)1 << 127, e++;
	} else {
		hi = big.m - hi - (lo != 0);
		lo = -lo;
		if (!hi && !lo) return (struct number128){ 0 };
		if (!hi) hi = lo, lo = 0, e -= 128;
		const int up = leading128(hi);
		if (up) hi = hi << up | lo >> (128 - up), lo <<= up, e -= up;
	}
	return round128(big.sign, e, hi, lo);
}

/* y = a b; y may be either. */
static inline void mul128(__mpfr_struct *y, const __mpfr_struct *a, const __mpfr_struct *b)
{
	if (plain128(a, b)) set128(y, product128(number128(a), number128(b)));
	else mpfr_mul(y, a, b, MPFR_RNDN);
}

/* y = a + b; y may be either. */
static inline void add128(__mpfr_struct *y, const __mpfr_struct *a, const __mpfr_struct *b)
{
	if (plain128(a, b)) set128(y, sum128(number128(a), number128(b)));
	else mpfr_add(y, a, b, MPFR_RNDN);
}

/* y += a b, the product rounded first; true where all three have a mantissa: else nothing is done. */
static inline bool fma128(__mpfr_struct *y, const __mpfr_struct *a, const __mpfr_struct *b)
{
	if (!plain128(a, b) || !plain128(y, y)) return false;
	set128(y, sum128(number128(y), product128(number128(a), number128(b))));
	return true;
}

#endif
