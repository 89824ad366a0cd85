/* The elements of double-double within the bounds of dd_form.h and dd_functions.h. The worst that was found is printed:
 * a sampled bound. */
#include "ref/dd/dd_functions.h"
#include "tests/ref/dd/dd_units.h"

enum { MANY = 3000 };

/* ---- functions ---- */
static int exact_recip(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) { return mpfr_ui_div(y, 1, x, r); }
static int exact_sigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	mpfr_neg(y, x, r);
	mpfr_exp(y, y, r);
	mpfr_add_ui(y, y, 1, r);
	return mpfr_ui_div(y, 1, y, r);
}
static int exact_silu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	exact_sigmoid(y, x, r);
	return mpfr_mul(y, y, x, r);
}
static int exact_softplus(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	mpfr_exp(y, x, r);
	return mpfr_log1p(y, y, r);
}
static int exact_per_ln2(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r)
{
	mpfr_t ln2;

	mpfr_init2(ln2, EXACT);
	mpfr_const_log2(ln2, r);
	int inexact = mpfr_div(y, x, ln2, r);
	mpfr_clear(ln2);
	return inexact;
}
static int exact_neg(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) { return mpfr_neg(y, x, r); }
static int exact_abs(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t r) { return mpfr_abs(y, x, r); }

/* Largest arguments keep results, and their low parts, normal: below 2^-960 a low part loses bits. */
static const struct function {
	const char *name;
	enum fn f;
	int (*exact)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
	double bound, from, to;
} functions[] = {
	{ "neg", FN_NEG, exact_neg, 0, -1e300, 1e300 },
	{ "exp", FN_EXP, mpfr_exp, 24, -665, 709.7 },
	{ "exp2", FN_EXP2, mpfr_exp2, 24, -960, 1023.9 },
	{ "per_ln2", FN_PER_LN2, exact_per_ln2, 6, -1e300, 1e300 },
	{ "sigmoid", FN_SIGMOID, exact_sigmoid, 45, -665, 1e300 },
	{ "softplus", FN_SOFTPLUS, exact_softplus, 60, -665, 700 },
	{ "silu", FN_SILU, exact_silu, 50, -665, 1e300 },
	{ "sqrt", FN_SQRT, mpfr_sqrt, 8, 1e-280, 1e300 },
	{ "rsqrt", FN_RSQRT, mpfr_rec_sqrt, 12, 1e-280, 1e300 },
	{ "recip", FN_RECIP, exact_recip, 15, 1e-280, 1e280 },
	{ "sin", FN_SIN, mpfr_sin, 60, -1.79e308, 1.79e308 },
	{ "cos", FN_COS, mpfr_cos, 60, -1.79e308, 1.79e308 },
	{ "tanh", FN_TANH, mpfr_tanh, 80, -1e300, 1e300 },
	{ "log", FN_LOG, mpfr_log, 100, 1e-280, 1e300 },
	{ "erf", FN_ERF, mpfr_erf, 1000, -1e300, 1e300 },
	{ "abs", FN_ABS, exact_abs, 0, -1e300, 1e300 },
};

/* Zeros of polynomials' ranges, ends of reductions, multiples of ln 2 / 2 and π/4, and doubles next to multiples of π/2
 * (the last two are the nearest of all: Muller et al., Handbook of Floating-Point Arithmetic, section 11.3). */
static const double hard[] = {
	1, 0.5, 0.34657359027997264, 0.34657359027997270, 0.6931471805599453, 0.4142135623730951, 0.8813735870195430, 1e-5, 1e-9,
	1e-18, 1e-40, 1e-200, 0.7853981633974483, 1.5707963267948966, 3.141592653589793, 6.283185307179586, 11, 22, 355, 103993,
	0x1p28, 0x1.0000000000001p28, 0x1.921fb54442d18p27, 1e9, 1e22, 1e100, 710, 39.9, 40.1, 20, 88.7, 600,
	0x1.6ac5b262ca1ffp849, 0x1.921fb54442d18p1000, 6381956970095103 * 0x1p797, 1.7e308, 245850922.0 / 78256779,
};

