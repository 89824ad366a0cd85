#include "isolate_report.h"

#include <stdlib.h>
#include <string.h>

#include "compare/print/print.h"

static const char *result(const struct isolate_run *r, int law, char *text, size_t size)
{
	const struct outcome_of_law *o = &r->laws.law[law];

	if (r->laws.broken == law) return "BROKEN";
	if (!o->plays) return "not tried";
	if (!o->counted) return "not identifiable here";
	if (law == LAW_VALUES) snprintf(text, size, "within the expected error: %.3g sigma at most", o->worst);
	else if (o->within) snprintf(text, size, "%zu of %zu plays bit for bit, the others within %.3g sigma", o->plays - o->within, o->plays, o->worst);
	else snprintf(text, size, law == LAW_TABLES || law == LAW_GUARDS || law == LAW_SCRATCH ? "holds" : "bit for bit");
	return text;
}

static void table(const struct isolate_run *r)
{
	static const char *const heading[] = { "law", ">counted", "", "what it says", "result" };
	struct table t = { .columns = 5, .heading = heading };
	char text[128];

	for (int i = 0; i < LAWS; i++) {
		if (r->laws.broken >= 0 && !r->laws.law[i].plays) continue;
		table_add(&t, "%s", laws[i].name);
		table_add(&t, "%zu", r->laws.law[i].counted);
		table_add(&t, "%s", laws[i].unit);
		table_add(&t, "%s", laws[i].what);
		table_add(&t, "%s", result(r, i, text, sizeof text));
	}
	table_print(&t);
}

/* The faults that would have shown: of the reference's, and those that one law alone sees. */
static bool would_show(const struct isolate_run *r, int i) { return r->visible[i]; }
static const char *seen_by_law(const struct isolate_run *r, int law) { return r->laws.law[law].counted ? laws[law].fault : NULL; }

static void coverage(FILE *to, const struct isolate_run *r)
{
	const struct fault_spec *m = op_of_slots()->faults;
	size_t shown = 0, hidden = 0;

	for (int i = 0; m[i].name; i++) shown += would_show(r, i);
	for (int i = 0; i < LAWS; i++)
		shown += laws[i].fault && seen_by_law(r, i) && (i != LAW_GUARDS || !seen_by_law(r, LAW_SCRATCH));
	fprintf(to, "\ncoverage  %zu faults of mixed batches would have shown", shown);
	for (int i = 0; m[i].name; i++)
		if (!would_show(r, i)) fprintf(to, "%s%s", hidden++ ? ", " : "; not identifiable here: ", m[i].name);
	for (int i = 0; i < LAWS; i++) {
		bool other = i == LAW_GUARDS || (i == LAW_SCRATCH && seen_by_law(r, LAW_GUARDS));
		if (laws[i].fault && !other && !seen_by_law(r, i)) fprintf(to, "%s%s", hidden++ ? ", " : "; not identifiable here: ", laws[i].fault);
	}
	putc('\n', to);
}

static void where(FILE *to, const struct breach *b)
{
	const struct { const char *name; int value; } part[] = {
		{ "request", b->request }, { "slot", b->slot }, { "layer", b->layer }, { "first wrong step", b->step }
	};
	const char *separator = "";

	fputs("  where     ", to);
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		if (part[i].value < 0) continue;
		fprintf(to, "%s%s %d", separator, part[i].name, part[i].value);
		separator = ", ";
	}
	fputs(*separator ? "\n" : "everywhere\n", to);
}

static void replay(FILE *to, const struct isolate_run *r)
{
	fprintf(to, "etalon isolate --backend %s", r->asked);
	if (r->prefill) fprintf(to, " --ranks %d:%d", r->prefill, r->decode);
	if (r->shrunk) {
		fprintf(to, "%s --seed %llu --state %s --data %s --play '", r->heads ? " --heads 128" : "", (unsigned long long)r->seed,
			dtype_info[r->state].name, dtype_info[r->data].name);
		scenario_print(to, &r->shortest);
		putc('\'', to);
	} else {
		fprintf(to, " --law %s", laws[r->laws.broken].name);
	}
	if (r->inject) fprintf(to, " --inject %s", r->inject);
}

