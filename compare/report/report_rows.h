/* What a report of many captures shows of each. Private to the folder. */
#ifndef ETALON_REPORT_ROWS_H
#define ETALON_REPORT_ROWS_H

#include "report.h"

/* Texts are the record's; "" where it has none. */
struct row {
	const char *path, *name, *op, *producer, *contract, *verdict, *replay;
	double worst, rms;              /* over the outputs, in sigma */
	int exit;                       /* EXIT_MACHINE where the record has no exit code */
	bool judged, warning;           /* warning: undecided, which fails nothing here */
	bool figures;                   /* there are outputs */
	const json_t *reasons;
};
struct row row_of(const json_t *captures, size_t i);

/* What tells a capture from the others: its name where no two have the same, else its path; both
 * without ".safetensors". free() it. */
bool names_differ(const json_t *captures);
char *row_title(const struct row *r, bool by_name);

/* The reason that a verdict gives first, or "". */
const char *row_cause(const struct row *r);

void rows_count(const json_t *captures, size_t by_exit[EXIT_MACHINE + 1]);
void rows_totals(FILE *to, const json_t *captures);

/* Reasons and replay, a line each, behind indent. */
void row_reasons(FILE *to, const struct row *r, const char *indent);

/* A figure in the width that a table has. */
enum { FIGURE = 32 };
const char *short_text(double x, int digits, char text[FIGURE]);

/* Writes text with each character of `special` replaced by its string of `by`. */
void escaped(FILE *to, const char *text, const char *special, const char *const *by);

#endif