static double argument(const struct function *f, size_t i)
{
	double x = i / 2 < LEN(hard) ? i % 2 ? -hard[i / 2] : hard[i / 2] : i % 3 == 0 ? uniform() * 4 : i % 3 == 1 ? uniform() * 800
		: ldexp(uniform(), (int)(900 * uniform()));

	if (f->from > 0) x = fabs(x);
	return x >= f->from && x <= f->to ? x : 1 + uniform() / 2;
}

static double worst_of(const struct function *f, double *where)
{
	double worst = 0, hi[MANY], lo[MANY], yh[MANY], yl[MANY];
	mpfr_t x, t;

	mpfr_inits2(EXACT + 1100, x, t, (mpfr_ptr)NULL);
	for (size_t i = 0; i < MANY; i++) {
		dd a = i / 2 < LEN(hard) ? dd_of(argument(f, i)) : widened(argument(f, i));
		hi[i] = a.hi, lo[i] = a.lo;
	}
	dd_form()->map(f->f, (dds){ yh, yl }, (dds){ hi, lo }, MANY);
	for (size_t i = 0; i < MANY; i++) {
		set(x, (dd){ hi[i], lo[i] });
		f->exact(t, x, MPFR_RNDN);
		double u = units((dd){ yh[i], yl[i] }, t, t);
		if (!(u <= worst)) worst = u, *where = hi[i];
		if (isnan(u)) break;
	}
	mpfr_clears(x, t, (mpfr_ptr)NULL);
	return worst;
}

static void functions_keep_their_bounds(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(functions); k++) {
		double where = 0, worst = worst_of(&functions[k], &where);
		print_message("%-9s %6.2f u^2 at %a, at most %g: 2^%.1f\n", functions[k].name, worst, where, functions[k].bound,
			log2(worst * DD_U2));
		assert_true(worst <= functions[k].bound);
	}
	mpfr_free_cache();
}

/* Double-doubles next to q π/2, of which sine or cosine is tiny: 60 u^2 of it and 2^-180 are the bound. */
static void angles_next_to_multiples(void **state)
{
	double worst = 0;
	mpfr_t half_pi, x, t, rest;

	(void)state;
	mpfr_inits2(2 * EXACT, half_pi, x, t, rest, (mpfr_ptr)NULL);
	mpfr_const_pi(half_pi, MPFR_RNDN);
	mpfr_div_2ui(half_pi, half_pi, 1, MPFR_RNDN);
	for (int i = 0; i < 2000; i++) {
		double q = floor(ldexp(1 + fabs(uniform()), i % 50)), yh, yl;
		mpfr_mul_d(x, half_pi, q, MPFR_RNDN);
		dd a = dd_of(mpfr_get_d(x, MPFR_RNDN));
		mpfr_sub_d(rest, x, a.hi, MPFR_RNDN);
		a.lo = mpfr_get_d(rest, MPFR_RNDN);
		set(x, a);
		bool odd = fmod(q, 2) == 1;
		dd_form()->map(odd ? FN_COS : FN_SIN, (dds){ &yh, &yl }, (dds){ &a.hi, &a.lo }, 1);
		if (odd) mpfr_cos(t, x, MPFR_RNDN);
		else mpfr_sin(t, x, MPFR_RNDN);
		assert_true(fabs(yh) < 0x1p-50);
		mpfr_abs(rest, t, MPFR_RNDN);
		mpfr_add_d(rest, rest, 0x1p-180 / (60 * DD_U2), MPFR_RNDN);
		worst = fmax(worst, units((dd){ yh, yl }, t, rest));
	}
	print_message("next to multiples of π/2: %.2f u^2, at most 60\n", worst);
	assert_true(worst > 0 && worst <= 60);
	mpfr_clears(half_pi, x, t, rest, (mpfr_ptr)NULL);
	mpfr_free_cache();
}

