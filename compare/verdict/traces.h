/* Recorded iterations, one by one. The reference of an anchored call starts each iteration from the kernel's own
 * matrices of the one before, so that its error is that iteration's alone; free-running, errors of earlier ones are
 * carried on and amplified. */
#ifndef ETALON_TRACES_H
#define ETALON_TRACES_H

#include "compare/truth/expected.h"

enum { MAX_ENTRY = MAX_LIST / 3 + 1 };

struct trace_entries {
	int out;
	size_t n;                       /* entries: iterations + 1, entry 0 being the start */
	struct {
		double sigma;           /* rms of the anchored error, in sigma; 0 where none has a sigma */
		double anchored, free;  /* rms error against either reference */
	} entry[MAX_ENTRY];
	double limit;                   /* of sigma */
};

/* The first of the call's traces whose type does not hold every number that the contract iterates on, or -1: what such a
 * record lacks would be held against the iteration that is judged from it. */
int trace_too_narrow(const struct call *call, const struct contract *k);

/* The figures of output i, a trace of an anchored call. unanchored: the free-running answer; limit: what the rms of a whole
 * output of x's freedom may be with this number of entries. */
void trace_figures(struct trace_entries *t, const struct call *call, int i, const struct answer *anchored, const struct answer *unanchored,
	const struct expected *x);

/* The free-running answer of an anchored call, in f64. */
bool trace_free_running(const struct call *call, struct answer *a, struct error *e);

#endif
