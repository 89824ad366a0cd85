/* What a candidate answers, where the outputs' elements lie. */
#include <string.h>

#include "search.h"

struct writing { double *to; const double *from; };

static void write_line(size_t at, size_t step, size_t n, void *with)
{
	struct writing *w = with;

	for (size_t i = 0; i < n; i++, at += step) w->to[at] = *w->from++;
}

bool answered_in(struct search *s, struct graph *g, const struct candidate *c, double *y[MAX_OUT])
{
	struct lowered l;
	bool ok = lower(&(struct lowering){ &g->f, &g->cells, &s->keys, &c->config, c->form, false, NULL }, &l);
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
	s->failed = s->failed || !ok;
	return ok;
}
