/* Shared by verdict*.c. */
#ifndef ETALON_VERDICT_PRIVATE_H
#define ETALON_VERDICT_PRIVATE_H

#include "plain_outputs.h"
#include "verdict.h"

/* A failure outranks what is undecided; reasons beyond MAX_REASON are not told. */
void reason(struct verdict *v, enum outcome o, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What the x-ray found goes before the figures that it explains; required: an explanation is. What the
 * outputs are at sight goes behind the names and before all else. A pass on inputs that could have
 * shown no suspect becomes undecided. */
void verdict_add_examination(const struct call *call, bool required, struct verdict *v, const struct examination *x);
void verdict_say_plain(const struct call *call, struct verdict *v, const struct plain_outputs *plain);
void verdict_need_coverage(struct verdict *v);

/* *v: the rules under contract k, with as exact a truth as y has. */
bool judge_under(const struct call *call, const struct contract *k, struct yardstick *y, struct verdict *v, struct error *e);

/* Is what was read, so far as it goes, a correct kernel of the contract? */
bool may_be_correct(const struct call *call, const struct contract *k, const struct examination *x);

/* Sets of contracts: bit i is the op's contract i. All of them; those that the types of the call's
 * data call for (contract_called_for), and the op's tightest, which every call is held to; those that
 * allow what was read where no contract that is called for does, and elements tell the rounding. */
uint64_t contracts_all(const struct op *op);
uint64_t contracts_called_for(const struct call *call);
uint64_t contracts_shown(const struct call *call, const struct examination *x, uint64_t called);

/* The tightest of the contracts whose rules hold, else the one that comes nearest. A contract whose
 * roundings imply far larger errors does not hold. With x, those of the form that was seen go first,
 * and those that do not allow what was seen rounded are left out, so long as one remains. */
bool judge_with(const struct call *call, struct yardstick *y, uint64_t tried, const struct examination *x,
	struct verdict *v, struct error *e);

/* Is the error of every output far below what the contract's roundings imply? Then it is another kernel's
 * contract. */
bool verdict_too_loose(const struct verdict *v);

/* *v failed. Would the rules hold under one of these contracts, which nothing calls for? Then *v becomes undecided. */
bool judge_looser(const struct call *call, struct yardstick *y, uint64_t tried, struct verdict *v, struct error *e);

#endif
