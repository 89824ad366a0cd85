/* The operations of each arithmetic against MPFR at 200 bits, in units of 2^(1-p) |y|, p being the
 * arithmetic's precision. */
#include <math.h>
#include <mpfr.h>
#include <string.h>

#include "tests/witness.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
enum { EXACT = 200 };

/* half: the error of one rounding, in units; 1 where it may go either way. */
static const struct arithmetic { const char *spec; double unit, half; } ariths_tried[] = {
	{ "f32", 0x1p-23, 0.5 }, { "f64", 0x1p-52, 0.5 }, { "f64up", 0x1p-52, 1 },
	{ "f32_fma", 0x1p-23, 0.5 }, { "f32_tree", 0x1p-23, 0.5 }, { "mma:ampere", 0x1p-23, 0.5 }, { "mma:hopper", 0x1p-23, 0.5 },
	{ "mpfr:24", 0x1p-23, 0.5 }, { "dd", 0x1p-100, 0.5 }, { "mpfr:100", 0x1p-99, 0.5 }, { "noisy", 0x1p-23, 1 },
};
static const struct arithmetic *now;

static void in_every(void (*body)(calc *c))
{
	for (now = ariths_tried; now < ariths_tried + LEN(ariths_tried); now++) {
		struct plan p = plan_in(now->spec);
		p.seed = 3;
		in_calc(&p, NULL, NULL, body);
	}
}

/* Fails unless |y - truth| <= units · unit · |truth| + slack. hi + lo reads 100 bits exactly. */
static void expect(calc *c, num y, mpfr_srcptr truth, double units, double slack, const char *what, double a, double b)
{
	double hi, lo;
	mpfr_t d, bound;

	c->arith->read(c, &hi, &lo, y.at, 1);
	mpfr_inits2(EXACT, d, bound, (mpfr_ptr)NULL);
	mpfr_set_d(d, hi, MPFR_RNDN);
	mpfr_add_d(d, d, lo, MPFR_RNDN);
	mpfr_sub(d, d, truth, MPFR_RNDN);
	mpfr_abs(d, d, MPFR_RNDN);
	mpfr_abs(bound, truth, MPFR_RNDU);
	mpfr_mul_d(bound, bound, units * now->unit, MPFR_RNDU);
	mpfr_add_d(bound, bound, slack, MPFR_RNDU);
	if (!mpfr_lessequal_p(d, bound)) fail_msg("%s: %s(%a, %a) = %.17g, expected %.17g", now->spec, what, a, b, hi, mpfr_get_d(truth, MPFR_RNDN));
	mpfr_clears(d, bound, (mpfr_ptr)NULL);
}

/* ---- elementwise ---- */

/* All are floats; sums, products and quotients stay within float's normal range. */
static const double operands[] = {
	1, -1, 1 + 0x1p-23, -1 + 0x1p-24, 3, 0x1.fffffep0, 0x1.555556p-2, -0x1p-60, 0x1.23456p40, -0x1.abcdeep-45, 0x1p24, 0x1.000002p24, 7
};
static const double bases[] = { 0x1p-20, 0.1f, 0.999999f, 1, 1.000001f, 3, 1e4f, 1e7f };
static const double exponents[] = { 0, 1, -1, 0.5, -0.75, 2.328125, -0.015625, 3 };

