/* The structure as text and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "compare/print/print.h"
#include "search.h"

char *formula_text(struct search *s, const struct candidate *c)
{
	struct lowered l;
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	bool ok = to;

	for (struct graph *g = graph_of(s, c); g && ok; g = g->next) ok = lower_in(s, g, c, to, &l);
	ok = to && fclose(to) == 0 && ok;
	if (!ok) free(text), text = NULL;
	return text;
}

static double share(double left, double base) { return base > 0 ? 1 - left / base : left > 0 ? -INFINITY : 1; }

/* explained: of some output */
static bool read_outputs(struct search *s, const struct candidate *c, struct structure_reading *r, bool *explained)
{
	struct score score[MAX_OUT];

	if (!measured(s, c, score, NULL)) return false;
	r->identified = true;
	*explained = false;
	for (int o = 0; o < MAX_OUT; o++) {
		double left = 0, base = 0, equal = 0, count = 0;
		for (int k = 0; k < s->n_stage; k++)
			left += score[o].left[k], base += score[o].base[k], equal += score[o].equal[k], count += score[o].count[k];
		if (count == 0) continue;
		const enum dtype d = s->call->out[o]->dtype;
		/* an element that flips in a narrow type goes by one unit, however large what flips it was: more of them do */
		double noise = d == DT_F32 || d == DT_F64 ? sums_in_order * sums_in_order * s->noise[o] : sums_in_order * s->flips[o];
		r->out[o] = (struct structure_output){ share(score[o].raw, score[o].raw_base), share(left, base), equal / count, (size_t)count,
			left < fmax(float32s_share * float32s_share, noise) * count };
		bool well = fmin(r->out[o].explained, r->out[o].by_size) >= explained_enough;
		*explained = *explained || well;
		r->identified = r->identified && (well || r->out[o].noise);
	}
	return true;
}

double left_of(struct search *s, const struct candidate *c)
{
	struct structure_reading r = { 0 };
	double most = 0;
	bool explained;

	if (!read_outputs(s, c, &r, &explained)) return 1;
	for (int o = 0; o < MAX_OUT; o++)
		if (r.out[o].elements && !r.out[o].noise) most = fmax(most, 1 - fmin(r.out[o].explained, r.out[o].by_size));
	return most;
}

/* Where all that is left of every output is float32's noise, no rounding is claimed: the form without any is taken, if it does as well. */
static bool least_claimed(struct search *s, struct candidate *best, struct open_list *open, struct structure_reading *r)
{
	struct candidate bare = { .form = best->form };
	bool explained;

	if (!read_outputs(s, best, r, &explained)) return false;
	if (explained || !r->identified) return true;
	if (!read_outputs(s, &bare, r, &explained)) return false;
	if (!r->identified) return read_outputs(s, best, r, &explained);
	open->n = 0;
	s->rival = -1;
	*best = bare;
	return true;
}

/* What is rounded beyond float32, the inverse's parts too. */
static void list_roundings(const struct search *s, const struct candidate *c, const double effect[MAX_SITE], struct structure_reading *r)
{
	for (int i = 0; i < c->met.n && r->n_rounding < MAX_STRUCTURE_ROUNDING; i++) {
		struct structure_rounding *to = &r->rounding[r->n_rounding];
		if (!rounding_at(s, c, c->met.key[i], c->config.value[c->met.key[i]], to)) continue;
		to->effect = to->site >= 0 ? effect[to->site] : 0;
		to->needed = to->effect > 0 && !s->how->allows(to, s->how->with);
		r->n_rounding++;
	}
}

static bool carries_as_named(const struct search *s, const struct candidate *c)
{
	enum { MERGED_IN_BF16 = 4 };
	bool named = true;

	for (int i = 0; i < c->met.n && named; i++) {
		const struct key *k = &s->keys.at[c->met.key[i]];
		const int value = c->config.value[c->met.key[i]];
		struct structure_rounding r;
		if (k->what == W_HIGH || k->what == W_LOW) named = value != MERGED_IN_BF16;
		else if (k->what != W_STORE && rounding_at(s, c, c->met.key[i], value, &r)) named = r.site >= 0 || !k->carried;
	}
	return named;
}

/* With the fault that the kernel has too. */
static bool answer_of(struct search *s, const struct candidate *best, struct structure_reading *r)
{
	struct graph g;
	const char *why = NULL;
	bool ok = answers_make(s, r->answer);

	if (!ok || r->fault < 0) return ok && answered_in(s, graph_of(s, best), best, r->answer);
	ok = graph_with(s, &g, best, r->fault, &why) && !why && answered_in(s, &g, best, r->answer);
	graph_free(&g);
	return ok;
}

/* What the candidate chose, but what stays open. */
static bool list_choices(const struct search *s, const struct candidate *c, const struct open_list *open, struct structure_choices *to)
{
	const int chunk = s->chunk_key[c->form];

	*to = (struct structure_choices){ .form = c->form, .at = malloc((size_t)(c->met.n + 1) * sizeof *to->at) };
	for (int i = 0; i < c->met.n && to->at; i++) {
		int key = c->met.key[i];
		if (s->keys.at[key].kind == CHOOSE_DEFAULT || is_open(open, key) || key == chunk) continue;
		to->at[to->n++] = (struct structure_choice){ s->keys.at[key].id, (unsigned char)type_of(s, c, key, c->config.value[key]) };
	}
	if (to->at && chunk >= 0) to->at[to->n++] = (struct structure_choice){ s->keys.at[chunk].id, c->config.value[chunk] };
	return to->at;
}

