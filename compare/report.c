#include <math.h>
#include <string.h>

#include "report.h"

/* Text of a capture is a stranger's: control characters do not reach a terminal. */
static void clean(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
	for (; *to; to++)
		if ((unsigned char)*to < ' ' || *to == 127) *to = '?';
}

const char *finding_word(const struct finding *f)
{
	return f->judged ? outcome_name[f->verdict.outcome] : "error";
}

int finding_exit(const struct finding *f)
{
	return f->judged ? outcome_exit(f->verdict.outcome) : error_exit(&f->error);
}

int worse_exit(int a, int b)
{
	static const int weight[] = { [EXIT_PASS] = 0, [EXIT_UNDECIDED] = 1, [EXIT_FAIL] = 2, [EXIT_INPUT] = 3, [EXIT_MACHINE] = 4 };

	return weight[a] >= weight[b] ? a : b;
}

double finding_value(const struct finding *f, int rule)
{
	double worst = 0;

	for (int i = 0; i < f->verdict.n_out; i++) {
		double x = f->verdict.out[i].rule[rule].value;
		if (!(x <= worst)) worst = x;
	}
	return worst;
}

const char *replay(const struct finding *f, char *text, size_t size)
{
	snprintf(text, size, "etalon check '%s'%s%s", f->path, f->judged ? " --contract " : "", f->judged ? f->verdict.contract->name : "");
	return text;
}

int find(const char *path, const struct judging *how, bool stale, struct finding *f)
{
	struct capture c;

	*f = (struct finding){ .path = path };
	if (!capture_read(&c, path, &f->error)) return finding_exit(f);
	clean(f->op, sizeof f->op, c.op);
	clean(f->producer, sizeof f->producer, c.producer);
	clean(f->device, sizeof f->device, c.device);
	f->judged = judge(&c, how, &f->verdict, &f->error);
	if (!f->judged) snprintf(f->error.file, sizeof f->error.file, "%s", path);
	else if (stale) judge_stale(&c, &f->verdict);
	capture_free(&c);
	return finding_exit(f);
}

static void text_output(FILE *to, const struct finding *f, const struct output_verdict *o)
{
	const char *name = f->verdict.op->out[o->out].name;

	fprintf(to, "  %-14s %10zu", name, o->count);
	for (int r = 0; r < RULE_COUNT; r++) fprintf(to, "  %9.4g (%5.3g)", o->rule[r].value, o->rule[r].limit);
	fprintf(to, "  %7.3f %%\n", 100 * (double)o->bit_equal / (double)o->count);
}

static void text_worst(FILE *to, const struct finding *f, const struct output_verdict *o)
{
	fprintf(to, "  worst of %s: %s is %.9g, expected %.9g: %.3g sigma, %.3g ulp\n", f->verdict.op->out[o->out].name, o->worst_at,
		o->worst.got, o->worst.expected, o->worst.sigma, o->worst.ulp);
}

void report_text(FILE *to, const struct finding *f)
{
	const struct verdict *v = &f->verdict;
	char text[700];

	if (!f->judged) {
		error_print(to, &f->error);
		putc('\n', to);
		return;
	}
	fprintf(to, "%s\n  %s by %s%s%s\n", f->path, f->op, f->producer[0] ? f->producer : "an unnamed producer",
		f->device[0] ? " on " : "", f->device);
	fprintf(to, "  contract  %s: %s\n", v->contract->name, v->contract->what);
	fprintf(to, "  truth     %s, checked against %s; sigma from %d noisy runs\n\n", v->truth, v->second, v->runs);
	if (v->n_out) {
		fprintf(to, "  %-14s %10s", "error in sigma", "elements");
		for (int r = 0; r < RULE_COUNT; r++) fprintf(to, "  %9s (limit)", rule_name[r]);
		fputs("      exact\n", to);
	}
	for (int i = 0; i < v->n_out; i++) text_output(to, f, &v->out[i]);
	if (v->n_out) putc('\n', to);
	for (int i = 0; i < v->n_out; i++) text_worst(to, f, &v->out[i]);
	for (int i = 0; i < v->n_reason; i++) fprintf(to, "  %s\n", v->reason[i]);
	fprintf(to, "%s under contract %s\n", v->outcome == PASS ? "PASS" : v->outcome == FAIL ? "FAIL" : "UNDECIDED", v->contract->name);
	if (v->outcome != PASS) fprintf(to, "replay: %s\n", replay(f, text, sizeof text));
}

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* A string that JSON can hold, whatever bytes the file name has. */
static json_t *string(const char *s)
{
	json_t *j = json_string(s);

	return j ? j : json_string("?");
}

static json_t *json_output(const struct finding *f, const struct output_verdict *o)
{
	json_t *rules = json_object();

	for (int r = 0; r < RULE_COUNT; r++)
		json_object_set_new(rules, rule_name[r], json_pack("{s:o, s:o}", "value", number(o->rule[r].value), "limit", number(o->rule[r].limit)));
	return json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:{s:s, s:o, s:o, s:o, s:o}}", "name", f->verdict.op->out[o->out].name,
		"elements", (json_int_t)o->count, "bit_equal", (json_int_t)o->bit_equal, "not_finite", (json_int_t)o->not_finite,
		"truth_error", number(o->truth_error), "rules", rules, "worst", "index", o->worst_at,
		"expected", number(o->worst.expected), "got", number(o->worst.got), "sigma", number(o->worst.sigma), "ulp", number(o->worst.ulp));
}

json_t *report_json(const struct finding *f)
{
	const struct verdict *v = &f->verdict;
	char text[700];
	json_t *j = json_pack("{s:o, s:s, s:o, s:o, s:o, s:s, s:i}", "capture", string(f->path), "op", f->op, "producer", string(f->producer),
		"device", string(f->device), "replay", string(replay(f, text, sizeof text)), "verdict", finding_word(f), "exit", finding_exit(f));

	if (!f->judged) {
		json_object_set_new(j, "error", json_pack("{s:s, s:s, s:o, s:s}", "message", error_message(f->error.code), "item", f->error.item,
			"offset", f->error.offset == NO_OFFSET ? json_null() : json_integer((json_int_t)f->error.offset), "detail", f->error.detail));
		return j;
	}
	json_t *outputs = json_array(), *reasons = json_array();
	for (int i = 0; i < v->n_out; i++) json_array_append_new(outputs, json_output(f, &v->out[i]));
	for (int i = 0; i < v->n_reason; i++) json_array_append_new(reasons, string(v->reason[i]));
	json_object_set_new(j, "contract", json_string(v->contract->name));
	json_object_set_new(j, "truth", json_string(v->truth));
	json_object_set_new(j, "second_opinion", json_string(v->second));
	json_object_set_new(j, "noisy_runs", json_integer(v->runs));
	json_object_set_new(j, "outputs", outputs);
	json_object_set_new(j, "reasons", reasons);
	return j;
}
