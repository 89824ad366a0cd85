/* A pass means something: limits that are as large as the answer, inputs that show nothing, and contracts
 * that nothing calls for decide nothing. */
#include <math.h>

#include "ref/formula/formula.h"
#include "tests/judged.h"

static bool says(const struct verdict *v, const char *text)
{
	bool any = false;

	for (int i = 0; i < v->n_reason; i++) any = any || strstr(v->reason[i], text);
	return any;
}

static void fill(struct capture *c, const char *name, double by, double add)
{
	struct tensor *t = capture_out(c, name);

	for (size_t j = 0; j < t->count; j++) set(t, j, by == 0 ? add : by * get(t, j) + add);
}

/* One formula that cancels: bf16 roundings of a and b are as large as a - b. */
static const struct op *cancels(void)
{
	return formula_op(op_added_from(scratch_text("cancels.op",
		"op cancels # x y - x y (1 + 2^-9)\nin x [R, D]  y [R, D]\nout z [R, D]\neach r in R\n"
		"a = x[r] * y[r]\nb = a * 1.001953125\nz[r] = a - b\n"
		"fault twice: b = a * 1.00390625 # twice the part\ncontract f32\ncontract bf16 as operands: a bf16, b bf16\n"
		"case one: R = 40, D = 40, x = bf16 normal(0, 1), y = bf16 normal(0, 1), z = f32\n")));
}

static void limits_as_large_as_the_answer_decide_nothing(void **state)
{
	const struct op *op = cancels();
	static const double factors[] = { 1, 0, 2 };
	struct capture c;
	struct error e;

	(void)state;
	no_error(case_make(&c, op_case(op, "one"), 1, true, &e), &e);
	struct plan p = plan_plain(&arith_f32, 24);
	answer_by(&c, &p);
	assert_int_equal(judged(&c, "f32", true).outcome, PASS);
	for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
		answer_by(&c, &p);
		fill(&c, "z", factors[i], 0);
		struct verdict v = judged(&c, "bf16", true);
		assert_int_equal(v.outcome, UNDECIDED);
		assert_true(v.says_nothing && says(&v, "out.z: an output of zeros, or of twice the exact answer"));
		v = judged(&c, "f32", true);
		assert_true(v.outcome == (factors[i] == 1 ? PASS : FAIL) && !v.says_nothing);
	}
	fill(&c, "z", 0, 1);
	assert_int_equal(judged(&c, "bf16", true).outcome, FAIL);
	capture_free(&c);
}

/* A fault that is named fails, whatever the limits are. */
static void what_is_named_fails_all_the_same(void **state)
{
	const struct op *op = cancels();
	struct capture c;
	struct error e;

	(void)state;
	no_error(case_make(&c, op_case(op, "one"), 1, true, &e), &e);
	struct plan p = plan_plain(&arith_f32, 24);
	plan_fault(&p, op, op_fault(op, "twice"));
	answer_by(&c, &p);
	struct verdict v = judged(&c, "bf16", false);
	assert_true(v.outcome == FAIL && says(&v, "has the fault twice"));
	capture_free(&c);
}

/* Zeros in give zeros out of nearly every wrong kernel. */
static void inputs_that_show_nothing_decide_nothing(void **state)
{
	static const struct { const char *op, *name; } rows[] = { { "gated_delta_rule", "tiny_keys" }, { "rope", "full" }, { "causal_conv1d", "short_sequences" } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct plan p = plan_plain(&arith_f32, 24);
		struct capture c;
		model_case(&c, rows[i].op, rows[i].name, "f32");
		assert_int_equal(judged(&c, "f32", false).outcome, PASS);
		for (size_t t = 0; t < c.tensors.n; t++) {
			struct tensor *x = &c.tensors.item[t];
			for (size_t j = 0; dtype_info[x->dtype].is_float && j < x->count; j++) set(x, j, 0);
		}
		answer_by(&c, &p);
		struct verdict v = judged(&c, "f32", false);
		if (v.outcome != UNDECIDED) fail_msg("%s %s: %s, %d ruled out", rows[i].op, rows[i].name, outcome_name[v.outcome], v.x.count[RULED_OUT]);
		assert_true(says(&v, "could have been seen on these inputs"));
		assert_int_equal(judged(&c, "f32", true).outcome, PASS);        /* quick: coverage is not asked for */
		capture_free(&c);
	}
}

