/* One batch: what the scenario means, what the executor planned, what came out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isolate_step.h"

enum { UNTOUCHED = 0xa5 };              /* what y holds before a batch */

bool run_open(struct run *r, struct error *e)
{
	const struct setup *s = r->setup;
	size_t slots = s->shape.slots + BEYOND, bytes = setup_slot_bytes(s), most = (size_t)s->shape.max_tokens;
	size_t size = dtype_info[s->shape.data].size;
	bool room = model_make(&r->model, r->scenario, s->shape.slots);

	r->job = calloc(r->scenario->n + 1, sizeof *r->job);
	r->order = calloc((size_t)s->shape.max_rows, sizeof *r->order);
	r->now = malloc(slots * bytes);
	r->then = malloc(slots * bytes);
	r->play->before = malloc(slots * bytes);
	r->play->after = malloc(slots * bytes);
	r->y = malloc(most * setup_y_elements(s) * size);
	room = room && r->job && r->order && r->now && r->then && r->play->before && r->play->after && r->y;
	for (int i = 0; i < PARTS; i++) room = (r->part[i] = malloc(most * setup_part_elements(s, i) * size)) && room;
	if (!room) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "a play on %zu slots", slots);
	r->x = executor_open(s->backend, &s->shape, &s->weights, e);
	return r->x != NULL;
}

void run_close(struct run *r)
{
	executor_close(r->x);
	model_free(&r->model);
	for (int i = 0; i < PARTS; i++) free(r->part[i]);
	free(r->job);
	free(r->order);
	free(r->family);
	free(r->now);
	free(r->then);
	free(r->y);
}

/* Room for one more of `size` bytes in an array of n. */
static bool grow(void *array, size_t *room, size_t n, size_t more, size_t size)
{
	void **at = array, *larger;

	if (n + more <= *room && *at) return true;
	size_t new = 2 * (n + more) + 64;
	if (!(larger = realloc(*at, new * size))) return false;
	*at = larger;
	*room = new;
	return true;
}

static bool record_room(struct run *r, const struct executor_step *step)
{
	struct play *p = r->play;
	size_t y = setup_y_elements(r->setup) * dtype_info[r->setup->shape.data].size;

	return grow(&p->row, &r->rows_room, p->rows, (size_t)step->rows, sizeof *p->row)
		&& grow(&p->token, &r->tokens_room, p->tokens, (size_t)step->tokens, sizeof *p->token)
		&& grow(&p->y, &r->y_room, p->tokens, (size_t)step->tokens, y);
}

/* Is every job in the step once, in a row of its length, and all else padding of one token? */
static bool sound_rows(const struct run *r, const struct executor_step *step)
{
	size_t found = 0;

	for (int i = 0; i < step->rows; i++) {
		int n = step->cu_seqlens[i + 1] - step->cu_seqlens[i], j = r->order[i];
		bool decode = i < step->decode_rows;
		if (j >= (int)r->jobs || j < -1 || n != (j < 0 ? 1 : r->job[j].tokens) || (j < 0 && !decode)) return false;
		for (int k = 0; k < i; k++)
			if (j >= 0 && r->order[k] == j) return false;
		found += j >= 0;
	}
	return found == r->jobs && step->cu_seqlens[0] == 0 && step->cu_seqlens[step->rows] == step->tokens;
}

/* Where a token's memory goes: the slot that the executor chose, if nobody else holds it, else one beyond. */
static int claim(struct run *r, const struct holder *h, bool speculative, int chosen)
{
	struct model *m = &r->model;
	char owner[64];
	bool own = chosen >= 0 && chosen == h->memory.slot && m->uses[chosen] == 1 && !speculative;

	if (own) return chosen;
	if (chosen >= 0 && (size_t)chosen < m->slots && m->uses[chosen] == 0) return m->uses[chosen]++, chosen;
	breach(r->play, "tables", r->step, h->id, chosen, -1, "request %d would write slot %d, which %s holds%s", h->id, chosen,
		chosen < 0 ? "nobody" : model_owner(m, chosen, owner, sizeof owner),
		chosen >= 0 && chosen == h->memory.slot ? " too" : "");
	return model_beyond(m);
}

/* What the executor says of a row against what the scenario means by it. */
static void check_row(struct run *r, const struct holder *h, const struct executor_step *step, int i)
{
	char owner[64];
	int32_t slot = step->read_slot[i], mean = h->memory.slot;

	if (slot != mean)
		breach(r->play, "tables", r->step, h->id, slot, -1, "request %d would read slot %d, which %s holds; its memory is in slot %d", h->id,
			slot, slot < 0 ? "nobody" : model_owner(&r->model, slot, owner, sizeof owner), mean);
	if (step->position[i] != (int32_t)h->read)
		breach(r->play, "tables", r->step, h->id, mean, -1, "request %d runs at position %d, its memory is at %zu", h->id,
			step->position[i], h->read);
	if (step->ring_read[i] != slot)
		breach(r->play, "tables", r->step, h->id, slot, -1, "request %d reads its ring from slot %d, its state from slot %d", h->id,
			step->ring_read[i], slot);
}

