/* A model's reading as text and as JSON. */
#include "fixtures/io/error.h"
#include "model_reading.h"
#include "compare/print/print.h"

static const char *part_name(const struct model_reading *r, size_t l, char *text, size_t size)
{
	if (l < r->model->config.layers) snprintf(text, size, "layer %zu", l);
	else snprintf(text, size, "logits");
	return text;
}

int model_reading_exit(const struct model_reading *r) { return r->first == NOWHERE && !r->embedding_off ? EXIT_PASS : EXIT_FAIL; }

const char *model_part_sentence(const struct model_reading *r, size_t part, char *text, size_t size)
{
	const struct layer_reading *p = &r->part[part];
	char name[32];

	snprintf(text, size, "%s, %s: %s, %.2f %% explained (%.2f %% if correct), distance %.2f of its limit, worst element %.2f of its own",
		part_name(r, part, name, sizeof name), p->op->name, p->kept ? "keeps its contract" : p->understood ? "wrong"
		: "wrong, not understood", 100 * p->explained, 100 * p->correct, p->left.score / p->limit, p->left.worst / p->worst_limit);
	return text;
}

static void print_parts(FILE *to, const struct model_reading *r)
{
	char name[32];

	fprintf(to, "  %-28s%12s%24s%12s%24s\n", "anchored", "", "contract alone", "", "with what is detected");
	fprintf(to, "  %-10s%-18s%12s%14s%10s%12s%14s%10s  sums\n", "", "", "rms error", "explained", "equal", "if correct", "explained", "equal");
	for (size_t l = 0; l < r->parts; l++) {
		const struct layer_reading *p = &r->part[l];
		fprintf(to, "  %-10s%-18s%12.4g%12.4f %%%8.2f %%%10.2f %%%12.4f %%%8.2f %%  %-12s%s\n", part_name(r, l, name, sizeof name),
			p->op->name, p->rms,
			100 * p->alone, 100 * p->alone_equal, 100 * p->correct, 100 * p->explained, 100 * p->equal, p->sums->name,
			p->kept ? "" : p->understood ? "wrong" : "wrong, not understood");
	}
}

static void print_coverage(FILE *to, const struct layer_reading *p)
{
	fprintf(to, "  %-18s%d suspects on the first %zu tokens: %d ruled out, %d change nothing here, %d not identifiable", p->op->name, p->tried,
		p->coverage_tokens, p->tried - p->idle - p->not_identifiable, p->idle, p->not_identifiable);
	for (int i = 0; i < p->not_identifiable; i++) fprintf(to, "%s%s", i ? ", " : ": ", p->unseen[i]);
	fputc('\n', to);
}

/* On first tokens: slow sums, and how good f64 is. */
static void print_few(FILE *to, const struct model_reading *r)
{
	double error = 0, upwards = 0;
	size_t tokens = SIZE_MAX;
	bool few = false;

	for (size_t l = 0; l < r->parts; l++) {
		const struct layer_reading *p = &r->part[l];
		if (p->few) {
			fprintf(to, "%s %s %.2f %% of %zu", few ? "," : "  sums, explained on first tokens:", p->sums->name, 100 * p->few_explained,
				p->few);
			few = true;
		}
		error = p->truth_error > error ? p->truth_error : error;
		upwards = p->truth_upwards > upwards ? p->truth_upwards : upwards;
		tokens = p->truth_tokens < tokens ? p->truth_tokens : tokens;
	}
	fprintf(to, "%s  truth f64, on the first %zu tokens within %.2g of the expected error of dd", few ? "\n" : "", tokens, error);
	if (upwards > 0) fprintf(to, ", on all within %.2g of f64 rounding upwards", upwards);
	fputc('\n', to);
}

