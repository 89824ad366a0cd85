/* Engines of which a part is left out, doubled or exchanged: it is named first, at its layer. */
#define _GNU_SOURCE     /* memfd_create */
#include <string.h>

#include "compare/truth/expected.h"
#include "engine_made.h"

static int input(const struct made *e, int layer, const char *name)
{
	return model_in(model_op((int)e->model.config.kind[layer]), name);
}

/* An engine, run up to layer `end`; and from there on. */
static void run_to(struct made *e, int end)
{
	embed(e);
	for (int l = 0; l < end; l++) layer(e, l);
}

static void run_on(struct made *e, int from)
{
	for (int l = from; l < LAYERS; l++) layer(e, l);
	head(e);
}

/* A layer's weight becomes so many times what it is. */
static void scale(struct made *e, int layer, const char *in, double by)
{
	const int i = input(e, layer, in);

	if (i < 0) return;
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
			begin(&e, DENSE, narrow);
			for (int k = 0; rows[i].in[k]; k++) scale(&e, 1, rows[i].in[k], rows[i].by);
			run_all(&e);
			says(&e, "part", true, rows[i].says);
		}
}

/* Three times the mixer's output: added twice, it would be half of the error. */
static void what_explains_a_part_is_no_cause(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	scale(&e, 1, "out_proj", 3);
	run_all(&e);
	says(&e, "thrice", true, "layer 1 of 4, linear_attention: ");
	assert_non_null(strstr(out, "; no known fault explains it"));
	assert_null(strstr(out, "twice"));
}

static void a_layer_left_out_is_named(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	run_to(&e, 1);
	memcpy(e.x[2].data, e.x[1].data, e.x[1].bytes);
	run_on(&e, 2);
	says(&e, "layers", true, "layer 1, linear_attention, the layer is left out");
}

static void a_layer_run_twice_is_named(void **state)
{
	(void)state;
	for (int narrow = 0; narrow < 2; narrow++) {
		struct made e;
		begin(&e, DENSE, narrow);
		run_to(&e, 2);
		struct tensor before = e.x[1];
		e.x[1] = e.x[2];
		e.x[2] = wide(e.model.config.hidden);
		layer(&e, 1);
		free(e.x[1].data);
		e.x[1] = before;
		run_on(&e, 2);
		says(&e, "twice", true, "layer 1, linear_attention, the layer is run twice");
	}
}

/* The layer's answer from 2 x: but for eps its first norm makes the same of it. */
static void a_residual_added_twice_is_named(void **state)
{
	(void)state;
	for (int narrow = 0; narrow < 2; narrow++) {
		struct made e;
		begin(&e, DENSE, narrow);
		run_to(&e, 1);
		struct tensor x = e.x[1], twice = wide(e.model.config.hidden);
		for (size_t i = 0; i < x.count; i++) ((float *)twice.data)[i] = 2 * ((float *)x.data)[i];
		e.x[1] = twice;
		layer(&e, 1);
		e.x[1] = x;
		free(twice.data);
		run_on(&e, 2);
		says(&e, "residual", true, "layer 1, linear_attention, x is added twice");
	}
}

static void anothers_weights_are_named(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	memcpy(e.model.layer[1].weight, e.model.layer[2].weight, sizeof e.model.layer[1].weight);
	run_all(&e);
	says(&e, "other", true, "layer 1, linear_attention, layer 2's weights");
}

/* ---- weights exchanged ---- */
/* Blocks a and b of so many rows change places in a layer's weight. */
static void exchange(struct made *e, int layer, const char *in, size_t rows, size_t a, size_t b)
{
	int i = input(e, layer, in);
	const struct tensor *w = e->model.layer[layer].weight[i];
	struct tensor *y = tensors_add(&e->own[e->n++], in, w->dtype, w->rank, w->shape);
	size_t bytes = w->bytes / w->shape[0] * rows;

	memcpy(y->data, w->data, w->bytes);
	memcpy((char *)y->data + a * bytes, (const char *)w->data + b * bytes, bytes);
	memcpy((char *)y->data + b * bytes, (const char *)w->data + a * bytes, bytes);
	e->model.layer[layer].weight[i] = y;
}

/* Of the projection and of the convolution behind it: q has k's rows. */
static void q_and_k_exchanged_are_named(void **state)
{
	(void)state;
	for (int narrow = 0; narrow < 2; narrow++) {
		struct made e;
		begin(&e, DENSE, narrow);
		size_t width = e.model.config.key_heads * e.model.config.key_dim;
		exchange(&e, 1, "qkv", width, 0, 1);
		exchange(&e, 1, "conv", width, 0, 1);
		run_all(&e);
		says(&e, "qk", true, "layer 1, linear_attention, delta rule: k reads, q writes");
	}
}

