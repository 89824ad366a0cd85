/* What the files of a layer's reference share. Letters: T tokens, E hidden size, I the MLP's width; X experts of width J;
 * linear attention: C channels, W taps, Hk key heads of Dk, Hv value heads of Dv; full attention: H heads and G
 * key-value heads of D, S tokens before these, N = S + T. */
#ifndef ETALON_MODEL_PRIVATE_H
#define ETALON_MODEL_PRIVATE_H

#include "model.h"
#include "ref/ops/parts.h"

enum { D_T, D_E, D_1, D_I, D_X, D_J, D_2J, D_KIND };
enum { D_C = D_KIND, D_W, D_HK, D_HV, D_DK, D_DV, D_Z };
enum { D_S = D_KIND, D_H, D_G, D_D, D_2HD, D_GD, D_HD, D_N };
enum { D_V = D_1 };                             /* of the head: its vocabulary */

enum {
	IN_X, IN_X_LOW, IN_INPUT_NORM, IN_POST_NORM, IN_FINAL_NORM, IN_GATE, IN_UP, IN_DOWN, IN_ROUTER, IN_EXPERT_GATE_UP,
	IN_EXPERT_DOWN, IN_SHARED_GATE, IN_KIND
};
enum { IN_QKV = IN_KIND, IN_Z, IN_A, IN_B, IN_CONV, IN_A_LOG, IN_DT_BIAS, IN_NORM, IN_OUT, IN_HISTORY, IN_STATE };
enum { IN_Q = IN_KIND, IN_K, IN_V, IN_O, IN_Q_NORM, IN_K_NORM, IN_KEYS, IN_VALUES };
enum { IN_HEAD = IN_INPUT_NORM };               /* of the head: [V,E] */

enum { OUT_Y, OUT_KIND, OUT_HISTORY = OUT_KIND, OUT_STATE, OUT_KEYS = OUT_KIND, OUT_VALUES };
enum { P_EPS, P_TOP_K, P_THETA, P_ROTARY_DIM };

enum {
	SITE_MIXED, SITE_RESIDUAL, SITE_GATE, SITE_SILU, SITE_UP, SITE_PRODUCT, SITE_DOWN, SITE_ROUTER, SITE_PROBABILITY,
	SITE_ROUTE, SITE_EXPERT, SITE_RUNNING, SITE_EXPERTS, SITE_SHARED_LOGIT, SITE_SHARED_GATE, SITE_SHARED, SITE_MLP, SITE_HIDDEN,
		SITE_Y,
	SITE_KIND
};
enum { SITE_QKV = SITE_KIND, SITE_Z, SITE_A, SITE_B, SITE_CONV_OUT, LINEAR_SITES };
enum { SITE_Q = SITE_KIND, SITE_K, SITE_V, SITE_TURNED, SITE_SCORES, SITE_SCALED, SITE_WEIGHTS, SITE_SOFTMAX, SITE_ATTENTION,
	SITE_SIGMOID, SITE_GATED,
	FULL_SITES };

/* A layer's own faults; those of its parts follow. */
enum {
	RESIDUAL_MISSING, RESIDUAL_FROM_NORM, MLP_RESIDUAL_MISSING, GATE_UP_SWAPPED, ACTIVATION_MISSING, DOWN_TRANSPOSED,
	EXPERTS_GATE_UP_SWAPPED, EXPERTS_SPLIT_INTERLEAVED, EXPERT_WEIGHTS_TRANSPOSED, NO_RENORMALISING, ROUTER_IS_SIGMOID,
	TOP_K_OFF_BY_ONE, SHARED_EXPERT_MISSING, SHARED_GATE_MISSING, SHARED_GATE_ON_EVERYTHING, SHARED_EXPERT_PER_RANK, FAULT_KIND
};
enum { A_B_SWAPPED = FAULT_KIND, QKV_BY_GROUP, LINEAR_NORM_OVER_HEADS, LINEAR_FAULTS };
enum {
	GATE_SPLIT_FLAT = FAULT_KIND, GATE_BEFORE_ATTENTION, GATE_IS_SILU, OUTPUT_GATE_MISSING, GQA_TILED, CAUSAL_OFF_BY_ONE,
	ATTENTION_SCALE_MISSING, QK_NORM_MISSING, QK_NORM_AFTER_ROPE, QK_NORM_OVER_HEADS, KEYS_NOT_TURNED, POSITION_OFF, EXP_BY_CUBIC, FULL_FAULTS
};

/* A part of a layer: its sites and faults there, words apart. */
struct place { const char *name, *text, *op, *sites, *faults; };
/* A part of the model: an op without what is made, and where other ops' parts stand in it. */
struct part_tables { struct op op; const struct place *places; };
/* What is rounded to bf16, words apart, by part. */
struct contract_names { const char *name, *what, *sites[MODEL_PARTS]; };
extern const struct part_tables model_tables[MODEL_PARTS];
extern const struct contract_names model_contracts[];           /* ends with a NULL name */

/* y [T,rows] <- x W', W being rows [first, first + rows) of input `in`, [..,x.cols]; site is rounded. */
field layer_project(calc *c, field x, int in, size_t first, size_t rows, int site);
/* x [T,E] normed row by row with the weight of input `in`. place: of op_rmsnorm's sites and faults. */
field layer_norm(calc *c, field x, int in, const char *place);
/* a + b. */
field layer_add(calc *c, field a, field b, int site);
/* What fn makes of each row of a field, in blocks of rows. */
void layer_rows(calc *c, size_t rows, void (*block)(calc *d, size_t first, size_t n, void *with), void *with);
/* x <- softmax of its first n elements; the rest become 0. */
void layer_softmax(calc *c, vec x, size_t n);
/* x <- e^(x - max x), and their sum. */
void layer_weights(calc *c, vec x, num sum, bool by_cubic);
void layer_load(calc *c, mat A, field f, size_t row, size_t col);       /* A <- f's rows from `row`, columns from `col` */
void layer_save(calc *c, field f, size_t row, size_t col, mat A);

/* The call's sizes from the model's; T is 1. */
void model_dims(const struct model_config *c, int part, struct call *call);

/* Points input `in` to a copy of the layer's experts, if it is one of them and the folder has them one by one; else does
 * nothing. prefix: of names in the folder. */
bool model_fuse(struct model *m, size_t layer, int in, const char *prefix, const struct model_weight *w, struct error *e);
/* Was the tensor copied so? */
bool model_is_fused(const struct model *m, const char *name);

field linear_mixer(calc *c, field x);           /* [T,E] -> [T,E] */
field full_mixer(calc *c, field x);
field layer_mlp(calc *c, field x);

void linear_piece(calc *c, size_t piece);
void full_piece(calc *c, size_t piece);
void head_piece(calc *c, size_t piece);

/* m <- the mean of m and the mean square of the other head's values, as if two heads were normed together. */
void layer_both_heads(calc *c, num m, vec other);

#endif
