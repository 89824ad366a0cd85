/* The figures of one output; see verdict.h for what they are. */
#ifndef ETALON_FIGURES_H
#define ETALON_FIGURES_H

#include "verdict.h"

/* Output i must be there and finite in the truth. second is the truth in another arithmetic. The
 * only error is E_MEMORY. */
bool figures(struct output_verdict *v, const struct call *call, int i, const struct answer *truth,
	const struct answer *second, const struct expected *x, struct error *e);

/* What the rms in sigma of a correct kernel's errors stays below, given their degrees of freedom. */
double rms_limit(double freedom);

#endif