static void one_binary(calc *c, enum binary op, double a, double b)
{
	static const char *const what[] = { "add", "sub", "mul", "div", "max", "pow" };
	static void (*const run[])(calc *, vec, vec, vec) = { c_add, c_sub, c_mul, c_div, c_max, c_pow };
	static int (*const exact[])(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t) = { mpfr_add, mpfr_sub, mpfr_mul, mpfr_div, mpfr_max, mpfr_pow };
	bool noisy = c->arith == &arith_noisy;
	/* CUDA's bounds of division and powf, and the rounding; glibc's pow errs below 1 ulp */
	double units = op == OP_MAX ? 0 : op == OP_DIV && noisy ? 3 : op == OP_POW ? noisy ? 5 : 2 * now->half : now->half;
	size_t mark = c_mark(c);
	vec x = c_vec(c, 2), y = c_vec(c, 2);
	mpfr_t p, q;

	mpfr_inits2(EXACT, p, q, (mpfr_ptr)NULL);
	mpfr_set_d(p, a, MPFR_RNDN);
	mpfr_set_d(q, b, MPFR_RNDN);
	exact[op](p, p, q, MPFR_RNDN);
	c_set(c, x, a);
	c_set(c, c_part(c, y, 0, 1), b);
	c_set(c, c_part(c, y, 1, 1), op == OP_POW ? 1 : -2);
	run[op](c, x, x, c_part(c, y, 0, 1));           /* b is broadcast */
	for (size_t i = 0; i < 2; i++) expect(c, c_part(c, x, i, 1), p, units, 0, what[op], a, b);
	c_set(c, x, a);
	run[op](c, x, x, y);                            /* b is not */
	expect(c, c_part(c, x, 0, 1), p, units, 0, what[op], a, b);
	mpfr_set_d(p, a, MPFR_RNDN);
	mpfr_set_d(q, op == OP_POW ? 1 : -2, MPFR_RNDN);
	exact[op](p, p, q, MPFR_RNDN);
	expect(c, c_part(c, x, 1, 1), p, units, 0, what[op], a, op == OP_POW ? 1 : -2);
	mpfr_clears(p, q, (mpfr_ptr)NULL);
	c_release(c, mark);
}

static void binaries(calc *c)
{
	for (size_t i = 0; i < LEN(operands); i++)
		for (size_t j = 0; j < LEN(operands); j++)
			for (enum binary op = OP_ADD; op <= OP_MAX; op++) one_binary(c, op, operands[i], operands[j]);
	for (size_t i = 0; i < LEN(bases); i++)
		for (size_t j = 0; j < LEN(exponents); j++) one_binary(c, OP_POW, bases[i], exponents[j]);
}

static int exact_neg(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) { return mpfr_neg(y, x, r); }
static int exact_abs(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) { return mpfr_abs(y, x, r); }
static int exact_id(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) { return mpfr_set(y, x, r); }
static int exact_recip(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) { return mpfr_ui_div(y, 1, x, r); }

/* (1 + tanh(x/2)) / 2 loses all for x < 0: e^x / (1 + e^x), at more bits. */
static int exact_sigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	mpfr_t e;

	mpfr_init2(e, 2 * EXACT);
	mpfr_exp(e, x, r);
	mpfr_set(y, e, r);
	mpfr_add_ui(e, e, 1, r);
	int inexact = mpfr_regular_p(e) ? mpfr_div(y, y, e, r) : mpfr_set_ui(y, 1, r);
	mpfr_clear(e);
	return inexact;
}

static int exact_silu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	exact_sigmoid(y, x, r);
	return mpfr_mul(y, y, x, r);
}

static int exact_per_ln2(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	mpfr_t ln2;

	mpfr_init2(ln2, 2 * EXACT);
	mpfr_const_log2(ln2, r);
	int inexact = mpfr_div(y, x, ln2, r);
	mpfr_clear(ln2);
	return inexact;
}

/* log(1 + e^x), by definition */
static int exact_softplus(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	mpfr_t e;

	mpfr_init2(e, 2 * EXACT);
	mpfr_exp(e, x, r);
	int inexact = mpfr_log1p(y, e, r);
	mpfr_clear(e);
	return inexact;
}

/* units: f32 and f64 from the GNU C Library manual's table of known errors (exp, pow, sin, cos,
 * log1p 1 ulp, tanh 2) and half for each operation around them; f64up may double them.
 * noisy: as its file says, and one unit for each operation around them: noisy + noisy_x |x| units
 * of |y|, and noisy_flat + |x| units where 1 + e^x is rounded before its log.
 * slack: where e^|x| overflows or the answer is below the normal range, in units of the smallest
 * normal number; 710 / 2 < 2^9 for silu. */
