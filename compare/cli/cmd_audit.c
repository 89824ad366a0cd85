/* etalon audit: which known faults a test with these inputs and this tolerance would pass. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cli_op.h"
#include "compare/audit/audit.h"
#include "ref/formula/formula.h"

struct arguments {
	const char *inputs, *cases, *contract, *reference, *rows, *rule[MAX_RULES];
	size_t n_rule;
	uint64_t seed;
	bool json, quick, here, wide;
};

/* The test's inputs: a capture, or OP:CASE, of the file of cases first. */
struct inputs { struct capture c; const struct test_case *from; struct case_file *file; };

static const struct test_case *case_named(const struct test_case *k, const char *name)
{
	while (k && k->op && strcmp(k->name, name)) k++;
	return k && k->op ? k : NULL;
}

static bool case_inputs(struct inputs *in, const struct arguments *a, const char *colon, struct error *e)
{
	char name[64];

	snprintf(name, sizeof name, "%.*s", (int)(colon - a->inputs), a->inputs);
	const struct op *op = op_find(name);
	if (!op) return op_unknown(name, e);
	if (in->file && case_file_op(in->file) == op) in->from = case_named(case_file_cases(in->file), colon + 1);
	if (!in->from) in->from = op_case(op, colon + 1);
	if (!in->from) return error_set(e, E_UNKNOWN_NAME, colon + 1, NO_OFFSET, "see `etalon list cases %s`", op->name);
	return case_make(&in->c, in->from, a->seed, true, e);
}

static bool read_inputs(struct inputs *in, const struct arguments *a, struct error *e)
{
	const char *colon = strrchr(a->inputs, ':');

	if (a->cases && !(in->file = case_file_read(a->cases, e))) return false;
	if (op_find(a->inputs)) return error_set(e, E_USAGE, a->inputs, NO_OFFSET, "expected %s:CASE; see `etalon list cases %s`", a->inputs, a->inputs);
	return colon ? case_inputs(in, a, colon, e) : capture_read(&in->c, a->inputs, e);
}

static bool read_how(struct audit_how *how, struct tolerance *rule, const struct inputs *in, const struct arguments *a, struct error *e)
{
	const struct op *op = op_find(in->c.op);

	*how = (struct audit_how){ .rule = rule, .n_rule = a->n_rule, .contract = a->contract, .from = in->from, .quick = a->quick, .here = a->here, .tick = cli_stage };
	how->reference.wide = a->wide;
	if (!op) return op_unknown(in->c.op, e);
	if (!arith_by_name(a->reference, &how->reference.arith, &how->reference.bits))
		return error_set(e, E_UNKNOWN_NAME, a->reference, NO_OFFSET, "see `etalon list arithmetics`; BITS is 24 to 4096");
	for (size_t r = 0; r < a->n_rule; r++)
		if (!tolerance_parse(&rule[r], a->rule[r], op, e)) return false;
	return true;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'r':
		if (a->n_rule == MAX_RULES) argp_error(state, "more than %d --rule", MAX_RULES);
		else a->rule[a->n_rule++] = text;
		return 0;
	case 'i': a->cases = text; return 0;
	case 'c': a->contract = text; return 0;
	case 'a': a->reference = text; return 0;
	case 'w': a->wide = true; return 0;
	case 'n': a->here = true; return 0;
	case 'q': a->quick = true; return 0;
	case 's': a->seed = cli_number(state, "--seed", text, 0, UINT64_MAX); return 0;
	case 't': a->rows = text; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->inputs) return ARGP_ERR_UNKNOWN;
		a->inputs = text;
		return 0;
	case ARGP_KEY_END:
		if (!a->inputs || !a->n_rule) argp_error(state, "expected INPUTS, a capture or OP:CASE, and --rule RULE");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_audit(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "rule", 'r', "RULE", 0, "the test's tolerance; may be given again: allclose:rtol,atol cosine:x rms_ratio:x[,atol] nmse:x "
			"match:share,rtol,atol ulp:n quantile:share,x,least, of all outputs, or OUTPUT=RULE;OUTPUT=RULE", 0 },
		{ "cases", 'i', "FILE", 0, "more cases of the op, for OP:CASE (docs/audit.md)", 0 },
		{ "seed", 's', "N", 0, "of a case's inputs (1)", 0 },
		{ "contract", 'c', "NAME", 0, "what the kernels with a fault round (the op's tightest)", 0 },
		{ "reference", 'a', "ARITH", 0, "the test's reference (f32); see `etalon list arithmetics`", 0 },
		{ "wide", 'w', NULL, 0, "the test's reference is compared as computed, not as stored", 0 },
		{ "no-changes", 'n', NULL, 0, "these inputs alone: no changed ones, none of etalon's cases", 0 },
		{ "quick", 'q', NULL, 0, "the rules alone: no changed inputs, and nothing of etalon's check", 0 },
		{ "rows", 't', "FILE", 0, "also rows for plots/audit.gp, tab-separated", 0 },
		{ "json", 'j', NULL, 0, "JSON on stdout", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "INPUTS --rule RULE",
		"Which of an op's known faults a test with these INPUTS, a capture's or those of OP:CASE, and this tolerance would pass. "
		"Exit 1: it passes one, or fails correct kernels.", cli_op, NULL, NULL };
	struct arguments a = { .reference = "f32", .seed = 1 };
	struct tolerance rule[MAX_RULES];
	struct audit_how how;
	struct inputs in = { 0 };
	struct audit audit = { 0 };
	struct error e = { 0 };

	cli_parse(&argp, argc, argv, &a);
	bool ok = read_inputs(&in, &a, &e) && read_how(&how, rule, &in, &a, &e) && audit_make(&audit, &in.c, &how, &e)
		&& (!a.rows || audit_rows(&audit, &how, a.rows, &e));
	int status = !ok ? print_failure(&e) : a.json ? audit_json(&audit, &how, a.inputs) : audit_text(&audit, &how, a.inputs);
	audit_free(&audit);
	capture_free(&in.c);
	case_file_free(in.file);
	return status;
}
