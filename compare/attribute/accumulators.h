/* The accumulator of a kernel: in which order, and how, it adds. Read after the emulation is found: its plan is
 * run in every arithmetic that a GPU has, and the one whose stored answer is equal to the kernel's to the bit
 * most often is taken. See docs/x-ray.md. */
#ifndef ETALON_ACCUMULATORS_H
#define ETALON_ACCUMULATORS_H

#include "xray.h"

enum { ACCUMULATORS = 8 };
struct accumulators {
	const struct arith *arith[ACCUMULATORS];        /* the first stands for exact sums */
	double equal[ACCUMULATORS];                     /* share of all elements that are equal to the bit */
	double output[ACCUMULATORS][MAX_OUT];           /* the same of each output */
	int best;                                       /* 0 where none is better than exact sums by more than chance */
};

/* Around x->emulation. E_MEMORY is the only error. */
bool accumulators_read(struct accumulators *a, struct xray *x);

/* "exact" or the arithmetic's name. */
const char *accumulator_name(const struct accumulators *a, int i);

#endif
