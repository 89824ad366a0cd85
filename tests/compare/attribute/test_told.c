/* What elements tell of a fault: see struct votes in compare/attribute/xray.h, and docs/verdict.md, section 5. */
#include "compare/structure/structure.h"
#include "told.h"

/* In head 0, where g is 0, neither changes anything; in head 1 everything is NaN with both, in
 * float32. */
static void faults_that_answer_alike_are_told_together(void **state)
{
	const struct op *op = op_find("gated_delta_rule");
	struct plan p = kernel("gated_delta_rule", "chunk_f32");
	struct capture c;

	(void)state;
	answered(&c, "gated_delta_rule", "g_extremes", 1, DT_F32, &p);
	struct tensor *g = capture_in(&c, "g");
	for (size_t i = 0; i < g->count; i += 2) set(g, i, 0);
	plan_fault(&p, op, op_fault(op, "decay_as_positive"));
	answer_by(&c, &p);
	struct verdict v = told(&c, "chunk_f32");
	assert_true(detected(&v, "decay_as_positive"));
	assert_non_null(strstr(v.reason[0], "on these inputs the same as split_exponent"));
}

/* odd_1007 with such sums, without a fault or with one at a value of its parameter; *beside: the fault that is read beside its structure, or -1, by
 * one who makes none, so that the values that he has of them say nothing. */
static struct verdict odd_rows(const struct arith *sums, uint64_t seed, const char *fault, double value, int *beside)
{
	static const double none[MAX_FAULT];
	const struct op *op = op_find("rmsnorm");
	struct plan p = kernel("rmsnorm", "f32");
	struct structure_reading r;
	struct capture c;
	struct call call;
	struct error e;
	const char *why;

	p.arith = sums;
	if (fault) plan_fault_at(&p, op, op_fault(op, fault), value);
	answered(&c, "rmsnorm", "odd_1007", seed, DT_F32, &p);
	const struct structure_search how = { .work = 20e9, .value = none };
	no_error(call_bind(&call, &c, true, &e) && structure_read(&r, &call, &how, &why, &e), &e);
	assert_null(why);
	*beside = r.fault;
	structure_free(&r);
	return told(&c, "f32");
}

/* Squares of 8 bits tie to even, so that 1007 of them in order come out 1.3e-6 too small, as if eps were 0. By a tree they do not: there an
 * eps of 1e-5 is told, and one of 0 is not taken for it. */
static void a_drift_of_sums_is_no_eps(void **state)
{
	const struct op *op = op_find("rmsnorm");
	int beside;

	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct verdict v = odd_rows(&arith_f32, seed, NULL, 0, &beside);
		assert_int_equal(v.outcome, PASS);
		assert_int_equal(v.x.count[DETECTED], 0);
		assert_int_equal(beside, -1);
		v = odd_rows(&arith_f32_tree, seed, "eps_wrong", 1e-5, &beside);
		assert_true(detected(&v, "eps_wrong"));
		v = odd_rows(&arith_f32_tree, seed, "eps_missing", 0, &beside);
		assert_false(detected(&v, "eps_wrong"));
		assert_int_equal(beside, op_fault(op, "eps_missing"));
	}
}

/* An initial state that has decayed to 1e-5 when it is first read: twelve elements of a row, among some thousand that are to the bit. The
 * coefficient's error is 0.4, of noise that others of the block have; each of the twelve is where the fault takes it. */
static void elements_tell_a_fault_that_no_coefficient_does(void **state)
{
	const struct op *op = op_find("ssd");
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct capture c;

	(void)state;
	plan_structure(&p, contract_of("ssd", "bf16_operands"), 1);
	plan_fault(&p, op, op_fault(op, "initial_state_ignored"));
	answered(&c, "ssd", "strong_decay", 1, DT_F32, &p);
	struct verdict v = told(&c, "bf16_operands");
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "initial_state_ignored"));
}

/* In the contract's second structure, which the first is not near: without the eps as with it behind the root growth finds roundings that
 * explain 99.998 %, and what is left is 4e8 times noise; k that is too long makes the state grow beyond float32 with both of two faults, elsewhere. */
static void a_fault_is_looked_for_in_all_structures_of_a_contract(void **state)
{
	static const struct { const char *kase, *fault; } planted[] = { { "tiny_keys", "l2_eps_outside" }, { "lengths", "l2_mean" } };
	const struct op *op = op_find("gated_delta_rule");

	(void)state;
	for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
		struct plan p = plan_plain(&arith_f32, arith_f32.precision);
		struct capture c;
		plan_structure(&p, contract_of("gated_delta_rule", "bf16_operands"), 1);
		plan_fault(&p, op, op_fault(op, planted[i].fault));
		answered(&c, "gated_delta_rule", planted[i].kase, 1, DT_F32, &p);
		struct verdict v = told(&c, "bf16_operands");
		assert_true(detected(&v, planted[i].fault));
		assert_int_equal(v.x.count[DETECTED], 1);
	}
}

/* The least scale, sixteen times, or two powers of two: written as their inverses they are few numbers, but no flip of a rounding makes them. */
static void few_numbers_that_no_flip_makes_name_a_fault(void **state)
{
	static const struct { const char *op, *kase, *contract; } planted[] = { { "rmsnorm_fp8", "least_scale", "f32" },
		{ "rmsnorm_fp8_groups", "power_of_two", "weighted_bf16" } };

	(void)state;
	for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
		const struct op *op = op_find(planted[i].op);
		struct plan p = kernel(planted[i].op, planted[i].contract);
		struct capture c;
		struct error e;
		plan_fault(&p, op, op_fault(op, "scale_inverted"));
		no_error(case_make(&c, case_find(planted[i].op, planted[i].kase), 1, true, &e), &e);
		answer_by(&c, &p);
		struct verdict v = told(&c, planted[i].contract);
		assert_true(detected(&v, "scale_inverted"));
		assert_int_equal(v.x.count[DETECTED], 1);
	}
}

static void with_fault(struct plan *p, const char *op, const char *fault) { plan_fault(p, op_find(op), op_fault(op_find(op), fault)); }

/* 1 + w for w and another gate: the first alone brings the kernel farther, so that no growth begins with it. */
static void two_faults_are_named_of_which_one_alone_explains_nothing(void **state)
{
	struct plan p = kernel("rmsnorm", "f32");
	struct capture c;

	(void)state;
	with_fault(&p, "rmsnorm", "zero_centred_for_plain");
	with_fault(&p, "rmsnorm", "gate_is_sigmoid");
	answered(&c, "rmsnorm", "gated_128", 1, DT_F32, &p);
	struct verdict v = told(&c, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "zero_centred_for_plain") && detected(&v, "gate_is_sigmoid"));
	assert_int_equal(v.x.count[DETECTED], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_that_answer_alike_are_told_together),
		cmocka_unit_test(a_drift_of_sums_is_no_eps),
		cmocka_unit_test(elements_tell_a_fault_that_no_coefficient_does),
		cmocka_unit_test(a_fault_is_looked_for_in_all_structures_of_a_contract),
		cmocka_unit_test(few_numbers_that_no_flip_makes_name_a_fault),
		cmocka_unit_test(two_faults_are_named_of_which_one_alone_explains_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
