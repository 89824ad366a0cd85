#include <string.h>

#include "tests/witness.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

#define GDR "gated_delta_rule"
#define QKV "in.q F32 4,2,3; in.k F32 4,2,3; in.v F32 4,4,5;"
#define GIVEN "in.g F32 4,4; in.beta F32 4,4;"
#define RAW "in.a F32 4,4; in.b F32 4,4; in.A_log F32 4; in.dt_bias F32 4;"
#define NS "newton_schulz"
#define SCHULZ(more) "{\"algorithm\": \"gram\", \"coefficients\": [[1, 2, 3], [1, 2, 3]]" more "}"
#define CONV "causal_conv1d"
#define XW "in.x F32 6,2; in.weight F32 2,3;"
#define PRODUCT "in.x F32 6,4; in.weight F32 5,4;"

/* ---- what is accepted ---- */
static const struct { struct sample s; size_t dim[6], out[4]; } good[] = {
	{ { GDR, "{}", QKV RAW }, { 4, 2, 3, 4, 5, 1 }, { 80, 60 } },
	{ { GDR, "{\"scale\": 2, \"qk_l2norm\": true, \"l2_eps\": 1, \"gated\": true}", QKV GIVEN "in.initial_state F32 1,4,3,5" },
		{ 4, 2, 3, 4, 5, 1 }, { 80, 60 } },
	{ { GDR, "{\"gated\": false}", QKV "in.b BF16 4,4" }, { 4, 2, 3, 4, 5, 1 }, { 80, 60 } },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 4 =0,0,3,4; out.final_state BF16 3,4,3,5" }, { 4, 2, 3, 4, 5, 3 }, { 80, 180 } },
	{ { "rmsnorm", "{\"weight_offset\": 0}", "in.x F32 3,4; in.weight F64 4" }, { 3, 4 }, { 12, 0 } },
	{ { "rmsnorm", "{\"weight_offset\": 1, \"gate\": \"silu\", \"eps\": 0}",
		"in.x F32 3,4; in.weight F64 4; in.gate F16 3,4; in.residual F32 3,4; out.residual_out F32 3,4" }, { 3, 4 }, { 12, 12 } },
	{ { "rope", "{\"rotary_dim\": 4, \"theta\": 10000}", "in.x F32 3,2,6; in.positions I32 3" }, { 3, 2, 6 }, { 36 } },
	{ { CONV, "{}", XW }, { 6, 2, 3, 1 }, { 12, 0 } },
	{ { CONV, "{\"activation\": \"silu\"}", XW "in.bias F32 2; in.initial_state F32 2,2,2; in.cu_seqlens I32 3 =0,1,6; out.final_state F32 2,2,2" },
		{ 6, 2, 3, 2 }, { 12, 8 } },
	{ { CONV, "{}", "in.x F32 6,2; in.weight F32 2,1; in.initial_state F32 1,2,0; out.final_state F32 1,2,0" }, { 6, 2, 1, 1 }, { 12, 0 } },
	{ { NS, SCHULZ(""), "in.x F32 3,5" }, { 1, 3, 5, 2, 3, 5 }, { 15 } },
	{ { NS, SCHULZ(", \"restarts\": [1]"), "in.x F32 4,5,3" }, { 4, 5, 3, 2, 3, 5 }, { 60 } },
	{ { NS, SCHULZ(", \"restarts\": []"), "in.x F32 4,5,3; out.X F16 4,3,3,5; out.R F16 4,3,3,3; out.Q F32 4,3,3,3" },
		{ 4, 5, 3, 2, 3, 5 }, { 60, 180, 108, 108 } },
	{ { NS, "{\"algorithm\": \"standard\", \"coefficients\": [[1, 2, 3]]}", "in.x F32 3,5; out.X F16 2,3,5" },
		{ 1, 3, 5, 1, 3, 5 }, { 15, 30 } },
	{ { "row_parallel", "{\"ranks\": 2}", PRODUCT }, { 6, 4, 5, 2 }, { 60, 30 } },        /* it requires no output: all */
	{ { "row_parallel", "{\"ranks\": 2}", PRODUCT "out.shard F32 6,5" }, { 6, 4, 5, 2 }, { 0, 30 } },
};

