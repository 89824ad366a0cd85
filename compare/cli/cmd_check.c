/* etalon check: a verdict on each capture. */
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "cli_op.h"
#include "find.h"
#include "compare/report/report.h"

struct arguments { struct judging how; char **path; size_t n; bool json, explain; };

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	(void)text;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[1] = &a->how; return 0;
	case 'j': a->json = true; return 0;
	case 'e': a->explain = true; return 0;
	case ARGP_KEY_ARGS:
		a->path = state->argv + state->next;
		a->n = (size_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS: argp_error(state, "expected CAPTURE..."); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_check(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "explain", 'e', NULL, 0, "also the table of all suspects", 0 },
		{ "json", 'j', NULL, 0, "a JSON array on stdout", 0 }, { 0 }
	};
	static const struct argp_child children[] = { { &cli_op_argp, 0, NULL, 0 }, { &find_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options, parse, "CAPTURE...", "A verdict on each capture: pass, fail or undecided, and why.", children, NULL, NULL };
	struct arguments a = { .how.tick = cli_stage };
	int status = EXIT_PASS;

	cli_parse(&argp, argc, argv, &a);
	json_t *all = a.json ? json_array() : NULL;
	for (size_t i = 0; i < a.n; i++) {
		struct finding f;
		status = worse_exit(status, find(a.path[i], &a.how, &f));
		if (!f.judged) print_failure(&f.error);
		if (a.json) json_array_append_new(all, report_json(&f));
		else if (f.judged) {
			if (i) putchar('\n');
			report_text(stdout, &f, a.explain);
		}
	}
	if (a.json && json_print(all) != EXIT_PASS) return EXIT_MACHINE;
	return status;
}
