/* Layers of an engine, free-running and anchored. */
#include "logits_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define NONE ((double)NAN)

/* ---- the engine's states ---- */
static const struct tensor *state_of(const struct tensors *file, const struct tensor *logits, size_t i)
{
	static const char last[] = "logits";
	size_t n = strlen(logits->name), tail = sizeof last - 1;
	char name[512];

	if (n < tail || strcmp(logits->name + n - tail, last)) return NULL;
	snprintf(name, sizeof name, "%.*shidden.%zu", (int)(n - tail), logits->name, i);
	return tensors_find(file, name);
}

static bool fits(const struct tensor *t, size_t tokens, size_t width, struct error *e)
{
	char shape[128];

	return (dtype_info[t->dtype].is_float && t->rank == 2 && t->shape[0] == tokens && t->shape[1] == width)
		|| error_set(e, E_DIM, t->name, NO_OFFSET, "expected a hidden state [%zu,%zu], found %s", tokens, width, shape_text(t, shape, sizeof shape));
}

/* ---- free-running ---- */
struct norms { double exact, error, left; };

static bool add_norms(struct norms *s, const struct tensor *got, const double *exact, const double *replica, struct error *e)
{
	double *x = malloc(got->count * sizeof *x);

	if (!x) return error_set(e, E_MEMORY, got->name, NO_OFFSET, "%zu numbers", got->count);
	dtype_load(got->dtype, got->data, got->count, x);
	for (size_t i = 0; i < got->count; i++) {
		s->exact += exact[i] * exact[i];
		s->error += (x[i] - exact[i]) * (x[i] - exact[i]);
		if (replica) s->left += (x[i] - replica[i]) * (x[i] - replica[i]);
	}
	free(x);
	return true;
}

static void fill(struct layer_line *line, const struct norms *s, bool replica)
{
	line->error = s->exact > 0 ? sqrt(s->error / s->exact) : sqrt(s->error);
	line->explained = !replica ? NONE : s->error > 0 ? 1 - s->left / s->error : 1;
}

/* Those of the report, which has seen all rows; against the largest logits. */
static void logits_line_of(struct layer_line *line, const struct logit_report *report)
{
	double squares = 0, n = 0;

	for (size_t t = 0; t < report->positions; t++) {
		const struct logit_position *p = &report->position[t];
		for (size_t i = 0; i < p->n_top; i++) squares += p->top_reference[i].value * p->top_reference[i].value, n++;
	}
	line->error = squares > 0 ? report->rms_all / sqrt(squares / n) : NONE;
	line->explained = report->has_replica ? report->explained : NONE;
}

/* ---- anchored ---- */
static size_t wrong_embedding(const struct tensor *got, const double *exact)
{
	size_t wrong = 0;

	for (size_t i = 0; i < got->count; i++) {
		double x, right;
		unsigned char stored[8];
		dtype_store(got->dtype, &exact[i], 1, stored);
		dtype_load(got->dtype, stored, 1, &right);
		dtype_load(got->dtype, (const char *)got->data + i * dtype_info[got->dtype].size, 1, &x);
		wrong += !(x == right);
	}
	return wrong;
}

static bool run_anchored(struct layer_lines *r, const struct tensors *file, const struct tensor *logits, const struct model_question *q,
	struct error *e)
{
	size_t layers = r->n - 2;

	for (size_t l = 0; l <= layers; l++) {
		const struct tensor *x = state_of(file, logits, l), *y = l < layers ? state_of(file, logits, l + 1) : logits;
		struct layer_reading *reading = &r->line[l + 1].reading;
		struct call call;
		if (q->tick) q->tick("layers", l, layers + 1);
		bool ok = l < layers ? model_layer_call(q->model, l, x, NULL, NULL, y, &call, e) : model_head_call(q->model, x, NULL, y, &call, e);
		if (!ok || !layer_read(&call, &call.op->contracts[op_contract(call.op, q->contract)], reading, e)) return false;
		if (!reading->kept && r->first == SIZE_MAX) r->first = l;
	}
	if (q->tick) q->tick("layers", layers + 1, layers + 1);
	return true;
}

/* The model is one: what adds up one layer of a kind adds up all. */
static void take_sums(const struct layer_lines *r, struct model_question *q)
{
	for (size_t l = r->n - 1; l-- > 0;)
		q->sums[l + 2 < r->n ? (int)q->model->config.kind[l] : PART_HEAD] = r->line[l + 1].reading.sums;
}

bool layer_lines_read(struct layer_lines *r, bool *found, const struct tensors *file, const struct tensor *logits, struct model_question *q,
	struct error *e)
{
	size_t layers = q->model->config.layers;

	*r = (struct layer_lines){ .n = layers + 2, .first = SIZE_MAX };
	*found = state_of(file, logits, 0) != NULL;
	if (!*found) return true;
	for (size_t i = 0; i <= layers; i++) {
		const struct tensor *t = state_of(file, logits, i);
		if (!t) return error_set(e, E_MISSING, "hidden", NO_OFFSET, "hidden.0 is there, hidden.%zu is not", i);
		if (!fits(t, q->n, q->model->config.hidden, e)) return false;
	}
	r->line = calloc(r->n, sizeof *r->line);
	if (!r->line) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu layers", layers);
	if (run_anchored(r, file, logits, q, e)) {
		take_sums(r, q);
		return true;
	}
	layer_lines_free(r);
	return false;
}

