/* --op FILE, wherever an op is taken: one's own, as a formula (docs/formula.md). */
#ifndef ETALON_CLI_OP_H
#define ETALON_CLI_OP_H

#include <argp.h>

/* Children of a command's argp: reads the file and adds its op; a file that is not sound ends the program with its error. */
extern const struct argp cli_op_argp;
extern const struct argp_child cli_op[];        /* it alone */

#endif
