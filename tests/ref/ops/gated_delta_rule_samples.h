/* Calls of the gated delta rule that its tests share. */
#ifndef ETALON_TEST_GATED_DELTA_RULE_SAMPLES_H
#define ETALON_TEST_GATED_DELTA_RULE_SAMPLES_H

#include "tests/witness.h"

#define OP "gated_delta_rule"
#define LEN(a) (sizeof (a) / sizeof *(a))
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
