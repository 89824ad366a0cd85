/* What gate and merge leave: a table or JSON on stdout, and files. */
#ifndef ETALON_GATE_OUTPUT_H
#define ETALON_GATE_OUTPUT_H

#include <argp.h>

#include "compare/report/report.h"

/* Paths, NULL for none; json: instead of the table; warn: an undecided capture is no failure. */
struct gate_output { const char *junit, *markdown, *file; bool json, warn; };

/* Of the captures' records and, or NULL, the shard that they are, both of which it releases. Returns the exit code: status, or a
 * worse one where something could not be written. */
int gate_output(json_t *captures, json_t *shard, int status, const struct gate_output *to);

/* As a command says: its input is a struct gate_output. */
extern const struct argp gate_output_argp;

#endif
