/* A candidate's values beside what the kernel wrote. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "schedule.h"
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
		if (f->in[in].of == f->loop && over_tokens(f->program, f->loop)) return in;
	return 0;
}

/* Of the sequence that the turn is of. */
static size_t first_token(const struct stage_turns *t, const struct form_symbols *f, int main, int in, int turn)
{
	int up = f->in[main].up, first = t->first[main][turn_around(t, f, in, turn, up)];

	return (size_t)t->of[main][first].now->var[f->in[main].of->var];
}

enum { PARTS = 16, WORTH = 1 << 13 };

static void add_part(struct score *to, const struct score *from)
{
	to->raw += from->raw, to->raw_base += from->raw_base;
	for (int k = 0; k < MAX_STAGE; k++) {
		to->left[k] += from->left[k], to->base[k] += from->base[k], to->bits[k] += from->bits[k], to->count[k] += from->count[k];
		to->equal[k] += from->equal[k], to->moved[k] += from->moved[k];
	}
}

/* What is the same of every candidate: the exact answer's errors. */
static struct score base_of(const struct put_view *p, size_t turns)
{
	struct score all = { 0 };

	for (size_t part = 0; part < PARTS; part++) {
		struct score s = { 0 };
		for (size_t k = p->start[turns * part / PARTS]; k < p->start[turns * (part + 1) / PARTS]; k++) {
			double w = (double)p->weight[k], b = ((double)p->y[k] - (double)p->truth[k]) * w;
			int st = p->stage[k];
			s.count[st]++;
			s.base[st] += b * b;
			s.raw_base += (b / w) * (b / w);
		}
		add_part(&all, &s);
	}
	return all;
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
	if (ok) p->base = base_of(p, (size_t)n);
	else error_set(s->e, E_FORMULA, s->call->op->name, NO_OFFSET, "an output's elements do not lie where the formula stores them");
	return ok;
}

size_t look_at(struct search *s, size_t step)
{
	size_t was = s->step[s->n_stage - 1];

	s->step[s->n_stage - 1] = step;
	return was;
}

struct view *view_of(struct search *s, struct graph *g, int k)
{
	struct view *v = &g->view[k];

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

static void stored(enum dtype d, double *y, const double *x, size_t n)
{
	round_into(y, x, n, d == DT_BF16 ? IN_BF16 : IN_F32);   /* to a float first */
	if (d != DT_BF16 && d != DT_F32 && d != DT_F64 && dtype_info[d].is_float) format_round_all(dtype_info[d].format, ROUND_NEAREST_EVEN, y, n);
}

void store_type(enum dtype d, double *x, size_t n) { stored(d, x, x, n); }

/* unit: what no bit is lost below; of[st]: a product of factors whose logarithm is still to be added, at most 2^53 each */
static void compare_block(const struct put_view *p, size_t from, const double *x, size_t n, struct score *s, float *errors, double unit,
	double of[MAX_STAGE])
{
	for (size_t i = 0; i < n; i++) {
		size_t k = from + i;
		double w = (double)p->weight[k], y = (double)p->y[k], d = fabs(y - x[i]) * w;
		int st = p->stage[k];
		if (y == x[i]) d = 0;
		s->equal[st] += d == 0;
		if (d != 0) {
			if (!(d < 1e6)) d = 1e6;
			s->left[st] += d * d;
			s->raw += (d / w) * (d / w);
			of[st] *= 1 + d * unit;
			if (of[st] > 0x1p900) s->bits[st] += log2(of[st]), of[st] = 1;
		}
		if (errors) errors[k] = (float)d;
	}
}

static void moved_block(const struct put_view *p, size_t from, const double *x, size_t n, struct score *s)
{
	for (size_t i = 0; i < n; i++) {
		double d = fmin(fabs(x[i] - (double)p->truth[from + i]) * (double)p->weight[from + i], 1e6);
		s->moved[p->stage[from + i]] += d * d;
	}
}

/* In parts that are the same whatever the number of threads is. */
static bool compare(struct search *s, const struct view *v, const struct put_view *p, const struct value *x, const struct sym_put *put,
	struct score *to, float *errors)
{
	const double unit = fmin(0x1p22, 1 / (sums_in_order * sqrt(s->noise[p->out]) + 1e-30));
	const size_t turns = (size_t)v->v.turns.n[put->in];
	struct score sum[PARTS] = { 0 };
	bool ok = true;

