/* etalon ref: the reference's answer to a capture's inputs, as a capture of its own. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cli_op.h"
#include "compare/truth/answered.h"

enum { MAX_ROUND = MAX_SITE, CHUNK = DEFAULT_CHUNK };

struct arguments {
	const char *capture, *out, *arith, *fault, *form, *round[MAX_ROUND];
	size_t n_round, chunk;
	bool json, trace;
};

/* One "SITE=TYPE" into the plan; *form becomes the first form that has the site, unless all have it, or the one that is asked for. */
static bool plan_round(struct plan *p, const struct op *op, const char *text, int asked, int *form, struct error *e)
{
	size_t n = strcspn(text, "=");
	char name[64];

	snprintf(name, sizeof name, "%.*s", (int)n, text);
	int site = op_site(op, name);
	if (site < 0)
		return op_lacks(e, op, "sites", name);
	struct site_rounding *r = &p->round[site];
	if (!text[n] || !format_by_name(text + n + 1, &r->format, &r->rounding))
		return error_set(e, E_UNKNOWN_NAME, text, NO_OFFSET,
			"expected SITE=TYPE, TYPE one of bf16 f16 tf32 bf16x2 f32 e4m3 e5m2, or with _rz (towards 0), _away (ties too) or _via_bf16 (rounded twice)");
	r->on = true;
	if (site_in_all(op, site) || (asked >= 0 && site_in_form(op, site, asked))) return true;
	int own = site_first_form(op, site);
	if (*form >= 0 && !site_in_form(op, site, *form))
		return error_set(e, E_USAGE, text, NO_OFFSET, "this site belongs to the form %s, the fault or another site to %s",
			op->forms[own].name, op->forms[*form].name);
	if (*form < 0) *form = own;
	return true;
}

/* The form: as asked for, else the one that the sites and the fault need. */
static bool plan_form(struct plan *p, const struct op *op, const struct arguments *a, int needed, struct error *e)
{
	int asked = a->form ? op_form(op, a->form) : -1;

	if (a->form && asked < 0)
		return error_set(e, E_UNKNOWN_NAME, a->form, NO_OFFSET, "%s has the form %s%s%s", op->name, op->forms[0].name,
			op->forms[1].name ? " and the form " : "", op->forms[1].name ? op->forms[1].name : "");
	if (asked >= 0 && needed >= 0 && asked != needed)
		return error_set(e, E_USAGE, a->form, NO_OFFSET, "the fault or a site belongs to the form %s", op->forms[needed].name);
	p->form = asked >= 0 ? asked : needed >= 0 ? needed : 0;
	p->chunk = op->forms[p->form].chunked ? a->chunk : 0;
	return true;
}

static bool make_plan(struct plan *p, const struct op *op, const struct arguments *a, struct error *e)
{
	const struct arith *arith;
	int bits, form = -1;

	if (!arith_by_name(a->arith, &arith, &bits))
		return error_set(e, E_UNKNOWN_NAME, a->arith, NO_OFFSET, "see `etalon list arithmetics`; BITS is 24 to 4096");
	*p = plan_plain(arith, bits);
	p->stage = "reference";
	p->tick = cli_stage;
	if (a->fault) {
		double value;
		int fault = fault_named(op, a->fault, &value);
		if (fault < 0)
			return op_lacks(e, op, "faults", a->fault);
		plan_fault_at(p, op, fault, value);
		form = op->faults[fault].form;
	}
	for (size_t i = 0; i < a->n_round; i++)
		if (!plan_round(p, op, a->round[i], a->form ? op_form(op, a->form) : -1, &form, e)) return false;
	return plan_form(p, op, a, form, e);
}

/* "etalon ref dd fault X round S=T", to be freed. */
static char *producer(const struct arguments *a)
{
	char *text = NULL;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (!to)
		return NULL;
	fprintf(to, "etalon ref %s", a->arith);
	if (a->fault)
		fprintf(to, " fault %s", a->fault);
	for (size_t i = 0; i < a->n_round; i++)
		fprintf(to, " round %s", a->round[i]);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}

static bool write_answer(const struct call *call, const struct answer *answer, const struct arguments *a,
	struct tensors *t, struct error *e)
{
	char *by = producer(a);
	bool ok = by && answered(t, call, answer, by);

	free(by);
	if (!ok) return error_set(e, E_MEMORY, a->out, NO_OFFSET, "a capture of the answer");
	return tensors_write(t, a->out, e);
}

/* A form may have no numbers where another one has: e^(G_i - G_j) in chunks, where a decay is 0. */
static size_t not_finite(const struct tensor *t)
{
	size_t first;
	double value;

	return t->data ? tensor_not_finite(t, &first, &value) : 0;
}

