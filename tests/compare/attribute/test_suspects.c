/* What the x-ray says of kernels whose fault is known: it is named, a rounding beyond the contract is
 * detected and one within it is not, and what is unknown is located. */
#include <math.h>
#include <string.h>

#include "compare/verdict/verdict.h"
#include "fixtures/cases/cases.h"
#include "tests/helpers.h"

/* A kernel of float32 with this fault, this rounding and those of this contract; then output elements in [first, last) of the
 * op's first output, every step-th, times factor. Inputs of seed + 1. wide: outputs are stored in float32. */
struct fault {
	const char *op, *kase, *fault, *site, *type, *contract;
	size_t first, last, step;
	double factor;
	uint64_t seed;
	bool wide;
};

static void kernel(struct capture *c, const struct fault *f)
{
	struct plan p = plan_plain(&arith_f32, 24);
	struct test_case k = *case_find(f->op, f->kase);
	struct case_tensor out[MAX_OUT + 1] = { 0 };
	struct answer a;
	struct call call;
	struct error e;

	for (int i = 0; k.out[i].name; i++) {
		out[i] = k.out[i];
		if (f->wide) out[i].dtype = DT_F32;
	}
	k.out = out;
	assert_true(case_make(c, &k, f->seed + 1, true, &e) && call_bind(&call, c, true, &e));
	if (f->contract) plan_contract(&p, &call.op->contracts[op_contract(call.op, f->contract)]);
	if (f->site) {
		struct site_rounding *r = &p.round[op_site(call.op, f->site)];
		r->on = format_by_name(f->type, &r->format, &r->rounding);
	}
	if (f->fault) plan_fault(&p, call.op, op_fault(call.op, f->fault));
	assert_true(ref_run(&call, &p, &a, &e));
	for (size_t i = f->first; f->step && i < f->last; i += f->step) a.hi[0][i] *= f->factor;
	for (int i = 0; i < MAX_OUT; i++)
		if (call.out_count[i]) dtype_store(call.out[i]->dtype, a.hi[i], call.out_count[i], call.out[i]->data);
	answer_free(&a);
}

static struct verdict verdict_on(const struct fault *f, const char *contract)
{
	const struct judging how = { .contract = contract, .truth = "f64" };
	struct capture c;
	struct verdict v;
	struct error e;

	kernel(&c, f);
	assert_true(judge(&c, &how, &v, &e));
	capture_free(&c);
	return v;
}

/* The names of the detected, one space apart. */
static const char *detected(const struct verdict *v)
{
	static char text[512];

	text[0] = 0;
	for (int i = 0; i < v->x.n; i++)
		if (v->x.suspect[i].state == DETECTED) {
			if (text[0]) strcat(text, " ");
			strcat(text, v->x.suspect[i].name);
		}
	return text;
}

