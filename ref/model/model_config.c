/* config.json: the sizes of a model, and whether it is one that the reference computes. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static const char *const types[] = { "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe", NULL };
static const char *const kinds[LAYER_KINDS] = { [LINEAR_ATTENTION] = "linear_attention", [FULL_ATTENTION] = "full_attention" };

/* Sizes, and who has them. */
enum { ALL, DENSE, MIXTURE };
static const struct { const char *name; size_t at; int of; } sizes[] = {
	{ "vocab_size", offsetof(struct model_config, vocabulary), ALL },
	{ "hidden_size", offsetof(struct model_config, hidden), ALL },
	{ "num_hidden_layers", offsetof(struct model_config, layers), ALL },
	{ "num_attention_heads", offsetof(struct model_config, heads), ALL },
	{ "num_key_value_heads", offsetof(struct model_config, kv_heads), ALL },
	{ "head_dim", offsetof(struct model_config, head_dim), ALL },
	{ "linear_num_key_heads", offsetof(struct model_config, key_heads), ALL },
	{ "linear_num_value_heads", offsetof(struct model_config, value_heads), ALL },
	{ "linear_key_head_dim", offsetof(struct model_config, key_dim), ALL },
	{ "linear_value_head_dim", offsetof(struct model_config, value_dim), ALL },
	{ "linear_conv_kernel_dim", offsetof(struct model_config, taps), ALL },
	{ "intermediate_size", offsetof(struct model_config, intermediate), DENSE },
	{ "num_experts", offsetof(struct model_config, experts), MIXTURE },
	{ "num_experts_per_tok", offsetof(struct model_config, top_k), MIXTURE },
	{ "moe_intermediate_size", offsetof(struct model_config, expert_intermediate), MIXTURE },
	{ "shared_expert_intermediate_size", offsetof(struct model_config, intermediate), MIXTURE },
};

/* What else must hold where it is said at all. */
static const struct { const char *name; json_type type; const char *value; } must[] = {
	{ "hidden_act", JSON_STRING, "silu" },
	{ "attention_bias", JSON_FALSE, NULL },
	{ "mlp_only_layers", JSON_ARRAY, NULL },
	{ "attn_output_gate", JSON_TRUE, NULL },
};

static bool read_size(struct model_config *c, json_t *j, size_t i, struct error *e)
{
	json_t *v = json_object_get(j, sizes[i].name);
	json_int_t x = json_integer_value(v);

	if (!v) return error_set(e, E_PARAM, sizes[i].name, NO_OFFSET, "missing");
	if (!json_is_integer(v) || x < 1 || x > 1 << 30)
		return error_set(e, E_PARAM, sizes[i].name, NO_OFFSET, "expected a whole number from 1 to 2^30");
	*(size_t *)((char *)c + sizes[i].at) = (size_t)x;
	return true;
}

static bool read_must(json_t *j, struct error *e)
{
	for (size_t i = 0; i < sizeof must / sizeof *must; i++) {
		json_t *v = json_object_get(j, must[i].name);
		bool ok = !v || json_is_null(v) || json_typeof(v) == must[i].type;
		if (v && json_is_string(v) && ok) ok = !strcmp(json_string_value(v), must[i].value);
		if (json_is_array(v) && ok) ok = json_array_size(v) == 0;
		if (!ok) return error_set(e, E_PARAM, must[i].name, NO_OFFSET, "the reference computes no model that has this set so");
	}
	return true;
}

/* Under rope_parameters, or at the top as older configs have it. */
static double rope_number(json_t *j, const char *name, double absent)
{
	json_t *v = json_object_get(json_object_get(j, "rope_parameters"), name);

	if (!v) v = json_object_get(j, name);
	return json_is_number(v) ? json_number_value(v) : absent;
}

static bool read_rope(struct model_config *c, json_t *j, struct error *e)
{
	const char *type = json_string_value(json_object_get(json_object_get(j, "rope_parameters"), "rope_type"));
	json_t *scaling = json_object_get(j, "rope_scaling");
	double rotary = rope_number(j, "partial_rotary_factor", 1) * (double)c->head_dim;

	if ((type && strcmp(type, "default")) || (scaling && !json_is_null(scaling)))
		return error_set(e, E_PARAM, type ? "rope_type" : "rope_scaling", NO_OFFSET, "expected \"default\" rope, without scaling");
	c->theta = rope_number(j, "rope_theta", NAN);
	if (!(c->theta > 0)) return error_set(e, E_PARAM, "rope_theta", NO_OFFSET, "expected a positive number");
	if (!(rotary >= 2 && rotary <= (double)c->head_dim && fmod(floor(rotary), 2) == 0))
		return error_set(e, E_PARAM, "partial_rotary_factor", NO_OFFSET,
			"expected an even number of the %zu dimensions to turn, got %g", c->head_dim, rotary);
	c->rotary_dim = (size_t)rotary;
	c->eps = json_number_value(json_object_get(j, "rms_norm_eps"));
	if (!(c->eps > 0)) return error_set(e, E_PARAM, "rms_norm_eps", NO_OFFSET, "expected a positive number");
	return true;
}

