/* Shared by expected.c and widen.c. */
#ifndef ETALON_EXPECTED_PRIVATE_H
#define ETALON_EXPECTED_PRIVATE_H

#include "expected.h"

/* The indices that a run names, of the strip that was added last. */
void expected_named(struct expected *x, const struct call *call, const struct answer *run);

/* s2 [n], mean squares of single elements, becomes the upstream error. */
void expected_pool(double *s2, size_t n, size_t row);

/* sigma of an element whose upstream error is this: with the rounding to its store's format. */
double with_store(double upstream, enum format f, double value);

/* Mean squares of the errors of x->runs runs of the strip, into s2. */
bool expected_spread(struct expected *x, struct stream *stream, double *const s2[MAX_OUT], const struct call *call, const struct strip *s,
	size_t strip, size_t n, const struct answer *centre, struct error *e);

#endif
