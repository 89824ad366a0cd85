/* Eigenvalues of symmetric matrices and singular values, in double-double, each with a
 * proven bound. LAPACK's eigenvectors, then refined: where eigenvalues are apart by E_ij = b_ij / (b_jj - b_ii)
 * on B = U'AU, where they cluster by LAPACK on the block of B less its mean, whose own precision is relative to
 * the cluster's width (after Ogita and Aishima 2018, 2019). n = 128 takes some tens of milliseconds. */
#ifndef ETALON_SPECTRUM_H
#define ETALON_SPECTRUM_H

#include "ref/dd/dd_matrix.h"
#include "fixtures/io/error.h"

/* Bound: with B = U'AU, G = U'U and η >= |G - I|, Ostrowski has λ_i(B) = θ_i λ_i(A) with |θ_i - 1| <= η and Weyl
 * |λ_i(B) - b_ii| <= |off(B)|, b sorted. Hence for every i, clusters or not,
 *      |λ_i - value_i| <= bound = (|off(B)|_F + e_B + η max|b|) / (1 - η),
 * e_B the error of the products (dd_sum_error), norms those of Frobenius. Some 1e-27 |A|_F at n = 128. */
struct spectrum {
	size_t n;
	dd *value;              /* [n], ascending */
	struct ddm vector;      /* [n,n]: column i belongs to value i; |U'U - I|_F <= eta */
	double bound, eta;
};

/* A [n,n] is symmetric to the last bit. E_VALUE where an entry is not finite (item: what), E_MEMORY. */
bool spectrum_of(struct spectrum *s, const struct ddm *A, const char *what, struct error *e);
void spectrum_free(struct spectrum *s);

/* X [s,l], s <= l, = U diag(value) V', by the eigenvalues λ of XX' in double-double:
 * |σ_i - value_i| <= bound_i = min(√β, β / value_i), β the bound of λ and the error of XX'. So values above
 * 1e-6 |X| are good to 1e-21 |X|, and even those that are 0 to some 1e-13 |X|. */
struct singular {
	size_t s;
	dd *value;              /* [s], descending */
	double *bound;          /* [s] */
	struct ddm u;           /* [s,s]: column i belongs to value i */
};
bool singular_of(struct singular *v, const double *X, size_t s, size_t l, const char *what, struct error *e);
void singular_free(struct singular *v);

/* The symmetric part (A + A')/2 of A [n,n], exact up to a rounding of double-double; *skew = |A - A'|_F / 2. */
bool symmetric_part(struct ddm *S, double *skew, const double *A, size_t n);

#endif
