/* Plays a scenario on an executor, step by step. */
#define _GNU_SOURCE     /* qsort_r */
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "isolate_step.h"

/* A multiple of PARTS: setup_token adds the part. */
uint64_t token_key(const struct run *r, int request, uint64_t number, bool chosen)
{
	uint64_t content = chosen ? 0 : r->how->content;

	return random_mix(random_mix(random_mix(r->setup->seed + 1) + (uint64_t)(request + 2)) + number + (content << 32)) & ~(uint64_t)(PARTS - 1);
}

static bool links(const struct event *event) { return event->kind == EVENT_FORK || event->kind == EVENT_CHECKPOINT; }

/* Whatever may share a memory, through requests and checkpoints that stand in several events, too: one family. */
static bool find_families(struct run *r)
{
	const struct scenario *s = r->scenario;
	bool again = true;

	if (!(r->family = malloc((s->n + 1) * sizeof *r->family))) return false;
	for (size_t i = 0; i < s->n; i++) r->family[i] = links(&s->event[i]) ? s->event[i].request : NO_FAMILY;
	while (again) {
		again = false;
		for (size_t i = 0; i < s->n; i++)
			for (size_t k = 0; r->family[i] != NO_FAMILY && k < s->n; k++) {
				const struct event *a = &s->event[i], *b = &s->event[k];
				if (r->family[k] <= r->family[i] || (a->request != b->request && a->checkpoint != b->checkpoint)) continue;
				r->family[k] = r->family[i];
				again = true;
			}
	}
	return true;
}

bool play_chosen(const struct run *r, int request)
{
	for (size_t i = 0; i < r->scenario->n; i++)
		if (r->family[i] != NO_FAMILY && r->scenario->event[i].request == request) return r->family[i] % 2 == 0;
	return request % 2 == 0;
}

bool asks_too_much(const struct run *r, struct error *e)
{
	struct error why = *e;

	if (why.code != E_MEMORY) return false;
	return error_set(e, E_USAGE, "scenario", NO_OFFSET, "step %d asks for more than the executor's %zu slots: %s: %s", r->step,
		r->setup->shape.slots, why.item, why.detail);
}

static bool end(struct run *r, struct holder *h, struct error *e)
{
	bool ok = h->handle < 0 || executor_release(r->x, h->handle, e);

	model_drop(&r->model, h);
	return ok;
}

/* Its memory goes; what it had read is still its own. */
static bool preempt(struct run *r, struct holder *h, struct error *e)
{
	if (h->handle >= 0 && !executor_release(r->x, h->handle, e)) return false;
	model_let_go(&r->model, h->memory.slot);
	h->memory.slot = h->handle = -1;
	h->read = 0;
	return true;
}

static bool fork_from(struct run *r, const struct kept *k, int id, struct error *e)
{
	struct holder *h = model_add(&r->model, id);

	if (!memory_copy(&h->memory, &k->memory)) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "request %d", id);
	r->model.uses[k->memory.slot]++;
	h->read = h->memory.n;
	h->handle = executor_admit(r->x, k->handle, e);
	return h->handle >= 0 || asks_too_much(r, e);
}

static bool keep(struct run *r, const struct holder *h, int id, struct error *e)
{
	if (model_find_kept(&r->model, id) || h->memory.slot < 0 || h->read < h->memory.n) return true;
	struct kept *k = model_keep(&r->model, id, h);

	if (!k) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "checkpoint %d", id);
	k->handle = executor_checkpoint(r->x, h->handle, e);
	return k->handle >= 0 || asks_too_much(r, e);
}

/* How many of the wanted tokens a run reads: what a preempted request has to read again comes first, and alone. */
static void add_job(struct run *r, const struct event *event)
{
	struct holder *h = model_find(&r->model, event->request);
	bool again, speculative = event->kind == EVENT_SPECULATE;

	if (!h) h = model_add(&r->model, event->request);
	for (size_t i = 0; i < r->jobs; i++)
		if (r->job[i].holder == h) return;
	size_t behind = h->memory.n - h->read;
	again = behind > 0;
	int n = again && (size_t)event->tokens > behind ? (int)behind : event->tokens;
	int now = r->how->split && !(speculative && !again) ? (n + 1) / 2 : n;
	r->job[r->jobs++] = (struct job){ h, now, n - now, event->accepted, speculative && !again };
}

static bool before_batch(struct run *r, const struct event *event, struct error *e)
{
	struct holder *h = model_find(&r->model, event->request);
	struct kept *k = model_find_kept(&r->model, event->checkpoint);

	switch (event->kind) {
	case EVENT_FORGET:
		if (!k) return true;
		int handle = k->handle;
		model_forget(&r->model, k);
		return executor_forget(r->x, handle, e);
	case EVENT_END: return !h || end(r, h, e);
	case EVENT_PREEMPT: return !h || preempt(r, h, e);
	case EVENT_FORK: return h || !k || fork_from(r, k, event->request, e);
	case EVENT_PAD: r->pad = event->tokens; return true;
	case EVENT_REPLAY: r->replay = true; return true;
	case EVENT_RUN: case EVENT_SPECULATE: add_job(r, event); return true;
	case EVENT_CHECKPOINT: return true;
	}
	return true;
}

