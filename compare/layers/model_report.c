/* A model's reading as text and as JSON. */
#include <math.h>
#include <stdlib.h>

#include "fixtures/io/error.h"
#include "model_reading.h"
#include "compare/limits/limits.h"
#include "compare/print/print.h"

static const char *part_name(const struct model_reading *r, size_t l, char *text, size_t size)
{
	if (l < r->model->config.layers) snprintf(text, size, "layer %zu", l);
	else snprintf(text, size, "logits");
	return text;
}

int model_reading_exit(const struct model_reading *r) { return r->first == NOWHERE && !r->embedding_off ? EXIT_PASS : EXIT_FAIL; }

/* A share of an error that is explained; of an emulation that leaves more than there was, none is. */
static const char *explained_text(double share, char text[24])
{
	if (share >= 0) snprintf(text, 24, "%.4f %%", 100 * share);
	else snprintf(text, 24, "nothing");
	return text;
}

static const char *sums_text(const struct layer_reading *p)
{
	return p->left.equal == 1 && !p->few ? p->sums->name : "";
}

static const char *state_of(const struct layer_reading *p)
{
	return !p->known ? "f64 is not good enough" : p->kept ? p->read ? "" : "within its size, not read"
		: p->understood ? "wrong" : p->within ? "wrong, not understood" : "too large, not understood";
}

const char *model_part_sentence(const struct model_reading *r, size_t part, char *text, size_t size)
{
	const struct layer_reading *p = &r->part[part];
	const char *far = p->size.value <= layer_limit && p->size.worst > layer_row_limit ? "token " : "";
	char times[RATIO], name[32];
	int n;

	if (part < r->model->config.layers)
		n = snprintf(text, size, "layer %zu of %zu, %s: ", part, r->model->config.layers, p->op->name);
	else n = snprintf(text, size, "%s: ", part_name(r, part, name, sizeof name));
	if (n < 0 || (size_t)n >= size) return text;
	if (*far)
		snprintf(text + n, size - (size_t)n, "token %zu is off by %s times what its roundings imply (limit %g)", p->size.at,
			ratio_text(p->size.worst, 3, times), layer_row_limit);
	else snprintf(text + n, size - (size_t)n, "%s times what its roundings imply (limit %g)", ratio_text(p->size.value, 3, times),
		layer_limit);
	return text;
}

static void print_parts(FILE *to, const struct model_reading *r)
{
	char name[32], times[RATIO], alone[24], with[24];

	fprintf(to, "  %-28s%12s%10s%11s%24s%28s\n", "anchored", "", "of what", "a fault", "contract alone", "with what is detected");
	fprintf(to, "  %-10s%-18s%12s%10s%11s%14s%10s%16s%12s  sums\n", "", "", "rms error", "it may", "seen from", "explained", "equal",
		"explained", "equal");
	for (size_t l = 0; l < r->parts; l++) {
		const struct layer_reading *p = &r->part[l];
		fprintf(to, "  %-10s%-18s%12.4g%10s%9.2g %%%14s%8.2f %%%16s%10.2f %%  %-12s%s\n", part_name(r, l, name, sizeof name), p->op->name,
			p->rms, ratio_text(p->size.value, 3, times), 100 * p->visible, explained_text(p->alone, alone), 100 * p->alone_equal,
			explained_text(p->explained, with), 100 * p->equal, sums_text(p), state_of(p));
	}
}

/* Tokens whose routes flipped. */
static void print_flips(FILE *to, const struct model_reading *r)
{
	size_t flipped = 0;

	for (size_t l = 0; l < r->parts; l++) flipped += r->part[l].size.flipped;
	if (flipped)
		fprintf(to, "  %zu tokens of %zu layers chose other experts, within the router's error: they are left out\n", flipped, r->parts);
}

static int by_size(const void *a, const void *b)
{
	const struct layer_reading *x = *(const struct layer_reading *const *)a, *y = *(const struct layer_reading *const *)b;
	double p = fmax(x->size.value / layer_limit, x->size.worst / layer_row_limit);
	double q = fmax(y->size.value / layer_limit, y->size.worst / layer_row_limit);

	return p != q ? (p < q) - (p > q) : (x > y) - (x < y);
}

