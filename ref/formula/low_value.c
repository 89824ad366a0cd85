/* Values: their shapes, and the operations that make them. */
#include "lower.h"

#include <math.h>
#include <string.h>

struct ex *ex_make(struct lower *l, enum ex_kind kind, struct shape s, struct ex *a, struct ex *b)
{
	struct ex *x = low_make(l, sizeof *x);

	if (s.cols.n && s.rows.n > ((size_t)1 << 32) / s.cols.n) {
		low_error(l, NULL, "expected values of at most 2^32 elements, got %zu by %zu", s.rows.n, s.cols.n);
		return NULL;
	}
	if (x) *x = (struct ex){ .kind = kind, .s = s, .a = a, .b = b, .reg = -1 };
	return x;
}

struct ex *ex_number(struct lower *l, double number)
{
	struct program *p = l->p;
	struct ex *x = ex_make(l, EX_NUMBER, scalar, NULL, NULL);

	if (!x) return NULL;
	x->number = number;
	for (int i = 0; i < p->n_reg; i++)
		if (p->is_constant[i] && !memcmp(&p->constant[i], &number, sizeof number)) x->reg = i;
	if (x->reg >= 0) return x;
	if ((x->reg = new_reg(l, NULL, scalar)) < 0) return NULL;
	p->is_constant[x->reg] = true;
	p->constant[x->reg] = number;
	return x;
}

struct ex *ex_map(struct lower *l, enum fn f, struct ex *a)
{
	struct ex *x = a ? ex_make(l, EX_MAP, a->s, a, NULL) : NULL;

	if (x) x->op = (int)f;
	return x;
}

struct ex *ex_flip(struct lower *l, struct ex *a)
{
	if (!a || a->s.rank == SCALAR) return a;
	if (a->kind == EX_FLIP && a->s.rank != MATRIX) return a->a;
	struct shape s = { a->s.rank == COLUMN ? ROW : a->s.rank == ROW ? COLUMN : MATRIX, a->s.cols, a->s.rows };
	return ex_make(l, a->s.rank == MATRIX ? EX_TRANS : EX_FLIP, s, a, NULL);
}

struct ex *ex_shaped(struct lower *l, struct shape s, struct ex *x) { return ex_make(l, EX_FLIP, s, x, NULL); }

static bool fits(struct len a, struct len b, struct len *both)
{
	bool one = a.n == 1 && a.chunk < 0;

	*both = one ? b : a;
	return one || (b.n == 1 && b.chunk < 0) || same_len(a, b);
}

/* Lengths of 1 go with any, as in NumPy, where they are those of a scalar, a row or a column. */
struct ex *ex_zip(struct lower *l, const struct node *at, enum binary op, struct ex *a, struct ex *b)
{
	char text[2][SHAPE_SAID];
	struct shape s;

	if (!a || !b) return NULL;
	enum rank r = a->s.rank, q = b->s.rank;
	bool matrix = r == MATRIX || q == MATRIX || (r == ROW && q == COLUMN) || (r == COLUMN && q == ROW);
	s.rank = matrix ? MATRIX : r == SCALAR ? q : r;
	bool ok = r == SCALAR || q == SCALAR || ((r == q) ? same_shape(a->s, b->s)
		: ((r != ROW && q != ROW) ? same_len(a->s.rows, b->s.rows) : true) && ((r != COLUMN && q != COLUMN) ? same_len(a->s.cols, b->s.cols) : true));
	ok = ok && fits(a->s.rows, b->s.rows, &s.rows) && fits(a->s.cols, b->s.cols, &s.cols);
	if (!ok) {
		low_error(l, at, "expected shapes that go together, got %s and %s", shape_said(l->call, a->s, text[0]),
			shape_said(l->call, b->s, text[1]));
		return NULL;
	}
	struct ex *x = ex_make(l, EX_ZIP, s, a, b);
	if (!x) return NULL;
	x->op = (int)op;
	x->top = same_shape(a->s, s);
	x->whole = s.rank != MATRIX || (x->top && (same_shape(b->s, s) || q == SCALAR)) || (r == SCALAR && q == MATRIX);
	/* c_dot and the like make a product's sum where it is added to what is there */
	if (op == OP_ADD && (b->kind == EX_OUTER || b->kind == EX_GEMM) && !b->c && !b->two_parts && same_shape(a->s, s) && same_shape(b->s, s)) {
		struct ex *sum = ex_make(l, b->kind, s, b->a, b->b);
		if (!sum) return NULL;
		sum->op = b->op;
		sum->c = a;
		return sum;
	}
	return x;
}

