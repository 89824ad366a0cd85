/* The x-ray's part of a report: the emulation, the coverage of the check, the table of suspects. */
#include <math.h>
#include <string.h>

#include "report.h"

static const char *type_of(const struct suspect *s) { return s->site >= 0 ? rounding_name(s->format, s->rounding) : "fault"; }

/* What is computed, and what is rounded. */
static void identified_line(FILE *to, const struct verdict *v)
{
	const struct profile *p = &v->x.profile;
	int rounded = 0;

	fprintf(to, "form %s", v->op->forms[p->emulation.form].name);
	if (p->emulation.chunk) fprintf(to, ", chunks of %zu", p->emulation.chunk);
	for (int j = 0; j < p->n; j++) {
		const struct reading *r = &p->reading[j];
		if (r->state != ROUNDED) continue;
		fprintf(to, "%s%s %s", rounded++ ? ", " : "; rounds ", v->op->sites[r->site].name, rounding_name(r->format, r->rounding));
	}
	if (p->amplified > saturated)
		fprintf(to, "; float32's noise alone makes %.3g %% of the error that the contract's roundings do: no site can be told\n", 100 * p->amplified);
	else fputs(rounded ? "\n" : "; rounds nothing\n", to);
}

/* As `etalon profile` has it. */
static void formula_lines(FILE *to, const struct structure_said *s)
{
	fprintf(to, "identified: form %s", s->form);
	if (s->chunk) fprintf(to, ", chunks of %zu", s->chunk);
	fprintf(to, "; of %zu candidates%s\n", s->tries, s->stopped ? ", before the budget was used up" : "");
	structure_lines_print(s->formula, "            ", to);
}

/* Of a call that fails, the faults that the emulation makes and that no name was given to. */
static void untold_line(FILE *to, const struct verdict *v)
{
	const uint64_t faults = v->outcome == FAIL ? v->x.profile.emulation.faults : 0;
	int n = 0;

	for (int i = 0; i < v->x.n; i++) {
		const struct suspect *s = &v->x.suspect[i];
		const int m = s->site < 0 ? op_fault(v->op, s->name) : -1;
		if (m < 0 || !(faults >> m & 1) || s->state == DETECTED) continue;
		fprintf(to, "%s%s", n++ ? ", " : "            explained with the help of ",
			s->name);
	}
	if (n) fprintf(to, ", which these outputs do not tell to be %s\n",
		n > 1 ? "faults" : "a fault");
}

static void structure_lines(FILE *to, const struct verdict *v)
{
	const struct profile *p = &v->x.profile;

	const struct structure_said *s = &v->x.structure;

	fputs("  structure ", to);
	if (v->x.identified && s->taken) formula_lines(to, s);
	else if (v->x.identified) identified_line(to, v);
	else fprintf(to, "not identified%s; of what is left, %.3g times float32's noise, %s\n",
		s->given_up ? ", nothing that was tried comes near" : s->stopped ? " within the budget" : "", sqrt(v->x.left), v->x.where);
	if (v->x.identified) untold_line(to, v);
	for (int i = 0; i < v->n_out; i++) {
		int o = v->out[i].out;
		fprintf(to, "            %-14s ", v->op->out[o].name);
		if (p->out[o].explained > 0) fprintf(to, "%8.4f %% of the error explained", 100 * p->out[o].explained);
		else fputs(v->x.identified ? "the error is float32's noise" : "nothing of the error explained", to);
		fprintf(to, ", %8.4f %% of elements equal to the emulation's to the bit\n", 100 * p->out[o].bit_equal);
	}
}

/* Names of the suspects in that state, at most `most` of them. */
static void names(FILE *to, const struct verdict *v, enum suspect_state state, int most)
{
	int seen = 0;

	for (int i = 0; i < v->x.n; i++) {
		const struct suspect *s = &v->x.suspect[i];
		if (s->state != state || seen++ >= most) continue;
		fprintf(to, "%s%s%s%s", seen > 1 ? ", " : "", s->name, s->site >= 0 ? "=" : "", s->site >= 0 ? type_of(s) : "");
	}
	if (seen > most) fprintf(to, " and %d more", seen - most);
}

/* Of one's own op there may be none but the one that was drawn. */
static bool has_other_cases(const struct op *op)
{
	return !op->file || (op->cases && op->cases[0].op && op->cases[1].op);
}

