/* etalon inputs: the inputs of a case as a capture, for somebody's kernel to answer; or a capture with
 * the inputs that it leaves out. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cli_op.h"
#include "fixtures/cases/cases.h"
#include "ref/call/op.h"

/* what: an op, or without --case a capture. */
struct arguments { const char *what, *case_name, *out; uint64_t seed; bool seeded, json; };

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'c': a->case_name = text; return 0;
	case 's':
		a->seed = cli_number(state, "--seed", text, 0, UINT64_MAX);
		a->seeded = true;
		return 0;
	case 'o': a->out = text; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->what) return ARGP_ERR_UNKNOWN;
		a->what = text;
		return 0;
	case ARGP_KEY_END:
		if (!a->what && op_added(0)) a->what = op_added(0)->name;
		if (!a->what || !a->out || (!a->case_name && (a->seeded || op_find(a->what))))
			argp_error(state, "expected OP or --op FILE, --case NAME and -o FILE, or CAPTURE and -o FILE");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Does the case keep what its op expects of a call? */
static bool is_sound(const struct capture *c, const struct test_case *k, struct error *e)
{
	struct call call;

	return call_bind(&call, c, false, e) || (k->at && error_in_file(e, k->at));
}

static bool make(struct capture *c, const struct arguments *a, struct error *e)
{
	if (!a->case_name)
		return capture_read(c, a->what, e) && tensors_write(&c->tensors, a->out, e);
	const struct op *op = op_find(a->what);
	const struct test_case *k = op ? op_case(op, a->case_name) : NULL;
	if (!op)
		return op_unknown(a->what, e);
	if (!k)
		return op_lacks(e, op, "cases", a->case_name);
	return case_make(c, k, a->seed, false, e) && is_sound(c, k, e) && tensors_write(&c->tensors, a->out, e);
}

static int report(const struct capture *c, const struct arguments *a)
{
	char text[128];
	json_t *inputs = json_array(), *outputs = json_array();
	const char *seed = meta_get(&c->tensors, "etalon.seed");

	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct tensor *t = &c->tensors.item[i];
		if (a->json)
			json_array_append_new(strncmp(t->name, "out.", 4) ? inputs : outputs, json_pack("{s:s,s:s,s:o}", "name", t->name, "dtype",
				dtype_info[t->dtype].name, "shape", json_shape(t)));
		else
			printf("%s  %s %s %s\n", i ? "" : a->out, t->name, dtype_info[t->dtype].name, shape_text(t, text, sizeof text));
	}
	if (a->json)
		return json_print(json_pack("{s:s,s:s,s:s?,s:o,s:o,s:o}", "file", a->out, "op", c->op, "case", c->case_name, "seed",
			seed ? json_integer((json_int_t)strtoull(seed, NULL, 10)) : json_null(), "inputs", inputs, "outputs", outputs));
	json_decref(inputs);
	json_decref(outputs);
	return EXIT_PASS;
}

int cmd_inputs(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "case", 'c', "NAME", 0, "see `etalon list cases OP`, or --op FILE in place of OP", 0 },
		{ "seed", 's', "N", 0, "of the random streams (1)", 0 },
		{ "output", 'o', "FILE", 0, "the capture to write", 0 },
		{ "json", 'j', NULL, 0, "say in JSON what was written", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "OP --case NAME -o FILE\n--op FILE --case NAME -o FILE\nCAPTURE -o FILE",
		"The inputs of a case, the same on every machine; or a capture as it is, with the inputs that it leaves out.", cli_op, NULL, NULL };
	struct arguments a = { .seed = 1 };
	struct capture c = { 0 };
	struct error e = { 0 };

	cli_parse(&argp, argc, argv, &a);
	int status = make(&c, &a, &e) ? report(&c, &a) : print_failure(&e);
	capture_free(&c);
	return status;
}
