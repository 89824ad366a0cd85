/* What is wrong with a call that no shape says: an index beyond its axis, and the number of an input that made it. */
#include "run.h"

#include <math.h>
#include <string.h>

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

struct element { const struct tensor *of; size_t at; };

/* The element of an integer input that x is made of, the first such; false where there is none, or it is not there. */
static bool made_of(struct numbers *s, const struct ix *x, struct element *found)
{
	const struct tensor *t = x->kind == IX_TENSOR ? s->p->call->in[x->tensor] : NULL;
	bool decides = x->kind == IX_OP && x->op == NODE_IF;
	size_t at = 0;

	if (x->kind != IX_TENSOR && x->kind != IX_OP) return false;
	if (decides) return made_of(s, x->arg[ix_value(x->arg[0], s) != 0 ? 1 : 2], found);
	for (int i = 0; i < x->n; i++) {
		double k = t ? ix_value(x->arg[i], s) : 0;
		bool within = t && k >= 0 && k < (double)t->shape[i] && k == floor(k);
		if (!within && made_of(s, x->arg[i], found)) return true;
		if (t && !within) return false;
		if (t) at = at * t->shape[i] + (size_t)k;
	}
	*found = (struct element){ t, at };
	return t && t->data;
}

/* "3", or "2,1" of two axes */
static void place_said(const struct tensor *t, size_t at, char *text, size_t room)
{
	size_t index[MAX_RANK] = { 0 }, n = 0;

	for (int i = t->rank; i-- > 0; at /= t->shape[i]) index[i] = at % t->shape[i];
	for (int i = 0; i < t->rank && n < room; i++) n += (size_t)snprintf(text + n, room - n, "%s%zu", i ? "," : "", index[i]);
}

void run_beyond(struct frame *f, const struct node *at, const struct ix *x, double least, double most, const char *what)
{
	struct program *p = f->p;
	struct element y = { 0 };
	char place[64], makes[48] = "", to[32] = " or more";
	double value = ix_value(x, &f->now), number = 0;

	if (most < (double)INFINITY) snprintf(to, sizeof to, " to %.0f", most);
	if (!made_of(&f->now, x, &y)) {
		run_failed(p, at, "expected %.0f%s, %s; got %g", least, to, what, value);
		return;
	}
	size_t size = dtype_info[y.of->dtype].size;
	dtype_load(y.of->dtype, (const char *)y.of->data + y.at * size, 1, &number);
	place_said(y.of, y.at, place, sizeof place);
	if (x->kind != IX_TENSOR) snprintf(makes, sizeof makes, ", which makes %.0f", value);
	#pragma omp critical(formula_failed)
	if (!p->failed) {
		error_set(&p->error, E_VALUE, y.of->name, y.of->offset == NO_OFFSET ? NO_OFFSET : y.of->offset + y.at * size,
			"element %s is %.0f%s; %s:%d:%d expects %.0f%s, %s", place, number, makes, p->path, at->line, at->column, least, to, what);
		p->failed = true;
	}
}
