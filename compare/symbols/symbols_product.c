/* Products as chains, sums as lists, and what is common to the terms of a sum in front of it. */
#include <string.h>

#include "ref/arith/arith.h"
#include "symbols.h"

enum { MAX_ENTRY = 24 };
struct entries { int n; struct sym *x[MAX_ENTRY]; enum role role[MAX_ENTRY]; };

static void entries_of(struct entries *e, struct sym *x)
{
	if (x->kind != SYM_PRODUCT) {
		if (e->n < MAX_ENTRY) e->role[e->n] = x->s.rank == SCALAR ? NUMBER : DENSE, e->x[e->n++] = x;
		return;
	}
	for (int i = 0; i < x->n && e->n < MAX_ENTRY; i++) e->role[e->n] = x->role[i], e->x[e->n++] = x->arg[i];
}

static struct sym *of_entries(struct form_symbols *f, struct shape s, const struct entries *e)
{
	if (e->n == MAX_ENTRY) {
		f->missing = "a longer product than is taken apart";
		return NULL;
	}
	if (e->n == 1 && e->role[0] != DIAGONAL) return e->x[0];
	struct sym *x = sym_make(f, SYM_PRODUCT, s, e->n);
	for (int i = 0; x && i < e->n; i++) x->arg[i] = e->x[i], x->role[i] = e->role[i];
	return x;
}

struct sym *sym_chain(struct form_symbols *f, struct shape s, struct sym *a, struct sym *b)
{
	struct entries e = { 0 };

	entries_of(&e, a);
	entries_of(&e, b);
	return of_entries(f, s, &e);
}

static struct sym *elementwise(struct form_symbols *f, struct shape s, struct sym *a, struct sym *b)
{
	struct sym *two[] = { a, b }, *x;
	int n = 0, k = 0;

	for (int i = 0; i < 2; i++) n += two[i]->kind == SYM_TIMES ? two[i]->n : 1;
	if (!(x = sym_make(f, SYM_TIMES, s, n))) return NULL;
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < (two[i]->kind == SYM_TIMES ? two[i]->n : 1); j++) x->arg[k++] = two[i]->kind == SYM_TIMES ? two[i]->arg[j] : two[i];
	return x;
}

static bool is_one(const struct sym *x) { return is_ex(x, EX_NUMBER) && x->ex->number == 1; }

static struct sym *scaled(struct form_symbols *f, struct shape s, struct sym *number, struct sym *product)
{
	struct entries e = { .n = 1, .x = { number }, .role = { NUMBER } };

	entries_of(&e, product);
	return of_entries(f, s, &e);
}

/* a * b: a number or, of a matrix, a vector goes into the chain; of what is no product and no matrix all factors stand side by side. */
struct sym *sym_times(struct form_symbols *f, struct shape s, struct sym *a, struct sym *b)
{
	struct entries e = { 0 };

	if (is_one(b) && same_shape(a->s, s)) return a;
	if (is_one(a) && same_shape(b->s, s)) return b;
	if (s.rank != MATRIX && a->s.rank == SCALAR && b->kind == SYM_PRODUCT) return scaled(f, s, a, b);
	if (s.rank != MATRIX && b->s.rank == SCALAR && a->kind == SYM_PRODUCT) return scaled(f, s, b, a);
	if (s.rank != MATRIX) return elementwise(f, s, a, b);
	if (a->s.rank != MATRIX) {
		struct sym *t = a;
		a = b;
		b = t;
	}
	if (a->s.rank != MATRIX || b->s.rank == MATRIX) return elementwise(f, s, a, b);
	if (b->s.rank == ROW) {
		entries_of(&e, a);
		if (e.n < MAX_ENTRY) e.role[e.n] = DIAGONAL, e.x[e.n++] = sym_trans(f, b);
	} else {
		e.role[e.n] = b->s.rank == SCALAR ? NUMBER : DIAGONAL, e.x[e.n++] = b;
		entries_of(&e, a);
	}
	return of_entries(f, s, &e);
}

