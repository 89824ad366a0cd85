/* What elements tell of a name: see struct votes in compare/attribute/xray.h, and docs/verdict.md, section 5. */
#include "compare/structure/structure.h"
#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"

/* The case with all of its outputs in this type, as the plan answers it. */
static void answered(struct capture *c, const char *op, const char *name, uint64_t seed, enum dtype type, const struct plan *p)
{
	struct case_tensor out[MAX_OUT + 1] = { 0 };
	struct test_case k = *case_find(op, name);
	struct error e;

	for (int i = 0; k.out[i].name; i++) out[i] = k.out[i], out[i].dtype = type;
	k.out = out;
	no_error(case_make(c, &k, seed, true, &e), &e);
	answer_by(c, p);
}

/* The float32 kernel of a contract's first structure. */
static struct plan kernel(const char *op, const char *contract)
{
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);

	plan_structure(&p, contract_of(op, contract), 0);
	return p;
}

static struct verdict judged(struct capture *c, const char *contract)
{
	struct verdict v;
	struct error e;

	no_error(judge(c, &(struct judging){ .contract = contract }, &v, &e), &e);
	capture_free(c);
	return v;
}

static bool detected(const struct verdict *v, const char *name)
{
	for (int i = 0; i < v->x.n; i++)
		if (v->x.suspect[i].state == DETECTED && !strcmp(v->x.suspect[i].name, name)) return true;
	return false;
}

static void bf16_at(struct plan *p, const char *op, const char *site)
{
	p->round[op_site(op_find(op), site)] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
}

/* In three of eight rows the inverse root is so near a short number that its products lie on ties: float32 decides 113 elements
 * by three roundings, as squares in float16 would. */
static void rows_that_tip_over_name_nothing(void **state)
{
	struct plan p = kernel("rmsnorm", "xhat_bf16");
	struct capture c;

	(void)state;
	answered(&c, "rmsnorm", "residual", 9, DT_BF16, &p);
	struct verdict v = judged(&c, "xhat_bf16");
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(v.x.count[DETECTED], 0);
}

/* The stored bf16 shows 102 of 6144 elements, and a coefficient of 1.29 ± 0.18; all are the emulation's to the bit. */
static void a_rounding_that_few_elements_show_is_named(void **state)
{
	struct plan p = kernel("rmsnorm", "f32");
	struct capture c;

	(void)state;
	bf16_at(&p, "rmsnorm", "squares");
	answered(&c, "rmsnorm", "zero_centred_256", 1, DT_BF16, &p);
	struct verdict v = judged(&c, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "squares"));
}

struct made { const char *op, *kase, *contract, *site, *name; };

/* Each element goes this part of the way to where the rounding would take it. */
static bool named_of_a_part(const struct made *r, double part)
{
	struct plan p = kernel(r->op, r->contract), q = p;
	struct capture c;
	struct call call;
	struct answer a, b;
	struct error e;

	bf16_at(&q, r->op, r->site);
	answered(&c, r->op, r->kase, 1, DT_F32, &p);
	no_error(call_bind(&call, &c, false, &e) && ref_run(&call, &p, &a, &e) && ref_run(&call, &q, &b, &e), &e);
	for (int i = 0; i < MAX_OUT; i++) {
		for (size_t j = 0; j < call.out_count[i]; j++) a.hi[i][j] += part * (b.hi[i][j] - a.hi[i][j]);
		if (call.out_count[i]) dtype_store(DT_F32, a.hi[i], call.out_count[i], call.out[i]->data);
	}
	answer_free(&a);
	answer_free(&b);
	struct verdict v = judged(&c, r->contract);
	assert_int_equal(v.outcome, FAIL);
	assert_true(v.x.identified);
	return detected(&v, r->name);
}

static void a_part_of_a_rounding_is_none(void **state)
{
	static const struct made made = { "rmsnorm", "far_mean", "f32", "xhat", "cast_before_weight" };

	(void)state;
	assert_true(named_of_a_part(&made, 1));
	assert_false(named_of_a_part(&made, 0.92));
}

/* Of both everything is NaN. */
static void faults_that_answer_alike_are_told_together(void **state)
{
	const struct op *op = op_find("gated_delta_rule");
	struct plan p = kernel("gated_delta_rule", "chunk_f32");
	struct capture c;

	(void)state;
	plan_fault(&p, op, op_fault(op, "decay_as_positive"));
	answered(&c, "gated_delta_rule", "g_extremes", 1, DT_F32, &p);
	struct verdict v = judged(&c, "chunk_f32");
	assert_true(detected(&v, "split_exponent"));
	assert_non_null(strstr(v.reason[0], "on these inputs the same as decay_as_positive"));
}

/* Attention's lse of so many tokens and one head, rounded to bf16, in a float32 tensor. */
static void short_lse(struct capture *c, struct plan *p, size_t tokens)
{
	struct test_case k = *case_find("attention", "rising");
	struct case_dim dims[8] = { { 0 } };
	struct error e;

	for (int i = 0; k.dims[i].name; i++)
		dims[i] = (struct case_dim){ k.dims[i].name, !strcmp(k.dims[i].name, "T") ? tokens : !strcmp(k.dims[i].name, "Hq") ? 1 : k.dims[i].size };
	k.dims = dims;
	no_error(case_make(c, &k, 1, true, &e), &e);
	*p = kernel("attention", "f32");
	bf16_at(p, "attention", "lse");
	answer_by(c, p);
}

