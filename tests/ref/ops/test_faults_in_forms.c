/* A fault that is bound to no form is the same mistake in each: in float64 the forms answer alike with it, as they do without. */
#include <math.h>

#include "tests/kernel_model.h"

static struct answer answered(const struct call *call, int form, int fault)
{
	const struct contract *k = call->op->contracts;
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);
	struct answer a;
	struct error e;

	for (; k->name && k->form != form; k++) {}
	p.form = form;
	if (k->name) p.chunk = k->chunk;
	if (fault >= 0) plan_fault(&p, call->op, fault);
	no_error(ref_run(call, &p, &a, &e), &e);
	return a;
}

/* Of output i, |x - y| over |x - z|, largest numbers each; both 0: 0. */
static double apart(const struct call *call, const struct answer *x, const struct answer *y)
{
	double most = 0;

	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; j < call->out_count[i]; j++) {
			double p = x->hi[i][j], q = y->hi[i][j], d = fabs(p - q) / (1 + fabs(p));
			if (isfinite(p) != isfinite(q)) d = INFINITY;
			if (isfinite(p) || isfinite(q)) most = fmax(most, d);
		}
	return most;
}

/* What rounds does so elsewhere in each form, what is no longer symmetric is another product in each, an infinite decay is a difference of two
 * in chunks, and what each form takes for the maximum is left in what it does not divide, in what lacks it and beside what has none. */
static const char *const others[] = { "iterate_in_bf16_for_f16", "identity_added_in_low_precision", "mirror_not_transposed", "softplus_overflow", "not_divided",
	"lse_without_maximum", "sink_linear" };

static bool is_general(const struct fault_spec *f)
{
	bool other = f->is_rounding || f->form >= 0;

	for (size_t i = 0; i < sizeof others / sizeof *others; i++) other = other || !strcmp(f->name, others[i]);
	return !other;
}

/* Returns how many faults change something. */
static int compare_forms(const struct test_case *k, int *wrong)
{
	const struct op *op = op_find(k->op);
	struct capture c;
	struct call call;
	struct error e;
	int seen = 0;

	no_error(case_make(&c, k, 1, true, &e) && call_bind(&call, &c, false, &e), &e);
	struct answer right = answered(&call, 0, -1);
	for (int m = 0; op->faults[m].name; m++) {
		if (!is_general(&op->faults[m])) continue;
		struct answer first = answered(&call, 0, m);
		double effect = apart(&call, &right, &first);
		seen += effect > 1e-6;
		for (int form = 1; form < MAX_FORM && op->forms[form].name; form++) {
			struct answer other = answered(&call, form, m);
			double d = apart(&call, &first, &other);
			if (!(d <= 1e-9) && !(d <= 1e-6 * effect)) {
				print_error("%s %s: %s in form %s is %g off, of %g\n", op->name, k->name, op->faults[m].name, op->forms[form].name, d, effect);
				(*wrong)++;
			}
			answer_free(&other);
		}
		answer_free(&first);
	}
	answer_free(&right);
	capture_free(&c);
	return seen;
}

static void faults_are_the_same_in_all_forms(void **state)
{
	int wrong = 0, seen = 0;

	(void)state;
	for (const struct test_case *k = test_cases; k->op; k++)
		if (!k->large && op_find(k->op)->forms[1].name) seen += compare_forms(k, &wrong);
	assert_true(seen > 0);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(faults_are_the_same_in_all_forms) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
