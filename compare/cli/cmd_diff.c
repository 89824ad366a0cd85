/* etalon diff: any two tensor files, element by element. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli.h"
#include "compare/diff/elementwise.h"
#include "fixtures/cases/left_out.h"

struct arguments { const char *path[2]; size_t n, top; bool json; };

/* What is said of one name: compared, or why not. */
enum status { EQUAL, DIFFERS, ONLY_A, ONLY_B, SHAPES_DIFFER };
static const char *const status_text[] = { "equal", "differs", "only in A", "only in B", "shapes differ" };

struct result { enum status status; const struct tensor *a, *b; struct elementwise r; };

static const struct tensor *partner(const struct tensors *t, const struct tensor *x, bool single)
{
	return single ? &t->item[0] : tensors_find(t, x->name);
}

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
	return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static bool compare(struct result *r, size_t top, struct error *e)
{
	if (!r->b || !r->a || !same_shape(r->a, r->b)) {
		r->status = !r->b ? ONLY_A : !r->a ? ONLY_B : SHAPES_DIFFER;
		return true;
	}
	if (!elementwise(r->a, r->b, top, true, &r->r, e))
		return false;
	r->status = r->r.differ ? DIFFERS : EQUAL;
	return true;
}

/* Every tensor of A, with its partner, then those that only B has. */
static bool compare_all(struct result *list, size_t *n, const struct tensors t[2], size_t top, struct error *e)
{
	bool single = t[0].n == 1 && t[1].n == 1;

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < t[k].n; i++) {
			const struct tensor *x = &t[k].item[i], *other = partner(&t[!k], x, single);
			if (k && other)
				continue;
			list[*n] = (struct result){ .a = k ? NULL : x, .b = k ? x : other };
			if (!compare(&list[(*n)++], top, e)) return false;
		}
	return true;
}

/* ---- text ---- */

static const char *name_of(const struct result *x)
{
	const struct tensor *one = x->a ? x->a : x->b;

	return *one->name ? one->name : "-";    /* npy has no names */
}

static void row(struct table *t, const struct result *x)
{
	const struct tensor *one = x->a ? x->a : x->b;
	const struct elementwise *r = &x->r;
	char text[128], other[128];

	table_add(t, "%s", name_of(x));
	if (x->a && x->b && x->a->dtype != x->b->dtype)
		table_add(t, "%s %s", dtype_info[x->a->dtype].name, dtype_info[x->b->dtype].name);
	else
		table_add(t, "%s", dtype_info[one->dtype].name);
	if (x->status == SHAPES_DIFFER)
		table_add(t, "%s %s", shape_text(x->a, text, sizeof text), shape_text(x->b, other, sizeof other));
	else
		table_add(t, "%s", shape_text(one, text, sizeof text));
	if (x->status > DIFFERS) {
		table_add(t, "%s", status_text[x->status]);
		for (int i = 0; i < 6; i++) table_add(t, "-");
		return;
	}
	table_add(t, "%zu", r->count);
	table_add(t, "%zu", r->differ);
	table_add(t, "%.3g", r->max_abs);
	table_add(t, "%.3g", r->max_rel);
	table_add(t, "%.4g", r->max_ulp);
	table_add(t, "%.3g", r->rms > 0 ? r->rms / r->rms_a : 0);
	table_add(t, "%.2g", r->mean);
}

/* Decimal digits that tell the type's values apart. */
static int digits(const struct tensor *t)
{
	return t->dtype == DT_F64 || !dtype_info[t->dtype].is_float ? 17 : 9;
}

static void details(const struct result *x)
{
	const struct elementwise *r = &x->r;
	char text[128];

	if (r->nan_a || r->nan_b || r->inf_a || r->inf_b) {
		put_clean(stdout, name_of(x));
		printf(": NaN %zu in A, %zu in B; infinite %zu and %zu\n", r->nan_a, r->nan_b,
			r->inf_a, r->inf_b);
	}
	for (size_t i = 0; i < r->n_top; i++) {
		const struct element *w = &r->top[i];
		put_clean(stdout, name_of(x));
		printf(" %s: A %.*g, B %.*g", tensor_index_text(x->a, w->index, text, sizeof text),
			digits(x->a), w->a, digits(x->b), w->b);
		if (isfinite(w->a) && isfinite(w->b))
			printf(" (%.3g, %.4g ulp)", w->abs, w->ulp);
		putchar('\n');
	}
}

/* Errors by ulp: a bar's length is its share of the longest, at least one mark. */
static int histogram(const struct result *x)
{
	enum { BAR = 50 };
	static const char marks[] = "##################################################";
	static const char *const heading[] = { ">ulp from", ">elements", "share" };
	struct table t = { .columns = 3, .heading = heading };
	size_t most = 0, first = SCAN_BINS, last = 0;

	for (size_t i = 0; i < SCAN_BINS; i++) {
		size_t n = x->r.histogram[i];
		if (!n) continue;
		most = n > most ? n : most, last = i;
		first = i < first ? i : first;
	}
	if (!most) return EXIT_PASS;            /* no element is finite in both */
	put_clean(stdout, name_of(x));
	puts(": errors by ulp");
	for (size_t i = first; i <= last; i++) {
		size_t n = x->r.histogram[i];
		table_add(&t, "%g", i ? ldexp(1, (int)i - 2) : 0);
		table_add(&t, "%zu", n);
		table_add(&t, "%.*s", n ? 1 + (int)((double)(BAR - 1) * (double)n / (double)most) : 0, marks);
	}
	return table_print(&t);
}

