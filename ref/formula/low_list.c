/* Parameters that are lists: their numbers, and what conditions ask of them. */
#include "lower.h"

#include <math.h>
#include <string.h>

static size_t width_of(const struct op *op, int param)
{
	size_t n = 1;

	for (const char *s = op->params[param].choices; *s; s++) n += *s == ',';
	return n;
}

static size_t rows_of(const struct call *call, int param) { return call->param[param] > 0 ? (size_t)call->param[param] : 0; }

double list_computed(struct numbers *s, const struct ix *x)
{
	const struct call *call = s->p->call;
	size_t rows = rows_of(call, x->tensor), width = width_of(call->op, x->tensor);
	double i = ix_value(x->arg[0], s), k = x->n > 1 ? ix_value(x->arg[1], s) : 0;

	if (x->kind == IX_IN) {
		for (size_t r = 0; r < rows; r++)
			if (call_list(call, x->tensor, r, 1, 0) == i) return 1;
		return 0;
	}
	bool there = i >= 0 && i < (double)rows && i == floor(i) && k >= 0 && k < (double)width && k == floor(k);
	return there ? call_list(call, x->tensor, (size_t)i, width, (size_t)k) : (double)NAN;
}

static struct ix *computed(struct lower *l, struct ix *x)
{
	struct numbers s = { .p = l->p };
	double known;

	for (int i = 0; i < x->n; i++)
		if (!ix_known(x->arg[i], &known)) return ix_only(l, x);
	return ix_number(l, list_computed(&s, x));
}

struct ix *low_list(struct lower *l, const struct node *x, int param)
{
	struct ix *y = ix_make(l, IX_LIST, x);
	int n = width_of(l->op, param) > 1 ? 2 : 1;

	if (!y) return NULL;
	if (x->n != n) {
		low_error(l, x, "expected %d indices of %s [%s], got %d", n, x->name, l->op->params[param].choices, x->n);
		return NULL;
	}
	for (y->tensor = param; y->n < n; y->n++) {
		if (!(y->arg[y->n] = low_ix(l, x->arg[y->n]))) return NULL;
		if (y->arg[y->n]->each) y->each = y->arg[y->n]->each;
	}
	return computed(l, y);
}

/* A list of numbers, or -1. */
static int numbers(const struct lower *l, const struct node *x)
{
	int i = x->kind == NODE_NAME ? declared_index(l->t->params, x->name) : -1;

	return i >= 0 && l->op->params[i].kind == PARAM_LIST && width_of(l->op, i) == 1 ? i : -1;
}

struct ix *low_in_list(struct lower *l, const struct node *x)
{
	int list = numbers(l, x->arg[1]);
	struct ix *y = list < 0 ? NULL : ix_make(l, IX_IN, x);

	if (list < 0) low_error(l, x->arg[1], "expected a parameter that is a list of numbers behind 'in'");
	if (!y || !(y->arg[y->n++] = low_ix(l, x->arg[0]))) return NULL;
	y->each = y->arg[0]->each;
	y->tensor = list;
	return computed(l, y);
}

enum of_list { SUM, LEAST, LARGEST, WHOLE, RISING };

static double of_list(const struct call *call, int list, enum of_list what, size_t n)
{
	double sum = 0, least = INFINITY, largest = -INFINITY, before = -INFINITY;
	bool whole = true, rising = true;

	for (size_t r = 0; r < n; r++) {
		double x = call_list(call, list, r, 1, 0);
		sum += x;
		least = fmin(least, x);
		largest = fmax(largest, x);
		whole = whole && x == floor(x);
		rising = rising && x > before;
		before = x;
	}
	return what == SUM ? sum : what == LEAST ? least : what == LARGEST ? largest : what == WHOLE ? whole : rising;
}

/* has(LIST): is it given? */
static struct ix *given(struct lower *l, const struct node *x)
{
	int i = x->n == 1 && x->arg[0]->kind == NODE_NAME ? declared_index(l->t->params, x->arg[0]->name) : -1;

	return i >= 0 && l->op->params[i].kind == PARAM_LIST ? ix_number(l, !isnan(l->call->param[i])) : NULL;
}

struct ix *low_of_list(struct lower *l, const struct node *x)
{
	static const char *const names[] = { [SUM] = "sum", [LEAST] = "least", [LARGEST] = "largest", [WHOLE] = "whole", [RISING] = "rising" };
	int list = x->n >= 1 ? numbers(l, x->arg[0]) : -1, what = 0;
	double n = list < 0 ? 0 : (double)rows_of(l->call, list), first = n;

	if (same_name(x->name, "has")) return given(l, x);
	while (what <= RISING && !same_name(names[what], x->name)) what++;
	if (list < 0 || what > RISING || x->n > 2) return NULL;
	if (x->n == 2 && !low_known(l, x->arg[1], &first)) return NULL;
	return ix_number(l, of_list(l->call, list, (enum of_list)what, (size_t)(first >= 0 && first < n ? first : n)));
}
