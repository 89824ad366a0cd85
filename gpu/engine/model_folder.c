/* The sizes of a model, and its weights by the layers of the engine. */
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/model_config.h"
#include "gpu/engine/model_folder.h"

enum { MAX_SIZE = 1 << 24 };
enum { LINEAR = 1, FULL = 2, DENSE = 4, MIXTURE = 8, PRODUCT = 16 };   /* whose it is; PRODUCT: cuBLAS multiplies by it */
enum { NOTHING, ONE, E, I, X, J, J2, D, D2H, DG, DH, C, Z, N, B, W, DIMS };

static const struct { const char *name; int of; unsigned char shape[3]; } weights[ENGINE_WEIGHTS] = {
	[EW_INPUT_NORM] = { "input_layernorm.weight", LINEAR | FULL, { E } },
	[EW_POST_NORM] = { "post_attention_layernorm.weight", LINEAR | FULL, { E } },
	[EW_QKV] = { "linear_attn.in_proj_qkv.weight", LINEAR | PRODUCT, { C, E } },
	[EW_Z] = { "linear_attn.in_proj_z.weight", LINEAR | PRODUCT, { Z, E } },
	[EW_A] = { "linear_attn.in_proj_a.weight", LINEAR, { N, E } },
	[EW_B] = { "linear_attn.in_proj_b.weight", LINEAR, { N, E } },
	[EW_CONV] = { "linear_attn.conv1d.weight", LINEAR, { C, ONE, W } },
	[EW_A_LOG] = { "linear_attn.A_log", LINEAR, { N } },
	[EW_DT_BIAS] = { "linear_attn.dt_bias", LINEAR, { N } },
	[EW_NORM] = { "linear_attn.norm.weight", LINEAR, { B } },
	[EW_OUT] = { "linear_attn.out_proj.weight", LINEAR | PRODUCT, { E, Z } },
	[EW_Q] = { "self_attn.q_proj.weight", FULL | PRODUCT, { D2H, E } },
	[EW_K] = { "self_attn.k_proj.weight", FULL | PRODUCT, { DG, E } },
	[EW_V] = { "self_attn.v_proj.weight", FULL | PRODUCT, { DG, E } },
	[EW_Q_NORM] = { "self_attn.q_norm.weight", FULL, { D } },
	[EW_K_NORM] = { "self_attn.k_norm.weight", FULL, { D } },
	[EW_O] = { "self_attn.o_proj.weight", FULL | PRODUCT, { E, DH } },
	[EW_GATE] = { "gate_proj.weight", DENSE | MIXTURE | PRODUCT, { I, E } },
	[EW_UP] = { "up_proj.weight", DENSE | MIXTURE | PRODUCT, { I, E } },
	[EW_DOWN] = { "down_proj.weight", DENSE | MIXTURE | PRODUCT, { E, I } },
	[EW_ROUTER] = { "mlp.gate.weight", MIXTURE, { X, E } },
	[EW_EXPERT_GATE_UP] = { "mlp.experts.gate_up_proj", MIXTURE | PRODUCT, { X, J2, E } },
	[EW_EXPERT_DOWN] = { "mlp.experts.down_proj", MIXTURE | PRODUCT, { X, E, J } },
	[EW_SHARED_GATE] = { "mlp.shared_expert_gate.weight", MIXTURE, { ONE, E } },
};

static void dims_of(const struct engine_sizes *s, size_t *d)
{
	const int size[DIMS] = { [ONE] = 1, [E] = s->E, [I] = s->I, [X] = s->X, [J] = s->J, [J2] = 2 * s->J, [D] = s->D,
		[D2H] = 2 * s->D * s->H, [DG] = s->D * s->G, [DH] = s->D * s->H, [C] = 2 * s->M * s->A + s->N * s->B, [Z] = s->N * s->B,
		[N] = s->N, [B] = s->B, [W] = s->W };

	for (int i = 0; i < DIMS; i++) d[i] = (size_t)size[i];
}

