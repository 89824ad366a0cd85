/* A model's own logits as sources: the reference, its emulation under a contract, and noisy runs of it. */
#ifndef ETALON_LOGITS_MODEL_H
#define ETALON_LOGITS_MODEL_H

#include "logits.h"
#include "ref/model/model.h"

struct model_reading;

/* One run of the model: `source` makes rows of its logits from the last hidden state, which it keeps. */
struct model_answer {
	struct logit_source source;     /* first: rows are asked for by its address */
	const struct model *model;
	struct model_plan plan;
	struct values hidden;           /* behind the final norm, of all tokens */
	struct values block;            /* the rows made last */
	size_t skip;                    /* tokens before the first row */
};

struct model_reference {
	struct model_answer truth, emulation, noise[MAX_NOISE];
	size_t n_noise;
	bool has_emulation;               /* the contract rounds somewhere */
};

/* Runs the model on ids [n]: in `truth`; with the contract's roundings; and `runs` times in noisy arithmetic with them in
 * random directions. The sources are of the last `positions` tokens, at least 1 and at most n. Unknown contracts are
 * refused. On failure *r is zero; freed with model_reference_free. */
struct model_question {
	const struct model *model;
	const size_t *ids;
	size_t n, positions, runs;
	const struct arith *truth;
	int bits;
	const char *contract;
	const struct arith *sums[MODEL_PARTS];          /* of the emulation's parts; NULL: truth */
	/* The last hidden state of all tokens in f64, exact and of the contract's emulation, where it is known: taken over in place of
	 * a run, if truth is f64. May be NULL or empty. */
	struct values *exact, *emulation;
	const struct watch *watch;              /* compare/layers/model_reading.h's; may be NULL */
	bool probe;                             /* compare/layers/model_reading.h's */
};
bool model_reference_make(struct model_reference *r, const struct model_question *q, struct error *e);
void model_reference_free(struct model_reference *r);

/* How good the truth is: the same logits in another arithmetic, dd, or f64 where the truth is wider, of as many first tokens
 * as take 2^34 multiply-adds, at least 1. */
struct truth_error {
	const struct arith *by;
	size_t tokens;
	double rms;                     /* of the token where it is largest; NaN where only one of the two is a number */
};
bool model_truth_error(const struct model_question *q, struct truth_error *t, struct error *e);

/* One run by a plan, under the name given (which must outlive it). */
bool model_answer_make(struct model_answer *a, const struct model_question *q, const struct model_plan *p, const char *name,
	struct error *e);
void model_answer_free(struct model_answer *a);

#endif