static void accepts(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(good); i++) {
		struct capture c;
		struct call call;
		struct error e;
		size_t shape[MAX_RANK];
		made(&c, &good[i].s, 1);
		if (!call_bind(&call, &c, false, &e)) error_print(stderr, &e), fail();
		for (size_t d = 0; d < 6; d++) assert_int_equal(call.dim[d], good[i].dim[d]);
		for (int o = 0; o < MAX_OUT; o++) {
			size_t n = 1;
			if (!call.op->out[o].name) break;
			assert_int_equal(call.out_count[o], good[i].out[o]);
			for (int r = call_out_shape(&call, o, shape); r-- > 0;) n *= shape[r];
			if (call.out_count[o]) assert_int_equal(n, call.out_count[o]);
		}
		capture_free(&c);
	}
}

/* What a list holds, and when a call is anchored. */
static void lists_and_traces(void **state)
{
	static const struct sample s = { NS, "{\"algorithm\": \"gram\", \"restarts\": [2, 1], \"coefficients\": [[1, 2, 3], [4, -5, 6.5]]}",
		"in.x F32 3,5; out.X F16 3,3,5; out.R F16 3,3,3; out.Q F16 3,3,3; out.y F32 3,5" };
	static const struct sample sound = { NS, SCHULZ(", \"restarts\": [1]"), "in.x F32 3,5" };
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	made(&c, &s, 1);
	assert_false(call_bind(&call, &c, false, &e));          /* restarts fall */
	assert_true(call.param[1] == 2 && call.param[2] == 2);
	for (size_t i = 0; i < 6; i++) assert_true(call_list(&call, 1, i / 3, 3, i % 3) == ((double[]){ 1, 2, 3, 4, -5, 6.5 })[i]);
	assert_true(call_list(&call, 2, 0, 1, 0) == 2 && call_list(&call, 2, 1, 1, 0) == 1);
	capture_free(&c);
	made(&c, &good[12].s, 1);
	assert_true(call_bind(&call, &c, false, &e) && !call.anchored);
	assert_false(call_bind(&call, &c, true, &e));           /* no out.y */
	capture_free(&c);
	made(&c, &sound, 1);
	assert_true(call_bind(&call, &c, false, &e) && call.out_count[1] == 0 && call_trace(&call));
	assert_true(call.out_count[1] == 45 && call.out_count[2] == 27 && call.out_count[3] == 27 && !call.anchored);
	capture_free(&c);
	made(&c, &good[6].s, 1);
	assert_true(call_bind(&call, &c, false, &e) && !call_trace(&call));
	capture_free(&c);
}

static void shapes_params_and_defaults(void **state)
{
	struct capture c;
	struct call call;
	struct error e;
	size_t shape[MAX_RANK];

	(void)state;
	made(&c, &good[3].s, 1);
	assert_true(call_bind(&call, &c, false, &e));
	assert_int_equal(call_out_shape(&call, 1, shape), 4);
	assert_memory_equal(shape, ((size_t[]){ 3, 4, 3, 5 }), 4 * sizeof *shape);
	assert_true(call.param[0] == 0 && call.param[1] == 1e-6 && call.param[2] != call.param[2] && call.param[3] == 1);
	assert_true(call.in[0] && !call.in[3] && !call.out[0] && call.out[1] == capture_out(&c, "final_state"));
	capture_free(&c);
	made(&c, &good[1].s, 1);
	assert_true(call_bind(&call, &c, false, &e));
	assert_true(call.param[0] == 1 && call.param[1] == 1 && call.param[2] == 2 && call.param[3] == 1);
	capture_free(&c);
	made(&c, &good[8].s, 1);
	assert_true(call_bind(&call, &c, false, &e));
	assert_int_equal(call_out_shape(&call, 1, shape), 3);
	assert_memory_equal(shape, ((size_t[]){ 2, 2, 2 }), 3 * sizeof *shape);
	assert_true(call.param[0] == 1);
	capture_free(&c);
}

