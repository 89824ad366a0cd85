/* From what is wanted back to what is there. A cell that depends on what an open loop carries is done in that loop's turns; any other as far
 * out as its arguments are, so that loops alone are done turn by turn whose next turn it is about. */
#include "schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"

struct scheduling {
	struct schedule *s;
	struct evaluator *v;
	const struct lowered *to;
	int *read, n_read;              /* cells that are read */
	bool open[MAX_LOOP], failed;
};
enum { READ = 1, DONE = 2 };

/* seen: READ, DONE; by: bit i: known in a turn of loop i alone, as it depends on what that carries or keeps for one turn */
static struct cell_mark *mark_of(const struct scheduling *g, int cell)
{
	struct cell_mark *m = &g->v->mark[cell];

	if (m->age != g->v->age) *m = (struct cell_mark){ .age = g->v->age };
	return m;
}

static bool marks_room(struct evaluator *v)
{
	int n = v->cells->room;
	struct cell_mark *more = v->marks < n ? realloc(v->mark, (size_t)n * sizeof *more) : v->mark;

	if (!more) return false;
	for (v->mark = more; v->marks < n; v->marks++) more[v->marks].age = 0;
	return true;
}

struct kept_key key_of(const struct evaluator *v, const struct lowered *to, int cell)
{
	uint32_t carried = v->cells->at[cell].carried;
	uint64_t r = 0;

	for (int i = 1; i < v->f->n_in && carried; i++)
		if (carried >> i & 1) r = random_mix(r ^ (uint64_t)(unsigned)(to->recurrence[i] + 1));
	return (struct kept_key){ cell, r };
}

static bool there(const struct scheduling *g, int cell) { return kept_there(g->v, key_of(g->v, g->to, cell)); }

static int special(const struct scheduling *g, enum cell_op op, int in, int carry)
{
	const struct form_symbols *f = g->v->f;
	struct shape s = f->program->reg[f->carry[carry].reg];
	struct cell c = cell_of(op, -1, -1, s.rows, s.cols);

	c.p[0] = carry;
	c.p[1] = op == CELL_FINAL ? g->to->recurrence[in] : 0;
	c.grid = IN_F32;
	c.in = op == CELL_FINAL ? f->in[in].up : in;
	for (int i = c.in; i; i = f->in[i].up) c.carried |= UINT32_C(1) << i;
	return cell_add(g->v->cells, &c);
}

static const struct recurrence *recurrence_of(const struct scheduling *g, int in) { return &g->v->cells->recurrence[g->to->recurrence[in]]; }

/* Everything that is read for it, down to what is there. */
static void mark(struct scheduling *g, int cell)
{
	const struct cell *c = &g->v->cells->at[cell];
	struct cell_mark *m = mark_of(g, cell);

	if (m->seen & READ) return;
	m->seen |= READ;
	g->read[g->n_read++] = cell;
	m->by = c->carried;
	if (there(g, cell)) return;
	if (kept_is_transient(g->v, c)) m->by |= UINT32_C(1) << c->in;
	for (int i = 0; i < 3 && c->arg[i] >= 0; i++) {
		mark(g, c->arg[i]);
		m->by |= mark_of(g, c->arg[i])->by;
	}
	if (c->op != CELL_CARRY && c->op != CELL_FINAL) return;
	int in = g->v->f->carry[c->p[0]].loop;
	const struct recurrence *r = recurrence_of(g, in);
	for (int i = 0; i < g->v->f->in[in].n_carry; i++) mark(g, r->first[i]), mark(g, r->next[i]);
}

static bool add(struct scheduling *g, int list, struct job j)
{
	struct schedule *s = g->s;

	if (s->n[list] == s->room[list]) {
		struct job *more = realloc(s->job[list], (size_t)(s->room[list] = 2 * s->room[list] + 32) * sizeof *more);
		if (!more) return false;
		s->job[list] = more;
	}
	s->job[list][s->n[list]++] = j;
	return true;
}

