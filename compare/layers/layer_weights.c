/* Layers with other weights than their own: what is left out or doubled, exchanged, or another layer's. Each is one emulation. */
#include <stdlib.h>
#include <string.h>

#include "layer_private.h"

/* Products of the mixer's and the MLP's last projection: 0 leaves a part out, 2 adds it twice. */
enum { MIXER_OUT = 1, MLP_OUT = 2 };
static const struct { const char *name, *what; double mixer, mlp; } scaled[] = {
	{ "layer_missing", "the layer is left out", 0, 0 },
	{ "mixer_missing", "the mixer is left out", 0, 1 },
	{ "mlp_missing", "the MLP is left out", 1, 0 },
	{ "mixer_twice", "the mixer's output is added twice", 2, 1 },
	{ "mlp_twice", "the MLP's output is added twice", 1, 2 },
	{ "layer_added_twice", "what the layer adds is added twice", 2, 2 },
};
static const struct { const char *name, *what, *one, *two; } exchanged[] = {
	{ "k_and_v_exchanged", "W_k and W_v exchanged", "k", "v" },
	{ "qk_norms_exchanged", "the weights of q's and k's norms exchanged", "q_norm", "k_norm" },
	{ "norms_exchanged", "the weights of the two norms exchanged", "input_norm", "post_norm" },
};
enum { SCALED = sizeof scaled / sizeof *scaled, EXCHANGED = sizeof exchanged / sizeof *exchanged };
/* Behind these: */
enum { FINAL_NORM_MISSING = SCALED + EXCHANGED, RESIDUAL_TWICE, LAYER_TWICE, WEIGHTS_OF_ANOTHER, EXPERTS_EXCHANGED };

/* The last projections by the parts that they end. */
static const struct { const char *in; int part; } ends[] = {
	{ "out_proj", MIXER_OUT }, { "o", MIXER_OUT }, { "down", MLP_OUT }, { "expert_down", MLP_OUT }
};

static const struct tensor *weight(const struct call *call, const char *name)
{
	int in = model_in(call->op, name);

	return in >= 0 ? call->in[in] : NULL;
}

static void point(struct call *call, const char *name, const struct tensor *t)
{
	int in = model_in(call->op, name);

	if (in >= 0) call->in[in] = t;
}

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
	return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

/* ---- what there is to try ---- */
static struct layer_suspect suspect(int index, const char *name, const char *what)
{
	struct layer_suspect s = { .kind = SUSPECT_WEIGHTS, .index = index, .name = name };

	snprintf(s.what, sizeof s.what, "%s", what);
	return s;
}

static int others(const struct layer_context *x, const struct op *op, struct layer_suspect *list)
{
	int n = 0;

	for (size_t l = 0; x && x->model && l < x->model->config.layers; l++) {
		if (l == x->layer || model_op((int)x->model->config.kind[l]) != op) continue;
		list[n] = suspect(WEIGHTS_OF_ANOTHER, "weights_of_another_layer", "");
		snprintf(list[n].what, sizeof list[n].what, "layer %zu's weights", l);
		list[n++].first = l;
	}
	return n;
}

int layer_weights_suspects(const struct call *call, const struct layer_context *x, struct layer_suspect *list)
{
	int n = 0;

	if (call->op == model_op(PART_HEAD)) return 0;
	for (int i = 0; i < SCALED; i++) list[n++] = suspect(i, scaled[i].name, scaled[i].what);
	for (int i = 0; i < EXCHANGED; i++) {
		const struct tensor *one = weight(call, exchanged[i].one), *two = weight(call, exchanged[i].two);
		if (one && two && same_shape(one, two)) list[n++] = suspect(SCALED + i, exchanged[i].name, exchanged[i].what);
	}
	if (weight(call, "final_norm")) list[n++] = suspect(FINAL_NORM_MISSING, "final_norm_missing", "the state before the final norm");
	list[n++] = suspect(RESIDUAL_TWICE, "residual_twice", "x is added twice");
	list[n++] = suspect(LAYER_TWICE, "layer_twice", "the layer is run twice");
	return n + others(x, call->op, list + n);
}

/* ---- calls with other weights ---- */
static struct tensor *add(struct layer_changed *c, const char *name, enum dtype d, const struct tensor *like)
{
	return tensors_add(&c->own[c->n++], name, d, like->rank, like->shape);
}

static bool scale(struct layer_changed *c, const char *in, double by)
{
	const struct tensor *t = weight(&c->call, in);
	size_t width, rows;
	double *row;

	if (!t || by == 1) return true;
	struct tensor *own = add(c, in, t->dtype, t);
	width = t->shape[t->rank - 1], rows = t->count / width;
	if (!own || !(row = malloc(width * sizeof *row))) return false;
	for (size_t r = 0; r < rows; r++) {
		size_t at = r * width * dtype_info[t->dtype].size;
		dtype_load(t->dtype, (const char *)t->data + at, width, row);
		for (size_t i = 0; i < width; i++) row[i] *= by;
		dtype_store(t->dtype, row, width, (char *)own->data + at);
	}
	free(row);
	point(&c->call, in, own);
	return true;
}

