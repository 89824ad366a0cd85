/* One unit computes them all, by a table and a polynomial of degree two (Oberman and Siu, A high-performance area-efficient
 * multifunction interpolator, ARITH 2005): the upper bits of the argument choose an interval, the 17 below are x. What is found
 * so is cut, never rounded. NaN is 0x7fffffff; subnormal arguments and results are 0. PTX's instructions without .ftz scale
 * such arguments first, as the compiler's code does. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "approx.h"
#include "approx_tables.h"
#include "square.h"

const char *const approx_names[APPROXES] = { "ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh" };

enum { SIGN = 1u << 31, FRACTION = (1 << 23) - 1, X = (1 << 17) - 1, INF = 0x7f800000, ONE = 0x3f800000, NOT_A_NUMBER = 0x7fffffff };

static uint32_t bits(float x)
{
	uint32_t u;

	memcpy(&u, &x, 4);
	return u;
}

static float number(uint32_t u)
{
	float x;

	memcpy(&x, &u, 4);
	return x;
}

/* In units of 2^-40. */
static int64_t at(const struct approx_table *t, uint32_t interval, uint32_t x)
{
	int64_t linear = (int64_t)t->at[interval].c0 * (1 << 14) + t->bias + (int64_t)t->at[interval].c1 * x;

	return linear + 2 * (int64_t)t->at[interval].c2 * approx_square(x);
}

/* f 2^power, f >= 0, cut to 24 bits; 0 below the normal numbers, infinity above. */
static uint32_t cut(int64_t f, int power)
{
	if (f <= 0) return 0;
	int top = 63 - __builtin_clzll((unsigned long long)f), exponent = top + power + 127;
	uint32_t m = (uint32_t)(top > 23 ? f >> (top - 23) : f << (23 - top));
	if (exponent <= 0) return 0;
	return exponent >= 255 ? INF : (uint32_t)exponent << 23 | (m & FRACTION);
}

/* x in fixed point with 23 bits behind the point, cut towards 0; a negative number that is no integer is the complement. */
static uint32_t ex2(uint32_t u)
{
	int exponent = (int)(u >> 23 & 255) - 127;
	int64_t m = (u & FRACTION) | 1 << 23, fixed;

	if (exponent >= 7) return u & SIGN ? 0 : INF;
	fixed = exponent >= 0 ? m << exponent : exponent > -24 ? m >> -exponent : 0;
	if (u & SIGN) fixed = fixed & FRACTION ? ~fixed : -fixed;
	return cut(at(&approx_ex2, (uint32_t)fixed >> 17 & 63, (uint32_t)fixed & X), (int)(fixed >> 23) - 40);
}

/* exponent + log2(mantissa) with 36 bits behind the point; of a negative number the complement. */
static uint32_t lg2(uint32_t u)
{
	int64_t f = at(&approx_lg2, u >> 17 & 63, u & X) >> 4;

	if (u == ONE) return 0;
	f += ((int64_t)(u >> 23) - 127) * (1ll << 36);
	return f < 0 ? SIGN | cut(~f, -36) : cut(f, -36);
}

static uint32_t rcp(uint32_t u)
{
	int exponent = (int)(u >> 23 & 255) - 127;
	int64_t f = u & FRACTION ? at(&approx_rcp, u >> 16 & 127, (u & 0xffff) << 1) : 1ll << 40;

	return (u & SIGN) | cut(f, -exponent - 40);
}

/* Of exponent 0 or 1: intervals 0 … 63, 64 … 127. */
static uint32_t root(const struct approx_table *t, uint32_t u, int sign)
{
	int exponent = (int)(u >> 23) - 127, odd = exponent & 1;
	bool whole = sign < 0 && !odd && !(u & FRACTION);

	return cut(whole ? 1ll << 40 : at(t, (uint32_t)(odd << 6) | (u >> 17 & 63), u & X), sign * ((exponent - odd) / 2) - 40);
}

/* Of x turns, with 25 bits behind the point: two for the quarter, 23 for where in it. */
static uint32_t turn(uint32_t u, int quarters)
{
	int exponent = (int)(u >> 23 & 255) - 127;
	uint64_t m = (u & FRACTION) | 1 << 23;
	uint64_t fixed = exponent > 24 ? 0 : exponent >= -2 ? m << (exponent + 2) : exponent > -26 ? m >> -(exponent + 2) : 0;
	uint32_t quarter = (uint32_t)(fixed >> 23) + (uint32_t)quarters, f = (uint32_t)fixed & FRACTION;

	if (quarter & 1) f ^= FRACTION;
	return ((quarter & 2) << 30) ^ (quarters ? 0 : u & SIGN) ^ cut(at(&approx_sin, f >> 17, f & X), -40);
}