bool structure_read(struct structure_reading *r, const struct call *call, const struct structure_search *how, const char **why, struct error *e)
{
	struct search *s = calloc(1, sizeof *s);
	struct open_list *open = calloc(1, sizeof *open);
	struct candidate best = { 0 };
	double effect[MAX_SITE] = { 0 };

	*r = (struct structure_reading){ .fault = -1 };
	*why = NULL;
	if (!s || !open) return free(s), free(open), error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "structure");
	bool ok = search_make(s, call, how, why, e);
	if (ok && !*why) {
		find_structure(s, &best);
		polish(s, &best, open);
		if (look_at_all(s, &best)) polish(s, &best, open);
		if (how->allows && !s->failed) needed_roundings(s, &best, effect, r->without);
		size_t step = look_at(s, 1);
		const struct config found = best.config;
		bool said = !s->failed && least_claimed(s, &best, open, r) && (r->text = formula_text(s, &best)) && (r->open = open_text(s, &best, open));
		if (!said) *why = "a form that does not run here, or more than memory holds";
		look_at(s, step);
		r->fault = r->identified ? fault_of(s, &best) : -1;
		if (!*why && how->answer && r->identified && !answer_of(s, &best, r)) *why = "more than memory holds";
		list_roundings(s, &best, effect, r);
		r->as_named = carries_as_named(s, &best) && r->n_rounding < MAX_STRUCTURE_ROUNDING;
		bool claimed = r->identified && !memcmp(&found, &best.config, sizeof found);
		if (!*why && claimed && !list_choices(s, &best, open, &r->choices)) *why = "more than memory holds";
		r->form = call->op->forms[best.form].name;
		r->chunk = s->chunk_key[best.form] >= 0 ? graph_of(s, &best)->f.loop->by : 0;
		r->tries = s->tries;
		r->work = s->work;
		r->stopped = s->stopped;
		r->given_up = s->given_up;
		r->iterates = s->rounded[0] > 0;
	}
	if (*why) structure_free(r);
	search_free(s);
	free(open);
	free(s);
	return ok;
}

void structure_free(struct structure_reading *r)
{
	for (int o = 0; o < MAX_OUT; o++) {
		free(r->answer[o]);
		for (int k = 0; k < MAX_SITE; k++) free(r->without[k][o]);
	}
	free(r->text);
	free(r->open);
	free(r->choices.at);
	*r = (struct structure_reading){ 0 };
}

bool structure_hand_on(struct structure_reading *r, struct structure_choices *known)
{
	if (!r->choices.n) return false;
	free(known->at);
	*known = r->choices;
	r->choices = (struct structure_choices){ 0 };
	return true;
}

json_t *structure_lines_json(const char *t)
{
	json_t *lines = json_array();

	while (t && *t) {
		size_t n = strcspn(t, "\n");
		json_array_append_new(lines, json_stringn(t, n));
		t += n + (t[n] != 0);
	}
	return lines;
}

json_t *structure_json(const struct structure_reading *r, const struct call *call)
{
	json_t *outputs = json_array(), *lines = structure_lines_json(r->identified ? r->text : NULL);
	json_t *open = structure_lines_json(r->identified ? r->open : NULL);

	for (int o = 0; o < MAX_OUT; o++) {
		const struct structure_output *x = &r->out[o];
		if (!x->elements) continue;
		json_array_append_new(outputs, json_pack("{s:s, s:I, s:o, s:o, s:b, s:o}", "name", call->op->out[o].name, "elements", (json_int_t)x->elements,
			"explained", json_figure(x->explained), "explained_by_size", json_figure(x->by_size), "noise", x->noise,
			"bit_equal", json_figure(x->equal)));
	}
	const char *fault = r->fault < 0 ? NULL : call->op->faults[r->fault].name;
	return json_pack("{s:b, s:s?, s:s, s:I, s:o, s:o, s:o, s:I, s:f, s:b}", "identified", r->identified, "fault", fault, "form",
		r->form ? r->form : "", "chunk", (json_int_t)r->chunk, "outputs", outputs, "formula", lines, "open", open,
		"tries", (json_int_t)r->tries, "operations", r->work, "stopped", r->stopped);
}

void structure_lines_print(const char *t, const char *before, FILE *to)
{
	while (t && *t) {
		size_t n = strcspn(t, "\n");
		fprintf(to, "%s%.*s\n", before, (int)n, t);
		t += n + (t[n] != 0);
	}
}

void structure_print(const struct structure_reading *r, const struct call *call, FILE *to)
{
	fprintf(to, "  structure, form \"%s\"", r->form);
	if (r->chunk) fprintf(to, " in chunks of %zu", r->chunk);
	fprintf(to, ", %zu candidates in %.2f G operations%s\n", r->tries, r->work * 1e-9,
		r->stopped ? ": the budget was used up before the search was over" : "");
	structure_lines_print(r->identified ? r->text : NULL, "    ", to);
	if (!r->identified) fputs("  the structure is not identified: nothing is said of what it rounds\n", to);
	if (!r->identified && r->iterates) fputs("  a call of the kernel with one iteration, then two, tells more: name those with --from\n", to);
	if (r->identified && r->open && *r->open) fputs("\n  cannot be told apart\n", to);
	structure_lines_print(r->identified ? r->open : NULL, "    ", to);
	if (r->fault >= 0) fprintf(to, "\n  has the fault %s: %s\n", call->op->faults[r->fault].name, call->op->faults[r->fault].what);
	fputs("\n  output          error explained   equal to the bit\n", to);
	for (int o = 0; o < MAX_OUT; o++)
		if (r->out[o].elements)
			fprintf(to, "  %-14s %14.4f %% %16.4f %%%s\n", call->op->out[o].name, 100 * fmax(0, r->out[o].explained), 100 * r->out[o].equal,
				r->out[o].noise && r->out[o].explained < explained_enough ? "   what is left is float32's noise" : "");
}
