/* What is inside call_bind. */
#ifndef ETALON_CALL_PRIVATE_H
#define ETALON_CALL_PRIVATE_H

#include <string.h>

#include "op.h"

/* Of "T,Hk,Dk": 3. */
static inline int symbols_in(const char *s)
{
	int n = 1;

	while ((s = strchr(s, ','))) s++, n++;
	return n;
}

/* param and list from the capture's; false with *e filled where one is missing, unknown or of the wrong kind. */
bool call_bind_params(struct call *call, struct error *e);

#endif
