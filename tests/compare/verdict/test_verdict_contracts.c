/* Contracts, stale captures, and the faults that a check catches under the tightest contract. */
#include <math.h>
#include <stdlib.h>

#include "compare/verdict/verdict.h"
#include "gpu/host/backend.h"
#include "ref/formula/formula.h"
#include "tests/kernel_model.h"

static struct verdict judged_by(const struct capture *c, const char *contract, bool quick)
{
	const struct judging how = { .truth = "f64", .contract = contract, .quick = quick };
	struct verdict v;
	struct error e;

	no_error(judge(c, &how, &v, &e), &e);
	return v;
}

static struct verdict judged(const struct capture *c, const char *contract) { return judged_by(c, contract, true); }

static void name_contract(struct capture *c, const char *name)
{
	struct error e;

	assert_true(meta_set(&c->tensors, "etalon.contract", name));
	no_error(capture_bind(c, &e), &e);
}

/* A kernel that rounds where `contract` lets it passes that contract, and fails `fails`. */
static void contracts_allow_what_they_name(void **state)
{
	static const struct { const char *op, *name, *contract, *fails; } rows[] = {
		{ "gated_delta_rule", "decode_state_bf16", "state_bf16", "f32" },
		{ "gated_delta_rule", "tiny_keys", "bf16_operands", "chunk_f32" },
		{ "gated_delta_rule", "tiny_keys", "chunk_bf16x2", "chunk_f32" },
		{ "rmsnorm", "residual", "residual_bf16", "f32" }, { "rmsnorm", "gated_128", "xhat_bf16", "residual_bf16" },
		{ "rope", "partial_f32", "bf16", "cos_sin_bf16" }, { "rope", "full", "cos_sin_bf16", "f32" },
		{ "causal_conv1d", "short_sequences", "conv_bf16", "f32" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		model_case(&c, rows[i].op, rows[i].name, rows[i].contract);
		struct verdict own = judged(&c, rows[i].contract), other = judged(&c, rows[i].fails);
		if (own.outcome != PASS || other.outcome != FAIL)
			fail_msg("%s %s: %s under %s, %s under %s", rows[i].op, rows[i].name, outcome_name[own.outcome], rows[i].contract,
				outcome_name[other.outcome], rows[i].fails);
		assert_string_equal(own.contract->name, rows[i].contract);
		capture_free(&c);
	}
}

/* The option before the capture before the op's first. */
static void which_contract(void **state)
{
	struct capture c;

	(void)state;
	model_case(&c, "rmsnorm", "gated_128", "xhat_bf16");
	assert_string_equal(judged(&c, NULL).contract->name, "f32");
	assert_int_equal(judged(&c, NULL).outcome, FAIL);
	assert_string_equal(judged(&c, "residual_bf16").contract->name, "residual_bf16");
	name_contract(&c, "xhat_bf16");
	assert_string_equal(judged(&c, NULL).contract->name, "xhat_bf16");
	assert_int_equal(judged(&c, NULL).outcome, PASS);
	assert_string_equal(judged(&c, "f32").contract->name, "f32");
	name_contract(&c, "nobody's");
	struct verdict v;
	struct error e;
	assert_false(judge(&c, &(struct judging){ 0 }, &v, &e));
	assert_int_equal(e.code, E_UNKNOWN_NAME);
	assert_string_equal(e.item, "nobody's");
	capture_free(&c);
}

/* auto: the tightest contract that holds and that the data's types or the outputs call for. A rounding
 * inside that only its elements tell is seen by the x-ray: the rules alone leave such a call open. */
static void auto_takes_the_tightest(void **state)
{
	static const struct { const char *op, *name, *contract; bool called_for; } rows[] = {
		{ "rmsnorm", "gated_128", "f32", true }, { "rmsnorm", "residual", "residual_bf16", true }, { "rmsnorm", "gated_128", "xhat_bf16", false },
		{ "rope", "full", "f32", true }, { "rope", "full", "cos_sin_bf16", false }, { "rope", "partial_f32", "bf16", false },
		{ "causal_conv1d", "bias_f32", "conv_bf16", false }, { "gated_delta_rule", "tiny_keys", "chunk_f32", true },
		{ "gated_delta_rule", "tiny_keys", "bf16_operands", true }, { "gated_delta_rule", "decode_state_bf16", "state_bf16", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		model_case(&c, rows[i].op, rows[i].name, rows[i].contract);
		struct verdict v = judged_by(&c, "auto", false), quick = judged(&c, "auto");
		if (v.outcome != PASS || strcmp(v.contract->name, rows[i].contract) || quick.outcome != (rows[i].called_for ? PASS : UNDECIDED))
			fail_msg("%s %s %s: %s under %s, quick %s under %s", rows[i].op, rows[i].name, rows[i].contract, outcome_name[v.outcome], v.contract->name,
				outcome_name[quick.outcome], quick.contract->name);
		struct tensor *t = capture_out(&c, op_find(rows[i].op)->out[0].name);
		set(t, 1, get(t, 1) + 100);
		v = judged(&c, "auto");
		assert_int_equal(v.outcome, FAIL);
		assert_true(v.n_reason > 0);
		capture_free(&c);
	}
}

/* An op has as many contracts as its file has: the last of these is as good as the first, by name and by auto. */
static void of_many_contracts_the_last(void **state)
{
	char text[4096];
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;
	struct error e;

	size_t n = (size_t)snprintf(text, sizeof text, "op many # x y\nin x [R]  y [R]\nout z [R]\neach r in R\na = x[r] * y[r]\nb = exp(a)\nz[r] = b\ncontract f32\n");
	for (int i = 1; i < 20; i++) n += (size_t)snprintf(text + n, sizeof text - n, "contract c%d: a %s\n", i, i < 19 ? "f16" : "bf16");
	snprintf(text + n, sizeof text - n, "case one: R = 400\n");
	(void)state;
	const struct op *op = formula_op(op_added_from(scratch_text("many.op", text)));
	no_error(case_make(&c, op_case(op, "one"), 1, true, &e), &e);
	plan_contract(&p, &op->contracts[19]);
	answer_by(&c, &p);
	for (int i = 0; i < 2; i++) {
		struct verdict v;
		no_error(judge(&c, &(struct judging){ .contract = i ? "auto" : "c19" }, &v, &e), &e);
		assert_int_equal(v.outcome, PASS);
		assert_string_equal(v.contract->name, "c19");
	}
	capture_free(&c);
}

/* Of an iteration, whatever may be in bf16 may be in float16. */
static void float16_is_as_legal_as_bf16(void **state)
{
	static const char *const names[] = { "newton_schulz", "muon_step" };
	static const struct site_rounding half = { true, FMT_F16, ROUND_NEAREST_EVEN }, brain = { true, FMT_BF16, ROUND_NEAREST_EVEN };
	int pairs = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		for (const struct contract *k = op_find(names[i])->contracts; k->name; k++) {
			char other[64];
			const char *at = strstr(k->name, "bf16");
			if (!at) continue;
			snprintf(other, sizeof other, "%.*s%s", (int)(at - k->name), k->name, at + 1);
			const struct contract *f = contract_of(names[i], other);
			assert_int_equal(f->form, k->form);
			for (int site = 0; op_find(names[i])->sites[site].name; site++)
				assert_int_equal(contract_allows(f, site, &half), contract_allows(k, site, &brain));
			pairs++;
		}
	assert_int_equal(pairs, 8);
}

/* FlagAttention's parts of the keys store their outputs in bf16, and sum bf16 numbers in bf16, of which no contract says anything. */
static void auto_allows_what_is_rounded_at_sites(void **state)
{
	const struct judging how = { .contract = "auto" };
	struct capture c;
	struct verdict v;
	struct error e;

	(void)state;
	no_error(capture_read(&c, "fixtures/readings/attention.flag_paged.safetensors", &e) && judge(&c, &how, &v, &e), &e);
	assert_int_equal(v.outcome, PASS);
	assert_true(v.x.identified);
	assert_string_equal(v.contract->name, "bf16_operands_parts");
	capture_free(&c);
}

/* ---- stale ---- */

static void stamp(struct capture *c, const char *producer, const char *sha256)
{
	struct error e;

	assert_true(meta_set(&c->tensors, "etalon.producer", producer));
	if (sha256) assert_true(meta_set(&c->tensors, "etalon.source_sha256", sha256));
	no_error(capture_bind(c, &e), &e);
}

static void stale_captures_fail(void **state)
{
	static const char old[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	const struct { const char *producer, *sha256; enum outcome outcome; } rows[] = {
		{ "etalon gpu/rope.cu", gpu_source_sha256("rope"), PASS }, { "etalon gpu/rope.cu", old, FAIL },
		{ "etalon gpu/rope.cu", gpu_source_sha256("rmsnorm"), FAIL }, { "etalon gpu/rope.cu", NULL, PASS }, { "vllm 1.0", old, PASS }
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		model_case(&c, "rope", "full", "f32");
		stamp(&c, rows[i].producer, rows[i].sha256);
		struct verdict v = judged(&c, NULL);
		assert_int_equal(v.outcome, PASS);
		judge_stale(&c, gpu_source_sha256(c.op), &v);
		if (v.outcome != rows[i].outcome) fail_msg("row %zu: %s", i, outcome_name[v.outcome]);
		assert_true(v.outcome == PASS || strstr(v.reason[0], "stale"));
		set(capture_in(&c, "x"), 0, INFINITY);
		v = judged(&c, NULL);
		assert_int_equal(v.outcome, UNDECIDED);
		judge_stale(&c, gpu_source_sha256(c.op), &v);
		assert_int_equal(v.outcome, rows[i].outcome == FAIL ? FAIL : UNDECIDED);
		capture_free(&c);
	}
}

/* ---- faults ---- */

enum answer_kind { CAUGHT, NOT_SEEN, MISSED };

/* Whether the fault changes the stored answer on the case, and the check sees it. */
static enum answer_kind try(const struct op *op, int fault, const struct test_case *k)
{
	struct plan right = plan_plain(&arith_f32, 24), wrong = right;
	struct capture a, b;
	struct error e;
	bool same = true;

	plan_fault(&wrong, op, fault);
	no_error(case_make(&a, k, 1, true, &e) && case_make(&b, k, 1, true, &e), &e);
	answer_by(&a, &right);
	answer_by(&b, &wrong);
	for (size_t i = 0; i < a.tensors.n; i++)
		same = same && !memcmp(a.tensors.item[i].data, b.tensors.item[i].data, a.tensors.item[i].bytes);
	enum outcome o = same ? PASS : judged(&b, op->contracts[0].name).outcome;
	capture_free(&a);
	capture_free(&b);
	return same ? NOT_SEEN : o == FAIL ? CAUGHT : MISSED;
}

static double work(const struct test_case *k)
{
	double product = 1;

	for (const struct case_dim *d = k->dims; d->name; d++) product *= (double)d->size;
	return product;
}

/* Small cases first. */
static enum answer_kind on_some_case(const struct op *op, int fault)
{
	static const double classes[] = { 0, 1e6, 3e6, 1e7 };
	enum answer_kind best = NOT_SEEN;

	for (size_t i = 1; i < sizeof classes / sizeof *classes; i++)
		for (const struct test_case *k = test_cases; k->op; k++) {
			if (strcmp(k->op, op->name) || k->large || work(k) < classes[i - 1] || work(k) >= classes[i]) continue;
			enum answer_kind one = try(op, fault, k);
			if (one == CAUGHT) return CAUGHT;
			if (one == MISSED) best = MISSED;
		}
	return best;
}

static void faults_fail_the_check(void **state)
{
	static const char *const word[] = { "caught", "not identifiable on any case", "seen by no rule on any case" };
	size_t caught = 0, all = 0;

	(void)state;
	for (size_t o = 0; ops[o]; o++)
		for (int m = 0; ops[o]->faults[m].name; m++) {
			enum answer_kind kind = on_some_case(ops[o], m);
			if (kind != CAUGHT) print_message("%s %s: %s\n", ops[o]->name, ops[o]->faults[m].name, word[kind]);
			caught += kind == CAUGHT;
			all++;
		}
	print_message("%zu of %zu faults caught under the tightest contract\n", caught, all);
	assert_true(caught >= 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contracts_allow_what_they_name),
		cmocka_unit_test(which_contract),
		cmocka_unit_test(auto_takes_the_tightest),
		cmocka_unit_test(of_many_contracts_the_last),
		cmocka_unit_test(float16_is_as_legal_as_bf16),
		cmocka_unit_test(auto_allows_what_is_rounded_at_sites),
		cmocka_unit_test(stale_captures_fail),
		cmocka_unit_test(faults_fail_the_check),
	};
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
