/* Products of matrices in double-double. */
#include "dd_matrix.h"

#include <stdlib.h>

bool ddm_make(struct ddm *A, size_t rows, size_t cols)
{
	*A = (struct ddm){ calloc(rows * cols, sizeof(double)), calloc(rows * cols, sizeof(double)), rows, cols };
	return A->hi && A->lo;
}

void ddm_free(struct ddm *A)
{
	free(A->hi);
	free(A->lo);
	*A = (struct ddm){ 0 };
}

void ddm_product(struct ddm *C, bool transpose, const struct ddm *A, const struct ddm *B, bool symmetric)
{
	size_t m = C->rows, n = C->cols;
	struct dd_operand a = { { A->hi, A->lo }, transpose ? 1 : A->cols, transpose ? A->cols : 1 }, b = { { B->hi, B->lo }, n, 1 };

	dd_form()->gemm((dds){ C->hi, C->lo }, n, a, b, m, n, B->rows, symmetric);
	for (size_t i = 0; symmetric && i < m; i++)
		for (size_t j = 0; j < i; j++) ddm_put(C, j, i, ddm_at(C, i, j));
}

static double norm(const struct ddm *A, bool diagonal)
{
	double sum = 0;

	for (size_t i = 0; i < A->rows; i++)
		for (size_t j = 0; j < A->cols; j++)
			if (diagonal || i != j) sum += A->hi[i * A->cols + j] * A->hi[i * A->cols + j];
	return sqrt(sum) * (1 + 0x1p-20);       /* the sum is off by at most 2 count u, far less */
}

double ddm_norm(const struct ddm *A) { return norm(A, true); }
double ddm_norm_off(const struct ddm *A) { return norm(A, false); }

void ddm_add(struct ddm *A, const double *B)
{
	for (size_t i = 0; i < A->rows * A->cols; i++) {
		dd x = dd_add((dd){ A->hi[i], A->lo[i] }, dd_of(B[i]));
		A->hi[i] = x.hi;
		A->lo[i] = x.lo;
	}
}
