#include "cli_op.h"

#include <stdlib.h>

#include "compare/print/print.h"
#include "ref/formula/formula.h"

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct error e;

	struct op_files *files = state->input;

	if (key != 'O') return ARGP_ERR_UNKNOWN;
	const struct formula *f = formula_read(text, &e);
	if (!f || !(op_add(formula_op(f)) || error_set(&e, E_MEMORY, text, NO_OFFSET, "an op"))) exit(print_failure(&e));
	if (files && files->n == MAX_OP_FILES)
		argp_error(state, "--op: at most %d files", MAX_OP_FILES);
	if (files) files->path[files->n++] = text;
	return 0;
}

static const struct argp_option options[] = { { "op", 'O', "FILE", 0, "an op of your own, as a formula", 1 }, { 0 } };
const struct argp cli_op_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };
const struct argp_child cli_op[] = { { &cli_op_argp, 0, NULL, 0 }, { NULL, 0, NULL, 0 } };
