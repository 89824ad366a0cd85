/* mpfr:BITS: every operation rounded to nearest at BITS bits, exponents without practical bound. An
 * element is an MPFR number followed by its limbs, so that arrays are contiguous. */
#include <mpfr.h>

#include "calc_private.h"
#include "round128.h"

#define E __mpfr_struct
#define AT(c, p, i) ((E *)((uintptr_t)(p) + (i) * (c)->element))
#define LOOP
#define RN MPFR_RNDN
enum { MOST_LIMBS = 4096 / GMP_NUMB_BITS };     /* arith_by_name takes 4096 bits */

static inline void e_set0(calc *c, E *y) { (void)c; mpfr_set_zero(y, 1); }
static inline void e_add(calc *c, E *y, const E *a, const E *b)
{
	if (c->bits == 128) add128(y, a, b);
	else mpfr_add(y, a, b, RN);
}
static inline void e_sub(calc *c, E *y, const E *a, const E *b)
{
	E minus = *b;

	minus._mpfr_sign = -minus._mpfr_sign;
	e_add(c, y, a, &minus);
}
static inline void e_mul(calc *c, E *y, const E *a, const E *b)
{
	if (c->bits == 128) mul128(y, a, b);
	else mpfr_mul(y, a, b, RN);
}
static inline void e_div(calc *c, E *y, const E *a, const E *b) { (void)c; mpfr_div(y, a, b, RN); }
static inline void e_max(calc *c, E *y, const E *a, const E *b) { (void)c; mpfr_max(y, a, b, RN); }
static inline void e_pow(calc *c, E *y, const E *a, const E *b) { (void)c; mpfr_pow(y, a, b, RN); }
/* Two roundings; mpfr_fma has one, and takes longer. */
static inline void e_fma(calc *c, E *y, const E *a, const E *x)
{
	mp_limb_t limbs[MOST_LIMBS];
	mpfr_t product;

	if (c->bits == 128 && fma128(y, a, x)) return;
	mpfr_custom_init_set(product, MPFR_ZERO_KIND, 0, c->bits, limbs);
	e_mul(c, product, a, x);
	e_add(c, y, y, product);
}

static void e_map(calc *c, enum fn f, E *y, const E *x)
{
	mp_limb_t limbs[MOST_LIMBS];
	mpfr_t t;

	mpfr_custom_init_set(t, MPFR_ZERO_KIND, 0, c->bits, limbs);
	switch (f) {
	case FN_ID: mpfr_set(y, x, RN); break;
	case FN_NEG: mpfr_neg(y, x, RN); break;
	case FN_EXP: mpfr_exp(y, x, RN); break;
	case FN_EXP2: mpfr_exp2(y, x, RN); break;
	case FN_PER_LN2:
		mpfr_const_log2(t, RN);
		mpfr_div(y, x, t, RN);
		break;
	case FN_SIGMOID:
	case FN_SILU:
		mpfr_neg(t, x, RN);
		mpfr_exp(t, t, RN);
		mpfr_add_ui(t, t, 1, RN);
		if (f == FN_SILU) mpfr_div(y, x, t, RN);
		else mpfr_ui_div(y, 1, t, RN);
		break;
	case FN_SOFTPLUS:               /* max(x, 0) + log(1 + e^-|x|) */
		mpfr_abs(t, x, RN);
		mpfr_neg(t, t, RN);
		mpfr_exp(t, t, RN);
		mpfr_log1p(t, t, RN);
		if (mpfr_sgn(x) > 0) mpfr_add(y, x, t, RN);
		else mpfr_set(y, t, RN);
		break;
	case FN_SQRT: mpfr_sqrt(y, x, RN); break;
	case FN_RSQRT: mpfr_rec_sqrt(y, x, RN); break;
	case FN_RECIP: mpfr_ui_div(y, 1, x, RN); break;
	case FN_SIN: mpfr_sin(y, x, RN); break;
	case FN_COS: mpfr_cos(y, x, RN); break;
	case FN_TANH: mpfr_tanh(y, x, RN); break;
	case FN_LOG: mpfr_log(y, x, RN); break;
	case FN_ERF: mpfr_erf(y, x, RN); break;
	case FN_ABS: mpfr_abs(y, x, RN); break;
	case FN_COUNT: break;
	}
}
#include "arith_loops.h"

static size_t size(const calc *c)
{
	return sizeof(E) + (mpfr_custom_get_size(c->bits) + 7) / 8 * 8;
}

static void init(calc *c, void *y, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		E *e = AT(c, y, i);
		mpfr_custom_init(e + 1, c->bits);
		mpfr_custom_init_set(e, MPFR_ZERO_KIND, 0, c->bits, e + 1);
	}
}

static void moved(calc *c, void *y, size_t n)
{
	for (size_t i = 0; i < n; i++) mpfr_custom_move(AT(c, y, i), AT(c, y, i) + 1);
}

static void load(calc *c, void *y, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) mpfr_set_d(AT(c, y, i), x[i], RN);
}

static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	mpfr_t rest;

	mpfr_init2(rest, c->bits + 64);
	for (size_t i = 0; i < n; i++) {
		const E *e = AT(c, x, i);
		hi[i] = mpfr_get_d(e, RN);
		if (!lo) continue;
		if (mpfr_sub_d(rest, e, hi[i], RN), mpfr_number_p(rest)) lo[i] = mpfr_get_d(rest, RN);
		else lo[i] = 0;
	}
	mpfr_clear(rest);
}

static void leave(calc *c) { (void)c; mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE); }

const struct arith arith_mpfr = {
	.name = "mpfr", .what = "MPFR at BITS bits, every operation rounded to nearest", .wide = true,
	.size = size, .init = init, .moved = moved, .load = load, .read = take, .leave = leave, ARITH_LOOPS
};
