/* One value: how each operation is made of a calc's. */
#include "run.h"

#include <math.h>

vec run_value(struct frame *f, const struct ex *x)
{
	size_t n = count_now(f, x);

	if (x->kind == EX_FLIP) return run_value(f, x->a);
	if (x->kind == EX_REG || x->kind == EX_NUMBER) return (vec){ f->reg[x->reg], n };
	if (x->kind == EX_ELEMENT || (x->kind == EX_PART && x->by == 1 && x->s.rank != MATRIX)) {
		vec there = run_in_place(f, x, n);
		if (there.at) return there;
	}
	if (x->kind == EX_LOAD && x->slice->held) {
		vec there = run_held_in_place(f, x->slice, n);
		if (there.at) return there;
	}
	vec y = c_room(f->c, n);
	run_into(f, x, y);
	return y;
}

static mat matrix(struct frame *f, const struct ex *x)
{
	return (mat){ run_value(f, x).at, rows_now(f, x), cols_now(f, x) };
}

/* x where it lies, or made at y, which has its size */
static vec value_at(struct frame *f, const struct ex *x, vec y)
{
	if (x->kind == EX_REG || x->kind == EX_NUMBER || x->kind == EX_FLIP) return run_value(f, x);
	run_into(f, x, y);
	return y;
}

void run_fill(struct frame *f, vec y, const struct ex *x, vec at)
{
	c_set(f->c, y, x->kind == EX_NUMBER ? x->number : 0);
	if (x->kind != EX_NUMBER) c_add(f->c, y, y, at);
}

/* y [n] = a OP b, either of which may be one number; `of`: what a is */
static void zip_line(struct frame *f, enum binary op, vec y, const struct ex *of, vec a, vec b)
{
	if (a.n == y.n) {
		c_binary(f->c, op, y, a, b);
	} else if (op == OP_ADD || op == OP_MUL || op == OP_MAX) {
		c_binary(f->c, op, y, b, a);
	} else {
		vec all = c_room(f->c, y.n);
		run_fill(f, all, of, a);
		c_binary(f->c, op, y, all, b);
	}
}

vec run_row(const struct frame *f, const struct ex *x, vec v, size_t i, size_t n)
{
	switch (x->s.rank) {
	case MATRIX: return part(f, v, i * n, n);
	case COLUMN: return part(f, v, i, 1);
	default: return v;
	}
}

void run_zip(struct frame *f, const struct ex *x, vec y)
{
	const struct ex *a = x->a, *b = x->b;
	vec q = run_value(f, b), p = x->top ? value_at(f, a, y) : run_value(f, a);
	enum binary op = (enum binary)x->op;

	if (x->whole) {
		zip_line(f, op, y, a, p, q);
		return;
	}
	size_t m = rows_now(f, x), n = cols_now(f, x);
	if (x->top && b->s.rank == ROW) {
		for (size_t i = 0; i < m; i++) c_binary(f->c, op, part(f, y, i * n, n), part(f, p, i * n, n), q);
		return;
	}
	for (size_t i = 0; i < m; i++) zip_line(f, op, part(f, y, i * n, n), a, run_row(f, a, p, i, n), run_row(f, b, q, i, n));
}

