/* The rules of a verdict that need no x-ray: what a contract allows, what has no sigma, what is stale, and the
 * exit codes. tests/mutants.tsv breaks them one at a time. */
#include <math.h>

#include "compare/cli/cli.h"
#include "compare/report/report.h"
#include "gpu/host/backend.h"
#include "tests/kernel_model.h"

/* A rounding that was detected is allowed in the type of the contract or a finer one; a fault never is. */
static void a_contract_allows_a_site_in_a_type(void **state)
{
	const struct op *op = op_find("rmsnorm");
	const struct contract *bf16 = contract_of("rmsnorm", "xhat_bf16"), *f32 = contract_of("rmsnorm", "f32");
	int xhat = op_site(op, "xhat"), y = op_site(op, "y"), inverse = op_site(op, "inverse_root");
	const struct { int site; enum format f; enum rounding r; const struct contract *k; enum suspect_state state; } rows[] = {
		{ xhat, FMT_BF16, ROUND_NEAREST_EVEN, bf16, ALLOWED }, { xhat, FMT_BF16, ROUND_NEAREST_EVEN, f32, DETECTED },
		{ xhat, FMT_BF16, ROUND_ZERO, bf16, DETECTED }, { xhat, FMT_F16, ROUND_NEAREST_EVEN, bf16, ALLOWED },
		{ xhat, FMT_E4M3, ROUND_NEAREST_EVEN, bf16, DETECTED },
		{ inverse, FMT_BF16, ROUND_NEAREST_EVEN, bf16, DETECTED }, { -1, FMT_BF16, ROUND_NEAREST_EVEN, bf16, DETECTED },
		{ y, FMT_F32, ROUND_NEAREST_EVEN, f32, ALLOWED }, { y, FMT_BF16, ROUND_NEAREST_EVEN, f32, DETECTED },
	};
	static struct examination x;
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	make_case(&c, "rmsnorm", "plain_f32");
	no_error(call_bind(&call, &c, true, &e), &e);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (int before = DETECTED; before <= ALLOWED; before++) {
			x.n = 1;
			x.suspect[0] = (struct suspect){ .name = "it", .site = rows[i].site, .format = rows[i].f, .rounding = rows[i].r,
				.coefficient = 1, .error = 0.01, .told = true, .state = before };
			examine_under(&x, &call, rows[i].k);
			if (x.suspect[0].state != rows[i].state) fail_msg("row %zu: %s", i, suspect_name[x.suspect[0].state]);
			assert_int_equal(x.count[rows[i].state], 1);
		}
	/* a forbidden rounding that the elements do not tell is not said */
	x.suspect[0] = (struct suspect){ .name = "it", .site = xhat, .format = FMT_BF16, .coefficient = 1, .error = 0.01, .state = DETECTED };
	examine_under(&x, &call, f32);
	assert_int_equal(x.suspect[0].state, NOT_IDENTIFIABLE);
	capture_free(&c);
}

/* In a row that float32 rounds elsewhere, what is only copied has no sigma either. */
static void a_copy_beside_noise_is_exact(void **state)
{
	struct capture c;
	struct verdict v;
	struct error e;

	(void)state;
	model_case(&c, "rope", "partial_f32", "f32");
	step_up(capture_out(&c, "y"), 5 * 256 + 255);
	no_error(judge(&c, &(struct judging){ .quick = true }, &v, &e), &e);
	assert_true(v.outcome == FAIL && isinf(v.out[0].rule[RULE_WORST].value) && v.out[0].worst.index == 5 * 256 + 255);
	capture_free(&c);
}

/* ---- stale captures, exit codes, the gate ---- */

static void a_changed_kernel_is_stale(void **state)
{
	static const char old[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	const struct { const char *producer, *sha256; enum outcome outcome; } rows[] = {
		{ "etalon gpu/rmsnorm.cu", gpu_source_sha256("rmsnorm"), PASS }, { "etalon gpu/rmsnorm.cu", old, FAIL }, { "vllm 1.0", old, PASS },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c = { .op = "rmsnorm", .producer = rows[i].producer, .sha256 = rows[i].sha256 };
		struct verdict v = { .outcome = PASS };
		judge_stale(&c, gpu_source_sha256(c.op), &v);
		assert_int_equal(v.outcome, rows[i].outcome);
		assert_int_equal(v.n_reason, rows[i].outcome == FAIL);
		v = (struct verdict){ .outcome = UNDECIDED };
		judge_stale(&c, gpu_source_sha256(c.op), &v);
		assert_int_equal(v.outcome, rows[i].outcome == FAIL ? FAIL : UNDECIDED);
	}
}

static void exit_codes(void **state)
{
	static const int order[] = { EXIT_PASS, EXIT_UNDECIDED, EXIT_FAIL, EXIT_INPUT, EXIT_MACHINE };
	struct finding unread = { .judged = false };

	(void)state;
	assert_true(outcome_exit(PASS) == 0 && outcome_exit(FAIL) == 1 && outcome_exit(UNDECIDED) == 3);
	error_set(&unread.error, E_OPEN, "x", NO_OFFSET, "gone");
	assert_int_equal(finding_exit(&unread), EXIT_INPUT);
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 5; j++) assert_int_equal(worse_exit(order[i], order[j]), order[i > j ? i : j]);
}

static int gate(const char *path)
{
	char name[] = "gate", quick[] = "--quick", where[512];

	snprintf(where, sizeof where, "%s", path);
	return cmd_gate(3, (char *[]){ name, quick, where, NULL });
}

/* A folder without captures; a good one; a good one and a bad one. */
static void the_gate_is_as_its_worst(void **state)
{
	char folder[512];
	struct capture c;
	struct error e;

	(void)state;
	snprintf(folder, sizeof folder, "%s", scratch(""));
	assert_int_equal(gate(folder), EXIT_INPUT);
	model_case(&c, "rmsnorm", "plain_f32", "f32");
	no_error(tensors_write(&c.tensors, scratch("a.safetensors"), &e), &e);
	assert_int_equal(gate(folder), EXIT_PASS);
	set(capture_out(&c, "y"), 0, 100);
	no_error(tensors_write(&c.tensors, scratch("b.safetensors"), &e), &e);
	assert_int_equal(gate(folder), EXIT_FAIL);
	set(capture_in(&c, "x"), 0, INFINITY);
	no_error(tensors_write(&c.tensors, scratch("b.safetensors"), &e), &e);
	assert_int_equal(gate(folder), EXIT_UNDECIDED);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_contract_allows_a_site_in_a_type),
		cmocka_unit_test(a_copy_beside_noise_is_exact),
		cmocka_unit_test(a_changed_kernel_is_stale),
		cmocka_unit_test(exit_codes),
		cmocka_unit_test(the_gate_is_as_its_worst),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
