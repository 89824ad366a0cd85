/* What is inside a calc: for calc.c and the arithmetics only. */
#ifndef ETALON_CALC_PRIVATE_H
#define ETALON_CALC_PRIVATE_H

#include <setjmp.h>
#include <stdint.h>

#include "fixtures/io/wide.h"
#include "fixtures/io/random.h"
#include "calc_arena.h"

/* Of `size` bytes, and as many behind BLOCK_GAP, which keeps parts from the same cache set, where the arithmetic is split. */
enum { BLOCK_GAP = 9 * 64 };
struct block { struct block *next; size_t size; _Alignas(64) char at[]; };

/* Of a piece that goes on in the next strip: the bytes of what it carries, NULL where nothing is. */
struct kept { char *bytes; size_t at; uint64_t noise; };

/* Of ref/call/op.h: what a run is of; an arithmetic does not look into it. */
struct call;
struct plan;
struct answer;
struct strip;
struct carried_state;
struct log;

struct calc {
	const struct arith *arith;
	int bits;
	uint64_t work;                  /* element operations so far */
	uint64_t noise;                 /* position in the random stream */
	bool indices;                   /* what is computed comes of indices: whole numbers, exact in every algebra */
	uint64_t judge_at;              /* of arith_judged: the work from which on it looks again, */
	struct judged *judged;          /* and where it says what it saw; may be NULL */
	const struct call *call;
	const struct plan *plan;
	struct answer *answer;
	struct program *program;        /* of an op that is a formula */
	const struct strip *strip;      /* that is computed, */
	struct log *log;                /* of what it stores, for other ranks; NULL where none asks */
	bool together;                  /* every rank runs this piece: it may share out what is in it */
	size_t piece;                   /* the piece, */
	const struct carried_state *from;      /* what the strip before carried over, */
	struct carried_state *to;              /* and what this one does */
	size_t element;                 /* arith->size */
	struct block *blocks;           /* the arena: newest block first, filled up to `used` */
	size_t used;
	double *buffer;                 /* 2 * buffer_n doubles for in and out */
	size_t buffer_n;
	jmp_buf no_memory;
};

/* 2n doubles for in and out, until the next call. */
double *calc_buffer(calc *c, size_t n);

void calc_free(calc *c);               /* what it has, not itself */

/* The low parts of the vector at x in the arena of a split arithmetic. */
static inline void *calc_low(const calc *c, const void *x)
{
	const struct block *b = c->blocks;

	while ((uintptr_t)x - (uintptr_t)b->at >= b->size) b = b->next;
	return (char *)(uintptr_t)x + b->size + BLOCK_GAP;
}

#endif