	#pragma omp parallel for schedule(static, 1) reduction(&&: ok) if (p->n > WORTH)
	for (size_t part = 0; part < PARTS; part++) {
		double *room = malloc((x->n + 1) * sizeof *room), of[MAX_STAGE];
		ok = room != NULL;
		for (int k = 0; k < MAX_STAGE; k++) of[k] = 1;
		for (size_t i = turns * part / PARTS; i < turns * (part + 1) / PARTS && ok; i++) {
			size_t n = p->start[i + 1] - p->start[i];
			stored(s->call->out[p->out]->dtype, room, value_in(&v->v, x, put->in, (int)i), n);
			compare_block(p, p->start[i], room, n, &sum[part], errors, unit, of);
			if (s->rounded[0]) moved_block(p, p->start[i], room, n, &sum[part]);
		}
		for (int k = 0; k < MAX_STAGE; k++) sum[part].bits[k] += log2(of[k]);
		free(room);
	}
	add_part(to, &p->base);
	for (int part = 0; part < PARTS; part++) add_part(to, &sum[part]);
	return ok;
}

/* used: of the errors, by pieces of other kinds */
static bool scored(struct search *s, struct graph *g, struct view *v, const struct lowered *l, const bool *wanted, struct score score[MAX_OUT],
	float *errors[MAX_OUT], size_t used[MAX_OUT])
{
	for (int i = 0; i < g->f.n_put; i++) {
		struct put_view *p = &v->put[i];
		if (!wanted[i]) continue;
		const struct value *x = put_value(&v->v, l, l->put[i]);
		float *e = errors && errors[p->out] ? errors[p->out] + used[p->out] : NULL;
		if (!x || !compare(s, v, p, x, &g->f.put[i], &score[p->out], e)) return false;
		used[p->out] += p->n;
		s->work += WORK_COMPARED * (double)p->n;
	}
	return true;
}

/* What of the error e does not go along what the candidate does: |e|² (1 - ρ²), or all where ρ < 0. Of an iteration, in which a rounding that
 * is missing makes of each after it another, a candidate goes the kernel's way long before it comes near. moved: |candidate's own error|² */
static double across(double left, double base, double moved)
{
	const double along = (base + moved - left) / 2;

	return along > 0 && moved > 0 ? fmax(base - along * along / moved, 0) : base;
}

/* Is the cost of this output too? */
static bool counts(const struct search *s, int out) { return !s->only || (s->only >> out & 1); }

/* Energy, which a few near ties can rule, and bits, which they cannot: of each output, and of each prefix of it. */
static void cost_of(const struct search *s, const struct score score[MAX_OUT], int k, struct candidate *c)
{
	c->energy = c->bits = 0;
	for (int o = 0; o < MAX_OUT; o++) {
		double left = 0, base = 0, moved = 0, bits = 0, count = 0;
		for (int i = 0; i <= k && counts(s, o); i++) {
			left += score[o].left[i], moved += score[o].moved[i], base += score[o].base[i], bits += score[o].bits[i], count += score[o].count[i];
			if (count == 0 || ((!s->along[o] || s->rounded[0]) && i < k)) continue;
			c->energy += (s->rounded[0] ? across(left, base, moved) : left) / fmax(base, fmax(0x1p-44, most_of_noise * s->noise[o]) * count);
			c->bits += bits / count / 26;
		}
	}
	c->energy = c->energy < 1e9 ? c->energy : 1e9;
}

struct graph *graph_of(struct search *s, const struct candidate *c)
{
	int k = s->chunk_key[c->form], n = k < 0 ? 0 : c->config.value[k];

