/* The sizes that the engine has kernels for, from config.json. */
#include <stdlib.h>

#include "fixtures/io/model_config.h"
#include "gpu/engine/model_folder.h"

enum { MAX_SIZE = 1 << 24, MAX_HEAD = 256, MAX_EXPERTS = 1024, MAX_CHOSEN = 32, LEAST_TAPS = 2, MAX_TAPS = 8 };

static bool wrong(struct error *e, const char *what, const char *detail) { return error_set(e, E_PARAM, what, NO_OFFSET, "%s", detail); }

static bool check_sizes(const struct model_config *c, struct error *e)
{
	const size_t size[] = { c->vocabulary, c->hidden, c->layers, c->intermediate, c->expert_intermediate, c->heads, c->kv_heads,
		c->key_heads, c->value_heads, c->value_dim };

	for (size_t i = 0; i < sizeof size / sizeof *size; i++)
		if (size[i] > MAX_SIZE) return wrong(e, NULL, "a size above 2^24");
	if (c->experts > MAX_EXPERTS || c->top_k > MAX_CHOSEN)
		return wrong(e, "num_experts", "expected up to 1024 experts and at most 32 of them for a token");
	if (c->head_dim > MAX_HEAD || c->key_dim > MAX_HEAD) return wrong(e, "head_dim", "the kernels have heads of up to 256");
	return (c->taps >= LEAST_TAPS && c->taps <= MAX_TAPS) || wrong(e, "linear_conv_kernel_dim", "the kernel has 2 to 8 taps");
}

static struct engine_sizes sizes_of(const struct model_config *c)
{
	return (struct engine_sizes){
		.V = (int)c->vocabulary, .E = (int)c->hidden, .layers = (int)c->layers, .I = (int)c->intermediate, .X = (int)c->experts,
		.J = (int)c->expert_intermediate, .K = (int)c->top_k, .H = (int)c->heads, .G = (int)c->kv_heads, .D = (int)c->head_dim,
		.R = (int)c->rotary_dim, .M = (int)c->key_heads, .A = (int)c->key_dim, .N = (int)c->value_heads, .B = (int)c->value_dim,
		.W = (int)c->taps, .theta = c->theta, .eps = c->eps, .tied = c->tied
	};
}

bool engine_sizes_read(struct engine_sizes *s, bool **full, const char *path, struct error *e)
{
	struct model_config c;

	*s = (struct engine_sizes){ 0 };
	*full = NULL;
	if (!model_config_read(&c, path, e)) return false;
	bool ok = check_sizes(&c, e);
	if (ok && !(*full = calloc(c.layers, sizeof **full))) ok = error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu layers", c.layers);
	for (size_t l = 0; ok && l < c.layers; l++) (*full)[l] = c.kind[l] == FULL_ATTENTION;
	if (ok) *s = sizes_of(&c);
	model_config_free(&c);
	return ok || error_in_file(e, path);
}
