/* Which of two values: by values, by a condition, by one for each index of a chunk. */
#include "run.h"

/* 1 where a op b, else 0; of numbers that every arithmetic holds exactly, as indices are */
void run_compare(struct frame *f, const struct ex *x, vec y)
{
	struct ex difference = *x;

	difference.kind = EX_ZIP;
	difference.op = OP_SUB;
	run_zip(f, &difference, y);
	for (size_t i = 0; i < y.n; i++) {
		vec one = part(f, y, i, 1);
		double d = c_value(f->c, one);
		bool yes = x->op == NODE_EQ ? d == 0 : x->op == NODE_NE ? d != 0 : x->op == NODE_LT ? d < 0 : x->op == NODE_LE ? d <= 0
			: x->op == NODE_GT ? d > 0 : d >= 0;
		c_set(f->c, one, yes);
	}
}

void run_where(struct frame *f, const struct ex *x, vec y)
{
	vec condition = run_value(f, x->c), a = run_value(f, x->a), b = run_value(f, x->b);
	size_t n = cols_now(f, x);

	for (size_t i = 0; i < y.n; i++) {
		bool yes = c_value(f->c, part(f, condition, i, 1)) != 0;
		vec from = run_row(f, yes ? x->a : x->b, yes ? a : b, i / n, n);
		c_copy(f->c, part(f, y, i, 1), part(f, from, from.n == 1 ? 0 : i % n, 1));
	}
}

/* Of a condition for each index of a chunk: of each row of y. */
static void chosen_each(struct frame *f, const struct ex *x, vec y)
{
	int var = f->p->chunk_var[x->ix->each - 1];
	double first = f->now.var[var];
	vec a = run_value(f, x->a), b = run_value(f, x->b);
	size_t rows = rows_now(f, x), n = rows ? y.n / rows : 0;

	ix_settle(&f->now, x->ix);
	for (size_t i = 0; i < rows; i++) {
		f->now.var[var] = first + (double)i;
		bool yes = ix_again(&f->now, x->ix) != 0;
		vec from = yes ? a : b, to = part(f, y, i * n, n);
		if (from.n == y.n) c_copy(f->c, to, part(f, from, i * n, n));
		else run_fill(f, to, yes ? x->a : x->b, from);
	}
	f->now.var[var] = first;
	ix_again(&f->now, x->ix);
}

void run_chosen(struct frame *f, const struct ex *x, vec y)
{
	if (x->ix->each) {
		chosen_each(f, x, y);
		return;
	}
	const struct ex *z = ix_value(x->ix, &f->now) != 0 ? x->a : x->b;

	if (z->s.rank == x->s.rank) run_into(f, z, y);
	else run_fill(f, y, z, run_value(f, z));
}