static int report(const struct tensors *t, const struct plan *p, const struct call *call, const struct arguments *a)
{
	const char *by = meta_get(t, "etalon.producer"), *form = call->op->forms[p->form].name;
	char text[128];

	if (a->json) {
		json_t *out = json_array(), *round = json_array();
		for (size_t i = 0; i < a->n_round; i++)
			json_array_append_new(round, json_string(a->round[i]));
		for (size_t i = 0; i < t->n; i++)
			if (!strncmp(t->item[i].name, "out.", 4))
				json_array_append_new(out, json_pack("{s:s,s:s,s:o,s:I}", "name", t->item[i].name,
					"dtype", dtype_info[t->item[i].dtype].name, "shape", json_shape(&t->item[i]),
					"not_finite", (json_int_t)not_finite(&t->item[i])));
		return json_print(json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:s?,s:o,s:o}", "file", a->out, "op", call->op->name,
			"producer", by, "arith", a->arith, "form", form, "chunk", (json_int_t)p->chunk,
			"fault", a->fault, "round", round, "outputs", out));
	}
	printf("%s: %s by %s (%s form)\n", a->out, call->op->name, by, form);
	for (size_t i = 0; i < t->n; i++) {
		const struct tensor *x = &t->item[i];
		if (strncmp(x->name, "out.", 4)) continue;
		const size_t none = not_finite(x);
		printf("  %s %s %s", x->name, dtype_info[x->dtype].name, shape_text(x, text, sizeof text));
		if (none) printf(": %zu of %zu elements are NaN or infinite", none, x->count);
		putchar('\n');
	}
	return EXIT_PASS;
}

/* A fault at an index that the call has not would not be made. */
static bool in_call(const struct call *call, const struct plan *p, const struct arguments *a, struct error *e)
{
	double value;
	int fault = a->fault ? fault_named(call->op, a->fault, &value) : -1;

	if (fault < 0 || !call->op->faults[fault].size || !(p->value[fault] >= (double)fault_values(call, fault))) return true;
	return error_set(e, E_VALUE, a->fault, NO_OFFSET, "expected a %s below %s = %zu", call->op->faults[fault].parameter,
		call->op->faults[fault].size, fault_values(call, fault));
}

static int answer_capture(const struct capture *c, const struct arguments *a)
{
	struct error e = { 0 };
	struct call call;
	struct plan plan;
	struct answer answer = { 0 };
	struct tensors t = { 0 };

	if (!call_bind(&call, c, false, &e)) return print_failure_of(a->capture, &e);
	if (a->trace && !call_trace(&call)) {
		error_set(&e, E_USAGE, "--trace", NO_OFFSET, "%s does not iterate", call.op->name);
		return print_failure(&e);
	}
	bool ok = make_plan(&plan, call.op, a, &e) && in_call(&call, &plan, a, &e)
		&& (ref_run(&call, &plan, &answer, &e) || (e.code == E_VALUE && error_in_file(&e, a->capture)))
		&& write_answer(&call, &answer, a, &t, &e);
	int status = ok ? report(&t, &plan, &call, a) : print_failure(&e);
	answer_free(&answer);
	tensors_free(&t);
	return status;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'o': a->out = text; return 0;
	case 'a': a->arith = text; return 0;
	case 'm': a->fault = text; return 0;
	case 'f': a->form = text; return 0;
	case 'j': a->json = true; return 0;
	case 't': a->trace = true; return 0;
	case 'c': a->chunk = cli_number(state, "--chunk", text, 1, 4096); return 0;
	case 'r':
		if (a->n_round == MAX_ROUND) argp_error(state, "more than %d --round", MAX_ROUND);
		else a->round[a->n_round++] = text;
		return 0;
	case ARGP_KEY_ARG:
		if (a->capture) return ARGP_ERR_UNKNOWN;
		a->capture = text;
		return 0;
	case ARGP_KEY_END:
		if (!a->capture || !a->out) argp_error(state, "expected CAPTURE and -o FILE");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_ref(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "output", 'o', "FILE", 0, "the capture to write; outputs have the types of CAPTURE's, or F64", 0 },
		{ "arith", 'a', "A", 0, "see `etalon list arithmetics` (dd)", 0 },
		{ "fault", 'm', "ID", 0, "compute with this fault; NAME(37) where it has a parameter", 0 },
		{ "round", 'r', "SITE=TYPE", 0, "round at this site; may be given again", 0 },
		{ "form", 'f', "FORM", 0, "one of `list ops` forms (as the fault or site needs)", 0 },
		{ "chunk", 'c', "N", 0, "tokens in a chunk (64)", 0 },
		{ "trace", 't', NULL, 0, "also record what the op iterates on, after each iteration", 0 },
		{ "json", 'j', NULL, 0, "say in JSON what was written", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "CAPTURE -o FILE", "The reference's answer to CAPTURE's inputs.", cli_op, NULL, NULL };
	struct arguments a = { .arith = "dd", .chunk = CHUNK };
	struct capture c;
	struct error e;

	cli_parse(&argp, argc, argv, &a);
	if (!capture_read(&c, a.capture, &e))
		return print_failure(&e);
	int status = answer_capture(&c, &a);
	capture_free(&c);
	return status;
}
