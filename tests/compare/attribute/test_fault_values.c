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
	{ "gated_delta_rule", "tiny_keys", "f32", "l2_eps_wrong(1e-8)", "l2_eps_wrong(given_eps = 1e-08;", 5 },
	{ "rmsnorm", "tiny_rows", "f32", "eps_wrong(1e-8)", "eps_wrong(value = 1e-08;", 5 },
	{ "rmsnorm", "tiny_rows", "f32", "eps_wrong", "eps_wrong(value = 1e-05;", 5 },
	{ "rmsnorm", "tiny_rows", "f32", "eps_wrong(3e-6)", "eps_wrong(value = 3e-06;", 5 },
	{ "rmsnorm_fp8", "odd_1007", "f32", "largest_wrong(224)", "largest_wrong(value = 224;", 5 },
	{ "rmsnorm_fp8_groups", "groups", "f32", "largest_wrong(240)", "largest_wrong(value = 240;", 5 },
	{ "rope", "interleaved", "f32", "theta_wrong(10010)", "theta_wrong(value = 10010;", 5 },
	{ "rope", "partial", "f32", "theta_wrong(5e5)", "theta_wrong(value = 500000;", 5 },
	{ "rope", "full", "cos_sin_bf16", "theta_wrong(1e4)", "theta_wrong(value = 10000;", 5 },
	{ "qk_norm_rope", "near_256", "weighted_bf16", "theta_wrong(1e6)", "theta_wrong(value = 1000000;", 5 },
	{ "newton_schulz", "tall_standard_f32", "f32", "c_wrong(2.0135)", "c_wrong(c_value = 2.0135;", 5 },
	{ "newton_schulz", "tall_standard_f32", "f32", "b_wrong(-4.757)", "b_wrong(b_value = -4.757;", 5 },
	{ "newton_schulz", "tall_standard_f32", "f32", "iterations_wrong(4)", "iterations_wrong(made = 4)", 5 },
	{ "muon_step", "mean_f32", "f32", "a_wrong(3.4545)", "a_wrong(a_value = 3.4545;", 5 },
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
		if (v.outcome != FAIL || n != 1 || strncmp(said, rows[i].said, strlen(rows[i].said)))
			fail_msg("%s %s under %s, %s: says %s, and %d in all", rows[i].op, rows[i].kase, rows[i].contract, rows[i].fault, said, n);
	}
}

/* An eps of 0.02 would do most of what a factor of 0.99 does, and is none that anybody types. */
static void a_gain_is_no_number(void **state)
{
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct capture c;
	struct call call;
	struct error e;
	float *y;

	(void)state;
	no_error(case_make(&c, case_find("rmsnorm", "plain_f32"), 3, true, &e), &e);
	answer_by(&c, &p);
	no_error(call_bind(&call, &c, true, &e), &e);
	y = (float *)call.out[0]->data;
	for (size_t i = 0; i < call.out_count[0]; i++) y[i] *= 0.99f;
	struct verdict v = judged(&c, "f32", false);
	assert_int_equal(v.outcome, FAIL);
	assert_int_equal(v.x.count[DETECTED], 0);
	capture_free(&c);
}

/* How a fault is written. */
static void a_fault_has_a_name_and_a_value(void **state)
{
	static const struct { const char *text; double value; } good[] = {
		{ "token_skipped", NAN }, { "token_skipped(37)", 37 }, { "token_skipped(token = 5)", 5 }, { "token_skipped(token=5)", 5 },
		{ "chunk_end_decay_wrong_slot", 0 }, { "l2_eps_wrong", NAN }, { "l2_eps_wrong(1e-12)", 1e-12 }, { "no_decay", 0 },
	};
	static const char *const bad[] = { "token_skipped(", "token_skipped()", "token_skipped(1.5)", "token_skipped(-1)", "token_skipped(3)x",
		"chunk_end_decay_wrong_slot(63)", "l2_eps_wrong(inf)", "l2_eps_wrong(nan)", "no_decay(1)", "token", "token_skipped(tok = 3)" };
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_fault_has_a_name_and_a_value), cmocka_unit_test(a_gain_is_no_number), cmocka_unit_test(a_fault_is_told_with_its_value) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
