/* A backend without numbers: a slot holds the history of a request as a hash of its tokens, for states and for rings alike.
 * It keeps the tables that it was handed last, and refuses those of a step in which rows get into each other's way. */
#ifndef ETALON_TEST_EXECUTOR_LEDGER_H
#define ETALON_TEST_EXECUTOR_LEDGER_H

#include <stdlib.h>
#include <string.h>

#include "gpu/executor/executor.h"
#include "tests/helpers.h"

/* An array and its length. */
#define COUNTED(type, ...) (const type[]){ __VA_ARGS__ }, sizeof((type[]){ __VA_ARGS__ }) / sizeof(type)
#define WORK(...) COUNTED(struct executor_work, __VA_ARGS__)
#define TABLE(...) COUNTED(int32_t, __VA_ARGS__)

enum { LEDGER_SLOTS = 64, LEDGER_ROWS = 64, LEDGER_TOKENS = 256 };

struct ledger {
	size_t slots;
	uint64_t state[LEDGER_SLOTS], ring[LEDGER_SLOTS];
};

/* What the last run was handed. */
static struct {
	int runs, rows, tokens, decode_rows;
	bool replay;
	int32_t kinds[LEDGER_ROWS], cu_seqlens[LEDGER_ROWS + 1], read_slot[LEDGER_ROWS], ring_read[LEDGER_ROWS], position[LEDGER_ROWS];
	int32_t write_slot[LEDGER_TOKENS], ring_write[LEDGER_TOKENS];
} handed;

static inline uint64_t history(uint64_t before, uint64_t token)
{
	uint64_t s = before ^ token * UINT64_C(0x9E3779B97F4A7C15);

	return random_bits(&s);
}

static void *ledger_open(const struct executor_shape *s, const struct executor_weights *w, struct error *e)
{
	struct ledger *l = calloc(1, sizeof *l);

	(void)w;
	(void)e;
	assert_true(l && s->slots <= LEDGER_SLOTS && s->max_rows <= LEDGER_ROWS && s->max_tokens <= LEDGER_TOKENS);
	l->slots = s->slots;
	return l;
}

static void ledger_close(void *b) { free(b); }

static void keep_handed(const struct executor_step *s, bool replay)
{
	size_t R = (size_t)s->rows * sizeof(int32_t), T = (size_t)s->tokens * sizeof(int32_t);

	handed.runs++;
	handed.rows = s->rows;
	handed.tokens = s->tokens;
	handed.decode_rows = s->decode_rows;
	handed.replay = replay;
	memcpy(handed.kinds, s->kinds, R);
	memcpy(handed.cu_seqlens, s->cu_seqlens, R + sizeof(int32_t));
	memcpy(handed.read_slot, s->read_slot, R);
	memcpy(handed.ring_read, s->ring_read, R);
	memcpy(handed.position, s->position, R);
	memcpy(handed.write_slot, s->write_slot, T);
	memcpy(handed.ring_write, s->ring_write, T);
}

/* x: two uint64_t per token, of which the first counts; y: twice the history after it. */
static bool ledger_run(void *b, const struct executor_step *s, const struct executor_data *d, bool replay, struct error *e)
{
	struct ledger *l = b;
	const uint64_t *x = d->x;
	uint64_t *y = d->y;

	(void)e;
	keep_handed(s, replay);
	for (int r = 0; r < s->rows; r++) {
		if (s->kinds[r] == ROW_PADDING) continue;
		uint64_t state = s->read_slot[r] < 0 ? 0 : l->state[s->read_slot[r]];
		uint64_t ring = s->ring_read[r] < 0 ? 0 : l->ring[s->ring_read[r]];
		for (int t = s->cu_seqlens[r]; t < s->cu_seqlens[r + 1]; t++) {
			state = history(state, x[2 * t]);
			ring = history(ring, x[2 * t]);
			y[t] = state + ring;
			if (s->write_slot[t] >= 0) l->state[s->write_slot[t]] = state;
			if (s->ring_write[t] >= 0) l->ring[s->ring_write[t]] = ring;
		}
	}
	return true;
}

static bool ledger_read(void *b, size_t slot, void *states, void *rings, struct error *e)
{
	const struct ledger *l = b;

	(void)e;
	memcpy(states, &l->state[slot], sizeof *l->state);
	memcpy(rings, &l->ring[slot], sizeof *l->ring);
	return true;
}

static bool ledger_write(void *b, size_t slot, const void *states, const void *rings, struct error *e)
{
	struct ledger *l = b;

	(void)e;
	memcpy(&l->state[slot], states, sizeof *l->state);
	memcpy(&l->ring[slot], rings, sizeof *l->ring);
	return true;
}

static bool ledger_guards(void *b, struct error *e)
{
	(void)e;
	return b != NULL;
}

static unsigned ledger_promises(const struct executor_shape *s)
{
	(void)s;
	return 0;
}

static const struct executor_backend ledger = {
	"ledger", ledger_promises, ledger_open, ledger_close, ledger_run, ledger_read, ledger_write, ledger_guards
};

/* x takes 16 bytes per token, z, y, a and b 8. */
static inline struct executor_shape ledger_shape(size_t slots, int max_rows, int max_tokens)
{
	return (struct executor_shape){
		.layers = 1, .Hk = 1, .Hv = 2, .Dk = 1, .Dv = 1, .W = 4, .slots = slots, .max_tokens = max_tokens,
		.max_rows = max_rows, .state = DT_F32, .data = DT_F32
	};
}

static inline struct executor *ledger_executor(size_t slots, int max_rows, int max_tokens)
{
	struct error e = { 0 };
	struct executor_shape s = ledger_shape(slots, max_rows, max_tokens);
	struct executor *x = executor_open(&ledger, &s, &(struct executor_weights){ 0 }, &e);

	if (!x) fail_msg("%s", e.detail);
	return x;
}

static inline int admit(struct executor *x, int checkpoint)
{
	struct error e = { 0 };
	int r = executor_admit(x, checkpoint, &e);

	if (r < 0) fail_msg("%s", e.detail);
	return r;
}

/* The last step: what was published, and its data; out is zero where nothing was written. */
static struct executor_step planned;
static int order[LEDGER_ROWS];
static uint64_t in[2 * LEDGER_TOKENS], out[LEDGER_TOKENS];

static inline void plan(struct executor *x, const struct executor_work *work, size_t n, int decode_rows)
{
	struct error e = { 0 };

	if (!executor_plan(x, work, (int)n, decode_rows, &planned, order, &e)) fail_msg("%s: %s", e.item, e.detail);
}

static inline void step(struct executor *x, const struct executor_work *work, size_t n, int decode_rows, bool replay)
{
	static uint64_t zero[LEDGER_TOKENS], seed;
	struct executor_data d = { in, zero, zero, zero, out };
	struct error e = { 0 };

	for (size_t t = 0; t < LEDGER_TOKENS; t++) in[2 * t] = random_bits(&seed);
	memset(out, 0, sizeof out);
	handed.rows = handed.tokens = handed.runs = 0;
	plan(x, work, n, decode_rows);
	if (!executor_run(x, &d, replay, &e)) fail_msg("%s", e.detail);
}

static inline void expect(const char *who, const char *what, const int32_t *found, const int32_t *expected, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (found[i] != expected[i]) fail_msg("%s: %s[%zu] is %d, expected %d", who, what, i, (int)found[i], (int)expected[i]);
}

#endif
