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

#endif