static void failure(FILE *to, const struct isolate_run *r)
{
	const struct breach *b = &r->laws.breach;
	const struct explanation *w = &r->why;

	fprintf(to, "\n  broken    %s: %s\n", b->law, b->what);
	if (r->shrunk) where(to, b);
	if (w->fault) fprintf(to, "  fault     %s: %s\n", w->fault, w->what);
	else fputs("  fault   none that is known explains it\n", to);
	if (w->fault && w->wrong)
		fprintf(to, "            what the reference answers with it is what %zu of %zu wrong tokens hold%s\n", w->explained, w->wrong,
			w->alone ? "; no other fault does" : ", but not with it alone");
	if (w->seen && *w->seen) fprintf(to, "            seen in %s\n", w->seen);
	if (w->leaks_from >= 0) fprintf(to, "  leak      what slot %d held before reaches an output\n", w->leaks_from);
	if (r->shrunk) {
		fprintf(to, "  shortest  %d step%s, %zu event%s: ", r->shortest.steps, r->shortest.steps == 1 ? "" : "s", r->shortest.n,
			r->shortest.n == 1 ? "" : "s");
		scenario_print(to, &r->shortest);
		putc('\n', to);
	}
}

void isolate_text(FILE *to, const struct isolate_run *r)
{
	fprintf(to, "isolate: %s backend, ", r->backend);
	if (r->play) fprintf(to, "the scenario given, seed %llu\n\n", (unsigned long long)r->first_seed);
	else fprintf(to, "%llu seed%s from %llu, %d steps each\n\n", (unsigned long long)r->seeds, r->seeds == 1 ? "" : "s",
		(unsigned long long)r->first_seed, r->steps);
	fflush(to);
	table(r);
	if (r->laws.broken < 0) {
		if (r->laws.law[LAW_VALUES].plays) coverage(to, r);
		fputs("PASS\n", to);
		return;
	}
	failure(to, r);
	fputs("FAIL\nreplay: ", to);
	replay(to, r);
	putc('\n', to);
}

static char *as_text(void (*print)(FILE *, const struct isolate_run *), const struct isolate_run *r)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (!f) return NULL;
	print(f, r);
	return fclose(f) == 0 ? text : NULL;
}

static void print_shortest(FILE *to, const struct isolate_run *r) { if (r->shrunk) scenario_print(to, &r->shortest); }

static json_t *failure_json(const struct isolate_run *r)
{
	const struct breach *b = &r->laws.breach;
	const struct explanation *w = &r->why;
	char *scenario = as_text(print_shortest, r), *again = as_text(replay, r);
	json_t *j = json_pack("{s:s,s:s,s:i,s:i,s:i,s:i,s:s?,s:I,s:I,s:i,s:s?,s:s?}", "law", b->law, "what", b->what, "request", b->request,
		"slot", b->slot, "layer", b->layer, "step", b->step, "fault", w->fault, "wrong_tokens", (json_int_t)w->wrong,
		"explained_tokens", (json_int_t)w->explained, "leaks_from", w->leaks_from, "shortest", r->shrunk ? scenario : NULL, "replay", again);

	free(scenario);
	free(again);
	return j;
}

json_t *isolate_json(const struct isolate_run *r)
{
	const struct fault_spec *m = op_of_slots()->faults;
	json_t *list = json_array(), *ruled_out = json_array();

	for (int i = 0; m[i].name; i++)
		if (r->laws.broken < 0 && would_show(r, i)) json_array_append_new(ruled_out, json_string(m[i].name));
	for (int i = 0; i < LAWS; i++) {
		const struct outcome_of_law *o = &r->laws.law[i];
		json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:s,s:I,s:o,s:b}", "law", laws[i].name, "plays", (json_int_t)o->plays,
			"counted", (json_int_t)o->counted, "unit", laws[i].unit, "within", (json_int_t)o->within, "worst_sigma", json_figure(o->worst),
			"broken", r->laws.broken == i));
	}
	return json_pack("{s:s,s:I,s:I,s:i,s:s,s:o,s:o,s:o?}", "backend", r->backend, "first_seed", (json_int_t)r->first_seed, "seeds",
		(json_int_t)r->seeds, "steps", r->steps, "verdict", r->laws.broken < 0 ? "pass" : "fail", "laws", list, "ruled_out", ruled_out, "failure",
		r->laws.broken < 0 ? NULL : failure_json(r));
}