struct sym *sym_trans(struct form_symbols *f, struct sym *a)
{
	struct shape s = { a->s.rank == COLUMN ? ROW : a->s.rank == ROW ? COLUMN : a->s.rank, a->s.cols, a->s.rows };
	enum ex_kind kind = a->s.rank == MATRIX ? EX_TRANS : EX_FLIP;

	if (a->s.rank == SCALAR) return a;
	if (is_ex(a, kind) && a->arg[0]->s.rank == s.rank) return a->arg[0];
	if (a->kind == SYM_PRODUCT && a->s.rank == MATRIX) {
		struct sym *x = sym_make(f, SYM_PRODUCT, s, a->n);
		for (int i = 0; x && i < a->n; i++) {
			x->role[i] = a->role[a->n - 1 - i];
			x->arg[i] = x->role[i] == DENSE ? sym_trans(f, a->arg[a->n - 1 - i]) : a->arg[a->n - 1 - i];
			if (!x->arg[i]) return NULL;
		}
		return x;
	}
	return sym_op(f, op_like(f, kind, s, 0), s, a, NULL, NULL);
}

/* ---- sums ---- */

static bool in_first_gap(const struct entries *e, int from, const struct sym *x)
{
	for (int i = from; i < e->n && e->role[i] != DENSE; i++)
		if (e->role[i] == DIAGONAL && e->x[i] == x) return true;
	return false;
}

static void drop(struct entries *e, int i)
{
	for (e->n--; i < e->n; i++) e->x[i] = e->x[i + 1], e->role[i] = e->role[i + 1];
}

static int dense(const struct entries *e)
{
	int n = 0;

	for (int i = 0; i < e->n; i++) n += e->role[i] == DENSE;
	return n;
}

/* M a x + M b y -> M (a x + b y), with the diagonals behind M that all terms have. Entries begin with a matrix. */
static struct sym *factored(struct form_symbols *f, struct sym *sum)
{
	struct entries e[8] = { 0 }, front = { 0 };

	if (sum->n < 2 || sum->n > 8 || sum->s.rank != MATRIX) return sum;
	for (int i = 0; i < sum->n; i++) {
		entries_of(&e[i], sum->arg[i]);
		if (e[i].role[0] != DENSE || e[i].x[0] != e[0].x[0] || dense(&e[i]) < 2) return sum;
	}
	front.x[0] = e[0].x[0];
	front.role[front.n++] = DENSE;
	for (int i = 0; i < sum->n; i++) drop(&e[i], 0);
	for (int k = 0; k < e[0].n && e[0].role[k] != DENSE;) {
		struct sym *d = e[0].x[k];
		bool all = e[0].role[k] == DIAGONAL;
		for (int i = 1; i < sum->n; i++) all = all && in_first_gap(&e[i], 0, d);
		if (!all) {
			k++;
			continue;
		}
		for (int i = 0; i < sum->n; i++) {
			int at = 0;
			while (e[i].x[at] != d) at++;
			drop(&e[i], at);
		}
		front.x[front.n] = d;
		front.role[front.n++] = DIAGONAL;
	}
	struct shape s = sum->s;
	s.rows = front.x[0]->s.cols;
	struct sym *rest = sym_make(f, SYM_SUM, s, sum->n);
	for (int i = 0; rest && i < sum->n; i++) {
		rest->sign[i] = sum->sign[i];
		if (!(rest->arg[i] = of_entries(f, s, &e[i]))) return NULL;
	}
	front.x[front.n] = rest;
	front.role[front.n++] = DENSE;
	return rest ? of_entries(f, sum->s, &front) : NULL;
}

struct sym *sym_add(struct form_symbols *f, struct shape s, struct sym *a, struct sym *b, int sign)
{
	bool flat_a = a->kind == SYM_SUM && a->s.rank == s.rank, flat_b = b->kind == SYM_SUM && b->s.rank == s.rank;
	int na = flat_a ? a->n : 1, nb = flat_b ? b->n : 1;
	struct sym *x = sym_make(f, SYM_SUM, s, na + nb);

