/* What the x-ray adds to a verdict: calls on which one of its rules alone decides. tests/mutants.tsv breaks
 * the rules one at a time; this test, with test_rules, is what notices. */
#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"
#include "tests/state_of.h"

/* 16 rows of 256, float32 in and out, judged under xhat_bf16: its sigma is that of a rounding to bf16, so
 * that the rules see nothing of what the x-ray sees. */
static const struct test_case norm = {
	.op = "rmsnorm", .name = "rules", .params = "{\"eps\": 1e-6, \"weight_offset\": 0}",
	.dims = (const struct case_dim[]){ { "R", 16 }, { "D", 256 }, { 0 } },
	.in = (const struct case_tensor[]){ { "x", "R,D", DT_F32, DRAW_NORMAL, 0, 1 }, { "weight", "D", DT_F32, DRAW_NORMAL, 1, 0.2 }, { 0 } },
	.out = (const struct case_tensor[]){ { "y", "R,D", DT_F32, DRAW_NORMAL, 0, 0 }, { 0 } },
};

/* What the kernel does besides computing in float32: a fault, a rounding at a site, and an error of `off`
 * in each element of the rows below `rows`, relative and of either sign. */
struct kernel { const char *fault, *site, *type; double off; size_t rows; };

static void answer(struct capture *c, const struct test_case *from, const struct kernel *k)
{
	struct plan p = plan_plain(&arith_f32, 24);
	const struct op *op = op_find("rmsnorm");
	struct answer a;
	struct call call;
	struct error e;

	no_error(case_make(c, from, 1, true, &e), &e);
	if (k->fault) plan_fault(&p, op, op_fault(op, k->fault));
	if (k->site) {
		struct site_rounding *r = &p.round[op_site(op, k->site)];
		r->on = format_by_name(k->type, &r->format, &r->rounding);
		assert_true(r->on);
	}
	no_error(call_bind(&call, c, true, &e) && ref_run(&call, &p, &a, &e), &e);
	for (size_t i = 0; i < k->rows * call.out[0]->shape[1]; i++) a.hi[0][i] *= 1 + (i * 7 % 13 < 6 ? k->off : -k->off);
	for (int i = 0; i < MAX_OUT; i++)
		if (call.out_count[i]) dtype_store(call.out[i]->dtype, a.hi[i], call.out_count[i], call.out[i]->data);
	answer_free(&a);
}

static struct verdict judged_by(const struct test_case *from, const struct kernel *k, const struct judging *how)
{
	struct capture c;
	struct verdict v;
	struct error e;

	answer(&c, from, k);
	no_error(judge(&c, how, &v, &e), &e);
	capture_free(&c);
	return v;
}

static struct verdict judged_on(const struct test_case *from, const struct kernel *k, const char *contract)
{
	return judged_by(from, k, &(struct judging){ .contract = contract });
}

static struct verdict judged(const struct kernel *k, const char *contract) { return judged_on(&norm, k, contract); }

/* All rules; or, of a kernel that cuts off, all but the gain. */
static void rules_hold(const struct verdict *v, bool cuts)
{
	for (int r = 0; r < RULE_COUNT; r++)
		if (!(cuts && r == RULE_GAIN) && !(v->out[0].rule[r].value <= v->out[0].rule[r].limit)) fail_msg("%s is broken", rule_name[r]);
}

