/* Which faults and roundings of an emulation may be named. A name is earned: see docs/verdict.md. */
#ifndef ETALON_EARNED_H
#define ETALON_EARNED_H

#include "emulation.h"
#include "suspects.h"

/* Bits: the faults and the sites of x->emulation that are named. */
struct earned { uint64_t faults, sites; };

/* Decides it, of an emulation that was searched for; a fault that is not earned leaves an emulation that does not identify the structure,
 * which is then grown by roundings alone. x->emulation stays refreshed. E_MEMORY is the only error. */
bool earned_names(struct earned *n, struct xray *x, const struct rules_say *rules, struct error *e);

/* The rules hold, errors scatter as few numbers would, and what is left is not float32's noise: then any of many plans explains as much by
 * chance, and nothing is named. */
bool earned_by_chance(const struct xray *x, const struct rules_say *rules);

/* Is the kernel not finite just where the plan is, in float32, or where one fault alone is in the contract's first structure? Then x->emulation and
 * *faults become that one. E_MEMORY is the only error. */
bool overflows_as(struct xray *x, const struct contract *k, const struct plan *with, uint64_t *faults, bool *yes);

#endif