/* ---- auto ---- */

/* Types of inputs and parameters call for roundings of operands, a tensor's own type for a rounding of it. */
static void types_call_for_contracts(void **state)
{
	static const struct { const char *op, *name, *contract; bool called; } rows[] = {
		{ "rope", "partial_f32", "f32", true }, { "rope", "partial_f32", "cos_sin_bf16", false },
		{ "gated_delta_rule", "tiny_keys", "bf16_operands", true }, { "gated_delta_rule", "tiny_keys", "chunk_bf16x2", true },
		{ "gated_delta_rule", "tiny_keys", "state_bf16", false }, { "gated_delta_rule", "decode_state_bf16", "state_bf16", true },
		{ "rmsnorm", "residual", "residual_bf16", true }, { "rmsnorm", "residual", "xhat_bf16", false },
		{ "newton_schulz", "square_f16", "f16", true }, { "newton_schulz", "square_f16", "bf16", false },
		{ "newton_schulz", "naive_f32", "f16", false }, { "newton_schulz", "blow_up_bf16", "lower_bf16", true },
		{ "attention", "fp8", "fp8_operands", true }, { "attention", "causal", "fp8_operands", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		struct call call;
		struct error e;
		make_case(&c, rows[i].op, rows[i].name);
		no_error(call_bind(&call, &c, false, &e), &e);
		if (contract_called_for(contract_of(rows[i].op, rows[i].contract), &call) != rows[i].called)
			fail_msg("%s %s calls for %s: expected %d", rows[i].op, rows[i].name, rows[i].contract, rows[i].called);
		capture_free(&c);
	}
}

/* A parameter off by little, in a kernel all in float32: a contract of another kernel would hold. */
static void auto_passes_no_contract_that_nothing_calls_for(void **state)
{
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;

	(void)state;
	make_case(&c, "rmsnorm", "plain_f32");
	const double eps = json_number_value(json_object_get(c.params, "eps"));
	json_object_set_new(c.params, "eps", json_real(eps * 1000));
	answer_by(&c, &p);
	json_object_set_new(c.params, "eps", json_real(eps));
	struct verdict quick = judged(&c, "auto", true);
	assert_int_equal(judged(&c, "xhat_bf16", true).outcome, PASS);
	assert_int_equal(quick.outcome, UNDECIDED);
	assert_string_equal(quick.contract->name, "f32");
	assert_true(says(&quick, "fails f32 by") && says(&quick, "say --contract xhat_bf16"));
	assert_int_not_equal(judged(&c, "auto", false).outcome, PASS);
	capture_free(&c);
}

/* A kernel in float32 of bf16 data, one element of which is wrong: under a contract that rounds operands its error is
 * a tenth of what such a kernel makes. */
static void a_contract_that_is_far_too_loose_is_none(void **state)
{
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;

	(void)state;
	make_case(&c, "gated_delta_rule", "tiny_keys");
	answer_by(&c, &p);
	assert_int_equal(judged(&c, "auto", true).outcome, PASS);
	struct tensor *t = capture_out(&c, "final_state");
	assert_int_equal(t->dtype, DT_F32);
	size_t at = 0;
	for (size_t j = 0; j < t->count; j++) at = fabs(get(t, j)) > fabs(get(t, at)) ? j : at;
	set(t, at, get(t, at) * (1 + 0x1p-12));
	struct verdict v = judged(&c, "auto", true), w = judged(&c, "bf16_operands", true);
	assert_true(w.outcome == PASS && w.out[1].rule[RULE_RMS].value < 0.1);
	assert_int_equal(v.outcome, UNDECIDED);
	assert_true(says(&v, "no sign of them"));
	/* a reading that rounds nothing is no sign of them either */
	set(t, at, get(t, at) * (1 + 0x1p-14) / (1 + 0x1p-12));
	v = judged(&c, "auto", false);
	assert_true(v.outcome != PASS);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_as_large_as_the_answer_decide_nothing),
		cmocka_unit_test(what_is_named_fails_all_the_same),
		cmocka_unit_test(inputs_that_show_nothing_decide_nothing),
		cmocka_unit_test(types_call_for_contracts),
		cmocka_unit_test(auto_passes_no_contract_that_nothing_calls_for),
		cmocka_unit_test(a_contract_that_is_far_too_loose_is_none),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