static const struct function {
	const char *name;
	enum fn f;
	int (*exact)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
	double units, noisy, noisy_x, noisy_flat, slack, from, to;
} functions[] = {
	{ "id", FN_ID, exact_id, 0, 0, 0, 0, 0, -1e38, 1e38 },
	{ "neg", FN_NEG, exact_neg, 0, 0, 0, 0, 0, -1e38, 1e38 },
	{ "exp", FN_EXP, mpfr_exp, 1, 4, 1, 0, 1, -200, 88 },
	{ "exp2", FN_EXP2, mpfr_exp2, 1, 3, 0, 0, 1, -300, 127 },
	{ "per_ln2", FN_PER_LN2, exact_per_ln2, 1, 1, 0, 0, 0, -1e38, 1e38 },
	{ "sigmoid", FN_SIGMOID, exact_sigmoid, 2, 8, 1, 0, 1, -200, 1e38 },
	{ "softplus", FN_SOFTPLUS, exact_softplus, 3, 3, 0, 6, 1, -200, 1e38 },
	{ "silu", FN_SILU, exact_silu, 2, 9, 1, 0, 512, -200, 1e37 },
	{ "sqrt", FN_SQRT, mpfr_sqrt, 0.5, 3, 0, 0, 0, 0, 1e38 },
	{ "rsqrt", FN_RSQRT, mpfr_rec_sqrt, 1, 3, 0, 0, 0, 1e-37, 1e37 },
	{ "recip", FN_RECIP, exact_recip, 0.5, 3, 0, 0, 0, 1e-37, 1e37 },
	{ "sin", FN_SIN, mpfr_sin, 1, 3, 0, 0, 0, -1e38, 1e38 },
	{ "cos", FN_COS, mpfr_cos, 1, 3, 0, 0, 0, -1e38, 1e38 },
	{ "tanh", FN_TANH, mpfr_tanh, 2, 3, 0, 0, 0, -1e38, 1e38 },
	{ "log", FN_LOG, mpfr_log, 1, 3, 0, 0, 0, 1e-37, 1e37 },
	{ "erf", FN_ERF, mpfr_erf, 1, 3, 0, 0, 0, -1e38, 1e38 },
	{ "abs", FN_ABS, exact_abs, 0, 0, 0, 0, 0, -1e38, 1e38 },
};
static const double points[] = {
	0, 1e-37f, 0x1p-126, 1e-30f, -1e-30f, 1e-9f, -1e-9f, 0x1p-24, -0x1p-24, 0x1p-12, 0.001f, -0.25, 0.5, 0.6931472f, -1, 1.5707964f,
	3.1415927f, -3.1415927f, 2.5f, -7, 10, 17.3f, -17.3f, 19.9f, 20.1f, -30, 50, -87, 88, -88.7f, -88.8f, 89, -95, -104, -150, 1000,
	131071, 1e10f, 3e22f, 1e37f, -1e30f
};

static void maps(calc *c)
{
	bool noisy = c->arith == &arith_noisy;
	num x = c_num(c), y = c_num(c);
	mpfr_t t, at_p;

	mpfr_inits2(EXACT, t, at_p, (mpfr_ptr)NULL);
	for (size_t k = 0; k < LEN(functions); k++) {
		const struct function *f = &functions[k];
		for (size_t i = 0; i < LEN(points); i++) {
			double p = points[i], units = noisy ? f->noisy + f->noisy_x * fabs(p) : f->units * 2 * now->half, slack = 0;
			if (p < f->from || p > f->to) continue;
			if (noisy) slack = fmax(1, f->slack) * 0x1p-126 + (f->noisy_flat && p <= 20 ? (f->noisy_flat + fabs(p)) * now->unit : 0);
			else if (now->unit > 0x1p-60) slack = f->slack * (c->arith == &arith_mpfr ? 0 : c->arith->precision == 24 ? 0x1p-126 : 0x1p-1022);
			mpfr_set_d(at_p, p, MPFR_RNDN);
			f->exact(t, at_p, MPFR_RNDN);
			c_set(c, x, p);
			c_map(c, y, f->f, x);
			expect(c, y, t, units, slack, f->name, p, 0);
			c_map(c, x, f->f, x);           /* in place */
			if (!noisy) assert_true(same_double(c_value(c, x), c_value(c, y)));
		}
	}
	mpfr_clears(t, at_p, (mpfr_ptr)NULL);
}

