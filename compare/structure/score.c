/* A candidate's values beside what the kernel wrote. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "compare/cells/schedule.h"
#include "search.h"

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

enum { PARTS = 16, WORTH = 1 << 13 };

static void add_part(struct score *to, const struct score *from)
{
	to->raw += from->raw, to->raw_base += from->raw_base;
	for (int k = 0; k < MAX_STAGE; k++) {
		to->left[k] += from->left[k], to->base[k] += from->base[k], to->bits[k] += from->bits[k], to->count[k] += from->count[k];
		to->equal[k] += from->equal[k], to->moved[k] += from->moved[k];
	}
}

/* In parts that are the same whatever the number of threads is. */
static bool compare(const struct search *s, const struct view *v, const struct put_view *p, const struct value *x, const struct sym_put *put,
	struct score *to, float *errors)
{
	const double unit = fmin(0x1p22, 1 / (sums_in_order * sqrt(s->noise[p->out]) + 1e-30));
	const size_t turns = (size_t)v->v.turns.n[put->in];
	struct score sum[PARTS] = { 0 };
	bool ok = true;

	#pragma omp parallel for schedule(static, 1) reduction(&&: ok) if (turns > 1 && p->n > WORTH)
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
static bool scored(const struct search *s, struct graph *g, struct view *v, const struct lowered *l, const bool *wanted, struct score score[MAX_OUT],
	float *errors[MAX_OUT], size_t used[MAX_OUT])
{
	for (int i = 0; i < g->f.n_put; i++) {
		struct put_view *p = &v->put[i];
		if (!wanted[i]) continue;
		const struct value *x = put_value(&v->v, l, l->put[i]);
		float *e = errors && errors[p->out] ? errors[p->out] + used[p->out] : NULL;
		if (!x || !compare(s, v, p, x, &g->f.put[i], &score[p->out], e)) return false;
		used[p->out] += p->n;
		v->v.work += WORK_COMPARED * (double)p->n;
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
	c->bits = 0;
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
	c->energy = seen->energy, c->bits = seen->bits;
	c->cost = c->energy + s->mix * c->bits;
	return false;
}

static void known(struct search *s, const struct trial *t, int k)
{
	struct candidate *c = t->c;

	s->tries++;
	cost_of(s, t->score, k, c);
	c->cost = c->energy + s->mix * c->bits;
	s->seen[t->id % SEEN] = (struct seen_cost){ t->id, c->energy, c->bits };
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
