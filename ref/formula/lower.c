/* From tree to program: names, steps, loops, faults. */
#include "lower.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool low_error(struct lower *l, const struct node *at, const char *what, ...)
{
	char text[256];
	va_list more;

	va_start(more, what);
	vsnprintf(text, sizeof text, what, more);
	va_end(more);
	return formula_error(l->e, l->t->path, at ? at->line : 1, at ? at->column : 1, "%s", text);
}

void *low_make(struct lower *l, size_t n)
{
	void *p = pool_make(&l->p->pool, n);

	if (!p) error_set(l->e, E_MEMORY, l->t->path, NO_OFFSET, "preparing a formula");
	return p;
}

static int length_said(struct len a, char *text, size_t n)
{
	return a.chunk < 0 ? snprintf(text, n, "%zu", a.n) : snprintf(text, n, "chunk of up to %zu", a.n);
}

const char *shape_said(struct shape s, char *text, size_t n)
{
	char rows[32], cols[32];

	length_said(s.rows, rows, sizeof rows);
	length_said(s.cols, cols, sizeof cols);
	switch (s.rank) {
	case SCALAR: snprintf(text, n, "a number"); break;
	case COLUMN: snprintf(text, n, "a column [%s]", rows); break;
	case ROW: snprintf(text, n, "a row [%s]", cols); break;
	case MATRIX: snprintf(text, n, "a matrix [%s, %s]", rows, cols); break;
	}
	return text;
}

bool same_node(const struct node *a, const struct node *b)
{
	if (a->kind != b->kind || a->n != b->n || a->number != b->number) return false;
	if ((a->kind == NODE_NAME || a->kind == NODE_INDEX || a->kind == NODE_CALL) && strcmp(a->name, b->name)) return false;
	for (int i = 0; i < a->n; i++)
		if (!same_node(a->arg[i], b->arg[i])) return false;
	return true;
}

const struct definition *redefined(struct lower *l, const char *name, const struct node *target, char kind)
{
	int i = 0, used = 0;

	for (const struct fault_decl *f = l->t->faults; f; f = (const struct fault_decl *)f->d.next, i++) {
		if (i >= MAX_MISTAKE || !(l->plan->mistakes >> i & 1) || (f->form[0] && declared_index(l->t->forms, f->form) != l->form)) continue;
		for (int k = 0; k < f->n; k++, used++) {
			const struct definition *d = &f->define[k];
			if (strcmp(d->name, name) || d->kind != kind || d->indexed != (target != NULL)) continue;
			if (target && !same_node(target, d->target)) continue;
			if (used < 64) l->used |= UINT64_C(1) << used;
			return d;
		}
	}
	return NULL;
}

struct symbol *symbol_find(const struct lower *l, const char *name)
{
	for (struct symbol *s = l->symbols; s; s = s->outer)
		if (!strcmp(s->name, name)) return s;
	return NULL;
}

struct symbol *symbol_add(struct lower *l, const char *name, enum symbol_kind kind, int index, struct shape s)
{
	struct symbol *x = low_make(l, sizeof *x);

	if (!x) return NULL;
	*x = (struct symbol){ name, kind, index, false, s, l->symbols };
	return l->symbols = x;
}

int new_reg(struct lower *l, const struct node *at, struct shape s)
{
	if (l->p->n_reg < MAX_REG) {
		l->p->reg[l->p->n_reg] = s;
		return l->p->n_reg++;
	}
	low_error(l, at, "expected a shorter formula, with fewer than %d values", MAX_REG);
	return -1;
}

static int new_var(struct lower *l, const struct node *at)
{
	if (l->p->n_var < MAX_VAR) return l->p->n_var++;
	low_error(l, at, "expected fewer than %d indices", MAX_VAR);
	return -1;
}

struct step *add_step(struct lower *l, enum step_kind kind, const struct node *at)
{
	struct step *s = low_make(l, sizeof *s);

	if (!s) return NULL;
	*s = (struct step){ .kind = kind, .at = at, .reg = -1, .site = -1, .swap = -1 };
	*l->end = s;
	l->end = &s->next;
	return s;
}

static struct ex *in_reg(struct lower *l, int reg)
{
	struct ex *x = ex_make(l, EX_REG, l->p->reg[reg], NULL, NULL);

	if (x) x->reg = reg;
	return x;
}

static struct step *set(struct lower *l, const struct node *at, int reg, struct ex *value)
{
	struct step *s = add_step(l, STEP_SET, at);

	if (!s) return NULL;
	s->reg = reg;
	s->value = value;
	return s;
}

struct ex *ex_hold(struct lower *l, const struct node *at, struct ex *x)
{
	int reg;

	if (!x || x->kind == EX_REG || x->kind == EX_NUMBER || (x->kind == EX_FLIP && x->a->kind == EX_REG)) return x;
	if ((reg = new_reg(l, at, x->s)) < 0 || !set(l, at, reg, x)) return NULL;
	return in_reg(l, reg);
}