/* Records token t of the step as number k of its job and makes its input. */
static bool add_token(struct run *r, struct job *j, size_t row, int t, int k, int32_t slot)
{
	struct play *p = r->play;
	struct holder *h = j ? j->holder : NULL;
	struct play_token *token = &p->token[p->tokens++];
	bool again = h && h->read + (size_t)k < h->memory.n;
	uint64_t pad = (uint64_t)p->row[row].first << 20;

	*token = (struct play_token){ .row = row, .write_slot = slot, .chosen = h && play_chosen(r, h->id) };
	if (again) token->key = h->memory.token[h->read + (size_t)k];
	else token->key = token_key(r, h ? h->id : -1, h ? h->drawn++ : pad, token->chosen);
	if (h) token->fed = h->fed++;
	for (int i = 0; i < PARTS; i++)
		setup_token(r->setup, token->key, i,
			r->part[i] + (size_t)t * setup_part_elements(r->setup, i) * dtype_info[r->setup->shape.data].size);
	return again || !h || j->speculative || memory_push(&h->memory, token->key);
}

static bool add_row(struct run *r, const struct executor_step *step, int i)
{
	struct play *p = r->play;
	struct job *j = r->order[i] < 0 ? NULL : &r->job[r->order[i]];
	struct holder *h = j ? j->holder : NULL;
	size_t row = p->rows++;
	int first = step->cu_seqlens[i], n = step->cu_seqlens[i + 1] - first;

	p->row[row] = (struct play_row){ r->step, h ? h->id : -1, h ? step->kinds[i] : ROW_PADDING, h ? (int)h->read : 0,
		h ? h->memory.slot : -1, p->batches, p->tokens, (size_t)n };
	if (h) check_row(r, h, step, i);
	for (int k = 0; k < n; k++) {
		bool stores = h && (j->speculative || k == n - 1);
		int32_t given = step->write_slot[first + k], slot = stores ? claim(r, h, j->speculative, given) : -1;
		if (stores && slot < 0) return false;
		if (!stores && given >= 0)
			breach(p, "tables", r->step, h ? h->id : -1, given, -1, "token %d of %s would be stored in slot %d", k,
				h ? "a prefill" : "padding", given);
		if (!add_token(r, j, row, first + k, k, slot)) return false;
	}
	return true;
}

/* After the batch: whose memory is where. */
static bool settle(struct run *r, size_t first_row, struct error *e)
{
	struct play *p = r->play;

	for (size_t row = first_row; row < p->rows; row++) {
		struct play_row *w = &p->row[row];
		struct holder *h = w->request < 0 ? NULL : model_find(&r->model, w->request);
		struct job *j = r->job;
		if (!h) continue;
		while (j->holder != h) j++;
		size_t stand = j->speculative ? (size_t)j->accepted : w->tokens;
		for (size_t k = 0; k < w->tokens; k++) {
			const struct play_token *t = &p->token[w->first + k];
			if (j->speculative && k < stand && !memory_push(&h->memory, t->key))
				return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "request %d", h->id);
			if (t->write_slot >= 0 && t->write_slot != h->memory.slot && k + 1 != stand) model_let_go(&r->model, t->write_slot);
		}
		if (stand && p->token[w->first + stand - 1].write_slot != h->memory.slot) {
			model_let_go(&r->model, h->memory.slot);
			h->memory.slot = p->token[w->first + stand - 1].write_slot;
		}
		h->read += stand;
		if (j->speculative && !executor_accept(r->x, h->handle, (int)stand, e)) return false;
	}
	return true;
}

/* Slots that no row of the batch writes keep every bit. */
static bool check_slots(struct run *r, size_t first_token, struct error *e)
{
	const struct setup *s = r->setup;
	size_t bytes = setup_slot_bytes(s), states = executor_state_bytes(&s->shape), layers = (size_t)s->shape.layers;
	unsigned char *swap = r->then;
	char owner[64];

	r->then = r->now;
	r->now = swap;
	memcpy(r->now, r->then, (r->model.slots + BEYOND) * bytes);
	for (size_t slot = 0; slot < r->model.slots; slot++) {
		bool written = false;
		unsigned char *now = r->now + slot * bytes, *then = r->then + slot * bytes;
		if (!executor_read(r->x, slot, now, now + states, e)) return false;
		for (size_t t = first_token; t < r->play->tokens; t++) written = written || r->play->token[t].write_slot == (int32_t)slot;
		r->play->slots_kept += !written && !memcmp(now, then, bytes);
		if (written || !memcmp(now, then, bytes)) continue;
		size_t at = 0;
		while (now[at] == then[at]) at++;
		bool ring = at >= states;
		size_t layer = ring ? (at - states) / ((bytes - states) / layers) : at / (states / layers);
		breach(r->play, "untouched", r->step, -1, (int)slot, (int)layer, "no row writes slot %zu (%s), but its %s changed from byte %zu on",
			slot, model_owner(&r->model, (int)slot, owner, sizeof owner), ring ? "ring" : "state", ring ? at - states : at);
		r->play->breach.checkpoint = r->play->breach.slot == (int)slot && !strncmp(owner, "checkpoint", strlen("checkpoint"));
	}
	return true;
}

