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

/* Each piece has a random stream of its own, so that threads do not matter. */
static bool run_piece(calc *c, size_t piece)
{
	c->noise = random_at(random_at(c->plan->seed) + piece);
	c->used = 0;
	c->scope = NULL;
	if (setjmp(c->no_memory)) return false;
	c->call->op->forms[c->plan->form].piece(c, piece);
	return true;
}

static void calc_free(calc *c)
{
	for (struct block *b = c->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(c->buffer);
}

bool ref_run(const struct call *call, const struct plan *p, struct answer *a, struct error *e)
{
	size_t pieces = call->op->pieces(call), done = 0;
	bool ok = answer_make(a, call, p->arith->wide);

	#pragma omp parallel if (pieces > 1)
	{
		calc c = { .arith = p->arith, .bits = p->bits, .call = call, .plan = p, .answer = a };
		c.element = p->arith->size(&c);
		if (p->arith->enter) p->arith->enter(&c);
		#pragma omp for schedule(dynamic)
		for (size_t i = 0; i < pieces; i++) {
			bool go;
			#pragma omp atomic read
			go = ok;
			if (!go || (p->stride > 1 && i % p->stride)) continue;
			if (!run_piece(&c, i)) {
				#pragma omp atomic write
				ok = false;
			}
			if (p->tick) {
				#pragma omp critical
				p->tick(++done, pieces);
			}
		}
		if (p->arith->leave) p->arith->leave(&c);
		#pragma omp atomic
		a->work += c.work;
		calc_free(&c);
	}
	if (ok) return true;
	answer_free(a);
	return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "running the reference in %s", p->arith->name);
}
