/* What the sequential and the chunked form of the gated delta rule share. */
#ifndef ETALON_GATED_DELTA_RULE_H
#define ETALON_GATED_DELTA_RULE_H

#include "parts.h"

enum { D_T, D_HK, D_HV, D_DK, D_DV, D_N };
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
	CHUNK_END_DECAY_WRONG_SLOT, CHUNK_END_DECAY_SLOT_57, CHUNK_END_DECAY_SLOT_59,
	CHUNK_END_DECAY_LOST_ON_TAIL, CHUNK_STATE_NOT_CARRIED, CHUNK_MASK_WITHOUT_DECAY, CHUNK_W_FROM_DECAYED_GRAM, SPLIT_EXPONENT, MASK_AFTER_MULTIPLY
};

/* A piece is one value head h of one sequence n; hk is the key head it reads. */
struct head { size_t n, h, hk; span token; };
struct head gdr_head(const calc *c, size_t piece);

/* q, k [Dk] normalised if the call says so, not scaled; v [Dv]; g and beta; all of token t. */
void gdr_token(calc *c, const struct head *p, size_t t, vec q, vec k, vec v, num g, num beta);
void gdr_decay(calc *c, const struct head *p, size_t t, num g); /* t past the end: a padding token, a = 0 */
void gdr_times(calc *c, vec x);                                 /* x <- x times what the correction is subtracted */
/* What a head carries from token to token, S [Dk,Dv] and what scales q. */
struct carried { vec all; mat S; num scale; };
struct carried gdr_begin(calc *c, const struct head *p, size_t *t);     /* as it is before token *t */
void gdr_end(calc *c, const struct head *p, const struct carried *s, size_t t);  /* before token t: stored at the end, else handed on */
static inline size_t gdr_o_at(const calc *c, const struct head *p, size_t t)
{
	return (t * c_dim(c, D_HV) + p->h) * c_dim(c, D_DV);
}

extern const struct fault_spec gdr_faults[];
void gdr_chunked(calc *c, size_t piece);
mat gdr_copy_at(calc *c, mat A, int site);      /* a copy of A, rounded there */
/* T = (I + A)^-1, A strictly lower: forward substitution in the diagonal blocks, then
 * T_rs = -T_rr (Σ_{s<=p<r} A_rp T_ps), and -(T_rr A_rs) T_ss for neighbours: the order in which
 * flash-linear-attention multiplies. Every operand passes the site inverse_merge. */
mat gdr_inverse(calc *c, mat A);

#endif
