/* Parts of values: elements of a column, what two-part operands leave out of a product, and which of two is taken. */
#include "run.h"

#include <math.h>

/* y <- so many rows of 0, then the first of a's */
void run_shifted(struct frame *f, const struct ex *x, vec y)
{
	double i = ix_value(x->ix, &f->now);
	vec a = run_value(f, x->a);
	size_t rows = rows_now(f, x->a);

	if (!(i >= 0 && i == floor(i))) {
		run_beyond(f, x->ix->at, x->ix, 0, (double)INFINITY, "a number of rows");
		return;
	}
	size_t zeros = !rows ? 0 : i < (double)rows ? (size_t)i * (y.n / rows) : y.n;
	if (zeros) c_set(f->c, part(f, y, 0, zeros), 0);
	if (zeros < y.n) c_copy(f->c, part(f, y, zeros, y.n - zeros), part(f, a, 0, y.n - zeros));
}

void run_element(struct frame *f, const struct ex *x, vec y)
{
	vec there = run_in_place(f, x, y.n);

	if (there.at) c_copy(f->c, y, there);
}

/* Element, or row, i of a, the last one where it has fewer. */
static vec element(struct frame *f, const struct ex *x, size_t n)
{
	double i = ix_value(x->ix, &f->now);
	vec a = run_value(f, x->a);
	size_t rows = rows_now(f, x->a);

	if (!(i >= 0 && i == floor(i))) run_beyond(f, x->ix->at, x->ix, 0, (double)INFINITY, "the number of an element");
	else if (rows) return part(f, a, (i < (double)rows ? (size_t)i : rows - 1) * n, n);
	return (vec){ 0 };
}

static size_t lines(const struct frame *f, const struct ex *x) { return x->s.rank == MATRIX && !x->in_rows ? rows_now(f, x) : 1; }

/* The first element of a part of n in a line of `wide`; false where it is not all in there. */
static bool begin(struct frame *f, const struct ex *x, size_t wide, size_t n, size_t *first)
{
	double i = x->ix ? ix_value(x->ix, &f->now) * (double)(x->in_rows ? n : 1) : (double)x->first;

	*first = i >= 0 && i <= (double)wide ? (size_t)i : wide;
	if (i == (double)*first && (!n || *first + (n - 1) * x->by < wide)) return true;
	double last = (double)wide - (n ? (double)((n - 1) * x->by + 1) : 0);
	run_beyond(f, x->ix->at, x->ix, 0, floor(last / (double)(x->in_rows && n ? n : 1)), "where a part begins");
	return false;
}

void run_place(struct frame *f, const struct ex *x, vec all, vec some, bool back)
{
	size_t rows = lines(f, x), n = rows ? some.n / rows : 0, wide = rows ? all.n / rows : 0, step = x->by == 1 ? n : 1, first;

	if (!begin(f, x, wide, n, &first)) return;
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < n; j += step) {
			vec there = part(f, all, i * wide + first + j * x->by, step), one = part(f, some, i * n + j, step);
			c_copy(f->c, back ? one : there, back ? there : one);
		}
}

void run_part(struct frame *f, const struct ex *x, vec y) { run_place(f, x, run_value(f, x->a), y, true); }

vec run_in_place(struct frame *f, const struct ex *x, size_t n)
{
	if (x->kind == EX_ELEMENT) return element(f, x, n);
	vec a = run_value(f, x->a);
	size_t first;

	return begin(f, x, a.n, n, &first) ? part(f, a, first, n) : (vec){ 0 };
}

void run_replaced(struct frame *f, const struct ex *x, vec y)
{
	vec b = run_value(f, x->b);

	run_into(f, x->a, y);
	run_place(f, x, y, b, false);
}

/* what a first part in bf16 leaves of A */
static mat rest(calc *c, mat A)
{
	mat B = c_mat(c, A.rows, A.cols);

	c_copy(c, flat(B), flat(A));
	c_round(c, FMT_BF16, flat(B));
	c_sub(c, flat(B), flat(A), flat(B));
	return B;
}

/* The product of the second parts, as small as what their rounding lost, is taken from y. */
void run_without_second_parts(struct frame *f, const struct ex *x, mat y, mat a, mat b)
{
	mat small = c_mat(f->c, y.rows, y.cols);

	c_gemm(f->c, small, (enum trans)x->op, rest(f->c, a), rest(f->c, b));
	c_sub(f->c, flat(y), flat(y), flat(small));
}

void run_axpy(struct frame *f, const struct ex *x, vec y)
{
	vec b = run_value(f, x->b), c = run_value(f, x->c);

	run_into(f, x->a, y);
	c_axpy(f->c, y, b, c);
}

/* The tile (I, J) above the diagonal becomes the tile (J, I), as it is. */
static void mirror_tiles(struct frame *f, mat A, size_t tile)
{
	for (size_t I = 0; I < A.rows / tile; I++)
		for (size_t J = I + 1; J < A.rows / tile; J++)
			for (size_t r = 0; r < tile; r++)
				c_copy(f->c, c_part(f->c, c_row(f->c, A, I * tile + r), J * tile, tile), c_part(f->c, c_row(f->c, A, J * tile + r), I * tile, tile));
}

void run_mirrored(struct frame *f, const struct ex *x, vec y)
{
	mat A = { y.at, rows_now(f, x), cols_now(f, x) };

	run_into(f, x->a, y);
	if (x->op) mirror_tiles(f, A, (size_t)x->op);
	else c_mirror(f->c, A);
}

/* 1 where a op b, else 0; of numbers that every arithmetic holds exactly, as indices are */
void run_compare(struct frame *f, const struct ex *x, vec y)
{
	struct ex difference = *x;

	difference.kind = EX_ZIP;
	difference.op = OP_SUB;
	run_zip(f, &difference, y);
	double *d = c_values(f->c, y);
	for (size_t i = 0; i < y.n; i++)
		d[i] = x->op == NODE_EQ ? d[i] == 0 : x->op == NODE_NE ? d[i] != 0 : x->op == NODE_LT ? d[i] < 0 : x->op == NODE_LE ? d[i] <= 0
			: x->op == NODE_GT ? d[i] > 0 : d[i] >= 0;
	c_given(f->c, y, d);
}

void run_where(struct frame *f, const struct ex *x, vec y)
{
	vec condition = run_value(f, x->c), a = run_value(f, x->a), b = run_value(f, x->b);
	const double *on = c_values(f->c, condition);
	size_t n = cols_now(f, x);

	/* side by side in a row what is chosen alike */
	for (size_t i = 0, m; i < y.n; i += m) {
		const bool yes = on[i] != 0;
		vec from = run_row(f, yes ? x->a : x->b, yes ? a : b, i / n, n);
		for (m = 1; i % n + m < n && (on[i + m] != 0) == yes; m++) { }
		if (from.n > 1) c_copy(f->c, part(f, y, i, m), part(f, from, i % n, m));
		else for (size_t j = 0; j < m; j++) c_copy(f->c, part(f, y, i + j, 1), from);
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
