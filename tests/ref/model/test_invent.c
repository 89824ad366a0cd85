/* Models of random weights: complete, the same each time, and tame: values neither vanish nor grow, memories of all lengths. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/model/invent.h"
#include "compare/logits/logits.h"
#include "tests/helpers.h"

static const char *const configs[] = { "fixtures/models/qwen3_5_dense_tiny/config.json", "fixtures/models/qwen3_5_moe_tiny/config.json" };
static int folders;

static struct invention invention(const char *config)
{
	static char folder[200];
	char name[32];

	snprintf(name, sizeof name, "invented%d", folders++);
	snprintf(folder, sizeof folder, "%s", scratch(name));
	return (struct invention){ .config = config, .folder = folder, .seed = 1, .tokens = 60, .shard = 1 << 19 };
}

static struct invented made(const struct invention *v)
{
	struct invented n;
	struct error e = { 0 };

	if (!invent_model(v, &n, &e)) {
		error_print(stderr, &e);
		fail_msg("%s", v->config);
	}
	return n;
}

static void load(struct model *m, struct tensors *ids, const struct invention *v)
{
	struct error e = { 0 };
	char *path = folder_path(v->folder, "input_ids.safetensors");

	if (!model_load(m, v->folder, &e) || !tensors_read(ids, path, &e)) {
		error_print(stderr, &e);
		fail_msg("%s", v->folder);
	}
	free(path);
}

static void drop(const struct invention *v, const struct model *m)
{
	static const char *const names[] = { "config.json", "input_ids.safetensors", "model.safetensors.index.json" };

	for (size_t f = 0; f < m->folder.n; f++) assert_int_equal(unlink(m->folder.path[f]), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char *path = folder_path(v->folder, names[i]);
		assert_int_equal(unlink(path), 0);
		free(path);
	}
	assert_int_equal(rmdir(v->folder), 0);
}

static double rms(const double *x, size_t n)
{
	double square = 0;

	for (size_t i = 0; i < n; i++) square += x[i] * x[i];
	return sqrt(square / (double)n);
}

static void stays_tame(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct invention v = invention(configs[i]);
		struct invented n = made(&v);
		struct model m;
		struct tensors file;
		struct values *hidden, logits;
		size_t tokens = v.tokens;
		load(&m, &file, &v);
		size_t *ids = ids_of_tensor(&file.item[0], tokens, m.config.vocabulary, NULL);
		assert_non_null(ids);
		assert_true(n.shards > 1 && n.shards == m.folder.n);
		struct model_plan p = model_plan_plain(&arith_f64, arith_f64.precision);
		assert_true(model_run(&m, &p, ids, tokens, NULL, &hidden, NULL));
		assert_true(model_logits(&m, &p, &hidden[m.config.layers], 0, tokens, &logits, NULL));
		for (size_t l = 0; l <= m.config.layers; l++)
			for (size_t t = 0; t < tokens; t++) {
				double size = rms(hidden[l].hi + t * m.config.hidden, m.config.hidden);
				if (!(size > 0.3 && size < 3)) fail_msg("hidden.%zu of token %zu: rms %g", l, t, size);
			}
		double size = rms(logits.hi, tokens * m.config.vocabulary);
		if (!(size > 2 && size < 4)) fail_msg("logits: rms %g", size);
		values_free(&logits);
		model_hidden_free(&m, hidden);
		free(ids);
		drop(&v, &m);
		model_unload(&m);
		tensors_free(&file);
	}
}

/* A tensor of all layers, by the end of its name; how many numbers. */
static size_t gather(const struct model *m, const char *end, double *x)
{
	size_t n = 0;

	for (size_t f = 0; f < m->folder.n; f++)
		for (size_t i = 0; i < m->folder.file[f].n; i++) {
			const struct tensor *t = &m->folder.file[f].item[i];
			if (!strstr(t->name, end) || strlen(strstr(t->name, end)) != strlen(end)) continue;
			dtype_load(t->dtype, t->data, t->count, x + n);
			n += t->count;
		}
	return n;
}

static int by_size(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

/* The delta rule's half lives (with a = 0), from about one token to hundreds. */
static void decays_spread(void **state)
{
	struct invention v = invention(configs[0]);
	struct model m;
	struct tensors file;
	double A[64], bias[64];

	(void)state;
	made(&v);
	load(&m, &file, &v);
	size_t n = gather(&m, "A_log", A);
	assert_int_equal(n, gather(&m, "dt_bias", bias));
	assert_int_equal(n, 18);
	for (size_t i = 0; i < n; i++) A[i] = log(2) / (exp(A[i]) * log1p(exp(bias[i])));
	qsort(A, n, sizeof *A, by_size);
	if (!(A[0] > 0.4 && A[0] < 6 && A[n - 1] > 60 && A[n - 1] < 1500)) fail_msg("half lives from %g to %g", A[0], A[n - 1]);
	drop(&v, &m);
	model_unload(&m);
	tensors_free(&file);
}

/* However it is sharded, and by however many layers, a weight is that of its name and seed. */
static void is_the_same(void **state)
{
	struct invention a = invention(configs[1]), b, c;
	struct model m[3];
	struct tensors file[3];
	char folder[3][200];

	(void)state;
	snprintf(folder[0], sizeof folder[0], "%s", a.folder);
	a.folder = folder[0];
	b = invention(configs[1]), b.shard = UINT64_C(1) << 40, b.layers = 2;
	snprintf(folder[1], sizeof folder[1], "%s", b.folder);
	b.folder = folder[1];
	c = invention(configs[1]), c.seed = 2;
	const struct invention *all[] = { &a, &b, &c };
	for (int i = 0; i < 3; i++) made(all[i]), load(&m[i], &file[i], all[i]);
	assert_int_equal(m[1].config.layers, 2);
	assert_int_equal(m[1].folder.n, 1);
	for (size_t i = 0; i < m[1].folder.file[0].n; i++) {
		const struct tensor *t = &m[1].folder.file[0].item[i], *same = folder_find(&m[0].folder, t->name), *other = folder_find(
			&m[2].folder, t->name);
		assert_memory_equal(t->data, same->data, t->bytes);
		assert_memory_not_equal(t->data, other->data, t->bytes);
	}
	for (int i = 0; i < 3; i++) drop(all[i], &m[i]), model_unload(&m[i]), tensors_free(&file[i]);
}

static void refuses(void **state)
{
	struct invention v = invention("fixtures/models/no_such.json");
	struct invented n;
	struct error e = { 0 };

	(void)state;
	assert_false(invent_model(&v, &n, &e));
	assert_int_equal(error_exit(&e), EXIT_INPUT);
	v = invention(configs[0]), v.folder = "/no/such/folder/model";
	assert_false(invent_model(&v, &n, &e));
	assert_int_equal(e.code, E_OPEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(stays_tame), cmocka_unit_test(decays_spread), cmocka_unit_test(is_the_same),
		cmocka_unit_test(refuses) };

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
