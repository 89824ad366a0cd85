/* Shared by verdict*.c. */
#ifndef ETALON_VERDICT_PRIVATE_H
#define ETALON_VERDICT_PRIVATE_H

#include "verdict.h"

/* A failure outranks what is undecided; reasons beyond MAX_REASON are not told. */
void reason(struct verdict *v, enum outcome o, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* *v: the rules under contract k, with as exact a truth as y has. */
bool judge_under(const struct call *call, const struct contract *k, struct yardstick *y, struct verdict *v, struct error *e);

#endif
