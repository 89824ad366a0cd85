/* Where to restart Gram Newton-Schulz. */
#ifndef ETALON_RESTARTS_H
#define ETALON_RESTARTS_H

#include "polynomials.h"

/* The choice S of restart steps costs
 *      J(S) = max over t = 1 … K of  sup |q_t(x)| / inf |q_t(x)|  over 0 <= x <= 1,
 * the largest condition number that Q has after an iteration, where q_t(x) is the recurrence from r = x^2 + p,
 * restarted at each of S with x <- q x, r <- x^2 + p, q <- 1. p < 0 is the worst spurious eigenvalue that
 * rounding gives a Gram matrix: where x is small r is negative, z exceeds a, and Q grows where X has nothing.
 * In double-double, sup and inf by a grid of 2048 points (half of them equidistant, half down to 1e-10 by equal
 * factors) and golden sections around the best; infinite where q_t changes its sign. */
struct restart_choice {
	uint64_t restarts;      /* bit t: before iteration t */
	double worst;           /* J */
	size_t at;              /* the iteration after which it is reached, 1 … K */
};

/* All choices of `count` of the steps 1 … K-1, least J first; *choice is the caller's to free. E_VALUE where
 * there are none or more than 100 000. */
bool restarts_search(struct restart_choice **choice, size_t *n, const struct schedule *s, size_t count, double p,
	struct error *e);

/* J of one choice; *at as above. */
double restarts_cost(const struct schedule *s, uint64_t restarts, double p, size_t *at);

#endif
