/* From tree to program: names, steps, loops, faults. */
#include "lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool low_error(struct lower *l, const struct node *at, const char *what, ...)
{
	va_list more;

	va_start(more, what);
	formula_error_list(l->e, l->t->path, at ? at->line : 1, at ? at->column : 1, what, more);
	va_end(more);
	return false;
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

/* Does the plan make fault f, number i, in this form? */
static bool is_made(const struct lower *l, const struct fault_decl *f, int i)
{
	return i < MAX_FAULT && l->plan->faults >> i & 1 && (!f->form[0] || declared_index(l->t->forms, f->form) == l->form);
}

const struct definition *redefined(struct lower *l, const char *name, const struct node *target, char kind)
{
	int i = 0, used = 0;

	for (const struct fault_decl *f = l->t->faults; f; f = (const struct fault_decl *)f->d.next, i++) {
		if (!is_made(l, f, i)) continue;
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
	*x = (struct symbol){ name, kind, index, false, s, NULL, l->symbols };
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

int new_var(struct lower *l, const struct node *at)
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

struct ex *ex_reg(struct lower *l, int reg)
{
	struct ex *x = ex_make(l, EX_REG, l->p->reg[reg], NULL, NULL);

	if (x) x->reg = reg;
	return x;
}

struct step *add_set(struct lower *l, const struct node *at, int reg, struct ex *value)
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
	if ((reg = new_reg(l, at, x->s)) < 0 || !add_set(l, at, reg, x)) return NULL;
	return ex_reg(l, reg);
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
		if (!is_made(l, f, i)) continue;
		for (int k = 0; k < f->n; k++, used++)
			if (used < 64 && !(l->used >> used & 1))
				return low_error(l, f->define[k].target, "expected a definition that the form '%s' has",
					f->form[0] ? f->form : l->t->forms->d.name);
	}
	return true;
}

static struct program *make(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, bool keep, struct error *e)
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
	p->keep = keep;
	l.end = &p->step;
	for (int i = 0; i < plan->form && f->d.next; i++) f = (const struct form_decl *)f->d.next;
	if (each(&l) && low_body(&l, f->body) && (!only_one(plan->faults) || all_used(&l))) {
		reuse(p, &p->step, NULL, 0);
		return p;
	}
	program_free(p);
	return NULL;
}

struct program *program_make(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, struct error *e)
{
	return make(t, op, call, plan, false, e);
}

struct program *program_make_kept(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, struct error *e)
{
	return make(t, op, call, plan, true, e);
}

void program_free(struct program *p)
{
	if (p) pool_free(&p->pool);
	free(p);
}
