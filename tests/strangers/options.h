/* The freedoms of each kernel: what two correct ones may do differently. */
#ifndef ETALON_STRANGERS_OPTIONS_H
#define ETALON_STRANGERS_OPTIONS_H

#include "arith.h"

/* Of a factor that scales rows or columns: what is loaded, an operand of a product, its result, the very end. */
enum place { ON_LOAD, ON_OPERAND, ON_RESULT, AT_END };

/* Where the gated delta rule in chunks may round. Operands of products, then what products and factors give. */
enum delta_site {
	GRAM_LEFT, GRAM_RIGHT, T_V, T_K, B_V, B_K, W_S, KS_K, KS_S, RESIDUAL, QK_Q, QK_K, QS_Q, QS_S, PN_P, PN_N, UPDATE_K,
	UPDATE_N,
	DELTA_RESULTS, Q_LOADED = DELTA_RESULTS, K_LOADED, A_GIVEN, T_STORED, U_GIVEN, SUBTRAHEND, N_GIVEN, SCORES, QS_GIVEN,
	DELTA_SITES
};
extern const char *const delta_site_name[DELTA_SITES];

/* e^x, or 2^x with log2 e times g, times its sum, times each difference of sums. */
enum base_of { NATURAL, LOG2_FIRST, LOG2_AFTER, LOG2_LATE };
struct delta {
	const char *known;      /* the kernel that this is, or NULL */
	size_t chunk;           /* 0: token by token */
	bool after;             /* the decay after the inverse: (I + A)^-1 ∘ E for (I + A ∘ E)^-1 */
	bool wy;                /* T b V - (T b e^G K) S for T b (V - e^G K S) */
	enum place q_norm, scale;               /* ON_LOAD, ON_RESULT, AT_END */
	enum place k_norm;                      /* ON_LOAD, or in each product by itself: */
	enum place k_gram, k_state, k_scores, k_update;
	enum place beta_gram, beta_v, beta_k;   /* T b V: of V's rows as ON_OPERAND, of T's columns as ON_RESULT */
	enum place decay_k, decay_q;            /* e^G */
	enum place decay_end;                   /* e^(G_L - G): of K as ON_OPERAND, of N as ON_RESULT */
	bool again;             /* the update's N is the one that the scores met, rounded again after its factor */
	enum number at[DELTA_SITES];
	struct { size_t base; bool columns, split; enum number operand, below, store; } inverse;       /* below: the last merge */
	enum base_of unit;
	bool warp_scan;
	bool through_alpha;     /* e^g is handed over, not g: log(e^g + 1e-10); never drawn */
	bool more_o, more_S;    /* sums of products go on from the state's part of o, from the decayed state */
	enum order gram, state, merge;
};

enum root { RSQRT, ONE_OVER_ROOT, OVER_ROOT };
struct norm {
	enum number residual, xhat, weighted;
	bool narrow;            /* every value in bf16 */
	bool weight_first;      /* x (r w) for (x r) w */
	bool gate_parts;        /* (y g) sigmoid(g) for y silu(g) */
	bool by_reciprocal;     /* the sum times 1/D */
	size_t blocks;          /* sums of so many parts, then theirs */
	enum root root;
	enum order order;
};

struct turn {
	enum { POWER, RECIPROCAL_POWER, EXP2_LOG2, EXP_LOG } frequency;
	bool wide;              /* angles in double */
	enum number table, value;       /* of cosines and sines; of products and sums */
	enum { APART, FUSED_COS, FUSED_SIN } sum;
};

struct conv {
	bool newest_first, bias_last, fused;
	enum number tap, sum;   /* of each product; before the activation */
	enum { OVER_ONE_PLUS, BY_TANH, BY_SIGMOID } silu;
};

struct iteration_options {
	enum number iterate;
	bool cast_first;        /* the input in the iterate's type before its norm */
	bool largest;           /* max(norm, eps) for norm + eps */
	bool fused;             /* a X + B X in one sum, rounded once; else each product, multiple and sum rounded */
	bool scaled_before;     /* (b A) A for b (A A) */
	bool mirrored;          /* triangles of symmetric products */
	bool by_rows;           /* the norm row by row */
	bool reciprocal;        /* X times 1/norm */
	enum order order;
};

/* Of ops whose kernel is plain: the order of sums, and what one part of a fused kernel hands to the next. */
struct fused { enum order order; enum number between; };

#endif
