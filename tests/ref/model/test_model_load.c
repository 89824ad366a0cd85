/* Loading a model's folder: the two that are there, the same in other shapes, and each thing that is refused. */
#include "ref/model/model.h"
#include "tests/folder_copy.h"

#define DENSE "fixtures/models/qwen3_5_dense_tiny"
#define MOE "fixtures/models/qwen3_5_moe_tiny"

static void loads(const char *folder, const char *original)
{
	struct model m, as;
	struct error e = { 0 };

	if (!model_load(&m, folder, &e)) {
		error_print(stderr, &e);
		fail_msg("%s does not load", folder);
	}
	assert_true(model_load(&as, original, &e));
	assert_int_equal(m.config.layers, as.config.layers);
	assert_memory_equal(m.head->data, as.head->data, as.head->bytes);
	for (size_t l = 0; l < m.config.layers; l++)
		for (int i = 0; i < MAX_IN; i++) {
			const struct tensor *a = m.layer[l].weight[i], *b = as.layer[l].weight[i];
			assert_int_equal(a == NULL, b == NULL);
			if (a) assert_memory_equal(a->data, b->data, b->bytes);
		}
	model_unload(&m);
	model_unload(&as);
}

static void refuses(const char *folder, enum error_code code, const char *item, const char *detail, const char *file)
{
	struct model m;
	struct error e = { 0 };
	bool ok = model_load(&m, folder, &e);

	if (ok || e.code != code || (item && strcmp(e.item, item)) || !strstr(e.detail, detail) || !strstr(e.file, file)) {
		error_print(stderr, &e);
		fail_msg("%s: expected code %d about %s: %s in %s", folder, code, item ? item : "-", detail, file);
	}
	assert_int_equal(error_exit(&e), EXIT_INPUT);
	assert_null(m.layer);
}

/* ---- what is loaded ---- */
static const char *vision_name(const char *name, char *text, size_t size)
{
	bool body = !strncmp(name, "model.", 6);

	snprintf(text, size, "%s%s", body ? "model.language_model." : "", body ? name + 6 : name);
	return text;
}

static void nest(json_t *config)
{
	json_t *text = json_deep_copy(config);

	json_object_clear(config);
	json_object_set_new(config, "model_type", json_string("qwen3_5_moe"));
	json_object_set_new(config, "text_config", text);
	json_object_set_new(config, "vision_config", json_object());
}

static void loads_in_every_shape(void **state)
{
	const struct copy vision = { .rename = vision_name, .edit = nest, .extra = "model.visual.patch_embed.proj.weight" };
	const struct copy shards = { .shards = 3 }, mtp = { .extra = "mtp.fc.weight" };

	(void)state;
	loads(DENSE, DENSE);
	loads(MOE, MOE);
	for (int i = 0; i < 6; i++) {
		const char *original = i % 2 ? MOE : DENSE, *folder = folder_of(original, i < 2 ? &vision : i < 4 ? &shards : &mtp);
		loads(folder, original);
		drop(folder);
	}
}

/* Experts one by one are the fused ones. */
static void loads_experts_one_by_one(void **state)
{
	const struct copy split = { .one_by_one = true }, missing = { .one_by_one = true, .last = LEFT_OUT }, other = { .one_by_one = true,
		.last = OF_F32 }, more = { .one_by_one = true, .extra = "model.layers.0.mlp.experts.16.up_proj.weight" };
	static const char last[] = "model.layers.1.mlp.experts.15.down_proj.weight";

	(void)state;
	const char *folder = folder_of(MOE, &split);
	loads(folder, MOE);
	drop(folder);
	folder = folder_of(MOE, &missing);
	refuses(folder, E_MISSING, last, "expected [160,64]", folder);
	drop(folder);
	folder = folder_of(MOE, &other);
	refuses(folder, E_DTYPE, last, "F32, but expert 0 is BF16", folder);
	drop(folder);
	folder = folder_of(MOE, &more);
	refuses(folder, E_EXTRA, more.extra, "no layer", folder);
	drop(folder);
}

static const char *no_head(const char *name, char *text, size_t size)
{
	(void)text, (void)size;
	return strcmp(name, "lm_head.weight") ? name : NULL;
}
static void tie(json_t *config) { json_object_set_new(config, "tie_word_embeddings", json_true()); }

static void ties_the_head(void **state)
{
	const struct copy tied = { .edit = tie, .rename = no_head }, missing = { .rename = no_head }, another = { .edit = tie };
	struct model m;
	struct error e = { 0 };

	(void)state;
	const char *folder = folder_of(DENSE, &tied);
	assert_true(model_load(&m, folder, &e));
	assert_ptr_equal(m.head, m.embedding);
	model_unload(&m);
	drop(folder);
	folder = folder_of(DENSE, &missing);
	refuses(folder, E_MISSING, "lm_head.weight", "does not tie it", folder);
	drop(folder);
	folder = folder_of(DENSE, &another);
	refuses(folder, E_EXTRA, "lm_head.weight", "ties it", folder);
	drop(folder);
}

/* ---- what is refused ---- */
static void unknown_layer(json_t *c) { json_array_set_new(json_object_get(c, "layer_types"), 2,
	json_string("sliding_attention")); }
