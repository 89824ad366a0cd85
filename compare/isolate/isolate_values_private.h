/* Shared by isolate_values.c and isolate_name.c. */
#ifndef ETALON_ISOLATE_VALUES_PRIVATE_H
#define ETALON_ISOLATE_VALUES_PRIVATE_H

#include "compare/truth/expected.h"
#include "isolate_values.h"

/* Noisy runs behind sigma: enough to see the size of an error, few enough to play hundreds of steps. */
enum { NOISY_RUNS = 6 };
enum { OUT_Y };                         /* of mixed_batch: see ref/ops/mixed_batch.op */

/* What a kernel that is right, or that has a fault, answers, and within what. */
struct hypothesis { struct answer a; struct expected expected; };

struct measured {
	struct call call;
	const struct contract *contract;
	struct hypothesis truth;
	struct answer second;
	double limit;                   /* of an error of y, in sigma */
	size_t tokens, n;               /* n elements of y a token */
	int32_t *row, *step;            /* [tokens], [rows] */
	bool *padding, *written;        /* [rows], [slots] */
};

/* What the capture says of itself; the truth is still to be found. Freed also when false. */
bool measure(struct measured *m, const struct capture *c, struct error *e);
void measured_free(struct measured *m);

/* How a kernel of the contract that has the fault, if >= 0, computes. */
struct plan measured_kernel(const struct measured *m, int fault);
void hypothesis_free(struct hypothesis *h);

/* Element i of an output as the capture has it. */
double got_at(const struct call *call, int out, size_t i);

/* Its error in sigma; an element that must be exact and is not has an infinite one. */
double error_at(const struct measured *m, const struct hypothesis *h, int out, size_t i);

#endif
