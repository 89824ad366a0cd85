/* What a verdict says of a suspect, which it must have. */
#ifndef ETALON_TEST_STATE_OF_H
#define ETALON_TEST_STATE_OF_H

#include <string.h>

#include "compare/verdict/verdict.h"
#include "tests/helpers.h"

static inline enum suspect_state state_of(const struct verdict *v, const char *name)
{
	for (int i = 0; i < v->x.n; i++)
		if (!strcmp(v->x.suspect[i].name, name)) return v->x.suspect[i].state;
	fail_msg("no suspect %s", name);
	return NOT_IDENTIFIABLE;
}

#endif