/* The two experts that most tokens go to. */
static void busiest(struct made *e, int l, size_t pair[2])
{
	struct model_plan p = plan_of(e);
	struct answer a;
	struct call call;
	struct error error;
	size_t X = e->model.config.experts, chosen[2] = { 0 };

	no_error(model_layer_call(&e->model, (size_t)l, &e->x[l], NULL, NULL, NULL, &call, &error), &error);
	int router = model_ask_router(&call);
	assert_true(router >= 0 && X >= 2);
	no_error(ref_run(&call, &p.part[e->model.config.kind[l]], &a, &error), &error);
	for (size_t x = 0; x < X; x++) {
		size_t n = 0;
		for (size_t t = 0; t < T; t++) {
			size_t above = 0;
			for (size_t y = 0; y < X; y++) above += a.hi[router][t * X + y] > a.hi[router][t * X + x];
			n += above < e->model.config.top_k;
		}
		if (n > chosen[0]) pair[1] = pair[0], chosen[1] = chosen[0], pair[0] = x, chosen[0] = n;
		else if (n > chosen[1]) pair[1] = x, chosen[1] = n;
	}
	answer_free(&a);
}

static void experts_exchanged_are_named(void **state)
{
	char what[96];
	size_t pair[2] = { 0 };

	(void)state;
	for (int narrow = 0; narrow < 2; narrow++) {
		struct made e;
		begin(&e, MOE, narrow);
		embed(&e);
		layer(&e, 0);
		busiest(&e, 1, pair);
		exchange(&e, 1, "expert_gate_up", 1, pair[0], pair[1]);
		exchange(&e, 1, "expert_down", 1, pair[0], pair[1]);
		run_all(&e);
		snprintf(what, sizeof what, "layer 1, linear_attention, experts %zu and %zu exchanged", pair[pair[0] > pair[1]],
			pair[pair[0] < pair[1]]);
		says(&e, "experts", true, what);
	}
}

/* ---- one fault in many places, and a constant ---- */

/* The layer's norms take w for 1 + w: their weights are less by 1, in float32. */
static void take_one_off(struct made *e, int layer, const char *in)
{
	int i = input(e, layer, in);
	const struct tensor *w = e->model.layer[layer].weight[i];
	struct tensor *y = tensors_add(&e->own[e->n++], in, DT_F32, w->rank, w->shape);
	double z;

	for (size_t k = 0; k < w->count; k++) {
		dtype_load(w->dtype, (const char *)w->data + k * dtype_info[w->dtype].size, 1, &z);
		((float *)y->data)[k] = (float)(z - 1);
	}
	e->model.layer[layer].weight[i] = y;
}

static void one_fault_in_all_norms_is_one(void **state)
{
	static const char *const norms[] = { "input_norm", "q_norm", "k_norm", "post_norm", "final_norm" };
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) take_one_off(&e, 3, norms[i]);
	run_all(&e);
	says(&e, "norms", true, "layer 3, full_attention, all norms: w for 1 + w");
}

static void one_fault_in_all_layers_is_one(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	for (int l = 0; l < 3; l++) scale(&e, l, "out_proj", 0);
	run_all(&e);
	says(&e, "alike", true, "layer 0, linear_attention, the mixer is left out, in 3 layers of this kind");
}

static void another_theta_is_named(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	e.model.config.theta /= 20;
	run_all(&e);
	says(&e, "theta", true, "layer 3, full_attention, rope: ");
	assert_non_null(strstr(out, "(rope.theta_wrong)"));
	assert_non_null(strstr(out, ", 500000 for 1e+07"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_left_out_are_named),
		cmocka_unit_test(what_explains_a_part_is_no_cause),
		cmocka_unit_test(a_layer_left_out_is_named),
		cmocka_unit_test(a_layer_run_twice_is_named),
		cmocka_unit_test(a_residual_added_twice_is_named),
		cmocka_unit_test(anothers_weights_are_named),
		cmocka_unit_test(q_and_k_exchanged_are_named),
		cmocka_unit_test(experts_exchanged_are_named),
		cmocka_unit_test(one_fault_in_all_norms_is_one),
		cmocka_unit_test(one_fault_in_all_layers_is_one),
		cmocka_unit_test(another_theta_is_named),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
