/* What was found about a trace, for people, programs and plots. */
#ifndef ETALON_EIGEN_REPORT_H
#define ETALON_EIGEN_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "eigen.h"

/* The cause alone, of which g's rows and steps are no part: a line or two, each after `indent`; the same in JSON
 * (a new reference, NULL when memory is short). */
void eigen_cause_print(FILE *to, const char *indent, const struct eigen *g);
json_t *eigen_cause_json(const struct eigen *g);

/* CSV: a row per iteration, matrix and eigenvalue; a row per iteration. What is not finite is nan or inf. */
bool eigen_write_rows(const char *path, const struct eigen *g, struct error *e);
bool eigen_write_summary(const char *path, const struct eigen *g, struct error *e);

/* On stdout; EXIT_FAIL where the answer is not what the iteration gives. name: where the trace
 * is from. */
int eigen_print(const char *name, const struct trace *t, const struct eigen *g);

/* Both tables and the cause. A new reference; NULL when memory is short. */
json_t *eigen_json(const char *name, const struct trace *t, const struct eigen *g);

#endif