/* name = value: into the register of that name, new unless it is carried. */
static bool define(struct lower *l, const struct definition *d)
{
	const struct definition *other = redefined(l, d->name, NULL, '=');
	struct symbol *s = symbol_find(l, d->name);
	struct node *value = other ? other->value : d->value;
	char text[2][64];

	if (s && !(s->kind == SYMBOL_REG && s->carried))
		return low_error(l, d->target, "expected a name of its own, or one that the loop carries; '%s' is defined already", d->name);
	if (declared(l->t->in, d->name) || declared(l->t->params, d->name) || declared(l->t->lets, d->name) || declared(l->t->aliases, d->name))
		return low_error(l, d->target, "expected a name of its own; '%s' is declared above", d->name);
	struct ex *x = low_value(l, value);
	if (!x) return false;
	if (s && x->s.rank == SCALAR && s->s.rank != SCALAR) {
		struct ex *zero = ex_make(l, EX_IF, s->s, x, x);
		if (!zero || !(zero->ix = ix_number(l, 1))) return false;
		x = zero;
	}
	if (s && !same_shape(s->s, x->s))
		return low_error(l, value, "expected %s for '%s', got %s", shape_said(s->s, text[0], 64), d->name, shape_said(x->s, text[1], 64));
	int reg = s ? s->index : new_reg(l, d->target, x->s);
	if (reg < 0 || (!s && !symbol_add(l, d->name, SYMBOL_REG, reg, x->s))) return false;
	struct step *step = set(l, d->target, reg, x);
	if (step) step->site = op_site(l->op, d->name);
	return step != NULL;
}

/* Is the output asked for in this call? */
static bool has_output(const struct lower *l, const char *name)
{
	const struct tensor_decl *t = declared(l->t->out, name);
	int with = t && t->with[0] ? declared_index(l->t->in, t->with) : -1;

	return with < 0 || l->call->in[with];
}

static bool put(struct lower *l, const struct node *target, struct ex *x)
{
	struct shape s;
	char text[2][64];

	if (!x || !has_output(l, target->name)) return x != NULL;
	struct slice *slice = low_slice(l, target, true, &s);
	if (!slice) return false;
	if (x->s.rank == ROW && s.rank == COLUMN && !(x = ex_flip(l, x))) return false;
	if (x->s.rank == SCALAR && s.rank != SCALAR) {
		struct ex *all = ex_make(l, EX_IF, s, x, x);
		if (!all || !(all->ix = ix_number(l, 1))) return false;
		x = all;
	}
	if (!same_shape(x->s, s))
		return low_error(l, target, "expected %s for %s, got %s", shape_said(s, text[0], 64), target->name, shape_said(x->s, text[1], 64));
	int reg = new_reg(l, target, s);
	struct step *step = reg < 0 ? NULL : add_step(l, STEP_PUT, target);
	if (!step) return false;
	step->reg = reg;
	step->value = x;
	step->slice = slice;
	step->site = op_site(l->op, target->name);
	return true;
}

static bool bounds(struct lower *l, const struct loop *t, struct program_loop *p, double *most)
{
	bool range = t->range->kind == NODE_RANGE;
	double first = 0, last;

	*most = (double)NAN;
	p->first = range ? low_ix(l, t->range->arg[0]) : ix_number(l, 0);
	p->last = p->first ? low_ix(l, range ? t->range->arg[1] : t->range) : NULL;
	if (!p->last) return false;
	if (ix_known(p->first, &first) && ix_known(p->last, &last)) *most = last - first;
	p->cuts = -1;
	if (!t->cuts) return true;
	if (t->cuts->kind != NODE_INDEX || t->cuts->n != 1) return low_error(l, t->cuts, "expected NAME[sequence] of an integer input");
	if ((p->cuts = declared_index(l->t->in, t->cuts->name)) < 0) return low_error(l, t->cuts, "expected an input; nothing is named '%s'", t->cuts->name);
	if (!(p->sequence = low_ix(l, t->cuts->arg[0]))) return false;
	if (!l->call->in[p->cuts]) p->cuts = -1;
	return true;
}

/* What is carried gets its register and its first value before the loop. */
static bool begin(struct lower *l, const struct carry *c, int *reg)
{
	const struct definition *d = redefined(l, c->name, NULL, 'f');
	struct ex *x = low_value(l, d ? d->value : c->from);
	struct shape s = x ? x->s : scalar;

	if (!x) return false;
	if (x->s.rank == SCALAR && c->to) {
		if (!low_slice(l, c->to, true, &s)) return false;
		if (s.rank != SCALAR) {
			if (!(x = ex_make(l, EX_IF, s, x, x)) || !(x->ix = ix_number(l, 1))) return false;
		}
	}
	*reg = new_reg(l, c->from, s);
	struct symbol *y = *reg >= 0 && set(l, c->from, *reg, x) ? symbol_add(l, c->name, SYMBOL_REG, *reg, s) : NULL;
	if (y) y->carried = true;
	return y != NULL;
}

