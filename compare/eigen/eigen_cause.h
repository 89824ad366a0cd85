/* The cause of an error of Newton-Schulz, for verdicts. */
#ifndef ETALON_EIGEN_CAUSE_H
#define ETALON_EIGEN_CAUSE_H

#include <jansson.h>
#include <stdio.h>

#include "eigen.h"
#include "fixtures/cases/capture.h"

/* Of the matrix of a batch that leaves the exact curve first, or of matrix 0 where all follow. */
struct eigen_cause {
	bool sought;
	char left_out[512];             /* why it was not found; "" */
	bool recorded;                  /* from the capture's traces, else from an emulation of its input */
	enum format iterate;
	size_t batch, matrices;
	struct eigen found;             /* without rows and steps */
	bool answer_left;               /* the recorded y is off as well, or alone */
};

/* left_out where it is too much work (over a batch, more than one matrix of 512 rows or columns), or a
 * matrix is not there or not finite. tick may be NULL. */
void eigen_cause_of(struct eigen_cause *r, const struct capture *c, void (*tick)(const char *stage, size_t done, size_t total));

/* What there is to say about a run that leaves the exact curve; nothing about one that follows it. */
void eigen_cause_report(FILE *to, const struct eigen_cause *r);

/* A new reference; NULL when memory is short. */
json_t *eigen_cause_report_json(const struct eigen_cause *r);

#endif
