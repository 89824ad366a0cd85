/* The tolerances of other people's tests: each formula on numbers worked out by hand, and what never passes. */
#include <math.h>

#include "compare/audit/tolerance.h"
#include "tests/kernel_model.h"

static struct capture inputs;
static struct call call;

static int with_call(void **state)
{
	struct error e;

	(void)state;
	make_case(&inputs, "rmsnorm", "residual");
	no_error(call_bind(&call, &inputs, false, &e), &e);
	call.out_count[0] = 4;
	call.out_count[1] = 2;
	return 0;
}

static int without(void **state)
{
	(void)state;
	capture_free(&inputs);
	return 0;
}

/* Output y [4] is got for {1, -2, 4, 0}, residual_out [2] for {1, 1}. */
static bool holds(const char *text, const double y[4], const double *residual)
{
	double want[] = { 1, -2, 4, 0 }, other[] = { 1, 1 }, copy[4], copy2[2];
	double *got[MAX_OUT] = { copy, copy2 }, *wanted[MAX_OUT] = { want, other };
	struct tolerance t;
	struct error e;

	memcpy(copy, y, sizeof copy);
	memcpy(copy2, residual ? residual : other, sizeof copy2);
	no_error(tolerance_parse(&t, text, call.op, &e), &e);
	return tolerance_holds(&t, &call, got, wanted);
}
#define Y(...) (const double[4]){ __VA_ARGS__ }

static void each_kind_is_its_formula(void **state)
{
	(void)state;
	assert_true(holds("allclose:0.25,0.125", Y(1.375, -2, 5, 0.125), NULL));       /* 0.125 + 0.25 w exactly */
	assert_false(holds("allclose:0.25,0.125", Y(1.3751, -2, 4, 0), NULL));
	assert_false(holds("allclose:0.25,0.125", Y(1, -2, 4, -0.126), NULL));
	/* |d|^2 = 1, |w|^2 = 21 */
	assert_true(holds("y=rms_ratio:0.2183", Y(1, -2, 4, 1), NULL));
	assert_false(holds("y=rms_ratio:0.2182", Y(1, -2, 4, 1), NULL));
	assert_true(holds("y=rms_ratio:0.2182,1", Y(1, -2, 4, 1), NULL));
	assert_false(holds("y=rms_ratio:0.2182,0.999", Y(1, -2, 4, 1), NULL));
	assert_true(holds("y=nmse:0.04762", Y(1, -2, 4, 1), NULL));
	assert_false(holds("y=nmse:0.04761", Y(1, -2, 4, 1), NULL));
	/* 21 / sqrt(22 * 21) = 0.97700 */
	assert_true(holds("y=cosine:0.9770", Y(1, -2, 4, 1), NULL));
	assert_false(holds("y=cosine:0.9771", Y(1, -2, 4, 1), NULL));
	assert_true(holds("y=cosine:1", Y(2, -4, 8, 0), NULL));                         /* which sees no gain */
	assert_true(holds("match:0.75,0.25,0.125", Y(1.25, -2.5, 9, 0.125), NULL));
	assert_false(holds("match:0.76,0.25,0.125", Y(1.25, -2.5, 9, 0.125), NULL));
	assert_false(holds("y=match:1,0.25,0.125", Y(1.26, -2, 4, 0), NULL));           /* the larger of the two, not their sum */
	/* y is bf16: its step at 1 is 2^-7 */
	assert_true(holds("ulp:1", Y(1.0078125, -2, 4, 0), NULL));
	assert_false(holds("ulp:1", Y(1.015625, -2, 4, 0), NULL));
	assert_true(holds("y=quantile:0.66,0.1,0.5", Y(1.0625, -2, 8, 100), NULL));
	assert_false(holds("y=quantile:0.67,0.1,0.5", Y(1.0625, -2, 8, 100), NULL));
}

static void what_is_not_finite_never_passes(void **state)
{
	static const char *const kinds[] = {
		"allclose:1e9,1e9", "cosine:-1", "rms_ratio:1e9,1e9", "nmse:1e9", "match:0,1e9,1e9", "ulp:1e9", "quantile:0,1e9,0"
	};

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		assert_true(holds(kinds[i], Y(1, -2, 4, 0), NULL));
		for (int at = 0; at < 4; at++) {
			double y[] = { 1, -2, 4, 0 };
			y[at] = (double)NAN;
			if (holds(kinds[i], y, NULL)) fail_msg("%s passes NaN at %d", kinds[i], at);
			y[at] = (double)INFINITY;
			if (holds(kinds[i], y, NULL)) fail_msg("%s passes infinity at %d", kinds[i], at);
		}
	}
}

static void outputs_apart(void **state)
{
	(void)state;
	const double other[] = { 3, 1 };
	assert_false(holds("allclose:0,1", Y(1, -2, 4, 0), other));
	assert_true(holds("y=allclose:0,1", Y(1, -2, 4, 0), other));
	assert_true(holds("y=allclose:0,0;residual_out=allclose:0,2", Y(1, -2, 4, 0), other));
	assert_false(holds("y=allclose:0,0;residual_out=allclose:0,1.9", Y(1, -2, 4, 0), other));
	call.out_count[1] = 0;          /* nothing looked at is nothing passed */
	assert_false(holds("residual_out=allclose:1,1", Y(1, -2, 4, 0), NULL));
	call.out_count[1] = 2;
}

static void bad_rules_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "allclose", "allclose:", "allclose:1", "allclose:1,", "allclose:1,2,3", "allclose:1,-2", "allclose:nan,1", "allclose:inf,1",
		"allclose:1,1;", "nope:1", "cosine:1,2", "match:1,1", "z=allclose:1,1", "y=", "ulp:x", "rms_ratio:1,2,3", "allclose:1;2",
		"cosine:1.1", "cosine:-1.1", "match:1.1,1,1", "quantile:1.1,1,1", "quantile:0.5,-1,1", "y=ulp:1;y=ulp:2", "ulp:1;ulp:2"
	};
	struct tolerance t;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (tolerance_parse(&t, bad[i], call.op, &e)) fail_msg("'%s' is taken", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_is_its_formula),
		cmocka_unit_test(what_is_not_finite_never_passes),
		cmocka_unit_test(outputs_apart),
		cmocka_unit_test(bad_rules_are_refused),
	};

	return cmocka_run_group_tests(tests, with_call, without);
}
