/* Calls of the gated delta rule that its tests share. */
#ifndef ETALON_TEST_GATED_DELTA_RULE_SAMPLES_H
#define ETALON_TEST_GATED_DELTA_RULE_SAMPLES_H

#include "tests/witness.h"

/* In the order of ref/ops/gated_delta_rule.op. */
enum { D_T, D_HK, D_DK, D_HV, D_DV, D_N };
enum { IN_Q, IN_K, IN_V, IN_A, IN_B, IN_A_LOG, IN_DT_BIAS, IN_G, IN_BETA, IN_STATE, IN_CU };
enum { OUT_O, OUT_STATE };
enum { P_QK_L2NORM, P_L2_EPS, P_SCALE, P_GATED };
enum { BOTH = -1, FORM_SEQUENTIAL, FORM_CHUNK };
enum {
	SITE_Q, SITE_K, SITE_A_LOG, SITE_DT_BIAS, SITE_G, SITE_BETA, SITE_U, SITE_STATE, SITE_FINAL_STATE, SITE_O,
	/* chunked form only */
	SITE_G_SUM, SITE_GRAM, SITE_INVERSE_MERGE, SITE_INVERSE, SITE_BETA_V, SITE_BETA_K, SITE_W,
	SITE_STATE_OPERAND, SITE_ATTENTION, SITE_V_NEW, SITE_V_NEW_DECAYED,
	SITE_INVERSE_BETA, SITE_INVERSE_BETA_K, SITE_V_NEW_DECAYED_K
};
enum {
	RETRIEVE_BEFORE_DECAY, READ_BEFORE_UPDATE, NO_ERROR_TERM, ERROR_WITHOUT_BETA, ERROR_TWICE, NO_DECAY,
	DECAY_AS_POSITIVE, DECAY_WITHOUT_A_LOG, DT_BIAS_MISSING, DT_BIAS_FIRST_ELEMENT, SOFTPLUS_OVERFLOW,
	SOFTPLUS_IS_RELU, BETA_IS_TANH, BETA_DOUBLED, L2_EPS_OUTSIDE, L2_CLAMPED, L2_MEAN, L2_MISSING_Q,
	L2_MISSING_K, SCALE_MISSING, SCALE_TWICE, SCALE_FROM_DV, HEAD_MAP_TILED, STATE_TRANSPOSED_IN,
	STATE_TRANSPOSED_OUT, INITIAL_STATE_IGNORED, STALE_INITIAL_STATE, BA_LAYOUT_SPLIT, TOKEN_SKIPPED,
	FIRST_DECAY_SKIPPED, PADS_ADVANCE_STATE,
	CHUNK_END_DECAY_WRONG_SLOT,
	CHUNK_END_DECAY_LOST_ON_TAIL, CHUNK_STATE_NOT_CARRIED, CHUNK_MASK_WITHOUT_DECAY, CHUNK_W_FROM_DECAYED_GRAM, SPLIT_EXPONENT, MASK_AFTER_MULTIPLY
};

#define OP "gated_delta_rule"
#define LEN(a) (sizeof(a) / sizeof *(a))
#define UNUSED_HERE __attribute__((unused))

/* Raw gates, one sequence, Hv/Hk = 2, Dk != Dv. */
static const struct sample UNUSED_HERE raw = { OP, "{\"qk_l2norm\": true}",
	"in.q F32 6,2,3 ~0,1; in.k F32 6,2,3 ~0,1; in.v F32 6,4,5 ~0,1; in.a F32 6,4 ~0,2; in.b F32 6,4 ~0,2;"
	"in.A_log F32 4 ~-1,1; in.dt_bias F32 4 ~0.5,1; in.initial_state F32 1,4,3,5 ~0,1" };
/* Softplus arguments on both sides of 88.7; decay stays moderate. */
static const struct sample UNUSED_HERE overflowing = { OP, "{\"qk_l2norm\": true}",
	"in.q F32 6,1,3 ~0,1; in.k F32 6,1,3 ~0,1; in.v F32 6,2,4 ~0,1; in.a F32 6,2 =1,90,-3,120,0.5,-95; in.b F32 6,2 ~0,2;"
	"in.A_log F32 2 =-4,-5; in.dt_bias F32 2 =0.25,-0.5; in.initial_state F32 1,2,3,4 ~0,1" };
/* Four sequences, one of them empty; gates given; Hv/Hk = 1. */
static const struct sample UNUSED_HERE many = { OP, "{}",
	"in.q F32 9,3,4 ~0,0.5; in.k F32 9,3,4 ~0,0.5; in.v F32 9,3,2 ~0,1; in.g F32 9,3 =-0.1,-2,-0.01,-0.7,-5,0;"
	"in.beta F32 9,3 =0.9,0.3,1,0.01,0.6; in.initial_state F32 4,3,4,2 ~0,1; in.cu_seqlens I64 5 =0,3,3,4,9" };
/* The plain delta rule, Hv/Hk = 3, a scale of its own, no initial state. */
static const struct sample UNUSED_HERE plain_rule = { OP, "{\"gated\": false, \"scale\": 0.75, \"qk_l2norm\": true, \"l2_eps\": 0.01}",
	"in.q BF16 7,1,5 ~0,1; in.k F16 7,1,5 ~0,0.2; in.v F32 7,3,3 ~0,1; in.b F64 7,3 ~0,3" };
/* Longer than a chunk of 64, two sequences, the last chunks short; decay is strong in head 1. */
static const struct sample UNUSED_HERE lengthy = { OP, "{\"qk_l2norm\": true}",
	"in.q F32 101,1,3 ~0,1; in.k F32 101,1,3 ~0,1; in.v F32 101,2,2 ~0,1; in.g F32 101,2 =-0.01,-6,-0.002,-3,-0.3,-0.5;"
	"in.beta F32 101,2 =0.9,0.2,1,0.5,0.7; in.initial_state F32 2,2,3,2 ~0,1; in.cu_seqlens I32 3 =0,70,101" };
/* q and k so small that l2_eps counts. */
static const struct sample UNUSED_HERE small_keys = { OP, "{\"qk_l2norm\": true}",
	"in.q F32 5,1,3 ~0,0.001; in.k F32 5,1,3 ~0,0.001; in.v F32 5,1,3 ~0,1; in.g F32 5,1 ~-0.2,0.1; in.beta F32 5,1 =0.5,1;"
	"in.initial_state F32 1,1,3,3 ~0,1" };

#endif
