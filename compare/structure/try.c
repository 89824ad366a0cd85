/* A candidate is tried: lowered, computed, and held beside what the kernel wrote, once for all that compute the same. */
#include <math.h>
#include <string.h>

#include "compare/cells/schedule.h"
#include "compare/limits/limits.h"
#include "search.h"

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

/* used: of the errors, by pieces of other kinds */
static bool scored(const struct search *s, struct graph *g, struct view *v, const struct lowered *l, const bool *wanted, struct score score[MAX_OUT],
	float *errors[MAX_OUT], size_t used[MAX_OUT])
{
	for (int i = 0; i < g->f.n_put; i++) {
		struct put_view *p = &v->put[i];
		if (!wanted[i]) continue;
		const struct value *x = put_value(&v->v, l, l->put[i]);
		float *e = errors && errors[p->out] ? errors[p->out] + used[p->out] : NULL;
		if (!x || !compare_put(s, v, p, x, &g->f.put[i], &score[p->out], e)) return false;
		used[p->out] += p->n;
		v->v.work += WORK_COMPARED * (double)p->n;
	}
	return true;
}

/* The pieces of one kind, as a candidate has them. */
struct look { struct graph *g; struct view *v; struct lowered l; bool wanted[MAX_PUT], ok; struct schedule todo; };

/* Of what is lowered: all but what takes long, which changes nothing but the view. */
static void begin(struct search *s, struct look *x, int k, int lane)
{
	struct view *v = x->v = view_in(s, x->g, k, lane);

	for (int i = 0; i < x->g->f.n_put; i++) x->wanted[i] = v->wanted[i] && counts(s, v->put[i].out);
	x->ok = !s->failed && same_lowered(&v->v, &x->l, x->wanted) && schedule_begin(&x->todo, &v->v, &x->l, x->wanted);
}

static void end(const struct search *s, struct look *x, struct score score[MAX_OUT], float *errors[MAX_OUT], size_t used[MAX_OUT])
{
	if (x->ok) schedule_run(&x->todo, &x->v->v);
	x->ok = x->ok && scored(s, x->g, x->v, &x->l, x->wanted, score, errors, used);
	schedule_free(&x->todo);
}

/* What was done since it was last asked. */
static double work_done(struct view *v)
{
	double w = v->v.work;

	v->v.work = 0;
	return w;
}

static bool in_one_piece(const struct view *v) { return v->v.turns.n[0] <= 1; }

