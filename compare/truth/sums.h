/* Sums of correct kernels whose errors are systematic, and what that adds to the expected error; expected.h says when. */
#ifndef ETALON_SUMS_H
#define ETALON_SUMS_H

#include "expected.h"

/* Runs behind sigma with such sums: of each strip what they are off by, NULL where an output has nothing here. */
struct off_by { double *d[SUM_RUNS][MAX_OUT]; };

/* How many: in order, and in order by multiply-adds; then a Hopper's and an Ampere's, if a kernel of the region has operands that tensor
 * cores multiply. */
int sums_of(const struct contract *region);
/* Run r of them. In order the contract's roundings are not made, so that what is seen is what the sums do. */
void sums_plan(struct plan *p, const struct plan *model, int r);

/* The only error is E_MEMORY; *o is to be freed all the same. */
bool off_by_make(struct off_by *o, struct expected *x, const struct call *call, const struct strip *s, size_t strip, size_t n,
	const struct answer *centre, struct error *e);
void off_by_free(struct off_by *o);

/* Of output i, n elements: the mean squares in x->upstream. */
void off_by_rows(struct expected *x, const struct off_by *o, int i, size_t n, size_t row);
/* Adds up the errors in sigma; of all strips, the largest mean that is to be allowed. */
void off_by_shift(struct expected *x, const struct off_by *o, int i, size_t n);
double sums_shift(const struct expected *x, int i);

#endif
