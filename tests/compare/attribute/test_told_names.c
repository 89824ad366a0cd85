/* Which faults earn a name where no coefficient, few elements or only the rules tell them:
 * docs/verdict.md, section 5. */
#include <math.h>

#include "ref/formula/formula.h"
#include "told.h"

static const char masked[] =
	"op masked\nin x [R, D] keep [R] integer\nout y [R]\neach r in R\na = sum(x[r])\ny[r] = a if keep[r] != 0 else 0\n"
	"fault pads_kept: y[r] = a\ncontract f32\ncase plain: R = 64, D = 32, keep = [1, 0, 1]\n";
static const char layer_norm[] =
	"op layer_norm\nin x [R, D] weight [D]\nout y [R, D]\nparam eps = 1e-5\neach r in R\nmu = mean(x[r])\ncentred = x[r] - mu\n"
	"var = mean(centred^2)\ninverse_root = rsqrt(var + eps)\nxhat = centred * inverse_root\ny[r] = xhat * weight\n"
	"fault eps_outside_root: inverse_root = 1 / (sqrt(var) + eps)\nfault not_centred: var = mean(x[r]^2)\ncontract f32\n"
	"case plain: R = 24, D = 96, x = bf16 normal(0.5, 1), weight = bf16 normal(1, 0.2), y = bf16\n";
static const char adamw[] =
	"op adamw\nin w, g, m, v [R, D]\nout new_w [R, D]\nparam lr = 1e-3, beta1 = 0.9, beta2 = 0.95, eps = 1e-8\neach r in R\n"
	"m1 = beta1 * m[r] + (1 - beta1) * g[r]\nv1 = beta2 * v[r] + (1 - beta2) * g[r]^2\n"
	"new_w[r] = w[r] - lr * m1 / (sqrt(v1) + eps)\nfault eps_inside: new_w[r] = w[r] - lr * m1 / sqrt(v1 + eps)\n"
	"contract f32\ndraw v = f32 uniform(0, 1e-16)\ncase plain: R = 4, D = 64\n";

static const char scaled[] =
	"op scaled\nin x [R, D]\nout y [R, D]\neach r in R\na = 3 * x[r]\ny[r] = a * a\n"
	"fault more: a = 3.0003 * x[r]\nfault still_more: a = 3.0003008 * x[r]\nfault far: a = 4 * x[r]\n"
	"contract f32\ncase six: R = 1, D = 6, x = f32 normal(0, 1), y = f32\n"
	"case eight: R = 1, D = 8, x = f32 normal(0, 1), y = f32\n";

static const char unit[] =
	"op unit\nin x [R, D]\nout y [R, D]\nparam eps = 1e-6\neach r in R\n"
	"y[r] = x[r] * rsqrt(sum(x[r]^2) + eps)\n"
	"fault eps_in_mean: y[r] = x[r] * rsqrt(sum(x[r]^2) + D * eps)\n"
	"fault eps_wrong(given near eps by 1e3): eps = given\n"
	"contract f32\ncase plain: R = 16, D = 16, x = f32 normal(0, 0.01), y = f32\n";

/* An op of the text. */
static const char *of_text(const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof path, "%s.op", name);
	if (!op_find(name)) op_added_from(scratch_text(path, text));
	return name;
}

/* The op's case, its outputs of this type, as a float32 kernel answers it, with a fault or none. */
static struct verdict of_fault(const char *op, const char *kase, uint64_t seed, enum dtype type,
	const char *fault)
{
	const struct op *o = op_find(op);
	struct test_case k = *op_case(o, kase);
	struct case_tensor out[MAX_OUT + 1] = { 0 };
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct capture c;
	struct error e;

	for (int i = 0; k.out[i].name; i++) out[i] = k.out[i], out[i].dtype = type;
	k.out = out;
	if (fault) plan_fault(&p, o, op_fault(o, fault));
	no_error(case_make(&c, &k, seed, true, &e), &e);
	answer_by(&c, &p);
	return told(&c, "f32");
}

/* Where the mask hides a row nothing is rounded: no type of output hides the fault, float64 with
 * its units of 2^-1074 at 0 neither. */