void report_coverage(FILE *to, const struct verdict *v)
{
	const int *count = v->x.count;
	char option[OP_OPTION];

	if (!v->examined) return;
	structure_lines(to, v);
	fprintf(to, "  coverage  %d suspect%s ruled out, %d not identifiable on these inputs", count[RULED_OUT], count[RULED_OUT] == 1 ? "" : "s",
		count[NOT_IDENTIFIABLE]);
	if (count[NOT_IDENTIFIABLE]) fputs(": ", to);
	names(to, v, NOT_IDENTIFIABLE, 6);
	if (count[NOT_POSSIBLE]) fprintf(to, "; %d not possible on these inputs: ", count[NOT_POSSIBLE]);
	names(to, v, NOT_POSSIBLE, 6);
	if (count[NOT_IDENTIFIABLE] && has_other_cases(v->op)) fprintf(to, "\n            (`etalon list cases %s%s` has inputs that show them)", v->op->name, op_option(v->op, option));
	putc('\n', to);
}

static void suspect_line(FILE *to, const struct suspect *s)
{
	char said[SUSPECT_TEXT], coefficient[64];

	suspect_said(s, said, sizeof said);
	if (s->state == DETECTED && !suspect_has_coefficient(s))
		snprintf(coefficient, sizeof coefficient, "%18s ", "by elements");
	else snprintf(coefficient, sizeof coefficient, "%8.4f ± %-8.3g", s->coefficient, s->error);
	fprintf(to, "  %-30s %-9s %s  %12.3g  %s\n", said, type_of(s), coefficient, s->size,
		suspect_name[s->state]);
}

void report_suspects(FILE *to, const struct verdict *v)
{
	if (!v->examined) return;
	fprintf(to, "\n  %-30s %-9s %18s  %12s  %s\n", "suspect", "type", "coefficient", "size in noise", "state");
	for (int state = NOT_POSSIBLE; state >= RULED_OUT; state--)
		for (int i = 0; i < v->x.n; i++) {
			const struct suspect *s = &v->x.suspect[i];
			if ((int)s->state == state) suspect_line(to, s);
		}
	putc('\n', to);
}

/* What was read of a structure that is none that is known; null where it was not asked for. */
static json_t *structure_said_json(const struct structure_said *s)
{
	if (!s->asked) return json_null();
	return json_pack("{s:b, s:s, s:I, s:o, s:I, s:f, s:b, s:b}", "identified", s->taken, "form", s->form, "chunk", (json_int_t)s->chunk,
		"formula", structure_lines_json(s->taken ? s->formula : NULL), "tries", (json_int_t)s->tries, "operations", s->work, "stopped", s->stopped, "given_up", s->given_up);
}

json_t *report_xray_json(const struct verdict *v)
{
	const struct profile *p = &v->x.profile;
	json_t *suspects = json_array(), *outputs = json_array();

	for (int i = 0; i < v->x.n; i++) {
		const struct suspect *s = &v->x.suspect[i];
		json_array_append_new(suspects, json_pack("{s:s, s:s, s:o, s:o, s:o, s:s}", "name", s->name, "type", type_of(s),
			"coefficient", report_number(s->coefficient), "error", report_number(s->error), "size", report_number(s->size), "state", suspect_name[s->state]));
		if (s->parameter)
			json_object_update_new(json_array_get(suspects, (size_t)i), json_pack("{s:s, s:o, s:o}", "parameter", s->parameter,
				"value", report_number(s->value), "last", report_number(s->last)));
	}
	for (int i = 0; i < v->n_out; i++) {
		int o = v->out[i].out;
		json_array_append_new(outputs, json_pack("{s:s, s:o, s:o, s:o}", "name", v->op->out[o].name, "explained", report_number(p->out[o].explained),
			"bit_equal", report_number(p->out[o].bit_equal), "rms", report_number(p->out[o].rms)));
	}
	return json_pack("{s:o, s:s, s:I, s:o, s:o, s:b, s:s, s:o, s:o}", "structure", structure_said_json(&v->x.structure), "form", v->op->forms[p->emulation.form].name, "chunk", (json_int_t)p->emulation.chunk,
		"left", report_number(v->x.left), "amplified", report_number(p->amplified), "identified", v->x.identified, "where", v->x.where, "outputs", outputs, "suspects", suspects);
}
