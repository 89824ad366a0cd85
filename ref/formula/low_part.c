/* Functions that take values apart and put them together. */
#include "lower.h"

#include <math.h>

/* The same numbers, row by row, as n rows of m. */
struct ex *low_reshape(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);
	double n, m;

	if (!a || !low_known(l, x->arg[1], &n) || !low_known(l, x->arg[2], &m)) return NULL;
	if (a->s.rows.chunk >= 0 || a->s.cols.chunk >= 0 || !(n >= 1 && m >= 1 && n * m == (double)(a->s.rows.n * a->s.cols.n)))
		return low_wrong(l, x, "as many elements as the first argument has, of a known size,");
	return ex_shaped(l, (struct shape){ MATRIX, { (size_t)n, -1 }, { (size_t)m, -1 } }, a);
}

/* shifted(v, i): of a column the elements, of a matrix the rows, i further down (1, where it is not said) behind zeros */
struct ex *low_shifted(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);
	double i;

	if (a && a->s.rank != COLUMN && a->s.rank != MATRIX) return low_wrong(l, x, "a column or a matrix as the first argument");
	struct ex *e = a ? ex_make(l, EX_SHIFTED, a->s, a, NULL) : NULL;
	if (!e || !(e->ix = x->n > 1 ? low_ix(l, x->arg[1]) : ix_number(l, 1))) return NULL;
	if (e->ix->each || (ix_known(e->ix, &i) && !(i >= 0 && i < 1e9 && i == floor(i)))) return low_wrong(l, x, "a whole number, 0 or more, as the second argument");
	return e;
}

/* element(v, i): element i of a column, row i of a matrix; the last one where it has fewer */
struct ex *low_element(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);

	if (a && a->s.rank != COLUMN && a->s.rank != MATRIX) return low_wrong(l, x, "a column or a matrix as the first argument");
	struct shape row = { ROW, { 1, -1 }, a ? a->s.cols : scalar.cols };
	struct ex *e = a ? ex_make(l, EX_ELEMENT, a->s.rank == MATRIX ? row : scalar, a, NULL) : NULL;
	double i;

	if (!e || !(e->ix = low_ix(l, x->arg[1]))) return NULL;
	if (ix_known(e->ix, &i) && !(i >= 0 && i < 1e9 && i == floor(i))) return low_wrong(l, x, "a whole number, 0 or more, as the second argument");
	return e;
}

/* The axis that parts are of: the elements of a vector, the columns of a matrix. */
static struct len *axis_of(struct shape *s) { return s->rank == COLUMN ? &s->rows : &s->cols; }

/* e, of n elements from `first` on every by-th, if a has them: those that only a run knows are looked at there. */
static struct ex *at(struct lower *l, const struct node *x, struct ex *e, double n)
{
	double first, by = 1;

	if (!e || !(e->ix = low_ix(l, x->arg[1])) || (x->n > 3 && !low_known(l, x->arg[3], &by))) return NULL;
	struct len wide = *axis_of(&e->a->s);
	if (ix_known(e->ix, &first)) e->ix = NULL;
	else first = 0;
	if (e->ix && e->ix->each) return low_wrong(l, x, "one number for all of a chunk's indices as the second argument");
	bool whole = first == floor(first) && n == floor(n) && by == floor(by) && first >= 0 && n >= 0 && by >= 1;
	if (!whole || wide.chunk >= 0 || first + (n - 1) * by >= (double)wide.n) {
		low_error(l, x, "expected %g elements from %g on, every %g of them, within the %zu of %s", n, first, by, wide.n, x->name);
		return NULL;
	}
	e->first = (size_t)first;
	e->by = (size_t)by;
	return e;
}

/* part(A, first, n, by): of a vector those elements, of a matrix those columns */
struct ex *low_part(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);
	double n;

	if (!a || !low_known(l, x->arg[2], &n)) return NULL;
	if (a->s.rank == SCALAR || !(n >= 0 && n < 1e9)) return low_wrong(l, x, "a vector or a matrix, and a size from 0 to 1e9,");
	struct shape s = a->s;
	*axis_of(&s) = (struct len){ (size_t)n, -1 };
	return at(l, x, ex_make(l, EX_PART, s, a, NULL), n);
}

