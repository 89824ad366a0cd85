/* Our own engine of whole models, as recorded on a GPU: not stale, each layer what its contract says, decoding as prefill; and
 * what it refuses to load. */
#define _GNU_SOURCE
#include "gpu/host/backend.h"
#include "gpu/engine/model_folder.h"
#include "tests/model_bed.h"
#include "tests/folder_copy.h"
#include "tests/program.h"

#define DUMP(name) "fixtures/models/qwen3_5_" name "_tiny/engine.safetensors"
static const char *const names[] = { "dense", "moe" };
static struct bed beds[2];
static struct tensors dumps[2];

static int make_beds(void **state)
{
	static const char *const paths[] = { DUMP("dense"), DUMP("moe") };
	struct error e;

	if (scratch_make(state)) return -1;
	for (int i = 0; i < 2; i++)
		if (!bed_make(&beds[i], names[i], &e) || !tensors_read(&dumps[i], paths[i], &e)) return error_print(stderr, &e), -1;
	return 0;
}

static int free_beds(void **state)
{
	for (int i = 0; i < 2; i++) {
		bed_free(&beds[i]);
		tensors_free(&dumps[i]);
	}
	return scratch_remove(state);
}

static void is_recorded_from_these_sources(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const char *then = meta_get(&dumps[i], "etalon.source_sha256");
		assert_non_null(then);
		if (strcmp(then, gpu_source_sha256("model")))
			fail_msg("stale: on a GPU, etalon record --model fixtures/models/qwen3_5_%s_tiny --ids "
				"fixtures/models/qwen3_5_%s_tiny/capture.safetensors:input_ids -o " DUMP("%s"), names[i], names[i], names[i]);
		assert_memory_equal(meta_get(&dumps[i], "etalon.producer"), "etalon engine", 13);
		assert_string_equal(meta_get(&dumps[i], "etalon.contract"), "etalon_bf16");
	}
}

static void every_layer_is_explained(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct model_reading r;
		struct engine engine = { .file = &dumps[i], .prefix = "" };
		struct error e;
		const struct tensor *ids = tensors_find(&dumps[i], "input_ids");
		assert_int_equal(ids->count, beds[i].n);
		for (size_t t = 0; t < beds[i].n; t++) assert_int_equal(((const int32_t *)ids->data)[t], beds[i].ids[t]);
		assert_true(model_read(&beds[i].model, "etalon_bf16", beds[i].ids, beds[i].n, &engine, &r, &e));
		model_reading_print(stdout, &r);
		assert_int_equal(r.parts, 5);
		assert_int_equal(r.first, NOWHERE);
		assert_int_equal(r.embedding_off, 0);
		for (size_t l = 0; l < r.parts; l++) {
			assert_true(r.part[l].rms > 0 && r.part[l].kept);
			assert_true(r.part[l].alone >= 0.97);
		}
		model_reading_free(&r);
	}
}

/* With one of the contract's roundings left out, or one more, a layer is not explained alone: that rounding is read. It is within
 * its size, and passes. */
static void a_rounding_more_or_less_is_read(void **state)
{
	static const struct { size_t layer; const char *site; bool rounded; } others[] = {
		{ 0, "mixed", true }, { 0, "residual", false }, { 1, "delta.o", false }, { 1, "a", true }, { 3, "turned", false },
		{ 3, "softmax", true },
	};

	(void)state;
	for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
		char from[32], to[32];
		struct layer_reading r;
		struct call call;
		struct error e;
		snprintf(from, sizeof from, "hidden.%zu", others[k].layer);
		snprintf(to, sizeof to, "hidden.%zu", others[k].layer + 1);
		assert_true(model_layer_call(&beds[1].model, others[k].layer, tensors_find(&dumps[1], from), NULL, NULL,
			tensors_find(&dumps[1], to), &call, &e));
		struct contract c = call.op->contracts[op_contract(call.op, "etalon_bf16")];
		int site = op_site(call.op, others[k].site);
		assert_true(site >= 0 && c.site[site].on != others[k].rounded);
		c.site[site] = (struct site_rounding){ others[k].rounded, FMT_BF16, ROUND_NEAREST_EVEN };
		assert_true(layer_read(&call, &c, NULL, &r, &e));
		assert_true(r.kept && r.read && r.n >= 1);
		assert_true(r.alone < 0.97 && r.explained >= 0.97);
		assert_true(r.detected[0].kind == SUSPECT_SITE && r.detected[0].index == site);
		assert_true(r.detected[0].rounded != others[k].rounded);
	}
}

