/* Inside the library. */
#ifndef ETALON_API_H
#define ETALON_API_H

#include "etalon.h"
#include "fixtures/cases/capture.h"

struct etalon_call { struct capture capture; };         /* whose tensors are its own */

/* The error as callers get it; to may be NULL. Returns false. */
bool api_error(struct etalon_error *to, const struct error *e);

#endif
