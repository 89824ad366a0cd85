/* From a file to its finding. */
#ifndef ETALON_FIND_H
#define ETALON_FIND_H

#include <argp.h>

#include "compare/report/finding.h"

/* Reads and judges the capture at path; a capture of ours whose kernel has changed since is stale, and
 * fails. Returns the exit code that it deserves. */
int find(const char *path, const struct judging *how, struct finding *f);

/* How captures are judged, as a command says: its input is a struct judging. */
extern const struct argp find_argp;
/* The options that said so, each with a space before it. */
void find_options(FILE *to, const struct judging *how);

#endif
