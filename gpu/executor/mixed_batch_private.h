/* Inside the play of a capture of mixed_batch: what it holds, checked and converted. */
#ifndef ETALON_MIXED_BATCH_PRIVATE_H
#define ETALON_MIXED_BATCH_PRIVATE_H

#include "gpu/executor/mixed_batch.h"

/* The tables of a capture. K steps, R rows, T tokens. */
enum { STEPS, CU_SEQLENS, KINDS, READ_SLOT, WRITE_SLOT, POSITION, TABLES };

/* What is cut along the tokens; y is written. */
enum { X, Z, A, B, Y, TOKEN_DATA };

struct weights { float *conv, *A_log, *dt_bias, *norm; };

struct play {
	const struct executor_backend *backend;
	void *pools;
	bool replay;
	struct executor_shape shape;
	struct weights weights;
	int32_t *table[TABLES];
	size_t length[TABLES];
	const struct tensor *given[TOKEN_DATA];
	const struct tensor *states, *rings;
	struct tensor *final_states, *final_rings;
	int32_t *lists;                         /* those of the step at work */
	char *part[TOKEN_DATA];                 /* its tokens, [max_tokens,...] */
};

/* Points p at c's tensors; fills tables, weights and, but for max_tokens and max_rows, the shape. p owns its
 * tables and weights, also after a failure. */
bool mixed_batch_load(struct play *p, const struct capture *c, struct error *e);

/* n zeros of `each` bytes; NULL and E_MEMORY. */
void *mixed_batch_room(size_t n, size_t each, struct error *e);

#endif
