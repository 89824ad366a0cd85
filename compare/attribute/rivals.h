/* Faults that explain the outputs as well as one that the emulation makes. */
#ifndef ETALON_RIVALS_H
#define ETALON_RIVALS_H

#include "earned.h"

/* By fault: one that is made, in whose place it gives the same answer; or another that explains
 * as well. */
struct rivals { const char *same[MAX_FAULT], *as_well[MAX_FAULT]; };

/* Of the faults `possible` that are not made. x->d is lost; E_MEMORY is the only error of both. */
bool rivals_find(struct xray *x, uint64_t possible, struct rivals *r);

/* Of faults that give the same answer, or explain as well, the commonest is named, which is the
 * first in the op's file: x->emulation makes it. */
bool rivals_commonest(struct xray *x, struct earned *names);

#endif
