/* Weights rounded to FP8, and what the logits say of it. */
#include "quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 128 };

const char *const grain_name[GRAINS] = { "tensor", "128x128" };

/* What published FP8 models keep in bf16: the control path of linear attention (NVIDIA/Model-Optimizer#2302,
 * vllm-project/vllm#25079), routing, norms, the embedding and the head. */
static const char *const kept[] = { "linear_attn.A_log", "linear_attn.dt_bias", "linear_attn.in_proj_a", "linear_attn.in_proj_b",
	"linear_attn.conv1d", "linear_attn.norm", "self_attn.q_norm", "self_attn.k_norm", "input_layernorm",
	"post_attention_layernorm", "norm",
	"mlp.gate", "mlp.shared_expert_gate", "embed_tokens", "lm_head" };

bool quantize_kept(const char *name)
{
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (!strcmp(name, kept[i])) return true;
	return false;
}

const char *quantize_class_name(const char *tensor, char *text, size_t size)
{
	static const char *const prefixes[] = { "model.", "language_model.", "model." };
	const char *layer = strstr(tensor, "layers."), *from = tensor, *end;

	for (size_t i = 0; !layer && i < sizeof prefixes / sizeof *prefixes; i++)
		if (!strncmp(from, prefixes[i], strlen(prefixes[i]))) from += strlen(prefixes[i]);
	if (layer) from = layer + strlen("layers.") + strspn(layer + strlen("layers."), "0123456789") + 1;
	end = strstr(from, ".weight");
	snprintf(text, size, "%.*s", (int)(end ? (size_t)(end - from) : strlen(from)), from);
	return text;
}

/* ---- rounding ---- */

/* Rows [r, r_end), columns [c, c_end) of a matrix of cols columns. */
static void round_block(double *x, size_t cols, size_t r, size_t r_end, size_t c, size_t c_end)
{
	double max = 0;

	for (size_t i = r; i < r_end; i++)
		for (size_t j = c; j < c_end; j++) max = fmax(max, fabs(x[i * cols + j]));
	double top = format_info[FMT_E4M3].max, scale = (double)(float)(max / top);
	if (!(scale > 0)) return;
	for (size_t i = r; i < r_end; i++)
		for (size_t j = c; j < c_end; j++) {
			double y = fmax(-top, fmin(top, x[i * cols + j] / scale));
			x[i * cols + j] = scale * format_round(FMT_E4M3, ROUND_NEAREST_EVEN, y, 0);
		}
}

static void round_matrix(double *x, size_t rows, size_t cols, size_t side)
{
	size_t high = side ? side : rows, wide = side ? side : cols;

	for (size_t r = 0; r < rows; r += high)
		for (size_t c = 0; c < cols; c += wide)
			round_block(x, cols, r, r + high < rows ? r + high : rows, c, c + wide < cols ? c + wide : cols);
}

struct tensor *quantized(const struct tensor *x, size_t side, struct error *e)
{
	struct tensor *y = malloc(sizeof *y);
	double *data = malloc(x->count * sizeof *data);

	if (!y || !data) {
		free(y), free(data);
		error_set(e, E_MEMORY, x->name, NO_OFFSET, "%zu weights", x->count);
		return NULL;
	}
	*y = (struct tensor){ .name = x->name, .offset = NO_OFFSET };
	shape_set(y, DT_F64, x->rank, x->shape);
	y->data = data;
	dtype_load(x->dtype, x->data, x->count, data);
	for (size_t i = 0; i < x->count; i++) {
		if (isfinite(data[i])) continue;
		error_set(e, E_VALUE, x->name, NO_OFFSET, "weight %zu is not finite", i);
		quantized_free(y);
		return NULL;
	}
	bool stack = x->rank == 3 && x->shape[1] > 1;
	size_t n = stack ? x->shape[0] : 1, rows = stack ? x->shape[1] : x->rank > 1 ? x->shape[0] : 1, size = x->count / n;
	for (size_t i = 0; i < n; i++) round_matrix(data + i * size, rows, size / rows, side);
	return y;
}

void quantized_free(struct tensor *t)
{
	if (t) free(t->data);
	free(t);
}

/* ---- classes ---- */
enum which { ONE, KEPT, OTHERS };

static bool in_row(const struct quantize_class *k, enum which set, const char *tensor)
{
	char name[64];

	quantize_class_name(tensor, name, sizeof name);
	return set == ONE ? !strcmp(name, k->name) : quantize_kept(name) == (set == KEPT);
}

/* Calls of visit on every place that points to a weight of *m, with its layer's or the model's own. */
static bool each_weight(struct model *m, bool (*visit)(const struct tensor **w, void *with, struct error *e), void *with,
	struct error *e)
{
	for (size_t l = 0; l < m->config.layers; l++)
		for (size_t i = 0; i < MAX_IN; i++)
			if (m->layer[l].weight[i] && !visit(&m->layer[l].weight[i], with, e)) return false;
	return visit(&m->embedding, with, e) && (m->config.tied || visit(&m->head, with, e));
}

