/* etalon list: what there is, from the tables of ref/ and fixtures/cases. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cli_op.h"
#include "fixtures/cases/cases.h"
#include "ref/formula/formula.h"
#include "ref/grad/grad.h"
#include "ref/model/model.h"

/* A row is given as its cells, in the order of the columns; "" in place of NULL. */
struct list { const struct op *only; bool json; struct table table; json_t *rows; };

static void row(struct list *l, const char *const *cell)
{
	json_t *object = l->json ? json_object() : NULL;

	for (size_t i = 0; i < l->table.columns; i++) {
		const char *text = cell[i] ? cell[i] : "";
		if (l->json)
			json_object_set_new(object, l->table.heading[i], json_string(text));
		else
			table_add(&l->table, "%s", text);
	}
	if (l->json)
		json_array_append_new(l->rows, object);
}
#define ROW(l, ...) row(l, (const char *const[]){ __VA_ARGS__ })

static const char *form_name(const struct op *op, int form)
{
	return form < 0 ? "any" : op->forms[form].name;
}

static void list_op(struct list *l, const struct op *op)
{
	const struct op *back = op_backward(op);

	ROW(l, op->name, op->what);
	if (back) ROW(l, back->name, back->what);
}

static void list_cases(struct list *l, const struct op *op)
{
	for (const struct test_case *k = op->cases ? op->cases : test_cases; k->op; k++)
		if (!strcmp(k->op, op->name))
			ROW(l, op->name, k->name, k->contract ? k->contract : op->contracts[0].name, k->what);
}

static void list_faults(struct list *l, const struct op *op)
{
	for (const struct fault_spec *m = op->faults; m->name; m++)
		ROW(l, op->name, m->name, form_name(op, m->form), m->what, m->seen);
}

/* The form that has the site, or whether all have it. */
static const char *forms_name(const struct op *op, int site)
{
	const unsigned forms = op->sites[site].forms;

	if (!(forms & (forms - 1))) return op->forms[site_first_form(op, site)].name;
	return site_in_all(op, site) ? "any" : "some";
}

static void list_sites(struct list *l, const struct op *op)
{
	for (int i = 0; op->sites[i].name; i++)
		ROW(l, op->name, op->sites[i].name, forms_name(op, i), op->sites[i].what);
}

static void list_tensor(struct list *l, const struct op *op, const char *side, const struct tensor_spec *t)
{
	static const char *const kind[] = { "", "optional", "integer", "optional integer", "trace", "optional trace", "integer trace", "optional integer trace" };
	char shape[32], what[512];

	snprintf(shape, sizeof shape, "[%s]", t->shape);
	snprintf(what, sizeof what, "only where in.%s is given%s%s", t->with ? t->with : "", t->what[0] ? "; " : "", t->what);
	ROW(l, op->name, side, t->name, shape, kind[t->flags & (OPTIONAL | INTEGER | TRACE)], t->with ? what : t->what);
}

static void list_tensors(struct list *l, const struct op *op)
{
	for (const struct tensor_spec *t = op->in; t->name; t++)
		list_tensor(l, op, "in", t);
	for (const struct tensor_spec *t = op->out; t->name; t++)
		list_tensor(l, op, "out", t);
}

/* The value that an absent parameter has; "" where `what` says it. */
static const char *absent_text(const struct param_spec *p, char *text, size_t size)
{
	const char *choice = p->choices;

	text[0] = '\0';
	if (p->required)
		return "required";
	if (p->kind == PARAM_BOOL)
		return p->absent != 0 ? "true" : "false";
	if (p->kind == PARAM_LIST && p->absent == 0)
		return "[]";
	if (p->kind == PARAM_REAL && !isnan(p->absent))
		snprintf(text, size, "%g", p->absent);
	if (p->kind == PARAM_CHOICE) {
		for (int i = 0; i < (int)p->absent; i++)
			choice = strchr(choice, '|') + 1;
		snprintf(text, size, "%.*s", (int)strcspn(choice, "|"), choice);
	}
	return text;
}

static const char *kind_text(const struct param_spec *p, char *text, size_t size)
{
	if (p->kind == PARAM_CHOICE)
		return p->choices;
	if (p->kind != PARAM_LIST)
		return p->kind == PARAM_BOOL ? "bool" : "number";
	snprintf(text, size, strchr(p->choices, ',') ? "[[%s], ...]" : "[%s, ...]", p->choices);
	return text;
}

static void list_params(struct list *l, const struct op *op)
{
	char text[32], kind[64];

	for (const struct param_spec *p = op->params; p->name; p++)
		ROW(l, op->name, p->name, kind_text(p, kind, sizeof kind), absent_text(p, text, sizeof text), p->what);
}

static void list_arithmetics(struct list *l, const struct op *op)
{
	char name[32];

	(void)op;
	for (size_t i = 0; ariths[i]; i++) {
		snprintf(name, sizeof name, "%s%s", ariths[i]->name, ariths[i]->precision ? "" : ":BITS");
		ROW(l, name, ariths[i]->what);
	}
}

