/* Runs the pieces of a reference, in parallel. */
#include <math.h>
#include <omp.h>
#include <string.h>
#include <stdlib.h>

#include "checkpoint.h"
#include "ref/arith/calc_private.h"
#include "op.h"
#include "ref/ranks/ranks.h"
#include "share.h"

struct plan plan_plain(const struct arith *a, int bits)
{
	return (struct plan){ .arith = a, .bits = bits };
}

bool answer_make(struct answer *a, const size_t count[MAX_OUT], bool wide)
{
	*a = (struct answer){ 0 };
	for (int i = 0; i < MAX_OUT; i++) {
		if (!count[i]) continue;
		if (!(a->hi[i] = calloc(count[i], sizeof(double)))) return false;
		if (wide && !(a->lo[i] = calloc(count[i], sizeof(double)))) return false;
	}
	return true;
}

void answer_free(struct answer *a)
{
	for (int i = 0; i < MAX_OUT; i++) {
		free(a->hi[i]);
		free(a->lo[i]);
	}
	*a = (struct answer){ 0 };
}

/* What n calcs of one plan do: each piece has a random stream of its own, so that threads do not matter. */
struct work { void (*part)(calc *c, size_t i, void *with); void *with; span range; size_t stride; uint64_t seed; struct share *share; };

static bool run_piece(calc *c, const struct work *w, size_t piece)
{
	c->noise = random_at(w->seed + piece);
	c->used = 0;
	c->piece = piece;
	if (setjmp(c->no_memory)) return false;
	w->part(c, piece, w->with);
	return true;
}

static void op_piece(calc *c, size_t piece, void *with)
{
	(void)with;
	c->call->op->forms[c->plan->form].piece(c, piece);
}

static bool is_shared(const struct work *w) { return w->share && w->share->mine; }
/* All pieces run, or every stride-th, or those of this rank. */
static bool is_chosen(const struct work *w, size_t i)
{
	return is_shared(w) ? w->share->mine[i - w->range.first] : w->stride <= 1 || i % w->stride == 0;
}

/* What threads share that run pieces by calcs which begin as `first`. operations: those of elements, added up. */
struct team { const calc *first; const struct work *w; uint64_t *operations; size_t done; bool ok; };

static void begin(calc *c, const struct team *t)
{
	*c = *t->first;
	if (is_shared(t->w)) c->log = calloc(1, sizeof *c->log);
	if (c->arith->enter) c->arith->enter(c);
}

static void take_part(calc *c, struct team *t, size_t i)
{
	const struct work *w = t->w;
	bool go;

	#pragma omp atomic read
	go = t->ok;
	if (!go || !is_chosen(w, i)) return;
	if ((is_shared(w) && !c->log) || !run_piece(c, w, i)) {
		#pragma omp atomic write
		t->ok = false;
	}
	if (c->plan->tick && w->part == op_piece) {
		size_t all = w->range.last - w->range.first;
		#pragma omp critical
		{
			size_t done = ++t->done * (is_shared(w) ? (size_t)ranks_count() : 1);   /* the others are about as far */
			c->plan->tick(c->plan->stage, done < all ? done : all, all);
		}
	}
}

static void end(calc *c, struct team *t)
{
	if (c->arith->leave) c->arith->leave(c);
	#pragma omp atomic
	*t->operations += c->work;
	if (c->log) {
		#pragma omp critical
		log_take(&t->w->share->log, c->log);
	}
	free(c->log);
	calc_free(c);
}

/* How many run, and the first of them. */
static size_t chosen(const struct work *w, size_t *first)
{
	size_t n = 0;

	for (size_t i = w->range.last; i-- > w->range.first;)
		if (is_chosen(w, i)) n++, *first = i;
	return n;
}

/* False when memory is short. A piece alone runs outside of any team: within one, even of one thread, each of its stages would
 * start threads of its own and end them, and the others would wait for it. */
static bool run(const calc *first, const struct work *w, uint64_t *operations)
{
	struct team t = { first, w, operations, 0, true };
	size_t alone;

	if (chosen(w, &alone) == 1) {
		calc c;
		begin(&c, &t);
		c.together = w->share && w->share->together;
		take_part(&c, &t, alone);
		end(&c, &t);
		return t.ok;
	}
	#pragma omp parallel
	{
		calc c;
		begin(&c, &t);
		#pragma omp for schedule(dynamic)
		for (size_t i = w->range.first; i < w->range.last; i++) take_part(&c, &t, i);
		end(&c, &t);
	}
	return t.ok;
}

void c_stage(calc *c, size_t n, void (*part)(calc *d, size_t i, void *with), void *with)
{
	struct work w = { part, with, { 0, n }, 0, random_at(c->noise++), NULL };
	calc first = { .arith = c->arith, .bits = c->bits, .call = c->call, .plan = c->plan, .judged = c->judged,
		.answer = c->answer, .program = c->program, .strip = c->strip, .element = c->element };

	if (!run(&first, &w, &c->work)) longjmp(c->no_memory, 1);
	if (c->arith->enter) c->arith->enter(c);        /* the thread that goes on has left it */
}