/* Parts of the functions that have no place of their own in a dd_form. */
static void logarithm_and_exponential_near_0(void **state)
{
	double worst[2] = { 0 };
	mpfr_t x, t;

	(void)state;
	mpfr_inits2(EXACT + 1100, x, t, (mpfr_ptr)NULL);
	for (size_t i = 0; i < MANY; i++) {
		double size = ldexp(1, -(int)(i % 90)), edge = i % 5 ? 1 : 0.4142135623730951 / size;
		dd a = widened(fabs(uniform()) * size * (edge < 1 ? edge : 1)), b = widened(0.34 * uniform() * size);
		set(x, a), mpfr_log1p(t, x, MPFR_RNDN);
		worst[0] = fmax(worst[0], units(dd_log1p_unit(a), t, t));
		set(x, b), mpfr_expm1(t, x, MPFR_RNDN);
		worst[1] = fmax(worst[1], units(dd_expm1_near(b), t, t));
	}
	print_message("log1p     %6.2f u^2, at most 32\nexpm1     %6.2f u^2, at most 24\n", worst[0], worst[1]);
	assert_true(worst[0] > 0 && worst[0] <= 32 && worst[1] > 0 && worst[1] <= 24);
	mpfr_clears(x, t, (mpfr_ptr)NULL);
	mpfr_free_cache();
}

/* ---- two operands ---- */
static int exact_max(mpfr_ptr y, mpfr_srcptr a, mpfr_srcptr b, mpfr_rnd_t r) { return mpfr_max(y, a, b, r); }

static void operations_keep_their_bounds(void **state)
{
	static const struct { const char *name; int (*exact)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t); double bound; } ops[] = {
		[OP_ADD] = { "add", mpfr_add, 3.01 }, [OP_SUB] = { "sub", mpfr_sub, 3.01 }, [OP_MUL] = { "mul", mpfr_mul, 5 },
		[OP_DIV] = { "div", mpfr_div, 15 }, [OP_MAX] = { "max", exact_max, 0 }, [OP_POW] = { "pow", mpfr_pow, 40 }
	};
	mpfr_t p, q, t;

	(void)state;
	mpfr_inits2(EXACT, p, q, t, (mpfr_ptr)NULL);
	for (enum binary op = OP_ADD; op <= OP_POW; op++) {
		double worst = 0;
		for (size_t i = 0; i < MANY; i++) {
			double yh, yl;
			dd a = widened(ldexp(1 + fabs(uniform()), (int)(30 * uniform()))), b = widened(uniform() * ldexp(1, (int)(30 * uniform())));
			if (op <= OP_SUB && i % 2) b = widened((op == OP_ADD ? -a.hi : a.hi) * (1 + ldexp(uniform(), -(int)(i % 64))));
			if (op == OP_POW) b = dd_of(uniform() * ldexp(1, (int)(i % 6)));
			if (op == OP_POW && i % 2) a = widened(i % 3 ? 1e6 : 1 + uniform() * 0.5);
			set(p, a), set(q, b);
			ops[op].exact(t, p, q, MPFR_RNDN);
			dd_form()->binary(op, (dds){ &yh, &yl }, (dds){ &a.hi, &a.lo }, (dds){ &b.hi, &b.lo }, i % 2, 1);
			double u = units((dd){ yh, yl }, t, t) / (op == OP_POW ? 1 + fabs(b.hi) : 1);
			if (!(u <= worst)) worst = u;
		}
		print_message("%-9s %6.2f u^2%s, at most %g\n", ops[op].name, worst, op == OP_POW ? " (1 + |b|)" : "", ops[op].bound);
		assert_true(worst <= ops[op].bound);
	}
	mpfr_clears(p, q, t, (mpfr_ptr)NULL);
	mpfr_free_cache();
}

