/* The tails that the thresholds are made of. */
#ifndef ETALON_QUANTILE_H
#define ETALON_QUANTILE_H

#include <stddef.h>

/* t > 0 with P(|T_nu| > t) <= p for Student's T with nu > 1 degrees of freedom; 0 < p < 1. An upper
 * bound of the quantile, close in the tail:
 * P(|T| > t) <= 2 c nu / ((nu - 1) t) (1 + t²/nu)^(-(nu-1)/2), c = density of T at 0,
 * from bounding the density by x/t times itself beyond t. */
double student_quantile(double nu, double p);

/* Bound of X²/n for X² chi-squared with n degrees of freedom, exceeded with probability p at most:
 * 1 + 2 sqrt(x/n) + 2x/n with x = log(1/p) (Laurent and Massart 2000, lemma 1). */
double mean_square_bound(double n, double p);

/* The k-th smallest (k = 0 ..) of x [n], which is reordered. */
double select_smallest(double *x, size_t n, size_t k);

#endif
