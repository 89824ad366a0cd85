/* What is read of the call's tensors. */
#include <math.h>
#include <string.h>

#include "evaluate.h"

struct loading { const struct tensor *t; double *to; };
static void load_line(size_t at, size_t step, size_t n, void *with)
{
	struct loading *l = with;
	size_t size = dtype_info[l->t->dtype].size;

	dtype_load_every(l->t->dtype, (const char *)l->t->data + at * size, step, n, l->to);
	l->to += n;
}

void load_slice(const struct program *p, const struct ex *x, struct block y, const struct turn *t)
{
	struct loading l = { (x->slice->trace ? p->call->out : p->call->in)[x->slice->tensor], y.at };

	if (!slice_lines(x->slice, t, load_line, &l))
		for (size_t i = 0; i < y.rows * y.cols; i++) y.at[i] = (double)NAN;
}

/* Of an input from there on; zeros beyond its end and before its first. */
static void memory_from(const struct tensor *in, double first, size_t by, size_t n, double *y)
{
	memset(y, 0, n * sizeof *y);
	if (!(first >= 0 && first < (double)in->count && first == floor(first))) return;
	size_t at = (size_t)first, there = (in->count - at + by - 1) / by;
	dtype_load_every(in->dtype, (const char *)in->data + at * dtype_info[in->dtype].size, by, there < n ? there : n, y);
}

void load_memory(const struct program *p, const struct ex *x, struct block y, const struct turn *t)
{
	const struct tensor *in = p->call->in[x->op];
	size_t by = x->by ? x->by : 1;

	if (!x->ix->each) {
		memory_from(in, ix_value(x->ix, t->now), by, y.rows * y.cols, y.at);
		return;
	}
	int var = p->chunk_var[x->ix->each - 1];
	double first = t->now->var[var];
	ix_settle(t->now, x->ix);
	for (size_t i = 0; i < y.rows; i++) {
		t->now->var[var] = first + (double)i;
		memory_from(in, ix_again(t->now, x->ix), by, y.cols, y.at + i * y.cols);
	}
	t->now->var[var] = first;
	ix_again(t->now, x->ix);
}