/* The largest of those that are beyond their size. */
static void print_worst(FILE *to, const struct model_reading *r)
{
	enum { SHOWN = 4 };
	const struct layer_reading **list = calloc(r->parts, sizeof *list);
	char text[256];

	for (size_t l = 0; list && l < r->parts; l++) list[l] = &r->part[l];
	if (list) qsort(list, r->parts, sizeof *list, by_size);
	for (size_t i = 0; list && i < r->parts && i < SHOWN && !list[i]->within; i++)
		fprintf(to, "  %s\n", model_part_sentence(r, (size_t)(list[i] - r->part), text, sizeof text));
	free(list);
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
	char name[32], share[24];

	fprintf(to, "\n  %-28s%12s%13s%10s\n", "free-running", "rms error", "explained", "equal");
	for (size_t l = 0; l <= r->parts; l++) {
		if (l > r->model->config.layers) snprintf(name, sizeof name, "logits");
		else snprintf(name, sizeof name, "hidden.%zu", l);
		fprintf(to, "  %-28s%12.4g%13s%8.2f %%\n", name, r->grown[l].rms, explained_text(r->grown[l].explained, share),
			100 * r->grown[l].equal);
	}
}

/* What was read of a layer that passes. */
static void print_read(FILE *to, const struct model_reading *r)
{
	char text[256];

	for (size_t l = 0; l < r->parts; l++) {
		const struct layer_reading *p = &r->part[l];
		for (int i = 0; i < p->n; i++)
			fprintf(to, "  %s%s (%s)\n", p->kept ? "as read: " : "", layer_sentence(l, p, i, text, sizeof text), p->detected[i].name);
		if (!p->understood) fprintf(to, "  layer %zu, %s: no fault that is known explains its size\n", l, p->op->name);
	}
}

void model_reading_print(FILE *to, const struct model_reading *r)
{
	char text[256];

	print_parts(to, r);
	print_few(to, r);
	print_flips(to, r);
	print_grown(to, r);
	fputc('\n', to);
	for (int i = 0; i < r->looks; i++) fprintf(to, "  %s\n", r->look[i]);
	if (r->embedding_off) fprintf(to, "  %zu elements of hidden.0 are not the embedding's\n", r->embedding_off);
	if (r->first == NOWHERE) fprintf(to, "  every layer is within the contract %s\n", r->contract);
	if (r->first == NOWHERE) fputs("\n  coverage\n", to);
	for (size_t l = 0; l < r->parts && r->first == NOWHERE; l++)
		if (r->part[l].coverage_tokens) print_coverage(to, &r->part[l]);
	if (r->first != NOWHERE) fprintf(to, "  first divergence: %s\n", part_name(r, (size_t)r->first, text, sizeof text));
	print_worst(to, r);
	print_read(to, r);
}

static json_t *part_json(const struct model_reading *r, size_t l)
{
	const struct layer_reading *p = &r->part[l];
	json_t *list = json_array();

	for (int i = 0; i < p->n; i++) {
		const struct layer_suspect *s = &p->detected[i];
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o, s:o}", s->kind == SUSPECT_SITE ? "site" : "fault", s->name,
			"op", p->op->name, "what", s->what, "rounded", s->kind == SUSPECT_SITE && s->rounded, "explained",
			json_figure(s->explained), "equal", json_figure(s->equal)));
	}
	json_t *unseen = json_array();
	for (int i = 0; p->coverage_tokens && i < p->not_identifiable; i++) json_array_append_new(unseen, json_string(p->unseen[i]));
	return json_pack("{s:i, s:o, s:o, s:I, s:o, s:b, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:b, "
		"s:i, s:i, s:o}", "layer", (int)l, "size", json_figure(p->size.value), "worst_token", json_figure(p->size.worst),
		"routes_left_out", (json_int_t)p->size.flipped, "fault_seen_from", json_figure(p->visible), "read", p->read, "kind", p->op->name, "rms", json_figure(p->rms), "explained_if_correct", json_figure(p->correct),
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