	return &s->graph[c->form][n < s->n_chunk[c->form] ? n : 0];
}

bool lower_in(struct search *s, struct graph *g, const struct candidate *c, FILE *text, struct lowered *to)
{
	s->work += WORK_LOWERED;
	return lower(&(struct lowering){ &g->f, &g->cells, &s->keys, &c->config, c->form, false, text }, to);
}

/* The pieces of that kind; l: what the candidate does there, or NULL; becomes cells that stand for its. */
static bool scored_by(struct search *s, struct graph *g, const struct candidate *c, struct lowered *l, int k, struct score score[MAX_OUT],
	float *errors[MAX_OUT], size_t used[MAX_OUT])
{
	struct lowered own;
	bool ok = l || lower_in(s, g, c, NULL, &own);
	struct view *v = ok ? view_of(s, g, k) : NULL;
	bool wanted[MAX_PUT] = { false };

	if (!l) l = &own;
	for (int i = 0; v && i < g->f.n_put; i++) wanted[i] = v->wanted[i] && counts(s, v->put[i].out);
	ok = ok && !s->failed && same_lowered(&v->v, l, wanted) && evaluate(&v->v, l, wanted) && scored(s, g, v, l, wanted, score, errors, used);
	if (v) s->work += v->v.work, v->v.work = 0;
	s->failed = s->failed || !ok;
	return ok;
}

void add_met(struct met *to, const struct met *from)
{
	for (int i = 0, n = to->n; i < from->n; i++) {
		int j = 0;
		while (j < n && to->key[j] != from->key[i]) j++;
		if (j < n) continue;
		to->site[to->n] = from->site[i];
		to->key[to->n++] = from->key[i];
	}
}

static uint64_t mixed(uint64_t h, int x) { return (h ^ (uint64_t)(unsigned)x) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29; }

void try(struct search *s, struct candidate *c, int k)
{
	struct graph *first = graph_of(s, c);
	struct lowered l;
	struct score score[MAX_OUT] = { 0 };
	size_t used[MAX_OUT] = { 0 };
	uint64_t id = mixed(mixed(mixed((uint64_t)(k + 1) << 32 ^ s->step[k] << 40, c->form), (int)(first - s->graph[0])), (int)s->only);

	c->cost = c->energy = 1e9;
	c->bits = 0;
	c->met.n = 0;
	for (struct graph *g = first; g && !s->failed; g = g->next) {
		if (!lower_in(s, g, c, NULL, &l)) s->failed = true;
		if (s->failed) return;
		add_met(&c->met, &l.met);
		for (int i = 0; i < g->f.n_put; i++)
			if (counts(s, g->f.put[i].slice->tensor)) id = mixed(id, l.put[i]);
		for (int i = 1; i < g->f.n_in; i++) id = mixed(id, l.recurrence[i]);
	}
	if (s->failed) return;
	if (s->chunk_key[c->form] >= 0) c->met.site[c->met.n] = -1, c->met.key[c->met.n++] = s->chunk_key[c->form];
	if (any_banned(s, c)) return;
	struct seen_cost *x = &s->seen[id % SEEN];
	if (x->id == id) {
		c->energy = x->energy, c->bits = x->bits;
		c->cost = c->energy + s->mix * c->bits;
		return;
	}
	s->tries++;
	for (struct graph *g = first; g; g = g->next)
		if (!scored_by(s, g, c, g == first && !g->next ? &l : NULL, k, score, NULL, used)) return;
	cost_of(s, score, k, c);
	c->cost = c->energy + s->mix * c->bits;
	*x = (struct seen_cost){ id, c->energy, c->bits };
}

bool measured_in(struct search *s, struct graph *g, const struct candidate *c, int k, struct score score[MAX_OUT], float *errors[MAX_OUT])
{
	size_t used[MAX_OUT] = { 0 };
	bool ok = !s->failed;

	memset(score, 0, MAX_OUT * sizeof *score);
	for (; g && ok; g = g->next) ok = scored_by(s, g, c, NULL, k, score, errors, used);
	return ok;
}

bool measured(struct search *s, const struct candidate *c, struct score score[MAX_OUT], float *errors[MAX_OUT])
{
	return measured_at(s, c, s->n_stage - 1, score, errors);
}

bool measured_at(struct search *s, const struct candidate *c, int k, struct score score[MAX_OUT], float *errors[MAX_OUT])
{
	return measured_in(s, graph_of(s, c), c, k, score, errors);
}
