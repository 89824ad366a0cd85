#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "compare/print/print.h"

/* Between quotes that stand. */
static void shell_word(FILE *to, const char *text)
{
	for (; *text; text++)
		if (*text == '\'') fputs("'\\''", to);
		else putc(*text, to);
}

void shell_quoted(FILE *to, const char *path)
{
	fputs(*path == '-' ? "'./" : "'", to);
	shell_word(to, path);
	putc('\'', to);
}

void replay(FILE *to, const struct finding *f)
{
	const struct op *op = op_find(f->op);
	char option[OP_OPTION];

	fprintf(to, "etalon %s%s%s%s ", f->baseline ? "gate" : "check",
		op ? op_option(op, option) : "", f->verdict.required ? " --require-explained" : "",
		f->quick ? " --quick" : "");
	shell_quoted(to, f->baseline ? f->root : f->path);
	if (f->judged) fprintf(to, " --contract %s", f->verdict.contract->name);
	if (f->truth[0]) fprintf(to, " --truth %s", f->truth);
	if (f->baseline) baseline_options(to, f->baseline, f->name);
}

void baseline_options(FILE *to, const char *baseline, const char *name)
{
	fputs(" --baseline ", to);
	shell_quoted(to, baseline);
	fputs(" --only='", to);
	shell_word(to, name);
	putc('\'', to);
}

enum { RULE_WIDE = 19 };        /* "  %9.4g (%5.3g)" */

/* "  49.49 ( 9.5)" in RULE_WIDE columns; a figure in sigma is none where no element has one. */
static void text_rule(FILE *to, const struct output_verdict *o, int r)
{
	double x = o->rule[r].value;

	if (r != RULE_EXCESS && o->unscaled == o->count) fprintf(to, "  %9s %7s", "-", "");
	else if (isfinite(x) && x <= 1e6) fprintf(to, "  %9.4g (%5.3g)", x, o->rule[r].limit);
	else
		fprintf(to, "  %9s (%5.3g)",
			isnan(x)           ? "NaN"
				: isinf(x) ? "infinite"
					   : "over 1e6",
			o->rule[r].limit);
}

static void text_output(FILE *to, const struct finding *f, const struct output_verdict *o)
{
	const char *name = f->verdict.op->out[o->out].name;
	char differ[80];

	fprintf(to, "  %-14s %10zu", name, o->count);
	for (int r = 0; r < RULE_COUNT && !o->exact && !o->names; r++) text_rule(to, o, r);
	if (o->exact || o->names) {
		if (o->names) snprintf(differ, sizeof differ, "  indices: %zu of %zu differ, %zu may by rounding", o->count - o->bit_equal, o->count, o->moving);
		else snprintf(differ, sizeof differ, "  exact: %zu of %zu differ", o->count - o->bit_equal, o->count);
		fprintf(to, "%-*s", RULE_COUNT * RULE_WIDE, differ);
	}
	fprintf(to, "  %7.3f %%\n", 100 * (double)o->bit_equal / (double)o->count);
}

static void text_worst(FILE *to, const struct finding *f, const struct output_verdict *o)
{
	char got[RATIO], sigma[RATIO], ulp[RATIO];

	if (o->names) return;
	if (o->exact) {
		if (o->bit_equal < o->count)
			fprintf(to, "  %s differs first at %s: %.9g, expected %.9g\n",
				f->verdict.op->out[o->out].name, o->worst_at, o->worst.got, o->worst.expected);
		return;
	}
	if (o->unscaled_wrong)
		fprintf(to,
			"  %s has %zu element%s that %s no sigma, as float32 is exact there; %zu "
			"%s wrong\n",
			f->verdict.op->out[o->out].name, o->unscaled, o->unscaled == 1 ? "" : "s",
			o->unscaled == 1 ? "has" : "have", o->unscaled_wrong,
			o->unscaled_wrong == 1 ? "is" : "are");
	fprintf(to, "  worst of %s: %s is %s, expected %.9g", f->verdict.op->out[o->out].name,
		o->worst_at, number_text(o->worst.got, got), o->worst.expected);
	if (isfinite(o->worst.got) && o->worst.unscaled)
		fprintf(to, ": %s ulp", ratio_text(o->worst.ulp, 3, ulp));
	else if (isfinite(o->worst.got))
		fprintf(to, ": %s sigma, %s ulp", ratio_text(o->worst.sigma, 3, sigma),
			ratio_text(o->worst.ulp, 3, ulp));
	putc('\n', to);
}

