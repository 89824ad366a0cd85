/* Ranks that prefill and ranks that decode, behind one backend. */
#include "executor_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "executor_split.h"
#include "gpu/executor/executor_faults.h"

enum { MOST_RANKS = 4 };
enum side { PREFILL, DECODE, SIDES };

struct ranks {
	const struct executor_backend *inner;
	struct split split[SIDES];
	void *rank[SIDES][MOST_RANKS];
	unsigned char *home;            /* [slots]: the side that has the memory */
	unsigned char *all, *part; /* a slot's states, then its rings: of all heads, of a rank's */
	struct step_part step;          /* the rows of one side */
	struct executor_data mine;      /* what a rank gets of their data */
};

static size_t bytes_of(const struct executor_shape *s)
{
	return executor_state_bytes(s) + executor_ring_bytes(s);
}

/* ---- memories ---- */

/* All heads of a slot, from the ranks of a side into b->all, or from there to them. */
static bool collect(struct ranks *b, enum side side, size_t slot, struct error *e)
{
	const struct split *s = &b->split[side];
	size_t states = executor_state_bytes(&s->part);

	for (int r = 0; r < s->ranks; r++) {
		if (!b->inner->read(b->rank[side][r], slot, b->part, b->part + states, e))
			return false;
		split_memory(s, r, b->all, b->part, true);
	}
	return true;
}

static bool hand_out(struct ranks *b, enum side side, size_t slot, struct error *e)
{
	const struct split *s = &b->split[side];
	size_t states = executor_state_bytes(&s->part);

	for (int r = 0; r < s->ranks; r++) {
		split_memory(s, r, b->all, b->part, false);
		if (!b->inner->write(b->rank[side][r], slot, b->part, b->part + states, e))
			return false;
	}
	return true;
}

#ifdef ETALON_FAULTS
/* Rank r's states are those of the rank of its number on the other side, as they lie there. */
static bool rank_for_rank(struct ranks *b, enum side to, size_t slot, struct error *e)
{
	const struct split *s = &b->split[to], *other = &b->split[!to];
	size_t head = executor_state_bytes(&s->whole) / (size_t)(s->whole.layers * s->whole.Hv),
	       states = executor_state_bytes(&s->part);
	size_t mine = (size_t)s->part.Hv, theirs = (size_t)other->part.Hv, Hv = (size_t)s->whole.Hv;

	for (int r = 0; r < s->ranks; r++) {
		split_memory(s, r, b->all, b->part, false);
		for (size_t l = 0; l < (size_t)s->whole.layers; l++)
			for (size_t h = 0; h < mine; h++) {
				size_t from = (size_t)(r % other->ranks) * theirs + h % theirs;
				memcpy(b->part + (l * mine + h) * head,
					b->all + (l * Hv + from) * head, head);
			}
		if (!b->inner->write(b->rank[to][r], slot, b->part, b->part + states, e))
			return false;
	}
	return true;
}
#endif

/* Moves a memory to where rows are about to use it. */
static bool bring(struct ranks *b, int32_t slot, enum side to, struct error *e)
{
	if (slot < 0 || b->home[slot] == to) return true;
	if (!collect(b, (enum side)b->home[slot], (size_t)slot, e)) return false;
	b->home[slot] = (unsigned char)to;
#ifdef ETALON_FAULTS
	if (executor_fault_is("heads_rank_for_rank")) return rank_for_rank(b, to, (size_t)slot, e);
#endif
	return hand_out(b, to, (size_t)slot, e);
}

static bool bring_all(struct ranks *b, const struct executor_step *s, enum side to, struct error *e)
{
	bool ok = true;

	for (int r = 0; ok && r < s->rows; r++)
		ok = bring(b, s->read_slot[r], to, e) && bring(b, s->ring_read[r], to, e);
	for (int t = 0; ok && t < s->tokens; t++)
		ok = bring(b, s->write_slot[t], to, e) && bring(b, s->ring_write[t], to, e);
	return ok;
}

/* ---- a step ---- */

static bool check_slots(const struct ranks *b, const struct executor_step *s, struct error *e)
{
	int32_t n = (int32_t)b->split[PREFILL].whole.slots;

	for (int r = 0; r < s->rows; r++)
		if (s->read_slot[r] >= n || s->ring_read[r] >= n)
			return error_set(e, E_VALUE, "step", NO_OFFSET,
				"row %d: no slot to read", r);
	for (int t = 0; t < s->tokens; t++)
		if (s->write_slot[t] >= n || s->ring_write[t] >= n)
			return error_set(e, E_VALUE, "step", NO_OFFSET,
				"token %d: no slot to write", t);
	return true;
}

/* What is not written of y, as of padding, stays. */
static bool run_side(struct ranks *b, enum side side, const struct executor_step *step,
	const struct executor_data *data, bool replay, struct error *e)
{
	const struct split *s = &b->split[side];

	step_part_take(&b->step, step, side == PREFILL);
	if (!b->step.now.rows) return true;
	if (!bring_all(b, &b->step.now, side, e)) return false;
	for (int r = 0; r < s->ranks; r++) {
		split_data(s, r, &b->step, data, &b->mine, false);
		if (!b->inner->run(b->rank[side][r], &b->step.now, &b->mine, replay, e))
			return false;
		split_data(s, r, &b->step, data, &b->mine, true);
	}
	return true;
}

