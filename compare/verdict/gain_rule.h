/* The rule of the gain: no group of an output's elements (compare/truth/gain.h) may be too large or too
 * small as a whole, by more than correct kernels show. */
#ifndef ETALON_GAIN_RULE_H
#define ETALON_GAIN_RULE_H

#include "verdict.h"

/* v->rule[RULE_GAIN] and v->gain, of the group that comes nearest to its limit or goes furthest beyond it.
 * sum [groups]: of the kernel's errors. */
void gain_judge(struct output_verdict *v, const struct call *call, const struct expected *x, const struct gain_sum *sum);

/* The limit of the whole output, in sigma. */
double gain_limit_of_all(const struct expected *x, int i);

#endif