/* The x-ray's two rules, each with no other that is broken. */
static void what_the_xray_finds_fails(void **state)
{
	static const struct { struct kernel k; const char *says; bool cuts; } rows[] = {
		{ { .fault = "eps_wrong" }, "has the fault eps_wrong", false },
		{ { .site = "inverse_root", .type = "f16" }, "rounds inverse_root to f16, which the contract does not allow", false },
		{ { .site = "xhat", .type = "bf16_rz" }, "rounds xhat to bf16_rz, which", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct verdict v = judged(&rows[i].k, "xhat_bf16");
		rules_hold(&v, rows[i].cuts);
		if (v.outcome != FAIL || v.n_reason != 1 + rows[i].cuts || !strstr(v.reason[0], rows[i].says))
			fail_msg("%s: %s, %d reasons, '%s'", rows[i].says, outcome_name[v.outcome], v.n_reason, v.n_reason ? v.reason[0] : "");
	}
}

/* float32 alone, a rounding that is allowed, or a finer one. What is left beside it may be a hundredth of the error, here a few
 * thousandths of it in squares; of more the structure is not identified, which is no failure. */
static void what_is_allowed_passes(void **state)
{
	static const struct { struct kernel k; const char *contract; enum outcome outcome; bool identified; } rows[] = {
		{ { 0 }, "f32", PASS, true },
		{ { 0 }, "xhat_bf16", PASS, true },
		{ { .site = "xhat", .type = "bf16" }, "xhat_bf16", PASS, true },
		{ { .site = "xhat", .type = "f16" }, "xhat_bf16", PASS, true },
		{ { .site = "xhat", .type = "bf16" }, "f32", FAIL, true },
		{ { .site = "xhat", .type = "bf16" }, "auto", PASS, true },
		{ { .site = "xhat", .type = "bf16", .off = 1e-4, .rows = 16 }, "xhat_bf16", PASS, true },
		{ { .site = "xhat", .type = "bf16", .off = 4e-4, .rows = 16 }, "xhat_bf16", PASS, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct verdict v = judged(&rows[i].k, rows[i].contract);
		if (v.outcome != rows[i].outcome || v.x.identified != rows[i].identified)
			fail_msg("row %zu: %s, explains %g, '%s'", i, outcome_name[v.outcome], v.x.profile.out[0].explained, v.n_reason ? v.reason[0] : "");
		if (rows[i].contract[0] == 'a') assert_string_equal(v.contract->name, "xhat_bf16");
	}
}

/* An error within the rules that nothing explains fails only where an explanation is required, and nothing is named: no rounding, no
 * fault; the verdict says where it sits. One beyond them fails, and has no name either. */
static void what_nobody_explains_passes_within_the_rules(void **state)
{
	static const struct kernel within = { .off = 1e-4, .rows = 16 }, beyond = { .off = 0.1, .rows = 8 };
	const struct judging required = { .contract = "xhat_bf16", .explained = ALL_EXPLAINED };

	(void)state;
	struct verdict v = judged(&within, "xhat_bf16");
	rules_hold(&v, false);
	assert_true(v.outcome == PASS && !v.n_reason && !v.x.identified);
	for (int i = 0; i < v.x.n; i++)
		if (v.x.suspect[i].site >= 0) assert_int_equal(v.x.suspect[i].state, NOT_IDENTIFIABLE);
	v = judged_by(&norm, &within, &required);
	assert_true(v.outcome == FAIL && strstr(v.reason[0], "an explanation is required") && strstr(v.reason[0], "% of it in y"));
	v = judged_by(&norm, &within, &(struct judging){ .contract = "xhat_bf16", .explained = OWN_EXPLAINED });
	assert_int_equal(v.outcome, PASS);
	v = judged_by(&norm, &(struct kernel){ .site = "xhat", .type = "bf16" }, &required);
	assert_int_equal(v.outcome, PASS);
	v = judged(&beyond, "xhat_bf16");
	assert_true(v.outcome == FAIL && strstr(v.reason[0], "no known fault explains the error") && strstr(v.reason[0], "the lower half of R"));
	assert_int_equal(v.x.count[DETECTED], 0);
}

/* A sum whose rounding to bf16 loses 2e-7 of it, twice float32's noise: the rules of f32 hold, but it is a
 * rounding that f32 does not allow. auto takes the contract that does. */
static void auto_takes_a_contract_that_allows_it(void **state)
{
	static const struct kernel k = { .site = "residual", .type = "bf16" };
	struct test_case sum = norm;

	(void)state;
	sum.in = (const struct case_tensor[]){ { "x", "R,D", DT_BF16, DRAW_NORMAL, 0, 1 }, norm.in[1],
		{ "residual", "R,D", DT_F32, DRAW_NORMAL, 0, 2e-7 }, { 0 } };
	sum.out = (const struct case_tensor[]){ norm.out[0], { "residual_out", "R,D", DT_F32, DRAW_NORMAL, 0, 0 }, { 0 } };
	struct verdict v = judged_on(&sum, &k, "f32");
	rules_hold(&v, false);
	assert_true(v.outcome == FAIL && v.n_reason == 1 && strstr(v.reason[0], "rounds residual to bf16"));
	v = judged_on(&sum, &k, "auto");
	assert_int_equal(v.outcome, PASS);
	assert_string_equal(v.contract->name, "residual_bf16");
}

/* ---- what is seen and what is not ---- */

/* Next to a mean square of 1 an eps of 1e-5 for 1e-6 is many times float32's noise; next to 50, less than
 * that. Without a gate its faults change nothing. */
static void coverage_is_what_these_inputs_show(void **state)
{
	struct verdict v = judged(&(struct kernel){ 0 }, "f32");

	(void)state;
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(state_of(&v, "eps_wrong"), RULED_OUT);
	assert_int_equal(state_of(&v, "offset_twice"), NOT_IDENTIFIABLE);
	assert_int_equal(state_of(&v, "gate_missing"), NOT_IDENTIFIABLE);
	assert_int_equal(state_of(&v, "inverse_root"), RULED_OUT);
	v = judged(&(struct kernel){ .fault = "eps_wrong" }, "f32");
	assert_int_equal(state_of(&v, "eps_wrong"), DETECTED);
	struct test_case large = norm;
	large.in = (const struct case_tensor[]){ { "x", "R,D", DT_F32, DRAW_NORMAL, 0, 7.5 }, norm.in[1], { 0 } };
	large.dims = (const struct case_dim[]){ { "R", 400 }, { "D", 64 }, { 0 } };
	for (int made = 0; made < 2; made++) {
		v = judged_on(&large, &(struct kernel){ .fault = made ? "eps_wrong" : NULL }, "f32");
		assert_int_equal(v.outcome, PASS);
		assert_int_equal(state_of(&v, "eps_wrong"), NOT_IDENTIFIABLE);
	}
}

/* The error of a bf16 store is no rounding inside: that nearly all of it is explained excuses nothing. */
static void a_store_explains_nothing(void **state)
{
	struct test_case wide = norm;

	(void)state;
	wide.dims = (const struct case_dim[]){ { "R", 16 }, { "D", 2048 }, { 0 } };
	wide.out = (const struct case_tensor[]){ { "y", "R,D", DT_BF16, DRAW_NORMAL, 0, 0 }, { 0 } };
	struct verdict v = judged_on(&wide, &(struct kernel){ 0 }, "f32");
	assert_int_equal(v.outcome, PASS);
	v = judged_on(&wide, &(struct kernel){ .off = 4e-6, .rows = 16 }, "f32");
	assert_true(v.x.profile.out[0].explained > 0.99 && v.x.left > 2);
	assert_false(v.x.identified);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_xray_finds_fails),
		cmocka_unit_test(what_is_allowed_passes),
		cmocka_unit_test(what_nobody_explains_passes_within_the_rules),
		cmocka_unit_test(auto_takes_a_contract_that_allows_it),
		cmocka_unit_test(coverage_is_what_these_inputs_show),
		cmocka_unit_test(a_store_explains_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
