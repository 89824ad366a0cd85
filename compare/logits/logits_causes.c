/* Causes of wrong logits: layers, or suspects model-wide. */
#include "logits_causes.h"

#include <string.h>

#include "compare/limits/limits.h"
#include "compare/print/print.h"

bool causes_prefix(const struct tensor *logits, char *text, size_t size)
{
	static const char last[] = "logits";
	size_t n = strlen(logits->name), tail = sizeof last - 1;

	if (n < tail || n - tail >= size || strcmp(logits->name + n - tail, last)) return false;
	snprintf(text, size, "%.*s", (int)(n - tail), logits->name);
	return true;
}

/* The model is one: what adds up one layer of a kind adds up all. */
static void take_sums(const struct model_reading *r, struct model_question *q)
{
	for (size_t l = r->parts; l-- > 0;) if (!r->part[l].few) q->sums[l < r->model->config.layers ? (int)r->model->config.kind[l]
		: PART_HEAD] = r->part[l].sums;
}

bool causes_readable(const struct tensors *file, const struct tensor *logits)
{
	char prefix[128], name[160];

	if (!causes_prefix(logits, prefix, sizeof prefix)) return false;
	snprintf(name, sizeof name, "%shidden.0", prefix);
	return tensors_find(file, name) != NULL;
}

bool causes_read(struct logit_causes *x, const struct tensors *file, const struct tensor *logits, struct model_question *q,
	struct error *e)
{
	char prefix[128];
	struct engine engine = { .file = file, .prefix = prefix, .watch = q->watch, .probe = q->probe };

	if (!causes_readable(file, logits) || !causes_prefix(logits, prefix, sizeof prefix)) return true;
	if (!model_read(q->model, q->contract, q->ids, q->n, &engine, &x->layers, e)) return false;
	x->has_layers = true;
	if (x->layers.ended) return true;
	take_sums(&x->layers, q);
	q->exact = &x->layers.exact;
	q->emulation = &x->layers.emulation;
	return true;
}

bool causes_try(struct logit_causes *x, const struct tensor *logits, const struct model_question *q, struct error *e)
{
	x->n = model_suspects(q->model, q->contract, q->ids, q->n, logits, x->suspect, MAX_CAUSES, &x->alone, e);
	x->tried = x->n >= 0;
	return x->tried;
}

/* A rounding may be another contract's. */
bool causes_explain(const struct logit_causes *x)
{
	for (int i = 0; x->tried && i < x->n; i++)
		if (!model_op((int)x->suspect[i].kind)->faults[x->suspect[i].fault].is_rounding) return true;
	return false;
}

bool causes_name(const struct logit_causes *x)
{
	for (size_t l = 0; x->has_layers && l < x->layers.parts; l++)
		if (layer_has_fault(&x->layers.part[l])) return true;
	return *x->look || (x->has_layers && x->layers.looks);
}

void causes_free(struct logit_causes *x)
{
	if (x->has_layers) model_reading_free(&x->layers);
	*x = (struct logit_causes){ 0 };
}

/* ---- the verdict ---- */
static const struct fault_spec *fault_of(const struct model_suspect *s)
{
	return &model_op((int)s->kind)->faults[s->fault];
}

static const char *suspect_sentence(const struct model_suspect *s, char *text, size_t size)
{
	snprintf(text, size, "all layers of %s, %s: explains %.2f %% of the error", model_op((int)s->kind)->name, fault_of(s)->what,
		100 * s->explained);
	return text;
}

/* One fault in all layers of its kind is one fault. */
static bool same_fault(const struct layer_reading *p, const struct layer_reading *q)
{
	return p->op == q->op && !p->kept && !q->kept && p->n == 1 && q->n == 1
		&& !strcmp(p->detected[0].what, q->detected[0].what);
}

/* Of the parts before `end` those with part l's fault. */
static size_t layers_alike(const struct model_reading *r, size_t l, size_t end)
{
	size_t n = 0;

	for (size_t k = 0; k < end; k++) n += same_fault(&r->part[k], &r->part[l]);
	return n;
}

static void judge_layers(const struct model_reading *r, struct logit_report *to)
{
	char text[256];

	for (int i = 0; i < r->looks; i++) logits_reason(to, FAIL, "%s", r->look[i]);
	if (r->embedding_off) logits_reason(to, FAIL, "hidden.0 is not the embedding at %zu elements", r->embedding_off);
	for (size_t l = 0; l < r->parts; l++) {
		const struct layer_reading *p = &r->part[l];
		const char *first = (int)l == r->first ? "the first that is wrong: " : "";
		if (p->kept || layers_alike(r, l, l)) continue;
		size_t alike = layers_alike(r, l, r->parts);
		if (!p->n) logits_reason(to, FAIL, "%s%s; no known fault explains it", first, model_part_sentence(r, l, text, sizeof text));
		for (int i = 0; i < p->n; i++, first = "")
			if (alike > 1) logits_reason(to, FAIL, "%s%s, in %zu layers of this kind", first, layer_sentence(l, p, i, text, sizeof text), alike);
			else logits_reason(to, FAIL, "%s%s", first, layer_sentence(l, p, i, text, sizeof text));
	}
}