/* Of the loops that are open, the innermost one around loop `in` (or it) for which `is`; 0: the piece. */
static int list_of(const struct scheduling *g, int in, uint32_t is)
{
	const struct form_symbols *f = g->v->f;

	for (; in; in = f->in[in].up)
		if (g->open[in] && (is >> in & 1)) return in;
	return 0;
}

static void need(struct scheduling *g, int cell);

/* All cells that are known in the loop's turns alone. */
static void need_inside(struct scheduling *g, int in)
{
	for (int i = 0; i < g->n_read && !g->failed; i++) {
		if (mark_of(g, g->read[i])->by >> in & 1) need(g, g->read[i]);
	}
}

static void need_loop(struct scheduling *g, int in)
{
	struct evaluator *v = g->v;
	const struct form_symbols *f = v->f;
	const struct sym_loop *l = &f->in[in];
	uint32_t around = 0;

	for (int up = l->up; up; up = f->in[up].up) around |= UINT32_C(1) << up;
	/* a loop around it whose carries are not there comes first, and does this one too */
	for (int up = 1; up < in; up++) {
		if (!(around >> up & 1) || g->open[up] || g->s->run[up]) continue;
		bool all = up != l->up || !l->n_carry || !kept_is_transient(v, &v->cells->at[special(g, CELL_FINAL, in, l->carry)]);
		for (int i = 0; i < f->in[up].n_carry; i++) all = all && there(g, special(g, CELL_CARRY, up, f->in[up].carry + i));
		if (!all) need_loop(g, up);
	}
	if (g->s->run[in] || g->failed) return;
	const struct recurrence r = *recurrence_of(g, in);
	struct loop_run *run = g->s->run[in] = calloc(1, sizeof *run);
	if (!run) g->failed = true;
	/* what was wanted may be there already, and not lead to what this loop reads */
	for (int i = 0; i < l->n_carry; i++) mark(g, r.first[i]), mark(g, r.next[i]);
	for (int i = 0; i < l->n_carry && run; i++) need(g, r.first[i]);
	if (!run) return;
	run->in = in;
	run->n_carry = l->n_carry;
	g->open[in] = true;
	for (int i = 0; i < l->n_carry && !g->failed; i++) need(g, r.next[i]);
	if (l->of->chunk < 0 || !loops_inside(f, in)) need_inside(g, in);
	g->open[in] = false;
	g->failed = g->failed || !add(g, list_of(g, l->up, around), (struct job){ .loop = run });
	for (int i = 0; i < l->n_carry && !g->failed; i++)
		for (int k = 0; k < 2; k++) {
			int x = special(g, k ? CELL_FINAL : CELL_CARRY, in, l->carry + i);
			g->failed = g->failed || x < 0 || !kept_make(v, key_of(v, g->to, x));
		}
	run->ends = true;
}

static bool is_carry_of_open(const struct scheduling *g, const struct cell *c)
{
	return c->op == CELL_CARRY && g->open[g->v->f->carry[c->p[0]].loop];
}

static void need(struct scheduling *g, int cell)
{
	const struct cell *c = &g->v->cells->at[cell];

	if (g->failed || (mark_of(g, cell)->seen & DONE) || is_carry_of_open(g, c) || there(g, cell)) return;
	if (c->op == CELL_CARRY || c->op == CELL_FINAL) {
		need_loop(g, g->v->f->carry[c->p[0]].loop);
		return;
	}
	if (kept_is_transient(g->v, c) && !g->open[c->in] && !g->s->run[c->in]) need_loop(g, c->in);
	for (int i = 0; i < 3 && g->v->cells->at[cell].arg[i] >= 0; i++) need(g, g->v->cells->at[cell].arg[i]);
	/* a loop in which it is read by turns has done it */
	if (g->failed || (mark_of(g, cell)->seen & DONE)) return;
	mark_of(g, cell)->seen |= DONE;
	c = &g->v->cells->at[cell];
	g->failed = !kept_make(g->v, key_of(g->v, g->to, cell)) || !add(g, list_of(g, c->in, mark_of(g, cell)->by), (struct job){ .cell = cell });
}