static bool ranks_run(void *backend, const struct executor_step *step,
	const struct executor_data *data, bool replay, struct error *e)
{
	struct ranks *b = backend;

	return check_slots(b, step, e) && run_side(b, DECODE, step, data, replay, e)
		&& run_side(b, PREFILL, step, data, replay, e);
}

/* ---- slots from outside ---- */

static bool ranks_read(void *backend, size_t slot, void *states, void *rings, struct error *e)
{
	struct ranks *b = backend;
	const struct executor_shape *s = &b->split[PREFILL].whole;

	if (!collect(b, (enum side)b->home[slot], slot, e)) return false;
	memcpy(states, b->all, executor_state_bytes(s));
	memcpy(rings, b->all + executor_state_bytes(s), executor_ring_bytes(s));
	return true;
}

static bool ranks_write(
	void *backend, size_t slot, const void *states, const void *rings, struct error *e)
{
	struct ranks *b = backend;
	const struct executor_shape *s = &b->split[PREFILL].whole;

	memcpy(b->all, states, executor_state_bytes(s));
	memcpy(b->all + executor_state_bytes(s), rings, executor_ring_bytes(s));
	return hand_out(b, (enum side)b->home[slot], slot, e);
}

static bool ranks_guards(void *backend, struct error *e)
{
	struct ranks *b = backend;

	for (int side = 0; side < SIDES; side++)
		for (int r = 0; r < b->split[side].ranks; r++)
			if (!b->inner->guards(b->rank[side][r], e)) return false;
	return true;
}

/* ---- opening ---- */

static void ranks_close(void *backend)
{
	struct ranks *b = backend;

	if (!b) return;
	for (int side = 0; side < SIDES; side++)
		for (int r = 0; r < b->split[side].ranks; r++) b->inner->close(b->rank[side][r]);
	step_part_close(&b->step);
	split_data_close(&b->mine);
	free(b->home);
	free(b->all);
	free(b->part);
	free(b);
}

static bool side_open(
	struct ranks *b, enum side side, const struct executor_weights *w, struct error *e)
{
	const struct split *s = &b->split[side];

	for (int r = 0; r < s->ranks; r++) {
		struct executor_weights mine;
		if (!split_weights(s, r, w, &mine, e)) return false;
		b->rank[side][r] = b->inner->open(&s->part, &mine, e);
		split_weights_close(&mine);
		if (!b->rank[side][r]) return false;
	}
	return true;
}

static void *ranks_open(const struct executor_backend *inner, int prefill, int decode,
	const struct executor_shape *s, const struct executor_weights *w, struct error *e)
{
	struct ranks *b = inner ? calloc(1, sizeof *b) : NULL;

	if (!inner) return NULL;
	if (!b) return error_set(e, E_MEMORY, "executor", NO_OFFSET, "%zu bytes", sizeof *b), NULL;
	b->inner = inner;
	if (split_make(&b->split[PREFILL], s, prefill, e)
		&& split_make(&b->split[DECODE], s, decode, e)) {
		bool room = (b->home = calloc(s->slots, 1)) && (b->all = malloc(bytes_of(s)))
			&& (b->part = malloc(bytes_of(s)));
		if (!room) error_set(e, E_MEMORY, "executor", NO_OFFSET, "%zu slots", s->slots);
		if (room && step_part_open(&b->step, s, e) && split_data_open(&b->mine, s, e)
			&& side_open(b, PREFILL, w, e) && side_open(b, DECODE, w, e))
			return b;
	}
	ranks_close(b);
	return NULL;
}

/* ---- the backends that there are ---- */

static const struct executor_backend *inner_cpu(struct error *e) { return (void)e, &executor_cpu; }
static const struct executor_backend *inner_cuda(struct error *e) { return executor_cuda(e); }

/* What one side promises the other one must too. */
static unsigned promises(const struct executor_backend *inner, int prefill, int decode,
	const struct executor_shape *s)
{
	struct split a, b;
	struct error e;

	if (!inner || !split_make(&a, s, prefill, &e) || !split_make(&b, s, decode, &e)) return 0;
	return inner->promises(&a.part) & inner->promises(&b.part);
}

#define TO(X, inner, P) X(inner, P, 1) X(inner, P, 2) X(inner, P, 4)
#define OF(X, inner) TO(X, inner, 1) TO(X, inner, 2) TO(X, inner, 4)
#define SPLITS(X) OF(X, cpu) OF(X, cuda)
#define FUNCTIONS(inner, P, Q) \
	static void *open_##inner##P##Q( \
		const struct executor_shape *s, const struct executor_weights *w, struct error *e) \
	{ \
		return ranks_open(inner_##inner(e), P, Q, s, w, e); \
	} \
	static unsigned promises_##inner##P##Q(const struct executor_shape *s) \
	{ \
		struct error e; \
		return promises(inner_##inner(&e), P, Q, s); \
	}
SPLITS(FUNCTIONS)

#define BACKEND(inner, P, Q) \
	{ #inner, P, Q, \
		{ #inner ", ranks " #P ":" #Q, promises_##inner##P##Q, open_##inner##P##Q, \
			ranks_close, ranks_run, ranks_read, ranks_write, ranks_guards } },
static const struct {
	const char *inner;
	int prefill, decode;
	struct executor_backend backend;
} made[] = { SPLITS(BACKEND) };

const struct executor_backend *executor_ranks(const char *inner, int prefill, int decode)
{
	for (size_t i = 0; i < sizeof made / sizeof *made; i++)
		if (!strcmp(made[i].inner, inner) && made[i].prefill == prefill
			&& made[i].decode == decode)
			return &made[i].backend;
	return NULL;
}
