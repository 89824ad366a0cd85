/* Products of matrices in double-double. */
#include "dd_matrix.h"

#include <stdlib.h>

#include "fixtures/wide.h"

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

double ddm_error(size_t k) { return 8 * (double)(k + 2) * DD_U2; }

/* c += a b, n elements of b and c. */
WIDE_LOOP static void axpy(double *restrict ch, double *restrict cl, dd a, const double *restrict bh, const double *restrict bl,
	size_t n)
{
	for (size_t j = 0; j < n; j++) {
		double p = a.hi * bh[j], e = __builtin_fma(a.hi, bh[j], -p);
		e += __builtin_fma(a.hi, bl[j], a.lo * bh[j]);
		double s = ch[j] + p, b = s - ch[j], t = (ch[j] - (s - b)) + (p - b);
		t += cl[j] + e;
		ch[j] = s + t;
		cl[j] = t - (ch[j] - s);
	}
}

void ddm_product(struct ddm *C, bool transpose, const struct ddm *A, const struct ddm *B, bool symmetric)
{
	size_t m = C->rows, n = C->cols, k = B->rows;

	#pragma omp parallel for schedule(dynamic, 4) if (m * n * k > 1 << 16)
	for (size_t i = 0; i < m; i++) {
		double *ch = C->hi + i * n, *cl = C->lo + i * n;
		for (size_t j = 0; j < n; j++) ch[j] = cl[j] = 0;
		for (size_t r = 0; r < k; r++)
			axpy(ch, cl, transpose ? ddm_at(A, r, i) : ddm_at(A, i, r), B->hi + r * n, B->lo + r * n,
				symmetric ? i + 1 : n);
	}
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