static int print_text(const struct result *list, size_t n)
{
	static const char *const heading[] = { "tensor", "type", "shape", ">elements", ">differ", ">max abs", ">max rel", ">max ulp",
		">rms/rms A", ">mean B-A" };
	struct table t = { .columns = sizeof heading / sizeof *heading, .heading = heading };

	for (size_t i = 0; i < n; i++)
		row(&t, &list[i]);
	int status = table_print(&t);
	for (size_t i = 0; i < n; i++) {
		details(&list[i]);
		if (!status && list[i].status == DIFFERS) status = histogram(&list[i]);
	}
	return status;
}

/* ---- JSON ---- */

static json_t *json_side(const struct tensor *t)
{
	return t ? json_pack("{s:s,s:s,s:o}", "name", t->name, "dtype", dtype_info[t->dtype].name, "shape", json_shape(t)) : json_null();
}

static json_t *json_result(const struct result *x)
{
	const struct elementwise *r = &x->r;
	json_t *j = json_pack("{s:s,s:o,s:o}", "status", status_text[x->status], "a", json_side(x->a), "b", json_side(x->b));
	json_t *top = json_array();
	char text[128];

	for (size_t i = 0; i < r->n_top; i++)
		json_array_append_new(top, json_pack("{s:I,s:s,s:o,s:o,s:o,s:o,s:o}", "element", (json_int_t)r->top[i].index,
			"index", tensor_index_text(x->a, r->top[i].index, text, sizeof text), "a", json_figure(r->top[i].a),
			"b", json_figure(r->top[i].b), "abs", json_figure(r->top[i].abs), "rel", json_figure(r->top[i].rel),
			"ulp", json_figure(r->top[i].ulp)));
	if (x->status <= DIFFERS)
		json_object_update_new(j, json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o}",
			"elements", (json_int_t)r->count, "differ", (json_int_t)r->differ, "nan_a", (json_int_t)r->nan_a,
			"nan_b", (json_int_t)r->nan_b, "inf_a", (json_int_t)r->inf_a, "inf_b", (json_int_t)r->inf_b,
			"max_abs", json_figure(r->max_abs), "max_rel", json_figure(r->max_rel), "max_ulp", json_figure(r->max_ulp),
			"rms", json_figure(r->rms), "rms_a", json_figure(r->rms_a), "mean", json_figure(r->mean)));
	if (x->status <= DIFFERS) {
		json_t *bins = json_array();
		for (int i = 0; i < SCAN_BINS; i++)
			json_array_append_new(bins, json_pack("{s:o,s:I}", "from_ulp", json_figure(i ? ldexp(1, i - 2) : 0), "elements",
				(json_int_t)r->histogram[i]));
		json_object_set_new(j, "histogram", bins);
	}
	json_object_set_new(j, "worst", top);
	return j;
}

static int print_json(const struct result *list, size_t n, const struct arguments *a, bool equal)
{
	json_t *results = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(results, json_result(&list[i]));
	return json_print(json_pack("{s:s,s:s,s:b,s:o}", "a", a->path[0], "b", a->path[1], "equal", equal, "tensors", results));
}

static int diff(const struct tensors t[2], const struct arguments *a)
{
	struct result *list = calloc(t[0].n + t[1].n + 1, sizeof *list);
	struct error e;
	size_t n = 0;
	bool equal = true;

	for (int k = 0; k < 2; k++)
		if (t[k].map_bytes) madvise(t[k].map, t[k].map_bytes, MADV_SEQUENTIAL);
	if (!list)
		error_set(&e, E_MEMORY, NULL, NO_OFFSET, "a list of %zu tensors", t[0].n + t[1].n);
	bool ok = list && compare_all(list, &n, t, a->top, &e);
	for (size_t i = 0; i < n; i++)
		equal = equal && list[i].status == EQUAL;
	int status = !ok ? print_failure(&e) : a->json ? print_json(list, n, a, equal) : print_text(list, n);
	for (size_t i = 0; i < n; i++)
		elementwise_free(&list[i].r);
	free(list);
	return status ? status : equal ? EXIT_PASS : EXIT_FAIL;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 't': a->top = cli_number(state, "--top", text, 0, 1000); return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->n == 2) return ARGP_ERR_UNKNOWN;
		a->path[a->n++] = text;
		return 0;
	case ARGP_KEY_END:
		if (a->n != 2) argp_error(state, "expected two files");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* A capture with all its inputs, or any other file. */
static bool read_whole(struct tensors *t, const char *path, struct error *e)
{
	return tensors_read(t, path, e) && (inputs_bring_back(t, e) || error_in_file(e, path));
}

int cmd_diff(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "top", 't', "N", 0, "list the N elements that are furthest apart in each tensor (1)", 0 },
		{ "json", 'j', NULL, 0, "an object with all numbers", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "A B",
		"Compares safetensors or npy files, tensors by name (two files of one tensor each: those two). "
		"Exits 0 when all values are equal by bits, 1 when not; a NaN never is.", NULL, NULL, NULL };
	struct arguments a = { .top = 1 };
	struct tensors t[2] = { 0 };
	struct error e;

	cli_parse(&argp, argc, argv, &a);
	bool ok = read_whole(&t[0], a.path[0], &e) && read_whole(&t[1], a.path[1], &e);
	int status = ok ? diff(t, &a) : print_failure(&e);
	tensors_free(&t[0]);
	tensors_free(&t[1]);
	return status;
}
