/* The forms full and lower of a Newton-Schulz iteration in a verdict, and faults that the contract's roundings are. */
#include <string.h>

#include "tests/judged.h"
#include "tests/state_of.h"

/* A kernel that mirrors: Q is 2 sigma and more from the form full at entry 5, and fails under its contract. */
static void forms_are_told_apart(void **state)
{
	struct capture c;

	(void)state;
	model_case(&c, "newton_schulz", "tall_gram_f16", "lower_f16");
	struct verdict own = judged(&c, "lower_f16", false);
	assert_int_equal(own.outcome, PASS);
	/* float16 and TF32 have as many bits: what is read is the contract's */
	for (int i = 0; i < own.x.n; i++)
		if (own.x.suspect[i].state == ALLOWED) assert_int_equal(own.x.suspect[i].format, FMT_F16);
	struct verdict v = judged(&c, "f16", true);
	assert_int_equal(v.outcome, FAIL);
	const struct trace_entries *Q = trace_of(&v, "Q");
	for (size_t k = 0; k < Q->n; k++) assert_true((Q->entry[k].sigma > Q->limit) == (k > 4));
	capture_free(&c);
	model_case(&c, "newton_schulz", "tall_gram_f16", "f16");
	assert_int_equal(judged(&c, "f16", true).outcome, PASS);
	capture_free(&c);
}

/* auto takes the contract of the form that was seen, also where the rules of the other hold; of forms that are the same
 * numbers the first. */
static void auto_takes_the_form_that_was_seen(void **state)
{
	static const struct { const char *name, *contract, *taken; } rows[] = {
		{ "tall_gram_f16", "f16", "f16" }, { "tall_gram_f16", "lower_f16", "lower_f16" }, { "batch_f16", "lower_f16", "lower_f16" },
		{ "batch_f16", "f16", "f16" }, { "graded_f16", "f16", "f16" }, { "wide_naive_bf16", "lower_bf16", "lower_bf16" },
		{ "square_f16", "lower_f16", "f16" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		model_case(&c, "newton_schulz", rows[i].name, rows[i].contract);
		struct verdict v = judged(&c, "auto", false);
		if (v.outcome != PASS || strcmp(v.contract->name, rows[i].taken))
			fail_msg("%s by %s: %s under %s: %s", rows[i].name, rows[i].contract, outcome_name[v.outcome], v.contract->name, v.reason[0]);
		capture_free(&c);
	}
	struct capture c;
	model_case(&c, "newton_schulz", "batch_f16", "lower_f16");
	assert_int_equal(judged(&c, "f16", true).outcome, PASS);
	capture_free(&c);
}

/* All in bf16: what the contract bf16 allows is the fault iterate_in_bf16_for_f16, number for number. Under f16 it fails, but for
 * a single row, whose few numbers do not tell. */
static void a_fault_that_the_contract_allows_is_none(void **state)
{
	(void)state;
	for (uint64_t seed = 2; seed <= 4; seed += 2) {
		struct plan p = plan_plain(&arith_f32, 24);
		struct capture c;
		struct error e;
		no_error(case_make(&c, case_find("newton_schulz", "one_row"), seed, true, &e), &e);
		plan_contract(&p, contract_of("newton_schulz", "bf16"));
		answer_by(&c, &p);
		struct verdict v = judged(&c, "bf16", false);
		if (v.outcome != PASS) fail_msg("%s", v.reason[0]);
		assert_int_equal(state_of(&v, "iterate_in_bf16_for_f16"), NOT_IDENTIFIABLE);
		assert_true(v.x.profile.emulation.faults == 0);
		capture_free(&c);
	}
	struct capture c;
	model_case(&c, "newton_schulz", "tall_gram_f16", "bf16");
	assert_int_equal(judged(&c, "f16", false).outcome, FAIL);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_are_told_apart), cmocka_unit_test(auto_takes_the_form_that_was_seen),
		cmocka_unit_test(a_fault_that_the_contract_allows_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
