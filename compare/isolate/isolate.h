/* Isolation: does each request's memory stay its own? Scenarios are played on an executor of mixed batches
 * (gpu/executor/executor.h), every play leaves a record, and laws compare records with each other, bit for bit, and with the
 * reference of the op mixed_batch, within the expected error. See docs/isolate.md. */
#ifndef ETALON_ISOLATE_H
#define ETALON_ISOLATE_H

#include "fixtures/cases/capture.h"
#include "gpu/executor/executor.h"
#include "scenario.h"

/* ---- where scenarios are played ---- */

/* Whatever the seed says: weights, tokens, what free slots hold. */
struct setup {
	const struct executor_backend *backend;
	const struct executor_backend
		*one; /* the same on one rank, where the heads are split over ranks; else NULL */
	struct executor_shape shape;
	struct executor_weights weights;        /* owned */
	uint64_t seed;
};

/* The small model that scenarios are played with: it has room for any that scenario_draw makes. */
struct executor_shape setup_small(enum dtype state, enum dtype data);
/* The same with heads of 128, for scenarios whose prefills are stretched: with data in bf16 the CUDA backend prefills such rows
 * in chunks. */
struct executor_shape setup_heads(enum dtype state, enum dtype data);
/* The same with as many heads as four ranks can share out. */
struct executor_shape setup_ranks(struct executor_shape s);

/* Weights drawn from the seed. Freed with setup_free. */
bool setup_make(struct setup *s, const struct executor_backend *backend, const struct executor_shape *shape, uint64_t seed, struct error *e);
void setup_free(struct setup *s);

/* The executor's y of one token, bytes [layers,Hv,Dv]; elements likewise. */
size_t setup_y_elements(const struct setup *s);

/* The input of the token `key`, as stored: parts x [layers,C], z [layers,Hv,Dv], a, b [layers,Hv]. */
enum { PART_X, PART_Z, PART_A, PART_B, PARTS };
size_t setup_part_elements(const struct setup *s, int part);
void setup_token(const struct setup *s, uint64_t key, int part, void *to);

/* What slots hold before anything ran: large numbers, or NaN of one of two payloads; each tells its slot. Slot `marked`
 * holds other large numbers; -1: none does. */
enum poison { POISON_LARGE, POISON_NAN, POISON_OTHER_NAN };
void setup_poison(const struct setup *s, enum poison p, int slot, bool marked, void *states, void *rings);

/* ---- plays ---- */

struct play_how {
	enum { AS_GIVEN, EAGER, REPLAYED } graph;
	bool reverse;                   /* the order of rows */
	bool split;                     /* a run of several tokens takes two steps */
	int pad;                        /* rows more in the decode part */
	bool alone;                     /* only requests of chosen families run: see play_chosen */
	uint64_t content;               /* not 0: tokens of families that are not chosen are others */
	enum poison poison;
	int marked;                     /* -1: none */
	int before;                     /* tokens that a request of no scenario runs first, and is gone: scratch is not as new */
	bool keep_going;                /* beyond a step whose tables are wrong */
};

/* A law that was broken, in whichever step first. */
struct breach {
	const char *law;                /* NULL: none was */
	int step, request, slot, layer; /* -1: does not apply */
	char what[256];
	bool checkpoint;                /* the slot is held by checkpoints only */
};

struct play_row { int step, request, kind, position; int32_t read_slot; size_t batch, first, tokens; };     /* request -1: padding */
struct play_token { size_t row, fed; uint64_t key; int32_t write_slot; bool chosen; };  /* fed: how many its request had been fed */

/* The tables are those that the scenario means, in slots of the executor where these are sound, else beyond them. */
struct play {
	const struct setup *setup;
	size_t rows, tokens, batches, slots;
	struct play_row *row;
	struct play_token *token;
	unsigned char *y;               /* [tokens] of setup_y_elements; zeros for padding */
	unsigned char *before, *after;  /* [slots]: states and rings */
	size_t *order;                  /* [tokens]: those of requests, by request and fed */
	size_t fed;                     /* how many those are */
	size_t slots_kept;              /* how often a slot that no row wrote was found unchanged */
	struct breach breach;
};

/* Plays a scenario on a new executor. E_USAGE where it needs more than the setup has; else the backend's errors. Freed
 * with play_free. */
bool play_make(struct play *p, const struct setup *s, const struct scenario *scenario, const struct play_how *how, struct error *e);
void play_free(struct play *p);

/* The record as a capture of the op mixed_batch. */
bool play_capture(struct capture *c, const struct play *p, struct error *e);

/* Bytes of all that a slot holds. */
size_t setup_slot_bytes(const struct setup *s);

#endif
