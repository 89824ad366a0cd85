/* config.json as the engine reads it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/engine/model_folder.h"

enum { MAX_SIZE = 1 << 24, MAX_HEAD = 256 };

static bool wrong(struct error *e, const char *what, const char *detail) { return error_set(e, E_PARAM, what, NO_OFFSET, "%s", detail); }

static bool unpack_error(struct error *e, const json_error_t *j) { return error_set(e, E_PARAM, NULL, NO_OFFSET, "%s", j->text); }

static bool read_sizes(struct engine_sizes *s, json_t *j, struct error *e)
{
	json_error_t why;

	if (json_unpack_ex(j, &why, 0, "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:F}", "vocab_size", &s->V,
		"hidden_size", &s->E, "num_hidden_layers", &s->layers, "num_attention_heads", &s->H, "num_key_value_heads", &s->G,
		"head_dim", &s->D, "linear_num_key_heads", &s->M, "linear_key_head_dim", &s->A, "linear_num_value_heads", &s->N,
		"linear_value_head_dim", &s->B, "linear_conv_kernel_dim", &s->W, "rms_norm_eps", &s->eps))
		return unpack_error(e, &why);
	if (!json_object_get(j, "num_experts")) {
		if (json_unpack_ex(j, &why, 0, "{s:i}", "intermediate_size", &s->I)) return unpack_error(e, &why);
		return true;
	}
	if (json_unpack_ex(j, &why, 0, "{s:i, s:i, s:i, s:i}", "num_experts", &s->X, "num_experts_per_tok", &s->K,
		"moe_intermediate_size", &s->J, "shared_expert_intermediate_size", &s->I))
		return unpack_error(e, &why);
	if (s->X < 1 || s->J < 1 || s->K < 1 || s->K > s->X || s->X > 1024 || s->K > 32)
		return wrong(e, "num_experts", "expected up to 1024 experts and at most 32 of them for a token");
	return true;
}

static bool check_sizes(const struct engine_sizes *s, struct error *e)
{
	const int size[] = { s->V, s->E, s->layers, s->H, s->G, s->D, s->M, s->A, s->N, s->B, s->W, s->I };

	for (size_t i = 0; i < sizeof size / sizeof *size; i++)
		if (size[i] < 1 || size[i] > MAX_SIZE) return wrong(e, NULL, "a size that is no whole number from 1 to 2^24");
	if (s->H % s->G) return wrong(e, "num_attention_heads", "no multiple of num_key_value_heads");
	if (s->N % s->M) return wrong(e, "linear_num_value_heads", "no multiple of linear_num_key_heads");
	if (s->D > MAX_HEAD || s->A > MAX_HEAD) return wrong(e, "head_dim", "the kernels have heads of up to 256");
	if (s->W < 2 || s->W > 8) return wrong(e, "linear_conv_kernel_dim", "the kernel has 2 to 8 taps");
	return s->eps > 0 || wrong(e, "rms_norm_eps", "expected a positive number");
}

static bool read_rope(struct engine_sizes *s, json_t *j, struct error *e)
{
	json_t *rope = json_object_get(j, "rope_parameters"), *at = rope ? rope : j;
	json_t *part = json_object_get(at, "partial_rotary_factor");
	const char *type = json_string_value(json_object_get(rope, "rope_type"));

	if (!part) part = json_object_get(j, "partial_rotary_factor");
	s->theta = json_number_value(json_object_get(at, "rope_theta"));
	s->R = (int)((part ? json_number_value(part) : 1) * s->D);
	if (json_is_object(json_object_get(j, "rope_scaling")) || (type && strcmp(type, "default")))
		return wrong(e, "rope_type", "the engine turns by plain rope only");
	if (!(s->theta > 0)) return wrong(e, "rope_theta", "expected a positive number");
	if (s->R < 2 || s->R > s->D || s->R % 2) return wrong(e, "partial_rotary_factor", "expected an even number of dimensions");
	return true;
}

static bool read_layers(const struct engine_sizes *s, bool **full, json_t *j, struct error *e)
{
	json_t *types = json_object_get(j, "layer_types");
	json_int_t every = json_integer_value(json_object_get(j, "full_attention_interval"));

	if (types && json_array_size(types) != (size_t)s->layers) return wrong(e, "layer_types", "not one of each layer");
	if (!(*full = calloc((size_t)s->layers, sizeof **full))) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%d layers", s->layers);
	for (int l = 0; l < s->layers; l++) {
		const char *type = json_string_value(json_array_get(types, (size_t)l));
		(*full)[l] = types ? type && !strcmp(type, "full_attention") : (l + 1) % (every > 0 ? every : 4) == 0;
		if (types && !(*full)[l] && (!type || strcmp(type, "linear_attention")))
			return error_set(e, E_PARAM, "layer_types", NO_OFFSET, "layer %d is \"%s\"", l, type ? type : "");
	}
	return true;
}

/* What the engine does not compute. */
static bool check_kind(json_t *j, struct error *e)
{
	const char *type = json_string_value(json_object_get(j, "model_type")), *act = json_string_value(json_object_get(j, "hidden_act"));

	if (!type || strncmp(type, "qwen3_5", 7)) return error_set(e, E_PARAM, "model_type", NO_OFFSET, "\"%s\" is no qwen3_5", type ? type : "");
	if (act && strcmp(act, "silu")) return error_set(e, E_PARAM, "hidden_act", NO_OFFSET, "\"%s\" is not silu", act);
	if (json_is_true(json_object_get(j, "attention_bias"))) return wrong(e, "attention_bias", "the engine adds none");
	if (json_is_false(json_object_get(j, "attn_output_gate"))) return wrong(e, "attn_output_gate", "the engine has one");
	if (json_array_size(json_object_get(j, "mlp_only_layers"))) return wrong(e, "mlp_only_layers", "all layers have the same MLP");
	if (json_is_object(json_object_get(j, "quantization_config"))) return wrong(e, "quantization_config", "the engine has bf16 weights");
	return true;
}

bool engine_sizes_read(struct engine_sizes *s, bool **full, const char *path, struct error *e)
{
	json_error_t why;
	json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &why), *text = json_object_get(all, "text_config");
	json_t *j = text ? text : all, *tied = json_object_get(j, "tie_word_embeddings");

	*s = (struct engine_sizes){ 0 };
	*full = NULL;
	bool ok = all ? check_kind(j, e) && read_sizes(s, j, e) && check_sizes(s, e) && read_rope(s, j, e) && read_layers(s, full, j, e)
		: error_set(e, why.line < 0 ? E_OPEN : E_FORMAT, NULL, NO_OFFSET, "%s", why.text);
	s->tied = json_is_true(tied ? tied : json_object_get(all, "tie_word_embeddings"));
	json_decref(all);
	if (ok) return true;
	free(*full);
	*full = NULL;
	return error_in_file(e, path);
}
