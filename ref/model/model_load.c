/* A model's folder: its weights by their layers' inputs, and nothing left over. */
#include <stdlib.h>
#include <string.h>

#include "model_private.h"

static const char *const prefixes[] = { "model.language_model.", "language_model.model.", "model.", "" };
static const char *const heads[] = { "lm_head.weight", "model.lm_head.weight", "language_model.lm_head.weight",
	"model.language_model.lm_head.weight" };
/* What a text model does without: the vision tower, multi-token prediction, tables that older files keep. */
static const char *const ignorable[] = { "model.visual.", "visual.", "vision_tower.", "model.vision_tower.", "mtp.", "model.mtp.",
	"model.language_model.rotary_emb.", "model.rotary_emb." };
enum { PREFIXES = sizeof prefixes / sizeof *prefixes, HEADS = sizeof heads / sizeof *heads,
	IGNORABLE = sizeof ignorable / sizeof *ignorable };

/* Is t [shape] of floats? */
static bool fits(const struct tensor *t, const struct call *sizes, const char *spec, struct error *e)
{
	struct tensor want = { .rank = call_shape(sizes, spec, want.shape) };
	char wanted[96], got[96];

	if (!dtype_info[t->dtype].is_float)
		return error_set(e, E_KIND, t->name, t->offset, "expected a floating-point type, got %s", dtype_info[t->dtype].name);
	if (t->rank == want.rank && !memcmp(t->shape, want.shape, (size_t)want.rank * sizeof *want.shape)) return true;
	return error_set(e, E_DIM, t->name, t->offset, "config.json makes it %s, got %s", shape_text(&want, wanted, sizeof wanted),
		shape_text(t, got, sizeof got));
}

static bool find(const struct model *m, const char *name, const struct call *sizes, const char *spec, const struct tensor **t,
	struct error *e)
{
	struct tensor want = { .rank = call_shape(sizes, spec, want.shape) };
	char text[96];

	*t = folder_find(&m->folder, name);
	if (!*t) return error_set(e, E_MISSING, name, NO_OFFSET, "expected %s", shape_text(&want, text, sizeof text));
	return fits(*t, sizes, spec, e);
}

static const char final_norm[] = "final_norm";

static bool has_weight(const struct model_config *c, size_t layer, int in)
{
	const struct op *op = model_op((int)c->kind[layer]);

	if (!strcmp(op->in[in].name, final_norm)) return layer + 1 == c->layers;
	return model_is_weight(op, in) && (c->experts || !(op->in[in].flags & OPTIONAL));
}

/* Of two names, "DENSE|MIXTURE", the one that the model has. */
bool model_weight(const struct model_config *c, size_t layer, int in, struct model_weight *w)
{
	const struct op *op = model_op((int)c->kind[layer]);
	const char *own = op->in[in].what, *second = strchr(own, '|');
	struct call sizes = { .op = op };
	char at[48] = "";

	if (!has_weight(c, layer, in)) return false;
	if (strcmp(op->in[in].name, final_norm)) snprintf(at, sizeof at, "layers.%zu.", layer);
	if (second && c->experts) snprintf(w->name, sizeof w->name, "%s%s", at, second + 1);
	else snprintf(w->name, sizeof w->name, "%s%.*s", at, second ? (int)(second - own) : (int)strlen(own), own);
	model_dims(c, &sizes, 1, 0);
	w->rank = call_shape(&sizes, op->in[in].shape, w->shape);
	return true;
}

static bool load_layer(struct model *m, size_t l, const char *prefix, struct error *e)
{
	const struct op *op = model_op(m->config.kind[l]);
	struct call sizes = { .op = op };
	struct model_weight w;
	char name[192];

	m->layer[l].kind = m->config.kind[l];
	model_dims(&m->config, &sizes, 1, 0);
	for (int in = 0; op->in[in].name; in++) {
		if (!model_weight(&m->config, l, in, &w)) continue;
		if (!model_fuse(m, l, in, prefix, &w, e)) return false;
		if (m->layer[l].weight[in]) continue;
		snprintf(name, sizeof name, "%s%s", prefix, w.name);
		if (!find(m, name, &sizes, op->in[in].shape, &m->layer[l].weight[in], e)) return false;
	}
	return true;
}

static bool load_ends(struct model *m, const char *prefix, struct error *e)
{
	struct call sizes = { .op = model_op(PART_HEAD) };
	const struct tensor *head = NULL;
	char name[192];

	model_dims(&m->config, &sizes, 1, 0);
	snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
	if (!find(m, name, &sizes, "V,E", &m->embedding, e)) return false;
	for (int i = 0; i < HEADS && !head; i++) head = folder_find(&m->folder, heads[i]);
	if (!head && !m->config.tied) return error_set(e, E_MISSING, heads[0], NO_OFFSET, "config.json does not tie it to %s", name);
	m->head = head ? head : m->embedding;
	if (!fits(m->head, &sizes, "V,E", e)) return false;
	if (m->config.tied && (m->head->dtype != m->embedding->dtype || memcmp(m->head->data, m->embedding->data, m->head->bytes)))
		return error_set(e, E_EXTRA, m->head->name, m->head->offset, "config.json ties it to %s, which is another", name);
	return true;
}

static bool used(const struct model *m, const struct tensor *t)
{
	if (t == m->embedding || t == m->head) return true;
	for (size_t l = 0; l < m->config.layers; l++)
		for (int in = 0; in < MAX_IN; in++)
			if (m->layer[l].weight[in] == t) return true;
	return false;
}

static bool nothing_left(const struct model *m, struct error *e)
{
	for (size_t f = 0; f < m->folder.n; f++)
		for (size_t i = 0; i < m->folder.file[f].n; i++) {
			const struct tensor *t = &m->folder.file[f].item[i];
			bool skip = used(m, t) || model_is_fused(m, t->name);
			for (int k = 0; k < IGNORABLE && !skip; k++) skip = !strncmp(t->name, ignorable[k], strlen(ignorable[k]));
			if (!skip) {
				error_set(e, E_EXTRA, t->name, t->offset, "no layer of config.json takes it");
				return error_in_file(e, m->folder.path[f]);
			}
		}
	return true;
}

static bool load(struct model *m, const char *folder, struct error *e)
{
	const char *prefix = prefixes[2];
	char name[128];

	if (!(m->layer = calloc(m->config.layers, sizeof *m->layer)))
		return error_set(e, E_MEMORY, folder, NO_OFFSET, "%zu layers", m->config.layers);
	for (int i = PREFIXES; i-- > 0;) {
		snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
		if (folder_find(&m->folder, name)) prefix = prefixes[i];
	}
	if (!load_ends(m, prefix, e)) return error_in_file(e, folder);
	for (size_t l = 0; l < m->config.layers; l++)
		if (!load_layer(m, l, prefix, e)) return error_in_file(e, folder);
	return nothing_left(m, e);
}

bool model_load(struct model *m, const char *folder, struct error *e)
{
	char *config = folder_path(folder, "config.json");

	*m = (struct model){ 0 };
	bool ok = config ? model_config_read(&m->config, config, e) : error_set(e, E_MEMORY, folder, NO_OFFSET, "its path");
	free(config);
	if (ok && folder_read(&m->folder, folder, e) && load(m, folder, e)) return true;
	model_unload(m);
	return false;
}

void model_unload(struct model *m)
{
	for (size_t l = 0; m->layer && l < m->config.layers; l++)
		for (int i = 0; i < FUSED; i++) tensors_free(&m->layer[l].fused[i]);
	model_config_free(&m->config);
	folder_free(&m->folder);
	free(m->layer);
	*m = (struct model){ 0 };
}
