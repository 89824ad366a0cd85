/* Newton-Schulz iterations, for newton_schulz and muon_step. */
#ifndef ETALON_STRANGERS_SCHULZ_H
#define ETALON_STRANGERS_SCHULZ_H

#include "strangers.h"

enum schulz_fault {
	B_AND_C_SWAPPED = 1, COEFFICIENTS_EARLY, NOT_TURNED_BACK, NO_OWN_TERM_ONCE, NORM_SQUARED, ELEMENTWISE_SQUARE, STALE_ROWS,
	NORM_OF_FIRST, ONE_TOO_FEW,
	SCHULZ_FAULTS
};

enum algorithm { STANDARD, GRAM_NAIVE, GRAM };
struct schulz {
	const struct iteration_options *o;
	int fault;
	enum algorithm algorithm;
	size_t K;
	float abc[16][3], eps;
	uint64_t restarts;
};
struct schulz schulz_of(const struct capture *c, const struct iteration_options *o, int fault);

float schulz_norm(const struct schulz *z, const float *X, size_t s, size_t l);
/* X [s,l], s <= l, becomes its orthogonalisation; norm: schulz_norm's of X. */
void schulz_run(const struct schulz *z, float *X, size_t s, size_t l, float norm);

/* Parameters of a case, without the brackets; the freedoms; a structure in words. */
enum schulz_want { ANY_LIST, VARIED_LIST, MILD_LIST, MILD_STANDARD };    /* mild: bounded whatever is done to it */
void schulz_params(char *text, size_t size, struct dice *d, const struct iteration_options *o, enum schulz_want want);
void schulz_draw(struct iteration_options *o, struct dice *d, enum number iterate);
void schulz_say(const struct iteration_options *o, char *text, size_t size);

#endif