static bool scale_ends(struct layer_changed *c, double mixer, double mlp)
{
	bool ok = true;

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		ok = ok && scale(c, ends[i].in, ends[i].part == MIXER_OUT ? mixer : mlp);
	return ok;
}

static bool exchange(struct layer_changed *c, int i)
{
	const struct tensor *one = weight(&c->call, exchanged[i].one), *two = weight(&c->call, exchanged[i].two);

	point(&c->call, exchanged[i].one, two);
	point(&c->call, exchanged[i].two, one);
	return true;
}

/* All weights but the final norm's. */
static bool take_weights(struct layer_changed *c, const struct model *m, size_t layer)
{
	for (int in = 0; c->call.op->in[in].name; in++)
		if (m->layer[layer].weight[in] && strcmp(c->call.op->in[in].name, "final_norm"))
			c->call.in[in] = m->layer[layer].weight[in];
	return true;
}

/* The layer's answer by the plan becomes its input. */
static bool run_before(struct layer_changed *c, const struct plan *p)
{
	struct call first = c->call;
	const struct tensor *x = weight(&c->call, "x");
	struct tensor *own = add(c, "x", DT_F64, x);
	struct answer a;

	point(&first, "final_norm", NULL);
	if (!own || !ref_run(&first, p, &a, NULL)) return false;
	memcpy(own->data, a.hi[0], own->bytes);
	answer_free(&a);
	point(&c->call, "x", own);
	point(&c->call, "x_low", NULL);
	return true;
}

static bool exchange_slices(struct layer_changed *c, const char *in, size_t a, size_t b)
{
	const struct tensor *t = weight(&c->call, in);
	struct tensor *own = t ? add(c, in, t->dtype, t) : NULL;
	size_t bytes = t ? t->bytes / t->shape[0] : 0;

	if (!own) return false;
	memcpy(own->data, t->data, t->bytes);
	memcpy((char *)own->data + a * bytes, (const char *)t->data + b * bytes, bytes);
	memcpy((char *)own->data + b * bytes, (const char *)t->data + a * bytes, bytes);
	point(&c->call, in, own);
	return true;
}

bool layer_changed_make(struct layer_changed *c, const struct call *call, const struct layer_context *x, const struct layer_suspect *s,
	const struct plan *before)
{
	*c = (struct layer_changed){ .call = *call };
	if (s->kind != SUSPECT_WEIGHTS) return true;
	if (s->index < SCALED) return scale_ends(c, scaled[s->index].mixer, scaled[s->index].mlp);
	if (s->index < FINAL_NORM_MISSING) return exchange(c, s->index - SCALED);
	switch (s->index) {
	case FINAL_NORM_MISSING: point(&c->call, "final_norm", NULL); return true;
	case RESIDUAL_TWICE: point(&c->call, "x_low", weight(call, "x")); return true;
	case LAYER_TWICE: return run_before(c, before);
	case WEIGHTS_OF_ANOTHER: return take_weights(c, x->model, s->first);
	default: return exchange_slices(c, "expert_gate_up", s->first, s->second) && exchange_slices(c, "expert_down", s->first, s->second);
	}
}

void layer_changed_free(struct layer_changed *c)
{
	for (int i = 0; i < CHANGED; i++) tensors_free(&c->own[i]);
}

/* ---- two experts ---- */
static struct layer_suspect experts(size_t a, size_t b)
{
	struct layer_suspect s = suspect(EXPERTS_EXCHANGED, "experts_exchanged", "");

	s.first = a, s.second = b;
	snprintf(s.what, sizeof s.what, "experts %zu and %zu exchanged", a, b);
	return s;
}

/* Is expert e among the top_k of a token's logits? */
static bool is_routed(const struct reader *d, const double *logits, size_t e)
{
	size_t above = 0;

	for (size_t i = 0; i < d->experts; i++) above += logits[i] > logits[e];
	return above < d->top_k;
}

/* Tokens that are off must be those that go to one of the two, and no others: votes by tokens. far [tokens]. */
int layer_experts_suspects(const struct reader *d, const struct answer *exact, const bool *far, struct layer_suspect *list, int most)
{
	size_t T = d->n / d->row, least = T / 4;
	int n = 0;

	if (d->router < 0 || !d->top_k || d->top_k >= d->experts) return 0;
	for (size_t a = 0; a < d->experts; a++)
		for (size_t b = a + 1; b < d->experts; b++) {
			size_t wrong = 0;
			for (size_t t = 0; t < T; t++) {
				const double *logits = exact->hi[d->router] + t * d->experts;
				wrong += far[t] != (is_routed(d, logits, a) || is_routed(d, logits, b));
			}
			if (wrong > least) continue;
			least = wrong < least ? wrong + T / 16 : least;
			list[n++ % most] = experts(a, b);
		}
	return n < most ? n : most;
}