/* "q_norm=bf16 k_norm=bf16", to be freed. */
static char *roundings(const struct op *op, const struct contract *c)
{
	char *text = NULL;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (!to)
		return NULL;
	for (int i = 0; op->sites[i].name; i++)
		if (c->site[i].on)
			fprintf(to, "%s%s=%s", ftell(to) > 0 ? " " : "", op->sites[i].name,
				rounding_name(c->site[i].format, c->site[i].rounding));
	fclose(to);
	return text;
}

/* "operands", "initial_state, final_state", or "" of a contract that rounds nothing or that only the
 * outputs can call for. To be freed. */
static char *called_for_by(const struct contract *c)
{
	char *text = NULL;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (!to) return NULL;
	for (int i = 0; c->as && c->as[i]; i++) fprintf(to, "%s%s", i ? ", " : "", c->as[i]);
	fclose(to);
	return text;
}

static void list_contracts(struct list *l, const struct op *op)
{
	for (const struct contract *c = op->contracts; c->name; c++) {
		char *text = roundings(op, c), *as = called_for_by(c);
		ROW(l, op->name, c->name, form_name(op, c->form), c->what, as, text);
		free(text);
		free(as);
	}
}

/* The text itself; in JSON a string. */
static void list_formula(struct list *l, const struct op *op)
{
	const struct op *of = grad_of(op);
	const char *text = formula_source(of ? of : op);

	if (!text) return;
	if (l->json) ROW(l, op->name, text);
	else if (of) printf("# %s: %s\n%s", op->name, op->what, text);
	else fputs(text, stdout);
}

static const struct kind {
	const char *name;
	void (*list)(struct list *l, const struct op *op);
	size_t columns;
	const char *heading[6];
	bool once;              /* the same for all ops */
} kinds[] = {
	{ "ops", list_op, 2, { "op", "what" }, false },
	{ "tensors", list_tensors, 6, { "op", "side", "tensor", "shape", "kind", "what" }, false },
	{ "params", list_params, 5, { "op", "parameter", "kind", "default", "what" }, false },
	{ "cases", list_cases, 4, { "op", "case", "contract", "what" }, false },
	{ "faults", list_faults, 5, { "op", "fault", "form", "computes", "seen" }, false },
	{ "sites", list_sites, 4, { "op", "site", "form", "what" }, false },
	{ "contracts", list_contracts, 6, { "op", "contract", "form", "what", "as", "rounds" }, false },
	{ "formula", list_formula, 2, { "op", "formula" }, false },
	{ "arithmetics", list_arithmetics, 2, { "arithmetic", "what" }, true },
};

struct arguments { const struct kind *kind; const char *op; bool json; };

static const struct kind *find_kind(struct argp_state *state, const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	argp_error(state, "there is no list of '%s'; there is: ops, tensors, params, cases, faults, sites, contracts, formula, arithmetics", name);
	return NULL;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0) a->kind = find_kind(state, text);
		else if (state->arg_num == 1) a->op = text;
		else return ARGP_ERR_UNKNOWN;
		return 0;
	case ARGP_KEY_NO_ARGS: argp_error(state, "expected one of ops, tensors, params, cases, faults, sites, contracts, formula, arithmetics"); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* A part of a model, an op of the user's own and a derivative are listed only when they are named. */
static const struct op *find_op(const char *name, bool *part)
{
	const struct op *op = op_find(name);
	size_t at = 0;

	while (ops[at] && ops[at] != op) at++;
	*part = op && !ops[at];
	for (int i = 0; i < MODEL_PARTS; i++)
		if (!strcmp(model_op(i)->name, name)) return *part = true, model_op(i);
	return op;
}

int cmd_list(int argc, char **argv)
{
	static const struct argp_option options[] = { { "json", 'j', NULL, 0, "an array of objects", 0 }, { 0 } };
	static const struct argp argp = { options, parse, "ops|tensors|params|cases|faults|sites|contracts|formula [OP]\narithmetics",
		"What etalon knows, of all ops or of one; linear_attention, full_attention and head are the parts of a whole model.", cli_op, NULL, NULL };
	struct arguments a = { 0 };
	struct error e;
	bool part = false;

	cli_parse(&argp, argc, argv, &a);
	struct list l = { .json = a.json, .table = { .columns = a.kind->columns, .heading = a.kind->heading } };
	size_t added = 0;
	while (!a.op && op_added(added)) added++;
	if (a.op && !(l.only = find_op(a.op, &part))) {
		op_unknown(a.op, &e);
		return print_failure(&e);
	}
	if (a.json)
		l.rows = json_array();
	for (size_t i = added; i-- > 0 && !a.kind->once;) a.kind->list(&l, op_added(i));
	for (size_t i = 0; ops[i] && !(a.kind->once ? i : added); i++)
		if (a.kind->once || !l.only || l.only == ops[i])
			a.kind->list(&l, ops[i]);
	if (part && !a.kind->once)
		a.kind->list(&l, l.only);
	if (a.json) return json_print(l.rows);
	return a.kind->list == list_formula ? fflush(stdout) ? EXIT_MACHINE : EXIT_PASS : table_print(&l.table);
}
