/* Eigenvalues of symmetric matrices, singular values and the polar factor, in double-double, each with a
 * proven bound. LAPACK's eigenvectors, then refined: where eigenvalues are apart by E_ij = b_ij / (b_jj - b_ii)
 * on B = U'AU, where they cluster by LAPACK on the block of B less its mean, whose own precision is relative to
 * the cluster's width (after Ogita and Aishima 2018, 2019). n = 128 takes some tens of milliseconds. */
#ifndef ETALON_SPECTRUM_H
#define ETALON_SPECTRUM_H

#include "dd_matrix.h"
#include "fixtures/error.h"

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
	size_t s, l;
	dd *value;              /* [s], descending */
	double *bound;          /* [s] */
	struct ddm u;           /* [s,s]: column i belongs to value i */
};
bool singular_of(struct singular *v, const double *X, size_t s, size_t l, const char *what, struct error *e);
void singular_free(struct singular *v);

/* The polar factor W = U V' [s,l] of X = HW, as U diag(1/σ) U'X. *bound >= |W - exact|_F: with ρ >= |WW' - I|_F and
 * S the symmetric part of XW', whose eigenvalues are seen to be positive, W is within ρ of the polar factor of a
 * matrix within E = |X - SW|_F + ρ σ_max of X, and polar factors move by (2/(σ_min + σ_min') + 1/σ_min) E at most
 * (Li 1995). E_VALUE where σ_min is not above its own bound: then X has no unique polar factor. */
bool polar_of(struct ddm *W, double *bound, const double *X, const struct singular *v, struct error *e);

/* The symmetric part (A + A')/2 of A [n,n], exact up to a rounding of double-double; *skew = |A - A'|_F / 2. */
bool symmetric_part(struct ddm *S, double *skew, const double *A, size_t n);

#endif
