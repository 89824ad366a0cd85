/* An audit as text, JSON and rows for a picture. */
#include "audit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "compare/print/print.h"

static const char *const rule_heading[MAX_RULES] = { "rule 1", "rule 2", "rule 3", "rule 4", "rule 5", "rule 6", "rule 7", "rule 8" };

static void said_inputs(const struct audit *a, char *text, size_t size)
{
	const struct call *call = &a->subject.call;
	int n = 0;

	for (int i = 0; call->op->dims[i] && n < (int)size; i++)
		n += snprintf(text + n, size - (size_t)n, "%s%s = %zu", i ? ", " : "", call->op->dims[i], call->dim[i]);
	for (int i = 0; call->op->out[i].name && n < (int)size; i++)
		if (call->out_count[i])
			n += snprintf(text + n, size - (size_t)n, "; %s stored as %s", call->op->out[i].name, dtype_info[out_dtype(call, i)].name);
}

static const char *said_etalon(const struct audited_fault *f)
{
	return !f->checked ? "" : f->effect == 0 ? "no effect" : f->fails ? "fails" : "not identifiable";
}

/* Of each rule what it says and, where it does not catch the fault, the change with which it does. */
static void add_fault(struct table *t, const struct audited_fault *f, const struct audit_how *how)
{
	table_add(t, "%s", f->name);
	table_add(t, "%.1e", f->effect);
	for (size_t r = 0; r < how->n_rule; r++) table_add(t, "%s", fate_text[f->fate[r]]);
	if (how->quick) return;
	const char *change = NULL;
	bool caught = true;
	for (size_t r = 0; r < how->n_rule; r++) {
		caught = caught && f->fate[r] == FATE_CAUGHT;
		if (!change && f->fate[r] != FATE_CAUGHT) change = f->change[r];
	}
	table_add(t, "%s", said_etalon(f));
	if (how->here) return;
	table_add(t, "%s", f->own ? f->own : "none");
	table_add(t, "%s", caught ? "" : change ? change : "none");
}

static int faults_table(const struct audit *a, const struct audit_how *how)
{
	const char *heading[MAX_RULES + 5] = { "fault", ">effect" };
	struct table t = { .columns = 2, .heading = heading };

	for (size_t r = 0; r < how->n_rule; r++) heading[t.columns++] = rule_heading[r];
	if (!how->quick) heading[t.columns++] = "etalon here";
	if (!how->quick && !how->here) heading[t.columns++] = "etalon fails it on", heading[t.columns++] = "the rule would with";
	for (size_t i = 0; i < a->n; i++) add_fault(&t, &a->fault[i], how);
	return table_print(&t);
}

static int honest_table(const struct audit *a, const struct audit_how *how)
{
	const char *heading[MAX_RULES + 2] = { "correct kernels" };
	struct table t = { .columns = 1 + how->n_rule + !how->quick, .heading = heading };

	for (size_t r = 0; r < how->n_rule; r++) heading[r + 1] = rule_heading[r];
	heading[1 + how->n_rule] = "etalon here";
	for (size_t i = 0; i < a->n_honest; i++) {
		table_add(&t, "%s%s", a->honest[i].contract->name, a->honest[i].contract == a->contract ? " (of the faults)" : "");
		for (size_t r = 0; r < how->n_rule; r++) table_add(&t, "%d of %d pass", a->honest[i].passed[r], HONEST_RUNS);
		if (!how->quick) table_add(&t, "%s", a->honest[i].fails ? "fails" : "passes");
	}
	return table_print(&t);
}

