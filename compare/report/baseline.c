#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baseline.h"
#include "compare/limits/limits.h"
#include "compare/print/print.h"
#include "compare/verdict/quantile.h"

static const char *site_text(const struct verdict *v, const struct reading *r, char text[96])
{
	snprintf(text, 96, "%s=%s", v->op->sites[r->site].name, rounding_name(r->format, r->rounding));
	return text;
}

static bool has_site(const json_t *sites, const char *text)
{
	size_t i;
	json_t *s;

	json_array_foreach(sites, i, s)
		if (json_is_string(s) && !strcmp(json_string_value(s), text)) return true;
	return false;
}

static bool has_output(const struct verdict *v, const char *name)
{
	bool found = false;

	for (int i = 0; i < v->n_out; i++)
		found = found || !strcmp(v->op->out[v->out[i].out].name, name);
	return found;
}

static void compare_outputs(const json_t *was, struct verdict *v)
{
	const char *name;
	json_t *old;

	for (int i = 0; i < v->n_out; i++) {
		const struct output_verdict *o = &v->out[i];
		name = v->op->out[o->out].name;
		const json_t *rms = json_object_get(json_object_get(was, "rms"), name);
		double limit = json_number_value(rms) * sqrt(mean_square_bound(o->freedom, alpha)), now = o->rule[RULE_RMS].value;
		if (!json_is_number(rms)) verdict_fail(v, "out.%s: not in the baseline; --update-baseline adds it", name);
		else if (!(now <= limit))
			verdict_fail(v, "out.%s: worse than the baseline: rms error %.4g sigma, was %.4g, at most %.4g by chance", name, now,
				json_number_value(rms), limit);
	}
	json_object_foreach(json_object_get(was, "rms"), name, old) {
		if (has_output(v, name)) continue;
		verdict_fail(v, "the baseline has out.%s, which this capture lacks", name);
	}
}

/* Without the list, as --quick writes none, nothing is known of what the kernel rounded. */
static void compare_sites(const json_t *was, struct verdict *v)
{
	const json_t *rounds = json_object_get(was, "rounds");
	char text[96];

	if (!v->examined || !json_is_array(rounds)) return;
	if (!v->x.identified)
		verdict_fail(v, "the structure is not identified, which it was in the baseline");
	for (int j = 0; v->x.identified && j < v->x.profile.n; j++) {
		const struct reading *r = &v->x.profile.reading[j];
		if (r->state == ROUNDED && !has_site(rounds, site_text(v, r, text)))
			verdict_fail(v, "rounds %s, which it did not in the baseline", text);
	}
}

/* A looser contract has larger sigma, and another call other errors: their figures say nothing of each other. */
static void compare_calls(const json_t *was, const char *call, struct verdict *v)
{
	const char *op = json_text(was, "op"), *contract = json_text(was, "contract");

	if (strcmp(op, v->op->name))
		verdict_fail(v, "a call of %s, in the baseline one of %s", v->op->name, op);
	else if (strcmp(call, json_text(was, "call")))
		verdict_fail(v,
			"another call than in the baseline: other shapes, types or parameters");
	else if (strcmp(contract, v->contract->name))
		verdict_fail(v, "judged under contract %s, in the baseline under %s",
			v->contract->name, contract);
	else {
		compare_outputs(was, v);
		compare_sites(was, v);
	}
}

static void compare_one(const json_t *was, struct finding *f)
{
	struct verdict *v = &f->verdict;

	if (was && v->outcome == UNDECIDED)
		verdict_fail(v, "undecided, which it was not in the baseline");
	else if (was) compare_calls(was, f->call, v);
	else if (v->outcome == PASS)
		verdict_fail(v, "not in the baseline; --update-baseline adds it");
}

void baseline_compare(const json_t *captures, const char *path, struct finding *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!f[i].judged) continue;
		int before = f[i].verdict.n_reason;
		compare_one(json_object_get(captures, f[i].name), &f[i]);
		if (f[i].verdict.n_reason == before) continue;
		f[i].baseline = path;
		for (int r = before; r < f[i].verdict.n_reason; r++)
			make_clean(f[i].verdict.reason[r]);
	}
}

static char *gone_replay(const char *path, const char *name, char *const *folder, size_t folders)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to) return NULL;
	fputs("etalon gate", to);
	for (size_t i = 0; i < folders; i++) {
		putc(' ', to);
		shell_quoted(to, folder[i]);
	}
	baseline_options(to, path, name);
	fclose(to);
	if (text) make_clean(text);
	return text;
}

json_t *baseline_gone(const json_t *captures, const char *path, const char *name,
	char *const *folder, size_t folders)
{
	const json_t *was = json_object_get(captures, name);
	char *again = gone_replay(path, name, folder, folders);
	json_t *j = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:[], s:[s]}", "version",
		JSON_VERSION, "capture", name, "name", name, "baseline", path, "op",
		json_text(was, "op"), "producer", json_text(was, "producer"), "device",
		json_text(was, "device"), "replay", again ? again : "", "verdict", "fail", "exit",
		EXIT_FAIL, "contract", json_text(was, "contract"), "outputs", "reasons",
		"in the baseline, but not among the captures; --update-baseline --prune removes "
		"its entry");

	free(again);
	return j;
}

json_t *baseline_entry(const struct finding *f)
{
	const struct verdict *v = &f->verdict;
	bool identified = v->examined && v->x.identified;
	json_t *rms = json_object(), *rounds = identified ? json_array() : json_null();
	char text[96];

	for (int i = 0; i < v->n_out; i++)
		json_object_set_new(rms, v->op->out[v->out[i].out].name, json_real(v->out[i].rule[RULE_RMS].value));
	for (int j = 0; identified && j < v->x.profile.n; j++)
		if (v->x.profile.reading[j].state == ROUNDED) json_array_append_new(rounds, json_string(site_text(v, &v->x.profile.reading[j], text)));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "op", f->op, "call", f->call,
		"contract", v->contract->name, "producer", f->producer, "device", f->device, "rms", rms,
		"rounds", rounds);
}