static bool loop(struct lower *l, const struct statement *x)
{
	const struct loop *t = x->loop;
	struct program_loop *p = low_make(l, sizeof *p);
	struct symbol *outer = l->symbols;
	int reg[MAX_BY];
	double most;

	if (!p) return false;
	*p = (struct program_loop){ .chunk = -1, .by = 1 };
	if (!bounds(l, t, p, &most) || (p->var = new_var(l, t->range)) < 0) return false;
	for (int i = 0; i < t->n_carry; i++)
		if (!begin(l, &t->carry[i], &reg[i])) return false;
	struct len len = { 1, -1 };
	if (t->chunks) {
		if (l->p->n_chunk == MAX_PROGRAM_CHUNK) return low_error(l, t->range, "expected fewer loops over chunks");
		p->by = l->plan->chunk ? l->plan->chunk : t->by[0];
		p->chunk = l->p->n_chunk++;
		len = (struct len){ p->by, p->chunk };
	}
	if (!symbol_add(l, t->var, t->chunks ? SYMBOL_CHUNK : SYMBOL_VAR, p->var, (struct shape){ COLUMN, len, { 1, -1 } })) return false;
	struct step *s = add_step(l, STEP_LOOP, t->range), **end = l->end;
	if (!s) return false;
	s->loop = p;
	l->end = &p->body;
	if (!low_body(l, x->body)) return false;
	l->end = end;
	reuse(l->p, p->body, reg, t->n_carry);
	for (int i = 0; i < t->n_carry; i++) {
		const struct definition *d = redefined(l, t->carry[i].name, NULL, 't');
		if (t->carry[i].to && !put(l, d ? d->value : t->carry[i].to, in_reg(l, reg[i]))) return false;
	}
	/* what is carried is read after the loop, what its body defines is not */
	struct symbol *after = outer;
	for (int i = 0; i < t->n_carry; i++) {
		l->symbols = after;
		if (!(after = symbol_add(l, t->carry[i].name, SYMBOL_REG, reg[i], l->p->reg[reg[i]]))) return false;
	}
	l->symbols = after;
	return true;
}

bool low_body(struct lower *l, const struct statement *body)
{
	for (const struct statement *x = body; x; x = x->next) {
		if (x->loop) {
			if (!loop(l, x)) return false;
		} else if (x->define.indexed) {
			const struct definition *d = redefined(l, x->define.name, x->define.target, '=');
			if (!has_output(l, x->define.name)) continue;
			if (!put(l, x->define.target, low_value(l, d ? d->value : x->define.value))) return false;
		} else if (!define(l, &x->define)) return false;
	}
	return true;
}

static bool each(struct lower *l)
{
	for (const struct each *x = l->t->each; x; x = (const struct each *)x->d.next) {
		const struct node at = { .line = x->d.line, .column = x->d.column };
		int i = 0;
		while (l->op->dims[i] && strcmp(l->op->dims[i], x->dim)) i++;
		if (!l->op->dims[i]) return low_error(l, &at, "expected the name of a size; no tensor has '%s'", x->dim);
		int var = new_var(l, &at);
		if (var < 0 || !symbol_add(l, x->d.name, SYMBOL_VAR, var, scalar)) return false;
		l->p->each[var] = l->call->dim[i];
		l->p->n_each++;
	}
	return true;
}

/* Two faults may define the same thing. */
static bool only_one(uint64_t faults) { return faults && !(faults & (faults - 1)); }

/* Does the form have all that the plan's fault defines anew? */
static bool all_used(struct lower *l)
{
	int i = 0, used = 0;

	for (const struct fault_decl *f = l->t->faults; f; f = (const struct fault_decl *)f->d.next, i++) {
		if (i >= MAX_MISTAKE || !(l->plan->mistakes >> i & 1) || (f->form[0] && declared_index(l->t->forms, f->form) != l->form)) continue;
		for (int k = 0; k < f->n; k++, used++)
			if (used < 64 && !(l->used >> used & 1))
				return low_error(l, f->define[k].target, "expected a definition that the form '%s' has", 
					f->form[0] ? f->form : l->t->forms->d.name);
	}
	return true;
}

struct program *program_make(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, struct error *e)
{
	struct program *p = calloc(1, sizeof *p);
	struct lower l = { .t = t, .op = op, .call = call, .plan = plan, .form = plan->form, .p = p, .e = e };
	const struct form_decl *f = t->forms;

	if (!p) {
		error_set(e, E_MEMORY, t->path, NO_OFFSET, "preparing a formula");
		return NULL;
	}
	p->path = t->path;
	p->call = call;
	l.end = &p->step;
	for (int i = 0; i < plan->form && f->d.next; i++) f = (const struct form_decl *)f->d.next;
	if (each(&l) && low_body(&l, f->body) && (!only_one(plan->mistakes) || all_used(&l))) {
		reuse(p, p->step, NULL, 0);
		return p;
	}
	program_free(p);
	return NULL;
}

void program_free(struct program *p)
{
	if (p) pool_free(&p->pool);
	free(p);
}
