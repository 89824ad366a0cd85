/* Symmetric eigenvalues in double-double. */
#include "spectrum.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

extern void dsyevd_(const char *job, const char *triangle, const int *n, double *A, const int *lda, double *w, double *work,
	const int *lwork, int *iwork, const int *liwork, int *info);

enum { STEPS = 6 };

/* Ascending eigenvalues w and, in the columns of A, eigenvectors of the symmetric A [n,n], in double. */
static bool lapack(double *A, double *w, size_t n)
{
	int N = (int)n, info, lwork = 1 + 6 * N + 2 * N * N, liwork = 3 + 5 * N;
	double *work = malloc((size_t)lwork * sizeof *work);
	int *iwork = malloc((size_t)liwork * sizeof *iwork);
	bool ok = work && iwork;

	if (ok) {
		dsyevd_("V", "L", &N, A, &N, w, work, &lwork, iwork, &liwork, &info);
		ok = info == 0;
		for (size_t i = 0; i < n; i++)          /* Fortran's columns are our rows */
			for (size_t j = 0; j < i; j++) {
				double t = A[i * n + j];
				A[i * n + j] = A[j * n + i];
				A[j * n + i] = t;
			}
	}
	free(work);
	free(iwork);
	return ok;
}

static void dgemm(double *C, bool transpose, const double *A, const double *B, size_t m, size_t n, size_t k)
{
	cblas_dgemm(CblasRowMajor, transpose ? CblasTrans : CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, A,
		(int)(transpose ? m : k), B, (int)n, 0, C, (int)n);
}

/* ---- one matrix on its way ---- */
struct work {
	size_t n;
	struct ddm U, T, B, G;          /* T = AU, B = U'AU, G = U'U */
	double *W, *O, *P, *d;          /* rotations within clusters; off-diagonal parts; their eigenvalues */
};

static bool work_make(struct work *w, size_t n)
{
	w->n = n;
	w->W = calloc(n * n, sizeof(double));
	w->O = calloc(n * n, sizeof(double));
	w->P = calloc(n * n, sizeof(double));
	w->d = calloc(n, sizeof(double));
	return ddm_make(&w->U, n, n) & ddm_make(&w->T, n, n) & ddm_make(&w->B, n, n) & ddm_make(&w->G, n, n)
		&& w->W && w->O && w->P && w->d;
}

static void work_free(struct work *w)
{
	ddm_free(&w->U);
	ddm_free(&w->T);
	ddm_free(&w->B);
	ddm_free(&w->G);
	free(w->W);
	free(w->O);
	free(w->P);
	free(w->d);
}

/* G - I in double, negated and halved: U (I + F) is orthonormal to second order. */
static void defect(const struct work *w, double *F)
{
	for (size_t i = 0; i < w->n * w->n; i++) F[i] = -0.5 * w->G.hi[i];
	for (size_t i = 0; i < w->n; i++) F[i * w->n + i] = -0.5 * dd_double(dd_sub(ddm_at(&w->G, i, i), dd_of(1)));
}

static void orthonormalise(struct work *w)
{
	ddm_product(&w->G, true, &w->U, &w->U, true);
	defect(w, w->O);
	dgemm(w->P, false, w->U.hi, w->O, w->n, w->n, w->n);
	ddm_add(&w->U, w->P);
}

static double diagonal_max(const struct ddm *B)
{
	double largest = 0;

	for (size_t i = 0; i < B->rows; i++) largest = fmax(largest, fabs(B->hi[i * B->cols + i]));
	return largest;
}

/* The clusters: runs of neighbours on B's diagonal no further apart than `near`. Their blocks are diagonalised
 * into W, their eigenvalues into d; O is B without the blocks. */
static bool clusters(struct work *w, double near, bool *any)
{
	size_t n = w->n;

	*any = false;
	memset(w->W, 0, n * n * sizeof(double));
	memcpy(w->O, w->B.hi, n * n * sizeof(double));
	for (size_t first = 0, last; first < n; first = last) {
		for (last = first + 1; last < n && fabs(w->B.hi[last * n + last] - w->B.hi[last * n - n + last - 1]) <= near;) last++;
		size_t k = last - first;
		dd mean = ddm_at(&w->B, first + k / 2, first + k / 2);
		if (k == 1) {
			w->W[first * n + first] = 1;
			w->d[first] = w->B.hi[first * n + first];
			w->O[first * n + first] = 0;
			continue;
		}
		*any = true;
		for (size_t i = 0; i < k; i++)
			for (size_t j = 0; j < k; j++) {
				dd b = ddm_at(&w->B, first + i, first + j);
				w->P[i * k + j] = dd_double(i == j ? dd_sub(b, mean) : b);
			}
		if (!lapack(w->P, w->d + first, k)) return false;
		for (size_t i = 0; i < k; i++) {
			w->d[first + i] += mean.hi;
			for (size_t j = 0; j < k; j++) {
				w->W[(first + i) * n + first + j] = w->P[i * k + j];
				w->O[(first + i) * n + first + j] = 0;
			}
		}
	}
	return true;
}

