/* Which faults and roundings of a replica may be named. A name is earned: see docs/verdict.md. */
#ifndef ETALON_EARNED_H
#define ETALON_EARNED_H

#include "replica.h"
#include "suspects.h"

/* Bits: the faults and the sites of x->replica that are named. */
struct earned { uint64_t faults, sites; };

/* Decides it, of a replica that was searched for; a fault that is not earned leaves a replica that does not identify the structure,
 * which is then grown by roundings alone. x->replica stays settled. E_MEMORY is the only error. */
bool earned_names(struct earned *n, struct xray *x, const struct rules_say *rules, struct error *e);

#endif
