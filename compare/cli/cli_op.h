/* --op FILE, wherever an op is taken: one's own, as a formula (docs/formula.md). */
#ifndef ETALON_CLI_OP_H
#define ETALON_CLI_OP_H

#include <argp.h>
#include <stddef.h>

/* The paths that were given, for a command that asks for them: the input of cli_op_argp, or NULL. */
enum { MAX_OP_FILES = 64 };
struct op_files { size_t n; const char *path[MAX_OP_FILES]; };

/* Children of a command's argp: reads the file and adds its op; a file that is not sound ends the program with its error. */
extern const struct argp cli_op_argp;
extern const struct argp_child cli_op[];        /* it alone */

#endif
