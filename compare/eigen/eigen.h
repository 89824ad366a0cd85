/* Newton-Schulz eigenvalue by eigenvalue: a trace against the exact scalar recurrence. */
#ifndef ETALON_EIGEN_H
#define ETALON_EIGEN_H

#include "ref/eigen/iterate.h"
#include "ref/eigen/spectrum.h"

/* Y is the answer that was stored; X_t what the answer would be after iteration t (trace_answer). */
enum matrix { M_R, M_Q, M_X, M_Y, MATRICES };
extern const char *const matrix_name[MATRICES];

/* One eigenvalue (R, Q: of the symmetric part) or singular value (X, Y) after one iteration. sigma is the
 * singular value of X_0 that it belongs to in exact arithmetic, exact what the recurrence makes of it; observed is
 * the observed one of the same rank, error their difference, by Weyl at most the matrices' distance in the 2-norm;
 * along is u'Mu or u'Mv for the singular vectors u, v of X_0. */
struct eigen_row { size_t t; enum matrix matrix; size_t index; double sigma, exact, observed, error, along; };

/* One iteration. Norms are Frobenius's; of what is not there or not finite: NaN. */
struct eigen_step {
	double least_r, exact_least_r;          /* smallest eigenvalue of R */
	double condition, exact_condition;      /* of Q: max|λ| / min|λ| */
	double error;                           /* largest |observed - exact| over X's singular values */
	double departure;                       /* the same of |observed - exact| / max(1, exact) */
	double orthogonality;                   /* |XX' - I|_2 */
	double drift[M_Y];                      /* |M - diag M| / |M| for M = U'RU, U'QU, U'XV */
	double skew;                            /* |R - R'| / (2 |R|) */
	bool finite;
};

enum cause { FOLLOWS, NEGATIVE, ABOVE_ONE, DRIFT };
extern const char *const cause_name[];

struct eigen {
	size_t s, K;
	struct eigen_row *row;
	size_t rows;
	struct eigen_step *step;                /* [K+1] */
	double sigma_max, sigma_min;            /* of X_0 */
	double y_error, y_departure, y_orthogonality;   /* the answer; NaN where it was not there or is not finite */
	/* How far u'Yv is off, for singular vectors u, v of X_0 that rounding does not turn. */
	double y_along;
	bool has_y, y_recorded, y_is_finite;
	/* The recorded answer has other singular values than the recurrence gives; it is not
	 * what the iteration gives, which follows the exact curve: it has, or has them along
	 * other vectors. */
	bool answer_left, answer_wrong;
	/* The first iteration after which a singular value of X is off by more than leave max(1, exact), or X is not finite:
	 * its direction v is the largest left singular vector of X_t - U diag(x_t) V'. The cause is NEGATIVE where,
	 * before some iteration since the last restart, more than half of v lies in R's eigenspace of negative
	 * eigenvalues, ABOVE_ONE where more than half lies in that of eigenvalues more than 1 % above all that
	 * 0 <= x <= 1 leads to, whichever comes first; else DRIFT. */
	enum cause cause;
	size_t left;                            /* after this many iterations; K + 1 where it follows */
	size_t cause_at;                        /* R_t with this t (the one iteration t, from 0, works on) */
	double leave, cause_value, cause_share; /* R's extreme eigenvalue; how much of |v|^2 */
	bool overflows;                         /* X, R or Q is not finite there */
	bool exact_diverges;                    /* σ_max > 1 and the recurrence itself ends further from 1 than on [0,1] */
};

/* y [s,l] or NULL: a recorded answer to judge in place of the trace's. Exact values are those of t's X_0.
 * tick may be NULL. E_VALUE (X_0 not finite), E_MEMORY. */
bool eigen_make(struct eigen *g, const struct trace *t, const double *y, double leave,
	void (*tick)(const char *stage, size_t done, size_t total), struct error *e);
void eigen_free(struct eigen *g);

#endif