static void text_sample(FILE *to, const struct verdict *v)
{
	struct sample_figures all = { 0 };
	double second = 0;
	size_t n = 0;

	for (int i = 0; i < v->n_out; i++) {
		n += v->out[i].count;
		all.count += v->out[i].sample.count;
		all.share = fmax(all.share, v->out[i].sample.share);
		if (!(v->out[i].truth_error <= second)) second = v->out[i].truth_error;
	}
	if (v->sampled) fprintf(to, " and, on %zu of %zu elements, %s: ", all.count, n, sample_judge);
	if (v->operations) fprintf(to, " and, on %" PRIu64 " elements of a piece's operations, mpfr:256: ", v->operations);
	if ((v->sampled || v->operations) && all.share > 0) fprintf(to, "2^%.1f apart", log2(all.share));
	else if (v->sampled || v->operations) fputs("equal", to);
	else fprintf(to, ": %.2g sigma apart", second);
}

/* Of a failure under the op's tightest contract, which nobody named. A library's caller has no
 * options. */
static void unnamed_lines(FILE *to, const struct verdict *v, bool options)
{
	const char *name = v->contract->name;

	if (!options) {
		fprintf(to, "  the call names no contract, so the op's first was taken, %s; ",
			name);
		if (v->instead)
			fprintf(to, "the contract %s holds: name it if this kernel computes so\n",
				v->instead->name);
		else fputs("the contract \"auto\" is the tightest that is met\n", to);
		return;
	}
	fprintf(to, "  neither the capture nor --contract names a contract, so the op's first was taken, %s; ", name);
	if (v->instead) fprintf(to, "%s holds: say --contract %s if this kernel computes so\n", v->instead->name, v->instead->name);
	else fputs("--contract auto takes the tightest that is met\n", to);
}

void report_text(FILE *to, const struct finding *f, bool explain)
{
	const struct verdict *v = &f->verdict;

	if (!f->judged) {
		error_print(to, &f->error);
		putc('\n', to);
		return;
	}
	if (f->path[0]) fprintf(to, "%s\n", f->path);
	fprintf(to, "  %s by %s%s%s\n", f->op, f->producer[0] ? f->producer : "an unnamed producer",
		f->device[0] ? " on " : "", f->device);
	fprintf(to, "  contract  %s: %s\n", v->contract->name, v->contract->what);
	fprintf(to, "  truth     %s, checked against %s", v->truth, v->second);
	text_sample(to, v);
	fprintf(to, "; sigma from %d noisy runs%s\n\n", v->runs, v->as_read ? " and from what the structure below answers" : "");
	if (v->n_out) {
		fprintf(to, "  %-14s %10s", "error in sigma", "elements");
		for (int r = 0; r < RULE_COUNT; r++) fprintf(to, "  %9s (limit)", rule_name[r]);
		fputs("      exact\n", to);
	}
	for (int i = 0; i < v->n_out; i++) text_output(to, f, &v->out[i]);
	if (v->n_out) putc('\n', to);
	for (int i = 0; i < v->n_out; i++) text_worst(to, f, &v->out[i]);
	report_traces(to, v);
	eigen_cause_report(to, &v->cause);
	report_coverage(to, v);
	if (explain) report_suspects(to, v);
	for (int i = 0; i < v->n_reason; i++) fprintf(to, "  %s\n", v->reason[i]);
	if (v->unnamed && v->outcome == FAIL) unnamed_lines(to, v, f->path[0]);
	fprintf(to, "%s under contract %s\n", v->outcome == PASS ? "PASS" : v->outcome == FAIL ? "FAIL" : "UNDECIDED", v->contract->name);
	if (v->outcome == PASS || !f->path[0]) return;
	fputs("replay: ", to);
	replay(to, f);
	putc('\n', to);
}

