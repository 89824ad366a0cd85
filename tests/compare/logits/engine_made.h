/* An engine of a tiny model, in bf16 as torch or in float32, whose parts a test can leave out, double or exchange. */
#ifndef ETALON_TEST_ENGINE_MADE_H
#define ETALON_TEST_ENGINE_MADE_H

#include <string.h>

#include "fixtures/io/tensor.h"
#include "ref/model/model.h"
#include "tests/kernel_model.h"
#include "tests/program.h"

#define DENSE "fixtures/models/qwen3_5_dense_tiny"
#define MOE "fixtures/models/qwen3_5_moe_tiny"
enum { T = 20, LAYERS = 4, OWN = 8 };

struct made {
	const char *folder;
	struct model model;
	size_t ids[T];
	struct tensor x[LAYERS + 1], logits;    /* float32 data, owned */
	struct tensors own[OWN];                /* changed weights */
	int n;
	bool narrow;
};

static inline struct tensor wide(size_t cols)
{
	struct tensor t = { .name = "hidden", .offset = NO_OFFSET };

	assert_true(shape_set(&t, DT_F32, 2, (const size_t[]){ T, cols }));
	assert_non_null(t.data = calloc(1, t.bytes));
	return t;
}

static inline void begin(struct made *e, const char *folder, bool narrow)
{
	struct error error;

	*e = (struct made){ .folder = folder, .narrow = narrow };
	no_error(model_load(&e->model, folder, &error), &error);
	for (size_t i = 0; i < T; i++) e->ids[i] = (37 * i * i + 5) % e->model.config.vocabulary;
	for (int l = 0; l <= LAYERS; l++) e->x[l] = wide(e->model.config.hidden);
	e->logits = wide(e->model.config.vocabulary);
}

static inline struct model_plan plan_of(const struct made *e)
{
	struct model_plan p = model_plan_plain(&arith_f32, arith_f32.precision);

	assert_true(model_plan_contract(&p, e->narrow ? "torch_bf16" : "f32", NULL));
	return p;
}

static inline void answer(const struct call *call, const struct plan *p, struct tensor *y)
{
	struct answer a;
	struct error error;

	no_error(ref_run(call, p, &a, &error), &error);
	dtype_store(DT_F32, a.hi[0], y->count, y->data);
	answer_free(&a);
}

static inline void embed(struct made *e)
{
	size_t E = e->model.config.hidden, row = E * dtype_info[e->model.embedding->dtype].size;

	for (size_t t = 0; t < T; t++) {
		double x[E];
		dtype_load(e->model.embedding->dtype, (const char *)e->model.embedding->data + e->ids[t] * row, E, x);
		dtype_store(DT_F32, x, E, (float *)e->x[0].data + t * E);
	}
}

static inline void layer(struct made *e, int l)
{
	struct model_plan p = plan_of(e);
	struct call call;
	struct error error;

	no_error(model_layer_call(&e->model, (size_t)l, &e->x[l], NULL, NULL, NULL, &call, &error), &error);
	answer(&call, &p.part[e->model.config.kind[l]], &e->x[l + 1]);
}

static inline void head(struct made *e)
{
	struct model_plan p = plan_of(e);
	struct call call;
	struct error error;

	no_error(model_head_call(&e->model, &e->x[LAYERS], NULL, NULL, &call, &error), &error);
	answer(&call, &p.part[PART_HEAD], &e->logits);
}

static inline void run_all(struct made *e)
{
	embed(e);
	for (int l = 0; l < LAYERS; l++) layer(e, l);
	head(e);
}

static inline void add(struct tensors *to, const char *name, enum dtype type, const struct tensor *x)
{
	struct tensor *y = tensors_add(to, name, type, x->rank, x->shape);
	double z;

	for (size_t i = 0; i < x->count; i++) z = (double)((const float *)x->data)[i], dtype_store(type, &z, 1,
		(char *)y->data + i * dtype_info[type].size);
}

/* "FILE:logits" in place; frees all but the folder's name. */
static inline const char *written(struct made *e, const char *name, bool with_hidden)
{
	static char place[600];
	enum dtype type = e->narrow ? DT_BF16 : DT_F32;
	struct tensors t = { 0 };
	struct error error;
	char text[32];

	for (int l = 0; with_hidden && l <= LAYERS; l++) {
		snprintf(text, sizeof text, "hidden.%d", l);
		add(&t, text, type, &e->x[l]);
	}
	add(&t, "logits", type, &e->logits);
	struct tensor *ids = tensors_add(&t, "input_ids", DT_I64, 1, (const size_t[]){ T });
	for (size_t i = 0; i < T; i++) ((int64_t *)ids->data)[i] = (int64_t)e->ids[i];
	snprintf(place, sizeof place, "%s", scratch(name));
	no_error(tensors_write(&t, place, &error), &error);
	strcat(place, ":logits");
	tensors_free(&t);
	for (int l = 0; l <= LAYERS; l++) free(e->x[l].data);
	free(e->logits.data);
	for (int i = 0; i < e->n; i++) tensors_free(&e->own[i]);
	model_unload(&e->model);
	return place;
}

/* The last line of what `--contract auto` says of the file. */
static inline const char *judged(const char *folder, const char *place, int expected)
{
	expect(expected, "logits", "--model", folder, "--got", place, "--contract", "auto");
	char *end = out + strlen(out) - 1;
	*end = 0;
	char *line = strrchr(out, '\n');
	return line ? line + 1 : out;
}

/* Writes the engine, and expects that what is said first of it fails so. */
static inline void says(struct made *e, const char *name, bool with_hidden, const char *what)
{
	const char *folder = e->folder, *line = judged(folder, written(e, name, with_hidden), EXIT_FAIL);

	if (!strstr(line, what)) fail_msg("expected \"%s\" in: %s", what, line);
}

#endif
