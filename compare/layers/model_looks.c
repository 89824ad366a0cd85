/* What is plain about a dump of hidden states: it is said, not searched. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/truth/expected.h"
#include "layer_private.h"
#include "model_reading.h"

static double at(const struct tensor *t, size_t i)
{
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return x;
}

__attribute__((format(printf, 2, 3))) static void say(struct model_reading *r, const char *format, ...)
{
	va_list arguments;

	if (r->looks == MAX_LOOKS) return;
	va_start(arguments, format);
	vsnprintf(r->look[r->looks++], sizeof *r->look, format, arguments);
	va_end(arguments);
}

/* Is row t of x the embedding of this id, as x stores it? */
static bool embeds(const struct model_reading *r, const struct tensor *x, size_t t, size_t id)
{
	size_t E = r->model->config.hidden;

	for (size_t i = 0; i < E; i++)
		if (at(x, t * E + i) != stored_as(x->dtype, at(r->model->embedding, id * E + i), 0)) return false;
	return true;
}

/* hidden.0 is the embedding of the ids one place on, or back. */
static void look_at_ids(struct model_reading *r, const size_t *ids, const struct tensor *x)
{
	for (int by = -1; by <= 1; by += 2) {
		size_t n = 0, all = 0;
		for (size_t t = 0; t < r->tokens; t++) {
			if ((t == 0 && by < 0) || (t + 1 == r->tokens && by > 0)) continue;
			all++;
			n += embeds(r, x, t, ids[by < 0 ? t - 1 : t + 1]);
		}
		if (all && n == all)
			say(r, "hidden.0 is the embedding of the token %s: the ids are shifted by one", by < 0 ? "before" : "behind");
	}
}

static bool same(const struct tensor *x, const struct tensor *y)
{
	for (size_t i = 0; i < x->count; i++)
		if (at(x, i) != at(y, i)) return false;
	return true;
}

/* Does the layer make `to` of `from`, within its size? */
static bool makes(const struct model_reading *r, size_t l, const struct tensor *from, const struct tensor *to)
{
	struct layer_reading one;
	struct contract k;
	struct call call;

	return model_layer_call(r->model, l, from, NULL, NULL, to, &call, NULL)
		&& model_contract((int)r->model->config.kind[l], r->contract, &k, NULL) && layer_read_size(&call, &k, &one, NULL) && one.within;
}

/* hidden.i is what goes into layer i - 1, not what comes out of it: then hidden.1 is hidden.0, and layer 0 makes hidden.2 of it. */
static void look_at_inputs(struct model_reading *r, const struct tensor *const *x)
{
	size_t layers = r->model->config.layers;

	if (layers > 2 && same(x[0], x[1]) && !same(x[1], x[2]) && makes(r, 0, x[1], x[2]))
		say(r, "hidden.1 is hidden.0, and layer 0 makes hidden.2 of it: each is what goes into a layer, not what comes out of it");
}

/* hidden.0 is no embedding, but what layer 0 makes of it. */
static void look_at_outputs(struct model_reading *r, const size_t *ids, const struct tensor *const *x)
{
	const struct tensor *e = r->model->embedding;
	struct tensors made = { 0 };
	struct tensor *first = tensors_add(&made, "hidden", e->dtype, x[0]->rank, x[0]->shape);
	size_t row = r->model->config.hidden * dtype_info[e->dtype].size;

	for (size_t t = 0; first && t < r->tokens; t++)
		memcpy((char *)first->data + t * row, (const char *)e->data + ids[t] * row, row);
	if (first && makes(r, 0, first, x[0])) say(r, "hidden.0 is what layer 0 makes of the embedding: hidden.i is behind layer i");
	tensors_free(&made);
}

/* A hidden state may be all zeros, or the one before again. */
static void look_at_states(struct model_reading *r, const struct tensor *const *x)
{
	for (size_t l = 0; l <= r->model->config.layers; l++) {
		size_t zeros = 0;
		for (size_t i = 0; i < x[l]->count; i++) zeros += at(x[l], i) == 0;
		if (zeros == x[l]->count) say(r, "hidden.%zu is all zeros", l);
		else if (l && !r->part[l - 1].n && same(x[l - 1], x[l])) say(r, "hidden.%zu is hidden.%zu again, to the bit", l, l - 1);
	}
}

/* Numbers of a wider type that all fit bf16. */
static void look_at_types(struct model_reading *r, const struct tensor *const *x)
{
	for (size_t l = 0; l <= r->model->config.layers; l++) {
		if (x[l]->dtype != DT_F32 && x[l]->dtype != DT_F64) return;
		for (size_t i = 0; i < x[l]->count; i++)
			if (stored_as(DT_BF16, at(x[l], i), 0) != at(x[l], i)) return;
	}
	say(r, "hidden states are stored as %s, but all are bf16 numbers: the engine, or its dump, rounds them", dtype_info[x[0]->dtype].name);
}

void model_look(struct model_reading *r, const size_t *ids, const struct tensor *const *x)
{
	if (r->first == NOWHERE && !r->embedding_off) return;
	if (r->embedding_off) look_at_ids(r, ids, x[0]);
	if (r->embedding_off && !r->looks) look_at_outputs(r, ids, x);
	look_at_inputs(r, x);
	if (!r->looks) look_at_states(r, x);
	if (!r->looks) look_at_types(r, x);
}