json_t *report_number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* What is written of the finding, or null where memory is short. */
static json_t *json_written(void (*write)(FILE *, const struct finding *), const struct finding *f)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (to) {
		write(to, f);
		fclose(to);
		if (text) make_clean(text);
	}
	json_t *j = text ? json_string(text) : json_null();
	free(text);
	return j;
}

static void write_error(FILE *to, const struct finding *f) { error_print(to, &f->error); }

static json_t *json_output(const struct finding *f, const struct output_verdict *o)
{
	json_t *rules = json_object();

	for (int r = 0; r < RULE_COUNT && !o->names; r++)
		json_object_set_new(rules, rule_name[r], json_pack("{s:o, s:o}", "value", report_number(o->rule[r].value), "limit", report_number(o->rule[r].limit)));
	json_t *indices = !o->names ? json_null() : json_pack("{s:I, s:I, s:I, s:I, s:o}", "moving", (json_int_t)o->moving, "outside", (json_int_t)o->outside, "repeated",
		(json_int_t)o->repeated, "foreign", (json_int_t)o->foreign, "foreign_limit", report_number(o->rule[RULE_WORST].limit));
	return json_pack("{s:s, s:I, s:b, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:o, s:o, s:o, s:o, "
			 "s:{s:s, s:o, s:o, s:o, s:o}}",
		"name", f->verdict.op->out[o->out].name, "elements", (json_int_t)o->count, "exact",
		o->exact, "bit_equal", (json_int_t)o->bit_equal, "not_finite",
		(json_int_t)o->not_finite, "without_sigma", (json_int_t)o->unscaled,
		"without_sigma_wrong", (json_int_t)o->unscaled_wrong, "truth_error",
		report_number(o->truth_error), "sampled", (json_int_t)o->sample.count,
		"judged_operations", (json_int_t)f->verdict.operations, "sample_share",
		report_number(o->sample.share), "sample_sigma", report_number(o->sample.sigma),
		"rules", rules, "indices", indices, "worst", "index", o->worst_at, "expected",
		report_number(o->worst.expected), "got", report_number(o->worst.got), "sigma",
		report_number(o->worst.sigma), "ulp", report_number(o->worst.ulp));
}

json_t *report_json(const struct finding *f)
{
	const struct verdict *v = &f->verdict;
	json_t *j = json_pack("{s:i, s:s, s:s?, s:s?, s:s, s:s, s:s, s:o, s:s, s:i}", "version",
		JSON_VERSION, "capture", f->path, "name", f->name, "baseline", f->baseline, "op",
		f->op, "producer", f->producer, "device", f->device, "replay",
		json_written(replay, f), "verdict", finding_word(f), "exit", finding_exit(f));

	if (!f->judged) {
		json_object_set_new(j, "error", json_pack("{s:s, s:s, s:o, s:s}", "message", error_message(f->error.code), "item", f->error.item,
			"offset", f->error.offset == NO_OFFSET ? json_null() : json_integer((json_int_t)f->error.offset), "detail", f->error.detail));
		json_object_set_new(j, "reasons", json_pack("[o]", json_written(write_error, f)));
		return j;
	}
	json_t *outputs = json_array(), *reasons = json_array();
	for (int i = 0; i < v->n_out; i++) json_array_append_new(outputs, json_output(f, &v->out[i]));
	for (int i = 0; i < v->n_reason; i++) json_array_append_new(reasons, json_string(v->reason[i]));
	json_object_set_new(j, "contract", json_string(v->contract->name));
	json_object_set_new(j, "truth", json_string(v->truth));
	json_object_set_new(j, "second_opinion", json_string(v->second));
	json_object_set_new(j, "noisy_runs", json_integer(v->runs));
	json_object_set_new(j, "sigma_as_read", json_boolean(v->as_read));
	json_object_set_new(j, "outputs", outputs);
	if (v->n_trace) json_object_set_new(j, "traces", report_traces_json(v));
	if (v->cause.sought) json_object_set_new(j, "spectrum", eigen_cause_report_json(&v->cause));
	json_object_set_new(j, "reasons", reasons);
	if (v->examined) json_object_set_new(j, "xray", report_xray_json(v));
	return j;
}
