/* The Newton-Schulz iterations on X [s,l], s <= l; (a, b, c) are those of the iteration.
 *
 *   standard    A = XX'         B = bA + cA²          X <- BX + aX
 *   gram_naive  R = XX', Q = I  Z = aI + bR + cR²     Q <- QZ         R <- Z RZ
 *   gram        R = XX', Q = I  Z = bR + cR²          Q <- QZ + aQ    RZ <- RZ + aR, R <- Z RZ + a RZ
 *
 * The Gram forms answer QX; gram restarts: X <- QX, R <- XX', Q <- I.
 *
 * In exact arithmetic all but X are symmetric. Rounded, QZ, RZ and Z RZ are not: their factors no longer commute. A kernel
 * that computes the lower triangle of each product and mirrors it is another algorithm: the form "lower". */
#include <math.h>

#include "newton_schulz.h"

enum { TILE = 16 };

size_t ns_iterations(const calc *c) { return (size_t)c_param(c, P_COEFFICIENTS); }

struct ns ns_make(calc *c, size_t s, size_t l, size_t b, int trace)
{
	bool gram = c_param(c, P_ALGORITHM) != STANDARD;
	mat none = { 0 };

	return (struct ns){ c_mat(c, s, l), gram ? c_mat(c, s, s) : none, gram ? c_mat(c, s, s) : none, b, c_form(c) == LOWER, trace };
}

/* ---- traces ---- */
static size_t entry(const calc *c, const struct ns *i, mat A, size_t t)
{
	return (i->b * (ns_iterations(c) + 1) + t) * A.rows * A.cols;
}

static void record(calc *c, const struct ns *i, int which, mat A, size_t t)
{
	if (i->trace >= 0 && A.rows) c_store(c, i->trace + which, entry(c, i, A, t), 1, flat(A));
}

static void recall(calc *c, const struct ns *i, int which, mat A, size_t t)
{
	if (A.rows) c_load_trace(c, flat(A), i->trace + which, entry(c, i, A, t), 1);
}

/* X goes on as the kernel recorded it, where it did: what is made of it in the same entry has errors of its own. */
static void record_X(calc *c, struct ns *i, size_t t)
{
	record(c, i, TRACE_X, i->X, t);
	if (i->trace >= 0 && c_anchored(c)) recall(c, i, TRACE_X, i->X, t);
}

static void record_gram(calc *c, const struct ns *i, size_t t)
{
	record(c, i, TRACE_R, i->R, t);
	record(c, i, TRACE_Q, i->Q, t);
}

void ns_recall(calc *c, struct ns *i, size_t t)
{
	recall(c, i, TRACE_X, i->X, t);
	recall(c, i, TRACE_R, i->R, t);
	recall(c, i, TRACE_Q, i->Q, t);
}

/* ---- matrices ---- */
/* The upper triangle becomes the lower one's mirror, where the form is that. */
static void mirror(calc *c, const struct ns *i, mat P)
{
	for (size_t r = 0; i->lower && r < P.rows; r++)
		for (size_t s = r + 1; s < P.cols; s++) c_copy(c, c_part(c, flat(P), r * P.cols + s, 1), c_part(c, flat(P), s * P.cols + r, 1));
}

/* P <- alpha AB + beta C */
static void product(calc *c, mat P, double alpha, mat A, mat B, double beta, mat C)
{
	size_t mark = c_mark(c);
	bool apart = beta != 0 && c_rounding(c, SITE_TERM);
	mat D = apart ? c_mat(c, P.rows, P.cols) : C;

	c_gemm(c, P, NN, A, B);
	if (alpha != 1 || beta != 0) c_site(c, SITE_PRODUCT, flat(P));
	if (alpha != 1) c_mul(c, flat(P), flat(P), c_number(c, alpha));
	if (apart) {
		if (alpha != 1) c_site(c, SITE_TERM, flat(P));
		c_mul(c, flat(D), flat(C), c_number(c, beta));
		c_site(c, SITE_TERM, flat(D));
		c_add(c, flat(P), flat(P), flat(D));
	} else if (beta != 0) {
		c_axpy(c, flat(P), c_number(c, beta), flat(C));
	}
	c_release(c, mark);
}

/* The same of matrices [s,s] */
static void symmetric(calc *c, const struct ns *i, mat P, double alpha, mat A, mat B, double beta, mat C)
{
	product(c, P, alpha, A, B, beta, C);
	mirror(c, i, P);
}