/* [2^-8, 2^-7) … [4, 8): how many intervals each octave has, as a power of two, and the first. */
static uint32_t hyperbolic(uint32_t u)
{
	static const struct { int bits; uint32_t first; } octaves[] = {
		{ 0, 0 }, { 0, 1 }, { 0, 2 }, { 1, 3 }, { 1, 5 }, { 2, 7 }, { 2, 11 }, { 2, 15 }, { 3, 19 }, { 4, 27 }, { 3, 43 }
	};
	int exponent = (int)(u >> 23 & 255) - 127;

	if (exponent < -8) return u;
	if (exponent > 2) return (u & SIGN) | ONE;
	int n = octaves[exponent + 8].bits;
	uint32_t f = (u & FRACTION) >> (6 - n);
	return (u & SIGN) | cut(at(&approx_tanh, octaves[exponent + 8].first + (f >> 17), f & X), -40);
}

/* One instruction of the unit; sin and cos: of turns. */
static uint32_t unit(enum approx name, uint32_t u)
{
	uint32_t size = u & ~SIGN;

	if (size > INF) return NOT_A_NUMBER;
	if (size < 1 << 23 && name != APPROX_TANH) u &= SIGN, size = 0;
	switch (name) {
	case APPROX_EX2: return !size ? ONE : ex2(u);
	case APPROX_LG2: return !size ? SIGN | INF : u & SIGN ? NOT_A_NUMBER : size == INF ? INF : lg2(u);
	case APPROX_RCP: return !size ? u | INF : size == INF ? u & SIGN : rcp(u);
	case APPROX_RSQRT: return !size ? u | INF : u & SIGN ? NOT_A_NUMBER : size == INF ? 0 : root(&approx_rsqrt, u, -1);
	case APPROX_SQRT: return !size ? u : u & SIGN ? NOT_A_NUMBER : size == INF ? INF : root(&approx_sqrt, u, 1);
	case APPROX_SIN: return size == INF ? NOT_A_NUMBER : turn(u, 0);
	case APPROX_COS: return size == INF ? NOT_A_NUMBER : turn(u, 1);
	default: return hyperbolic(u);
	}
}

static float of(enum approx name, float x)
{
	return number(unit(name, bits(x)));
}

/* x times the float next to 1 / 2 pi, cut. */
static float turns(float x)
{
	double exact = (double)x * 0x1.45f306p-3;
	float near = (float)exact;

	return fabs((double)near) > fabs(exact) ? nextafterf(near, 0) : near;
}

float approx(enum approx name, float x, bool ftz)
{
	float size = fabsf(x);

	if (name == APPROX_SIN || name == APPROX_COS) return of(name, turns(ftz && size < 0x1p-126f ? copysignf(0, x) : x));
	if (ftz || name == APPROX_TANH || isnan(x)) return of(name, x);
	switch (name) {
	case APPROX_EX2: return x < -126 ? of(name, x * 0.5f) * of(name, x * 0.5f) : of(name, x);
	case APPROX_LG2: return size < 0x1p-126f ? of(name, x * 0x1p24f) - 24 : of(name, x);
	case APPROX_RCP: return size > 0x1p126f ? of(name, x * 0.25f) * 0.25f : size < 0x1p-126f ? of(name, x * 0x1p24f) * 0x1p24f : of(name, x);
	case APPROX_RSQRT: return size < 0x1p-126f ? of(name, x * 0x1p24f) * 0x1p12f : of(name, x);
	default: return size < 0x1p-126f ? of(name, x * 0x1p24f) * 0x1p-12f : of(name, x);
	}
}

/* 2^n 2^(x log2(e) - n), n by two fused multiply-adds, the first limited to [0, 1], the second rounded down. */
float approx_expf(float x)
{
	float limited = fmaf(x, 0x1.77313ap-8f, 0.5f);
	float n = (float)floor(252 * (double)(limited > 1 ? 1 : limited > 0 ? limited : 0)) - 126;
	float rest = fmaf(x, 0x1.4ae0cp-26f, fmaf(x, 0x1.715476p0f, -n));

	return ldexpf(of(APPROX_EX2, rest), (int)n);
}

float approx_fast_expf(float x)
{
	return approx(APPROX_EX2, x * 0x1.715476p0f, false);
}
