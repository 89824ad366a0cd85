/* The gradient of a value passed on to what the value is made of. */
#include <math.h>

#include "grad_private.h"

vec grad_times(struct sweep *w, vec a, vec b)
{
	vec y = c_vec(w->f->c, a.n);

	c_mul(w->f->c, y, a, b);
	return y;
}

/* Where there is no gradient none is passed on, though the derivative be infinite, as of e^x in a place that is masked. */
static vec passed(struct sweep *w, vec derivative, vec bar)
{
	calc *c = w->f->c;
	vec y = grad_times(w, derivative, bar);

	if (c_finite(c, y)) return y;
	for (size_t i = 0; i < y.n; i++)
		if (isinf(c_value(c, c_part(c, derivative, i, 1))) && c_value(c, c_part(c, bar, i, 1)) == 0) c_set(c, c_part(c, y, i, 1), 0);
	return y;
}

/* To an operand of a ZIP, whose elements may be repeated. */
static void operand(struct sweep *w, const struct ex *x, const struct ex *of, vec bar)
{
	grad_value(w, of, grad_summed(w->f, bar, x->s, of->s));
}

static vec spread(struct sweep *w, const struct ex *x, const struct ex *of) { return grad_spread(w->f, run_value(w->f, of), of->s, x->s); }

/* 1 where a is the larger of a and b, 1/2 where they are equal */
static vec larger(struct sweep *w, vec a, vec b)
{
	vec y = c_vec(w->f->c, a.n);

	c_sub(w->f->c, y, a, b);
	for (size_t i = 0; i < y.n; i++) {
		vec one = c_part(w->f->c, y, i, 1);
		double d = c_value(w->f->c, one);
		c_set(w->f->c, one, d > 0 ? 1 : d < 0 ? 0 : 0.5);
	}
	return y;
}

static void zip(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	bool a = grad_active(w->g, x->a), b = grad_active(w->g, x->b);
	enum binary op = (enum binary)x->op;

	if (op == OP_ADD || op == OP_SUB) {
		if (a) operand(w, x, x->a, bar);
		if (!b) return;
		vec y = c_vec(c, bar.n);
		c_map(c, y, op == OP_SUB ? FN_NEG : FN_ID, bar);
		operand(w, x, x->b, y);
		return;
	}
	vec p = spread(w, x, x->a), q = spread(w, x, x->b), y = c_vec(c, bar.n), t = c_vec(c, bar.n);
	switch (op) {
	case OP_MUL:
		if (a) operand(w, x, x->a, passed(w, q, bar));
		if (b) operand(w, x, x->b, passed(w, p, bar));
		break;
	case OP_DIV:    /* bar/q; -bar p/q² */
		c_div(c, y, bar, q);
		if (a) operand(w, x, x->a, y);
		c_div(c, t, p, q), c_mul(c, t, t, y), c_map(c, t, FN_NEG, t);
		if (b) operand(w, x, x->b, t);
		break;
	case OP_MAX:
		if (a) operand(w, x, x->a, grad_times(w, bar, larger(w, p, q)));
		if (b) operand(w, x, x->b, grad_times(w, bar, larger(w, q, p)));
		break;
	default:        /* bar q p^q / p; bar p^q log p */
		c_pow(c, y, p, q), c_mul(c, y, y, bar);
		c_mul(c, t, y, q), c_div(c, t, t, p);
		if (a) operand(w, x, x->a, t);
		c_map(c, t, FN_LOG, p), c_mul(c, t, t, y);
		if (b) operand(w, x, x->b, t);
		break;
	}
}

/* To the largest of each row; to the largest ones in equal parts. */
static void largest(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	vec a = run_value(w->f, x->a), y = c_vec(c, a.n), d = c_num(c);
	size_t rows = bar.n, n = rows ? a.n / rows : 0;

	for (size_t i = 0; i < rows; i++) {
		size_t best = i * n, same = 0;
		for (int again = 0; again < 2; again++)
			for (size_t k = i * n; k < i * n + n; k++) {
				c_sub(c, d, c_part(c, a, k, 1), c_part(c, a, best, 1));
				double over = c_value(c, d);
				if (!again && over > 0) best = k;
				if (!again || over < 0) continue;
				same++;
				c_copy(c, c_part(c, y, k, 1), c_part(c, bar, i, 1));
			}
		if (same > 1) c_div(c, c_part(c, y, i * n, n), c_part(c, y, i * n, n), c_number(c, (double)same));
	}
	grad_value(w, x->a, y);
}

/* Running sums, from the end. */
static void scan(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	size_t n = x->s.rank == MATRIX ? cols_now(w->f, x) : 1, rows = n ? bar.n / n : 0;
	vec y = c_vec(c, bar.n);

	c_copy(c, y, bar);
	for (size_t i = rows; i-- > 1;) {
		vec line = c_part(c, y, (i - 1) * n, n);
		c_add(c, line, line, c_part(c, y, i * n, n));
	}
	grad_value(w, x->a, y);
}

static mat matrix(struct sweep *w, const struct ex *x)
{
	return (mat){ run_value(w->f, x).at, rows_now(w->f, x), cols_now(w->f, x) };
}

