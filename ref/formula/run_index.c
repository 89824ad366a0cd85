/* Indices and conditions in a run: numbers that are known exactly. */
#include "program.h"

#include <math.h>

double ix_fold(enum node_kind op, double a, double b)
{
	switch (op) {
	case NODE_NEG: return -a;
	case NODE_NOT: return a == 0;
	case NODE_ADD: return a + b;
	case NODE_SUB: return a - b;
	case NODE_CHAIN: case NODE_MUL: return a * b;
	case NODE_DIV: return a / b;
	case NODE_IDIV: return floor(a / b);
	case NODE_MOD: return a - b * floor(a / b);
	case NODE_POW: return pow(a, b);
	case NODE_EQ: return a == b;
	case NODE_NE: return a != b;
	case NODE_LT: return a < b;
	case NODE_LE: return a <= b;
	case NODE_GT: return a > b;
	case NODE_GE: return a >= b;
	case NODE_AND: return a != 0 && b != 0;
	case NODE_OR: return a != 0 || b != 0;
	default: return (double)NAN;
	}
}

static double element(const struct program *p, const struct ix *x, const double *var)
{
	const struct tensor *t = p->call->in[x->tensor];
	double value = (double)NAN;
	size_t at = 0;

	if (!t || !t->data) return 0;
	for (int i = 0; i < x->n; i++) {
		double k = ix_value(x->arg[i], var);
		if (!(k >= 0 && k < (double)t->shape[i] && k == floor(k))) return value;
		at = at * t->shape[i] + (size_t)k;
	}
	dtype_load(t->dtype, (const char *)t->data + at * dtype_info[t->dtype].size, 1, &value);
	return value;
}

static double sequence_of(const struct tensor *t, double at)
{
	double value = (double)NAN;

	for (size_t n = 1; t->data && n < t->count; n++) {
		dtype_load(t->dtype, (const char *)t->data + n * dtype_info[t->dtype].size, 1, &value);
		if (at < value) return (double)n - 1;
	}
	return (double)NAN;
}

enum { MOST_TURNS = 1 << 24 };

static double folded(const struct program *p, const struct ix *x, double *var)
{
	double from = ix_value(x->arg[0], var), first = ix_value(x->arg[1], var), last = ix_value(x->arg[2], var);

	if (!(last - first < MOST_TURNS)) return last <= first ? from : (double)NAN;
	var[x->held] = x->finds ? (double)NAN : from;
	for (double i = 0; i < last - first && !(x->finds && !isnan(var[x->held])); i++) {
		var[x->over] = x->down ? last - 1 - i : first + i;
		ix_compute(p, x->body, var);
		var[x->held] = ix_value(x->arg[3], var);
	}
	return x->finds && isnan(var[x->held]) ? from : var[x->held];
}

static double computed(const struct program *p, const struct ix *x, double *var)
{
	if (x->kind == IX_TENSOR) return element(p, x, var);
	if (x->kind == IX_FOLD) return folded(p, x, var);
	double a = ix_value(x->arg[0], var), b = x->n > 1 ? ix_value(x->arg[1], var) : 0;
	if (x->kind == IX_SEQUENCE) return sequence_of(p->call->in[x->tensor], a);
	return x->op == NODE_IF ? a != 0 ? b : ix_value(x->arg[2], var) : ix_fold(x->op, a, b);
}

void ix_compute(const struct program *p, const struct ix *x, double *var)
{
	for (; x; x = x->next) var[x->var] = computed(p, x, var);
}

/* What it is made of comes before it. */
double ix_again(const struct program *p, const struct ix *x, double *var)
{
	for (int i = 0; i < x->n; i++)
		if (x->arg[i]->each) ix_again(p, x->arg[i], var);
	if (x->n) var[x->var] = computed(p, x, var);
	return ix_value(x, var);
}
