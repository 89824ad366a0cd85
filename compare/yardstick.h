/* What the outputs of a call are measured by: the truth, and the expected error under each contract.
 * Neither depends on the outputs' values, so one yardstick serves all captures that have the same inputs,
 * parameters and output types. */
#ifndef ETALON_YARDSTICK_H
#define ETALON_YARDSTICK_H

#include "sample.h"

/* The second opinion is the same in another arithmetic. A truth in dd is judged by MPFR on a sample. */
struct truth { struct answer first, second; struct truth_sample sample; char name[32], other[32]; int rung; };

enum { MAX_CONTRACT = 8 };
struct yardstick {
	struct truth truth;
	struct expected expected[MAX_CONTRACT];         /* made when first asked for: runs is 0 before */
	void (*tick)(const char *stage, size_t done, size_t total);
};

/* Makes the truth in the named arithmetic (NULL: dd where the work allows, else f64). Freed with
 * yardstick_free, also when false. */
bool yardstick_make(struct yardstick *y, const struct call *call, const char *truth,
	void (*tick)(const char *, size_t, size_t), struct error *e);
void yardstick_free(struct yardstick *y);

/* The expected error under the contract, which is the call's op's; NULL: out of memory. */
const struct expected *yardstick_under(struct yardstick *y, const struct call *call, const struct contract *k, struct error *e);

/* Noisy runs behind it. */
int yardstick_runs(const struct yardstick *y);

/* A more exact truth, where the work allows; *climbed says whether. */
bool yardstick_climb(struct yardstick *y, const struct call *call, bool *climbed, struct error *e);

#endif
