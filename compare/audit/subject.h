/* One call that a test looks at: its inputs, the reference's outputs as the test has them, and kernels that answer it. */
#ifndef ETALON_SUBJECT_H
#define ETALON_SUBJECT_H

#include "compare/verdict/verdict.h"

/* The reference of a test: the formula's first form in this arithmetic, as stored in the outputs' types or, wide, as computed. */
struct reference { const struct arith *arith; int bits; bool wide; };

struct subject {
	struct capture capture;
	struct call call;
	struct answer want;
	struct yardstick yardstick;
	bool made, has_yardstick;
};

/* Takes c over, whether it succeeds or not. Freed with subject_free, also when false. */
bool subject_make(struct subject *s, struct capture *c, const struct reference *r, struct error *e);
void subject_free(struct subject *s);

/* The outputs of the kernel that the plan is, as stored; freed with answer_free. false: memory is short. */
bool subject_answer(const struct subject *s, const struct plan *kernel, struct answer *got, struct error *e);

/* What `etalon check` says of these outputs under the contract: by the contract's rules alone, and where these hold by all that it does. */
bool subject_judge(struct subject *s, struct answer *got, const struct contract *k, bool rules_alone, enum outcome *outcome, struct error *e);

/* The model kernel of contract k, to nearest in float32 with its first structure's roundings, and fault m at this value (-1: none): where
 * the fault is another form's, that form in plain float32; *under: the contract that such a kernel is held to. */
struct plan faulty_kernel(const struct op *op, const struct contract *k, int m, double value, const struct contract **under);

/* Root mean square of a - b over that of b, the largest of all outputs; infinite where one is not finite alone, 0 where all is equal. */
double answers_apart(const struct call *call, const struct answer *a, const struct answer *b);

#endif