static bool fits(const struct tensor *t, const char *name, bool product, int rank, const size_t *shape, struct error *e)
{
	struct tensor want = { .rank = rank };
	char wanted[96], got[96];

	if (!t) return error_set(e, E_MISSING, name, NO_OFFSET, "the engine needs it");
	memcpy(want.shape, shape, (size_t)rank * sizeof *shape);
	if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape))
		return error_set(e, E_DIM, name, t->offset, "expected %s, got %s", shape_text(&want, wanted, sizeof wanted),
			shape_text(t, got, sizeof got));
	if (t->dtype == DT_BF16 || (!product && (t->dtype == DT_F32 || t->dtype == DT_F16))) return true;
	return error_set(e, E_DTYPE, name, t->offset, "%s; the engine has %s", dtype_info[t->dtype].name,
		product ? "weights of products in BF16" : "BF16, F16 or F32 there");
}

/* The prefix of all names: what stands before embed_tokens. */
static const char *prefix_of(const struct folder *f, char *prefix, size_t size)
{
	static const char end[] = "embed_tokens.weight";

	*prefix = '\0';
	for (size_t i = 0; i < f->n; i++)
		for (size_t j = 0; j < f->file[i].n; j++) {
			const char *name = f->file[i].item[j].name;
			size_t n = strlen(name), cut = sizeof end - 1;
			if (n >= cut && n - cut < size && !strcmp(name + n - cut, end) && !strstr(name, "mtp.") && !strstr(name, "visual"))
				snprintf(prefix, size, "%.*s", (int)(n - cut), name);
		}
	return prefix;
}

/* Parts [first, end) of each of a layer's experts. */
static bool find_experts(struct engine_folder *f, int l, const char *prefix, int first, int end, const size_t *dim, struct error *e)
{
	static const char *const part[EE_PARTS] = { "gate_proj", "up_proj", "down_proj" };
	struct engine_layer *to = &f->layer[l];
	char name[192];

	if (!to->expert && !(to->expert = calloc(dim[X] * EE_PARTS, sizeof *to->expert)))
		return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu experts", dim[X]);
	for (size_t x = 0; x < dim[X]; x++)
		for (int i = first; i < end; i++) {
			size_t shape[2] = { i == EE_DOWN ? dim[E] : dim[J], i == EE_DOWN ? dim[J] : dim[E] };
			snprintf(name, sizeof name, "%slayers.%d.mlp.experts.%zu.%s.weight", prefix, l, x, part[i]);
			const struct tensor *t = to->expert[x * EE_PARTS + (size_t)i] = folder_find(&f->files, name);
			if (!fits(t, name, true, 2, shape, e)) return false;
		}
	return true;
}

/* Whether weight w of a layer is there as experts one by one. */
static bool is_one_by_one(const struct engine_folder *f, int l, const char *prefix, int w)
{
	char name[192];

	if (w != EW_EXPERT_GATE_UP && w != EW_EXPERT_DOWN) return false;
	snprintf(name, sizeof name, "%slayers.%d.mlp.experts.0.%s.weight", prefix, l, w == EW_EXPERT_DOWN ? "down_proj" : "gate_proj");
	return folder_find(&f->files, name) != NULL;
}

static bool find_layer(struct engine_folder *f, int l, const char *prefix, const size_t *dim, struct error *e)
{
	bool mixture = f->sizes.X > 0;
	int mine = (f->layer[l].full ? FULL : LINEAR) | (mixture ? MIXTURE : DENSE);
	char name[192];

	for (int w = 0; w < ENGINE_WEIGHTS; w++) {
		bool mlp = w >= EW_GATE && w <= EW_DOWN, product = weights[w].of & PRODUCT;
		size_t shape[3];
		int rank = 0;
		if (!(weights[w].of & mine)) continue;
		if (is_one_by_one(f, l, prefix, w)) {
			bool down = w == EW_EXPERT_DOWN;
			if (!find_experts(f, l, prefix, down ? EE_DOWN : EE_GATE, down ? EE_PARTS : EE_DOWN, dim, e)) return false;
			continue;
		}
		for (; rank < 3 && weights[w].shape[rank]; rank++) shape[rank] = dim[weights[w].shape[rank]];
		snprintf(name, sizeof name, "%slayers.%d.%s%s", prefix, l, !mlp ? "" : mixture ? "mlp.shared_expert." : "mlp.", weights[w].name);
		f->layer[l].weight[w] = folder_find(&f->files, name);
		if (!fits(f->layer[l].weight[w], name, product, rank, shape, e)) return false;
	}
	return true;
}

