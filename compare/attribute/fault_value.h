/* Which value of its parameter a fault is made at. */
#ifndef ETALON_FAULT_VALUE_H
#define ETALON_FAULT_VALUE_H

#include "xray.h"

/* The value at which fault m, which x->emulation does not make, explains most of what is left; *found: there is one that explains any. All
 * values are tried where they are few or the call is small; else those of a size at the indices of an output's first axis where what is left
 * begins, others on a grid that is made finer about the best. x->d is lost. E_MEMORY is the only error of all. */
bool fault_value_search(struct xray *x, int m, double *value, bool *found);

/* Changes the value of fault m, which x->emulation makes, to that of a neighbour as long as the score falls. */
bool fault_value_refine(struct xray *x, int m);

/* Is the number that the emulation has as good as the right one? */
bool fault_value_is_right(const struct xray *x, int m);

/* [*least, *most]: the values about that of fault m, which x->emulation makes, that explain as well; of a list that one alone. */
bool fault_value_class(struct xray *x, int m, double *least, double *most);

/* How much more the score must fall for the best of the values than for a fault that has none: 2 ln n. */
double fault_value_price(const struct call *call, int m);

#endif
