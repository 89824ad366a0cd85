/* Verdicts for people and for programs. */
#ifndef ETALON_REPORT_H
#define ETALON_REPORT_H

#include "verdict.h"

/* What became of one file: a verdict, or the error that prevented it. */
struct finding {
	char path[4096];                /* texts of files are shown as UTF-8 without control characters */
	bool judged;
	struct error error;             /* where not judged */
	struct verdict verdict;         /* where judged */
	char op[64], producer[128], device[64];         /* "" when the file could not be read */
};

/* Reads and judges the capture at path; a capture of ours whose kernel has changed since is stale, and
 * fails. Returns the exit code that it deserves. */
int find(const char *path, const struct judging *how, struct finding *f);
int finding_exit(const struct finding *f);

/* Of two exit codes the one that a whole should have: machine, then input, fail, undecided, pass. */
int worse_exit(int a, int b);

/* "pass", "fail", "undecided" or "error". */
/* A text of a capture, or its name, is a stranger's: what may not be shown becomes a question mark. At most size - 1 bytes. */
void copy_clean(char *to, size_t size, const char *from);

const char *finding_word(const struct finding *f);

/* The largest error of a rule over the outputs, in sigma. */
double finding_value(const struct finding *f, int rule);

/* Writes the command that repeats the verdict, for a shell. */
void replay(FILE *to, const struct finding *f);

/* All that is known about one capture, for `etalon check`; explain adds the table of suspects. */
void report_text(FILE *to, const struct finding *f, bool explain);

/* Of a verdict's x-ray: the replica and what was ruled out; all suspects; the same in JSON. Nothing where
 * it was not made. */
void report_power(FILE *to, const struct verdict *v);
void report_suspects(FILE *to, const struct verdict *v);
json_t *report_xray_json(const struct verdict *v);

/* Of a verdict on recorded iterations: a table for each trace; the same in JSON. */
void report_traces(FILE *to, const struct verdict *v);
json_t *report_traces_json(const struct verdict *v);

/* One line each, aligned, and the reasons of those that did not pass, for `etalon gate`. */
void report_table(FILE *to, const struct finding *f, size_t n);
void report_markdown(FILE *to, const struct finding *f, size_t n);
void report_junit(FILE *to, const struct finding *f, size_t n);

/* A new reference; NULL when memory is short. Numbers that are not finite become null. */
json_t *report_json(const struct finding *f);

/* A real, or null where x is not finite. A new reference. */
json_t *report_number(double x);

#endif
