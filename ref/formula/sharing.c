/* What ranks that share out a program's pieces tell each other of it. */
#include "formula_private.h"
#include "ref/arith/calc_private.h"
#include "run.h"

#include <stdlib.h>

/* ---- how much there is to do in a piece: steps, those in a loop as often as it has indices ---- */
static bool is_known(const struct ix *x) { return x->kind == IX_NUMBER; }

static bool differ(const struct step *s)
{
	for (; s; s = s->next) {
		if (s->kind != STEP_LOOP) continue;
		if (s->loop->cuts >= 0 || !is_known(s->loop->first) || !is_known(s->loop->last) || differ(s->loop->body)) return true;
	}
	return false;
}

/* Of the loops in each other as in their first turn. */
static double load_of(struct frame *f, const struct step *s)
{
	double load = 0;

	for (; s; s = s->next) {
		span all = { 0, 0 };
		load++;
		if (s->kind != STEP_LOOP || !run_ends(f, s, &all) || all.first >= all.last) continue;
		run_turn(f, s->loop, all.first, all);
		load += (double)(all.last - all.first) * load_of(f, s->loop->body);
	}
	return load;
}

static bool loads_of(struct program *p, calc *c, span range, double *load)
{
	if (setjmp(c->no_memory)) return false;
	for (size_t i = range.first; i < range.last; i++) {
		struct frame f;
		c->used = 0;
		run_begin(&f, p, c, i);
		load[i - range.first] = load_of(&f, f.p->step);
	}
	return true;
}

/* Pieces of these programs from `at` on, which is the first one's first. */
static bool any_differs(const struct program *p, size_t first, size_t last)
{
	size_t at = 0;

	for (; p; at += p->pieces, p = p->next)
		if (at < last && at + p->pieces > first && differ(p->step)) return true;
	return false;
}

static bool loads(struct program *p, const calc *like, span range, double *load)
{
	if (!any_differs(p, range.first, range.last)) return false;
	calc c = { .arith = like->arith, .bits = like->bits, .call = like->call, .plan = like->plan, .strip = like->strip, .program = p,
		.element = like->element };
	bool failed = p->failed, ok = loads_of(p, &c, range, load);

	calc_free(&c);
	return ok && p->failed == failed;
}

/* ---- what it holds, what was stored, what went wrong ---- */
static void held(struct program *p, double *hi[MAX_HELD], double *lo[MAX_HELD])
{
	for (int i = 0; i < p->n_held; i++) hi[i] = p->held[i].values.hi, lo[i] = p->held[i].values.lo;
}

static void stored(const struct program *p, size_t n[MAX_OUT + MAX_HELD])
{
	for (int i = 0; i < p->n_held; i++) n[MAX_OUT + i] = p->held[i].stored;
	for (int i = 0; i < MAX_OUT; i++) n[i] = 0;
	for (; p; p = p->next)
		for (int i = 0; i < MAX_OUT; i++) n[i] += p->stored[i];
}

static void add_stored(struct program *p, const size_t n[MAX_OUT + MAX_HELD])
{
	for (int i = 0; i < p->n_held; i++) p->held[i].stored += n[MAX_OUT + i];
	for (int i = 0; i < MAX_OUT; i++) p->stored[i] += n[i];
}

static bool failed(const struct program *p, struct error *e)
{
	while (p && !p->failed) p = p->next;
	if (p) *e = p->error;
	return p;
}

static void fail(struct program *p, const struct error *e)
{
	p->error = *e;
	p->failed = true;
	while ((p = p->next)) p->failed = false;
}

const struct sharing formula_sharing = { loads, held, stored, add_stored, failed, fail };
