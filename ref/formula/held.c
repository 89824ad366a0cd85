/* What pieces store for those behind them: tensors of the call's sizes, in pairs of doubles where the arithmetic is wide; and what ranks
 * that share out the pieces tell each other of it. */
#include "formula_private.h"
#include "lower.h"
#include "ref/arith/calc_private.h"
#include "run.h"

#include <math.h>
#include <stdlib.h>

#define NEXT(x) ((void *)(x)->d.next)

bool held_make(struct lower *l)
{
	for (const struct tensor_decl *t = l->t->held; t; t = NEXT(t)) l->n_held++;
	if (!l->n_held) return true;
	const struct node at = { .line = l->t->held->d.line, .column = l->t->held->d.column };
	if (l->n_held > MAX_HELD) return low_error(l, &at, "expected at most %d tensors that are held", MAX_HELD);
	struct held *h = l->of_held = calloc((size_t)l->n_held, sizeof *h);
	if (!h) return error_set(l->e, E_MEMORY, l->t->path, NO_OFFSET, "preparing a formula");
	for (const struct tensor_decl *t = l->t->held; t; t = NEXT(t), h++) {
		h->of = t;
		h->rank = call_shape(l->call, t->shape, h->shape);
		h->count = 1;
		for (int i = 0; i < h->rank; i++) h->count *= h->shape[i];
	}
	return true;
}

void held_free(struct held *h, int n)
{
	for (int i = 0; h && i < n; i++) {
		free(h[i].values.hi);
		free(h[i].values.lo);
	}
	free(h);
}

/* What any of the pieces stores */
static uint32_t written(const struct program *p)
{
	uint32_t writes = 0;

	for (; p; p = p->next) writes |= p->writes;
	return writes;
}

bool program_hold(struct program *p, const struct plan *plan, struct error *e)
{
	uint32_t writes = written(p);

	for (int i = 0; i < p->n_held; i++) {
		struct held *h = &p->held[i];
		if (!(writes >> i & 1) || !h->count) continue;
		h->values = (field){ calloc(h->count, sizeof(double)), plan->arith->wide ? calloc(h->count, sizeof(double)) : NULL, 1, h->count };
		if (!h->values.hi || (plan->arith->wide && !h->values.lo))
			return error_set(e, E_MEMORY, h->of->d.name, NO_OFFSET, "%zu numbers between pieces", h->count);
	}
	return true;
}

size_t program_beside(const struct program *p, size_t first)
{
	uint32_t written = 0;
	size_t n = 0;

	for (; p && n + p->pieces <= first; p = p->next) n += p->pieces;
	for (; p && !(p->reads & written); p = p->next) {
		n += p->pieces;
		written |= p->writes;
	}
	return n;
}

/* Was each element of what is held stored once? */
bool held_done(const struct program *p, struct error *e)
{
	uint32_t writes = written(p);

	for (int i = 0; i < p->n_held; i++) {
		const struct held *h = &p->held[i];
		if (!(writes >> i & 1) || h->stored == h->count) continue;
		return formula_error(e, p->path, h->of->d.line, h->of->d.column, "expected that each element of %s is stored once; %zu of %zu are",
			h->of->d.name, h->stored, h->count);
	}
	return true;
}

static void load(struct frame *f, int held, size_t at, size_t step, vec x, void *with)
{
	(void)with;
	c_get(f->c, x, f->p->held[held].values, at, step);
}

static void store(struct frame *f, int held, size_t at, size_t step, vec x, void *with)
{
	(void)with;
	c_put(f->c, f->p->held[held].values, at, step, x);
	c_wrote(f->c, MAX_OUT + held, at, step, x.n);
	f->stored[MAX_OUT + held] += x.n;
}

/* What messages say of it */
static struct tensor_spec spec_of(const struct frame *f, const struct slice *s)
{
	const struct tensor_decl *of = f->p->held[s->tensor].of;

	return (struct tensor_spec){ .name = of->d.name, .shape = of->shape };
}

void run_held(struct frame *f, const struct slice *s, vec y, bool stores)
{
	struct tensor_spec of = spec_of(f, s);

	if (!run_lines(f, s, &of, y, stores ? store : load, NULL) && !stores) c_set(f->c, y, (double)NAN);
}

/* Is it in one piece there, from *at on? */
static bool in_one(struct frame *f, const struct slice *s, size_t n, size_t *at)
{
	int last = s->n_kept ? s->kept[s->n_kept - 1] : 0;
	size_t inner = s->n_kept ? s->axis[last].stride * s->axis[last].step : 1;
	size_t outer = s->n_kept == 2 ? s->axis[s->kept[0]].stride * s->axis[s->kept[0]].step : 0;

	if (!n || s->gather || inner != 1 || (s->n_kept == 2 && outer != len_now(f, s->axis[last].len))) return false;
	struct tensor_spec of = spec_of(f, s);
	return run_offset(f, s, &of, at);
}

vec run_held_in_place(struct frame *f, const struct slice *s, size_t n)
{
	const field *all = &f->p->held[s->tensor].values;
	size_t at;

	if (!s->held || !in_one(f, s, n, &at)) return (vec){ 0 };
	return flat(c_matrix(f->c, (field){ all->hi + at, all->lo ? all->lo + at : NULL, 1, n }));
}

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
static void holds(struct program *p, double *hi[MAX_HELD], double *lo[MAX_HELD])
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

const struct sharing formula_sharing = { loads, holds, stored, add_stored, failed, fail };
