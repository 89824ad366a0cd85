/* Engines as people dump them: correct ones in cuts that no contract has, and what is commonly wrong. Each is found first, and said. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>
#include <string.h>

#include "fixtures/io/tensor.h"
#include "ref/model/model.h"
#include "tests/kernel_model.h"
#include "tests/program.h"

#define DENSE "fixtures/models/qwen3_5_dense_tiny"
enum { T = 20, LAYERS = 4, OWN = 8 };

/* ---- an engine of the dense model, in bf16 as torch or in float32, that its parts can be left out of ---- */
struct made {
	struct model model;
	size_t ids[T];
	struct tensor x[LAYERS + 1], logits;    /* float32 data, owned */
	struct tensors own[OWN];                /* changed weights */
	int n;
	bool narrow;
};

static struct tensor wide(size_t cols)
{
	struct tensor t = { .name = "hidden", .offset = NO_OFFSET };

	assert_true(shape_set(&t, DT_F32, 2, (const size_t[]){ T, cols }));
	assert_non_null(t.data = calloc(1, t.bytes));
	return t;
}

static void begin(struct made *e, bool narrow)
{
	struct error error;

	*e = (struct made){ .narrow = narrow };
	no_error(model_load(&e->model, DENSE, &error), &error);
	for (size_t i = 0; i < T; i++) e->ids[i] = (37 * i * i + 5) % e->model.config.vocabulary;
	for (int l = 0; l <= LAYERS; l++) e->x[l] = wide(e->model.config.hidden);
	e->logits = wide(e->model.config.vocabulary);
}

/* A layer's weight becomes so many times what it is. */
static void scale(struct made *e, int layer, const char *in, double by)
{
	const struct op *op = model_op((int)e->model.config.kind[layer]);
	int i = 0;

	while (op->in[i].name && strcmp(op->in[i].name, in)) i++;
	if (!op->in[i].name) return;
	const struct tensor *w = e->model.layer[layer].weight[i];
	struct tensor *y = tensors_add(&e->own[e->n++], in, w->dtype, w->rank, w->shape);
	for (size_t k = 0; k < w->count; k++) {
		double z;
		size_t size = dtype_info[w->dtype].size;
		dtype_load(w->dtype, (const char *)w->data + k * size, 1, &z);
		z *= by;
		dtype_store(w->dtype, &z, 1, (char *)y->data + k * size);
	}
	e->model.layer[layer].weight[i] = y;
}

static struct model_plan plan_of(const struct made *e)
{
	struct model_plan p = model_plan_plain(&arith_f32, arith_f32.precision);

	assert_true(model_plan_contract(&p, e->narrow ? "torch_bf16" : "f32", NULL));
	return p;
}

static void answer(const struct made *e, const struct call *call, const struct plan *p, struct tensor *y)
{
	struct answer a;
	struct error error;

	(void)e;
	no_error(ref_run(call, p, &a, &error), &error);
	dtype_store(DT_F32, a.hi[0], y->count, y->data);
	answer_free(&a);
}

static void embed(struct made *e)
{
	size_t E = e->model.config.hidden, row = E * dtype_info[e->model.embedding->dtype].size;

	for (size_t t = 0; t < T; t++) {
		double x[E];
		dtype_load(e->model.embedding->dtype, (const char *)e->model.embedding->data + e->ids[t] * row, E, x);
		dtype_store(DT_F32, x, E, (float *)e->x[0].data + t * E);
	}
}

static void layer(struct made *e, int l)
{
	struct model_plan p = plan_of(e);
	struct call call;
	struct error error;

	no_error(model_layer_call(&e->model, (size_t)l, &e->x[l], NULL, NULL, NULL, &call, &error), &error);
	answer(e, &call, &p.part[e->model.config.kind[l]], &e->x[l + 1]);
}

static void head(struct made *e)
{
	struct model_plan p = plan_of(e);
	struct call call;
	struct error error;

	no_error(model_head_call(&e->model, &e->x[LAYERS], NULL, NULL, &call, &error), &error);
	answer(e, &call, &p.part[PART_HEAD], &e->logits);
}

static void run_all(struct made *e)
{
	embed(e);
	for (int l = 0; l < LAYERS; l++) layer(e, l);
	head(e);
}

static void add(struct tensors *to, const char *name, enum dtype type, const struct tensor *x)
{
	struct tensor *y = tensors_add(to, name, type, x->rank, x->shape);
	double z;

	for (size_t i = 0; i < x->count; i++) z = (double)((const float *)x->data)[i], dtype_store(type, &z, 1,
		(char *)y->data + i * dtype_info[type].size);
}

