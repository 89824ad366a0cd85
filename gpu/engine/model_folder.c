/* The weights of a model by the layers of the engine. */
#include <stdlib.h>
#include <string.h>

#include "gpu/engine/model_folder.h"

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

static bool find_all(struct engine_folder *f, const bool *full, struct error *e)
{
	char prefix[128];
	size_t dim[DIMS];

	if (!(f->layer = calloc((size_t)f->sizes.layers, sizeof *f->layer)))
		return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%d layers", f->sizes.layers);
	dims_of(&f->sizes, dim);
	if (!find_ends(f, prefix_of(&f->files, prefix, sizeof prefix), e)) return false;
	for (int l = 0; l < f->sizes.layers; l++) {
		f->layer[l].full = full[l];
		if (!find_layer(f, l, prefix, dim, e)) return false;
	}
	return true;
}

bool engine_folder_read(struct engine_folder *f, const char *path, struct error *e)
{
	char *config = folder_path(path, "config.json");
	bool *full = NULL;

	*f = (struct engine_folder){ 0 };
	bool ok = config ? engine_sizes_read(&f->sizes, &full, config, e) : error_set(e, E_MEMORY, NULL, NO_OFFSET, "a path");
	ok = ok && folder_read(&f->files, path, e) && (find_all(f, full, e) || error_in_file(e, path));
	free(config);
	free(full);
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
