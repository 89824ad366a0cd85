/* Experts that a folder has one by one, put together. */
#include <stdio.h>
#include <string.h>

#include "model_private.h"

/* Parts of an expert in the order of the fused tensor. */
static const struct fused { const char *in; int parts; char part[2][12]; } fused[FUSED] = {
	{ "expert_gate_up", 2, { "gate_proj", "up_proj" } }, { "expert_down", 1, { "down_proj" } }
};

static void part_name(char *text, size_t size, const char *prefix, size_t layer, size_t expert, const char *part)
{
	snprintf(text, size, "%slayers.%zu.mlp.experts.%zu.%s.weight", prefix, layer, expert, part);
}

/* Part k of n of an expert; NULL: *e says why. */
static const struct tensor *find(const struct model *m, const char *name, size_t rows, size_t cols, enum dtype d, struct error *e)
{
	const struct tensor *t = folder_find(&m->folder, name);

	if (!t) error_set(e, E_MISSING, name, NO_OFFSET, "expected [%zu,%zu], as other experts have it", rows, cols);
	else if (t->rank != 2 || t->shape[0] != rows || t->shape[1] != cols)
		error_set(e, E_DIM, name, t->offset, "config.json makes it [%zu,%zu]", rows, cols);
	else if (!dtype_info[t->dtype].is_float) error_set(e, E_KIND, name, t->offset, "expected a floating-point type");
	else if (t->dtype != d) error_set(e, E_DTYPE, name, t->offset, "%s, but expert 0 is %s", dtype_info[t->dtype].name, dtype_info[d].name);
	else return t;
	return NULL;
}

bool model_fuse(struct model *m, size_t layer, int in, const char *prefix, const struct model_weight *w, struct error *e)
{
	char name[192];
	int i = 0;

	while (i < FUSED && strcmp(fused[i].in, model_op((int)m->config.kind[layer])->in[in].name)) i++;
	if (i == FUSED) return true;
	int parts = fused[i].parts;
	part_name(name, sizeof name, prefix, layer, 0, fused[i].part[0]);
	const struct tensor *first = folder_find(&m->folder, name);
	if (!first) return true;
	size_t rows = w->shape[1] / (size_t)parts, cols = w->shape[2];
	struct tensor *all = tensors_add(&m->layer[layer].fused[i], w->name, first->dtype, w->rank, w->shape);
	if (!all) return error_set(e, E_MEMORY, w->name, NO_OFFSET, "its experts together");
	for (size_t x = 0; x < w->shape[0]; x++)
		for (int k = 0; k < parts; k++) {
			part_name(name, sizeof name, prefix, layer, x, fused[i].part[k]);
			const struct tensor *t = find(m, name, rows, cols, first->dtype, e);
			if (!t) return false;
			memcpy((char *)all->data + (x * (size_t)parts + (size_t)k) * t->bytes, t->data, t->bytes);
		}
	m->layer[layer].weight[in] = all;
	return true;
}

bool model_is_fused(const struct model *m, const char *name)
{
	size_t layer, expert;
	char part[16];
	int end = 0;
	const char *at = strstr(name, "layers.");

	if (!at || sscanf(at, "layers.%zu.mlp.experts.%zu.%15[a-z_].weight%n", &layer, &expert, part, &end) != 3 || !end || at[end]) return false;
	if (layer >= m->config.layers || expert >= m->config.experts) return false;
	for (int i = 0; i < FUSED; i++)
		for (int k = 0; k < fused[i].parts; k++)
			if (!strcmp(part, fused[i].part[k])) return m->layer[layer].fused[i].n > 0;
	return false;
}
