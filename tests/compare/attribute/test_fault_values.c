/* Faults with a parameter: kernels made wrong at values that no table has are told with the value, and no other value is named. */
#include <math.h>

#include "tests/judged.h"

static const struct case_dim one[] = { { "T", 150 }, { "N", 1 }, { "Hk", 1 }, { "Hv", 2 }, { "Dk", 16 }, { "Dv", 8 }, { 0 } };
static const struct case_dim three[] = { { "T", 130 }, { "N", 3 }, { "Hk", 1 }, { "Hv", 2 }, { "Dk", 16 }, { "Dv", 8 }, { 0 } };
static const struct case_list cuts[] = { { "cu_seqlens", (const double[]){ 61, 20, 49 }, 3 }, { 0 } };

/* The case, small. */
static const struct test_case *base(const char *op, const char *name, struct test_case *k)
{
	*k = *case_find(op, name);
	if (!strcmp(name, "prefill")) k->dims = one;
	if (!strcmp(name, "prefill_ragged")) k->dims = three, k->lists = cuts;
	return k;
}

static const struct row { const char *op, *kase, *contract, *fault, *said; uint64_t seed; } rows[] = {
	{ "gated_delta_rule", "prefill", "f32", "token_skipped(0)", "token_skipped(token = 0)", 3 },
	{ "gated_delta_rule", "prefill", "f32", "token_skipped(37)", "token_skipped(token = 37)", 4 },
	{ "gated_delta_rule", "prefill", "bf16_operands", "token_skipped(101)", "token_skipped(token = 101)", 5 },
	{ "gated_delta_rule", "prefill", "chunk_f32", "token_skipped(149)", "token_skipped(token = 149)", 6 },
	{ "gated_delta_rule", "prefill_ragged", "state_bf16", "token_skipped(64)", "token_skipped(token = 64)", 7 },
	{ "gated_delta_rule", "weak_decay", "chunk_f32", "chunk_end_decay_wrong_slot(23)", "chunk_end_decay_wrong_slot(slot = 23)", 3 },
	{ "gated_delta_rule", "prefill", "chunk_f32", "chunk_end_decay_wrong_slot(62)", "chunk_end_decay_wrong_slot(slot = 62)", 4 },
	{ "gated_delta_rule", "prefill", "bf16_operands", "chunk_end_decay_wrong_slot(58)", "chunk_end_decay_wrong_slot(slot = 58)", 5 },
	{ "gated_delta_rule", "prefill", "chunk_f32", "chunk_state_lost(70)", "chunk_state_lost(lost = 64 to 127)", 5 },
	{ "gated_delta_rule", "tiny_keys", "f32", "l2_eps_wrong(1e-8)", "l2_eps_wrong(given_eps = 1e-08)", 5 },
	{ "rmsnorm", "tiny_rows", "f32", "eps_wrong(1e-8)", "eps_wrong(wrong = 1e-08)", 5 },
	{ "rmsnorm", "tiny_rows", "f32", "eps_wrong", "eps_wrong(wrong = 1e-05)", 5 },
	{ "rope", "partial", "f32", "position_shifted(3)", "position_shifted(shift = 3)", 5 },
	{ "rope", "interleaved", "f32", "position_shifted(-11)", "position_shifted(shift = -11)", 5 },
	{ "rope", "partial_f32", "f32", "position_shifted(16)", "position_shifted(shift = 16)", 5 },
};

static struct verdict of_row(const struct row *r)
{
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	const struct op *op = op_find(r->op);
	struct test_case k;
	struct capture c;
	struct error e;
	double value;
	int fault = fault_named(op, r->fault, &value);

	assert_true(fault >= 0);
	plan_structure(&p, contract_of(r->op, r->contract), 0);
	plan_fault_at(&p, op, fault, value);
	no_error(case_make(&c, base(r->op, r->kase, &k), r->seed, true, &e), &e);
	answer_by(&c, &p);
	struct verdict v = judged(&c, r->contract, false);
	capture_free(&c);
	return v;
}

static void a_fault_is_told_with_its_value(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct verdict v = of_row(&rows[i]);
		char said[SUSPECT_TEXT] = "nothing";
		int n = 0;
		for (int s = 0; s < v.x.n; s++)
			if (v.x.suspect[s].state == DETECTED && !n++) suspect_said(&v.x.suspect[s], said, sizeof said);
		if (v.outcome != FAIL || n != 1 || strcmp(said, rows[i].said))
			fail_msg("%s %s under %s, %s: says %s, and %d in all", rows[i].op, rows[i].kase, rows[i].contract, rows[i].fault, said, n);
	}
}

/* How a fault is written. */
static void a_fault_has_a_name_and_a_value(void **state)
{
	static const struct { const char *text; double value; } good[] = {
		{ "token_skipped", NAN }, { "token_skipped(37)", 37 }, { "token_skipped(token = 5)", 5 }, { "token_skipped(token=5)", 5 },
		{ "chunk_end_decay_wrong_slot", 0 }, { "l2_eps_wrong", 1e-5 }, { "l2_eps_wrong(1e-12)", 1e-12 }, { "no_decay", 0 },
	};
	static const char *const bad[] = { "token_skipped(", "token_skipped()", "token_skipped(1.5)", "token_skipped(-1)", "token_skipped(3)x",
		"chunk_end_decay_wrong_slot(63)", "l2_eps_wrong(1e-6)", "l2_eps_wrong(nan)", "no_decay(1)", "token", "token_skipped(tok = 3)" };
	const struct op *op = op_find("gated_delta_rule");
	double value;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		if (fault_named(op, good[i].text, &value) < 0) fail_msg("%s is none", good[i].text);
		if (isnan(good[i].value) ? !isnan(value) : value != good[i].value) fail_msg("%s: %g", good[i].text, value);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (fault_named(op, bad[i], &value) >= 0) fail_msg("%s is one", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_fault_has_a_name_and_a_value), cmocka_unit_test(a_fault_is_told_with_its_value) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
