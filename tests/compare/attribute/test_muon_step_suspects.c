/* Each fault of muon_step is named on a case. */
#include <string.h>

#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"
#include "tests/state_of.h"

#define OP "muon_step"

/* The case as a model kernel answers it that keeps the contract and has the fault (NULL: none). */
static struct verdict judged(const char *name, const char *contract, const char *fault)
{
	const struct judging how = { .contract = contract };
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;
	struct verdict v;
	struct error e;

	make_case(&c, OP, name);
	plan_contract(&p, contract_of(OP, contract));
	if (fault) plan_fault(&p, op_find(OP), op_fault(op_find(OP), fault));
	answer_by(&c, &p);
	no_error(judge(&c, &how, &v, &e), &e);
	capture_free(&c);
	return v;
}

/* `as`: where it is another suspect's number, that one. */
static const struct { const char *fault, *name, *contract, *as; } shown[] = {
	{ "spectral_for_frobenius", "wide_f32", "f32", NULL },
	{ "eps_swamps_small_input", "tiny_grad_f32", "f32", NULL },
	{ "normalise_in_low_precision", "wide_f32", "f32", "input" },
	{ "last_coefficients_reused", "wide_f32", "f32", NULL },
	{ "coefficients_late", "wide_f32", "f32", NULL },
	{ "a_wrong", "mean_f32", "f32", NULL }, { "b_wrong", "mean_f32", "f32", NULL }, { "c_wrong", "mean_f32", "f32", NULL },
	{ "iterations_wrong", "mean_f32", "f32", NULL },
	{ "restart_missing", "mild_gram_f16", "lower_f16", NULL },
	{ "restart_one_late", "mild_gram_f16", "lower_f16", NULL }, { "restart_keeps_q", "tall_f32", "f32", NULL },
	{ "gram_from_mirrored_triangle", "wide_f32", "f32", NULL }, { "mirror_not_transposed", "tall_f32", "f32", NULL },
	{ "r_update_one_sided", "tall_f32", "f32", NULL },
	{ "identity_added_in_low_precision", "mild_gram_f16", "lower_f16", NULL },
	{ "iterate_in_bf16_for_f16", "mild_gram_f16", "lower_f16", NULL },
	{ "not_transposed_scale", "tall_f32", "f32", NULL }, { "other_scale", "wide_f32", "f32", NULL },
	{ "scale_missing", "qkv_f32", "f32", NULL }, { "scale_from_min", "wide_f32", "f32", NULL },
	{ "scale_of_fused", "qkv_f32", "f32", NULL }, { "per_shard", "wide_f32", "f32", NULL },
	{ "fused_qkv_as_one", "qkv_f32", "f32", NULL }, { "nesterov_missing", "wide_f32", "f32", NULL },
	{ "momentum_is_mean", "wide_f32", "f32", NULL }, { "momentum_is_sum", "mean_f32", "f32", NULL },
	{ "momentum_stale", "tall_f32", "f32", NULL },
	{ "decay_missing", "wide_f32", "f32", NULL }, { "step_added", "wide_f32", "f32", NULL }, { "momentum_normalised", "tall_f32", "f32", NULL },
	{ "decay_coupled", "wide_f32", "f32", NULL }, { "decay_without_lr", "wide_f32", "f32", NULL },
	{ "decay_after_update", "wide_f32", "f32", NULL },
};
enum { SHOWN = sizeof shown / sizeof *shown };

static void each_fault_is_named(void **state)
{
	const struct op *op = op_find(OP);
	int wrong = 0;

	(void)state;
	for (int i = 0; i < SHOWN; i++) {
		assert_string_equal(shown[i].fault, op->faults[i].name);
		struct verdict v = judged(shown[i].name, shown[i].contract, shown[i].fault);
		if (v.outcome == FAIL && strstr(v.reason[0], shown[i].as ? shown[i].as : shown[i].fault)) continue;
		print_error("%s on %s: %s %s\n", shown[i].fault, shown[i].name, outcome_name[v.outcome], v.n_reason ? v.reason[0] : "");
		wrong++;
	}
	assert_null(op->faults[SHOWN].name);
	assert_int_equal(wrong, 0);
}

/* Under Nesterov U of the old V is the new V: one is named, the other cannot be told; on tall_f32, without, each can. */
static void the_same_number_is_not_ruled_out(void **state)
{
	(void)state;
	struct verdict v = judged("wide_f32", "f32", "momentum_stale");
	assert_int_equal(v.outcome, FAIL);
	assert_int_equal(state_of(&v, "nesterov_missing"), DETECTED);
	assert_int_equal(state_of(&v, "momentum_stale"), NOT_IDENTIFIABLE);
	assert_int_equal(state_of(&v, "other_scale"), RULED_OUT);
	v = judged("tall_f32", "f32", "momentum_stale");
	assert_int_equal(state_of(&v, "momentum_stale"), DETECTED);
	v = judged("tall_f32", "f32", NULL);
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(state_of(&v, "momentum_stale"), RULED_OUT);
}

/* Neither kind of momentum is the other's fault. */
static void a_kind_is_not_its_own_fault(void **state)
{
	(void)state;
	struct verdict v = judged("mean_f32", "f32", NULL);
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(state_of(&v, "momentum_is_mean"), NOT_IDENTIFIABLE);
	assert_int_equal(state_of(&v, "momentum_is_sum"), RULED_OUT);
	v = judged("wide_f32", "f32", NULL);
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(state_of(&v, "momentum_is_mean"), RULED_OUT);
	assert_int_equal(state_of(&v, "momentum_is_sum"), NOT_IDENTIFIABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_is_named), cmocka_unit_test(the_same_number_is_not_ruled_out),
		cmocka_unit_test(a_kind_is_not_its_own_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