/* ---- what is refused ---- */
static const struct { struct sample s; enum error_code code; const char *item; } bad[] = {
	{ { "rope2", "{}", "in.x F32 1" }, E_OP, "rope2" },
	/* tensors */
	{ { GDR, "{}", "in.q F32 4,2,3; in.v F32 4,4,5;" GIVEN }, E_MISSING, "in.k" },
	{ { GDR, "{}", QKV GIVEN "in.w F32 1" }, E_EXTRA, "in.w" },
	{ { GDR, "{}", QKV GIVEN "out.y F32 1" }, E_EXTRA, "out.y" },
	{ { GDR, "{}", QKV GIVEN "beta F32 4,4" }, E_EXTRA, "beta" },
	{ { GDR, "{}", QKV GIVEN "in.o F32 4,4,5" }, E_EXTRA, "in.o" },
	{ { GDR, "{}", "in.q F32 8,3; in.k F32 4,2,3; in.v F32 4,4,5;" GIVEN }, E_RANK, "in.q" },
	{ { GDR, "{}", QKV GIVEN "out.o F32 4,4,5,1" }, E_RANK, "out.o" },
	{ { GDR, "{}", "in.q F32 .; in.k F32 4,2,3; in.v F32 4,4,5;" GIVEN }, E_RANK, "in.q" },
	{ { GDR, "{}", "in.q F32 4,2,3; in.k F32 4,2,6; in.v F32 4,4,5;" GIVEN }, E_DIM, "in.k" },
	{ { GDR, "{}", "in.q F32 4,2,3; in.k F32 5,2,3; in.v F32 4,4,5;" GIVEN }, E_DIM, "in.k" },
	{ { GDR, "{}", "in.q F32 4,2,3; in.k F32 4,2,3; in.v F32 4,3,5; in.g F32 4,3; in.beta F32 4,3" }, E_VALUE, GDR },
	{ { GDR, "{}", QKV GIVEN "in.initial_state F32 1,4,5,3" }, E_DIM, "in.initial_state" },
	{ { GDR, "{}", QKV GIVEN "out.final_state F32 1,4,5,3" }, E_DIM, "out.final_state" },
	{ { GDR, "{}", QKV GIVEN "in.initial_state F32 2,4,3,5; in.cu_seqlens I64 2 =0,4" }, E_DIM, "in.cu_seqlens" },
	{ { GDR, "{}", "in.q I32 4,2,3; in.k F32 4,2,3; in.v F32 4,4,5;" GIVEN }, E_KIND, "in.q" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens F32 2 =0,4" }, E_KIND, "in.cu_seqlens" },
	{ { GDR, "{}", QKV GIVEN "out.o I64 4,4,5" }, E_KIND, "out.o" },
	{ { "rope", "{\"rotary_dim\": 4, \"theta\": 10000}", "in.x F32 3,2,6; in.positions F32 3" }, E_KIND, "in.positions" },
	{ { GDR, "{}", "in.q F32 0,2,3; in.k F32 0,2,3; in.v F32 0,4,5; in.g F32 0,4; in.beta F32 0,4" }, E_EMPTY, "in.q" },
	{ { "rmsnorm", "{\"weight_offset\": 0}", "in.x F32 3,0; in.weight F32 0" }, E_EMPTY, "in.x" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 1" }, E_EMPTY, "in.cu_seqlens" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 0" }, E_EMPTY, "in.cu_seqlens" },
	{ { CONV, "{}", "in.x F32 6,2; in.weight F32 2,0" }, E_EMPTY, "in.weight" },
	{ { CONV, "{}", XW "in.initial_state F32 1,2,3" }, E_DIM, "in.initial_state" },
	{ { CONV, "{}", XW "in.initial_state F32 2,2,2" }, E_VALUE, CONV },
	{ { GDR, "{}", QKV GIVEN "in.initial_state F32 2,4,3,5" }, E_VALUE, GDR },
	/* what goes together */
	{ { GDR, "{}", QKV "in.beta F32 4,4" }, E_VALUE, GDR },
	{ { GDR, "{}", QKV RAW "in.g F32 4,4" }, E_VALUE, GDR },
	{ { GDR, "{}", QKV GIVEN "in.a F32 4,4" }, E_VALUE, GDR },
	{ { GDR, "{}", QKV GIVEN "in.A_log F32 4" }, E_VALUE, GDR },
	{ { GDR, "{}", QKV "in.a F32 4,4; in.A_log F32 4; in.beta F32 4,4" }, E_VALUE, GDR },
	{ { GDR, "{\"gated\": false}", QKV GIVEN }, E_VALUE, GDR },
	{ { GDR, "{\"gated\": false}", QKV "in.beta F32 4,4; in.dt_bias F32 4" }, E_VALUE, GDR },
	{ { GDR, "{}", QKV "in.g F32 4,4" }, E_VALUE, GDR },
	{ { GDR, "{}", QKV GIVEN "in.b F32 4,4" }, E_VALUE, GDR },
	{ { "rmsnorm", "{\"weight_offset\": 0, \"gate\": \"silu\"}", "in.x F32 3,4; in.weight F32 4" }, E_VALUE, "rmsnorm" },
	{ { "rmsnorm", "{\"weight_offset\": 0}", "in.x F32 3,4; in.weight F32 4; in.gate F32 3,4" }, E_VALUE, "rmsnorm" },
	{ { "rmsnorm", "{\"weight_offset\": 0}", "in.x F32 3,4; in.weight F32 4; out.residual_out F32 3,4" }, E_EXTRA, "out.residual_out" },
	/* parameters */
	{ { GDR, "{\"scales\": 1}", QKV GIVEN }, E_PARAM, "scales" },
	{ { GDR, "{\"gated\": 1}", QKV GIVEN }, E_PARAM, "gated" },
	{ { GDR, "{\"gated\": null}", QKV GIVEN }, E_PARAM, "gated" },
	{ { GDR, "{\"scale\": \"1\"}", QKV GIVEN }, E_PARAM, "scale" },
	{ { GDR, "{\"scale\": true}", QKV GIVEN }, E_PARAM, "scale" },
	{ { "rmsnorm", "{}", "in.x F32 3,4; in.weight F32 4" }, E_PARAM, "weight_offset" },
	{ { "rmsnorm", "{\"weight_offset\": 0, \"gate\": \"sil\"}", "in.x F32 3,4; in.weight F32 4" }, E_PARAM, "gate" },
	{ { "rmsnorm", "{\"weight_offset\": 0, \"gate\": \"none|silu\"}", "in.x F32 3,4; in.weight F32 4" }, E_PARAM, "gate" },
	{ { "rmsnorm", "{\"weight_offset\": 0, \"gate\": false}", "in.x F32 3,4; in.weight F32 4" }, E_PARAM, "gate" },
	{ { "rope", "{\"theta\": 10000}", "in.x F32 3,2,6; in.positions I32 3" }, E_PARAM, "rotary_dim" },
	{ { "rope", "{\"rotary_dim\": 3, \"theta\": 10000}", "in.x F32 3,2,6; in.positions I32 3" }, E_VALUE, "rope" },
	{ { "rope", "{\"rotary_dim\": 8, \"theta\": 10000}", "in.x F32 3,2,6; in.positions I32 3" }, E_VALUE, "rope" },
	{ { "rope", "{\"rotary_dim\": 0, \"theta\": 10000}", "in.x F32 3,2,6; in.positions I32 3" }, E_VALUE, "rope" },
	{ { "rope", "{\"rotary_dim\": 2.5, \"theta\": 10000}", "in.x F32 3,2,6; in.positions I32 3" }, E_VALUE, "rope" },
	{ { "rope", "{\"rotary_dim\": 4, \"theta\": 0}", "in.x F32 3,2,6; in.positions I32 3" }, E_VALUE, "rope" },
	/* numbers that no formula means, and whole ones that no double holds */
	{ { "rmsnorm", "{\"weight_offset\": 0, \"eps\": -1e-6}", "in.x F32 3,4; in.weight F32 4" }, E_PARAM, "eps" },
	{ { GDR, "{\"l2_eps\": -1e-6}", QKV GIVEN }, E_PARAM, "l2_eps" },
	{ { "kda", "{\"l2_eps\": -1e-6}", "in.q F32 4,2,3; in.k F32 4,2,3; in.v F32 4,4,5; in.g F32 4,4,3; in.beta F32 4,4" }, E_PARAM, "l2_eps" },
	{ { "rope", "{\"rotary_dim\": 4, \"theta\": 9007199254740993}", "in.x F32 3,2,6; in.positions I32 3" }, E_PARAM, "theta" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": [[1, 2, 9007199254740993]]}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { "rope", "{\"rotary_dim\": 4, \"theta\": 9223372036854775807}", "in.x F32 3,2,6; in.positions I32 3" }, E_PARAM, "theta" },
	/* lists, a batch, traces */
	{ { NS, "{\"algorithm\": \"gram\"}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": []}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": 3}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": [1, 2, 3]}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": [[1, 2]]}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": [[1, 2, 3, 4]]}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": [[1, 2, \"3\"]]}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, "{\"algorithm\": \"gram\", \"coefficients\": [{}]}", "in.x F32 3,5" }, E_PARAM, "coefficients" },
	{ { NS, SCHULZ(", \"restarts\": [[1]]"), "in.x F32 3,5" }, E_PARAM, "restarts" },
	{ { NS, SCHULZ(", \"restarts\": 1"), "in.x F32 3,5" }, E_PARAM, "restarts" },
	{ { NS, SCHULZ(", \"restarts\": [0]"), "in.x F32 3,5" }, E_PARAM, "restarts" },
	{ { NS, SCHULZ(", \"restarts\": [2]"), "in.x F32 3,5" }, E_PARAM, "restarts" },
	{ { NS, SCHULZ(", \"restarts\": [0.5]"), "in.x F32 3,5" }, E_PARAM, "restarts" },
	{ { NS, SCHULZ(", \"restarts\": [1, 1]"), "in.x F32 3,5" }, E_PARAM, "restarts" },
	{ { NS, "{\"algorithm\": \"standard\", \"coefficients\": [[1, 2, 3], [1, 2, 3]], \"restarts\": [1]}", "in.x F32 3,5" }, E_PARAM, "restarts" },
	{ { NS, SCHULZ(", \"eps\": -1"), "in.x F32 3,5" }, E_PARAM, "eps" },
	{ { NS, SCHULZ(""), "in.x F32 5" }, E_RANK, "in.x" },
	{ { NS, SCHULZ(""), "in.x F32 2,2,3,5" }, E_RANK, "in.x" },
	{ { NS, SCHULZ(""), "in.x F32 3,5; out.y F32 1,3,5" }, E_RANK, "out.y" },
	{ { NS, SCHULZ(""), "in.x F32 2,3,5; out.y F32 3,5" }, E_RANK, "out.y" },
	{ { NS, SCHULZ(""), "in.x F32 3,5; out.X F16 3,3,5; out.R F16 3,3,3" }, E_MISSING, "out.Q" },
	{ { NS, SCHULZ(""), "in.x F32 3,5; out.X F16 2,3,5; out.R F16 3,3,3; out.Q F16 3,3,3" }, E_DIM, "out.X" },
	{ { NS, SCHULZ(""), "in.x F32 5,3; out.X F16 3,5,3; out.R F16 3,3,3; out.Q F16 3,3,3" }, E_DIM, "out.X" },
	{ { NS, "{\"algorithm\": \"standard\", \"coefficients\": [[1, 2, 3], [1, 2, 3]]}", "in.x F32 3,5; out.X F16 3,3,5; out.R F16 3,3,3" },
		E_EXTRA, "out.R" },
	/* cut points */
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 3 =1,2,4" }, E_VALUE, "in.cu_seqlens" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 4 =0,3,2,4" }, E_VALUE, "in.cu_seqlens" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 3 =0,2,3" }, E_VALUE, "in.cu_seqlens" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 3 =0,2,5" }, E_VALUE, "in.cu_seqlens" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I32 4 =0,5,4,4" }, E_VALUE, "in.cu_seqlens" },
	{ { GDR, "{}", QKV GIVEN "in.cu_seqlens I32 3 =0,-1,4" }, E_VALUE, "in.cu_seqlens" },
	{ { CONV, "{}", XW "in.cu_seqlens I32 3 =0,4,5" }, E_VALUE, "in.cu_seqlens" },
};

