#include "scenario.h"

#include <stdlib.h>

#include "fixtures/io/random.h"

struct request { int id, prompt, output, fed; };        /* tokens to read still, to write still, and in its memory */
struct draw {
	struct scenario *s;
	size_t room;
	uint64_t state;
	int step, ids, checkpoint_ids, live, checkpoints;
	struct request request[LIVE_REQUESTS];
	int checkpoint[LIVE_CHECKPOINTS], prefix[LIVE_CHECKPOINTS];
	bool no_memory;
};

/* In 0 .. n-1. */
static int below(struct draw *d, int n)
{
	return (int)(random_next(&d->state) >> 33) % n;
}

static bool chance(struct draw *d, int percent) { return below(d, 100) < percent; }

static void add(struct draw *d, struct event event)
{
	if (d->s->n == d->room) {
		size_t room = d->room ? 2 * d->room : 256;
		struct event *more = realloc(d->s->event, room * sizeof *more);
		if (!more) {
			d->no_memory = true;
			return;
		}
		d->s->event = more;
		d->room = room;
	}
	event.step = d->step;
	d->s->event[d->s->n++] = event;
}

/* One token often enough: a prefill of one is a trap. */
static int prompt_length(struct draw *d)
{
	return chance(d, 20) ? 1 : chance(d, 40) ? 2 + below(d, 3) : 5 + below(d, 36);
}

static void leave(struct draw *d)
{
	for (int i = 0; i < d->checkpoints; i++) {
		if (!chance(d, 4)) continue;
		add(d, (struct event){ .kind = EVENT_FORGET, .checkpoint = d->checkpoint[i] });
		d->checkpoint[i] = d->checkpoint[--d->checkpoints];
		d->prefix[i] = d->prefix[d->checkpoints];
	}
	for (int i = 0; i < d->live; i++) {
		if (d->request[i].output > 0) continue;
		add(d, (struct event){ .kind = EVENT_END, .request = d->request[i].id });
		d->request[i--] = d->request[--d->live];
	}
	for (int i = 0; i < d->live; i++) {
		struct request *r = &d->request[i];
		if (!r->fed || !chance(d, 2)) continue;
		add(d, (struct event){ .kind = EVENT_PREEMPT, .request = r->id });
		r->prompt += r->fed;
		r->fed = 0;
	}
}

static void arrive(struct draw *d)
{
	if (d->live == LIVE_REQUESTS || !(d->live == 0 || chance(d, 30))) return;
	struct request *r = &d->request[d->live++];

	*r = (struct request){ d->ids++, prompt_length(d), 1 + below(d, 30), 0 };
	if (!d->checkpoints || !chance(d, 40)) return;
	int c = below(d, d->checkpoints);
	add(d, (struct event){ .kind = EVENT_FORK, .request = r->id, .checkpoint = d->checkpoint[c] });
	r->fed = d->prefix[c];
}

static void work(struct draw *d, struct request *r)
{
	struct event event = { .kind = EVENT_RUN, .request = r->id, .tokens = 1 };

	if (chance(d, 10)) return;
	if (r->prompt) {
		int most = 1 + below(d, CHUNK);
		event.tokens = most < r->prompt ? most : r->prompt;
		r->prompt -= event.tokens;
		r->fed += event.tokens;
	} else {
		if (chance(d, 25)) {
			event.kind = EVENT_SPECULATE;
			event.tokens = 1 + below(d, DRAFTS);
		}
		event.accepted = event.kind == EVENT_SPECULATE ? below(d, event.tokens + 1) : 1;
		r->fed += event.accepted;
		r->output -= event.accepted;
	}
	add(d, event);
}

static void keep(struct draw *d)
{
	for (int i = 0; i < d->live && d->checkpoints < LIVE_CHECKPOINTS; i++) {
		if (!d->request[i].fed || !chance(d, 6)) continue;
		add(d, (struct event){ .kind = EVENT_CHECKPOINT, .request = d->request[i].id, .checkpoint = d->checkpoint_ids });
		d->checkpoint[d->checkpoints] = d->checkpoint_ids++;
		d->prefix[d->checkpoints++] = d->request[i].fed;
	}
}

/* Each step's events are added in the order of their kinds. */
bool scenario_draw(struct scenario *s, uint64_t seed, int steps, struct error *e)
{
	struct draw d = { .s = s, .state = seed * UINT64_C(0xd1342543de82ef95) + 1 };
	static const int padded[] = { 0, 0, 1, 4, MOST_PADDED };

	*s = (struct scenario){ .steps = steps };
	for (d.step = 0; d.step < steps; d.step++) {
		int pad = padded[below(&d, 5)];
		leave(&d);
		arrive(&d);
		if (pad) add(&d, (struct event){ .kind = EVENT_PAD, .tokens = pad });
		if (chance(&d, 60)) add(&d, (struct event){ .kind = EVENT_REPLAY });
		for (int i = 0; i < d.live; i++) work(&d, &d.request[i]);
		keep(&d);
	}
	if (!d.no_memory) return true;
	scenario_free(s);
	return error_set(e, E_MEMORY, "scenario", NO_OFFSET, "%d steps", steps);
}

void scenario_stretch(struct scenario *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->event[i].kind == EVENT_RUN && s->event[i].tokens > 1) s->event[i].tokens *= STRETCH;
}

static bool acts(const struct event *event) { return event->kind != EVENT_PAD && event->kind != EVENT_REPLAY; }

bool scenario_select(struct scenario *to, const struct scenario *from, const bool *keep, struct error *e)
{
	*to = (struct scenario){ .event = malloc((from->n + 1) * sizeof *to->event) };
	if (!to->event) return error_set(e, E_MEMORY, "scenario", NO_OFFSET, "%zu events", from->n);
	for (size_t i = 0; i < from->n;) {
		size_t first = to->n, end = i;
		bool any = false;
		for (; end < from->n && from->event[end].step == from->event[i].step; end++) any = any || (keep[end] && acts(&from->event[end]));
		for (; i < end; i++)
			if (keep[i] && any) to->event[to->n++] = from->event[i];
		for (size_t k = first; k < to->n; k++) to->event[k].step = to->steps;
		to->steps += any;
	}
	return true;
}

void scenario_free(struct scenario *s)
{
	free(s->event);
	*s = (struct scenario){ 0 };
}
