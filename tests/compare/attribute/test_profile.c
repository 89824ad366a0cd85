/* The profiles of public kernels, read from calls recorded on an H200. Runs from the repository's root. */
#include <math.h>
#include <string.h>

#include "compare/attribute/profile.h"
#include "tests/kernel_model.h"

struct profiled { struct capture c; struct call call; struct profile p; };

static void profile_capture(struct profiled *k)
{
	struct xray x;
	struct error e;

	no_error(call_bind(&k->call, &k->c, true, &e) && xray_make(&x, &k->call, NULL, &e) && emulation_search(&x, NULL)
			&& profile_read(&k->p, &x), &e);
	xray_free(&x);
}

static void profile_of(struct profiled *k, const char *name)
{
	char path[256];
	struct error e;

	snprintf(path, sizeof path, "fixtures/captures/%s.safetensors", name);
	no_error(capture_read(&k->c, path, &e), &e);
	profile_capture(k);
}

/* "site:type " of each rounded one, in the op's order. */
static const char *rounded(const struct profiled *k)
{
	static char text[1024];
	size_t n = 0;

	text[0] = 0;
	for (int j = 0; j < k->p.n; j++) {
		const struct reading *r = &k->p.reading[j];
		if (r->state == ROUNDED)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s:%s ", k->call.op->sites[r->site].name, rounding_name(r->format, r->rounding));
	}
	return text;
}

static void expect_rounded(const struct profiled *k, const char *expected)
{
	if (strcmp(rounded(k), expected)) fail_msg("rounded: %sexpected: %s", rounded(k), expected);
	assert_true(k->p.emulation.faults == 0);
}

/* A rounded site's coefficient is within this of 1, any other's of 0, by more than its error says. */
static void expect_coefficients(const struct profiled *k, double within)
{
	for (int j = 0; j < k->p.n; j++) {
		const struct reading *r = &k->p.reading[j];
		double off = fabs(r->coefficient - (r->state == ROUNDED));
		if (!(off <= within)) fail_msg("%s: %g ± %g", k->call.op->sites[r->site].name, r->coefficient, r->error);
	}
}

static const struct reading *reading_of(const struct profiled *k, const char *site)
{
	for (int j = 0; j < k->p.n; j++)
		if (!strcmp(k->call.op->sites[k->p.reading[j].site].name, site)) return &k->p.reading[j];
	fail_msg("%s is not in the profile", site);
	return NULL;
}

static void float32_kernels_round_their_output(void **state)
{
	static const char *const names[] = { "gated_delta_rule.prefill.recurrent", "gated_delta_rule.prefill.hf_chunk",
		"gated_delta_rule.decode.recurrent" };
	struct profiled k;

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		profile_of(&k, names[i]);
		expect_rounded(&k, "o:bf16 ");
		expect_coefficients(&k, 0.02);
		assert_true(k.p.out[0].explained > 0.999 && k.p.out[0].bit_equal > 0.995);
		capture_free(&k.c);
	}
}

static void tensor_core_kernel_site_by_site(void **state)
{
	struct profiled k;

	(void)state;
	profile_of(&k, "gated_delta_rule.prefill.chunk");
	assert_string_equal(k.call.op->forms[k.p.emulation.form].name, "chunk");
	assert_int_equal(k.p.emulation.chunk, 64);
	assert_true(profile_within(&k.p, &k.call, contract_of("gated_delta_rule", "bf16_operands")));
	assert_false(profile_within(&k.p, &k.call, contract_of("gated_delta_rule", "chunk_bf16x2")));
	expect_rounded(&k, "q_norm:bf16 k_norm:bf16 u:bf16 o:bf16 inverse_merge:tf32_rz inverse:bf16 beta_v:bf16 beta_k:bf16 w:bf16 "
		"state_operand:bf16 attention:bf16 v_new:bf16 v_new_decayed:bf16 ");
	expect_coefficients(&k, 0.02);
	for (int o = 0; o < MAX_OUT; o++)
		if (k.call.out_count[o] && !(k.p.out[o].explained >= 0.999)) fail_msg("%s: %g explained", k.call.op->out[o].name, k.p.out[o].explained);
	if (!(k.p.out[0].bit_equal >= 0.995)) fail_msg("%g of o equal to the bit", k.p.out[0].bit_equal);
	capture_free(&k.c);
}

/* Of its nine roundings those of w and inverse_beta_k are each hidden by the other's lack. Where its powers are multiplied by log2(e), and that
 * blocks of the inverse are merged by operands in two parts, no site says: by these a few near ties fall otherwise. */
static void tensor_core_kernel_with_operands_as_given(void **state)
{
	struct profiled k;

	(void)state;
	profile_of(&k, "gated_delta_rule.prefill_chunk_fast.etalon");
	expect_rounded(&k, "u:bf16 o:bf16 w:bf16 state_operand:bf16 attention:bf16 v_new:bf16 inverse_beta:bf16 inverse_beta_k:bf16 "
		"v_new_decayed_k:bf16 ");
	assert_true(k.p.out[0].explained >= 0.999 && k.p.out[1].explained >= 0.99);
	capture_free(&k.c);
}

