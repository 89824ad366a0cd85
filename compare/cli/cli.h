/* The command line: what all commands share. A command returns its exit code; bad usage exits
 * with EXIT_INPUT inside cli_parse. Results go to stdout, all else to stderr. */
#ifndef ETALON_CLI_H
#define ETALON_CLI_H

#include <argp.h>
#include <time.h>

#include "compare/print/print.h"

int cmd_check(int argc, char **argv);
int cmd_gate(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_inputs(int argc, char **argv);
int cmd_ref(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_invent(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_isolate(int argc, char **argv);
int cmd_eigen(int argc, char **argv);
int cmd_restarts(int argc, char **argv);

struct watch;

/* argp_parse; argv[0] is "etalon COMMAND". On bad usage one line and exit(EXIT_INPUT). */
void cli_parse(const struct argp *a, int argc, char **argv, void *input);

/* A positive number option ("--top 5"); anything else is bad usage. `least` may be 0. */
uint64_t cli_number(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most);

/* "stage done/total" on stderr, where that is a terminal; clears the line at the end. */
void cli_stage(const char *stage, size_t done, size_t total);
/* The same of a long task by the share that is done, with the time that it has taken since *start and will: 0 begins, 1 ends. Where stderr is
 * no terminal, a line each, if `lines`. */
void cli_pace(struct timespec *start, const char *now, double share, bool lines);
extern const struct watch cli_watch;    /* cli_stage */

#endif
