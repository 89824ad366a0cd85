/* Small calls of mixed_batch for its tests. */
#ifndef ETALON_MIXED_BATCH_SAMPLES_H
#define ETALON_MIXED_BATCH_SAMPLES_H

#include "tests/witness.h"

#define OP "mixed_batch"
#define TENSORS(T, P, H) \
	"in.x F32 " T ",1,10 ~0,1; in.z F32 " T ",1,2,2 ~0,1; in.a F32 " T ",1,2 ~0,1; in.b F32 " T ",1,2 ~0,1;" \
	"in.conv_weight F32 1,10,3 ~0,1;" \
	"in.A_log F32 1,2 ~0,1; in.dt_bias F32 1,2 ~-1,1; in.norm_weight F32 1,2 ~1,0.2; in.state_pool F32 " P ",1,2,3,2 ~0,1;" \
	"in.conv_pool F32 " P ",1,10," H " ~0,1;"

/* 0: A B decode, one pads, C of 2 and D of 1 token are new; 1: B decodes, E decodes from C's memory, one pads;
 * 2: F prefills from C's memory, A speculates on 2; 3: A has its first and decodes, F and D decode. */
#define BUSY_TABLES "in.steps I32 5 =0,5,8,10,13;" BUSY_ROWS
#define BUSY_ROWS \
	"in.cu_seqlens I64 14 =0,1,2,3,5,6,7,8,9,11,13,14,15,16; in.kinds I32 13 =0,0,3,1,1,0,0,3,1,2,0,0,0;" \
	"in.read_slot I32 13 =0,1,-1,-1,-1,1,2,-1,2,0,6,5,3; in.write_slot I64 16 =0,1,-1,-1,2,3,1,4,-1,-1,5,6,7,6,5,3;"
#define BUSY_POSITIONS "in.position I32 13 =4,3,0,0,0,4,2,0,2,5,6,4,1"
static const struct sample busy = { OP, "{}", TENSORS("16", "9", "3") BUSY_TABLES BUSY_POSITIONS };
static const struct sample window_of_all = { OP, "{\"conv_layout\": \"window\", \"scale\": 0.7}", TENSORS("16", "9", "3") BUSY_TABLES };
static const struct sample window = { OP, "{\"conv_layout\": \"window\", \"l2_eps\": 0.1, \"norm_eps\": 0.2}",
	TENSORS("16", "9", "2") BUSY_TABLES BUSY_POSITIONS };

/* Rows that are steps: a speculation that is rejected, one that is accepted; two rows fork from slot 5, one from 0, which the
 * second speculation left; slots that stood for others are used again, by a speculation, by a fresh request, and 5
 * itself; a request ends with its speculation, and its slot is used again. */
static const struct sample again = { OP, "{}", TENSORS("24", "9", "3") "in.steps I32 21 =0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20;"
	"in.cu_seqlens I32 21 =0,2,3,5,6,7,8,9,10,12,13,14,15,16,17,18,19,20,22,23,24;"
	"in.kinds I32 20 =2,0,2,0,0,0,0,0,2,0,1,0,0,1,0,0,0,2,1,0; in.read_slot I32 20 =0,0,0,3,3,5,5,6,-1,6,-1,7,5,-1,5,0,1,8,-1,8;"
	"in.write_slot I32 24 =1,2,0,3,4,3,3,6,7,6,6,8,6,7,7,8,5,1,2,1,3,4,8,8;"
	"in.position I32 20 =4,4,5,6,7,3,3,4,0,1,0,1,3,0,1,5,2,4,0,1" };

/* Two layers, two key heads and four value heads; one row of three tokens. */
static const struct sample grouped = { OP, "{}",
	"in.x F32 3,2,20 ~0,1; in.z F32 3,2,4,2 ~0,1; in.a F32 3,2,4 ~0,1; in.b F32 3,2,4 ~0,1;"
	"in.conv_weight F32 2,20,2 ~0,1;"
	"in.A_log F32 2,4 ~0,1; in.dt_bias F32 2,4 ~-1,1; in.norm_weight F32 2,2 ~1,0.2; in.state_pool F32 2,2,4,3,2 ~0,1;"
	"in.conv_pool F32 2,2,20,2 ~0,1; in.steps I32 2 =0,1; in.cu_seqlens I32 2 =0,3; in.kinds I32 1 =1; in.read_slot I32 1 =1;"
	"in.write_slot I32 3 =-1,-1,0; in.position I32 1 =5" };

#endif
