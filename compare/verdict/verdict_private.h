/* Shared by verdict*.c. */
#ifndef ETALON_VERDICT_PRIVATE_H
#define ETALON_VERDICT_PRIVATE_H

#include "verdict.h"

/* A failure outranks what is undecided; reasons beyond MAX_REASON are not told. */
void reason(struct verdict *v, enum outcome o, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* *v: the rules under contract k, with as exact a truth as y has. */
bool judge_under(const struct call *call, const struct contract *k, struct yardstick *y, struct verdict *v, struct error *e);

/* Is what was read, so far as it goes, a correct kernel of the contract? */
bool may_be_correct(const struct call *call, const struct contract *k, const struct examination *x);

/* The tightest of contracts first .. last whose rules hold, else the one that comes nearest. With x, those of the form
 * that was seen go first, and those that do not allow what was seen rounded are left out, so long as one remains. */
bool judge_with(const struct call *call, struct yardstick *y, int first, int last, const struct examination *x,
	struct verdict *v, struct error *e);

#endif
