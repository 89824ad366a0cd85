/* Singular values, by the eigenvalues of XX' in double-double. */
#include <stdlib.h>
#include <string.h>

#include "spectrum.h"

bool symmetric_part(struct ddm *S, double *skew, const double *A, size_t n)
{
	double sum = 0;

	if (!ddm_make(S, n, n)) return false;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			double a = A[i * n + j] / 2, b = A[j * n + i] / 2;
			ddm_put(S, i, j, dd_two_sum(i < j ? a : b, i < j ? b : a));
			sum += (a - b) * (a - b);
		}
	*skew = sqrt(sum);
	return true;
}

/* X' [l,s], scaled. */
static bool transposed(struct ddm *T, const double *X, size_t s, size_t l, double scale)
{
	if (!ddm_make(T, l, s)) return false;
	for (size_t i = 0; i < s; i++)
		for (size_t j = 0; j < l; j++) T->hi[j * s + i] = X[i * l + j] * scale;
	return true;
}

static double largest_of(const double *x, size_t n)
{
	double largest = 0;

	for (size_t i = 0; i < n; i++) largest = isfinite(x[i]) ? fmax(largest, fabs(x[i])) : INFINITY;
	return largest;
}

static void from_gram(struct singular *v, const struct spectrum *g, double beta, double unscale)
{
	for (size_t i = 0; i < v->s; i++) {
		size_t from = v->s - 1 - i;
		dd square = g->value[from];
		dd sigma = square.hi > 0 ? dd_sqrt(square) : dd_of(0);
		v->value[i] = dd_scale(sigma, unscale);
		v->bound[i] = (sigma.hi > 0 ? fmin(sqrt(beta), beta / sigma.hi) + 8 * DD_U2 * sigma.hi : sqrt(beta)) * unscale;
		for (size_t j = 0; j < v->s; j++) ddm_put(&v->u, j, i, ddm_at(&g->vector, j, from));
	}
}

bool singular_of(struct singular *v, const double *X, size_t s, size_t l, const char *what, struct error *e)
{
	double largest = largest_of(X, s * l), scale;
	struct ddm T = { 0 }, gram = { 0 };
	struct spectrum g = { 0 };
	int exponent;

	*v = (struct singular){ .s = s };
	if (!isfinite(largest)) return error_set(e, E_VALUE, what, NO_OFFSET, "expected finite numbers");
	frexp(largest, &exponent);
	scale = ldexp(1, exponent < -1000 ? 1000 : exponent > 1000 ? -1000 : -exponent);
	v->value = calloc(s, sizeof *v->value);
	v->bound = calloc(s, sizeof *v->bound);
	bool ok = (v->value && v->bound && ddm_make(&v->u, s, s) && transposed(&T, X, s, l, scale) && ddm_make(&gram, s, s))
		|| error_set(e, E_MEMORY, what, NO_OFFSET, "its singular values");
	if (ok) {
		double norm = ddm_norm(&T);
		ddm_product(&gram, true, &T, &T, true);
		ok = spectrum_of(&g, &gram, what, e);
		if (ok) from_gram(v, &g, g.bound + dd_sum_error(l) * norm * norm, 1 / scale);
	}
	ddm_free(&T);
	ddm_free(&gram);
	spectrum_free(&g);
	if (!ok) singular_free(v);
	return ok;
}

void singular_free(struct singular *v)
{
	free(v->value);
	free(v->bound);
	ddm_free(&v->u);
	*v = (struct singular){ 0 };
}
