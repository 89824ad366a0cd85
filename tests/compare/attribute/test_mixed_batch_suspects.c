/* Each fault of mixed_batch is named on both small cases, and a sound kernel passes. */
#include "tests/judged.h"

#define OP "mixed_batch"
#define LEN(a) (sizeof(a) / sizeof *(a))

static void each_is_named(void **state)
{
	static const struct { const char *name, *contract; } cases[] = { { "steps_f32", "f32" }, { "steps_bf16", "pool_bf16" } };
	const struct op *op = op_find(OP);
	int wrong = 0;

	(void)state;
	for (size_t k = 0; k < LEN(cases); k++)
		for (int m = -1; m < 0 || op->faults[m].name; m++) {
			struct plan p = plan_plain(&arith_f32, 24);
			struct capture c;
			make_case(&c, OP, cases[k].name);
			plan_contract(&p, contract_of(OP, cases[k].contract));
			if (m >= 0) plan_fault(&p, op, m);
			answer_by(&c, &p);
			struct verdict v = judged(&c, cases[k].contract, false);
			capture_free(&c);
			if (m < 0 ? v.outcome == PASS : v.outcome == FAIL && strstr(v.reason[0], op->faults[m].name)) continue;
			print_error("%s on %s: %s %s\n", m < 0 ? "nothing" : op->faults[m].name, cases[k].name, outcome_name[v.outcome],
				v.n_reason ? v.reason[0] : "");
			wrong++;
		}
	assert_int_equal(wrong, 0);
}

/* What is stored in a bf16 pool is read again: seen from outside, and not a store that any contract allows. */
static void a_bf16_pool_is_seen(void **state)
{
	static const char *const contracts[] = { "pool_bf16", "scratch_bf16" };
	struct capture c;

	(void)state;
	for (size_t k = 0; k < LEN(contracts); k++) {
		model_case(&c, OP, "steps_bf16", contracts[k]);
		struct verdict v = judged(&c, "auto", false);
		assert_int_equal(v.outcome, PASS);
		assert_string_equal(v.contract->name, contracts[k]);
		v = judged(&c, "f32", false);
		assert_int_equal(v.outcome, FAIL);
		bool named = false;
		for (int i = 0; i < v.n_reason; i++) named = named || strstr(v.reason[i], "rounds pool to bf16");
		if (!named) fail_msg("%s: %s", contracts[k], v.reason[0]);
		capture_free(&c);
	}
}

/* The contract lets two sites be bf16, of which one stands at a product: no region of arrangements, whose operands might be bf16 too. */
static void two_sites_make_no_region(void **state)
{
	static const char *const sites[] = { "q_norm", "u" };
	const struct op *op = op_find(OP);

	(void)state;
	for (size_t k = 0; k < LEN(sites); k++) {
		struct plan p = plan_plain(&arith_f32, 24);
		struct capture c;
		make_case(&c, OP, "steps_bf16");
		plan_contract(&p, contract_of(OP, "chunks"));
		p.round[op_site(op, sites[k])] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		answer_by(&c, &p);
		struct verdict v = judged(&c, "chunks", false);
		capture_free(&c);
		assert_int_equal(v.outcome, FAIL);
		if (!strstr(v.reason[0], sites[k])) fail_msg("%s: %s", sites[k], v.reason[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_is_named), cmocka_unit_test(a_bf16_pool_is_seen), cmocka_unit_test(two_sites_make_no_region) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
