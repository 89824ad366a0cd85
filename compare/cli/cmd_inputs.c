/* etalon inputs: the inputs of a case as a capture, for somebody's kernel to answer. */
#include <stdlib.h>

#include "cli.h"
#include "fixtures/cases/cases.h"
#include "ref/call/op.h"

struct arguments { const char *op, *case_name, *out; uint64_t seed; bool json; };

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'c': a->case_name = text; return 0;
	case 's': a->seed = cli_number(state, "--seed", text, 0, UINT64_MAX); return 0;
	case 'o': a->out = text; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->op) return ARGP_ERR_UNKNOWN;
		a->op = text;
		return 0;
	case ARGP_KEY_END:
		if (!a->op || !a->case_name || !a->out) argp_error(state, "expected OP, --case NAME and -o FILE");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static bool make(struct capture *c, const struct arguments *a, struct error *e)
{
	const struct test_case *k = case_find(a->op, a->case_name);

	if (!op_find(a->op))
		return error_set(e, E_OP, a->op, NO_OFFSET, "see `etalon list ops`");
	if (!k)
		return error_set(e, E_UNKNOWN_NAME, a->case_name, NO_OFFSET, "see `etalon list cases %s`", a->op);
	return case_make(c, k, a->seed, false, e) && tensors_write(&c->tensors, a->out, e);
}

static int report(const struct capture *c, const struct arguments *a)
{
	char text[128];
	json_t *inputs = json_array();

	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct tensor *t = &c->tensors.item[i];
		if (a->json)
			json_array_append_new(inputs, json_pack("{s:s,s:s,s:o}", "name", t->name, "dtype",
				dtype_info[t->dtype].name, "shape", json_shape(t)));
		else
			printf("%s  %s %s %s\n", i ? "" : a->out, t->name, dtype_info[t->dtype].name, shape_text(t, text, sizeof text));
	}
	if (a->json)
		return json_print(json_pack("{s:s,s:s,s:s,s:I,s:o}", "file", a->out, "op", a->op, "case", a->case_name,
			"seed", (json_int_t)a->seed, "inputs", inputs));
	json_decref(inputs);
	return EXIT_PASS;
}

int cmd_inputs(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "case", 'c', "NAME", 0, "see `etalon list cases`", 0 },
		{ "seed", 's', "N", 0, "of the random streams (1)", 0 },
		{ "output", 'o', "FILE", 0, "the capture to write", 0 },
		{ "json", 'j', NULL, 0, "say in JSON what was written", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "OP --case NAME -o FILE",
		"The inputs of a case, the same on every machine.", NULL, NULL, NULL };
	struct arguments a = { .seed = 1 };
	struct capture c = { 0 };
	struct error e = { 0 };

	cli_parse(&argp, argc, argv, &a);
	int status = make(&c, &a, &e) ? report(&c, &a) : print_failure(&e);
	capture_free(&c);
	return status;
}
