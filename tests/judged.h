/* Verdicts on captures in memory, and what they hold of recorded iterations. */
#ifndef ETALON_TEST_JUDGED_H
#define ETALON_TEST_JUDGED_H

#include <string.h>

#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"

static inline struct verdict judged(const struct capture *c, const char *contract, bool quick)
{
	const struct judging how = { .contract = contract, .quick = quick };
	struct verdict v;
	struct error e;

	no_error(judge(c, &how, &v, &e), &e);
	return v;
}

static inline const struct trace_entries *trace_of(const struct verdict *v, const char *name)
{
	for (int i = 0; i < v->n_trace; i++)
		if (!strcmp(v->op->out[v->trace[i].out].name, name)) return &v->trace[i];
	fail_msg("no trace %s", name);
	return NULL;
}

#endif