static void larger_vocabulary(json_t *c) { json_object_set_new(c, "vocab_size", json_integer(640)); }
static void fewer_layers(json_t *c) { json_object_set_new(c, "num_hidden_layers", json_integer(3)); }
static void one_layer_less(json_t *c) { fewer_layers(c), json_array_remove(json_object_get(c, "layer_types"), 3); }
static void no_width(json_t *c) { json_object_del(c, "hidden_size"); }
static void other_width(json_t *c) { json_object_set_new(c, "intermediate_size", json_integer(400)); }
static void other_model(json_t *c) { json_object_set_new(c, "model_type", json_string("llama")); }
static void gelu(json_t *c) { json_object_set_new(c, "hidden_act", json_string("gelu")); }
static void biased(json_t *c) { json_object_set_new(c, "attention_bias", json_true()); }
static void yarn(json_t *c) { json_object_set_new(json_object_get(c, "rope_parameters"), "rope_type", json_string("yarn")); }
static void quantised(json_t *c) { json_object_set_new(c, "quantization_config", json_pack("{s:s}", "quant_method", "fp8")); }
static void quantised_outside(json_t *c)
{
	nest(c);
	quantised(c);
}
static void odd_heads(json_t *c) { json_object_set_new(c, "num_key_value_heads", json_integer(4)); }
static void too_many_chosen(json_t *c) { json_object_set_new(c, "num_experts_per_tok", json_integer(17)); }
static void negative(json_t *c) { json_object_set_new(c, "head_dim", json_integer(-64)); }

static const char *without_dt_bias(const char *name, char *text, size_t size)
{
	(void)text, (void)size;
	return strcmp(name, "model.layers.1.linear_attn.dt_bias") ? name : NULL;
}
static const char *without_prefix(const char *name, char *text, size_t size)
{
	(void)text, (void)size;
	return strcmp(name, "model.layers.0.mlp.up_proj.weight") ? name : name + strlen("model.");
}

static void refuses_what_does_not_fit(void **state)
{
	static const struct { const char *from; struct copy copy; enum error_code code; const char *item, *detail; } bad[] = {
		{ DENSE, { .edit = unknown_layer }, E_PARAM, "layer_types", "layer 2 is \"sliding_attention\"" },
		{ DENSE, { .edit = fewer_layers }, E_PARAM, "layer_types", "each of the 3 layers, got 4" },
		{ DENSE, { .edit = no_width }, E_PARAM, "hidden_size", "missing" },
		{ DENSE, { .edit = negative }, E_PARAM, "head_dim", "from 1" },
		{ DENSE, { .edit = other_model }, E_PARAM, "model_type", "llama" },
		{ DENSE, { .edit = gelu }, E_PARAM, "hidden_act", "computes no model" },
		{ DENSE, { .edit = biased }, E_PARAM, "attention_bias", "computes no model" },
		{ DENSE, { .edit = quantised }, E_PARAM, "quantization_config", "weights in fp8; give the model in bf16" },
		{ DENSE, { .edit = quantised_outside }, E_PARAM, "quantization_config", "weights in fp8" },
		{ DENSE, { .edit = yarn }, E_PARAM, "rope_type", "default" },
		{ DENSE, { .edit = odd_heads }, E_PARAM, "num_attention_heads", "multiple" },
		{ MOE, { .edit = too_many_chosen }, E_PARAM, "num_experts_per_tok", "at most" },
		{ DENSE, { .edit = larger_vocabulary }, E_DIM, "model.embed_tokens.weight", "[640,160], got [632,160]" },
		{ DENSE, { .edit = other_width }, E_DIM, "model.layers.0.mlp.gate_proj.weight", "[400,160], got [416,160]" },
		{ DENSE, { .edit = one_layer_less }, E_EXTRA, "model.layers.3.input_layernorm.weight", "no layer" },
		{ DENSE, { .rename = without_dt_bias }, E_MISSING, "model.layers.1.linear_attn.dt_bias", "expected [6]" },
		{ DENSE, { .rename = without_prefix }, E_MISSING, "model.layers.0.mlp.up_proj.weight", "expected [416,160]" },
		{ DENSE, { .extra = "model.layers.0.linear_attn.extra" }, E_EXTRA, "model.layers.0.linear_attn.extra", "no layer" },
		{ DENSE, { .reshape_head = true }, E_DIM, "lm_head.weight", "[632,160], got [631,160]" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *folder = folder_of(bad[i].from, &bad[i].copy);
		refuses(folder, bad[i].code, bad[i].item, bad[i].detail, folder);
		drop(folder);
	}
}

static void refuses_shards_that_do_not_fit(void **state)
{
	const struct copy shards = { .shards = 3 }, more = { .shards = 3, .extra = "model.visual.x" };
	const char *folder = folder_of(DENSE, &shards);
	char path[256];

	(void)state;
	snprintf(path, sizeof path, "%s/model-00002-of-00003.safetensors", folder);
	assert_int_equal(unlink(path), 0);
	refuses(folder, E_OPEN, NULL, "No such file", "model-00002-of-00003.safetensors");
	drop(folder);
	folder = folder_of(DENSE, &more);
	refuses(folder, E_EXTRA, "model.visual.x", "does not have it in this shard", "model-00001-of-00003.safetensors");
	drop(folder);
	folder = folder_of(DENSE, &shards);
	write_index(folder, json_pack("{s:s}", "lm_head.weight", "../model.safetensors"));
	refuses(folder, E_NAME, "lm_head.weight", "in the same folder", "index.json");
	write_index(folder, json_pack("{s:s}", "model.nothing", "model-00001-of-00003.safetensors"));
	refuses(folder, E_MISSING, "model.nothing", "has it in this shard", "model-00001-of-00003.safetensors");
	drop(folder);
	refuses(scratch("nowhere"), E_OPEN, NULL, "No such file", "config.json");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loads_in_every_shape), cmocka_unit_test(loads_experts_one_by_one),
		cmocka_unit_test(ties_the_head), cmocka_unit_test(refuses_what_does_not_fit),
		cmocka_unit_test(refuses_shards_that_do_not_fit),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
