/* etalon quantize: which weights survive FP8. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare/logits/quantize.h"

struct arguments { const char *model, *ids, *table; size_t tokens; bool json; };

/* By what rounding them costs, falling. */
static int order(const void *a, const void *b)
{
	const struct quantize_class *x = a, *y = b;
	double u = x->effect[GRAIN_BLOCK].kl, v = y->effect[GRAIN_BLOCK].kl;

	return u != v ? (u < v) - (u > v) : strcmp(x->name, y->name);
}

static int print_text(const struct quantize *r, const char *model)
{
	static const char *const heading[] = { "weights rounded to e4m3", "published in", ">tensors", ">elements", ">KL, one scale",
		">top-1 kept",
		">KL, 128x128", ">top-1 kept", ">rms error", ">KL per 1e6" };
	struct table t = { .columns = sizeof heading / sizeof *heading, .heading = heading };

	printf("%s: mean KL(model||rounded) in nats over %zu positions of %zu tokens\n\n", model, r->positions, r->vocabulary);
	for (size_t i = 0; i < r->n; i++) {
		const struct quantize_class *k = &r->row[i];
		const struct quantize_effect *tensor = &k->effect[GRAIN_TENSOR], *block = &k->effect[GRAIN_BLOCK];
		table_add(&t, "%s", k->name);
		table_add(&t, "%s", k->kept ? "bf16" : "fp8");
		table_add(&t, "%zu", k->tensors);
		table_add(&t, "%zu", k->elements);
		table_add(&t, "%.3g", tensor->kl);
		table_add(&t, "%.1f %%", 100 * (double)tensor->agree / (double)r->positions);
		table_add(&t, "%.3g", block->kl);
		table_add(&t, "%.1f %%", 100 * (double)block->agree / (double)r->positions);
		table_add(&t, "%.3g", block->rms);
		table_add(&t, "%.3g", block->kl / ((double)k->elements / 1e6));
	}
	return table_print(&t);
}

static json_t *json_effect(const struct quantize *r, const struct quantize_effect *x)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "kl_mean", json_figure(x->kl), "kl_max", json_figure(x->kl_max), "rms",
		json_figure(x->rms),
		"max", json_figure(x->max), "top1_kept", json_figure((double)x->agree / (double)r->positions));
}

static int print_json(const struct quantize *r, const char *model)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < r->n; i++) {
		const struct quantize_class *k = &r->row[i];
		json_array_append_new(rows, json_pack("{s:s,s:s,s:b,s:I,s:I,s:o,s:o}", "weights", k->name, "rows", i + 2 < r->n ? "class"
			: "set",
			"published_in_fp8", !k->kept, "tensors", (json_int_t)k->tensors, "elements", (json_int_t)k->elements,
			grain_name[GRAIN_TENSOR], json_effect(r, &k->effect[GRAIN_TENSOR]), grain_name[GRAIN_BLOCK], json_effect(r,
			&k->effect[GRAIN_BLOCK])));
	}
	return json_print(json_pack("{s:s,s:I,s:I,s:o}", "model", model, "positions", (json_int_t)r->positions, "vocabulary",
		(json_int_t)r->vocabulary,
		"rounded", rows));
}

static bool write_table(const char *path, const struct quantize *r, struct error *e)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (to) fputs("weights,published,elements,kl_tensor,kl_block,top1_tensor,top1_block\n", to);
	for (size_t i = 0; to && i < r->n; i++) {
		const struct quantize_class *k = &r->row[i];
		fprintf(to, "%s,%s,%zu,%.9g,%.9g,%.9g,%.9g\n", k->name, i + 2 < r->n ? k->kept ? "bf16" : "fp8" : k->kept ? "set bf16"
			: "set fp8", k->elements,
			k->effect[GRAIN_TENSOR].kl, k->effect[GRAIN_BLOCK].kl, (double)k->effect[GRAIN_TENSOR].agree / (double)r->positions,
			(double)k->effect[GRAIN_BLOCK].agree / (double)r->positions);
	}
	bool ok = to && fclose(to) == 0 ? text_write(path, text, size, e) : error_set(e, E_MEMORY, path, NO_OFFSET, "a table");
	free(text);
	return ok;
}

/* Those of --ids, else drawn: splitmix64 (Steele, Lea and Flood 2014) of their place. */
static size_t *make_ids(const struct arguments *a, struct tensors *file, size_t V, size_t *n, struct error *e)
{
	const struct tensor *t = a->ids ? tensor_at(file, a->ids, e) : NULL;

	if (a->ids && !t) return NULL;
	*n = t ? t->count : a->tokens;
	if (*n == 0) error_set(e, E_EMPTY, "input_ids", NO_OFFSET, "no token ids");
	if (*n == 0) return NULL;
	if (t) return ids_of_tensor(t, *n, V, e);
	size_t *ids = malloc(*n * sizeof *ids);
	if (!ids) error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu token ids", *n);
	for (size_t i = 0; ids && i < *n; i++) {
		uint64_t z = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
		z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
		z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
		ids[i] = (size_t)((z ^ z >> 31) % V);
	}
	return ids;
}

static int run(const struct arguments *a)
{
	struct model m = { 0 };
	struct tensors file = { 0 };
	struct quantize r = { 0 };
	struct error e;
	size_t *ids = NULL, n;

	bool ok = model_load(&m, a->model, &e) && (ids = make_ids(a, &file, m.config.vocabulary, &n, &e));
	if (ok) {
		struct model_question q = { .model = &m, .ids = ids, .n = n, .positions = n, .truth = &arith_f64, .bits = arith_f64.precision,
			.watch = &cli_watch };
		ok = quantize_make(&r, &q, &e);
	}
	if (ok) qsort(r.row, r.n - 2, sizeof *r.row, order);
	ok = ok && (!a->table || write_table(a->table, &r, &e));
	int status = !ok ? print_failure(&e) : a->json ? print_json(&r, a->model) : print_text(&r, a->model);
	quantize_free(&r);
	free(ids);
	tensors_free(&file);
	model_unload(&m);
	return status;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'm': a->model = text; return 0;
	case 'i': a->ids = text; return 0;
	case 'n': a->tokens = cli_number(state, "--tokens", text, 1, 1 << 20); return 0;
	case 't': a->table = text; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_END:
		if (!a->model) argp_error(state, "expected --model DIR");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_quantize(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "model", 'm', "DIR", 0, "the model: a folder with config.json and safetensors", 0 },
		{ "ids", 'i', "FILE:TENSOR", 0, "the token ids that it reads; drawn at random by default", 0 },
		{ "tokens", 'n', "N", 0, "how many are drawn (128)", 0 },
		{ "table", 't', "FILE", 0, "the rows as CSV, for plots/quantize.gp", 0 },
		{ "json", 'j', NULL, 0, "an object with all numbers", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "",
		"Rounds each class of a model's weights alone to FP8 (e4m3; one scale for a matrix, or for each 128x128 block) and measures "
		"how the logits change, in float64.", NULL, NULL, NULL };
	struct arguments a = { .tokens = 128 };

	cli_parse(&argp, argc, argv, &a);
	return run(&a);
}
