/* The inverse of a chunk's triangular matrix. */
#include "gated_delta_rule.h"

enum { BLOCK = 16 };            /* T is inverted in blocks of 16 and merged */

/* rows [i0,i0+n) and columns [j0,j0+m) of M, as a new matrix */
static mat block(calc *c, mat M, size_t i0, size_t n, size_t j0, size_t m)
{
	mat B = c_mat(c, n, m);

	for (size_t i = 0; i < n; i++) c_copy(c, c_row(c, B, i), c_part(c, c_row(c, M, i0 + i), j0, m));
	return B;
}

mat gdr_copy_at(calc *c, mat A, int site)
{
	mat B = c_mat(c, A.rows, A.cols);

	c_copy(c, flat(B), flat(A));
	c_site(c, site, flat(B));
	return B;
}

mat gdr_inverse(calc *c, mat A)
{
	size_t L = A.rows;
	mat T = c_mat(c, L, L);
	num a = c_num(c);

	for (size_t i = 0; i < L; i++) {
		size_t b = i / BLOCK * BLOCK;
		c_set(c, c_part(c, c_row(c, T, i), i, 1), 1);
		for (size_t j = b; j < i; j++) {
			c_map(c, a, FN_NEG, c_part(c, c_row(c, A, i), j, 1));
			c_axpy(c, c_part(c, c_row(c, T, i), b, i - b), a, c_part(c, c_row(c, T, j), b, i - b));
		}
	}
	for (size_t r = BLOCK; r < L; r += BLOCK) {
		size_t n = L - r < BLOCK ? L - r : BLOCK;
		mat Trr = gdr_copy_at(c, block(c, T, r, n, r, n), SITE_INVERSE_MERGE);
		for (size_t s = 0; s < r; s += BLOCK) {
			mat Ar = gdr_copy_at(c, block(c, A, r, n, s, r - s), SITE_INVERSE_MERGE);
			mat Ts = gdr_copy_at(c, block(c, T, s, r - s, s, BLOCK), SITE_INVERSE_MERGE);
			mat X = c_mat(c, n, BLOCK), Y = c_mat(c, n, BLOCK);
			bool next = s + BLOCK == r;
			if (next) c_gemm(c, X, NN, Trr, Ar);
			else c_gemm(c, X, NN, Ar, Ts);
			c_site(c, SITE_INVERSE_MERGE, flat(X));
			if (next) c_gemm(c, Y, NN, X, Ts);
			else c_gemm(c, Y, NN, Trr, X);
			for (size_t i = 0; i < n; i++)
				c_map(c, c_part(c, c_row(c, T, r + i), s, BLOCK), FN_NEG, c_row(c, Y, i));
		}
	}
	return T;
}
