/* The structures of chunked backward kernels of the gated delta rule, written as formulas (tests/ops/gated_delta_rule_backward.op), are the
 * derivative of the rule: every form, in dd. */
#include <math.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/helpers.h"
#include "tests/witness.h"

#define OP "gated_delta_rule_backward"

/* Chunks of 64: a short last one, one that is full, one alone; a key head of two value heads. */
static const char *const calls[] = {
	"in.q F32 70,1,8 ~0,0.4; in.k F32 70,1,8 ~0,0.4; in.v F32 70,2,5 ~0,1; "
	"in.g F32 70,2 =-0.1,-0.7,-0.02,-0.5,-0.01; in.beta F32 70,2 =0.1,0.7,0.9,0.5,0.4,0.21,0.95; "
	"in.initial_state F32 1,2,8,5 ~0,0.5; in.do F32 70,2,5 ~0,1; in.dfinal_state F32 1,2,8,5 ~0,1",
	"in.q F32 128,2,8 ~0,0.4; in.k F32 128,2,8 ~0,0.4; in.v F32 128,2,5 ~0,1; "
	"in.g F32 128,2 =-0.1,-0.7,-0.02; in.beta F32 128,2 =0.1,0.7,0.9,0.5,0.4; "
	"in.initial_state F32 1,2,8,5 ~0,0.5; in.do F32 128,2,5 ~0,1; in.dfinal_state F32 1,2,8,5 ~0,1",
	"in.q F32 9,1,8 ~0,0.4; in.k F32 9,1,8 ~0,0.4; in.v F32 9,1,5 ~0,1; "
	"in.g F32 9,1 =-0.1,-30,-0.02; in.beta F32 9,1 =0.1,0.7,0.9,0.5,0.4; "
	"in.initial_state F32 1,1,8,5 ~0,0.5; in.do F32 9,1,5 ~0,1; in.dfinal_state F32 1,1,8,5 ~0,1",
};
enum { CALLS = sizeof calls / sizeof *calls };

static int same_output(const struct op *op, const char *name)
{
	for (int i = 0; op->out[i].name; i++)
		if (!strcmp(op->out[i].name, name)) return i;
	fail_msg("the derivative has no %s", name);
	return -1;
}

static void equals(const struct outcome *mine, const struct outcome *derived, const char *form)
{
	const struct op *op = mine->call.op;

	for (int i = 0; op->out[i].name; i++) {
		int j = same_output(derived->call.op, op->out[i].name);
		double largest = 0;
		assert_int_equal(mine->call.out_count[i], derived->call.out_count[j]);
		for (size_t k = 0; k < mine->call.out_count[i]; k++) largest = fmax(largest, fabs(derived->a.hi[j][k]));
		assert_true(largest > 0);
		for (size_t k = 0; k < mine->call.out_count[i]; k++) {
			double apart = fabs(mine->a.hi[i][k] - derived->a.hi[j][k] + (mine->a.lo[i][k] - derived->a.lo[j][k]));
			if (!(apart <= 0x1p-90 * largest)) fail_msg("%s, %s [%zu]: %g of %g", form, op->out[i].name, k, apart, largest);
		}
	}
}

static void forms_are_the_derivative(void **state)
{
	const struct op *op = op_find(OP);

	(void)state;
	assert_string_equal(op->forms[1].name, "residual");
	for (size_t c = 0; c < CALLS; c++) {
		struct capture given, same;
		struct outcome derived;
		made(&given, &(struct sample){ OP, "{}", calls[c] }, 11);
		made(&same, &(struct sample){ "gated_delta_rule.backward", "{}", calls[c] }, 11);
		run_in(&derived, &same, "dd");
		for (int f = 0; op->forms[f].name; f++) {
			struct plan p = plan_in("dd");
			struct outcome mine;
			p.form = f;
			run_plan(&mine, &given, &p);
			equals(&mine, &derived, op->forms[f].name);
			outcome_free(&mine);
		}
		outcome_free(&derived);
		capture_free(&given);
		capture_free(&same);
	}
}

static int load(void **state)
{
	(void)state;
	op_added_from("tests/ops/gated_delta_rule_backward.op");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(forms_are_the_derivative) };

	return cmocka_run_group_tests(tests, load, NULL);
}
