/* Finds the emulation: which roundings and which faults make the reference answer as the kernel did. */
#ifndef ETALON_EMULATION_H
#define ETALON_EMULATION_H

#include "compare/limits/limits.h"
#include "xray.h"

/* What a site may be rounded to; the first is the commonest. */
extern const struct site_rounding site_types[];
enum { SITE_TYPES = 13 };

/* Adds roundings and faults to x->emulation, which is refreshed, and takes out what it does as well
 * without, until nothing changes. Faults that explain most of what is left come first, then
 * roundings, then smaller faults. E_MEMORY is the only error of both. */
bool emulation_forward(struct xray *x);


/* From the nearest of the contract's known structures by emulation_forward; if that does not identify the call's, by the structure that is read;
 * if neither does and the rules are broken, by emulation_forward from the known structure with each fault alone, the best of them. k NULL:
 * from the nearest known structure of all contracts, or its form without roundings. Of what gives the same numbers it takes what the
 * contract has, or without one the op's contracts. It ends, whatever is left, after some 2^36 element operations. */
bool emulation_search(struct xray *x, const struct contract *k);

/* Of several contracts *k becomes the first one with a known structure that explains the call, else the one with that by which the score is
 * least; of one alone it stays. A contract that nothing calls for and whose emulation is amplified noise is left out: it explains any kernel.
 * E_MEMORY is the only error. */
bool emulation_nearest(struct xray *x, const struct contract *first, const struct contract *last, const struct contract **k);

/* Where x->structure asks for it: the structure that compare/structure reads from the outputs, from nothing, with the faults that the
 * emulation has. *found: it explains the call. The emulation is then the exact reference in that form with those faults, and every run is
 * shifted by what the structure adds to it. With k, *found only where the contract allows each of its roundings; what it is else is kept
 * for emulation_by_kept. */
bool emulation_by_structure(struct xray *x, const struct contract *k, bool *found);
bool emulation_by_kept(struct xray *x);
/* Does the contract clearly allow each of its roundings, or each at a site? */
bool structure_within(const struct structure_said *s, const struct call *call, const struct contract *k, bool at_sites);

/* emulation_forward from this plan alone, with this part of the work that growing may spend. */
enum { OF_GROWTH = 16 };        /* where many are tried, or little hangs on it: of a small call there is enough for each */
bool emulation_without(struct xray *x, const struct plan *without, uint64_t part);

/* Is the kernel's structure identified: does the emulation explain all of the call, evenly, or, where it rounds inside, 99 % of each
 * output's error? x->d is lost. */
bool emulation_identified(struct xray *x, bool *yes);

/* *yes: where nothing is rounded at a site, float32 gives the same numbers with fault m, which
 * the emulation makes, as without. What the fault changes is absent from the call; of the kernel
 * it says no more than where a rounding is. x->d and x->trial are lost. */
bool emulation_is_idle(struct xray *x, int m, bool *yes);

/* May the emulation be given that rounding? The site is in its form, x->only allows it, and it is no store in its own type. */
bool emulation_may_round(const struct xray *x, int site, int type);

/* Nothing but float32's noise is left. */
bool emulation_explains(const struct xray *x);

#endif
