/* Verdicts on what indices read and on whole numbers: what cannot have been done, and what differs by one. */
#include <math.h>

#include "compare/verdict/verdict.h"
#include "ref/formula/formula.h"
#include "tests/kernel_model.h"
#include "tests/state_of.h"

static const char gather[] =
	"op gather\nin table [V, D] slot [T] integer\nout y [T, D] from [T] integer\neach t in T\nrow = table[slot[t]]\ny[t] = 0.3 row\nfrom[t] = slot[t]\n"
	"fault beyond: row = table[slot[t] + 1]\nfault twice: y[t] = 0.6 row\n"
	"case plain: V = 9, D = 32, T = 8, slot = [0, 8, 3, 7]\n";

static const struct formula *formula;

static int begin(void **state)
{
	if (scratch_make(state)) return -1;
	formula = op_added_from(scratch_text("gather.op", gather));
	return 0;
}

/* A kernel's call: rows times `scale`, and where they are from, of the first token less `less`. */
static struct verdict judged(float scale, int less)
{
	const struct judging how = { .contract = NULL };
	struct capture c;
	struct verdict v;
	struct error e;

	no_error(case_make(&c, op_case(formula_op(formula), "plain"), 1, true, &e), &e);
	const float *table = capture_in(&c, "table")->data;
	const int32_t *slot = capture_in(&c, "slot")->data;
	const struct tensor *y = capture_out(&c, "y");
	int32_t *from = capture_out(&c, "from")->data;
	size_t D = y->shape[1];
	for (size_t t = 0; t < y->shape[0]; t++) {
		from[t] = slot[t] - (t == 0 ? less : 0);
		for (size_t d = 0; d < D; d++) ((float *)y->data)[t * D + d] = scale * table[(size_t)slot[t] * D + d];
	}
	no_error(judge(&c, &how, &v, &e), &e);
	capture_free(&c);
	return v;
}

/* Slot 8 is the last. No number stands in the place of what is not there: one that is no number is not that fault's either. */
static void a_fault_that_cannot_be_is_none(void **state)
{
	const struct { float scale; enum outcome outcome; } kernel[] = { { 0.3f, PASS }, { 0.6f, FAIL }, { 0.5f, FAIL }, { NAN, FAIL } };

	(void)state;
	for (size_t i = 0; i < sizeof kernel / sizeof *kernel; i++) {
		struct verdict v = judged(kernel[i].scale, 0);
		assert_int_equal(v.outcome, kernel[i].outcome);
		assert_true(state_of(&v, "beyond") != DETECTED);
		if (i == 0) assert_int_equal(state_of(&v, "beyond"), NOT_POSSIBLE);
		if (i == 1) assert_int_equal(state_of(&v, "twice"), DETECTED);
	}
}

static void a_whole_number_is_equal_or_not(void **state)
{
	(void)state;
	for (int less = 0; less < 2; less++) {
		struct verdict v = judged(0.3f, less);
		assert_int_equal(v.outcome, less ? FAIL : PASS);
		assert_true(v.out[1].exact && !v.out[0].exact && v.out[1].count - v.out[1].bit_equal == (size_t)less);
		if (less) assert_non_null(strstr(v.reason[v.n_reason - 1], "out.from: 1 of 8 elements differ"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_fault_that_cannot_be_is_none), cmocka_unit_test(a_whole_number_is_equal_or_not) };

	return cmocka_run_group_tests(tests, begin, scratch_remove);
}
