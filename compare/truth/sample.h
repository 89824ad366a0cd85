/* MPFR as the judge of a truth in double-double, on a sample: whole pieces of the call, each computed twice. */
#ifndef ETALON_SAMPLE_H
#define ETALON_SAMPLE_H

#include <pthread.h>

#include "expected.h"

/* The answers of every stride-th piece in dd and in the judge's arithmetic, 0 elsewhere. stride 0: there is none. Where a single
 * piece is too much work, elements of its operations were judged instead; else `judged` is 0, as it is where the truth is not dd. */
struct truth_sample {
	struct answer dd, judge;
	size_t stride;
	struct judged judged;
	struct stream dd_stream, judge_stream;
	struct { const struct call *call; bool goes_on, ok; pthread_t thread; struct error e; } aside;  /* see sample_wait */
};

extern const char *const sample_judge;          /* "mpfr:128" */

/* As many pieces as make some 2^20 element operations of the call's `work`, and one if it makes up to 2^25: a
 * second. Of larger pieces, one, and of its operations elements of some 2^21 terms in all. Of a call of n strips, room[i] elements
 * of output i in each at most; then strip by strip. The caller frees with sample_free, also when false. The only error is E_MEMORY. */
bool sample_begin(struct truth_sample *s, const struct call *call, uint64_t work, const size_t room[MAX_OUT], size_t n, struct error *e);
bool sample_refresh(struct truth_sample *s, const struct call *call, size_t strip, size_t n, struct error *e);
/* A single piece in MPFR takes one thread a while, beside which the others go on: s, which is not to be moved, is complete after this. */
bool sample_wait(struct truth_sample *s, struct error *e);
void sample_free(struct truth_sample *s);

/* Output i: elements sampled (those that are not 0 in both); the largest distance as a share of the largest value of
 * its row, and in sigma, infinite where one is no number or where an element without sigma is stored otherwise. Begins as { 0 }; each
 * strip's `count` elements are put together with those before. */
struct sample_figures { size_t count; double share, sigma; };
void sample_add(struct sample_figures *f, const struct truth_sample *s, const struct call *call, int i, size_t count, const struct expected *x);

/* The same of operations that were judged: what they were apart, times what f64's errors, 2^-53 of an operation each, have come
 * to in sigma. */
struct sample_figures sample_operations(const struct truth_sample *s, double truth_error);

#endif