static bool find_ends(struct engine_folder *f, const char *prefix, struct error *e)
{
	static const char *const heads[] = { "lm_head.weight", "model.lm_head.weight", "language_model.lm_head.weight" };
	size_t table[] = { (size_t)f->sizes.V, (size_t)f->sizes.E };
	char name[192];

	snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
	f->embedding = folder_find(&f->files, name);
	if (!fits(f->embedding, name, true, 2, table, e)) return false;
	for (size_t i = 0; i < sizeof heads / sizeof *heads && !f->head; i++) f->head = folder_find(&f->files, heads[i]);
	if (!f->head && f->sizes.tied) f->head = f->embedding;
	if (!fits(f->head, heads[0], true, 2, table, e)) return false;
	snprintf(name, sizeof name, "%snorm.weight", prefix);
	f->final_norm = folder_find(&f->files, name);
	return fits(f->final_norm, name, false, 1, table + 1, e);
}

static bool find_all(struct engine_folder *f, const struct model_config *c, struct error *e)
{
	char prefix[128];
	size_t dim[DIMS];

	if (!(f->layer = calloc((size_t)f->sizes.layers, sizeof *f->layer)))
		return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%d layers", f->sizes.layers);
	dims_of(&f->sizes, dim);
	if (!find_ends(f, prefix_of(&f->files, prefix, sizeof prefix), e)) return false;
	for (int l = 0; l < f->sizes.layers; l++) {
		f->layer[l].full = c->kind[l] == FULL_ATTENTION;
		if (!find_layer(f, l, prefix, dim, e)) return false;
	}
	return true;
}

/* What the engine's kernels are made for. */
static bool take_sizes(struct engine_sizes *s, const struct model_config *c, struct error *e)
{
	const struct { const char *name; size_t got, least, most; int *to; } sizes[] = {
		{ "vocab_size", c->vocabulary, 1, MAX_SIZE, &s->V }, { "hidden_size", c->hidden, 1, MAX_SIZE, &s->E },
		{ "num_hidden_layers", c->layers, 1, MAX_SIZE, &s->layers }, { "intermediate_size", c->intermediate, 1, MAX_SIZE, &s->I },
		{ "num_experts", c->experts, 0, 1024, &s->X }, { "num_experts_per_tok", c->top_k, 0, 32, &s->K },
		{ "moe_intermediate_size", c->expert_intermediate, 0, MAX_SIZE, &s->J },
		{ "num_attention_heads", c->heads, 1, MAX_SIZE, &s->H }, { "num_key_value_heads", c->kv_heads, 1, MAX_SIZE, &s->G },
		{ "head_dim", c->head_dim, 1, 256, &s->D }, { "partial_rotary_factor", c->rotary_dim, 2, 256, &s->R },
		{ "linear_num_key_heads", c->key_heads, 1, MAX_SIZE, &s->M }, { "linear_key_head_dim", c->key_dim, 1, 256, &s->A },
		{ "linear_num_value_heads", c->value_heads, 1, MAX_SIZE, &s->N },
		{ "linear_value_head_dim", c->value_dim, 1, MAX_SIZE, &s->B }, { "linear_conv_kernel_dim", c->taps, 2, 8, &s->W },
	};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		if (sizes[i].got < sizes[i].least || sizes[i].got > sizes[i].most)
			return error_set(e, E_PARAM, sizes[i].name, NO_OFFSET, "%zu; the engine's kernels take %zu to %zu", sizes[i].got,
				sizes[i].least, sizes[i].most);
		*sizes[i].to = (int)sizes[i].got;
	}
	s->theta = c->theta;
	s->eps = c->eps;
	s->tied = c->tied;
	return true;
}

bool engine_folder_read(struct engine_folder *f, const char *path, struct error *e)
{
	char *config = folder_path(path, "config.json");
	struct model_config c = { 0 };

	*f = (struct engine_folder){ 0 };
	bool ok = config ? model_config_read(&c, config, e) && (take_sizes(&f->sizes, &c, e) || error_in_file(e, config))
		: error_set(e, E_MEMORY, NULL, NO_OFFSET, "a path");
	ok = ok && folder_read(&f->files, path, e) && (find_all(f, &c, e) || error_in_file(e, path));
	free(config);
	model_config_free(&c);
	if (!ok) engine_folder_free(f);
	return ok;
}

void engine_folder_free(struct engine_folder *f)
{
	folder_free(&f->files);
	for (int l = 0; f->layer && l < f->sizes.layers; l++) free(f->layer[l].expert);
	free(f->layer);
	*f = (struct engine_folder){ 0 };
}
