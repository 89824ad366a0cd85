/* One piece of a program: its steps. */
#include "run.h"

#include <math.h>

void run_failed(struct program *p, const struct node *at, const char *what, ...)
{
	va_list more;

	va_start(more, what);
	#pragma omp critical(formula_failed)
	if (!p->failed) {
		formula_error_list(&p->error, p->path, at->line, at->column, what, more);
		p->failed = true;
	}
	va_end(more);
}

/* The first element, as an offset; false where an index leaves its axis. */
static bool offset(struct frame *f, const struct slice *s, const char *name, size_t *at)
{
	*at = 0;
	for (int i = 0; i < s->rank; i++) {
		if (!s->axis[i].first) continue;
		double k = ix_value(f->p, s->axis[i].first, f->var);
		bool kept = (s->n_kept > 0 && s->kept[0] == i) || (s->n_kept > 1 && s->kept[1] == i);
		double last = k + (kept ? (double)len_now(f, s->axis[i].len) : 1);
		if (!(k >= 0 && last <= (double)s->axis[i].size && k == floor(k))) {
			run_failed(f->p, s->at, "expected an index from 0 to %zu on axis %d of %s, got %g", s->axis[i].size - 1, i, name, k);
			return false;
		}
		*at += (size_t)k * s->axis[i].stride;
	}
	return true;
}

bool run_lines(struct frame *f, const struct slice *s, const char *name, vec y, run_line *line, void *with)
{
	int n = s->n_kept;
	size_t inner = n ? s->axis[s->kept[n - 1]].stride : 1, length = n ? len_now(f, s->axis[s->kept[n - 1]].len) : 1, at;
	size_t outer = n == 2 ? s->axis[s->kept[0]].stride : 0, rows = n == 2 ? len_now(f, s->axis[s->kept[0]].len) : 1;

	if (!offset(f, s, name, &at)) return false;
	if (n == 2 && inner == 1 && outer == length) length *= rows, rows = 1;
	for (size_t i = 0; i < rows; i++) line(f, s->tensor, at + i * outer, inner, c_part(f->c, y, i * length, length), with);
	return true;
}

static void load(struct frame *f, int in, size_t at, size_t step, vec x, void *with) { (void)with; c_load(f->c, x, in, at, step); }
static void store(struct frame *f, int out, size_t at, size_t step, vec x, void *with) { (void)with; c_store(f->c, out, at, step, x); }

void run_load(struct frame *f, const struct slice *s, vec y)
{
	if (!run_lines(f, s, f->p->call->op->in[s->tensor].name, y, load, NULL)) c_set(f->c, y, (double)NAN);
}

/* Zeros beyond its end and before its first. */
void run_memory(struct frame *f, const struct ex *x, vec y)
{
	double first = ix_value(f->p, x->ix, f->var), all = (double)f->p->call->in[x->op]->count;

	c_set(f->c, y, 0);
	if (!(first >= 0 && first < all && first == floor(first))) return;
	c_load(f->c, c_part(f->c, y, 0, first + (double)y.n > all ? (size_t)(all - first) : y.n), x->op, (size_t)first, 1);
}

void run_store(struct frame *f, const struct slice *s, const struct ex *x, vec y)
{
	size_t n = count_now(f, x);

	if (!run_lines(f, s, f->p->call->op->out[s->tensor].name, y, store, NULL)) return;
	#pragma omp atomic
	f->p->stored[s->tensor] += n;
}

bool run_ends(struct frame *f, const struct step *s, size_t *first, size_t *last)
{
	struct program_loop *l = s->loop;
	double a = ix_value(f->p, l->first, f->var), b = ix_value(f->p, l->last, f->var), n;

	if (l->cuts >= 0) {
		n = ix_value(f->p, l->sequence, f->var);
		const struct tensor *t = f->p->call->in[l->cuts];
		if (!(n >= 0 && n + 1 < (double)t->count && n == floor(n))) {
			run_failed(f->p, s->at, "expected a sequence from 0 to %zu, got %g", t->count - 2, n);
			return false;
		}
		a = (double)c_int(f->c, l->cuts, (size_t)n);
		b = (double)c_int(f->c, l->cuts, (size_t)n + 1);
	}
	if (!(a >= 0 && b < 0x1p48 && a == floor(a) && b == floor(b))) {
		run_failed(f->p, s->at, "expected whole numbers as the ends of a loop, got %g and %g", a, b);
		return false;
	}
	*first = (size_t)a;
	*last = b > a ? (size_t)b : (size_t)a;
	return true;
}

void run_turn(struct frame *f, const struct program_loop *l, size_t t, size_t last)
{
	f->var[l->var] = (double)t;
	if (l->chunk >= 0) f->len[l->chunk] = last - t < l->by ? last - t : l->by;
}

static void loop(struct frame *f, const struct step *s)
{
	struct program_loop *l = s->loop;
	size_t first, last;

	if (!run_ends(f, s, &first, &last)) return;
	for (size_t t = first; t < last; t += l->by) {
		run_turn(f, l, t, last);
		for (const struct step *x = l->body; x; x = x->next) run_step(f, x);
	}
}

void run_step(struct frame *f, const struct step *s)
{
	size_t mark = c_mark(f->c), n = s->kind == STEP_LOOP ? 0 : count_now(f, s->value);
	vec y = { 0 };

	if (s->kind == STEP_LOOP) {
		loop(f, s);
		return;
	}
	if (s->swap >= 0) {
		vec x = f->reg[s->reg];
		f->reg[s->reg] = f->reg[s->swap];
		f->reg[s->swap] = x;
	}
	y = (vec){ f->reg[s->reg].at, n };
	vec made = s->apart ? c_vec(f->c, n) : y;
	run_into(f, s->value, made);
	if (s->apart) c_copy(f->c, y, made);
	if (s->site >= 0) c_site(f->c, s->site, y);
	if (s->kind == STEP_PUT) run_store(f, s->slice, s->value, y);
	c_release(f->c, mark);
}

struct frame *run_begin(struct program *p, calc *c, size_t piece)
{
	struct frame *f = c_bytes(c, sizeof *f);

	f->p = p;
	f->c = c;
	f->reg = c_bytes(c, (size_t)p->n_reg * sizeof *f->reg);
	for (int i = p->n_each; i-- > 0; piece /= p->each[i]) f->var[i] = (double)(piece % p->each[i]);
	for (int i = 0; i < p->n_reg; i++) {
		f->reg[i] = c_vec(c, p->reg[i].rows.n * p->reg[i].cols.n);
		if (p->is_constant[i]) c_set(c, f->reg[i], p->constant[i]);
	}
	return f;
}

void program_piece(struct program *p, calc *c, size_t piece)
{
	struct frame *f = run_begin(p, c, piece);

	for (const struct step *s = p->step; s; s = s->next) run_step(f, s);
}

bool program_done(struct program *p, const struct strip *s, const struct plan *plan, bool ok, struct error *e)
{
	if (ok && p->failed) {
		if (e) *e = p->error;
		ok = false;
	}
	for (int i = 0; ok && plan->stride <= 1 && i < MAX_OUT && p->call->op->out[i].name; i++)
		if (p->stored[i] != s->count[i])
			ok = formula_error(e, p->path, 1, 1, "expected that each element of %s is stored once; %zu of %zu are", p->call->op->out[i].name,
				p->stored[i], s->count[i]);
	program_free(p);
	return ok;
}