/* One token at a time through the memory: as prefill has them, but for the order of sums. */
static void decoding_is_prefill(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct tensor *all = tensors_find(&dumps[i], "logits"), *last = tensors_find(&dumps[i], "decode_logits");
		size_t n = last->count;
		double *x = malloc(2 * n * sizeof *x), *y = x + n, squares = 0, error = 0;
		assert_true(n > 0 && last->shape[0] == 10 && last->shape[1] == all->shape[1]);
		dtype_load(DT_BF16, (const char *)all->data + all->bytes - last->bytes, n, x);
		dtype_load(DT_BF16, last->data, n, y);
		for (size_t k = 0; k < n; k++) squares += x[k] * x[k], error += (x[k] - y[k]) * (x[k] - y[k]);
		assert_true(error <= 0x1p-14 * squares);        /* each within two roundings of bf16 */
		free(x);
	}
}

/* The command takes the contract that the file declares. */
static void the_command_passes_it(void **state)
{
	(void)state;
	expect_exit(EXIT_PASS, (const char *[]){ program, "logits", "--model", "fixtures/models/qwen3_5_dense_tiny", "--got", DUMP("dense")
		":logits", NULL });
	assert_non_null(strstr(out, "every layer is within the contract etalon_bf16"));
	assert_non_null(strstr(out, "PASS under contract etalon_bf16"));
	expect_exit(EXIT_PASS, (const char *[]){ program, "logits", "--model", "fixtures/models/qwen3_5_moe_tiny", "--got", DUMP("moe")
		":decode_logits", "--last", NULL });
	assert_non_null(strstr(out, "PASS under contract etalon_bf16"));
}

/* Heads of 128, 90 tokens: prefill in chunks on tensor cores, and a token decoded in one launch. */
static void heads_of_128_keep_the_contract(void **state)
{
	static const char *const got[] = { "fixtures/models/heads_128.engine.safetensors:logits",
		"fixtures/models/heads_128.engine.safetensors:decode_logits" };
	char folder[512];

	(void)state;
	snprintf(folder, sizeof folder, "%s", scratch("heads_128"));
	expect_exit(EXIT_PASS, (const char *[]){ program, "invent", "fixtures/models/heads_128.json", "-n", "90", "-o", folder, NULL });
	for (int i = 0; i < 2; i++) {
		expect_exit(EXIT_PASS, (const char *[]){ program, "logits", "--model", folder, "--got", got[i], "--last", NULL });
		assert_non_null(strstr(out, "PASS under contract etalon_bf16"));
	}
	drop(folder);
}

static void sizes_are_read(void **state)
{
	struct engine_folder f;
	struct error e;

	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct model_config *c = &beds[i].model.config;
		char path[128];
		snprintf(path, sizeof path, "fixtures/models/qwen3_5_%s_tiny", names[i]);
		assert_true(engine_folder_read(&f, path, &e));
		assert_int_equal(f.sizes.V, c->vocabulary);
		assert_int_equal(f.sizes.X, c->experts);
		assert_int_equal(f.sizes.K, c->top_k);
		assert_int_equal(f.sizes.R, c->rotary_dim);
		assert_true(f.layer[3].full && !f.layer[2].full && f.layer[3].weight[EW_O] && !f.layer[3].weight[EW_OUT]);
		engine_folder_free(&f);
	}
}

static void another_activation(json_t *config) { json_object_set_new(config, "hidden_act", json_string("gelu")); }
static void another_layer(json_t *config) { json_array_set_new(json_object_get(config, "layer_types"), 1, json_string("mamba")); }
static void another_width(json_t *config) { json_object_set_new(config, "intermediate_size", json_integer(415)); }
static void no_size(json_t *config) { json_object_del(config, "hidden_size"); }
static const char *without_a_log(const char *name, char *text, size_t size)
{
	(void)text, (void)size;
	return strstr(name, "2.linear_attn.A_log") ? NULL : name;
}

