/* Runs the pieces of a reference, in parallel. */
#include <string.h>
#include <stdlib.h>

#include "calc_private.h"

struct plan plan_plain(const struct arith *a, int bits)
{
	return (struct plan){ .arith = a, .bits = bits };
}

void plan_contract(struct plan *p, const struct contract *k)
{
	p->form = k->form;
	p->chunk = k->chunk;
	memcpy(p->round, k->site, sizeof p->round);
}

void plan_mistake(struct plan *p, const struct op *op, int mistake)
{
	const struct mistake_spec *m = &op->mistakes[mistake];

	if (m->form > 0) p->form = m->form;
	if (m->is_rounding) p->round[m->site] = (struct site_rounding){ true, m->format, ROUND_NEAREST_EVEN };
	else p->mistakes |= UINT64_C(1) << mistake;
	if (op->forms[p->form].chunked && !p->chunk) p->chunk = DEFAULT_CHUNK;
}

static bool answer_make(struct answer *a, const struct call *call, bool wide)
{
	*a = (struct answer){ 0 };
	for (int i = 0; i < MAX_OUT; i++) {
		size_t n = call->out_count[i];
		if (!n) continue;
		if (!(a->hi[i] = calloc(n, sizeof(double)))) return false;
		if (wide && !(a->lo[i] = calloc(n, sizeof(double)))) return false;
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
struct work { void (*part)(calc *c, size_t i, void *with); void *with; size_t n, stride; uint64_t seed; };

static bool run_piece(calc *c, const struct work *w, size_t piece)
{
	c->noise = random_at(w->seed + piece);
	c->used = 0;
	c->scope = NULL;
	if (setjmp(c->no_memory)) return false;
	w->part(c, piece, w->with);
	return true;
}

static void op_piece(calc *c, size_t piece, void *with)
{
	(void)with;
	c->call->op->forms[c->plan->form].piece(c, piece);
}

static void calc_free(calc *c)
{
	for (struct block *b = c->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(c->buffer);
}

/* What threads share that run pieces by calcs which begin as `first`. operations: those of elements, added up. */
struct team { const calc *first; const struct work *w; uint64_t *operations; size_t done; bool ok; };

static void begin(calc *c, const struct team *t)
{
	*c = *t->first;
	if (c->arith->enter) c->arith->enter(c);
}

static void take_part(calc *c, struct team *t, size_t i)
{
	const struct work *w = t->w;
	bool go;

	#pragma omp atomic read
	go = t->ok;
	if (!go || (w->stride > 1 && i % w->stride)) return;
	if (!run_piece(c, w, i)) {
		#pragma omp atomic write
		t->ok = false;
	}
	if (c->plan->tick && w->part == op_piece) {
		#pragma omp critical
		c->plan->tick(++t->done, w->n);
	}
}

static void end(calc *c, struct team *t)
{
	if (c->arith->leave) c->arith->leave(c);
	#pragma omp atomic
	*t->operations += c->work;
	calc_free(c);
}

/* False when memory is short. A piece alone runs outside of any team: within one, even of one thread, each of its stages would
 * start threads of its own and end them. */
static bool run(const calc *first, const struct work *w, uint64_t *operations)
{
	struct team t = { first, w, operations, 0, true };

	if (w->n == 1) {
		calc c;
		begin(&c, &t);
		take_part(&c, &t, 0);
		end(&c, &t);
		return t.ok;
	}
	#pragma omp parallel
	{
		calc c;
		begin(&c, &t);
		#pragma omp for schedule(dynamic)
		for (size_t i = 0; i < w->n; i++) take_part(&c, &t, i);
		end(&c, &t);
	}
	return t.ok;
}

void c_stage(calc *c, size_t n, void (*part)(calc *d, size_t i, void *with), void *with)
{
	struct work w = { part, with, n, 0, random_at(c->noise++) };
	calc first = { .arith = c->arith, .bits = c->bits, .call = c->call, .plan = c->plan, .answer = c->answer,
		.element = c->element };

	if (!run(&first, &w, &c->work)) longjmp(c->no_memory, 1);
	if (c->arith->enter) c->arith->enter(c);        /* the thread that goes on has left it */
}

bool ref_run(const struct call *call, const struct plan *p, struct answer *a, struct error *e)
{
	struct work w = { op_piece, NULL, call->op->pieces(call), p->stride, random_at(p->seed) };
	calc first = { .arith = p->arith, .bits = p->bits, .call = call, .plan = p, .answer = a };

	first.element = p->arith->size(&first);
	if (answer_make(a, call, p->arith->wide) && run(&first, &w, &a->work)) return true;
	answer_free(a);
	return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "running the reference in %s", p->arith->name);
}