static struct ex *power(struct lower *l, const struct node *x)
{
	static const struct { double power; enum fn f; } known[] = { { 0.5, FN_SQRT }, { -0.5, FN_RSQRT }, { -1, FN_RECIP }, { 1, FN_ID } };
	const struct node *p = x->arg[1];
	double n = p->kind == NODE_NUMBER ? p->number
		: p->kind == NODE_NEG && p->arg[0]->kind == NODE_NUMBER ? -p->arg[0]->number : (double)NAN;
	struct ex *a = low_value(l, x->arg[0]);

	if (!a) return NULL;
	for (int i = 0; i < 4; i++)
		if (n == known[i].power) return ex_map(l, known[i].f, a);
	if (n >= 2 && n <= 8 && n == floor(n)) {
		struct ex *base = ex_hold(l, x, a), *all = base;
		for (int i = 1; i < (int)n && all; i++) all = ex_zip(l, x, OP_MUL, all, base);
		return all;
	}
	return ex_zip(l, x, OP_POW, a, low_value(l, p));
}

static struct ex *of_index(struct lower *l, struct ix *i)
{
	struct ex *e = ex_make(l, EX_IX, scalar, NULL, NULL);
	double known;

	if (ix_known(i, &known)) return ex_number(l, known);
	if (e) e->ix = i;
	return e;
}

static struct ex *made_from_ix(struct lower *l, const struct node *x)
{
	struct ix *i = low_ix(l, x);

	if (!i) return NULL;
	if (i->each) {
		low_error(l, x, "expected a value; this is a number for each index of a chunk");
		return NULL;
	}
	return of_index(l, i);
}

static struct ex *name(struct lower *l, const struct node *x)
{
	const struct definition *d = redefined(l, x->name, NULL, '=');
	int i;

	for (struct binding *b = l->bindings; b; b = b->next)
		if (same_name(b->name, x->name))        /* a node of its own: what reuse() does with one step's is not another's */
			return !b->value ? of_index(l, b->ix) : b->value->kind == EX_REG ? ex_reg(l, b->value->reg) : b->value;
	const struct symbol *s = symbol_find(l, x->name);
	if (s && s->kind == SYMBOL_REG) return ex_reg(l, s->index);
	if (s && s->kind == SYMBOL_CHUNK) {
		low_error(l, x, "expected a value; '%s' is a range of indices: iota(%s)", x->name, x->name);
		return NULL;
	}
	if (!s && d) return ex_hold(l, x, low_value(l, d->value));
	if (!s && (i = declared_index(l->t->params, x->name)) >= 0 && isnan(l->call->param[i])) {
		struct param_decl *p = declared(l->t->params, x->name);
		if (p->value) return ex_hold(l, x, low_value(l, p->value));
	}
	if (!s && (declared(l->t->in, x->name) || declared(l->t->held, x->name)) && !declared(l->t->params, x->name)) {
		const struct node whole = { NODE_INDEX, x->line, x->column, x->name, 0, 0, NULL };
		return low_value(l, &whole);
	}
	if (!s && !strcmp(x->name, "inf")) return ex_number(l, (double)INFINITY);
	if (!s && !strcmp(x->name, "nan")) return ex_number(l, (double)NAN);
	return made_from_ix(l, x);
}

static struct ex *load(struct lower *l, const struct node *x)
{
	struct node *kept = low_make(l, sizeof *kept);
	struct shape s;