static void other_ops(void **state)
{
	static const struct { const char *name, *rounded; double explained, bit_equal; } rows[] = {
		{ "causal_conv1d.silu", "conv:bf16 y:bf16 ", 1, 1 },
		{ "rmsnorm.gated.128", "xhat:bf16 weighted:bf16 y:bf16 ", 1, 1 },
		{ "rope.partial.q", "cos_sin:bf16 x1_cos:bf16 x2_sin:bf16 x2_cos:bf16 x1_sin:bf16 y:bf16 ", 0.99, 0.999 },
	};
	struct profiled k;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		profile_of(&k, rows[i].name);
		expect_rounded(&k, rows[i].rounded);
		expect_coefficients(&k, 0.02);
		if (!(k.p.out[0].explained >= rows[i].explained && k.p.out[0].bit_equal >= rows[i].bit_equal))
			fail_msg("%s: %g explained, %g equal", rows[i].name, k.p.out[0].explained, k.p.out[0].bit_equal);
		capture_free(&k.c);
	}
}

/* A value that goes to e4m3 through bf16 is rounded twice, and that is told from once. */
static void rounded_twice(void **state)
{
	static const struct { enum rounding rounding; const char *rounded; } rows[] = {
		{ ROUND_VIA_BF16, "conv:e4m3_via_bf16 " }, { ROUND_NEAREST_EVEN, "conv:e4m3 " },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct profiled k;
		struct plan p = plan_plain(&arith_f32, 24);
		make_case(&k.c, "causal_conv1d", "bias_f32");
		p.round[op_site(op_find("causal_conv1d"), "conv")] = (struct site_rounding){ true, FMT_E4M3, rows[i].rounding };
		answer_by(&k.c, &p);
		profile_capture(&k);
		expect_rounded(&k, rows[i].rounded);
		capture_free(&k.c);
	}
}

/* A site that cannot move these outputs is not said to be unrounded: there is no residual here, and
 * 0 + weight has no rounding in bf16. */
static void what_cannot_be_seen_is_told(void **state)
{
	struct profiled k;

	(void)state;
	profile_of(&k, "rmsnorm.gated.128");
	assert_int_equal(reading_of(&k, "residual")->state, UNIDENTIFIABLE);
	assert_int_equal(reading_of(&k, "scale")->state, UNIDENTIFIABLE);
	assert_int_equal(reading_of(&k, "mean_square")->state, NOT_ROUNDED);
	capture_free(&k.c);
}

/* Stores are always allowed; a site only in the type that the contract names or a finer one, and no site that it does not name. */
static void a_contract_allows_or_not(void **state)
{
	static const struct { const char *site; enum format format; enum rounding rounding; bool chunk, sequential; } rows[] = {
		{ "o", FMT_BF16, ROUND_NEAREST_EVEN, true, true },
		{ "inverse_merge", FMT_TF32, ROUND_ZERO, true, false },
		{ "inverse_merge", FMT_TF32, ROUND_NEAREST_EVEN, true, false },
		{ "inverse_merge", FMT_BF16, ROUND_NEAREST_EVEN, false, false },
		{ "q_norm", FMT_BF16, ROUND_NEAREST_EVEN, true, false },
		{ "q_norm", FMT_F16, ROUND_ZERO, true, false },
		{ "q_norm", FMT_BF16, ROUND_ZERO, false, false },
		{ "q_norm", FMT_E4M3, ROUND_NEAREST_EVEN, false, false },
		{ "g", FMT_BF16, ROUND_NEAREST_EVEN, false, false },
		{ "final_state", FMT_BF16, ROUND_NEAREST_EVEN, false, false },
	};
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	model_case(&c, "gated_delta_rule", "decode", "f32");
	no_error(call_bind(&call, &c, true, &e), &e);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct profile p = { .n = 0 };
		p.emulation.round[op_site(call.op, rows[i].site)] = (struct site_rounding){ true, rows[i].format, rows[i].rounding };
		assert_true(profile_within(&p, &call, contract_of("gated_delta_rule", "bf16_operands")) == rows[i].chunk);
		assert_true(profile_within(&p, &call, contract_of("gated_delta_rule", "f32")) == rows[i].sequential);
	}
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(float32_kernels_round_their_output),
		cmocka_unit_test(tensor_core_kernel_site_by_site),
		cmocka_unit_test(tensor_core_kernel_with_operands_as_given),
		cmocka_unit_test(other_ops),
		cmocka_unit_test(rounded_twice),
		cmocka_unit_test(what_cannot_be_seen_is_told),
		cmocka_unit_test(a_contract_allows_or_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