/* "FILE:logits"; frees all. */
static const char *written(struct made *e, const char *name, bool with_hidden)
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
static const char *judged(const char *place, int expected)
{
	expect(expected, "logits", "--model", DENSE, "--got", place, "--contract", "auto");
	char *end = out + strlen(out) - 1;
	*end = 0;
	char *line = strrchr(out, '\n');
	return line ? line + 1 : out;
}

static void says(const char *place, const char *what)
{
	const char *line = judged(place, EXIT_FAIL);

	if (!strstr(line, what)) fail_msg("expected \"%s\" in: %s", what, line);
}

/* ---- parts left out or doubled ---- */
static void parts_left_out_are_named(void **state)
{
	static const struct { const char *in[3]; double by; const char *says; } rows[] = {
		{ { "out_proj", "o", NULL }, 0, "layer 1, linear_attention, the mixer is left out" },
		{ { "down", NULL }, 0, "layer 1, linear_attention, the MLP is left out" },
		{ { "out_proj", "o", NULL }, 2, "layer 1, linear_attention, the mixer's output is added twice" },
		{ { "down", NULL }, 2, "layer 1, linear_attention, the MLP's output is added twice" },
	};

	(void)state;
	for (int narrow = 0; narrow < 2; narrow++)
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			struct made e;
			begin(&e, narrow);
			for (int k = 0; rows[i].in[k]; k++) scale(&e, 1, rows[i].in[k], rows[i].by);
			run_all(&e);
			says(written(&e, "part", true), rows[i].says);
		}
}

static void a_layer_left_out_is_named(void **state)
{
	struct made e;

	(void)state;
	begin(&e, true);
	embed(&e);
	layer(&e, 0);
	memcpy(e.x[2].data, e.x[1].data, e.x[1].bytes);
	layer(&e, 2);
	layer(&e, 3);
	head(&e);
	says(written(&e, "layers", true), "layer 1, linear_attention, the layer is left out");
}

static void anothers_weights_are_named(void **state)
{
	struct made e;

	(void)state;
	begin(&e, true);
	memcpy(e.model.layer[1].weight, e.model.layer[2].weight, sizeof e.model.layer[1].weight);
	run_all(&e);
	says(written(&e, "other", true), "layer 1, linear_attention, layer 2's weights");
}

/* ---- states of other places ---- */
static void states_of_other_places_are_said(void **state)
{
	struct made e;
	size_t kept;

	(void)state;
	begin(&e, true);
	run_all(&e);
	memset(e.x[2].data, 0, e.x[2].bytes);
	says(written(&e, "zeros", true), "hidden.2 is all zeros");

	begin(&e, true);
	run_all(&e);
	for (int l = LAYERS; l > 0; l--) memcpy(e.x[l].data, e.x[l - 1].data, e.x[l].bytes);
	says(written(&e, "inputs", true), "each is what goes into a layer, not what comes out of it");

	begin(&e, true);
	run_all(&e);
	for (int in = 0; model_op((int)e.model.config.kind[3])->in[in].name; in++)
		if (!strcmp(model_op((int)e.model.config.kind[3])->in[in].name, "final_norm")) e.model.layer[3].weight[in] = NULL;
	layer(&e, 3);
	says(written(&e, "unnormed", true), "layer 3, full_attention, the state before the final norm");

	begin(&e, true);
	for (size_t t = T - 1; t > 0; t--) e.ids[t] = e.ids[t - 1];
	run_all(&e);
	for (size_t t = 0; t < T; t++) kept = (37 * t * t + 5) % e.model.config.vocabulary, e.ids[t] = kept;
	says(written(&e, "ids", true), "the ids are shifted by one");
}

/* ---- logits of another kind, with hidden states and without ---- */
enum { SHIFTED, LOG_PROBS, TEMPERATURE, KINDS };
static void change(struct made *e, int kind)
{
	float *x = e->logits.data;
	size_t V = e->model.config.vocabulary;

	if (kind == SHIFTED) memmove(x + V, x, (T - 1) * V * sizeof *x);
	for (size_t t = 0; t < T && kind == LOG_PROBS; t++) {
		double sum = 0;
		for (size_t i = 0; i < V; i++) sum += exp((double)x[t * V + i]);
		for (size_t i = 0; i < V; i++) x[t * V + i] -= (float)log(sum);
	}
	for (size_t i = 0; i < T * V && kind == TEMPERATURE; i++) x[i] /= 0.7F;
}

