/* How a kernel adds, read from its outputs: model kernels of each arithmetic, and calls recorded on an H200.
 * Runs from the repository's root. */
#include <string.h>

#include "compare/attribute/profile.h"
#include "tests/kernel_model.h"

/* The emulation is given: what the search finds is another test's. */
static struct accumulators read_back(struct capture *c, const char *contract)
{
	struct accumulators a;
	struct call call;
	struct xray x;
	struct error e;

	no_error(call_bind(&call, c, true, &e) && xray_make(&x, &call, NULL, &e), &e);
	x.emulation = plan_plain(&arith_f64, arith_f64.precision);
	plan_contract(&x.emulation, contract_of(call.op->name, contract));
	no_error(accumulators_read(&a, &x), &e);
	xray_free(&x);
	return a;
}

static const char *best(const struct accumulators *a) { return accumulator_name(a, a->best); }

static double equal(const struct accumulators *a, const char *name, int output)
{
	for (int i = 0; i < ACCUMULATORS; i++)
		if (!strcmp(accumulator_name(a, i), name)) return a->output[i][output];
	fail_msg("%s is not tried", name);
	return 0;
}

static void model_kernels(void **state)
{
	static const struct { const char *op, *kase, *contract, *arith, *found; } rows[] = {
		{ "gated_delta_rule", "prefill", "bf16_operands", "mma:hopper", "mma:hopper" },
		{ "gated_delta_rule", "prefill", "bf16_operands", "mma:blackwell", "mma:hopper" },
		{ "gated_delta_rule", "prefill", "bf16_operands", "mma:ampere", "mma:ampere" },
		{ "gated_delta_rule", "prefill", "bf16_operands", "f32_tree", "f32_tree" },
		{ "gated_delta_rule", "prefill", "bf16_operands", "f64", "exact" },
		{ "gated_delta_rule", "prefill", "bf16_operands", "noisy", "exact" },
		{ "gated_delta_rule", "prefill", "f32", "f32", "f32" },
		{ "gated_delta_rule", "prefill", "f32", "f32_fma", "f32_fma" },
		{ "gated_delta_rule", "prefill", "f32", "f32_tree", "f32_tree" },
		{ "rmsnorm", "plain_f32", "f32", "f32", "f32" },
		{ "rmsnorm", "plain_f32", "f32", "f32_tree", "f32_tree" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct arith *arith;
		struct capture c;
		int bits;
		assert_true(arith_by_name(rows[i].arith, &arith, &bits));
		struct plan p = plan_plain(arith, bits);
		plan_contract(&p, contract_of(rows[i].op, rows[i].contract));
		make_case(&c, rows[i].op, rows[i].kase);
		answer_by(&c, &p);
		struct accumulators a = read_back(&c, rows[i].contract);
		if (strcmp(best(&a), rows[i].found))
			fail_msg("%s %s: %s for %s", rows[i].op, rows[i].contract, best(&a), rows[i].found);
		if (strcmp(rows[i].arith, "noisy") && a.equal[a.best] != 1) fail_msg("%s: %g equal", rows[i].arith, a.equal[a.best]);
		capture_free(&c);
	}
}

static struct accumulators recorded(const char *name, const char *contract)
{
	struct capture c;
	char path[256];
	struct error e;

	snprintf(path, sizeof path, "fixtures/captures/%s.safetensors", name);
	no_error(capture_read(&c, path, &e), &e);
	struct accumulators a = read_back(&c, contract);
	capture_free(&c);
	return a;
}

/* Kernels on tensor cores and without, public ones, one of which adds in order, and our own, which add over lanes. That of
 * prefill.recurrent adds as none that is tried: f32_tree has more bits right, but in as many blocks fewer. */
static void recorded_kernels(void **state)
{
	static const struct { const char *name, *adds; } plain[] = { { "gated_delta_rule.decode.recurrent", "f32_fma" },
		{ "gated_delta_rule.prefill.etalon", "f32_tree" }, { "gated_delta_rule.plain.etalon", "f32_tree" } };
	struct accumulators a = recorded("gated_delta_rule.prefill.chunk", "bf16_operands");

	(void)state;
	assert_string_equal(best(&a), "mma:hopper");
	assert_true(equal(&a, "mma:hopper", 0) == 1 && equal(&a, "mma:hopper", 1) == 1);
	assert_true(equal(&a, "exact", 0) < 0.9995 && equal(&a, "exact", 1) < 0.6 && equal(&a, "mma:ampere", 1) < 0.9);
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		a = recorded(plain[i].name, "f32");
		if (strcmp(best(&a), plain[i].adds)) fail_msg("%s: %s", plain[i].name, best(&a));
		assert_true(equal(&a, plain[i].adds, 1) > equal(&a, "exact", 1) + 0.03);
	}
	a = recorded("gated_delta_rule.prefill.recurrent", "f32");
	assert_string_equal(best(&a), "exact");
	assert_true(equal(&a, "f32_tree", 1) > equal(&a, "exact", 1) + 0.05);
}

/* A kernel of float32 whose every element is off by one or two units: nothing is equal to the bit. */
static void chance(void **state)
{
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;

	(void)state;
	make_case(&c, "rmsnorm", "plain_f32");
	answer_by(&c, &p);
	struct tensor *y = tensors_find(&c.tensors, "out.y");
	struct accumulators before = read_back(&c, "f32");
	for (size_t i = 0; i < y->count; i++)
		if (i % 2) step_up(y, i);
	for (size_t i = 0; i < y->count; i++) step_up(y, i);
	struct accumulators after = read_back(&c, "f32");
	assert_string_equal(best(&before), "f32");
	assert_string_equal(best(&after), "exact");
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model_kernels),
		cmocka_unit_test(recorded_kernels),
		cmocka_unit_test(chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
