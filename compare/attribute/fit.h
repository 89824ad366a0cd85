/* Weighted least squares of one vector on a few, with error bars from a jackknife over blocks.
 * Errors of a kernel are correlated within a head or a row; leaving out whole blocks sees that. */
#ifndef ETALON_FIT_H
#define ETALON_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_BLOCKS = 256, MAX_REGRESSORS = 64 };

/* The elements that a fit runs over: n of them, element i in block[i] < blocks. */
struct sample {
	size_t n;
	int blocks;
	const uint8_t *block;
	const double *weight;           /* 1/variance; 0 leaves an element out */
};

struct coefficient {
	double value, error;            /* error: one standard error, the larger of the jackknife's and the
	                                   weights', or a bound where one block has all of the column;
	                                   infinite where not determined */
	double gain;                    /* share of the weighted square of y that this one explains alone */
	bool determined;                /* false: no more than a multiple of the others, or zero */
};

/* y [n] ≈ Σ_j c_j d_j with d [p][n], p <= MAX_REGRESSORS, from sums that samples are added to, one or many, of the same blocks.
 * fit_begin: NULL where memory is short. fit_end fills c [p], frees f, and returns the share of the weighted sum of
 * squares of y that all explain together, 0 where y is 0. */
struct fitting *fit_begin(int blocks, int p);
void fit_add(struct fitting *f, const struct sample *s, const double *y, const double *const *d);
void fit_add_sums(struct fitting *f, int block, double yy, double dy, double dd);      /* of one direction: what a block's samples add up to */
double fit_end(struct fitting *f, struct coefficient *c);
void fit_free(struct fitting *f);

#endif