/* What double arithmetic makes of infinities and NaN, so does the high part. */
static void not_finite(void **state)
{
	static const struct { int f, op; double a, b, y; } rows[] = {
		{ -1, OP_ADD, INFINITY, 1, INFINITY }, { -1, OP_ADD, INFINITY, -INFINITY, NAN }, { -1, OP_SUB, 1, INFINITY, -INFINITY },
		{ -1, OP_ADD, 1.7e308, 1.7e308, INFINITY }, { -1, OP_MUL, 1e200, -1e200, -INFINITY }, { -1, OP_MUL, 0, INFINITY, NAN },
		{ -1, OP_MUL, INFINITY, INFINITY, INFINITY }, { -1, OP_DIV, 1, 0, INFINITY }, { -1, OP_DIV, 1, INFINITY, 0 },
		{ -1, OP_DIV, 0, 0, NAN }, { -1, OP_MAX, INFINITY, 1, INFINITY }, { -1, OP_ADD, NAN, 1, NAN }, { -1, OP_MUL, 2, NAN, NAN },
		{ FN_EXP, 0, INFINITY, 0, INFINITY }, { FN_EXP, 0, 1000, 0, INFINITY }, { FN_EXP, 0, -1000, 0, 0 }, { FN_EXP, 0, NAN, 0, NAN },
		{ FN_EXP, 0, -INFINITY, 0, 0 }, { FN_SQRT, 0, 0, 0, 0 }, { FN_SQRT, 0, INFINITY, 0, INFINITY }, { FN_SQRT, 0, -1, 0, NAN },
		{ FN_RSQRT, 0, 0, 0, INFINITY }, { FN_RSQRT, 0, INFINITY, 0, 0 },
		{ FN_RECIP, 0, 0, 0, INFINITY }, { FN_RECIP, 0, INFINITY, 0, 0 },
		{ FN_SOFTPLUS, 0, INFINITY, 0, INFINITY }, { FN_SOFTPLUS, 0, -INFINITY, 0, 0 }, { FN_SOFTPLUS, 0, NAN, 0, NAN },
		{ FN_SIGMOID, 0, -INFINITY, 0, 0 }, { FN_SIGMOID, 0, NAN, 0, NAN }, { FN_SILU, 0, INFINITY, 0, INFINITY },
		{ FN_TANH, 0, INFINITY, 0, 1 }, { FN_TANH, 0, -INFINITY, 0, -1 }, { FN_TANH, 0, NAN, 0, NAN }, { FN_TANH, 0, 0, 0, 0 },
		{ FN_SIN, 0, INFINITY, 0, NAN }, { FN_COS, 0, NAN, 0, NAN }, { FN_EXP2, 0, 2000, 0, INFINITY }, { FN_EXP2, 0, -2000, 0, 0 },
		{ FN_LOG, 0, 0, 0, -INFINITY }, { FN_LOG, 0, -1, 0, NAN }, { FN_LOG, 0, INFINITY, 0, INFINITY }, { FN_LOG, 0, 1, 0, 0 },
		{ FN_ERF, 0, INFINITY, 0, 1 }, { FN_ERF, 0, -INFINITY, 0, -1 }, { FN_ERF, 0, NAN, 0, NAN }, { FN_ERF, 0, 0, 0, 0 },
		{ FN_ABS, 0, -INFINITY, 0, INFINITY }, { FN_ABS, 0, NAN, 0, NAN },
	};
	double hi, lo, zero = 0;

	(void)state;
	for (size_t i = 0; i < LEN(rows); i++) {
		double a = rows[i].a, b = rows[i].b;
		dds y = { &hi, &lo };
		if (rows[i].f < 0) dd_form()->binary((enum binary)rows[i].op, y, (dds){ &a, &zero }, (dds){ &b, &zero }, 1, 1);
		else dd_form()->map((enum fn)rows[i].f, y, (dds){ &a, &zero }, 1);
		if (!same(&hi, &rows[i].y, 1)) fail_msg("row %zu: %g, expected %g", i, hi, rows[i].y);
		dd_form()->binary(OP_ADD, y, y, (dds){ &(double){ 1 }, &zero }, 1, 1);  /* and goes on so, whatever its low part */
		if (!isfinite(rows[i].y) && !same(&hi, &rows[i].y, 1)) fail_msg("row %zu and 1: %g, expected %g", i, hi, rows[i].y);
	}
}

int main(void)
{
	int failed = 0;

	for (const struct dd_form *const *f = dd_forms; *f; f++) {
		const struct CMUnitTest tests[] = {
			IN_FORM(functions_keep_their_bounds, *f),
			IN_FORM(angles_next_to_multiples, *f),
			IN_FORM(operations_keep_their_bounds, *f),
			IN_FORM(logarithm_and_exponential_near_0, *f),
			IN_FORM(not_finite, *f),
		};
		if ((*f)->runs()) failed += cmocka_run_group_tests_name((*f)->name, tests, NULL, NULL);
	}
	return failed;
}
