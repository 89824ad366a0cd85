/* NAME.backward: the gradients of a formula's inputs from those of its outputs, by reverse-mode differentiation (docs/formula.md). */
#ifndef ETALON_GRAD_H
#define ETALON_GRAD_H

#include "ref/call/op.h"

/* Is there no NAME.backward of op? Then *why says what is in its way. */
enum { GRAD_SAID = 128 };
bool grad_lacks(const struct op *op, char *why, size_t size);
/* The op NAME.backward of op; NULL where it lacks one, or memory is short. It reads op's formula as long as it is there. */
const struct op *grad_make(const struct op *op);
const struct op *grad_of(const struct op *op);  /* the op whose derivative this is, or NULL */
void grad_end(const struct op *backward);       /* may be NULL */

#endif
