/* What the Newton-Schulz iterations start from, and how they store. */
#include "newton_schulz.h"

enum { SQUARINGS = 12 };

void ns_stored(calc *c, int site, mat A)
{
	c_site(c, site, flat(A));
	if (c_fault(c, ITERATE_IN_BF16_FOR_F16) && c_param(c, P_ITERATE) != ITERATE_BF16) c_round(c, FMT_BF16, flat(A));
}

static void trace(calc *c, num y, mat A)
{
	c_set(c, y, 0);
	for (size_t i = 0; i < A.rows; i++) c_add(c, y, y, c_part(c, flat(A), i * A.cols + i, 1));
}

/* y <- the largest singular value of X: tr G^(p+1) / tr G^p of the Gram matrix, p = 2^SQUARINGS. */
static void spectral_norm(calc *c, num y, mat X)
{
	mat G = c_mat(c, X.rows, X.rows), P = c_mat(c, X.rows, X.rows), T = c_mat(c, X.rows, X.rows);
	num z = c_num(c);

	c_gemm(c, G, NT, X, X);
	c_copy(c, flat(P), flat(G));
	for (int i = 0; i < SQUARINGS; i++) {
		trace(c, z, P);
		c_div(c, flat(P), flat(P), z);
		c_gemm(c, T, NN, P, P);
		c_copy(c, flat(P), flat(T));
	}
	c_gemm(c, T, NN, P, G);
	trace(c, y, T);
	trace(c, z, P);
	c_div(c, y, y, z);
	c_map(c, y, FN_SQRT, y);
}

/* y <- (Σ x²)^1/2, row by row */
static void frobenius_norm(calc *c, num y, mat X)
{
	num row = c_num(c);

	for (size_t i = 0; i < X.rows; i++) {
		c_dot(c, row, c_row(c, X, i), c_row(c, X, i));
		c_add(c, y, y, row);
	}
	c_map(c, y, FN_SQRT, y);
}

/* X <- X/(‖X‖ + eps) or X/max(‖X‖, eps) */
void ns_normalise(calc *c, mat X)
{
	num norm = c_num(c);

	c_site(c, SITE_INPUT, flat(X));
	if (c_fault(c, SPECTRAL_FOR_FROBENIUS)) spectral_norm(c, norm, X);
	else frobenius_norm(c, norm, X);
	c_site(c, SITE_NORM, norm);
	if (c_fault(c, EPS_SWAMPS_SMALL_INPUT)) c_max(c, norm, norm, c_number(c, 1e-7));
	else if (c_param(c, P_EPS_KIND) == EPS_MAX) c_max(c, norm, norm, c_number(c, c_param(c, P_EPS)));
	else c_add(c, norm, norm, c_number(c, c_param(c, P_EPS)));
	c_div(c, flat(X), flat(X), norm);
	ns_stored(c, SITE_X0, X);
}
