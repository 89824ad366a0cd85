/* Values between the stages of a piece. */
#include "ref/arith/calc_private.h"
#include "op.h"

field c_field(calc *c, size_t rows, size_t cols)
{
	size_t bytes = rows * cols * sizeof(double);
	field f = { c_bytes(c, bytes), NULL, rows, cols };

	if (c->arith->wide) f.lo = c_bytes(c, bytes);
	return f;
}

void c_get(calc *c, vec y, field f, size_t first, size_t step)
{
	double *b = calc_buffer(c, y.n);

	if (step == 1) c->arith->load(c, y.at, f.hi + first, y.n);
	else {
		for (size_t i = 0; i < y.n; i++) b[i] = f.hi[first + i * step];
		c->arith->load(c, y.at, b, y.n);
	}
	if (!f.lo) return;
	size_t mark = c_mark(c);
	vec low = c_vec(c, y.n);
	for (size_t i = 0; i < y.n; i++) b[i] = f.lo[first + i * step];
	c->arith->load(c, low.at, b, y.n);
	c->arith->binary(c, OP_ADD, y.at, y.at, low.at, 1, y.n);
	c_release(c, mark);
}

mat c_matrix(calc *c, field f)
{
	if (c->arith->plain) {
		c->noise += f.rows * f.cols;    /* as loading does */
		return (mat){ f.hi, f.rows, f.cols };
	}
	mat A = c_mat(c, f.rows, f.cols);
	c_get(c, flat(A), f, 0, 1);
	return A;
}

void c_put(calc *c, field f, size_t first, size_t step, vec x)
{
	double *b = calc_buffer(c, x.n);

	c->arith->read(c, b, b + x.n, x.at, x.n);
	for (size_t i = 0; i < x.n; i++) {
		f.hi[first + i * step] = b[i];
		if (f.lo) f.lo[first + i * step] = b[x.n + i];
	}
}
