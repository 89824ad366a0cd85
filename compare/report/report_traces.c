/* The iterations of a report: see traces.h. */
#include "report.h"

/* Of what the iterations before leave, to the iteration's own error. */
static double amplification(const struct trace_entries *t, size_t k) { return t->entry[k].free / t->entry[k].anchored; }

static void text_trace(FILE *to, const struct op *op, const struct trace_entries *t)
{
	fprintf(to, "\n  %-8s  entry   rms in sigma (limit)   error from the entry before   free-running   amplified\n", op->out[t->out].name);
	for (size_t k = 0; k < t->n; k++) {
		fprintf(to, "  %15zu      %9.4g (%5.3g)   %27.4g   %12.4g", k, t->entry[k].sigma, t->limit, t->entry[k].anchored, t->entry[k].free);
		if (t->entry[k].anchored > 0) fprintf(to, "   %9.3g", amplification(t, k));
		putc('\n', to);
	}
}

void report_traces(FILE *to, const struct verdict *v)
{
	for (int i = 0; i < v->n_trace; i++) text_trace(to, v->op, &v->trace[i]);
	if (v->n_trace) putc('\n', to);
}

json_t *report_traces_json(const struct verdict *v)
{
	json_t *all = json_array();

	for (const struct trace_entries *t = v->trace; t < v->trace + v->n_trace; t++) {
		json_t *entries = json_array();
		for (size_t k = 0; k < t->n; k++)
			json_array_append_new(entries, json_pack("{s:o, s:o, s:o, s:o}", "rms_sigma", report_number(t->entry[k].sigma),
				"error", report_number(t->entry[k].anchored), "free_running", report_number(t->entry[k].free),
				"amplification", report_number(amplification(t, k))));
		json_array_append_new(all, json_pack("{s:s, s:o, s:o}", "name", v->op->out[t->out].name, "limit", report_number(t->limit), "entries", entries));
	}
	return all;
}
