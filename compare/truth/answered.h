/* The reference's answer as the capture of a kernel that gives it. */
#ifndef ETALON_ANSWERED_H
#define ETALON_ANSWERED_H

#include "expected.h"

/* *t, which is empty: the call's inputs and metadata, `by` as producer, and as outputs the answer, rounded once to each output's type
 * (out_dtype). Its data are its own. false: memory is short. */
bool answered(struct tensors *t, const struct call *call, const struct answer *answer, const char *by);

#endif