/* What is lowered, at stage k: of those pieces. */
static bool looked_at(struct search *s, struct look *x, int k, struct score score[MAX_OUT], float *errors[MAX_OUT], size_t used[MAX_OUT])
{
	begin(s, x, k, 0);
	end(s, x, score, errors, used);
	s->work += work_done(x->v) * (in_one_piece(x->v) ? WORK_ALONE : 1);
	s->failed = s->failed || !x->ok;
	return x->ok;
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

/* A candidate that is tried; x: of its first graph; used: as scored() has it. */
struct trial { struct candidate *c; struct look x; uint64_t id; struct score score[MAX_OUT]; size_t used[MAX_OUT]; };

/* Is its cost not known yet, and may it be known? Else it is there. */
static bool unknown(struct search *s, struct trial *t, struct candidate *c, int k)
{
	struct graph *first = graph_of(s, c);
	struct lowered l;
	uint64_t id = mixed(mixed(mixed((uint64_t)(k + 1) << 32 ^ s->step[k] << 40, c->form), (int)(first - s->graph[0])), (int)s->only);

	*t = (struct trial){ .c = c, .x.g = first };
	c->cost = c->energy = 1e9;
	c->bits = c->noise = 0;
	c->met.n = 0;
	for (struct graph *g = first; g && !s->failed; g = g->next) {
		struct lowered *to = g == first ? &t->x.l : &l;
		if (!lower_in(s, g, c, NULL, to)) s->failed = true;
		if (s->failed) return false;
		add_met(&c->met, &to->met);
		for (int i = 0; i < g->f.n_put; i++)
			if (counts(s, g->f.put[i].slice->tensor)) id = mixed(id, to->put[i]);
		for (int i = 1; i < g->f.n_in; i++) id = mixed(id, to->recurrence[i]);
	}
	if (s->failed) return false;
	if (s->chunk_key[c->form] >= 0) c->met.site[c->met.n] = -1, c->met.key[c->met.n++] = s->chunk_key[c->form];
	if (any_banned(s, c)) return false;
	const struct seen_cost *seen = &s->seen[id % SEEN];
	t->id = id;
	if (seen->id != id) return true;
	c->energy = seen->energy, c->bits = seen->bits, c->noise = seen->noise;
	c->cost = c->energy + s->mix * c->bits;
	return false;
}

static void note_least(struct search *s, const struct score score[MAX_OUT], int k)
{
	for (int o = 0; o < MAX_OUT; o++) {
		double left = 0, base = 0, count = 0;
		for (int i = 0; i <= k; i++) left += score[o].left[i], base += score[o].base[i], count += score[o].count[i];
		if (count > 0) s->least[o] = base > most_of_noise * s->noise[o] * count ? fmin(s->least[o], left / base) : 0;
	}
}

/* Of outputs along the tokens, which are looked at from the first on: states at the end are seen late. Of an iteration that runs free nothing is
 * explained before all is. */
static bool leaves(const struct search *s, double part)
{
	bool some = false;

	for (int o = 0; o < MAX_OUT; o++) some = some || (s->along[o] && s->least[o] > part && isfinite(s->least[o]));
	return some;
}

bool is_hopeless(const struct search *s)
{
	const double spent = s->work / s->how->work;
	const bool soon = spent > hopeless_soon && leaves(s, left_soon), late = spent > hopeless_late && leaves(s, left_late);

	return s->how->lawless && (s->rounded[0] ? spent > hopeless_late : soon || late);
}

static void known(struct search *s, const struct trial *t, int k)
{
	struct candidate *c = t->c;

	s->tries++;
	note_least(s, t->score, k);
	cost_of(s, t->score, k, c);
	c->cost = c->energy + s->mix * c->bits;
	s->seen[t->id % SEEN] = (struct seen_cost){ t->id, c->energy, c->bits, c->noise };
}

static void one(struct search *s, struct trial *t, int k)
{
	if (!looked_at(s, &t->x, k, t->score, NULL, t->used)) return;
	for (struct graph *g = t->x.g->next; g; g = g->next) {
		t->x = (struct look){ .g = g };
		if (!(s->failed = s->failed || !lower_in(s, g, t->c, NULL, &t->x.l)) && !looked_at(s, &t->x, k, t->score, NULL, t->used)) return;
	}
	if (!s->failed) known(s, t, k);
}

void try(struct search *s, struct candidate *c, int k)
{
	struct trial t;

	if (unknown(s, &t, c, k)) one(s, &t, k);
}

/* Of two calls' work side by side, each on a core, the longer one counts. */
static void two(struct search *s, struct trial t[2], int k)
{
	for (int i = 0; i < 2; i++) begin(s, &t[i].x, k, i);
	#pragma omp parallel for schedule(static, 1)
	for (int i = 0; i < 2; i++) end(s, &t[i].x, t[i].score, NULL, t[i].used);
	s->work += fmax(work_done(t[0].x.v), work_done(t[1].x.v)) * WORK_ALONE;
	for (int i = 0; i < 2; i++) {
		s->failed = s->failed || !t[i].x.ok;
		if (!s->failed) known(s, &t[i], k);
	}
}

bool try_two(struct search *s, struct candidate *a, struct candidate *b, int k)
{
	struct trial t[2];
	const struct graph *g = graph_of(s, a), *h = graph_of(s, b);

	if (g->next || h->next || g->program->pieces > 1 || h->program->pieces > 1) {
		try(s, a, k);
		return false;
	}
	bool first = unknown(s, &t[0], a, k), second = unknown(s, &t[1], b, k);
	if (first && second && t[0].id != t[1].id) {
		two(s, t, k);
		return true;
	}
	if (first) one(s, &t[0], k);
	if (second) try(s, b, k);
	return true;
}

bool measured_in(struct search *s, struct graph *g, const struct candidate *c, int k, struct score score[MAX_OUT], float *errors[MAX_OUT])
{
	size_t used[MAX_OUT] = { 0 };
	bool ok = !s->failed;

	memset(score, 0, MAX_OUT * sizeof *score);
	for (; g && ok; g = g->next) {
		struct look x = { .g = g };
		ok = lower_in(s, g, c, NULL, &x.l) && looked_at(s, &x, k, score, errors, used);
	}
	s->failed = s->failed || !ok;
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
