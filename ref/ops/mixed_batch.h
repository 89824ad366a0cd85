/* What the reference of mixed_batch, its check and its faults share. */
#ifndef ETALON_MIXED_BATCH_H
#define ETALON_MIXED_BATCH_H

#include "parts.h"

enum { D_T, D_R, D_K, D_P, D_L, D_C, D_W, D_HV, D_DK, D_DV, D_H, D_HK };
enum {
	IN_X, IN_Z, IN_A, IN_B, IN_CONV, IN_A_LOG, IN_DT_BIAS, IN_NORM, IN_STATES, IN_INPUTS,
	IN_STEPS, IN_CU, IN_KINDS, IN_READ, IN_WRITE, IN_POSITION
};
enum { OUT_Y, OUT_STATES, OUT_INPUTS };
enum { P_L2_EPS, P_NORM_EPS, P_SCALE, P_LAYOUT };
enum { LAYOUT_RING, LAYOUT_WINDOW };
enum {
	SITE_CONV, SITE_CONV_OUT, SITE_Q, SITE_K, SITE_G, SITE_BETA, SITE_U, SITE_STATE, SITE_POOL, SITE_O, SITE_XHAT,
	SITE_WEIGHTED, SITE_Y
};
enum {
	ALL_TOKENS_USE_FIRST_SLOT, PREFILL_OVERWRITES_DECODE_SLOT, READ_SLOT_IS_NOT_WRITE_SLOT, PAD_MINUS_ONE_HITS_SLOT_ZERO,
	SLOT_ZERO_MEANS_PAD, SLOT_NOT_ZEROED_ON_REUSE, ONE_TOKEN_PREFILL_TAKEN_FOR_DECODE, STATE_WRITTEN_TO_A_COPY,
	STALE_SLOT_TABLE_IN_GRAPH, CHECKPOINT_SHARED_NOT_COPIED, CHECKPOINT_AT_WRONG_BOUNDARY, ACCEPTED_ROW_OFF_BY_ONE,
	CONV_AND_STATE_SLOTS_DIFFER
};
enum kind { DECODE, PREFILL, SPECULATIVE, PADDING, KINDS };

/* A row's tokens are first .. last-1, the one before them at position-1 of its request. Slots below 0 are none. */
struct row {
	enum kind kind;
	size_t first, last;
	int64_t position, read, read_inputs;
	bool goes_on;                           /* from the memory in which the row before it ended */
};
/* The tables of all steps, read for states and for the convolution's inputs. Row 0 of step k is row[step[k]]. */
struct tables {
	size_t steps, rows, tokens, slots;
	size_t *step;                           /* [steps+1] */
	struct row *row;                        /* [rows] */
	int64_t *write, *write_inputs;          /* [tokens] */
};

/* What a head has of a request's memory: its state [Dk,Dv], and inputs of the convolution, a row each. */
struct memory { mat S, inputs; };

/* A piece: one value head of one layer, its channels in the order q, k, v. */
enum { Q, K, V, RANGES };
struct range { size_t channel, at, n; };        /* of all channels; of the head's */
struct head {
	size_t layer, h, channels;
	struct range range[RANGES];
	bool first_of_group;                    /* the one that stores the key head's channels */
	mat taps;                               /* [W,channels] */
	vec weight;                             /* [Dv], of the norm */
	num scale;
	struct scope conv, delta, norm;
};

struct memory mixed_memory(calc *c, const struct head *p, size_t inputs);
/* [slots]: those that the tables read or write, as before the first step; the others are empty. */
struct memory *mixed_pool_load(calc *c, const struct head *p, const struct tables *t);
/* Stores all slots, the empty ones as they came. */
void mixed_pool_store(calc *c, const struct head *p, const struct tables *t, const struct memory *pool);
/* Where the input at a position is among the last W, [W,channels]. */
vec mixed_input(calc *c, struct memory now, int64_t position);
/* The memory before a row's first token. */
void mixed_recall(calc *c, const struct memory *pool, const struct row *r, struct memory now);
/* Stores the memory after a token in its slot, if it has one; `next` is the position after it. */
void mixed_keep(calc *c, const struct memory *pool, const struct tables *t, size_t token, int64_t next, struct memory now);

/* The tables of the call, until the piece ends, and what the faults asked for make of them. */
struct tables mixed_tables(calc *c);
void mixed_faults(calc *c, struct tables *t);

/* Whatever shapes cannot say: sizes that fit together, cuts that rise, slots that are there and that no two rows of a
 * step quarrel about. */
bool mixed_check(const struct call *call, struct error *e);

extern const struct fault_spec mixed_fault_specs[];

#endif