/* A <- A + aI */
static void add_identity(calc *c, mat A, double a)
{
	num x = c_number(c, a);

	for (size_t i = 0; i < A.rows; i++) {
		num diagonal = c_part(c, flat(A), i * A.cols + i, 1);
		c_add(c, diagonal, diagonal, x);
	}
}

static void identity(calc *c, mat A)
{
	c_set(c, flat(A), 0);
	add_identity(c, A, 1);
}

/* The tile (I, J) above the diagonal becomes the tile (J, I) as it is. */
static void mirror_tiles(calc *c, mat A)
{
	for (size_t I = 0; I < A.rows / TILE; I++)
		for (size_t J = I + 1; J < A.rows / TILE; J++)
			for (size_t r = 0; r < TILE; r++)
				c_copy(c, c_part(c, c_row(c, A, I * TILE + r), J * TILE, TILE), c_part(c, c_row(c, A, J * TILE + r), I * TILE, TILE));
}

/* R <- XX' */
static void gram(calc *c, const struct ns *i, mat R, mat X)
{
	c_gemm(c, R, NT, X, X);
	mirror(c, i, R);
	if (c_fault(c, MIRROR_NOT_TRANSPOSED)) mirror_tiles(c, R);
	if (c_fault(c, GRAM_FROM_MIRRORED_TRIANGLE))
		for (size_t r = 0; r < R.rows; r++) {
			c_set(c, c_part(c, c_row(c, R, r), 0, r), 0);
			c_set(c, c_part(c, c_row(c, R, r), r + 1, R.cols - r - 1), 0);
		}
	ns_stored(c, SITE_GRAM, R);
}

/* ---- the start ---- */
void ns_start(calc *c, struct ns *i)
{
	ns_normalise(c, i->X);
	record_X(c, i, 0);
	if (c_param(c, P_ALGORITHM) == STANDARD) return;
	gram(c, i, i->R, i->X);
	identity(c, i->Q);
	record_gram(c, i, 0);
}

/* ---- an iteration ---- */
static bool restarts_at(const calc *c, size_t t)
{
	size_t n = (size_t)c_param(c, P_RESTARTS), at = t - c_fault(c, RESTART_ONE_LATE);

	if (c_param(c, P_ALGORITHM) != GRAM || t == 0 || c_fault(c, RESTART_MISSING)) return false;
	if (isnan(c_param(c, P_RESTARTS))) return at == 2 && ns_iterations(c) > 2;
	for (size_t r = 0; r < n; r++)
		if (c_list(c, P_RESTARTS, r, 1, 0) == (double)at) return true;
	return false;
}

/* X <- QX, R <- XX', Q <- I before iteration t */
static void restart(calc *c, struct ns *i, size_t t)
{
	mat QX = c_mat(c, i->X.rows, i->X.cols);

	product(c, QX, 1, i->Q, i->X, 0, QX);
	c_copy(c, flat(i->X), flat(QX));
	ns_stored(c, SITE_X, i->X);
	record_X(c, i, t + 1);
	gram(c, i, i->R, i->X);
	if (!c_fault(c, RESTART_KEEPS_Q)) identity(c, i->Q);
}

/* a is outside where it is a term of the products, 0 where it is on Z's diagonal. */
static double outside(calc *c, double a)
{
	return c_param(c, P_ALGORITHM) == GRAM_NAIVE || c_fault(c, IDENTITY_ADDED_IN_LOW_PRECISION) ? 0 : a;
}

/* Z <- bR + cR², + aI where a is not outside */
static void polynomial(calc *c, const struct ns *i, mat Z, mat R, const double abc[3])
{
	static const enum format type[] = { [ITERATE_F32] = FMT_F32, [ITERATE_F16] = FMT_F16, [ITERATE_BF16] = FMT_BF16 };
	bool low = c_fault(c, IDENTITY_ADDED_IN_LOW_PRECISION);

	symmetric(c, i, Z, abc[2], R, R, abc[1], R);
	if (low) ns_stored(c, SITE_Z, Z);
	if (outside(c, abc[0]) != abc[0]) add_identity(c, Z, abc[0]);
	if (low) c_round(c, type[(int)c_param(c, P_ITERATE)], flat(Z));
	else ns_stored(c, SITE_Z, Z);
}

