/* The gradient of a product passed on to its factors. */
#include "grad_private.h"

/* Where x's gradient is added up: at its name, or in a new vector that pass hands on. */
static vec place(struct sweep *w, const struct ex *x)
{
	size_t n = count_now(w->f, x);

	return x->kind == EX_REG ? (vec){ w->adjoint[x->reg].at, n } : c_vec(w->f->c, n);
}

static void pass(struct sweep *w, const struct ex *x, vec bar)
{
	if (x->kind != EX_REG) grad_value(w, x, bar);
}

static void outer(struct sweep *w, const struct ex *to, vec x, vec y)
{
	vec bar = place(w, to);

	c_ger(w->f->c, (mat){ bar.at, x.n, y.n }, x, y);
	pass(w, to, bar);
}

/* to += A x, or A'x */
static void times(struct sweep *w, const struct ex *to, mat A, vec x, bool transposed)
{
	vec y = c_vec(w->f->c, count_now(w->f, to));

	if (transposed) c_gemv_t(w->f->c, y, A, x);
	else for (size_t i = 0; i < A.rows; i++) c_dot(w->f->c, c_part(w->f->c, y, i, 1), c_row(w->f->c, A, i), x);
	grad_value(w, to, y);
}

static void gemm(struct sweep *w, const struct ex *to, enum trans t, mat A, mat B)
{
	vec bar = place(w, to);

	c_gemm_add(w->f->c, (mat){ bar.at, rows_now(w->f, to), cols_now(w->f, to) }, t, A, B);
	pass(w, to, bar);
}

/* Y = A B: A += bar B', B += A'bar; of A' and B' the same, transposed */
void grad_products(struct sweep *w, const struct ex *x, vec bar)
{
	mat y = { bar.at, rows_now(w->f, x), cols_now(w->f, x) };
	bool a = grad_active(w->g, x->a), b = grad_active(w->g, x->b);
	vec p = run_value(w->f, x->a), q = run_value(w->f, x->b);
	mat A = { p.at, rows_now(w->f, x->a), cols_now(w->f, x->a) }, B = { q.at, rows_now(w->f, x->b), cols_now(w->f, x->b) };

	if (x->c) grad_value(w, x->c, bar);
	switch (x->kind) {
	case EX_DOT:
		bar = grad_spread(w->f, bar, x->s, x->a->s);
		if (a) grad_value(w, x->a, grad_times(w, bar, q));
		if (b) grad_value(w, x->b, grad_times(w, bar, p));
		break;
	case EX_GEMV:
		if (a) outer(w, x->a, bar, q);
		if (b) times(w, x->b, A, bar, true);
		break;
	case EX_GEMV_T:
		if (a) outer(w, x->a, q, bar);
		if (b) times(w, x->b, A, bar, false);
		break;
	case EX_OUTER:
		y = (mat){ bar.at, p.n, q.n };
		if (a) times(w, x->a, y, q, false);
		if (b) times(w, x->b, y, p, true);
		break;
	default:
		if (a && x->op == TN) gemm(w, x->a, NT, B, y);
		else if (a) gemm(w, x->a, x->op == NN ? NT : NN, y, B);
		if (b && x->op == NT) gemm(w, x->b, TN, y, A);
		else if (b) gemm(w, x->b, x->op == NN ? TN : NN, A, y);
		break;
	}
}
