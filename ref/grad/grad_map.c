/* Derivatives of the elementwise functions; shapes that go together. */
#include "grad_private.h"
#include "ref/approx/approx.h"

/* c, a number */
static vec number(struct frame *f, double x) { return c_number(f->c, x); }

static vec map(struct frame *f, enum fn fn, vec x)
{
	vec y = c_vec(f->c, x.n);

	c_map(f->c, y, fn, x);
	return y;
}

/* 2/√π. x + sin x has three times as many digits of π as x has; four times are enough for 4096 bits. */
static vec two_by_root_pi(struct frame *f)
{
	vec pi = number(f, 3.141592653589793), y;

	for (int i = 0; i < 4; i++) c_add(f->c, pi, pi, map(f, FN_SIN, pi));
	y = map(f, FN_RSQRT, pi);
	c_add(f->c, y, y, y);
	return y;
}

static vec sign(struct frame *f, vec x)
{
	vec y = c_vec(f->c, x.n);

	for (size_t i = 0; i < x.n; i++) {
		double v = c_value(f->c, c_part(f->c, x, i, 1));
		c_set(f->c, c_part(f->c, y, i, 1), v > 0 ? 1 : v < 0 ? -1 : 0);
	}
	return y;
}

/* 1 - y */
static vec from_one(struct frame *f, vec y)
{
	vec one = c_vec(f->c, y.n);

	c_set(f->c, one, 1);
	c_sub(f->c, one, one, y);
	return one;
}

/* σ(x) (1 - σ(x)), with the difference: kernels have σ at hand, and 2^-24 of it is then all that float32 knows. σ(x) σ(-x) knows more. */
static vec bell(struct frame *f, vec x)
{
	vec s = map(f, FN_SIGMOID, x), y = from_one(f, s);

	c_mul(f->c, y, y, s);
	return y;
}

vec grad_map(struct frame *f, enum fn fn, vec x)
{
	/* of what is approximated */
	static const enum fn exact[APPROXES] = { FN_EXP2, FN_LOG, FN_RECIP, FN_RSQRT, FN_SQRT, FN_SIN, FN_COS, FN_TANH };
	calc *c = f->c;
	vec y = c_vec(c, x.n);

	if (fn == FN_APPROX(APPROX_LG2)) {
		c_map(c, y, FN_PER_LN2, grad_map(f, FN_LOG, x));
		return y;
	}
	switch (fn > FN_COUNT ? exact[fn - FN_APPROX(0)] : fn) {
	case FN_NEG: c_set(c, y, -1); break;
	case FN_EXP: c_map(c, y, FN_EXP, x); break;
	case FN_EXP2: c_map(c, y, FN_EXP2, x), c_div(c, y, y, map(f, FN_PER_LN2, number(f, 1))); break;
	case FN_PER_LN2: c_set(c, y, 1), c_map(c, y, FN_PER_LN2, y); break;
	case FN_SIGMOID: y = bell(f, x); break;
	case FN_SOFTPLUS: c_map(c, y, FN_SIGMOID, x); break;
	/* σ + x σ(x) σ(-x) */
	case FN_SILU: c_mul(c, y, bell(f, x), x), c_add(c, y, y, map(f, FN_SIGMOID, x)); break;
	case FN_SQRT: c_map(c, y, FN_RSQRT, x), c_mul(c, y, y, number(f, 0.5)); break;
	/* -x^(-3/2) / 2 */
	case FN_RSQRT: c_map(c, y, FN_RSQRT, x), c_div(c, y, y, x), c_mul(c, y, y, number(f, -0.5)); break;
	case FN_RECIP: c_map(c, y, FN_RECIP, x), c_mul(c, y, y, y), c_map(c, y, FN_NEG, y); break;
	case FN_SIN: c_map(c, y, FN_COS, x); break;
	case FN_COS: c_map(c, y, FN_SIN, x), c_map(c, y, FN_NEG, y); break;
	/* 1 - tanh², for the same reason */
	case FN_TANH: c_map(c, y, FN_TANH, x), c_mul(c, y, y, y), y = from_one(f, y); break;
	case FN_LOG: c_map(c, y, FN_RECIP, x); break;
	case FN_ERF: c_mul(c, y, x, x), c_map(c, y, FN_NEG, y), c_map(c, y, FN_EXP, y), c_mul(c, y, y, two_by_root_pi(f)); break;
	case FN_ABS: y = sign(f, x); break;
	case FN_ID: case FN_COUNT: c_set(c, y, 1); break;
	}
	return y;
}

vec grad_spread(struct frame *f, vec v, struct shape from, struct shape to)
{
	size_t rows = len_now(f, to.rows), n = len_now(f, to.cols);

	if (v.n == rows * n) return v;
	vec y = c_vec(f->c, rows * n);
	if (from.rank == SCALAR) {
		c_add(f->c, y, y, v);
		return y;
	}
	for (size_t i = 0; i < rows; i++) {
		vec line = c_part(f->c, y, i * n, n);
		c_add(f->c, line, line, from.rank == ROW ? v : c_part(f->c, v, i, 1));
	}
	return y;
}

vec grad_summed(struct frame *f, vec v, struct shape from, struct shape to)
{
	size_t rows = len_now(f, from.rows), n = len_now(f, from.cols), size = len_now(f, to.rows) * len_now(f, to.cols);

	if (v.n == size) return v;
	vec y = c_vec(f->c, size), one = c_vec(f->c, to.rank == SCALAR ? v.n : to.rank == ROW ? rows : n);
	c_set(f->c, one, 1);
	if (to.rank == SCALAR) c_dot(f->c, y, v, one);
	else if (to.rank == ROW) c_gemv_t(f->c, y, (mat){ v.at, rows, n }, one);
	else for (size_t i = 0; i < rows; i++) c_dot(f->c, c_part(f->c, y, i, 1), c_part(f->c, v, i * n, n), one);
	return y;
}