static void refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(bad); i++) {
		struct capture c;
		struct call call;
		struct error e;
		made(&c, &bad[i].s, 1);
		if (call_bind(&call, &c, false, &e)) fail_msg("accepted: %s %s %s", bad[i].s.op, bad[i].s.params, bad[i].s.tensors);
		if (e.code != bad[i].code || strcmp(e.item, bad[i].item)) {
			error_print(stderr, &e);
			fail_msg("expected \"%s\" of %s: %s %s", error_message(bad[i].code), bad[i].item, bad[i].s.params, bad[i].s.tensors);
		}
		capture_free(&c);
	}
}

/* The outputs that must be there when they are asked for. */
static void outputs_are_needed(void **state)
{
	static const struct { struct sample s; const char *missing; } rows[] = {
		{ { GDR, "{}", QKV GIVEN "out.o F32 4,4,5; out.final_state F32 1,4,3,5" }, NULL },
		{ { GDR, "{}", QKV GIVEN "out.o F32 4,4,5" }, "final_state" },
		{ { GDR, "{}", QKV GIVEN "out.final_state F32 1,4,3,5" }, "o" },
		{ { "rmsnorm", "{\"weight_offset\": 0}", "in.x F32 3,4; in.weight F32 4; out.y F32 3,4" }, NULL },
		{ { "rmsnorm", "{\"weight_offset\": 0}", "in.x F32 3,4; in.weight F32 4; in.residual F32 3,4; out.y F32 3,4" }, "residual_out" },
		{ { CONV, "{}", XW "out.y F32 6,2" }, NULL },
		{ { CONV, "{}", XW "out.final_state F32 1,2,2" }, "y" },
		{ { "row_parallel", "{\"ranks\": 2}", PRODUCT "out.shard F32 6,5" }, NULL },
		{ { "row_parallel", "{\"ranks\": 2}", PRODUCT }, "y" },
	};

	(void)state;
	for (size_t i = 0; i < LEN(rows); i++) {
		struct capture c;
		struct call call;
		struct error e;
		made(&c, &rows[i].s, 1);
		assert_true(call_bind(&call, &c, false, &e));
		assert_int_equal(call_bind(&call, &c, true, &e), !rows[i].missing);
		if (rows[i].missing) {
			assert_int_equal(e.code, E_MISSING);
			assert_non_null(strstr(e.item, rows[i].missing));
		}
		capture_free(&c);
	}
}

