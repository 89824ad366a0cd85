/* Finds the replica: which roundings and which mistakes make the reference answer as the kernel did. */
#ifndef ETALON_REPLICA_H
#define ETALON_REPLICA_H

#include "xray.h"

/* A coefficient this many standard errors from 0 is not 0; one whose error is larger than the
 * reciprocal says nothing. */
extern const double certain;

/* A mistake whose effect is smaller than float32's noise, as rms over the outputs, can be neither convicted
 * nor ruled out: float32's own errors are systematic too, at that size. */
extern const double above_noise;

/* What a site may be rounded to; the first is the commonest. */
extern const struct site_rounding site_types[];
enum { SITE_TYPES = 8 };

/* Adds roundings and mistakes to x->replica, which is settled, and takes out what it does as well
 * without, until nothing changes. Mistakes that explain most of what is left come first, then
 * roundings, then smaller mistakes. E_MEMORY is the only error of both. */
bool replica_grow(struct xray *x);

/* replica_grow from each way to compute in turn (token by token with exact sums, the same in float32,
 * in chunks of 64, 32, 16, 128): the first that explains all, else the one that explains most. start,
 * where not NULL, is tried before them. */
bool replica_search(struct xray *x, const struct plan *start);

/* Nothing but float32's noise is left. */
bool replica_explains(const struct xray *x);

#endif