static void print_grown(FILE *to, const struct model_reading *r)
{
	char name[32];

	fprintf(to, "\n  %-28s%12s%13s%10s\n", "free-running", "rms error", "explained", "equal");
	for (size_t l = 0; l <= r->parts; l++) {
		if (l > r->model->config.layers) snprintf(name, sizeof name, "logits");
		else snprintf(name, sizeof name, "hidden.%zu", l);
		fprintf(to, "  %-28s%12.4g%11.4f %%%8.2f %%\n", name, r->grown[l].rms, 100 * r->grown[l].explained, 100 * r->grown[l].equal);
	}
}

void model_reading_print(FILE *to, const struct model_reading *r)
{
	char text[256];

	print_parts(to, r);
	print_few(to, r);
	print_grown(to, r);
	fputc('\n', to);
	if (r->embedding_off) fprintf(to, "  %zu elements of hidden.0 are not the embedding's\n", r->embedding_off);
	if (r->first == NOWHERE) fprintf(to, "  every layer keeps the contract %s\n", r->contract);
	if (r->first == NOWHERE) fputs("\n  coverage\n", to);
	for (size_t l = 0; l < r->parts && r->first == NOWHERE; l++)
		if (r->part[l].coverage_tokens) print_coverage(to, &r->part[l]);
	if (r->first != NOWHERE) fprintf(to, "  first divergence: %s\n", part_name(r, (size_t)r->first, text, sizeof text));
	for (size_t l = 0; l < r->parts; l++) {
		const struct layer_reading *p = &r->part[l];
		for (int i = 0; i < p->n; i++) fprintf(to, "  %s (%s)\n", layer_sentence(l, p, i, text, sizeof text), p->detected[i].name);
		if (!p->understood) fprintf(to, "  layer %zu, %s: no fault that is known explains what is left\n", l, p->op->name);
	}
}

static json_t *part_json(const struct model_reading *r, size_t l)
{
	const struct layer_reading *p = &r->part[l];
	json_t *list = json_array();

	for (int i = 0; i < p->n; i++) {
		const struct layer_suspect *s = &p->detected[i];
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o, s:o}", s->fault >= 0 ? "fault" : "site", s->name, "op",
			p->op->name,
			"what", s->what, "rounded", s->site >= 0 && s->rounded, "explained",
			json_figure(s->explained), "equal", json_figure(s->equal)));
	}
	json_t *unseen = json_array();
	for (int i = 0; p->coverage_tokens && i < p->not_identifiable; i++) json_array_append_new(unseen, json_string(p->unseen[i]));
	return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:b, s:i, s:i, s:o}", "layer",
		(int)l, "kind", p->op->name, "rms", json_figure(p->rms), "explained_if_correct", json_figure(p->correct),
		"truth_error", json_figure(p->truth_error), "truth_error_upwards", json_figure(p->truth_upwards), "truth_tokens",
		(json_int_t)p->truth_tokens, "explained_by_sums_on_first_tokens", json_figure(p->few ? p->few_explained : 0),
		"coverage_tokens", (json_int_t)p->coverage_tokens, "unseen", unseen, "explained_by_contract", json_figure(p->alone),
		"equal_under_contract", json_figure(p->alone_equal), "explained", json_figure(p->explained), "equal",
		json_figure(p->equal), "sums", p->sums->name, "keeps_contract", p->kept, "understood", p->understood, "suspects",
		p->tried, "not_identifiable", p->not_identifiable, "detected", list);
}

json_t *model_reading_json(const struct model_reading *r)
{
	json_t *parts = json_array(), *grown = json_array();

	for (size_t l = 0; l < r->parts; l++) json_array_append_new(parts, part_json(r, l));
	for (size_t l = 0; l <= r->parts; l++)
		json_array_append_new(grown, json_pack("{s:o, s:o, s:o}", "rms", json_figure(r->grown[l].rms), "explained",
			json_figure(r->grown[l].explained), "equal", json_figure(r->grown[l].equal)));
	return json_pack("{s:s, s:i, s:i, s:b, s:o, s:o}", "contract", r->contract, "embedding_off", (int)r->embedding_off,
		"first_divergence", r->first,
		"understood", r->understood, "anchored", parts, "free_running", grown);
}
