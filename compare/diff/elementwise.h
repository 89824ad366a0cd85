/* Two tensors of one shape, element by element. */
#ifndef ETALON_ELEMENTWISE_H
#define ETALON_ELEMENTWISE_H

#include "fixtures/io/tensor.h"
#include "scan.h"

/* abs is infinite where a value is not finite. */
struct element { size_t index; double a, b, abs, rel, ulp; };

/* Numbers with a bound take elements that are finite in both; d = b - a. An element differs when
 * its values do, by bits (so -0 and 0 differ), or when either is NaN. */
struct elementwise {
	size_t count, differ, nan_a, nan_b, inf_a, inf_b;
	double max_abs;         /* |d| */
	double max_rel;         /* |d| / max(|a|, |b|), at most 2 */
	double max_ulp;         /* |d| in units of the coarser type's spacing at max(|a|, |b|); integers: 1 */
	double rms, rms_a;      /* of d, of a */
	double mean;            /* of d */
	size_t histogram[SCAN_BINS];    /* of |d| in the same units: below 1/2, then from 2^(i - 2) on, the last without end */
	struct element *top;    /* the differing elements of largest |d|, first the largest */
	size_t n_top;
};

/* Several threads; reads block by block. `mapped`: both are in files, so pages that were read are
 * given back and a file may be larger than memory. At most top elements are kept. The caller frees
 * with elementwise_free. The only error is E_MEMORY. */
bool elementwise(const struct tensor *a, const struct tensor *b, size_t top, bool mapped, struct elementwise *r, struct error *e);
void elementwise_free(struct elementwise *r);

#endif