static bool play_step(struct run *r, const struct event *event, size_t n, struct error *e)
{
	r->jobs = 0;
	r->pad = 0;
	r->replay = false;
	for (size_t i = 0; i < n; i++) {
		bool request = event[i].kind != EVENT_PAD && event[i].kind != EVENT_REPLAY && event[i].kind != EVENT_FORGET;
		if (request && r->how->alone && !play_chosen(r, event[i].request)) continue;
		if (!before_batch(r, &event[i], e)) return false;
	}
	while (r->jobs) {
		if (!run_batch(r, e)) return false;
		if (r->play->breach.law && !r->how->keep_going) return true;
		size_t left = 0;
		for (size_t i = 0; i < r->jobs; i++)
			if (r->job[i].later)
				r->job[left++] = (struct job){ r->job[i].holder, r->job[i].later, 0, 0, false };
		r->jobs = left;
	}
	for (size_t i = 0; i < n; i++) {
		struct holder *h = model_find(&r->model, event[i].request);
		if (event[i].kind == EVENT_CHECKPOINT && h && !keep(r, h, event[i].checkpoint, e)) return false;
	}
	return true;
}

/* A request of its own prefills n tokens, decodes one and ends. */
static bool run_before(struct run *r, int n, struct error *e)
{
	const struct setup *s = r->setup;
	struct executor_data data = { r->part[PART_X], r->part[PART_Z], r->part[PART_A], r->part[PART_B], r->y };
	int request = executor_admit(r->x, -1, e);
	bool ok = request >= 0;

	for (int tokens = n; ok && tokens > 0; tokens = tokens > 1 ? 1 : 0) {
		struct executor_work work = { request, tokens, false };
		struct executor_step step;
		for (int t = 0; t < tokens; t++)
			for (int i = 0; i < PARTS; i++)
				setup_token(s, token_key(r, -3, (uint64_t)(n + t), true), i,
					r->part[i] + (size_t)t * setup_part_elements(s, i) * dtype_info[s->shape.data].size);
		ok = executor_plan(r->x, &work, 1, 0, &step, r->order, e) && executor_run(r->x, &data, false, e);
	}
	return ok && executor_release(r->x, request, e);
}

static bool poison_all(struct run *r, struct error *e)
{
	const struct setup *s = r->setup;
	size_t bytes = setup_slot_bytes(s), states = executor_state_bytes(&s->shape);

	for (size_t slot = 0; slot < r->model.slots + BEYOND; slot++) {
		unsigned char *to = r->play->before + slot * bytes;
		setup_poison(s, r->how->poison, (int)slot, (int)slot == r->how->marked, to, to + states);
		if (slot < r->model.slots && !executor_write(r->x, slot, to, to + states, e)) return false;
	}
	memcpy(r->now, r->play->before, (r->model.slots + BEYOND) * bytes);
	return true;
}

/* Memory that the executor has misplaced is read where it has it. */
static bool read_after(struct run *r, struct error *e)
{
	size_t bytes = setup_slot_bytes(r->setup), states = executor_state_bytes(&r->setup->shape);

	memcpy(r->play->after, r->now, (r->model.slots + BEYOND) * bytes);
	for (size_t i = 0; i < r->model.holders; i++) {
		const struct holder *h = &r->model.holder[i];
		if (h->id < 0 || h->memory.slot < (int)r->model.slots || executor_slot(r->x, h->handle) < 0) continue;
		unsigned char *to = r->play->after + (size_t)h->memory.slot * bytes;
		if (!executor_read(r->x, (size_t)executor_slot(r->x, h->handle), to, to + states, e)) return false;
	}
	return true;
}

static bool run(struct run *r, struct error *e)
{
	const struct scenario *s = r->scenario;

	if (!find_families(r)) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "%zu events", s->n);
	if ((r->how->before && !run_before(r, r->how->before, e)) || !poison_all(r, e)) return false;
	for (size_t i = 0, last; i < s->n; i = last) {
		for (last = i; last < s->n && s->event[last].step == s->event[i].step; last++) {}
		r->step = s->event[i].step;
		if (!play_step(r, s->event + i, last - i, e)) return false;
		if (r->play->breach.law && !r->how->keep_going) break;
	}
	struct error guard;
	if (!executor_guards(r->x, &guard)) {
		if (guard.code != E_VALUE) return *e = guard, false;
		breach(r->play, "guards", -1, -1, -1, -1, "%s: %s", guard.item, guard.detail);
	}
	return read_after(r, e);
}

static int by_request(const void *a, const void *b, void *play)
{
	const struct play *of = play;
	const struct play_token *x = &of->token[*(const size_t *)a], *y = &of->token[*(const size_t *)b];
	int p = of->row[x->row].request, q = of->row[y->row].request;

	return p != q ? (p < q ? -1 : 1) : x->fed < y->fed ? -1 : x->fed > y->fed;
}

/* The tokens of requests, by request and in the order in which they were fed. */
static bool run_order(struct run *r, struct error *e)
{
	struct play *p = r->play;

	if (!(p->order = malloc((p->tokens + 1) * sizeof *p->order)))
		return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "the record of a play");
	for (size_t t = 0; t < p->tokens; t++)
		if (p->row[p->token[t].row].request >= 0) p->order[p->fed++] = t;
	qsort_r(p->order, p->fed, sizeof *p->order, by_request, p);
	return true;
}

bool play_make(struct play *p, const struct setup *s, const struct scenario *scenario, const struct play_how *how, struct error *e)
{
	struct run r = { .setup = s, .scenario = scenario, .how = how, .play = p };

	*p = (struct play){ .setup = s, .slots = s->shape.slots + BEYOND };
	bool ok = run_open(&r, e) && run(&r, e) && run_order(&r, e);
	run_close(&r);
	if (!ok) play_free(p);
	return ok;
}

void play_free(struct play *p)
{
	free(p->row);
	free(p->token);
	free(p->y);
	free(p->before);
	free(p->after);
	free(p->order);
	*p = (struct play){ 0 };
}
