/* What a candidate answers, where the outputs' elements lie; and does the graph, without roundings, answer what the reference does? */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

struct writing { double *to; const double *from; };

static void write_line(size_t at, size_t step, size_t n, void *with)
{
	struct writing *w = with;

	for (size_t i = 0; i < n; i++, at += step) w->to[at] = *w->from++;
}

static bool answered_by(struct search *s, struct graph *g, const struct candidate *c, double *y[MAX_OUT])
{
	struct lowered l;
	bool ok = lower_in(s, g, c, NULL, &l);
	struct view *v = ok ? view_of(s, g, s->n_stage - 1) : NULL;

	ok = ok && !s->failed && evaluate(&v->v, &l, NULL);
	for (int i = 0; i < g->f.n_put && ok; i++) {
		const struct sym_put *p = &g->f.put[i];
		const struct value *x = put_value(&v->v, &l, l.put[i]);
		const struct stage_turns *t = &v->v.turns;
		ok = x != NULL;
		for (int j = 0; j < t->n[p->in] && ok && y[p->slice->tensor]; j++) {
			struct writing w = { y[p->slice->tensor], value_in(&v->v, x, p->in, j) };
			ok = slice_lines(p->slice, &t->of[p->in][j], write_line, &w);
		}
	}
	return ok;
}

bool answers_make(const struct search *s, double *y[MAX_OUT])
{
	bool ok = true;

	for (int o = 0; o < MAX_OUT && ok; o++)
		if (s->call->out_count[o]) ok = (y[o] = malloc(s->call->out_count[o] * sizeof **y)) != NULL;
	return ok;
}

bool answered_in(struct search *s, struct graph *g, const struct candidate *c, double *y[MAX_OUT])
{
	size_t step = look_at(s, 1);
	bool ok = true;

	for (; g && ok; g = g->next) ok = answered_by(s, g, c, y);
	s->failed = s->failed || !ok;
	look_at(s, step);
	return ok;
}

/* Without roundings, on all of the call: the answers of s->truth? */
static bool agrees_in(struct search *s, struct graph *g, const struct lowered *l)
{
	struct view *v = view_of(s, g, s->n_stage - 1);
	bool ok = !s->failed && evaluate(&v->v, l, v->wanted);

	for (int i = 0; i < g->f.n_put && ok; i++) {
		const struct put_view *p = &v->put[i];
		/* an iteration that makes float32's noise large does the same to that of doubles */
		const double most = fmax(1e-5, fmin(1e-3, 1e-3 * sqrt(s->noise[p->out])));
		const struct value *x = put_value(&v->v, l, l->put[i]);
		const struct stage_turns *t = &v->v.turns;
		for (int j = 0; j < t->n[g->f.put[i].in] && x && ok; j++) {
			const double *a = value_in(&v->v, x, g->f.put[i].in, j);
			for (size_t k = p->start[j]; k < p->start[j + 1] && ok; k++)
				ok = fabs(a[k - p->start[j]] - (double)p->truth[k]) < most * fmax(fabs((double)p->truth[k]), 1 / (double)p->weight[k]);
		}
		ok = ok && x;
	}
	return ok;
}

static bool agrees(struct search *s, struct graph *g, int form)
{
	struct config none = { 0 };
	struct lowered l;
	bool ok = true;

	for (; g && ok; g = g->next) ok = lower(&(struct lowering){ &g->f, &g->cells, &s->keys, &none, form, true, NULL }, &l) && agrees_in(s, g, &l);
	return ok;
}

/* Where a kernel recorded its iterations, which are not symmetric to the last bit, or with a fault, forms differ that are otherwise the same:
 * the answers of the reference in that form? */
static bool agrees_with_form(struct search *s, struct graph *g, int form)
{
	struct plan plan = search_plan(s, &arith_f64, form, s->chunk[form][0]);
	struct answer all = s->truth, own;

	if (s->failed || !ref_run(s->call, &plan, &own, s->e)) return false;
	s->truth = own;
	for (struct graph *i = g; i; i = i->next) view_free(&i->view[0][s->n_stage - 1]);
	bool ok = agrees(s, g, form);
	s->truth = all;
	for (struct graph *i = g; i; i = i->next) view_free(&i->view[0][s->n_stage - 1]);
	answer_free(&own);
	return ok;
}

/* Without roundings the symbols give what the reference gives: the way here changed no formula. */
bool exact_agrees(struct search *s, int form)
{
	struct graph *g = &s->graph[form][0];

	return agrees(s, g, form) || ((s->call->anchored || s->faults) && agrees_with_form(s, g, form));
}
