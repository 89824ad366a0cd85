/* What growing, pruning and searching have in common. */
#ifndef ETALON_EMULATION_PRIVATE_H
#define ETALON_EMULATION_PRIVATE_H

#include "emulation.h"

/* Element operations of the reference that growing may spend, some five seconds of one core. */
extern const uint64_t growth;
struct grown { struct plan plan; double score; };

/* Known structure i of the contract. */
struct plan emulation_known(const struct contract *k, int i);

/* *least: of start with each fault alone the one by which the score is least, if it is less. */
bool emulation_least_fault(struct xray *x, const struct plan *start, struct grown *least);

/* Of a kernel that breaks the rules the known structures with each two faults, of which neither may bring it nearer alone: 1 + w for w where
 * the gate is another one. Taken where they explain the call; *x stays as it is where none do. */
bool emulation_two_faults(struct xray *x, const struct contract *k);

/* Of two faults that do much alike growth takes one by its coefficient, beside roundings that are not all there yet: in the place of the one
 * that is made, each other alone, where the score falls by what is worth keeping; in the place of one whose number is free each other, or a rounding,
 * that explains as well. */
bool emulation_exchange_fault(struct xray *x);

/* Is no more left than float32's size, and the coefficient of a fault not as many standard errors? */
bool emulation_doubtful(const struct xray *x, double coefficient, double error, double errors);

/* Explains the emulation so much that no other form and no other type can be meant? x->d is lost; E_MEMORY is the only error. */
bool emulation_explains_plenty(struct xray *x, bool *yes);

/* Does it explain the call, in each block? x->d is lost; E_MEMORY is the only error. */
bool emulation_explains_evenly(struct xray *x, bool *yes);

/* Rounds what is not rounded, in the commonest type, and no longer what is, at all sites at once whose coefficients in one fit
 * say so, if that explains the call; or only the latter, if the score falls by what is worth keeping: a chain of choices of
 * which none can be undone alone. E_MEMORY is the only error. */
bool emulation_turn(struct xray *x, bool *taken);

/* Takes each rounding and each fault out that x->emulation does as well without; unless plenty is explained, or nothing is
 * left unexplained, puts the best of the types in a rounding's place. E_MEMORY is the only error. */
bool emulation_backward(struct xray *x, bool plenty);

/* Of what gives the same numbers x->emulation takes what the contract's plan has: its type for another of as many bits, its
 * roundings for a fault, unless the score falls by what is worth keeping without. E_MEMORY is the only error. */
bool emulation_prefer(struct xray *x, const struct plan *contract);

#endif
