/* Products of matrices in double-double. */
#ifndef ETALON_DD_MATRIX_H
#define ETALON_DD_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

#include "dd_form.h"

/* Row-major. */
struct ddm { double *hi, *lo; size_t rows, cols; };

bool ddm_make(struct ddm *A, size_t rows, size_t cols); /* zero; false when memory is short */
void ddm_free(struct ddm *A);
static inline dd ddm_at(const struct ddm *A, size_t i, size_t j)
{
	return (dd){ A->hi[i * A->cols + j], A->lo[i * A->cols + j] };
}
static inline void ddm_put(struct ddm *A, size_t i, size_t j, dd x)
{
	A->hi[i * A->cols + j] = x.hi;
	A->lo[i * A->cols + j] = x.lo;
}

/* C = A B (transpose false) or A'B (true), C [m,n] made before, the sum over k terms. Elementwise
 *      |C - exact| <= dd_sum_error(k) (|A| |B|)
 * for entries that are not tiny (2^-500) or huge: no underflow, no overflow.
 * symmetric: C is known to be, and only its lower triangle is computed, then mirrored. */
void ddm_product(struct ddm *C, bool transpose, const struct ddm *A, const struct ddm *B, bool symmetric);

/* sqrt(Σ a_ij^2) over i != j (or all), rounded up: never below the exact value. */
double ddm_norm(const struct ddm *A);
double ddm_norm_off(const struct ddm *A);

/* A += the doubles B, elementwise. */
void ddm_add(struct ddm *A, const double *B);

#endif