static void other_logits_are_said(void **state)
{
	static const char *const what[KINDS] = { "each position has the logits of the one before", "the logits are log-probabilities",
		"a temperature of 0.7" };

	(void)state;
	for (int kind = 0; kind < KINDS; kind++)
		for (int how = 0; how < 4; how++) {
			struct made e;
			begin(&e, how & 1);
			run_all(&e);
			change(&e, kind);
			says(written(&e, "logits", how & 2), what[kind]);
		}
}

/* A correct engine in float32, whose dump is bf16. */
static void a_rounded_dump_is_said(void **state)
{
	struct made e;

	(void)state;
	begin(&e, false);
	run_all(&e);
	for (int l = 0; l <= LAYERS; l++)
		for (size_t i = 0; i < e.x[l].count; i++) {
			double z = (double)((float *)e.x[l].data)[i];
			uint16_t half;
			dtype_store(DT_BF16, &z, 1, &half);
			dtype_load(DT_BF16, &half, 1, &z);
			((float *)e.x[l].data)[i] = (float)z;
		}
	const char *place = written(&e, "rounded", true);
	expect(EXIT_FAIL, "logits", "--model", DENSE, "--got", place, "--contract", "f32");
	assert_non_null(strstr(out, "hidden states are stored as F32, but all are bf16 numbers"));
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", place, "--contract", "auto");
}

/* ---- numbers of rows, contracts, what is printed ---- */
static void fewer_logits_are_an_error(void **state)
{
	struct made e;

	(void)state;
	begin(&e, true);
	run_all(&e);
	e.logits.shape[0]--;
	e.logits.count -= e.model.config.vocabulary;
	const char *place = written(&e, "fewer", false);
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16");
	assert_non_null(strstr(err, "19 rows of logits for 20 token ids; --last takes them for those of the last ids"));
	expect(EXIT_FAIL, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16", "--last");
}

static void a_contract_says_what_else_is_rounded(void **state)
{
	struct made e;

	(void)state;
	begin(&e, true);
	run_all(&e);
	const char *place = written(&e, "right", true);
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16,delta.q_norm=bf16,scores=f32");
	assert_non_null(strstr(out, "PASS under contract torch_bf16,delta.q_norm=bf16,scores=f32"));
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16,delta.q_nrom=bf16");
	assert_non_null(strstr(err, "delta.q_nrom"));
	assert_non_null(strstr(err, "no site of a model's layers"));
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16,delta.q_norm=bf17");
	assert_non_null(strstr(err, "bf17"));
	assert_non_null(strstr(err, "no type to round delta.q_norm to"));
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf61");
	assert_non_null(strstr(err, "no contract of a model's layers"));
}

static void float32_has_no_tensor_cores(void **state)
{
	struct made e;

	(void)state;
	begin(&e, false);
	run_all(&e);
	const char *line = judged(written(&e, "f32", true), EXIT_PASS);
	assert_non_null(strstr(line, "PASS under contract f32"));
	assert_null(strstr(out, "mma:"));
	for (const char *at = out; (at = strstr(at, " %")); at++) {
		const char *from = at;
		while (from > out && strchr("0123456789.e+", from[-1])) from--;
		assert_true(from == out || from[-1] != '-' || from[-2] == 'e');
	}
}

/* ---- files of a user ---- */
#define ENGINES "fixtures/models/engines/"
static void a_users_files(void **state)
{
	char model[512];

	(void)state;
	snprintf(model, sizeof model, "%s", scratch("tiny16"));
	expect(EXIT_PASS, "invent", ENGINES "tiny.json", "-o", model, "-n", "16");
	expect(EXIT_FAIL, "logits", "--model", model, "--got", ENGINES "skip_layer1.safetensors:logits");
	assert_non_null(strstr(out, "layer 1, full_attention, the layer is left out"));
	assert_null(strstr(out, "w for 1 + w"));
	assert_null(strstr(out, "silu for sigmoid"));
	expect(EXIT_PASS, "logits", "--model", model, "--got", ENGINES "engine_bf16_fused.safetensors:logits", "--contract", "auto");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_left_out_are_named),
		cmocka_unit_test(a_layer_left_out_is_named),
		cmocka_unit_test(anothers_weights_are_named),
		cmocka_unit_test(states_of_other_places_are_said),
		cmocka_unit_test(other_logits_are_said),
		cmocka_unit_test(a_rounded_dump_is_said),
		cmocka_unit_test(fewer_logits_are_an_error),
		cmocka_unit_test(a_contract_says_what_else_is_rounded),
		cmocka_unit_test(float32_has_no_tensor_cores),
		cmocka_unit_test(a_users_files),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