/* The same, shared out among ranks. */
static bool run_shared(const calc *first, struct work *w, uint64_t *operations)
{
	struct share s;
	uint64_t made = 0;
	bool ok = share_begin(&s, first, w->range, w->stride);

	w->share = &s;
	ok = ok && run(first, w, &made);
	w->share = NULL;
	return share_end(&s, ok, made, operations);
}

static bool no_memory(const struct call *call, const struct plan *p, struct error *e)
{
	return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "running the reference in %s", p->arith->name);
}

/* What is wrong is so in a fault that the plan makes. */
static bool in_fault(const struct op *op, const struct plan *p, struct error *e)
{
	char detail[sizeof e->detail], name[64];
	int m = 0;

	if (!e || !p->faults || !plan_impossible(p, e)) return false;
	while (!(p->faults >> m & 1)) m++;
	fault_said(op, m, p->value[m], name, sizeof name);
	memcpy(detail, e->detail, sizeof detail);
	snprintf(e->detail, sizeof e->detail, "in the fault %s: %.*s", name, (int)(sizeof detail - sizeof name - 16), detail);
	return false;
}

/* An integer output has whole numbers, or none. */
static bool are_whole(const struct call *call, const struct strip *s, const struct answer *a, struct error *e)
{
	for (int i = 0; i < MAX_OUT && call->op->out[i].name; i++)
		for (size_t j = 0; call->op->out[i].flags & INTEGER && a->hi[i] && j < s->count[i]; j++) {
			double x = a->hi[i][j], lo = a->lo[i] ? a->lo[i][j] : 0;
			if (!isfinite(x) || (x == floor(x) && lo == floor(lo))) continue;
			error_set(e, E_FORMULA, NULL, NO_OFFSET, "expected whole numbers for %s, an integer output; element %zu is %.17g", call->op->out[i].name,
				s->first[i] + j, x + lo);
			return error_in_file(e, call->op->file ? call->op->file : call->op->name);
		}
	return true;
}

/* One strip, into *a. */
static bool run_strip(const struct call *call, struct stream *l, const struct strip *s, struct answer *a, struct error *e)
{
	const struct plan *p = &l->plan;
	const struct cut *cut = call->op->cut;
	span range = cut ? cut->pieces(call, s->along) : (span){ 0, call->op->pieces(call) };
	struct carried_state to = { range, calloc(range.last - range.first + 1, sizeof *to.kept) };
	struct work w = { op_piece, NULL, range, call->op->holds ? 1 : p->stride, random_at(p->seed), NULL };
	calc first = { .arith = p->arith, .bits = p->bits, .call = call, .plan = p, .judged = p->judged, .answer = a,
		.strip = s, .from = &l->carried, .to = &to };

	if (!to.kept) return no_memory(call, p, e);
	if (call->op->prepare && !(first.program = call->op->prepare(call, p, e))) {
		free(to.kept);
		return in_fault(call->op, p, e);
	}
	first.element = p->arith->size(&first);
	bool ok = true, beside = first.program && call->op->runs && !cut, more = true;
	for (; ok && more; w.range.first = w.range.last) {
		if (beside) w.range.last = call->op->runs(first.program, w.range.first);
		more = beside && w.range.last > w.range.first;
		if (!beside || more) ok = run_shared(&first, &w, &a->work) || no_memory(call, p, e);
	}
	if (first.program) ok = (call->op->finish(first.program, s, p, ok, e) && are_whole(call, s, a, e)) || in_fault(call->op, p, e);
	size_t next = l->next;
	stream_end(l);
	l->carried = to;
	l->next = next + 1;
	return ok;
}

void stream_end(struct stream *l)
{
	for (size_t i = 0; l->carried.kept && i < l->carried.pieces.last - l->carried.pieces.first; i++) free(l->carried.kept[i].bytes);
	free(l->carried.kept);
	l->carried = (struct carried_state){ 0 };
	l->next = 0;
}

bool ref_strip(const struct call *call, struct stream *l, size_t i, size_t n, struct answer *a, struct error *e)
{
	bool ok = true;

	if (i < l->next) stream_end(l);
	while (ok && l->next <= i) {
		struct strip s = call_strip(call, l->next, n);
		for (int o = 0; o < MAX_OUT; o++) {
			if (a->hi[o]) memset(a->hi[o], 0, s.count[o] * sizeof(double));
			if (a->lo[o]) memset(a->lo[o], 0, s.count[o] * sizeof(double));
		}
		ok = run_strip(call, l, &s, a, e);
	}
	return ok;
}

bool ref_run(const struct call *call, const struct plan *p, struct answer *a, struct error *e)
{
	struct stream l = { .plan = *p };
	bool ok = answer_make(a, call->out_count, p->arith->wide) || no_memory(call, p, e), found = false;
	bool keeps = p->keep && checkpoint_is_open() && !omp_in_parallel();
	char key[SHA256_TEXT];

	ok = ok && (!keeps || checkpoint_find(call, p, a, key, &found, e));
	if (ok && !found) ok = ref_strip(call, &l, 0, 1, a, e) && (!keeps || checkpoint_keep(call, a, key, e));
	stream_end(&l);
	if (!ok) answer_free(a);
	return ok;
}