/* X <- BX + aX with B = bA + cA², A = XX' */
static void standard(calc *c, struct ns *i, size_t t, const double abc[3])
{
	size_t s = i->X.rows;
	mat A = c_mat(c, s, s), B = c_mat(c, s, s), X = c_mat(c, s, i->X.cols);

	gram(c, i, A, i->X);
	polynomial(c, i, B, A, abc);
	product(c, X, 1, B, i->X, outside(c, abc[0]), i->X);
	c_copy(c, flat(i->X), flat(X));
	ns_stored(c, SITE_X, i->X);
	record(c, i, TRACE_X, i->X, t + 1);
}

/* R <- Z(RZ + aR) + a(RZ + aR) */
static void update_gram(calc *c, struct ns *i, mat Z, double a)
{
	mat RZ = c_mat(c, Z.rows, Z.rows);

	symmetric(c, i, RZ, 1, i->R, Z, a, i->R);
	ns_stored(c, SITE_RZ, RZ);
	if (c_fault(c, R_UPDATE_ONE_SIDED)) c_copy(c, flat(i->R), flat(RZ));
	else symmetric(c, i, i->R, 1, Z, RZ, a, RZ);
	ns_stored(c, SITE_R, i->R);
}

/* Z <- bR + cR²; Q <- QZ + aQ; R as above, unless nothing reads it. */
static void gram_form(calc *c, struct ns *i, size_t t, const double abc[3])
{
	mat Z = c_mat(c, i->R.rows, i->R.rows), Q = c_mat(c, i->R.rows, i->R.rows);
	double a = outside(c, abc[0]);
	bool last = t + 1 == ns_iterations(c) || restarts_at(c, t + 1);

	if (restarts_at(c, t)) restart(c, i, t);
	else record(c, i, TRACE_X, i->X, t + 1);
	polynomial(c, i, Z, i->R, abc);
	symmetric(c, i, Q, 1, i->Q, Z, a, i->Q);
	c_copy(c, flat(i->Q), flat(Q));
	ns_stored(c, SITE_Q, i->Q);
	if (!last || (i->trace >= 0 && c_wants(c, i->trace + TRACE_R))) update_gram(c, i, Z, a);
}

void ns_iterate(calc *c, struct ns *i, size_t t)
{
	size_t K = ns_iterations(c), mark = c_mark(c), from = c_fault(c, LAST_COEFFICIENTS_REUSED) && t && t + 1 == K ? t - 1 : t;
	double abc[3];

	for (size_t k = 0; k < 3; k++) abc[k] = c_list(c, P_COEFFICIENTS, from, 3, k);
	if (c_param(c, P_ALGORITHM) == STANDARD) standard(c, i, t, abc);
	else gram_form(c, i, t, abc);
	record_gram(c, i, t + 1);
	c_release(c, mark);
}

void ns_answer(calc *c, struct ns *i)
{
	mat QX = c_mat(c, i->X.rows, i->X.cols);

	if (c_param(c, P_ALGORITHM) == STANDARD) return;
	product(c, QX, 1, i->Q, i->X, 0, QX);
	c_copy(c, flat(i->X), flat(QX));
}

void ns_orthogonalise(calc *c, struct ns *i)
{
	ns_start(c, i);
	for (size_t t = 0; t < ns_iterations(c); t++) ns_iterate(c, i, t);
	ns_answer(c, i);
}

bool ns_check(const struct call *call, struct error *e)
{
	double K = call->param[P_COEFFICIENTS], n = call->param[P_RESTARTS];

	if (!(K > 0)) return error_set(e, E_PARAM, "coefficients", NO_OFFSET, "expected at least one [a,b,c]");
	if (!(call->param[P_EPS] >= 0)) return error_set(e, E_PARAM, "eps", NO_OFFSET, "expected 0 or more, got %g", call->param[P_EPS]);
	if (n > 0 && call->param[P_ALGORITHM] != GRAM) return error_set(e, E_PARAM, "restarts", NO_OFFSET, "only gram restarts");
	for (size_t r = 0; n > 0 && r < (size_t)n; r++) {
		double t = call_list(call, P_RESTARTS, r, 1, 0);
		if (!(t >= 1 && t < K && t == floor(t)) || (r && t <= call_list(call, P_RESTARTS, r - 1, 1, 0)))
			return error_set(e, E_PARAM, "restarts", NO_OFFSET, "expected rising whole numbers from 1 to %g, got %g", K - 1, t);
	}
	return true;
}