static void faults_are_named(void **state)
{
	static const struct fault faults[] = {
		{ .op = "gated_delta_rule", .kase = "prefill_ragged", .fault = "retrieve_before_decay" },
		{ .op = "gated_delta_rule", .kase = "odd_sizes", .fault = "scale_from_dv" },
		{ .op = "gated_delta_rule", .kase = "prefill_f32", .fault = "head_map_tiled" },
		{ .op = "gated_delta_rule", .kase = "tiny_keys", .fault = "l2_eps_outside" },
		{ .op = "gated_delta_rule", .kase = "strong_decay", .fault = "split_exponent" },
		{ .op = "rmsnorm", .kase = "odd_1007", .fault = "offset_twice" },
		{ .op = "rmsnorm", .kase = "residual", .fault = "residual_not_written" },
		{ .op = "rope", .kase = "partial", .fault = "theta_wrong" },
		{ .op = "causal_conv1d", .kase = "short_sequences", .fault = "short_chunk_history" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		struct verdict v = verdict_on(&faults[i], "f32");
		if (v.outcome != FAIL || strcmp(detected(&v), faults[i].fault))
			fail_msg("%s: %s, detected '%s'", faults[i].fault, outcome_name[v.outcome], detected(&v));
		if (!strstr(v.reason[0], faults[i].fault)) fail_msg("%s: the first reason is '%s'", faults[i].fault, v.reason[0]);
	}
}

/* The contract conv_bf16 excuses the rounding of the sum; f32 does not; neither excuses a fault. */
static void a_contract_excuses_roundings_only(void **state)
{
	static const struct fault rounds = { .op = "causal_conv1d", .kase = "prefill_silu", .site = "conv", .type = "bf16" };
	static const struct fault both = { .op = "causal_conv1d", .kase = "prefill_silu", .fault = "ring_off_by_one", .site = "conv", .type = "bf16" };

	(void)state;
	struct verdict v = verdict_on(&rounds, "conv_bf16");
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(v.x.count[DETECTED], 0);
	v = verdict_on(&rounds, "f32");
	assert_int_equal(v.outcome, FAIL);
	assert_string_equal(detected(&v), "conv");
	assert_non_null(strstr(v.reason[0], "rounds conv to bf16"));
	v = verdict_on(&rounds, "auto");
	assert_int_equal(v.outcome, PASS);
	assert_string_equal(v.contract->name, "conv_bf16");
	v = verdict_on(&both, "conv_bf16");
	assert_int_equal(v.outcome, FAIL);
	assert_string_equal(detected(&v), "ring_off_by_one");
}

/* Faults that no table knows fail, and are located. Shapes: rope [16,4,256], rmsnorm [24,256]. */
static void the_unknown_is_located(void **state)
{
	static const struct { struct fault f; const char *where; } rows[] = {
		{ { .op = "rope", .kase = "partial", .first = 3 * 1024, .last = 4 * 1024, .step = 1, .factor = 1.02 }, "T = 3" },
		{ { .op = "rope", .kase = "partial", .first = 7, .last = 16 * 1024, .step = 256, .factor = 1.02 }, "D = 7" },
		{ { .op = "rmsnorm", .kase = "zero_centred_256", .first = 12 * 256, .last = 24 * 256, .step = 1, .factor = 1.02 }, "the upper half of R" },
		{ { .op = "rmsnorm", .kase = "zero_centred_256", .first = 5, .last = 24 * 256, .step = 64, .factor = 1.02 }, "D = 5 mod 64" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct verdict v = verdict_on(&rows[i].f, "f32");
		if (v.outcome != FAIL || v.x.identified || !strstr(v.x.where, rows[i].where))
			fail_msg("%s: %s, '%s'", rows[i].where, outcome_name[v.outcome], v.x.where);
	}
}

/* A clean kernel: no detection, and its coverage is told: what cannot show on these inputs is not ruled out. */
static void coverage(void **state)
{
	struct verdict v = verdict_on(&(struct fault){ .op = "gated_delta_rule", .kase = "prefill_ragged" }, "f32");
	int known = 0;

	(void)state;
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(v.x.count[DETECTED], 0);
	for (int i = 0; i < v.x.n; i++) {
		const struct suspect *s = &v.x.suspect[i];
		if (!strcmp(s->name, "scale_from_dv")) assert_int_equal(s->state, NOT_IDENTIFIABLE), known++;       /* Dk = Dv there */
		if (!strcmp(s->name, "head_map_tiled")) assert_int_equal(s->state, NOT_IDENTIFIABLE), known++;      /* one key head */
		if (!strcmp(s->name, "retrieve_before_decay")) assert_int_equal(s->state, RULED_OUT), known++;
		if (!strcmp(s->name, "initial_state_ignored")) assert_int_equal(s->state, RULED_OUT), known++;
		if (!strcmp(s->name, "beta")) assert_int_equal(s->state, RULED_OUT), known++;
	}
	assert_int_equal(known, 5);
}

/* Float32's errors are systematic where sums run in order over thousands, and huge beside the store's ulp where thousands
 * of tokens follow a rounding that flipped: neither is a fault. Nor is one element that flips inside as it would with a
 * fault (the last two: without eps). */
static void clean_kernels_pass(void **state)
{
	static const struct { const char *op, *kase, *contract; uint64_t seed; bool wide; } rows[] = {
		{ "gated_delta_rule", "long", "bf16_operands", 0, false }, { "gated_delta_rule", "g_extremes", "bf16_operands", 0, false },
		{ "rmsnorm", "zero_centred_5120", "f32", 0, false }, { "rmsnorm", "odd_1007", "f32", 0, false },
		{ "qk_norm_rope", "qwen_256", "weighted_bf16", 5, true }, { "rmsnorm_fp8", "zero_centred_5120", "weighted_bf16", 4, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct fault none = { .op = rows[i].op, .kase = rows[i].kase, .contract = rows[i].contract,
			.seed = rows[i].seed, .wide = rows[i].wide };
		struct verdict v = verdict_on(&none, rows[i].contract);
		if (v.outcome != PASS || v.x.count[DETECTED]) fail_msg("%s: %s", rows[i].kase, v.n_reason ? v.reason[0] : "detected");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_named),
		cmocka_unit_test(a_contract_excuses_roundings_only),
		cmocka_unit_test(the_unknown_is_located),
		cmocka_unit_test(coverage),
		cmocka_unit_test(clean_kernels_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