/* Could a kernel that rounds nothing have made them, however near its numbers are? */
static bool may_be_unrounded(size_t tokens)
{
	struct capture c;
	struct call call;
	struct plan p;
	struct xray x;
	struct error e;
	bool may;

	short_lse(&c, &p, tokens);
	no_error(call_bind(&call, &c, true, &e) && xray_make(&x, &call, NULL, &e), &e);
	x.e = &e;
	x.emulation = p;
	x.emulation.arith = &arith_f64;
	no_error(xray_refresh(&x) && xray_scores(&x, INFINITY, &may), &e);
	assert_true(may);
	x.emulation = plan_plain(&arith_f64, arith_f64.precision);
	no_error(xray_rebase(&x) && xray_scores(&x, INFINITY, &may), &e);
	xray_free(&x);
	capture_free(&c);
	return may;
}

/* Eight are too few for a coefficient, but where each of them is float32's numbers lie once in 65536. */
static void numbers_on_a_grid_tell_what_put_them_there(void **state)
{
	struct capture c;
	struct plan p;

	(void)state;
	assert_true(may_be_unrounded(1));
	assert_false(may_be_unrounded(2));
	short_lse(&c, &p, 8);
	struct verdict v = judged(&c, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "lse"));
}

/* The structure's bf16(C @ B') stands beside tf32(.. diag(d)), which is the contract's attention and not decayed_scores, what the factor d stands on. */
static void a_factor_takes_the_name_along(void **state)
{
	struct plan p = kernel("ssd", "tf32_operands");
	bool attention = false;
	struct capture c;
	struct error e;

	(void)state;
	bf16_at(&p, "ssd", "scores");
	no_error(case_make(&c, case_find("ssd", "decode"), 1, true, &e), &e);
	answer_by(&c, &p);
	struct verdict v = judged(&c, "tf32_operands");
	assert_true(v.x.structure.taken);
	for (int i = 0; i < v.x.structure.n_rounding; i++) attention = attention || v.x.structure.rounding[i].site == op_site(op_find("ssd"), "attention");
	assert_true(attention);
	assert_false(detected(&v, "decayed_scores"));
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
	return judged(&c, "f32");
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
	struct verdict v = judged(&c, "bf16_operands");
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "initial_state_ignored"));
}

/* Where a near tie of the state flips in some hundred elements of o a structure has it to the bit, with a rounding in float32's noise at no site
 * of the op's: without that one it explains as well, and the contract allows it (test_structure_many holds the rule). It is so in one of 39 seeds from 2 on, of which these are four. */
static void a_rounding_in_the_noise_forbids_no_structure(void **state)
{
	int taken = 0;

	(void)state;
	for (uint64_t seed = 14; seed <= 17; seed++) {
		struct plan p = plan_plain(&arith_f32, arith_f32.precision);
		struct capture c;
		plan_structure(&p, contract_of("kda", "bf16_operands"), 1);
		answered(&c, "kda", "weak_decay", seed, DT_F32, &p);
		struct verdict v = judged(&c, "bf16_operands");
		assert_int_equal(v.outcome, PASS);
		assert_int_equal(v.x.count[DETECTED], 0);
		taken += v.x.structure.taken;
	}
	assert_true(taken > 0);
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
		struct verdict v = judged(&c, "bf16_operands");
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
		struct verdict v = judged(&c, planted[i].contract);
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
	struct verdict v = judged(&c, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "zero_centred_for_plain") && detected(&v, "gate_is_sigmoid"));
	assert_int_equal(v.x.count[DETECTED], 2);
}

/* z in bf16, of one row: every matrix in bf16 is 96 % of it, a fault that explains most; the structure without it explains all. */
static void a_structure_explains_what_a_fault_does_nearly(void **state)
{
	struct plan p = kernel("newton_schulz", "f32");
	struct capture c;

	(void)state;
	bf16_at(&p, "newton_schulz", "z");
	answered(&c, "newton_schulz", "one_row", 1, DT_F32, &p);
	struct verdict v = judged(&c, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_true(detected(&v, "z"));
	assert_int_equal(v.x.count[DETECTED], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_that_tip_over_name_nothing),
		cmocka_unit_test(a_rounding_that_few_elements_show_is_named),
		cmocka_unit_test(a_part_of_a_rounding_is_none),
		cmocka_unit_test(faults_that_answer_alike_are_told_together),
		cmocka_unit_test(numbers_on_a_grid_tell_what_put_them_there),
		cmocka_unit_test(a_factor_takes_the_name_along),
		cmocka_unit_test(a_drift_of_sums_is_no_eps),
		cmocka_unit_test(elements_tell_a_fault_that_no_coefficient_does),
		cmocka_unit_test(a_rounding_in_the_noise_forbids_no_structure),
		cmocka_unit_test(a_fault_is_looked_for_in_all_structures_of_a_contract),
		cmocka_unit_test(few_numbers_that_no_flip_makes_name_a_fault),
		cmocka_unit_test(two_faults_are_named_of_which_one_alone_explains_nothing),
		cmocka_unit_test(a_structure_explains_what_a_fault_does_nearly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