/* U <- U W (I + E): E_ij = o_ij / (d_j - d_i) between clusters, with O = W'OW. What is left is of second order,
 * off^2 / near, and LAPACK's error within a cluster, u times its width: near = √(off |B|) balances them. */
static bool refine(struct work *w)
{
	size_t n = w->n;
	bool any;

	if (!clusters(w, sqrt(ddm_norm_off(&w->B) * diagonal_max(&w->B)), &any)) return false;
	if (any) {
		struct ddm W = { w->W, w->G.lo, n, n };
		memset(w->G.lo, 0, n * n * sizeof(double));
		ddm_product(&w->T, false, &w->U, &W, false);
		struct ddm t = w->U;
		w->U = w->T;
		w->T = t;
		dgemm(w->P, false, w->O, w->W, n, n, n);
		dgemm(w->O, true, w->W, w->P, n, n, n);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (w->O[i * n + j] != 0) w->O[i * n + j] /= w->d[j] - w->d[i];
	dgemm(w->P, false, w->U.hi, w->O, n, n, n);
	ddm_add(&w->U, w->P);
	return true;
}

/* Power of two that brings the largest entry into [1/2, 1); 0 where there is none but zeros, NaN where one
 * is not finite. */
static double scale_of(const double *x, size_t n)
{
	double largest = 0;
	int exponent;

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(x[i])) return NAN;
		largest = fmax(largest, fabs(x[i]));
	}
	if (largest == 0) return 0;
	frexp(largest, &exponent);
	return ldexp(1, exponent < -1000 ? 1000 : exponent > 1000 ? -1000 : -exponent);
}

/* U, B and the bound, of A whose largest entry is below 1. */
static bool solve(struct work *w, const struct ddm *A, double *bound, double *eta)
{
	size_t n = w->n;
	double a = ddm_norm(A), root = sqrt((double)n), product = 2 * dd_sum_error(n) * root * a * 1.001;

	memcpy(w->U.hi, A->hi, n * n * sizeof(double));
	if (!lapack(w->U.hi, w->d, n)) return false;
	for (int step = 0;; step++) {
		orthonormalise(w);
		ddm_product(&w->T, true, A, &w->U, false);
		ddm_product(&w->B, true, &w->U, &w->T, true);
		if (step == STEPS || ddm_norm_off(&w->B) <= 0.1 * product) break;
		if (!refine(w)) return false;
	}
	ddm_product(&w->G, true, &w->U, &w->U, true);
	defect(w, w->O);
	struct ddm F = { w->O, w->O, n, n };
	*eta = 2 * ddm_norm(&F) + dd_sum_error(n) * (double)n * 1.001;
	*bound = (ddm_norm_off(&w->B) + product + *eta * diagonal_max(&w->B)) / (1 - *eta);
	return *eta < 0.5 && isfinite(*bound);
}

struct place { dd value; size_t at; };

static int by_value(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return dd_less(x->value, y->value) ? -1 : dd_less(y->value, x->value);
}

static bool sorted(struct spectrum *s, const struct work *w, double unscale)
{
	size_t n = w->n;
	struct place *p = malloc(n * sizeof *p);

	for (size_t i = 0; p && i < n; i++) p[i] = (struct place){ ddm_at(&w->B, i, i), i };
	if (p) qsort(p, n, sizeof *p, by_value);
	for (size_t i = 0; p && i < n; i++) {
		s->value[i] = dd_scale(p[i].value, unscale);
		for (size_t j = 0; j < n; j++) ddm_put(&s->vector, j, i, ddm_at(&w->U, j, p[i].at));
	}
	free(p);
	return p != NULL;
}

bool spectrum_of(struct spectrum *s, const struct ddm *A, const char *what, struct error *e)
{
	size_t n = A->rows;
	double scale = scale_of(A->hi, n * n);
	struct work w;
	struct ddm S;

	*s = (struct spectrum){ .n = n };
	if (isnan(scale)) return error_set(e, E_VALUE, what, NO_OFFSET, "expected finite numbers");
	if (scale == 0) scale = 1;
	bool ok = work_make(&w, n) & ddm_make(&S, n, n) & ddm_make(&s->vector, n, n) && (s->value = calloc(n, sizeof *s->value));
	for (size_t i = 0; ok && i < n * n; i++) {
		S.hi[i] = A->hi[i] * scale;
		S.lo[i] = A->lo[i] * scale;
	}
	ok = ok && solve(&w, &S, &s->bound, &s->eta) && sorted(s, &w, 1 / scale);
	s->bound /= scale;
	work_free(&w);
	ddm_free(&S);
	if (ok) return true;
	spectrum_free(s);
	return error_set(e, E_MEMORY, what, NO_OFFSET, "its eigenvalues");
}

void spectrum_free(struct spectrum *s)
{
	free(s->value);
	ddm_free(&s->vector);
	*s = (struct spectrum){ 0 };
}
