/* Inside the library. */
#ifndef ETALON_API_H
#define ETALON_API_H

#include "etalon.h"
#include "fixtures/cases/capture.h"

/* Its tensors are its own. first: the first error, which stays until etalon_call_error reads it. */
struct etalon_call { struct capture capture; bool failed; struct error first; };

/* The error as callers get it; to may be NULL. Returns false. */
bool api_error(struct etalon_error *to, const struct error *e);
/* The same of a call that had none, which keeps it. */
bool api_call_error(etalon_call *call, struct etalon_error *to, const struct error *e);
/* Has the call an error already? Then that is the one that callers get. */
bool api_has_failed(const etalon_call *call, struct etalon_error *to);
/* Is it NULL? Then *e says that `what` is. */
bool api_is_null(const void *argument, const char *what, struct error *e);
/* Runs work(with) as fixtures/io/surroundings.h says; false with *e where there is no memory for a thread. */
bool api_run(void (*work)(void *), void *with, struct error *e);

#endif
