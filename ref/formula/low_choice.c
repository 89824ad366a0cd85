/* What is made of indices, and which of two values is taken: by a comparison, or by a condition. */
#include "lower.h"

#include <math.h>

bool ex_index(const struct lower *l, struct ex *x)
{
	bool index = false;

	switch (x->kind) {
	case EX_NUMBER: index = x->number == floor(x->number); break;
	case EX_REG: index = l->index[x->reg]; break;
	case EX_IX: case EX_IOTA: index = true; break;
	case EX_FLIP: case EX_TRANS: case EX_ELEMENT: case EX_LAST: case EX_MAX: index = ex_index(l, x->a); break;
	case EX_ZIP: index = (x->op == OP_ADD || x->op == OP_SUB || x->op == OP_MUL || x->op == OP_MAX) && ex_index(l, x->a) && ex_index(l, x->b); break;
	case EX_CMP: index = ex_index(l, x->a) && ex_index(l, x->b); break;
	case EX_FLOOR: {
		const struct ex *q = x->a;
		index = q->kind == EX_ZIP && q->op == OP_DIV ? ex_index(l, q->a) && ex_index(l, q->b) : ex_index(l, x->a);
		break;
	}
	default: break;
	}
	return x->index = index;
}

/* 0, 1, ...: a chunk's indices, or as many numbers as are known */
struct ex *low_iota(struct lower *l, const struct node *x)
{
	const struct symbol *c = x->arg[0]->kind == NODE_NAME ? symbol_find(l, x->arg[0]->name) : NULL;
	struct shape s = { COLUMN, { 0, -1 }, { 1, -1 } };
	double n = 0;

	if (c && c->kind == SYMBOL_CHUNK) s.rows = c->s.rows;
	else if (!low_known(l, x->arg[0], &n)) return NULL;
	else if (!(n >= 0 && n < 1e9)) return low_wrong(l, x, "a number from 0 to 1e9 as the argument");
	else s.rows.n = (size_t)n;
	struct ex *e = ex_make(l, EX_IOTA, s, NULL, NULL);
	if (e && c && c->kind == SYMBOL_CHUNK && (e->ix = low_make(l, sizeof *e->ix)))
		*e->ix = (struct ix){ .kind = IX_VAR, .var = c->index };
	return e;
}

struct ex *low_floor(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]), *y = a ? ex_make(l, EX_FLOOR, a->s, a, NULL) : NULL;

	if (y) ex_index(l, y);
	return y;
}

struct ex *low_compared(struct lower *l, const struct node *x)
{
	struct ex *z = ex_zip(l, x, OP_SUB, low_value(l, x->arg[0]), low_value(l, x->arg[1]));

	if (!z) return NULL;
	z->kind = EX_CMP;
	z->op = (int)x->kind;
	ex_index(l, z);
	return z;
}

/* Of that shape, or a number, or a column or a row that goes with a matrix. */
static bool goes_with(struct shape a, struct shape s)
{
	return same_shape(a, s) || a.rank == SCALAR || (s.rank == MATRIX && a.rank == COLUMN && same_len(a.rows, s.rows))
		|| (s.rank == MATRIX && a.rank == ROW && same_len(a.cols, s.cols));
}

struct ex *low_where(struct lower *l, const struct node *x)
{
	struct ex *condition = low_value(l, x->arg[0]), *a = condition ? low_value(l, x->arg[1]) : NULL, *b = a ? low_value(l, x->arg[2]) : NULL;

	if (!b) return NULL;
	if (condition->kind != EX_CMP) return low_wrong(l, x, "a comparison as the first argument");
	if (!goes_with(a->s, condition->s)) return low_wrong(l, x, "a number or a value that goes with the comparison's shape as the second argument");
	if (!goes_with(b->s, condition->s)) return low_wrong(l, x, "a number or a value that goes with the comparison's shape as the third argument");
	struct ex *e = ex_make(l, EX_WHERE, condition->s, a, b);
	if (e) e->c = condition;
	return e;
}

struct ex *low_chosen(struct lower *l, const struct node *x)
{
	struct ix *condition = low_ix(l, x->arg[0]);
	double known;

	if (!condition) return NULL;
	if (ix_known(condition, &known)) return low_value(l, x->arg[known != 0 ? 1 : 2]);
	struct ex *a = low_value(l, x->arg[1]), *b = a ? low_value(l, x->arg[2]) : NULL;
	char text[2][SHAPE_SAID];
	if (!a || !b) return NULL;
	if (!same_shape(a->s, b->s) && a->s.rank != SCALAR && b->s.rank != SCALAR) {
		low_error(l, x, "expected one shape on both sides of 'if', got %s and %s", shape_said(l->call, a->s, text[0]), shape_said(l->call, b->s, text[1]));
		return NULL;
	}
	struct shape s = a->s.rank == SCALAR ? b->s : a->s;
	if (condition->each) {
		struct len rows = { l->p->chunk_size[condition->each - 1], condition->each - 1 };
		if (s.rank == SCALAR) s = (struct shape){ COLUMN, rows, { 1, -1 } };
		if (!same_len(s.rows, rows)) {
			low_error(l, x, "expected a value for each index of the chunk, got %s", shape_said(l->call, s, text[0]));
			return NULL;
		}
	}
	struct ex *e = ex_make(l, EX_IF, s, a, b);
	if (e) e->ix = condition;
	return e;
}
