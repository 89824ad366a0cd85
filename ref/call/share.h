/* A run of pieces shared out among ranks. */
#ifndef ETALON_SHARE_H
#define ETALON_SHARE_H

#include "ref/arith/calc_private.h"
#include "op.h"

/* Of a tensor: rows lines, each `apart` from the next, of n elements, each `step` from the next, from element `at` on. */
struct written { uint64_t tensor, at, step, n, apart, rows; };

/* What a calc has stored: outputs, then, from MAX_OUT on, what is held. */
struct log { struct written *item; size_t n, room; bool no_memory; };

/* Of pieces [range], every stride-th: which this rank runs, and what their outcome was when it began. */
struct share {
	const calc *first;
	span range;
	bool *mine;             /* [last - first]; NULL: not shared, every rank runs all, */
	bool together;          /* at the same time */
	struct log log;
	size_t stored[MAX_OUT + MAX_HELD];
	uint64_t digest;        /* of the loads */
};

/* Shares them out, or not: where there is one rank, one piece, a team at work, or who counts what a run did. False: memory is short. */
bool share_begin(struct share *s, const calc *first, span range, size_t stride);
/* All ranks get what each made, its work and how it went: `ok` is all of theirs, *operations grows by the others'. */
bool share_end(struct share *s, bool ok, uint64_t made, uint64_t *operations);

/* A piece that every rank runs at the same time shares out its parts: asked of it, not within a team. Is part i this rank's? */
bool share_parts(const calc *c);
bool share_part(size_t i);
/* All get what each made of these fields, which are 0 where it made nothing, and the work since it was `before`. */
void share_parts_end(calc *c, const field *f, size_t n, uint64_t before);

/* Of a thread, into the rank's. */
void log_take(struct log *all, struct log *one);
void log_free(struct log *l);

#endif