	if (!kept) return NULL;
	*kept = *x;
	const struct symbol *y = symbol_find(l, x->name);
	int list = declared_index(l->t->params, x->name);
	if (list >= 0 && l->op->params[list].kind == PARAM_LIST) return made_from_ix(l, x);
	if (y) {
		low_error(l, x, "expected an input, or what pieces above hold ('held %s [...]'); '%s' is a value, of which element(%s, i) takes one", x->name, x->name, x->name);
		return NULL;
	}
	struct slice *slice = low_slice(l, kept, false, &s);
	struct ex *e = slice ? ex_make(l, EX_LOAD, s, NULL, NULL) : NULL;
	if (e) e->slice = slice;
	return e;
}

struct ex *ex_filled(struct lower *l, struct shape s, struct ex *x)
{
	struct ex *all = x ? ex_make(l, EX_IF, s, x, x) : NULL;

	return all && (all->ix = ix_number(l, 1)) ? all : NULL;
}

static bool reads(const struct node *x, const char *name)
{
	bool yes = x->kind == NODE_NAME && !strcmp(x->name, name);

	for (int i = 0; i < x->n; i++) yes = yes || reads(x->arg[i], name);
	return yes;
}

/* Does x read a value that the plan rounds, and that `other` does not read? */
static bool has_rounded(const struct lower *l, const struct node *x, const struct node *other)
{
	bool yes = x->kind == NODE_NAME && rounds(l, formula_site(l->t, l->op, x->name)) && !reads(other, x->name);

	for (int i = 0; i < x->n; i++) yes = yes || has_rounded(l, x->arg[i], other);
	return yes;
}

/* The first of what is equal by algebra, but where the plan rounds what only another one reads. */
static const struct node *alternative(const struct lower *l, const struct node *x)
{
	for (int i = 1; i < x->n; i++)
		if (has_rounded(l, x->arg[i], x->arg[0])) return x->arg[i];
	return x->arg[0];
}

static struct ex *operation(struct lower *l, const struct node *x)
{
	enum binary op = x->kind == NODE_ADD ? OP_ADD : x->kind == NODE_SUB ? OP_SUB : x->kind == NODE_MUL ? OP_MUL : OP_DIV;
	struct ex *a = low_value(l, x->arg[0]), *b = a ? low_value(l, x->arg[1]) : NULL;

	return ex_zip(l, x, op, a, b);
}

static struct ex *of_kind(struct lower *l, const struct node *x)
{
	switch (x->kind) {
	case NODE_NUMBER: return ex_number(l, x->number);
	case NODE_NAME: return name(l, x);
	case NODE_INDEX: return load(l, x);
	case NODE_CALL: return low_folds(x) ? made_from_ix(l, x) : low_call(l, x);
	case NODE_NEG: return ex_map(l, FN_NEG, low_value(l, x->arg[0]));
	case NODE_TRANS: return ex_flip(l, low_value(l, x->arg[0]));
	case NODE_CHAIN: return low_chain(l, x);
	case NODE_POW: return power(l, x);
	case NODE_IF: return low_chosen(l, x);
	case NODE_ALT: return low_value(l, alternative(l, x));
	case NODE_ADD: case NODE_SUB: case NODE_MUL: case NODE_DIV: return operation(l, x);
	case NODE_EQ: case NODE_NE: case NODE_LT: case NODE_LE: case NODE_GT: case NODE_GE: return low_compared(l, x);
	case NODE_IDIV: case NODE_MOD: case NODE_AND: case NODE_OR: case NODE_NOT: case NODE_GIVEN: case NODE_IN: return made_from_ix(l, x);
	case NODE_RANGE: case NODE_ALL: low_error(l, x, "expected a value, not a range"); break;
	}
	return NULL;
}

struct ex *low_value(struct lower *l, const struct node *x)
{
	struct ex *y = NULL;

	if (++l->depth > 200) low_error(l, x, "expected no definition that leads back to itself");
	else y = of_kind(l, x);
	l->depth--;
	return y;
}
