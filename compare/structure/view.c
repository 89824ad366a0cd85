/* How the elements of a call's outputs lie beside a candidate's values. */
#include <stdlib.h>

#include "search.h"

struct viewing { struct search *s; struct put_view *p; size_t at; size_t begin; bool *ok; };

/* The first stage that has the element's token. */
static unsigned char stage_of(const struct search *s, size_t token)
{
	int k = 0;

	while (k + 1 < s->n_stage && token >= s->stage[k]) k++;
	return (unsigned char)k;
}

static void view_line(size_t at, size_t step, size_t n, void *with)
{
	struct viewing *w = with;
	struct put_view *p = w->p;
	const struct search *s = w->s;
	size_t stride = s->call->out_count[p->out] / (s->call->dim[0] ? s->call->dim[0] : 1);

	for (size_t i = 0; i < n; i++, at += step, w->at++) {
		if (at >= s->call->out_count[p->out] || w->at >= p->n) {
			*w->ok = false;
			return;
		}
		p->y[w->at] = s->recorded[p->out][at];
		p->truth[w->at] = (float)(s->truth.hi[p->out][at]);
		p->weight[w->at] = s->weight[p->out][at];
		p->stage[w->at] = s->along[p->out] && stride ? stage_of(s, at / stride - w->begin) : 0;
	}
}

/* The loop over tokens around loop `in`, or it; 0: none. */
static int main_loop(const struct form_symbols *f, int in)
{
	for (; in; in = f->in[in].up)
		if (f->in[in].of == f->loop && over_tokens(f->loop)) return in;
	return 0;
}

/* Of the sequence that the turn is of. */
static size_t first_token(const struct stage_turns *t, const struct form_symbols *f, int main, int in, int turn)
{
	int up = f->in[main].up, first = t->first[main][turn_around(t, f, in, turn, up)];

	return (size_t)t->of[main][first].now->var[f->in[main].of->var];
}

/* What is the same of every candidate: the exact answer's errors. */
static struct score base_of(const struct put_view *p)
{
	struct score s = { 0 };

	for (size_t k = 0; k < p->n; k++) {
		double w = (double)p->weight[k], b = ((double)p->y[k] - (double)p->truth[k]) * w;
		int st = p->stage[k];
		s.count[st]++;
		s.base[st] += b * b;
		s.raw_base += (b / w) * (b / w);
	}
	return s;
}

static bool view_put(struct search *s, const struct graph *g, const struct view *v, const struct sym_put *put, struct put_view *p)
{
	const struct stage_turns *t = &v->v.turns;
	int n = t->n[put->in], main = main_loop(&g->f, put->in);
	const struct shape shape = put->value->s;
	size_t all = 0;
	bool ok = true;

	*p = (struct put_view){ .out = put->slice->tensor };
	p->counts = s->along[p->out] || t->whole;
	p->start = calloc((size_t)n + 1, sizeof *p->start);
	if (!p->start) return false;
	for (int i = 0; i < n; i++) {
		const struct turn *x = &t->of[put->in][i];
		p->start[i] = all;
		all += len_in(x, shape.rows) * len_in(x, shape.cols);
	}
	p->start[n] = p->n = all;
	p->y = malloc((all + 1) * sizeof *p->y), p->truth = malloc((all + 1) * sizeof *p->truth), p->weight = malloc((all + 1) * sizeof *p->weight);
	p->stage = malloc(all + 1);
	if (!p->y || !p->truth || !p->weight || !p->stage) return false;
	for (int i = 0; i < n && ok; i++) {
		struct viewing w = { s, p, p->start[i], main ? first_token(t, &g->f, main, put->in, i) : 0, &ok };
		ok = slice_lines(put->slice, &t->of[put->in][i], view_line, &w) && ok;
	}
	if (ok) p->base = base_of(p);
	else error_set(s->e, E_FORMULA, s->call->op->name, NO_OFFSET, "an output's elements do not lie where the formula stores them");
	return ok;
}

size_t look_at(struct search *s, size_t step)
{
	size_t was = s->step[s->n_stage - 1];

	s->step[s->n_stage - 1] = step;
	return was;
}

struct view *view_in(struct search *s, struct graph *g, int k, int lane)
{
	struct view *v = &g->view[lane][k];

	if (v->made && v->step == s->step[k]) return v;
	view_free(v);
	v->made = true;
	v->step = s->step[k];
	bool ok = evaluator_make(&v->v, &g->f, &g->cells, s->stage[k], v->step, (size_t)32 << 20);
	v->v.rounded = s->rounded[k];
	for (int i = 0; i < g->f.n_put && ok; i++) {
		ok = view_put(s, g, v, &g->f.put[i], &v->put[i]);
		v->wanted[i] = v->put[i].counts;
	}
	if (!ok) s->failed = true;
	return v;
}

void view_free(struct view *v)
{
	if (v->made) evaluator_free(&v->v);
	for (int i = 0; i < MAX_PUT && v->made; i++) {
		struct put_view *p = &v->put[i];
		free(p->start), free(p->y), free(p->truth), free(p->weight), free(p->stage);
	}
	*v = (struct view){ 0 };
}