static void product(struct frame *f, const struct ex *x, vec y)
{
	if (x->kind == EX_DOT && x->a->s.rank == MATRIX) {
		vec a = run_value(f, x->a), b = run_value(f, x->b);
		for (size_t n = cols_now(f, x->a), i = 0; i < y.n; i++)
			c_dot(f->c, part(f, y, i, 1), part(f, a, i * n, n), part(f, b, i * n, n));
	} else if (x->kind == EX_DOT) {
		vec a = run_value(f, x->a), b = run_value(f, x->b);
		c_dot(f->c, y, a, b);
	} else if (x->kind == EX_GEMV_T) {
		mat a = matrix(f, x->a);
		c_gemv_t(f->c, y, a, run_value(f, x->b));
	} else if (x->kind == EX_GEMV) {
		mat a = matrix(f, x->a);
		vec b = run_value(f, x->b);
		for (size_t i = 0; i < a.rows; i++) c_dot(f->c, part(f, y, i, 1), c_row(f->c, a, i), b);
	} else if (x->kind == EX_OUTER) {
		vec a = run_value(f, x->a), b = run_value(f, x->b), base = x->c ? value_at(f, x->c, y) : y;
		if (!x->c) c_set(f->c, y, 0);
		else if (base.at != y.at) c_copy(f->c, y, base);
		c_ger(f->c, (mat){ y.at, a.n, b.n }, a, b);
	} else {
		mat a = matrix(f, x->a), b = matrix(f, x->b), to = { y.at, rows_now(f, x), cols_now(f, x) };
		vec base = x->c ? value_at(f, x->c, y) : y;
		if (x->c && base.at != y.at) c_copy(f->c, y, base);
		if (x->c) c_gemm_add(f->c, to, (enum trans)x->op, a, b);
		else c_gemm(f->c, to, (enum trans)x->op, a, b);
		if (x->two_parts) run_without_second_parts(f, x, to, a, b);
	}
}

/* m <- max_i x_i: halves against halves; that of none is -inf. */
static void largest(struct frame *f, vec m, vec x)
{
	vec t = c_vec(f->c, x.n - x.n / 2);

	if (!x.n) c_set(f->c, m, -INFINITY);
	if (!x.n) return;
	c_copy(f->c, t, part(f, x, 0, t.n));
	c_max(f->c, part(f, t, 0, x.n / 2), part(f, t, 0, x.n / 2), part(f, x, t.n, x.n / 2));
	for (size_t n = t.n; n > 1; n -= n / 2) {
		vec low = part(f, t, 0, n / 2);
		c_max(f->c, low, low, part(f, t, n - n / 2, n / 2));
	}
	c_copy(f->c, m, part(f, t, 0, 1));
}

/* Of each row of a: its sum or largest element; its last row, or last element. */
static void reduce(struct frame *f, const struct ex *x, vec y)
{
	vec a = run_value(f, x->a);
	size_t rows = x->a->s.rank == MATRIX ? rows_now(f, x->a) : 1, n = rows ? a.n / rows : 0;

	if (x->kind == EX_LAST) {
		if (a.n) c_copy(f->c, y, part(f, a, a.n - y.n, y.n));
		return;
	}
	vec one = { 0 };
	if (x->kind == EX_SUM) c_set(f->c, one = c_vec(f->c, n), 1);
	for (size_t i = 0; i < rows; i++) {
		vec row = part(f, a, i * n, n), to = part(f, y, i, 1);
		if (x->kind == EX_SUM) c_dot(f->c, to, row, one);
		else largest(f, to, row);
	}
}

/* Running sums: of a vector, or down the rows of a matrix. */
static void scan(struct frame *f, const struct ex *x, vec y)
{
	vec a = run_value(f, x->a);
	size_t n = cols_now(f, x);

	if (x->s.rank != MATRIX) {
		c_scan(f->c, y, a);
		return;
	}
	for (size_t i = 0; i < rows_now(f, x); i++) {
		vec row = part(f, a, i * n, n), to = part(f, y, i * n, n);
		if (i) c_add(f->c, to, part(f, y, (i - 1) * n, n), row);
		else c_copy(f->c, to, row);
	}
}

static void tril(struct frame *f, const struct ex *x, vec y)
{
	size_t rows = rows_now(f, x), n = cols_now(f, x);
	vec a = value_at(f, x->a, y);

	if (a.at != y.at) c_copy(f->c, y, a);
	for (size_t i = 0; i < rows; i++) {
		double first = (double)i + x->op + 1;
		size_t k = first < 0 ? 0 : first > (double)n ? n : (size_t)first;
		if (k < n) c_set(f->c, part(f, y, i * n + k, n - k), 0);
	}
}

/* The power of two at or above x, 2^-126 at least. */
static double power_of_two(double x)
{
	double p = 0x1p-126;

	while (p < x) p *= 2;
	return p;
}

