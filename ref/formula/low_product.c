/* Products: factors side by side. Scalars come last, onto the result; what ends in a vector is made from the right, all else from
 * the left. */
#include "lower.h"

#include <string.h>

enum { MAX_FACTOR = 32 };

/* A factor, and whether it stands for diag(v). */
struct factor { struct ex *x; bool diagonal; };

static struct ex *bad(struct lower *l, const struct node *at, struct ex *a, struct ex *b)
{
	char text[2][SHAPE_SAID];

	low_error(l, at, "expected shapes that multiply, got %s and %s", shape_said(l->call, a->s, text[0]), shape_said(l->call, b->s, text[1]));
	return NULL;
}

static struct ex *make(struct lower *l, enum ex_kind kind, struct len rows, struct len cols, struct ex *a, struct ex *b)
{
	bool matrix = kind == EX_OUTER || kind == EX_GEMM;
	enum rank r = matrix ? MATRIX : kind == EX_DOT ? SCALAR : cols.n == 1 && cols.chunk < 0 ? COLUMN : ROW;

	return ex_make(l, kind, (struct shape){ r, rows, cols }, a, b);
}

/* Was it rounded to the sum of two numbers in bf16? */
static bool in_two_parts(const struct lower *l, const struct ex *x)
{
	if (x->kind == EX_TRANS) x = x->a;
	return x->kind == EX_REG && l->site_of[x->reg] && l->plan->round[l->site_of[x->reg] - 1].format == FMT_BF16X2;
}

struct ex *ex_product(struct lower *l, const struct node *at, struct ex *a, struct ex *b)
{
	struct len one = { 1, -1 };

	if (!a || !b) return NULL;
	enum rank r = a->s.rank, q = b->s.rank;
	if (r == SCALAR || q == SCALAR) return r == SCALAR ? ex_zip(l, at, OP_MUL, b, a) : ex_zip(l, at, OP_MUL, a, b);
	if (r == COLUMN && q == ROW) return make(l, EX_OUTER, a->s.rows, b->s.cols, a, ex_flip(l, b));
	if (!same_len(a->s.cols, b->s.rows)) return bad(l, at, a, b);
	if (r == ROW && q == COLUMN) return make(l, EX_DOT, one, one, ex_flip(l, a), b);
	bool ta = a->kind == EX_TRANS, tb = b->kind == EX_TRANS;
	if (r == MATRIX && q == COLUMN) {
		struct ex *x = make(l, ta ? EX_GEMV_T : EX_GEMV, a->s.rows, one, ta ? a->a : a, b);
		return x;
	}
	if (r == ROW && q == MATRIX) {
		struct ex *x = make(l, tb ? EX_GEMV : EX_GEMV_T, b->s.cols, one, tb ? b->a : b, ex_flip(l, a));
		return ex_flip(l, x);
	}
	if (r != MATRIX || q != MATRIX) return bad(l, at, a, b);
	struct ex *x = make(l, EX_GEMM, a->s.rows, b->s.cols, ta && !tb ? a->a : a, tb && !ta ? b->a : b);
	if (x) x->op = ta && !tb ? TN : tb && !ta ? NT : NN;
	if (x) x->two_parts = in_two_parts(l, a) && in_two_parts(l, b);
	return x;
}

/* diag(v) B scales rows, A diag(v) columns. */
static struct ex *scaled(struct lower *l, const struct node *at, struct factor *a, struct factor *b)
{
	struct ex *v = a->diagonal ? a->x : b->x, *m = a->diagonal ? b->x : a->x;

	if (a->diagonal && b->diagonal) return ex_zip(l, at, OP_MUL, a->x, b->x);
	if (m->s.rank == SCALAR || !same_len(v->s.rows, a->diagonal ? m->s.rows : m->s.cols)) return bad(l, at, v, m);
	return ex_zip(l, at, OP_MUL, m, a->diagonal ? v : ex_flip(l, v));
}

static bool join(struct lower *l, const struct node *at, struct factor *a, struct factor *b)
{
	struct ex *x = a->diagonal || b->diagonal ? scaled(l, at, a, b) : ex_product(l, at, a->x, b->x);

	a->diagonal = a->diagonal && b->diagonal;
	a->x = x;
	return x != NULL;
}

static bool factor(struct lower *l, const struct node *x, struct factor *f)
{
	bool diag = x->kind == NODE_CALL && !strcmp(x->name, "diag") && x->n == 1;

	*f = (struct factor){ low_value(l, diag ? x->arg[0] : x), diag };
	if (!f->x) return false;
	if (diag && f->x->s.rank != COLUMN) return low_error(l, x, "expected diag of a column");
	return true;
}

struct ex *low_chain(struct lower *l, const struct node *x)
{
	struct factor all[MAX_FACTOR], scale[MAX_FACTOR];
	int n = 0, scales = 0;

	for (int i = 0; i < x->n; i++) {
		struct factor f;
		if (!factor(l, x->arg[i], &f)) return NULL;
		if (f.x->s.rank == SCALAR) scale[scales++] = f;
		else all[n++] = f;
	}
	for (int i = 1; i < scales; i++)
		if (!(scale[0].x = ex_zip(l, x, OP_MUL, scale[0].x, scale[i].x))) return NULL;
	if (!n) return scale[0].x;
	bool from_right = all[n - 1].x->s.rank == COLUMN && !all[n - 1].diagonal;
	if (from_right) {
		for (int i = n - 1; i-- > 0;)
			if (!join(l, x, &all[i], &all[i + 1])) return NULL;
	} else {
		for (int i = 1; i < n; i++)
			if (!join(l, x, &all[0], &all[i])) return NULL;
	}
	if (all[0].diagonal) {
		low_error(l, x, "expected a matrix or a vector beside diag");
		return NULL;
	}
	return scales ? ex_zip(l, x, OP_MUL, all[0].x, scale[0].x) : all[0].x;
}
