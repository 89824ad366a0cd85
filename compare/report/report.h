/* Findings for people and for programs. */
#ifndef ETALON_REPORT_H
#define ETALON_REPORT_H

#include "finding.h"

/* Writes the command that repeats the verdict, for a shell. */
void replay(FILE *to, const struct finding *f);
/* A path as a shell's word, and no option, whatever it begins with. */
void shell_quoted(FILE *to, const char *path);
/* The options by which it is held against its entry in the baseline alone. */
void baseline_options(FILE *to, const char *baseline, const char *name);

/* All that is known about one capture, for `etalon check`; explain adds the table of suspects. */
void report_text(FILE *to, const struct finding *f, bool explain);

/* Of a verdict's x-ray: the emulation and what was ruled out; all suspects; the same in JSON. Nothing where
 * it was not made. */
void report_coverage(FILE *to, const struct verdict *v);
void report_suspects(FILE *to, const struct verdict *v);
json_t *report_xray_json(const struct verdict *v);

/* Of a verdict on recorded iterations: a table for each trace; the same in JSON. */
void report_traces(FILE *to, const struct verdict *v);
json_t *report_traces_json(const struct verdict *v);

/* Of many captures, an array of report_json's: one line each, aligned, and the reasons of those that did not pass; the same as Markdown
 * for a CI job's summary, and as JUnit XML. */
void report_table(FILE *to, const json_t *captures);
void report_markdown(FILE *to, const json_t *captures);
void report_junit(FILE *to, const json_t *captures);

/* A new reference; NULL when memory is short. Numbers that are not finite become null. */
json_t *report_json(const struct finding *f);

/* A real, or null where x is not finite. A new reference. */
json_t *report_number(double x);

#endif