static void elementwise(void **state)
{
	(void)state;
	in_every(binaries);
	in_every(maps);
	mpfr_free_cache();
}

/* Functions at infinity and beyond the range, where a NaN would be no answer. */
static void limits(calc *c)
{
	static const struct { enum fn f; double x, y; } rows[] = {
		{ FN_EXP, -INFINITY, 0 }, { FN_EXP, INFINITY, INFINITY }, { FN_SIGMOID, -INFINITY, 0 }, { FN_SIGMOID, INFINITY, 1 },
		{ FN_SOFTPLUS, -INFINITY, 0 }, { FN_SOFTPLUS, INFINITY, INFINITY }, { FN_SILU, INFINITY, INFINITY },
		{ FN_RSQRT, 0, INFINITY }, { FN_RECIP, 0, INFINITY }, { FN_RECIP, INFINITY, 0 }, { FN_RSQRT, INFINITY, 0 },
		{ FN_TANH, INFINITY, 1 }, { FN_TANH, -INFINITY, -1 }, { FN_SIGMOID, -1e4, 0 }, { FN_SILU, -1e4, 0 }, { FN_SOFTPLUS, -1e4, 0 },
	};

	for (size_t i = 0; i < LEN(rows); i++) {
		for (int draw = 0; draw < 20; draw++) {
			num x = c_num(c);
			c_set(c, x, rows[i].x);
			c_map(c, x, rows[i].f, x);
			double y = c_value(c, x);
			if (!(y == rows[i].y || fabs(y - rows[i].y) <= 4 * 0x1p-23))
				fail_msg("%s: function %d of %g is %g, not %g", now->spec, (int)rows[i].f, rows[i].x, y, rows[i].y);
		}
	}
}

static void infinities(void **state)
{
	(void)state;
	in_every(limits);
}

static void names(void **state)
{
	static const struct { const char *spec; int bits; } good[] = {
		{ "f32", 24 }, { "f32_fma", 24 }, { "f32_tree", 24 }, { "mma:volta", 24 }, { "mma:turing", 24 }, { "mma:ampere", 24 },
		{ "mma:ada", 24 }, { "mma:hopper", 24 }, { "mma:blackwell", 24 }, { "f64", 53 }, { "f64up", 53 }, { "dd", 106 }, { "noisy", 24 }, { "mpfr:24", 24 }, { "mpfr:128", 128 }, { "mpfr:4096", 4096 } };
	static const char *const bad[] = { "", "f", "f3", "f322", "F32", "f32_", "mma", "mma:", "mma:hoppe", "mma:hopper:", "mma:24", "f32:", "f32:24", "dd:106", "d", "noisy:53", "mpfr", "mpfr:", "mpfr:23", "mpfr:4097",
		"mpfr:0", "mpfr:-128", "mpfr:128x", "mpfr:128:1", "mpfr:x", "mpfr:99999999999999999999", "mpfr:4294967424", ":24", "mpfr:1e2", "mpfr: 128", "mpfr:+128" };
	const struct arith *a;
	int bits;

	(void)state;
	for (size_t i = 0; i < LEN(good); i++) {
		assert_true(arith_by_name(good[i].spec, &a, &bits) && bits == good[i].bits);
		assert_int_equal(strncmp(a->name, good[i].spec, strcspn(good[i].spec, ":")), 0);
		assert_true(a->wide == (a == &arith_mpfr || a == &arith_dd));
	}
	for (size_t i = 0; i < LEN(bad); i++)
		if (arith_by_name(bad[i], &a, &bits)) fail_msg("\"%s\" is accepted", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elementwise),
		cmocka_unit_test(infinities),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
