/* The command line: what all commands share. A command returns its exit code; bad usage exits
 * with EXIT_INPUT inside cli_parse. Results go to stdout, all else to stderr. */
#ifndef ETALON_CLI_H
#define ETALON_CLI_H

#include <argp.h>
#include <jansson.h>

#include "fixtures/error.h"
#include "fixtures/tensor.h"

int cmd_check(int argc, char **argv);
int cmd_gate(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_inputs(int argc, char **argv);
int cmd_ref(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_invent(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_isolate(int argc, char **argv);
int cmd_eigen(int argc, char **argv);
int cmd_restarts(int argc, char **argv);

/* argp_parse; argv[0] is "etalon COMMAND". On bad usage one line and exit(EXIT_INPUT). */
void cli_parse(const struct argp *a, int argc, char **argv, void *input);

/* A positive number option ("--top 5"); anything else is bad usage. `least` may be 0. */
uint64_t cli_number(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most);

/* "etalon: ERROR" on stderr; returns error_exit(e). */
int cli_fail(const struct error *e);

/* Prints j and a newline on stdout and releases it. NULL is E_MEMORY. Returns an exit code. */
int cli_json(json_t *j);

/* A finite number, or the strings "NaN", "inf", "-inf", which JSON has no numbers for. */
json_t *cli_json_number(double x);
json_t *cli_json_shape(const struct tensor *t);

/* "stage done/total" on stderr, where that is a terminal; clears the line at the end. */
void cli_stage(const char *stage, size_t done, size_t total);
void cli_tick(size_t done, size_t total);
/* The same of a long task by the share that is done, with the time that it has taken and will: 0 begins, 1 ends. Where stderr is
 * no terminal, a line each, if `lines`. */
void cli_pace(const char *now, double share, bool lines);

/* A table on stdout: cells are copied and columns padded to their widest; columns whose heading
 * begins with '>' are set flush right. */
struct table { size_t columns, n; const char *const *heading; char **cell; bool no_memory; };
void table_add(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int table_print(struct table *t);       /* and frees it; returns an exit code */

#endif