static struct value found(const struct scheduling *g, int cell) { return *kept_find(g->v, key_of(g->v, g->to, cell)); }

double work_of(const struct cell *c, const struct job *j)
{
	double n = (double)j->y.n, read = j->n_arg ? (double)j->a[0].n : 0;
	enum ex_kind kind = c->ex ? c->ex->kind : (enum ex_kind)c->p[0];

	switch (c->op) {
	/* [m, k] [k, n] */
	case CELL_GEMM: return WORK_JOB + sqrt(n * read * (double)j->a[1].n) * (c->p[3] ? WORK_PRODUCT_BY_ELEMENT : c->p[2] ? WORK_PRODUCT_IN_ORDER : WORK_PRODUCT);
	case CELL_INVERSE: return WORK_JOB + n * sqrt(n) * WORK_PRODUCT_IN_ORDER;
	case CELL_OP: return WORK_JOB + fmax(n, read) * (kind == EX_MAP ? WORK_FUNCTION : 1);
	default: return WORK_JOB + fmax(n, read);
	}
}

/* Values lie still from here on: the table no longer moves. */
static void resolve(struct scheduling *g)
{
	const struct evaluator *v = g->v;

	for (int in = 0; in < v->f->n_in; in++) {
		for (int i = 0; i < g->s->n[in]; i++) {
			struct job *j = &g->s->job[in][i];
			if (j->loop) continue;
			const struct cell *c = &v->cells->at[j->cell];
			j->y = found(g, j->cell);
			for (int k = 0; k < 3 && c->arg[k] >= 0; k++) j->a[j->n_arg++] = found(g, c->arg[k]);
			g->s->work += work_of(c, j) * (double)v->turns.n[c->in];
		}
		struct loop_run *l = g->s->run[in];
		for (int i = 0; l && i < l->n_carry; i++) {
			const struct recurrence *r = recurrence_of(g, in);
			int carry = v->f->in[in].carry + i;
			l->carry[i] = (struct carry_values){ found(g, r->first[i]), found(g, r->next[i]), found(g, special(g, CELL_CARRY, in, carry)),
				found(g, special(g, CELL_FINAL, in, carry)) };
		}
	}
}

static void age_all(const struct scheduling *g)
{
	for (int i = 0; i < g->n_read; i++) {
		struct value *x = kept_find(g->v, key_of(g->v, g->to, g->read[i]));
		if (x) x->age = g->v->age;
	}
}

bool schedule_make(struct schedule *s, struct evaluator *v, const struct lowered *to, const bool *wanted)
{
	struct scheduling g = { .s = s, .v = v, .to = to };

	*s = (struct schedule){ 0 };
	for (int in = 1; in < v->f->n_in; in++)
		for (int i = 0; i < v->f->in[in].n_carry; i++)
			special(&g, CELL_CARRY, in, v->f->in[in].carry + i), special(&g, CELL_FINAL, in, v->f->in[in].carry + i);
	g.read = malloc(((size_t)v->cells->n + 1) * sizeof *g.read);
	g.failed = v->cells->failed || !g.read || !marks_room(v);
	for (int i = 0; i < v->f->n_put && !g.failed; i++)
		if (!wanted || wanted[i]) mark(&g, to->put[i]);
	if (!g.failed) age_all(&g);
	for (int i = 0; i < v->f->n_put; i++)
		if (!wanted || wanted[i]) need(&g, to->put[i]);
	if (!g.failed) resolve(&g);
	v->work += WORK_READ * g.n_read;
	free(g.read);
	return !g.failed && !v->cells->failed;
}

void schedule_free(struct schedule *s)
{
	for (int i = 0; i < MAX_LOOP; i++) free(s->job[i]), free(s->run[i]);
	*s = (struct schedule){ 0 };
}
