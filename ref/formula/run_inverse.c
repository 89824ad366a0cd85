/* (I + A)^-1 of a strictly lower triangular A. */
#include "run.h"

/* Row by row: x_i = e_i - Σ_{j<i} A_ij x_j */
static void by_rows(calc *c, mat T, mat A)
{
	for (size_t i = 0; i < T.rows; i++) {
		vec row = c_row(c, T, i);
		c_set(c, row, 0);
		if (i) {
			c_gemv_t(c, row, (mat){ T.at, i, T.cols }, c_part(c, c_row(c, A, i), 0, i));
			c_map(c, row, FN_NEG, row);
		}
		c_set(c, c_part(c, row, i, 1), 1);
	}
}

/* Forward substitution in the diagonal blocks. */
static void substitute(calc *c, mat T, mat A, size_t size)
{
	num a = c_num(c);

	c_set(c, flat(T), 0);
	for (size_t i = 0; i < T.rows; i++) {
		size_t b = i / size * size;
		c_set(c, c_part(c, c_row(c, T, i), i, 1), 1);
		for (size_t j = b; j < i; j++) {
			c_map(c, a, FN_NEG, c_part(c, c_row(c, A, i), j, 1));
			c_axpy(c, c_part(c, c_row(c, T, i), b, i - b), a, c_part(c, c_row(c, T, j), b, i - b));
		}
	}
}

/* rows [i0,i0+n) and columns [j0,j0+m) of M, as a new matrix, rounded as operands are */
static mat operand(calc *c, mat M, size_t i0, size_t n, size_t j0, size_t m, int site)
{
	mat B = c_mat(c, n, m);

	for (size_t i = 0; i < n; i++) c_copy(c, c_row(c, B, i), c_part(c, c_row(c, M, i0 + i), j0, m));
	c_site(c, site, flat(B));
	return B;
}

/* T_rs = -T_rr (Σ_{s<=p<r} A_rp T_ps), and -(T_rr A_rs) T_ss for neighbours: the order in which flash-linear-attention multiplies. */
static void merge(calc *c, mat T, mat A, size_t size, int site)
{
	for (size_t r = size; r < T.rows; r += size) {
		size_t n = T.rows - r < size ? T.rows - r : size;
		mat Trr = operand(c, T, r, n, r, n, site);
		for (size_t s = 0; s < r; s += size) {
			mat Ar = operand(c, A, r, n, s, r - s, site), Ts = operand(c, T, s, r - s, s, size, site);
			mat X = c_mat(c, n, size), Y = c_mat(c, n, size);
			bool next = s + size == r;
			if (next) c_gemm(c, X, NN, Trr, Ar);
			else c_gemm(c, X, NN, Ar, Ts);
			c_site(c, site, flat(X));
			if (next) c_gemm(c, Y, NN, X, Ts);
			else c_gemm(c, Y, NN, Trr, X);
			for (size_t i = 0; i < n; i++) c_map(c, c_part(c, c_row(c, T, r + i), s, size), FN_NEG, c_row(c, Y, i));
		}
	}
}

void run_inverse(struct frame *f, const struct ex *x, vec y)
{
	size_t n = rows_now(f, x), size = (size_t)x->op;
	mat A = { run_value(f, x->a).at, n, n }, T = { y.at, n, n };

	if (!size) {
		by_rows(f->c, T, A);
		return;
	}
	substitute(f->c, T, A, size);
	merge(f->c, T, A, size, x->site);
}
