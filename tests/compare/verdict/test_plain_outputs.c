/* Outputs that are zeros, one number, no numbers or an input again are said at sight, and no
 * name is given for them. */
#include <math.h>

#include "tests/judged.h"

/* All of output `name` becomes y. */
static void fill(struct capture *c, const char *name, double y)
{
	struct tensor *t = capture_out(c, name);

	assert_non_null(t);
	for (size_t i = 0; i < t->count; i++) set(t, i, y);
}

static bool says(const struct verdict *v, const char *text)
{
	for (int i = 0; i < v->n_reason; i++)
		if (strstr(v->reason[i], text)) return true;
	return false;
}

static int names(const struct verdict *v) { return v->x.count[DETECTED]; }

/* The call fails, and the first reason is this; nothing was searched for. */
static void ends_with(struct capture *c, const char *contract, const char *said)
{
	struct verdict v = judged(c, contract, false);

	capture_free(c);
	assert_int_equal(v.outcome, FAIL);
	assert_string_equal(v.reason[0], said);
	assert_int_equal(names(&v), 0);
	assert_false(v.examined);
}

static void what_never_ran_has_no_fault(void **state)
{
	struct capture c;

	(void)state;
	model_case(&c, "gated_delta_rule", "odd_sizes", "f32");
	fill(&c, "o", 0), fill(&c, "final_state", 0);
	ends_with(&c, "f32", "out.o is all zeros");
	model_case(&c, "newton_schulz", "tiny_f32", "f32");
	fill(&c, "y", (double)NAN);
	ends_with(&c, "f32", "out.y is NaN from [0,0] on");
	model_case(&c, "newton_schulz", "tiny_f32", "f32");
	fill(&c, "y", (double)INFINITY);
	ends_with(&c, "f32", "out.y has no finite element");
	model_case(&c, "rmsnorm", "plain_f32", "f32");
	fill(&c, "y", 0.5);
	ends_with(&c, "f32", "out.y is 0.5 everywhere");
}

static void copy(struct capture *c, const char *to, const char *from)
{
	struct tensor *y = capture_out(c, to), *x = capture_in(c, from);

	assert_true(y && x && y->count == x->count);
	for (size_t i = 0; i < y->count; i++) set(y, i, get(x, i));
}

/* In another type, too. */
static void an_input_again_is_seen(void **state)
{
	struct capture c;

	(void)state;
	model_case(&c, "rmsnorm", "plain_f32", "f32");
	copy(&c, "y", "x");
	ends_with(&c, "f32", "out.y equals in.x");
	model_case(&c, "rmsnorm", "gated_128", "f32");
	assert_int_equal(capture_out(&c, "y")->dtype, DT_BF16);
	copy(&c, "y", "x");
	ends_with(&c, "f32", "out.y equals in.x");
	model_case(&c, "gated_delta_rule", "odd_sizes", "f32");
	copy(&c, "final_state", "initial_state");
	fill(&c, "o", 0);
	ends_with(&c, "f32", "out.o is all zeros");
}

/* One fault alone makes the copy, and is named; the copy is said behind it. */
static void a_copy_that_one_fault_makes_is_named(void **state)
{
	const struct op *op = op_find("rmsnorm");
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct capture c;

	(void)state;
	make_case(&c, "rmsnorm", "residual");
	plan_fault(&p, op, op_fault(op, "residual_not_written"));
	answer_by(&c, &p);
	struct verdict v = judged(&c, "f32", false);
	assert_non_null(strstr(v.reason[0], "residual_not_written"));
	assert_string_equal(v.reason[1], "out.residual_out equals in.residual");
	assert_int_equal(names(&v), 1);
	capture_free(&c);
}

/* Without a residual x is handed on as it is: what the exact answer is, too, says nothing. */
static void what_the_exact_answer_is_is_not_said(void **state)
{
	struct capture c;

	(void)state;
	make_case(&c, "rmsnorm", "residual");
	struct tensor *r = capture_in(&c, "residual");
	for (size_t i = 0; i < r->count; i++) set(r, i, 0);
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	answer_by(&c, &p);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count / 4; i++) set(y, i, 1.5 * get(y, i));
	struct verdict v = judged(&c, "f32", false);
	assert_int_equal(v.outcome, FAIL);
	assert_false(says(&v, "equals in."));
	assert_true(v.examined);
	capture_free(&c);
}

/* plain_f32 with x times `scale` and a row of zeros, by a plan; its row of the answer is NaN. */
static struct verdict row_of_zeros(double scale, const char *fault, bool garbage)
{
	const struct op *op = op_find("rmsnorm");
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct capture c;

	make_case(&c, "rmsnorm", "plain_f32");
	struct tensor *x = capture_in(&c, "x"), *y = capture_out(&c, "y");
	const size_t row = x->count / x->shape[0];
	for (size_t i = 0; i < x->count; i++) set(x, i, i / row == 3 ? 0 : scale * get(x, i));
	if (fault) plan_fault(&p, op, op_fault(op, fault));
	answer_by(&c, &p);
	for (size_t i = 3 * row; i < 4 * row; i++) set(y, i, (double)NAN);
	for (size_t i = 7 * row; i < 8 * row && garbage; i++) set(y, i, 2 * get(y, i));
	struct verdict v = judged(&c, "f32", false);
	capture_free(&c);
	assert_int_equal(v.outcome, FAIL);
	assert_true(says(&v, "out.y is NaN where the row of in.x is all zeros"));
	return v;
}

/* The row is NaN as without eps. Where eps shows in other rows they must agree; where it does
 * not no coefficient is printed. */
static void nan_of_a_row_of_zeros(void **state)
{
	(void)state;
	struct verdict v = row_of_zeros(0.01, NULL, false);
	assert_int_equal(names(&v), 0);
	v = row_of_zeros(1, NULL, false);
	assert_int_equal(names(&v), 0);
	v = row_of_zeros(1.5, NULL, false);
	assert_int_equal(names(&v), 0);
	v = row_of_zeros(0.01, "eps_missing", false);
	assert_non_null(strstr(v.reason[0], "eps_missing: eps = 0; coefficient 1.000"));
	v = row_of_zeros(1000, "eps_missing", false);
	assert_non_null(strstr(v.reason[0], "has the fault eps_missing"));
	assert_non_null(strstr(v.reason[0], "not finite just where"));
	assert_null(strstr(v.reason[0], "±"));
	v = row_of_zeros(1000, "eps_missing", true);
	assert_int_equal(names(&v), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_never_ran_has_no_fault),
		cmocka_unit_test(an_input_again_is_seen),
		cmocka_unit_test(a_copy_that_one_fault_makes_is_named),
		cmocka_unit_test(what_the_exact_answer_is_is_not_said),
		cmocka_unit_test(nan_of_a_row_of_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
