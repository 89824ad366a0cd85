/* Steps forward, and then backward. What a loop carries is kept at every √n-th turn of n, and between two of these computed again. */
#include "grad_private.h"

#include <math.h>

static vec now(struct sweep *w, const struct step *s) { return (vec){ w->f->reg[s->reg], count_now(w->f, s->value) }; }

static vec whole(struct sweep *w, int reg) { return (vec){ w->f->reg[reg], most(w->f->p, reg) }; }

static vec copy_of(struct sweep *w, vec x)
{
	vec y = c_vec(w->f->c, x.n);

	c_copy(w->f->c, y, x);
	return y;
}

/* Forward alone: no output is stored. */
static void forward(struct sweep *w, const struct step *s);

static void turns(struct sweep *w, const struct step *s, size_t from, size_t to, span all)
{
	for (size_t t = from; t < to; t += s->loop->by) {
		run_turn(w->f, s->loop, t, all);
		forward(w, s->loop->body);
	}
}

static void forward(struct sweep *w, const struct step *s)
{
	for (span all; s; s = s->next) {
		if (s->kind == STEP_SET) run_step(w->f, s);
		if (s->kind == STEP_LOOP && run_ends(w->f, s, &all)) turns(w, s, all.first, all.last, all);
	}
}

/* Is the register given its first value here, as what an inner loop carries is? */
static bool begins_in(const struct step *s, int reg)
{
	for (; s; s = s->next)
		if ((s->kind == STEP_SET && !s->carried && s->reg == reg) || (s->kind == STEP_LOOP && begins_in(s->loop->body, reg))) return true;
	return false;
}

/* The registers that go from turn to turn of a loop over `body`: all in `carried`, which has room for them. */
static int carried_in(const struct step *body, const struct step *s, int *carried, int n)
{
	for (; s; s = s->next) {
		bool known = s->kind != STEP_SET || !s->carried || begins_in(body, s->reg);
		for (int i = 0; i < n && !known; i++) known = carried[i] == s->reg;
		if (!known) carried[n++] = s->reg;
		if (s->kind == STEP_LOOP) n = carried_in(body, s->loop->body, carried, n);
	}
	return n;
}

struct carried { const int *reg; int n; };

/* What is carried, kept or put back. */
static vec *keep(struct sweep *w, struct carried r)
{
	vec *x = c_bytes(w->f->c, (size_t)r.n * sizeof *x + 1);

	for (int i = 0; i < r.n; i++) x[i] = copy_of(w, whole(w, r.reg[i]));
	return x;
}

static void put_back(struct sweep *w, struct carried r, const vec *x)
{
	for (int i = 0; i < r.n; i++) c_copy(w->f->c, whole(w, r.reg[i]), x[i]);
}

/* The turns from t to `to` backward; what is carried is there as at t. */
static void back_through(struct sweep *w, const struct step *s, struct carried r, size_t t, size_t to, span all)
{
	size_t mark = c_mark(w->f->c), by = s->loop->by, n = (to - t + by - 1) / by;
	vec **kept = c_bytes(w->f->c, n * sizeof *kept);

	for (size_t i = 0; i < n; i++) {
		kept[i] = keep(w, r);
		if (i + 1 < n && r.n) turns(w, s, t + i * by, t + (i + 1) * by, all);
	}
	for (size_t i = n; i-- > 0;) {
		put_back(w, r, kept[i]);
		run_turn(w->f, s->loop, t + i * by, all);
		grad_steps(w, s->loop->body);
	}
	c_release(w->f->c, mark);
}

static void loop(struct sweep *w, const struct step *s)
{
	int reg[MAX_REG];
	struct carried r = { reg, carried_in(s->loop->body, s->loop->body, reg, 0) };
	size_t by = s->loop->by;
	span all;

	if (!run_ends(w->f, s, &all)) return;
	size_t first = all.first, last = all.last, n = (last - first + by - 1) / by, most = (size_t)ceil(sqrt((double)n)), parts = most ? (n + most - 1) / most : 0;
	vec **kept = c_bytes(w->f->c, (parts + 1) * sizeof *kept);
	size_t step = most * by;
	for (size_t i = 0; i < parts; i++) {
		size_t t = first + i * step;
		kept[i] = keep(w, r);
		if (r.n) turns(w, s, t, last - t < step ? last : t + step, all);
	}
	grad_steps(w, s->next);
	for (size_t i = parts; i-- > 0;) {
		size_t t = first + i * step;
		put_back(w, r, kept[i]);
		back_through(w, s, r, t, last - t < step ? last : t + step, all);
	}
}

/* A name's gradient, which is all there now, goes to what the name is made of. */
static void back(struct sweep *w, const struct step *s)
{
	calc *c = w->f->c;
	vec bar = { w->adjoint[s->reg].at, count_now(w->f, s->value) }, all = bar;

	if (s->apart) {
		bar = copy_of(w, bar);
		c_set(c, all, 0);
	}
	c_site(c, w->g->adjoint[s->reg], bar);
	grad_value(w, s->value, bar);
	if (!s->apart) c_set(c, all, 0);
}

static void back_from_output(struct sweep *w, const struct step *s)
{
	struct slice given = *s->slice;
	vec bar = c_vec(w->f->c, count_now(w->f, s->value));

	given.tensor += w->g->of->n_in;
	if (!w->f->p->call->in[given.tensor]) return;
	run_load(w->f, &given, bar);
	grad_value(w, s->value, bar);
}

void grad_steps(struct sweep *w, const struct step *s)
{
	if (!s) return;
	size_t mark = c_mark(w->f->c);
	vec before = { 0 };
	switch (s->kind) {
	case STEP_SET:
		if (s->carried) before = copy_of(w, now(w, s));
		run_step(w->f, s);
		grad_steps(w, s->next);
		if (s->carried) c_copy(w->f->c, now(w, s), before);
		if (w->g->active[s->reg]) back(w, s);
		break;
	case STEP_PUT:
		grad_steps(w, s->next);
		back_from_output(w, s);
		break;
	case STEP_LOOP: loop(w, s); break;
	}
	c_release(w->f->c, mark);
}