/* axpy(A, b, C): A + b C, in one step */
struct ex *low_axpy(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]), *b = a ? low_value(l, x->arg[1]) : NULL, *c = b ? low_value(l, x->arg[2]) : NULL;

	if (!c) return NULL;
	if (b->s.rank != SCALAR || !same_shape(a->s, c->s)) return low_wrong(l, x, "a value, a number and a value of the same shape as the arguments");
	struct ex *e = ex_make(l, EX_AXPY, a->s, a, b);
	if (e) e->c = c;
	return e;
}

/* mirrored(A): above the diagonal what is below it; mirrored(A, n): tiles of n, as they are */
struct ex *low_mirrored(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);
	double n = 0;

	if (!a || (x->n > 1 && !low_known(l, x->arg[1], &n))) return NULL;
	if (a->s.rank != MATRIX || !same_len(a->s.rows, a->s.cols) || !(n >= 0 && n <= 1024 && n == floor(n)))
		return low_wrong(l, x, "a square matrix, and tiles of 1 to 1024,");
	struct ex *e = ex_make(l, EX_MIRRORED, a->s, a, NULL);
	if (e) e->op = (int)n;
	return e;
}

struct ex *low_rounded(struct lower *l, const struct node *x, enum format f)
{
	struct ex *a = x->n == 1 ? low_value(l, x->arg[0]) : low_wrong(l, x, "one argument"), *e = a ? ex_make(l, EX_ROUNDED, a->s, a, NULL) : NULL;

	if (e) e->op = (int)f;
	return e;
}

/* replaced(A, first, B, by): A, but B at part(A, first, B's size, by) */
struct ex *low_replaced(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]), *b = a ? low_value(l, x->arg[2]) : NULL;

	if (!b) return NULL;
	struct shape s = a->s;
	*axis_of(&s) = *axis_of(&b->s);
	if (a->s.rank == SCALAR || axis_of(&s)->chunk >= 0 || !same_shape(s, b->s)) return low_wrong(l, x, "a vector or a matrix, and a part of it,");
	return at(l, x, ex_make(l, EX_REPLACED, a->s, a, b), (double)axis_of(&b->s)->n);
}

/* with_row(A, i, b): A, but the elements of b as row i */
struct ex *low_with_row(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]), *b = a ? low_value(l, x->arg[2]) : NULL, *e = b ? ex_make(l, EX_REPLACED, a->s, a, b) : NULL;

	if (!e || !(e->ix = low_ix(l, x->arg[1]))) return NULL;
	if (a->s.rank != MATRIX || a->s.rows.chunk >= 0 || a->s.cols.chunk >= 0 || e->ix->each)
		return low_wrong(l, x, "a matrix of a known size and one index");
	if (b->s.rows.chunk >= 0 || b->s.cols.chunk >= 0 || b->s.rows.n * b->s.cols.n != a->s.cols.n)
		return low_wrong(l, x, "a matrix and as many elements as a row of it");
	e->by = 1;
	e->in_rows = true;
	return e;
}

/* joined(A, B, ...): vectors end to end, a number being one of 1, matrices side by side */
struct ex *low_joined(struct lower *l, const struct node *x)
{
	struct ex *part[MAX_GIVEN] = { NULL }, *all;
	size_t n = 0;

	for (int i = 0; i < x->n; i++) {
		if (!(part[i] = low_value(l, x->arg[i]))) return NULL;
		if (part[i]->s.rank == SCALAR) part[i] = ex_filled(l, (struct shape){ COLUMN, { 1, -1 }, { 1, -1 } }, part[i]);
		if (!part[i]) return NULL;
		struct shape s = part[i]->s, same = s;
		*axis_of(&same) = *axis_of(&part[0]->s);
		if (s.rank == SCALAR || axis_of(&s)->chunk >= 0 || !same_shape(same, part[0]->s))
			return low_wrong(l, x, "vectors, or matrices of as many rows,");
		n += axis_of(&s)->n;
	}
	struct shape s = part[0]->s;
	*axis_of(&s) = (struct len){ n, -1 };
	all = ex_filled(l, s, ex_number(l, 0));
	n = 0;
	for (int i = 0; i < x->n && all; n += axis_of(&part[i]->s)->n, i++) {
		if (!(all = ex_make(l, EX_REPLACED, s, all, part[i]))) return NULL;
		all->first = n;
		all->by = 1;
	}
	return all;
}