/* What sin.approx takes is whole turns: the angle over 2 pi, in float32, loses what range reduction keeps. */
static double fast_angle(double x)
{
	double turns = (float)(x * 0.15915494309189535);

	return (turns - rint(turns)) * 6.283185307179586;
}

/* Of each element, by itself, as a double. */
static void each(struct frame *f, const struct ex *x, double (*of)(double), vec y)
{
	double *value = c_values(f->c, run_value(f, x->a));

	for (size_t i = 0; i < y.n; i++) value[i] = of(value[i]);
	c_given(f->c, y, value);
}

static bool is_taken(struct frame *f, vec y, size_t n, size_t k)
{
	while (n-- > 0)
		if (c_value(f->c, part(f, y, n, 1)) == (double)k) return true;
	return false;
}

/* The indices of the largest elements, the largest first, of equals the first, or which the plan draws; NaN is none. */
static void top(struct frame *f, const struct ex *x, vec y)
{
	vec a = run_value(f, x->a);

	for (size_t i = 0; i < y.n; i++) {
		double most = -INFINITY;
		size_t at = 0;
		for (size_t k = 0; k < a.n; k++) {
			double value = c_value(f->c, part(f, a, k, 1));
			bool more = value > most || (value == most && most > -INFINITY && c_goes_first(f->c, k, at));
			if (more && !is_taken(f, y, i, k)) most = value, at = k;
		}
		c_set(f->c, part(f, y, i, 1), (double)at);
	}
}

static void transpose(struct frame *f, const struct ex *x, vec y)
{
	size_t m = rows_now(f, x), n = cols_now(f, x);
	vec a = run_value(f, x->a);

	c_transpose(f->c, (mat){ y.at, m, n }, (mat){ a.at, n, m });
}

static void iota(struct frame *f, const struct ex *x, vec y)
{
	c_ramp(f->c, y, x->ix ? ix_value(x->ix, &f->now) : 0);
}

void run_into(struct frame *f, const struct ex *x, vec y)
{
	calc *c = f->c;
	const bool begins = x->index && !c_indices(c, true);

	switch (x->kind) {
	case EX_REG: case EX_NUMBER: case EX_FLIP: {
		vec a = run_value(f, x);
		if (a.at != y.at) c_copy(c, y, a);
		break;
	}
	case EX_IX: c_set(c, y, ix_value(x->ix, &f->now)); break;
	case EX_LOAD: run_load(f, x->slice, y); break;
	case EX_MEMORY: run_memory(f, x, y); break;
	case EX_MAP: c_map(c, y, (enum fn)x->op, value_at(f, x->a, y)); break;
	case EX_ZIP: run_zip(f, x, y); break;
	case EX_DOT: case EX_GEMV: case EX_GEMV_T: case EX_OUTER: case EX_GEMM: product(f, x, y); break;
	case EX_POWER: each(f, x, power_of_two, y); break;
	case EX_ANGLE: each(f, x, fast_angle, y); break;
	case EX_FLOOR: each(f, x, floor, y); break;
	case EX_TOP: top(f, x, y); break;
	case EX_TRANS: transpose(f, x, y); break;
	case EX_SUM: case EX_MAX: case EX_LAST: reduce(f, x, y); break;
	case EX_SCAN: scan(f, x, y); break;
	case EX_TRIL: tril(f, x, y); break;
	case EX_INVERSE: run_inverse(f, x, y); break;
	case EX_PART: run_part(f, x, y); break;
	case EX_REPLACED: run_replaced(f, x, y); break;
	case EX_SHIFTED: run_shifted(f, x, y); break;
	case EX_ELEMENT: run_element(f, x, y); break;
	case EX_AXPY: run_axpy(f, x, y); break;
	case EX_MIRRORED: run_mirrored(f, x, y); break;
	case EX_ROUNDED: run_into(f, x->a, y), c_round(c, (enum format)x->op, y); break;
	case EX_IOTA: iota(f, x, y); break;
	case EX_CMP: run_compare(f, x, y); break;
	case EX_WHERE: run_where(f, x, y); break;
	case EX_IF: run_chosen(f, x, y); break;
	}
	if (begins) c_indices(c, false);
}