static bool count_weight(const struct tensor **w, void *with, struct error *e)
{
	struct quantize *r = with;
	char name[64];
	size_t i = 0;

	(void)e;
	quantize_class_name((*w)->name, name, sizeof name);
	while (i < r->n && strcmp(r->row[i].name, name)) i++;
	struct quantize_class *k = &r->row[i];
	if (i == r->n) {
		r->n++;
		snprintf(k->name, sizeof k->name, "%s", name);
		k->kept = quantize_kept(name);
	}
	k->tensors++;
	k->elements += (*w)->count;
	return true;
}

/* The two sets of classes. */
static void add_sets(struct quantize *r)
{
	size_t classes = r->n;

	for (int others = 0; others < 2; others++) {
		struct quantize_class *k = &r->row[r->n++];
		snprintf(k->name, sizeof k->name, "%s", others ? "all that is published in FP8" : "all that is kept out of FP8");
		k->kept = !others;
		for (size_t i = 0; i < classes; i++)
			if (r->row[i].kept == !others) k->tensors += r->row[i].tensors, k->elements += r->row[i].elements;
	}
}

/* ---- runs ---- */
struct change { const struct quantize_class *k; enum which set; size_t side, n; struct tensor **made; };

static bool change_weight(const struct tensor **w, void *with, struct error *e)
{
	struct change *c = with;

	if (!in_row(c->k, c->set, (*w)->name)) return true;
	struct tensor *y = quantized(*w, c->side, e);
	if (!y) return false;
	c->made[c->n++] = y;
	*w = y;
	return true;
}

static bool compare(struct quantize_effect *effect, struct model_answer *exact, struct model_answer *rounded, struct error *e)
{
	const struct logit_comparison c = { .reference = &exact->source, .got = &rounded->source, .top = 1 };
	struct logit_report r;

	if (!logits_compare(&r, &c, e)) return false;
	*effect = (struct quantize_effect){ r.kl.mean, r.kl.max, r.rms_all, r.max_all, r.agree };
	bool bad = r.bad > 0;
	logits_free(&r);
	return !bad || error_set(e, E_VALUE, "logits", NO_OFFSET, "not finite with rounded weights");
}

/* The model with one row's weights rounded; the model itself is as before afterwards. */
static bool measure(struct quantize_class *k, enum which set, enum grain g, struct model_answer *exact,
	const struct model_question *q, struct error *e)
{
	struct model m = *q->model;
	struct model_layer *layers = malloc(m.config.layers * sizeof *layers);
	struct change c = { .k = k, .set = set, .side = g == GRAIN_BLOCK ? SIDE : 0, .made = calloc(k->tensors + 1, sizeof *c.made) };
	struct model_question asked = *q;
	struct model_plan plan = model_plan_plain(q->truth, q->bits);
	struct model_answer a = { 0 };

	bool ok = (layers && c.made) || error_set(e, E_MEMORY, k->name, NO_OFFSET, "%zu layers", m.config.layers);
	if (ok) {
		memcpy(layers, m.layer, m.config.layers * sizeof *layers);
		m.layer = layers;
		asked.model = &m;
		ok = each_weight(&m, change_weight, &c, e);
		if (m.config.tied) m.head = m.embedding;
		ok = ok && model_answer_make(&a, &asked, &plan, k->name, e) && compare(&k->effect[g], exact, &a, e);
	}
	model_answer_free(&a);
	for (size_t i = 0; i < c.n; i++) quantized_free(c.made[i]);
	free(c.made);
	free(layers);
	return ok;
}

static bool make(struct quantize *r, const struct model_question *q, struct error *e)
{
	struct model copy = *q->model;
	struct model_plan plan = model_plan_plain(q->truth, q->bits);
	struct model_answer exact = { 0 };
	size_t most = q->model->config.layers * MAX_IN + 4;

	r->row = calloc(most, sizeof *r->row);
	if (!r->row) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu classes", most);
	r->positions = q->positions;
	r->vocabulary = q->model->config.vocabulary;
	if (!each_weight(&copy, count_weight, r, e)) return false;
	add_sets(r);
	bool ok = model_answer_make(&exact, q, &plan, "the model as it is", e);
	for (size_t i = 0; ok && i < r->n; i++)
		for (int g = 0; ok && g < GRAINS; g++) {
			watch_tick(q->watch, "classes", i, r->n);
			ok = measure(&r->row[i], i + 2 < r->n ? ONE : i + 2 == r->n ? KEPT : OTHERS, (enum grain)g, &exact, q, e);
		}
	watch_tick(q->watch, "classes", r->n, r->n);
	model_answer_free(&exact);
	return ok;
}

bool quantize_make(struct quantize *r, const struct model_question *q, struct error *e)
{
	*r = (struct quantize){ 0 };
	if (make(r, q, e)) return true;
	quantize_free(r);
	return false;
}

void quantize_free(struct quantize *r)
{
	free(r->row);
	*r = (struct quantize){ 0 };
}
