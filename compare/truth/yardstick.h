/* What the outputs of a call are measured by: the truth, and the expected error under each contract.
 * Neither depends on the outputs' values, so one yardstick serves all captures that have the same inputs,
 * parameters and output types. */
#ifndef ETALON_YARDSTICK_H
#define ETALON_YARDSTICK_H

#include "sample.h"

/* The second opinion is the same in another arithmetic. A truth in dd is judged by MPFR on a sample. work: element operations of a
 * run of all strips. */
struct truth {
	struct answer first, second;
	struct stream first_stream, second_stream;
	struct truth_sample sample;
	char name[32], other[32];
	int rung;
	uint64_t work;
};

struct yardstick {
	size_t strips, at, room[MAX_OUT];               /* of the call; the one that is held; elements of the largest */
	struct truth truth;                             /* of the strip that is held */
	bool whole;                                     /* its second opinion and its sample too */
	struct expected (*expected)[2];                 /* of each contract, of few runs, and of all; made when first asked for: runs is 0 before */
	size_t contracts;
	double *const *read;                            /* see yardstick_read */
	struct plan model;                              /* its form and faults are the truth's and the noisy runs' */
	void (*tick)(const char *stage, size_t done, size_t total);
};

/* What a yardstick is made of: the arithmetic of the truth (NULL: dd where the work allows, else f64); a plan whose form and faults it
 * has (NULL: the reference as it is). */
struct yardstick_of { const char *truth; const struct plan *model; };

/* Freed with yardstick_free, also when false. */
bool yardstick_make(struct yardstick *y, const struct call *call, const struct yardstick_of *of,
	void (*tick)(const char *, size_t, size_t), struct error *e);
void yardstick_free(struct yardstick *y);

/* Holds strip s of the call: the truth, and unless it is wanted alone what else tells of it. */
bool yardstick_refresh(struct yardstick *y, const struct call *call, size_t s, bool truth_alone, struct error *e);

/* The expected error of the strip held under the contract, which is the call's op's, from all noisy runs that the work allows or from
 * few; NULL: out of memory. To be asked for on each strip in order; what it says of all holds on the last. */
const struct expected *yardstick_under(struct yardstick *y, const struct call *call, const struct contract *k, bool all, struct error *e);

/* That, those outputs widened (expected.h). False: out of memory. */
bool yardstick_widen(struct yardstick *y, const struct call *call, const struct contract *k, bool all, unsigned outputs, struct error *e);

/* From now on the expected error counts these answers, [MAX_OUT] of the whole call, as those of a correct kernel; NULL: none. They stay the caller's. */
void yardstick_read(struct yardstick *y, double *const *read);

/* Noisy runs behind it. */
int yardstick_runs(const struct yardstick *y, bool all);

/* A more exact truth, where the work allows; *climbed says whether. */
bool yardstick_climb(struct yardstick *y, bool *climbed, struct error *e);

#endif
