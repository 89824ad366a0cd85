/* Outputs that tell what they are at sight: all zeros, one number, no numbers, or an input
 * again. Nothing need be searched for there, and whatever fault or rounding makes zeros would
 * explain them. */
#ifndef ETALON_PLAIN_OUTPUTS_H
#define ETALON_PLAIN_OUTPUTS_H

#include "ref/call/op.h"

/* NAN_OF_ZERO_ROWS: not a number just where an input's row is all zeros; it is said, and the
 * search goes on. */
enum sight { NOT_PLAIN, ALL_ZERO, ALL_EQUAL, ALL_NAN, NO_NUMBER, AS_INPUT, NAN_OF_ZERO_ROWS };
struct plain_output { enum sight is; int input; double value; };
struct plain_outputs {
	struct plain_output of[MAX_OUT];
	bool any, ends;                 /* ends: no search can tell more of this call */
};

/* Looks at the outputs of a call that does not pass. What the exact answer is, too, does not
 * count. The search may go on only where one fault alone, in a known structure of the contract,
 * makes each plain output so, and some output is not plain. E_MEMORY is the only error. */
bool plain_outputs_find(struct plain_outputs *p, const struct call *call, const struct contract *k,
	struct error *e);

/* "out.o is all zeros". */
const char *plain_output_said(const struct plain_outputs *p, const struct call *call, int out,
	char *text, size_t size);

#endif