static void a_fault_where_sigma_is_0_is_named(void **state)
{
	static const enum dtype types[] = { DT_F64, DT_F32, DT_BF16 };
	const char *op = of_text("masked", masked);

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct verdict v = of_fault(op, "plain", 1, types[i], "pads_kept");
		assert_int_equal(v.outcome, FAIL);
		assert_true(detected(&v, "pads_kept"));
		v = of_fault(op, "plain", 1, types[i], NULL);
		assert_int_equal(v.outcome, PASS);
	}
}

/* One to four of 2304 elements are another bf16 number, no coefficient is known, and the
 * structure is identified without the fault. Four are enough for a name, one is said to be
 * possible. */
static void the_rules_name_what_few_elements_do(void **state)
{
	const char *op = of_text("layer_norm", layer_norm);
	int named = 0, possible = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct verdict v = of_fault(op, "plain", seed, DT_BF16, "eps_outside_root");
		if (v.outcome == PASS) continue;
		assert_true(detected(&v, "eps_outside_root") || !v.x.count[DETECTED]);
		named += strstr(v.reason[0], "has the fault eps_outside_root") != NULL;
		possible += strstr(v.reason[0],
			"the rules hold with the fault eps_outside_root") != NULL;
	}
	assert_true(named >= 1 && possible >= 1);
}

/* Elements of four rows tell it, each row once. */
static void the_rules_name_what_few_rows_do(void **state)
{
	const char *op = of_text("adamw", adamw);
	struct verdict v = of_fault(op, "plain", 1, DT_F64, "eps_inside");

	(void)state;
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "eps_inside"));
}

/* d is rounded where it multiplies x and not where it makes the decay: without limits that is
 * all that the fault says, and no fault. */
static void what_changes_nothing_is_not_named(void **state)
{
	const struct op *op = op_find("ssd");
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct capture c;

	(void)state;
	bf16_at(&p, "ssd", "dt");
	plan_fault(&p, op, op_fault(op, "decay_before_limits"));
	answered(&c, "ssd", "plain", 1, DT_F32, &p);
	struct verdict v = told(&c, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_false(detected(&v, "decay_before_limits"));
}

/* Both forget a state that was given: the one that stands first is the commoner. */
static void the_commonest_is_named_first(void **state)
{
	const struct op *op = op_find("gated_delta_rule");
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct capture c;

	(void)state;
	plan_fault(&p, op, op_fault(op, "chunk_state_lost"));
	answered(&c, "gated_delta_rule", "tiny_keys", 1, DT_F32, &p);
	struct verdict v = told(&c, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_non_null(strstr(v.reason[0], "has the fault initial_state_ignored"));
	assert_non_null(strstr(v.reason[0], "on these inputs the same as chunk_state_lost"));
}

/* Of six or eight elements the score does not tell which of two factors it is: both are said, the first of
 * the file first. */
static void names_that_explain_as_well_are_said(void **state)
{
	static const struct { const char *kase, *fault; } made[] = { { "six", "more" },
		{ "eight", "more" }, { "eight", "still_more" } };
	const char *op = of_text("scaled", scaled);

	(void)state;
	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		struct verdict v = of_fault(op, made[i].kase, 1, DT_F32, made[i].fault);
		assert_int_equal(v.outcome, FAIL);
		assert_int_equal(v.x.count[DETECTED], 1);
		assert_non_null(strstr(v.reason[0], "has the fault more: "));
		assert_non_null(strstr(v.reason[0], "; 1 name explains as well: still_more"));
	}
}

/* 16 eps may be the mean's, or another constant: the number is fitted before it is said. */
static void a_number_that_gives_the_same_is_said(void **state)
{
	struct verdict v = of_fault(of_text("unit", unit), "plain", 1, DT_F32, "eps_in_mean");

	(void)state;
	assert_int_equal(v.outcome, FAIL);
	assert_non_null(strstr(v.reason[0], "has the fault eps_in_mean"));
	assert_non_null(strstr(v.reason[0], "on these inputs the same as eps_wrong"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_where_sigma_is_0_is_named),
		cmocka_unit_test(the_rules_name_what_few_elements_do),
		cmocka_unit_test(the_rules_name_what_few_rows_do),
		cmocka_unit_test(what_changes_nothing_is_not_named),
		cmocka_unit_test(the_commonest_is_named_first),
		cmocka_unit_test(names_that_explain_as_well_are_said),
		cmocka_unit_test(a_number_that_gives_the_same_is_said),
	};

	return cmocka_run_group_tests(tests, scratch_make, NULL);
}
