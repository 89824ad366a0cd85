/* The gated delta rule's kernels. */
#ifndef ETALON_STRANGERS_DELTA_H
#define ETALON_STRANGERS_DELTA_H

#include "strangers.h"

enum delta_fault {
	MASK_A_TOKEN_LATE = 1, BETA_OF_COLUMN, SHORT_SERIES, NEIGHBOURS_ONLY, OWN_DECAY_TWICE, STATE_A_CHUNK_OLD, NATURAL_END,
	NO_DECAY_IN_TILE,
	SCALED_TWICE_FROM_STATE, KEY_BY_QUERY_NORM, FIRST_HEADS_STATE, HARD_SIGMOID, RATE_NOT_EXPONENT, GATES_TILED,
	ROW_OF_INVERSE_EARLY
};

struct delta_sizes { size_t T, N, Hk, Hv, Dk, Dv; };
struct delta_inputs {
	const float *q, *k, *v, *a, *b, *A_log, *dt_bias, *g, *beta, *state, *cuts;
	float scale, eps;
	bool normed, gated;
};
/* One value head of one sequence, and what it runs with. */
struct delta_head {
	const struct delta *o;
	int fault;
	const struct delta_sizes *s;
	const struct delta_inputs *in;
	size_t n, h, hk, first, last;
};

/* q, k [Dk], v [Dv] of token t as they are given. */
const float *delta_q(const struct delta_head *p, size_t t);
const float *delta_k(const struct delta_head *p, size_t t);
const float *delta_v(const struct delta_head *p, size_t t);
/* 1 / |x|, or 1 where keys are not normed. */
float delta_norm(const struct delta_head *p, const float *x);
float delta_key_norm(const struct delta_head *p, size_t t);
float delta_g(const struct delta_head *p, size_t t);
float delta_step_size(const struct delta_head *p, size_t t);

/* S [Dk,Dv] goes on over all tokens; o [T,Hv,Dv] */
void delta_tokens(const struct delta_head *p, float *S, float *o);
void delta_chunks(const struct delta_head *p, float *S, float *o);
/* T [n,n] = (I + A)^-1, A strictly lower. */
void delta_inverse(const struct delta *o, int fault, const float *A, float *T, size_t n);

void delta_options(struct delta *o, struct dice *d);    /* a structure in chunks */
void delta_say(const struct point *p, char *text, size_t size);
enum { FLA, FLASHQLA, FLASHINFER, KNOWN_KERNELS };
void delta_known(struct delta *o, int which);
void delta_run(const struct point *p, struct capture *c);
extern const struct flaw delta_flaws[];
void delta_suit(struct point *p);

#endif