/* The offset of a bad cut point is that of its own element in the file. */
static void offset_of_a_cut(void **state)
{
	static const struct sample s = { GDR, "{}", QKV GIVEN "in.cu_seqlens I64 4 =0,3,2,4" };
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	made(&c, &s, 1);
	capture_in(&c, "cu_seqlens")->offset = 1000;
	assert_false(call_bind(&call, &c, false, &e));
	assert_error_at(&e, E_VALUE, 1000 + 2 * 8, "a falling cut");
	capture_free(&c);
}

/* Positions beyond 2^53 are no doubles: 2^53 + 1 would be judged as 2^53. */
static void whole_numbers_are_exact(void **state)
{
	static const struct sample s = { "rope", "{\"rotary_dim\": 4, \"theta\": 10000}", "in.x F32 3,2,6; in.positions I64 3" };
	static const struct { int64_t x; bool ok; } rows[] = { { INT64_C(1) << 53, true }, { -(INT64_C(1) << 53), true }, { (INT64_C(1) << 53) + 1, false },
		{ 100000000000000000, true }, { 100000000000000001, false }, { INT64_MAX, false }, { INT64_MAX - 1023, true } };
	struct call call;
	struct capture c;
	struct error e;

	(void)state;
	for (size_t i = 0; i < LEN(rows); i++) {
		made(&c, &s, 1);
		struct tensor *t = capture_in(&c, "positions");
		t->offset = 1000;
		memcpy((char *)t->data + 8, &rows[i].x, 8);
		assert_int_equal(call_bind(&call, &c, false, &e), rows[i].ok);
		if (!rows[i].ok) assert_error_at(&e, E_VALUE, 1008, "in.positions");
		capture_free(&c);
	}
}