/* A cause says more than a figure: the first goes before all reasons. */
void causes_judge(const struct logit_causes *x, struct logit_report *to)
{
	char text[256];
	int before = to->n_reason;

	if (*x->look) logits_reason(to, FAIL, "%s", x->look);
	if (x->has_layers) judge_layers(&x->layers, to);
	if (x->tried) logits_reason(to, FAIL, "%s", x->n ? suspect_sentence(&x->suspect[0], text, sizeof text)
		: "no known fault, made in all layers of a kind, explains the error");
	if (before == 0 || before >= to->n_reason) return;
	memcpy(text, to->reason[before], sizeof text);
	memmove(to->reason[1], to->reason[0], (size_t)before * sizeof *to->reason);
	memcpy(to->reason[0], text, sizeof text);
}

/* ---- reports ---- */
void causes_text(FILE *to, const struct logit_causes *x)
{
	char text[300];

	if (x->has_layers) fputc('\n', to), model_reading_print(to, &x->layers);
	if (!x->tried) return;
	fprintf(to, "\nsuspects    from the logits alone, where the contract explains %.3f %% of the error\n", 100 * x->alone);
	for (int i = 0; i < x->n; i++) fprintf(to, "  %-40s  %s\n", fault_of(&x->suspect[i])->name, suspect_sentence(&x->suspect[i],
		text, sizeof text));
	if (!x->n) fprintf(to, "  none leaves less than half of it\n");
}

json_t *causes_json(const struct logit_causes *x)
{
	json_t *suspects = x->tried ? json_array() : json_null();

	for (int i = 0; i < x->n; i++)
		json_array_append_new(suspects, json_pack("{s:s,s:s,s:o}", "layers", model_op((int)x->suspect[i].kind)->name, "fault",
			fault_of(&x->suspect[i])->name, "explained", json_figure(x->suspect[i].explained)));
	return json_pack("{s:o,s:o}", "layers", x->has_layers ? model_reading_json(&x->layers) : json_null(), "suspects", suspects);
}

static void html_layer(FILE *to, const struct model_reading *r, size_t l)
{
	const struct layer_reading *p = &r->part[l];
	const struct grown *g = &r->grown[l + 1];
	char text[300];

	fprintf(to, "<tr><td%s>%zu %s</td>", p->kept ? "" : " class=\"off\"", l, p->op->name);
	fprintf(to, "<td>%.4g</td><td>%.3f %%</td><td>%.4g</td><td>%.3f %%</td><td>%.2f %%</td><td class=\"note\">", g->rms,
		100 * g->explained, p->rms, 100 * p->alone, 100 * p->alone_equal);
	if (p->kept) fputs(p->read ? "explained by its contract" : "within what its contract allows", to);
	for (int i = 0; i < p->n; i++)
		fprintf(to, "%s%s (%.3f %% explained)", i ? "; " : "", layer_sentence(l, p, i, text, sizeof text),
			100 * p->detected[i].explained);
	if (!p->understood) fputs(" not explained", to);
	fputs("</td></tr>\n", to);
}

void causes_html(FILE *to, const struct logit_causes *x)
{
	char text[300];

	if (x->has_layers) {
		fputs("<h2>Layer by layer</h2>\n<div class=\"wide\"><table><tr><th></th><th colspan=\"2\">from the ids</th>"
			"<th colspan=\"4\">from the engine's own state</th></tr>\n<tr><th>layer</th><th>rms error</th><th>emulation explains</th>"
			"<th>rms error</th><th>contract explains</th><th>equal to the bit</th><th class=\"note\">verdict</th></tr>\n", to);
		for (size_t l = 0; l < x->layers.parts; l++) html_layer(to, &x->layers, l);
		fputs("</table></div>\n", to);
	}
	if (!x->tried) return;
	fprintf(to, "<h2>Suspects, from the logits alone</h2>\n<p>The contract explains %.3f %% of the error.</p>\n<ul>\n",
		100 * x->alone);
	for (int i = 0; i < x->n; i++) fprintf(to, "<li>%s</li>\n", suspect_sentence(&x->suspect[i], text, sizeof text));
	fputs(x->n ? "</ul>\n" : "<li>none leaves less than half of it</li></ul>\n", to);
}
