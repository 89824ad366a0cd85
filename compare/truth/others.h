/* Correct kernels whose errors are not those of noise in the contract's usual structure, and what they add to the expected error:
 * expected.h says when. */
#ifndef ETALON_OTHERS_H
#define ETALON_OTHERS_H

#include "expected.h"

/* Such runs behind sigma: of each strip what they are off by, NULL where an output has nothing here. */
struct off_by { double *d[OTHER_RUNS + 1][MAX_OUT]; };

/* Elements that are worth all threads. */
enum { WORTH = 1 << 13 };

/* Fills x->other and x->kinds, of the model's region, and says how many runs there are; names: an output holds indices. */
int others_of(struct expected *x, const struct plan *model, bool names);
/* Run r of them. In order the contract's roundings are not made, so that what is seen is what the sums do. */
void others_plan(struct plan *p, const struct plan *model, enum other kind, int r);

/* A run in which each row is behind as many tokens of its chunk as in any chunk of up to the widest, for one place of the first. */
void others_widest(struct plan *p, int r);

/* The only error is E_MEMORY; *o is to be freed all the same. */
bool off_by_make(struct off_by *o, struct expected *x, const struct call *call, const struct strip *s, size_t strip, size_t n,
	const struct answer *centre, struct error *e);
void off_by_free(struct off_by *o);

/* Of output i, n elements, hi the numbers: the mean squares in x->upstream. */
void off_by_rows(struct expected *x, struct off_by *o, int i, size_t n, size_t row, const double *hi);
/* Adds up the errors in sigma and their gains, of n elements from `first` on, hi the numbers; of all strips, the largest mean that is to be allowed. */
void off_by_shift(struct expected *x, const struct off_by *o, int i, size_t first, size_t n, const double *hi);
double others_shift(const struct expected *x, int i);

#endif