/* X = (I + A)^-1: A += -X' bar X', of which A has the part below the diagonal */
static void inverse(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	mat X = matrix(w, x), B = { bar.at, X.rows, X.cols }, t = c_mat(c, X.rows, X.cols), y = c_mat(c, X.rows, X.cols);

	c_gemm(c, t, TN, X, B);
	c_gemm(c, y, NT, t, X);
	c_map(c, flat(y), FN_NEG, flat(y));
	grad_lower_part(w, flat(y), y.rows, y.cols, -1);
	grad_value(w, x->a, flat(y));
}

static void moved(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	vec y = c_vec(c, count_now(w->f, x->a));
	size_t rows = rows_now(w->f, x), n = cols_now(w->f, x);

	if (x->kind == EX_LAST && y.n) c_copy(c, c_part(c, y, y.n - bar.n, bar.n), bar);
	if (x->kind == EX_TRIL) {
		c_copy(c, y, bar);
		grad_lower_part(w, y, rows, n, x->op);
	}
	if (x->kind == EX_TRANS)
		for (size_t i = 0; i < bar.n; i++) c_copy(c, c_part(c, y, i % n * rows + i / n, 1), c_part(c, bar, i, 1));
	grad_value(w, x->a, y);
}

static void where(struct sweep *w, const struct ex *x, vec bar)
{
	calc *c = w->f->c;
	vec condition = run_value(w->f, x->c), y[2] = { c_vec(c, bar.n), c_vec(c, bar.n) };

	for (size_t i = 0; i < bar.n; i++)
		c_copy(c, c_part(c, y[c_value(c, c_part(c, condition, i, 1)) == 0], i, 1), c_part(c, bar, i, 1));
	operand(w, x, x->a, y[0]);
	operand(w, x, x->b, y[1]);
}

/* By a condition for each index of a chunk, that of a row. */
static void chosen_each(struct sweep *w, const struct ex *x, vec bar)
{
	struct frame *f = w->f;
	int var = f->p->chunk_var[x->ix->each - 1];
	double first = f->now.var[var];
	size_t rows = rows_now(f, x), n = rows ? bar.n / rows : 0;
	vec y[2] = { c_vec(f->c, bar.n), c_vec(f->c, bar.n) };

	ix_settle(&f->now, x->ix);
	for (size_t i = 0; i < rows; i++) {
		f->now.var[var] = first + (double)i;
		c_copy(f->c, c_part(f->c, y[ix_again(&f->now, x->ix) == 0], i * n, n), c_part(f->c, bar, i * n, n));
	}
	f->now.var[var] = first;
	ix_again(&f->now, x->ix);
	operand(w, x, x->a, y[0]);
	operand(w, x, x->b, y[1]);
}

/* Element at, then every step-th, of an input's gradient. */
static void add_line(struct frame *f, int in, size_t at, size_t step, vec x, void *with)
{
	struct sweep *w = with;
	field to = w->into[w->g->of->output_of[in]];
	size_t mark = c_mark(f->c);
	vec sum = c_vec(f->c, x.n);

	c_get(f->c, sum, to, at, step);
	c_add(f->c, sum, sum, x);
	c_put(f->c, to, at, step, sum);
	c_release(f->c, mark);
}

void grad_value(struct sweep *w, const struct ex *x, vec bar)
{
	struct frame *f = w->f;
	size_t mark = c_mark(f->c);

	if (!grad_active(w->g, x)) return;
	switch (x->kind) {
	case EX_REG: {
		vec to = { w->adjoint[x->reg].at, count_now(f, x) };
		c_add(f->c, to, to, bar);
		break;
	}
	case EX_LOAD: run_lines(f, x->slice, &f->p->call->op->in[x->slice->tensor], bar, add_line, w); break;
	case EX_FLIP: grad_value(w, x->a, bar); break;
	case EX_MAP: grad_value(w, x->a, passed(w, grad_map(f, (enum fn)x->op, run_value(f, x->a)), bar)); break;
	case EX_ZIP: zip(w, x, bar); break;
	case EX_DOT: case EX_GEMV: case EX_GEMV_T: case EX_OUTER: case EX_GEMM: grad_products(w, x, bar); break;
	case EX_SUM: grad_value(w, x->a, grad_spread(f, bar, x->s, x->a->s)); break;
	case EX_MAX: largest(w, x, bar); break;
	case EX_SCAN: scan(w, x, bar); break;
	case EX_INVERSE: inverse(w, x, bar); break;
	case EX_TRANS: case EX_TRIL: case EX_LAST: moved(w, x, bar); break;
	case EX_WHERE: where(w, x, bar); break;
	case EX_PART: case EX_REPLACED: grad_partial(w, x, bar); break;
	case EX_SHIFTED: case EX_ELEMENT: grad_element(w, x, bar); break;
	case EX_AXPY: grad_axpy(w, x, bar); break;
	case EX_MIRRORED: grad_mirrored(w, x, bar); break;
	case EX_IF: {
		if (x->ix->each) {
			chosen_each(w, x, bar);
			break;
		}
		const struct ex *z = ix_value(x->ix, &f->now) != 0 ? x->a : x->b;
		operand(w, x, z, bar);
		break;
	}
	default: break; /* refused by grad_prepare, or never active */
	}
	c_release(f->c, mark);
}
