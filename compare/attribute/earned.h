/* Which faults and roundings of an emulation may be named, and which faults explain the outputs
 * as well. A name is earned: see docs/verdict.md. */
#ifndef ETALON_EARNED_H
#define ETALON_EARNED_H

#include "emulation.h"
#include "suspects.h"

/* Bits: the faults and the sites of x->emulation that are named; of the faults those that are
 * told by what is not finite, and those that are named as the rules hold with them and not
 * without, though neither a coefficient nor enough elements tell them. possible: faults with
 * which the rules hold, and of which too little tells for a name. */
struct earned { uint64_t faults, sites, not_finite, by_rules, possible; };

/* Decides it, of an emulation that was searched for; a fault that is not earned leaves an emulation that does not identify the structure,
 * which is then grown by roundings alone. x->emulation stays refreshed. E_MEMORY is the only error. */
bool earned_names(struct earned *n, struct xray *x, const struct rules_say *rules, struct error *e);

/* The rules hold, errors scatter as few numbers would, and what is left is not float32's noise: then any of many plans explains as much by
 * chance, and nothing is named. */
bool earned_by_chance(const struct xray *x, const struct rules_say *rules);

/* Is the kernel not finite just where the plan is, in float32, or where one fault alone is in the contract's first structure? Then x->emulation and
 * *faults become that one. E_MEMORY is the only error. */
bool overflows_as(struct xray *x, const struct contract *k, const struct plan *with, uint64_t *faults, bool *yes);

/* Would something infinite be left without fault m? Then the kernel overflows as with it. */
bool overflows_with(struct xray *x, int m, bool *yes);

/* The plan without these faults. */
struct plan plan_less(const struct plan *p, uint64_t faults);

/* Is a coefficient 1? */
bool is_one(double c, double error);

/* *told: the faults that the emulation makes and that are told; a coefficient's error may be at
 * most `most`. */
bool faults_told(struct xray *x, double most, bool identified, struct earned *told);

/* *yes stays true where no coefficient gainsays one of these faults that the emulation makes. */
bool faults_ungainsaid(struct xray *x, uint64_t faults, bool *yes);

/* Is a fault's coefficient, where it is known, 1? `without`: of what the emulation leaves, by
 * the direction that takes the fault out. */
bool may_be_one(const struct coefficient *without);

/* Of an identified structure and broken rules: n->by_rules, the faults that the rules ask for
 * beside those that are told, n->faults. Where the emulation makes none it may be one that the
 * search has not taken, as too few elements tell it; then x->emulation makes it, or it is
 * n->possible. */
bool faults_needed(struct xray *x, const struct rules_say *rules, struct earned *n,
	struct error *e);

/* By fault: one that is made, in whose place it gives the same answer; or another that explains
 * as well. */
struct rivals { const char *same[MAX_FAULT], *as_well[MAX_FAULT]; };

/* Of the faults `possible` that are not made. x->d is lost; E_MEMORY is the only error of both. */
bool rivals_find(struct xray *x, uint64_t possible, struct rivals *r);

/* Of faults that give the same answer, or explain as well, the commonest is named, which is the
 * first in the op's file: x->emulation makes it. */
bool rivals_commonest(struct xray *x, struct earned *names);

#endif