/* Is all of it as it was before the batch? */
static bool untouched(const unsigned char *y, size_t bytes)
{
	size_t i = 0;

	while (i < bytes && y[i] == UNTOUCHED) i++;
	return i == bytes;
}

/* Keeps the batch's y: padding must not have been touched, and no number may be NaN. What was not touched is kept as zeros. */
static void keep_y(struct run *r, size_t first_token)
{
	struct play *p = r->play;
	size_t n = setup_y_elements(r->setup), size = dtype_info[r->setup->shape.data].size;

	for (size_t t = first_token; t < p->tokens; t++) {
		unsigned char *from = r->y + (t - first_token) * n * size, *to = p->y + t * n * size;
		const struct play_row *row = &p->row[p->token[t].row];
		memcpy(to, from, n * size);
		for (size_t i = 0; i < n; i++) {
			double x;
			dtype_load(r->setup->shape.data, from + i * size, 1, &x);
			int layer = (int)(i / (n / (size_t)r->setup->shape.layers));
			if (row->request < 0 && *(from + i * size) != UNTOUCHED)
				breach(p, "padding", r->step, -1, -1, layer, "y of a padding row was written");
			if (row->request >= 0 && !isfinite(x))
				breach(p, "poison", r->step, row->request, row->read_slot, layer, "y of request %d is %g", row->request, x);
		}
		if (row->request < 0 || untouched(from, n * size)) memset(to, 0, n * size);
	}
}

/* Of each step, with the padding that law batch adds, whichever law it is played for. */
static bool fits(const struct run *r, int rows, int tokens, struct error *e)
{
	const struct executor_shape *s = &r->setup->shape;

	if (rows <= s->max_rows - MOST_PADDED && tokens <= s->max_tokens - MOST_PADDED) return true;
	return error_set(e, E_USAGE, "scenario", NO_OFFSET, "step %d has %d rows and %d tokens, padding included; at most %d and %d", r->step,
		rows, tokens, s->max_rows - MOST_PADDED, s->max_tokens - MOST_PADDED);
}

static bool plan(struct run *r, struct executor_step *step, struct error *e)
{
	struct executor_work work[64];
	int decodes = 0, tokens = 0, n = (int)r->jobs;

	if (r->jobs > (size_t)r->setup->shape.max_rows || r->jobs > 64)
		return error_set(e, E_USAGE, "scenario", NO_OFFSET, "step %d has %zu requests, the executor takes %d rows", r->step, r->jobs, r->setup->shape.max_rows);
	for (int i = 0; i < n && r->how->reverse && i < n / 2; i++) {
		struct job swap = r->job[i];
		r->job[i] = r->job[n - 1 - i];
		r->job[n - 1 - i] = swap;
	}
	for (int i = 0; i < n; i++) {
		struct job *j = &r->job[i];
		if (j->holder->handle < 0 && (j->holder->handle = executor_admit(r->x, -1, e)) < 0) return asks_too_much(r, e);
		work[i] = (struct executor_work){ j->holder->handle, j->tokens, j->speculative };
		decodes += j->holder->memory.slot >= 0 && j->tokens == 1 && !j->speculative;
		tokens += j->tokens;
	}
	int pad = r->pad > decodes ? r->pad : decodes;
	if (!fits(r, n + pad - decodes, tokens + pad - decodes, e)) return false;
	return executor_plan(r->x, work, n, pad + r->how->pad, step, r->order, e) || asks_too_much(r, e);
}

bool run_batch(struct run *r, struct error *e)
{
	struct play *p = r->play;
	struct executor_step step;
	size_t first_row = p->rows, first_token = p->tokens;
	bool replay = r->how->graph == REPLAYED || (r->how->graph == AS_GIVEN && r->replay);

	if (!plan(r, &step, e)) return false;
	if (!sound_rows(r, &step)) {
		breach(p, "tables", r->step, -1, -1, -1, "the step's rows are not the work that was asked for");
		return true;
	}
	if (!record_room(r, &step)) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "the record of a play");
	for (int i = 0; i < step.rows; i++)
		if (!add_row(r, &step, i)) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "the record of a play");
	if (p->breach.law && !r->how->keep_going) return true;
	memset(r->y, UNTOUCHED, (size_t)step.tokens * setup_y_elements(r->setup) * dtype_info[r->setup->shape.data].size);
	struct executor_data data = { r->part[PART_X], r->part[PART_Z], r->part[PART_A], r->part[PART_B], r->y };
	if (!executor_run(r->x, &data, replay, e)) return false;
	keep_y(r, first_token);
	p->batches++;
	return check_slots(r, first_token, e) && settle(r, first_row, e);
}