	if (!x) return NULL;
	for (int i = 0; i < na; i++) x->arg[i] = flat_a ? a->arg[i] : a, x->sign[i] = flat_a ? a->sign[i] : 1;
	for (int i = 0; i < nb; i++) {
		x->arg[na + i] = flat_b ? b->arg[i] : b;
		x->sign[na + i] = (signed char)(sign * (flat_b ? b->sign[i] : 1));
	}
	return factored(f, x);
}

/* ---- exponents ---- */

static struct sym *unscaled(struct form_symbols *f, struct sym *x);

/* The same name, of the value before it was scaled. */
static struct sym *unscaled_name(struct form_symbols *f, struct sym *x)
{
	struct sym *a;

	if (x->other) return x->other;
	if (!(a = unscaled(f, x->arg[0])) || !(x->other = sym_make(f, SYM_NAME, a->s, 1))) return NULL;
	x->other->arg[0] = a;
	x->other->name = x->name;
	x->other->def = x->def;
	return x->other;
}

/* x times ln 2 where all of x was divided by it; NULL where it was not. */
static struct sym *unscaled(struct form_symbols *f, struct sym *x)
{
	struct sym *a, *y;

	if (is_ex(x, EX_MAP) && x->ex->op == FN_PER_LN2) return x->arg[0];
	if (x->kind == SYM_NAME) return unscaled_name(f, x);
	if (x->kind == SYM_SUM) {
		if (!(y = sym_make(f, SYM_SUM, x->s, x->n))) return NULL;
		for (int i = 0; i < x->n; i++) {
			y->sign[i] = x->sign[i];
			if (!(y->arg[i] = unscaled(f, x->arg[i]))) return NULL;
		}
		return y;
	}
	bool linear = is_ex(x, EX_TRANS) || is_ex(x, EX_FLIP) || is_ex(x, EX_LAST) || is_ex(x, EX_SCAN) || is_ex(x, EX_SHIFTED) || is_ex(x, EX_ELEMENT);
	if (!linear || !(a = unscaled(f, x->arg[0]))) return NULL;
	return is_ex(x, EX_TRANS) || is_ex(x, EX_FLIP) ? sym_trans(f, a) : sym_op(f, x->ex, x->s, a, NULL, NULL);
}

/* The inputs that x is a sum of. */
static void mark_exponents(struct sym *x)
{
	if (is_ex(x, EX_LOAD)) x->exponent = true;
	bool linear = x->kind == SYM_SUM || x->kind == SYM_NAME || is_ex(x, EX_TRANS) || is_ex(x, EX_FLIP) || is_ex(x, EX_LAST) || is_ex(x, EX_SCAN);
	for (int i = 0; linear && i < x->n; i++) mark_exponents(x->arg[i]);
}

static void mark_functions(struct form_symbols *f, const struct sym *x)
{
	bool map = is_ex(x, EX_MAP);

	if (map && x->ex->op < 64) f->in_exponents |= UINT64_C(1) << x->ex->op;
	if (x->kind == SYM_EXP) f->in_exponents |= UINT64_C(1) << FN_EXP | UINT64_C(1) << FN_EXP2;
	bool through = map || x->kind == SYM_SUM || x->kind == SYM_NAME || x->kind == SYM_TIMES || x->kind == SYM_EXP || is_ex(x, EX_TRANS) || is_ex(x, EX_FLIP)
		|| is_ex(x, EX_LAST) || is_ex(x, EX_SCAN);
	for (int i = 0; through && i < x->n; i++) mark_functions(f, x->arg[i]);
}

struct sym *sym_exp(struct form_symbols *f, struct sym *a, bool base2)
{
	struct sym *of = base2 ? unscaled(f, a) : a, *x = of ? sym_make(f, SYM_EXP, of->s, 1) : NULL;

	if (!x) return NULL;
	x->arg[0] = of;
	mark_exponents(of);
	mark_functions(f, of);
	return x;
}