/* layer_types, or without it every full_attention_interval-th layer (4) is full attention. */
static bool read_kinds(struct model_config *c, json_t *j, struct error *e)
{
	json_t *list = json_object_get(j, "layer_types"), *interval = json_object_get(j, "full_attention_interval");
	size_t every = json_is_integer(interval) && json_integer_value(interval) > 0 ? (size_t)json_integer_value(interval) : 4;

	if (!(c->kind = calloc(c->layers, sizeof *c->kind)))
		return error_set(e, E_MEMORY, "layer_types", NO_OFFSET, "%zu layers", c->layers);
	if (list && json_array_size(list) != c->layers)
		return error_set(e, E_PARAM, "layer_types", NO_OFFSET, "expected one of each of the %zu layers, got %zu", c->layers,
			json_array_size(list));
	for (size_t l = 0; l < c->layers; l++) {
		const char *name = json_string_value(json_array_get(list, l));
		c->kind[l] = (l + 1) % every ? LINEAR_ATTENTION : FULL_ATTENTION;
		if (!list) continue;
		for (c->kind[l] = 0; c->kind[l] < LAYER_KINDS && (!name || strcmp(name, kinds[c->kind[l]])); c->kind[l]++) {}
		if (c->kind[l] == LAYER_KINDS)
			return error_set(e, E_PARAM, "layer_types", NO_OFFSET, "layer %zu is \"%s\", expected \"%s\" or \"%s\"", l, name ? name : "",
				kinds[0], kinds[1]);
	}
	return true;
}

/* FP8 times its scales is exact in float64 alone, four times a bf16 model: such weights are not expanded. */
static bool not_quantised(json_t *all, json_t *text, struct error *e)
{
	static const char name[] = "quantization_config";
	json_t *q = json_object_get(text, name);

	if (!q) q = json_object_get(all, name);
	if (!q || json_is_null(q)) return true;
	const char *method = json_string_value(json_object_get(q, "quant_method"));
	return error_set(e, E_PARAM, name, NO_OFFSET, "weights in %s; give the model in bf16 that they were made from",
		method ? method : "another type");
}

static bool read_text(struct model_config *c, json_t *j, struct error *e)
{
	const char *type = json_string_value(json_object_get(j, "model_type"));
	int t = 0, kind = json_object_get(j, "num_experts") ? MIXTURE : DENSE;

	while (type && types[t] && strcmp(types[t], type)) t++;
	if (!type || !types[t])
		return error_set(e, E_PARAM, "model_type", NO_OFFSET, "\"%s\"; expected %s, %s", type ? type : "", types[0], types[1]);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if ((sizes[i].of == ALL || sizes[i].of == kind) && !read_size(c, j, i, e)) return false;
	if (c->heads % c->kv_heads)
		return error_set(e, E_PARAM, "num_attention_heads", NO_OFFSET, "expected a multiple of num_key_value_heads");
	if (c->value_heads % c->key_heads)
		return error_set(e, E_PARAM, "linear_num_value_heads", NO_OFFSET, "expected a multiple of linear_num_key_heads");
	if (c->top_k > c->experts) return error_set(e, E_PARAM, "num_experts_per_tok", NO_OFFSET, "expected at most num_experts");
	return read_must(j, e) && read_rope(c, j, e) && read_kinds(c, j, e);
}

bool model_config_read(struct model_config *c, const char *path, struct error *e)
{
	json_error_t j;
	json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &j), *text = json_object_get(all, "text_config");
	json_t *tied = json_object_get(text ? text : all, "tie_word_embeddings");
	bool ok = false;

	*c = (struct model_config){ 0 };
	if (all) ok = not_quantised(all, text, e) && read_text(c, text ? text : all, e);
	else if (j.line < 0) error_set(e, E_OPEN, NULL, NO_OFFSET, "%s", j.text);
	else error_set(e, E_FORMAT, NULL, (uint64_t)j.position, "line %d: %s", j.line, j.text);
	c->tied = json_is_true(tied ? tied : json_object_get(all, "tie_word_embeddings"));
	json_decref(all);
	if (ok) return true;
	model_config_free(c);
	return error_in_file(e, path);
}

void model_config_free(struct model_config *c)
{
	free(c->kind);
	*c = (struct model_config){ 0 };
}