int audit_text(const struct audit *a, const struct audit_how *how, const char *inputs)
{
	struct audit_count c = audit_count(a, how);
	char text[512];

	said_inputs(a, text, sizeof text);
	printf("%s: %s\n", inputs, text);
	for (size_t r = 0; r < how->n_rule; r++) printf("rule %zu: %s\n", r + 1, how->rule[r].text);
	putchar('\n');
	int status = faults_table(a, how);
	putchar('\n');
	if (status == EXIT_PASS) status = honest_table(a, how);
	if (status != EXIT_PASS) return status;
	printf("\n%d faults; %d change what is stored here\n", c.faults, c.effect);
	for (size_t r = 0; r < how->n_rule; r++) {
		printf("rule %zu passes %d of these", r + 1, c.passed[r]);
		if (!how->quick) printf(", %d of which etalon fails on the same inputs", c.missed[r]);
		putchar('\n');
	}
	if (!how->quick) printf("etalon fails %d of these here\n", c.here);
	if (!how->quick && !how->here) printf("etalon fails %d of the %d on its own cases\n", c.own, c.faults);
	return audit_exit(a, how);
}

static json_t *json_fault(const struct audited_fault *f, const struct audit_how *how, const struct op *op)
{
	json_t *rules = json_array();

	for (size_t r = 0; r < how->n_rule; r++)
		json_array_append_new(rules, json_pack("{s:s, s:s?}", "fate", fate_text[f->fate[r]], "caught_with", f->change[r]));
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s?, s:s?}", "fault", op->faults[f->fault].name, "name", f->name, "what",
		op->faults[f->fault].what, "effect", json_figure(f->effect), "rules", rules, "etalon", f->checked ? said_etalon(f) : NULL, "etalon_fails_on", f->own);
}

int audit_json(const struct audit *a, const struct audit_how *how, const char *inputs)
{
	struct audit_count c = audit_count(a, how);
	json_t *rules = json_array(), *faults = json_array(), *honest = json_array();

	for (size_t r = 0; r < how->n_rule; r++)
		json_array_append_new(rules, json_pack("{s:s, s:i, s:o}", "rule", how->rule[r].text, "passes", c.passed[r], "passes_what_etalon_fails",
			how->quick ? json_null() : json_integer(c.missed[r])));
	for (size_t i = 0; i < a->n; i++) json_array_append_new(faults, json_fault(&a->fault[i], how, a->subject.call.op));
	for (size_t i = 0; i < a->n_honest; i++) {
		json_t *passed = json_array();
		for (size_t r = 0; r < how->n_rule; r++) json_array_append_new(passed, json_integer(a->honest[i].passed[r]));
		json_array_append_new(honest, json_pack("{s:s, s:i, s:o, s:o}", "contract", a->honest[i].contract->name, "runs", HONEST_RUNS,
			"passed", passed, "etalon_fails", how->quick ? json_null() : json_boolean(a->honest[i].fails)));
	}
	int status = json_print(json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "inputs", inputs, "op", a->subject.call.op->name,
		"contract", a->contract->name, "faults_known", c.faults, "faults_with_effect", c.effect, "etalon_fails_here",
		how->quick ? json_null() : json_integer(c.here), "etalon_fails_on_its_cases", how->quick || how->here ? json_null() : json_integer(c.own),
		"rules", rules, "faults", faults, "correct_kernels", honest));
	return status == EXIT_PASS ? audit_exit(a, how) : status;
}

bool audit_rows(const struct audit *a, const struct audit_how *how, const char *path, struct error *e)
{
	const char *op = a->subject.call.op->name;
	FILE *to = fopen(path, "w");

	if (!to) return error_set(e, E_WRITE, path, NO_OFFSET, "%s", strerror(errno));
	for (size_t i = 0; i < a->n; i++) {
		const struct audited_fault *f = &a->fault[i];
		for (size_t r = 0; r < how->n_rule; r++)
			fprintf(to, "%s\t%s\t%zu\t%s\t%zu\t%d\n", op, how->rule[r].text, r, f->name, i, (int)f->fate[r]);
		if (!how->quick) fprintf(to, "%s\tetalon check\t%zu\t%s\t%zu\t%d\n", op, how->n_rule, f->name, i, f->effect == 0 ? FATE_NONE : f->fails ? FATE_CAUGHT : FATE_PASSED);
	}
	bool failed = ferror(to);
	if (fclose(to) || failed) return error_set(e, E_WRITE, path, NO_OFFSET, "%s", strerror(errno));
	return true;
}