bool layer_lines_follow(struct layer_lines *r, const struct tensors *file, const struct tensor *logits, const struct model_reference *runs,
	struct error *e)
{
	r->embedding_wrong = wrong_embedding(state_of(file, logits, 0), runs->truth.all[0].hi);
	for (size_t i = 0; i + 1 < r->n; i++) {
		struct norms s = { 0 };
		const struct tensor *got = state_of(file, logits, i);
		if (!add_norms(&s, got, runs->truth.all[i].hi, runs->has_replica ? runs->replica.all[i].hi : NULL, e)) return false;
		fill(&r->line[i], &s, runs->has_replica);
	}
	return true;
}

void layer_lines_free(struct layer_lines *r)
{
	free(r->line);
	*r = (struct layer_lines){ 0 };
}

/* ---- the verdict ---- */
static void judge_layer(const struct layer_reading *x, size_t layer, bool first, struct logit_report *to)
{
	char text[200];

	if (x->kept) return;
	for (int i = 0; i < x->n; i++)
		logits_reason(to, FAIL, "%s%s", first && i == 0 ? "the first that its contract does not explain: " : "", layer_sentence(layer, x, i, text, sizeof text));
	if (!x->understood)
		logits_reason(to, FAIL, "layer %zu, %s: neither its contract nor a known mistake explains its error (%.2f %% explained)", layer, x->op->name,
			100 * x->explained);
}

void layer_lines_judge(struct layer_lines *r, struct logit_report *to)
{
	logits_line_of(&r->line[r->n - 1], to);
	if (r->embedding_wrong) logits_reason(to, FAIL, "hidden.0 is not the embedding at %zu elements", r->embedding_wrong);
	for (size_t l = 0; l + 1 < r->n; l++) judge_layer(&r->line[l + 1].reading, l, l == r->first, to);
}

/* ---- reports ---- */
static const char *name_of(const struct layer_lines *r, size_t i, char *text, size_t size)
{
	if (i == 0 || i + 1 == r->n) return i ? "head" : "embedding";
	snprintf(text, size, "%zu %s", i - 1, r->line[i].reading.op->name);
	return text;
}

static void percent(struct table *t, double x)
{
	if (isnan(x)) table_add(t, "-");
	else table_add(t, "%.3f %%", 100 * x);
}

int layer_lines_text(const struct layer_lines *r)
{
	static const char *const heading[] = { "layer", ">error from the ids", ">replica explains", ">alone: contract explains", ">equal to the bit",
		">with what it does", ">equal", "" };
	struct table t = { .columns = sizeof heading / sizeof *heading, .heading = heading };
	char text[300];

	for (size_t i = 0; i < r->n; i++) {
		const struct layer_reading *x = &r->line[i].reading;
		bool convicted = i > 0 && x->n > 0;
		table_add(&t, "%s", name_of(r, i, text, sizeof text));
		table_add(&t, "%.3g", r->line[i].error);
		percent(&t, r->line[i].explained);
		percent(&t, i ? x->alone : NONE);
		percent(&t, i ? x->alone_equal : NONE);
		percent(&t, convicted ? x->explained : NONE);
		percent(&t, convicted ? x->equal : NONE);
		table_add(&t, "%s", i == 0 ? r->embedding_wrong ? "NOT the embedding" : "" : x->kept ? "" : x->understood ? "WRONG" : "NOT EXPLAINED");
	}
	putchar('\n');
	return table_print(&t);
}

json_t *layer_lines_json(const struct layer_lines *r)
{
	json_t *j = json_array();
	char text[300];

	for (size_t i = 0; i < r->n; i++) {
		const struct layer_reading *x = &r->line[i].reading;
		json_t *one = json_pack("{s:s,s:o,s:o}", "layer", name_of(r, i, text, sizeof text), "error", cli_json_number(r->line[i].error),
			"replica_explains", cli_json_number(r->line[i].explained)), *convicted = json_array();
		for (int k = 0; i && k < x->n; k++)
			json_array_append_new(convicted, json_pack("{s:s,s:s}", "name", x->convicted[k].name, "what", layer_sentence(i - 1, x, k, text, sizeof text)));
		if (i)
			json_object_update_new(one, json_pack("{s:b,s:b,s:o,s:o,s:o,s:o,s:o}", "kept", x->kept, "understood", x->understood,
				"contract_explains", cli_json_number(x->alone), "equal", cli_json_number(x->alone_equal), "explained", cli_json_number(x->explained),
				"equal_explained", cli_json_number(x->equal), "convicted", convicted));
		else json_object_set_new(one, "wrong", json_integer((json_int_t)r->embedding_wrong)), json_decref(convicted);
		json_array_append_new(j, one);
	}
	return j;
}

static void html_percent(FILE *to, double x)
{
	if (isnan(x)) fputs("<td>–</td>", to);
	else fprintf(to, "<td>%.3f %%</td>", 100 * x);
}

void layer_lines_html(FILE *to, const struct layer_lines *r)
{
	char text[300];

	fputs("<h2>Layer by layer</h2>\n<div class=\"wide\"><table><tr><th>layer</th><th>error from the ids</th><th>replica explains</th>"
		"<th>alone: contract explains</th><th>equal to the bit</th><th>with what it does</th><th></th></tr>\n", to);
	for (size_t i = 0; i < r->n; i++) {
		const struct layer_reading *x = &r->line[i].reading;
		bool bad = i ? !x->kept : r->embedding_wrong > 0;
		fprintf(to, "<tr><td%s>%s</td><td>%.3g</td>", bad ? " class=\"off\"" : "", name_of(r, i, text, sizeof text), r->line[i].error);
		html_percent(to, r->line[i].explained);
		html_percent(to, i ? x->alone : NONE);
		html_percent(to, i ? x->alone_equal : NONE);
		html_percent(to, i && x->n ? x->explained : NONE);
		fprintf(to, "<td>%s</td></tr>\n", !bad ? "" : i && x->understood ? x->convicted[0].name : "not explained");
	}
	fputs("</table></div>\n", to);
}
