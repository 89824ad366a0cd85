/* The gradient of a value passed on to parts of what it is made of. */
#include "grad_private.h"

void grad_lower_part(struct sweep *w, vec y, size_t rows, size_t n, double diagonal)
{
	for (size_t i = 0; i < rows; i++) {
		double first = (double)i + diagonal + 1;
		size_t k = first < 0 ? 0 : first > (double)n ? n : (size_t)first;
		if (k < n) c_set(w->f->c, c_part(w->f->c, y, i * n + k, n - k), 0);
	}
}

/* EX_SHIFTED: to the row before; EX_ELEMENT: to that element. */
void grad_element(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	vec y = c_vec(c, count_now(w->f, x->a));
	double i = ix_value(x->ix, &w->f->now), rows = (double)rows_now(w->f, x->a);

	if (y.n && x->kind == EX_ELEMENT)
		c_copy(c, c_part(c, y, (i >= 0 && i * (double)bar.n < (double)y.n ? (size_t)i : y.n / bar.n - 1) * bar.n, bar.n), bar);
	if (x->kind == EX_SHIFTED && i < rows) {
		size_t zeros = (size_t)i * (y.n / (size_t)rows);
		c_copy(c, c_part(c, y, 0, y.n - zeros), c_part(c, bar, zeros, y.n - zeros));
	}
	grad_value(w, x->a, y);
}

/* a + b c: bar; Σ bar c; b bar */
void grad_axpy(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	vec y = c_num(c);

	grad_value(w, x->a, bar);
	if (grad_active(w->g, x->b)) {
		c_dot(c, y, bar, run_value(w->f, x->c));
		grad_value(w, x->b, y);
	}
	if (grad_active(w->g, x->c)) grad_value(w, x->c, grad_times(w, bar, grad_spread(w->f, run_value(w->f, x->b), x->b->s, x->s)));
}

/* What is above the diagonal goes to what it is a copy of. */
void grad_mirrored(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	size_t n = rows_now(w->f, x), tile = (size_t)x->op;
	mat y = c_mat(c, n, n), above = c_mat(c, n, n), B = { bar.at, n, n };

	c_copy(c, flat(y), bar);
	if (!tile) {
		c_transpose(c, above, B);
		grad_lower_part(w, flat(above), n, n, -1);
		grad_lower_part(w, flat(y), n, n, 0);
		c_add(c, flat(y), flat(y), flat(above));
	}
	for (size_t I = 0; tile && I < n / tile; I++)
		for (size_t J = (I + 1) * tile; J + tile <= n; J += tile)
			for (size_t r = 0; r < tile; r++) {
				vec from = c_part(c, c_row(c, y, I * tile + r), J, tile), to = c_part(c, c_row(c, y, J + r), I * tile, tile);
				c_add(c, to, to, from);
				c_set(c, from, 0);
			}
	grad_value(w, x->a, flat(y));
}

void grad_partial(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	vec all = c_vec(c, count_now(w->f, x->a));

	if (x->kind == EX_PART) {
		run_place(w->f, x, all, bar, false);
		grad_value(w, x->a, all);
		return;
	}
	vec some = c_vec(c, count_now(w->f, x->b)), none = c_vec(c, some.n);
	run_place(w->f, x, bar, some, true);
	c_copy(c, all, bar);
	run_place(w->f, x, all, none, false);
	grad_value(w, x->a, all);
	grad_value(w, x->b, some);
}