/* An op that has no backward pass says why. */
static void what_has_no_gradient_says_so(void **state)
{
	struct error e;

	(void)state;
	assert_false(op_unknown("mamba3_mimo.backward", &e));
	assert_non_null(strstr(e.detail, "18 gradients, and a call has at most 16 outputs"));
	assert_false(op_unknown("mamba3_mimo_backward", &e));
	assert_non_null(strstr(e.detail, "18 gradients"));
	assert_false(op_unknown("nonsense.backward", &e));
	assert_non_null(strstr(e.detail, "etalon list ops"));
	for (size_t i = 0; ops[i]; i++)
		if (!op_backward(ops[i])) {
			char name[64];
			snprintf(name, sizeof name, "%s.backward", ops[i]->name);
			assert_false(op_unknown(name, &e));
			if (!strstr(e.detail, "has no backward pass here: ")) fail_msg("%s: %s", name, e.detail);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts),
		cmocka_unit_test(shapes_params_and_defaults),
		cmocka_unit_test(lists_and_traces),
		cmocka_unit_test(refuses),
		cmocka_unit_test(outputs_are_needed),
		cmocka_unit_test(offset_of_a_cut),
		cmocka_unit_test(whole_numbers_are_exact),
		cmocka_unit_test(what_has_no_gradient_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