static void bad_folders_are_refused(void **state)
{
	static const struct { struct copy copy; enum error_code code; const char *item; } bad[] = {
		{ { .edit = another_activation }, E_PARAM, "hidden_act" },
		{ { .edit = another_layer }, E_PARAM, "layer_types" },
		{ { .edit = another_width }, E_DIM, "model.layers.0.mlp.gate_proj.weight" },
		{ { .edit = no_size }, E_PARAM, "hidden_size" },
		{ { .rename = without_a_log }, E_MISSING, "model.layers.2.linear_attn.A_log" },
		{ { .reshape_head = true }, E_DIM, "lm_head.weight" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct engine_folder f;
		struct error e = { 0 };
		const char *folder = folder_of("fixtures/models/qwen3_5_dense_tiny", &bad[i].copy);
		assert_false(engine_folder_read(&f, folder, &e));
		assert_int_equal(e.code, bad[i].code);
		assert_string_equal(e.item, bad[i].item);
		assert_null(f.layer);
		drop(folder);
	}
}

/* Each expert's parts are the slices of what the folder had fused. */
static void experts_one_by_one_are_read(void **state)
{
	static const char moe[] = "fixtures/models/qwen3_5_moe_tiny";
	const struct copy split = { .one_by_one = true }, missing = { .one_by_one = true, .last = LEFT_OUT };
	const struct copy other = { .one_by_one = true, .last = OF_F32 };
	const char *folder = folder_of(moe, &split);
	struct engine_folder f, whole;
	struct error e;

	(void)state;
	assert_true(engine_folder_read(&whole, moe, &e) && engine_folder_read(&f, folder, &e));
	for (int l = 0; l < f.sizes.layers; l++) {
		const struct engine_layer *to = &f.layer[l], *fused = &whole.layer[l];
		const char *gate_up = fused->weight[EW_EXPERT_GATE_UP]->data, *down = fused->weight[EW_EXPERT_DOWN]->data;
		assert_true(to->expert && !fused->expert && !to->weight[EW_EXPERT_GATE_UP] && !to->weight[EW_EXPERT_DOWN]);
		for (int x = 0; x < f.sizes.X; x++)
			for (int i = 0; i < EE_PARTS; i++) {
				const struct tensor *t = to->expert[x * EE_PARTS + i];
				const char **from = i == EE_DOWN ? &down : &gate_up;
				assert_int_equal(t->bytes, 2 * f.sizes.J * f.sizes.E);
				assert_memory_equal(t->data, *from, t->bytes);
				*from += t->bytes;
			}
	}
	engine_folder_free(&f);
	engine_folder_free(&whole);
	drop(folder);
	for (int i = 0; i < 2; i++) {
		folder = folder_of(moe, i ? &other : &missing);
		assert_false(engine_folder_read(&f, folder, &e));
		assert_int_equal(e.code, i ? E_DTYPE : E_MISSING);
		assert_string_equal(e.item, "model.layers.1.mlp.experts.15.down_proj.weight");
		drop(folder);
	}
}

/* No GPU is to be seen. */
static void recording_needs_a_device(void **state)
{
	static const char model[] = "fixtures/models/qwen3_5_dense_tiny";
	static const char ids[] = "fixtures/models/qwen3_5_dense_tiny/capture.safetensors:input_ids";

	(void)state;
	expect_exit(EXIT_MACHINE, (const char *[]){ program, "record", "--model", model, "--ids", ids, "-o", "build/never", NULL });
	assert_true(access("build/never", F_OK) != 0 && lines(err) == 1);
	expect_exit(EXIT_INPUT, (const char *[]){ program, "record", "--model", model, "-o", "build/never", NULL });
	expect_exit(EXIT_INPUT, (const char *[]){ program, "record", "--ids", ids, "rope", "-o", "build/never", NULL });
	expect_exit(EXIT_INPUT, (const char *[]){ program, "record", "--model", model, "--ids", "fixtures/none:input_ids", "-o",
		"build/never", NULL });
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_recorded_from_these_sources), cmocka_unit_test(every_layer_is_explained),
		cmocka_unit_test(a_rounding_more_or_less_is_read), cmocka_unit_test(decoding_is_prefill),
		cmocka_unit_test(the_command_passes_it), cmocka_unit_test(heads_of_128_keep_the_contract),
		cmocka_unit_test(sizes_are_read), cmocka_unit_test(bad_folders_are_refused), cmocka_unit_test(experts_one_by_one_are_read),
		cmocka_unit_test(recording_needs_a_device),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, make_beds, free_beds);
}
