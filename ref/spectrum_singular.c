/* Singular values and the polar factor, by the eigenvalues of XX' in double-double. */
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

	*v = (struct singular){ .s = s, .l = l };
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

/* ---- the polar factor ---- */
struct polar { struct ddm x, xt, p, w, wt, n, r; };     /* X, X', U'X, W, W', XW', a residual */

static bool polar_make(struct polar *p, const double *X, size_t s, size_t l)
{
	bool ok = ddm_make(&p->x, s, l) & transposed(&p->xt, X, s, l, 1) & ddm_make(&p->p, s, l) & ddm_make(&p->w, s, l)
		& ddm_make(&p->wt, l, s) & ddm_make(&p->n, s, s) & ddm_make(&p->r, s, l);

	if (ok) memcpy(p->x.hi, X, s * l * sizeof(double));
	return ok;
}

static void polar_free(struct polar *p)
{
	ddm_free(&p->x);
	ddm_free(&p->xt);
	ddm_free(&p->p);
	ddm_free(&p->w);
	ddm_free(&p->wt);
	ddm_free(&p->n);
	ddm_free(&p->r);
}

/* |X - sym(N) W|_F, N = XW'. */
static double residual(struct polar *p)
{
	size_t s = p->x.rows, l = p->x.cols;
	dd half = dd_of(0.5);

	ddm_product(&p->n, true, &p->xt, &p->wt, false);
	for (size_t i = 0; i < s; i++)
		for (size_t j = 0; j <= i; j++) {
			dd h = dd_mul(half, dd_add(ddm_at(&p->n, i, j), ddm_at(&p->n, j, i)));
			ddm_put(&p->n, i, j, h);
			ddm_put(&p->n, j, i, h);
		}
	ddm_product(&p->r, false, &p->n, &p->w, false);
	for (size_t i = 0; i < s; i++)
		for (size_t j = 0; j < l; j++) ddm_put(&p->r, i, j, dd_sub(ddm_at(&p->x, i, j), ddm_at(&p->r, i, j)));
	return ddm_norm(&p->r) + dd_sum_error(s) * ddm_norm(&p->n) * ddm_norm(&p->w);
}

/* tr N - Σσ: N's eigenvalues are ±σ_i to within the residual, so less than σ_min means all are positive. */
static double excess(const struct polar *p, const struct singular *v)
{
	dd sum = dd_of(0);

	for (size_t i = 0; i < v->s; i++) sum = dd_add(sum, dd_sub(ddm_at(&p->n, i, i), v->value[i]));
	return sum.hi;
}

/* |WW' - I|_F */
static double orthonormality(struct polar *p)
{
	size_t s = p->x.rows;

	ddm_product(&p->n, true, &p->wt, &p->wt, true);
	for (size_t i = 0; i < s; i++) ddm_put(&p->n, i, i, dd_sub(ddm_at(&p->n, i, i), dd_of(1)));
	return ddm_norm(&p->n) + dd_sum_error(p->x.cols) * (double)s;
}

bool polar_of(struct ddm *W, double *bound, const double *X, const struct singular *v, struct error *e)
{
	size_t s = v->s, l = v->l;
	struct polar p;

	if (!(v->value[s - 1].hi > v->bound[s - 1]))
		return error_set(e, E_VALUE, NULL, NO_OFFSET, "the smallest singular value is 0 to within %.3g: no unique polar factor",
			v->bound[s - 1]);
	if (!polar_make(&p, X, s, l)) {
		polar_free(&p);
		return error_set(e, E_MEMORY, NULL, NO_OFFSET, "a polar factor");
	}
	ddm_product(&p.p, true, &v->u, &p.x, false);
	for (size_t i = 0; i < s; i++)
		for (size_t j = 0; j < l; j++) ddm_put(&p.p, i, j, dd_div(ddm_at(&p.p, i, j), v->value[i]));
	ddm_product(&p.w, false, &v->u, &p.p, false);
	for (size_t i = 0; i < s; i++)
		for (size_t j = 0; j < l; j++) ddm_put(&p.wt, j, i, ddm_at(&p.w, i, j));
	double rho = orthonormality(&p), r = residual(&p) + rho * v->value[0].hi * 1.001, least = v->value[s - 1].hi - v->bound[s - 1];
	double flipped = fabs(excess(&p, v));
	*bound = (2 / (2 * least - r) + 1 / least) * r + rho;
	*W = p.w;
	p.w = (struct ddm){ 0 };
	polar_free(&p);
	if (2 * least > r && flipped < least) return true;
	ddm_free(W);
	return error_set(e, E_VALUE, NULL, NO_OFFSET, "too near to singular for a polar factor");
}
