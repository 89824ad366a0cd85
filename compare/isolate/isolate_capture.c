/* The record of a play as a capture of the op mixed_batch. */
#include <stdlib.h>
#include <string.h>

#include "isolate.h"
#include "ref/call/op.h"

/* NULL, once, poisons all that follow: ok tells. */
static struct tensor *add(struct capture *c, bool *ok, const char *name, enum dtype d, int rank, const size_t *shape)
{
	struct tensor *t = *ok ? tensors_add(&c->tensors, name, d, rank, shape) : NULL;

	*ok = t != NULL;
	return t;
}

static void add_floats(struct capture *c, bool *ok, const char *name, int rank, const size_t *shape, const float *from)
{
	struct tensor *t = add(c, ok, name, DT_F32, rank, shape);

	if (t) memcpy(t->data, from, t->bytes);
}

static void add_weights(struct capture *c, bool *ok, const struct setup *s)
{
	size_t L = (size_t)s->shape.layers, C = executor_channels(&s->shape), W = (size_t)s->shape.W, Hv = (size_t)s->shape.Hv;

	add_floats(c, ok, "in.conv_weight", 3, (size_t[]){ L, C, W }, s->weights.conv);
	add_floats(c, ok, "in.A_log", 2, (size_t[]){ L, Hv }, s->weights.A_log);
	add_floats(c, ok, "in.dt_bias", 2, (size_t[]){ L, Hv }, s->weights.dt_bias);
	add_floats(c, ok, "in.norm_weight", 2, (size_t[]){ L, (size_t)s->shape.Dv }, s->weights.norm);
}

static void add_tokens(struct capture *c, bool *ok, const struct play *p)
{
	const struct executor_shape *s = &p->setup->shape;
	size_t L = (size_t)s->layers, Hv = (size_t)s->Hv, T = p->tokens, size = dtype_info[s->data].size;
	const struct { const char *name; int rank; size_t shape[4]; } parts[PARTS] = {
		{ "in.x", 3, { T, L, executor_channels(s) } }, { "in.z", 4, { T, L, Hv, (size_t)s->Dv } },
		{ "in.a", 3, { T, L, Hv } }, { "in.b", 3, { T, L, Hv } }
	};

	for (int i = 0; i < PARTS; i++) {
		struct tensor *t = add(c, ok, parts[i].name, s->data, parts[i].rank, parts[i].shape);
		for (size_t k = 0; t && k < T; k++)
			setup_token(p->setup, p->token[k].key, i, (char *)t->data + k * setup_part_elements(p->setup, i) * size);
	}
	struct tensor *y = add(c, ok, "out.y", s->data, 4, parts[PART_Z].shape);
	if (y) memcpy(y->data, p->y, y->bytes);
}

static void add_pools(struct capture *c, bool *ok, const struct play *p, const char *side, const unsigned char *from)
{
	const struct executor_shape *s = &p->setup->shape;
	size_t L = (size_t)s->layers, states = executor_state_bytes(s), rings = executor_ring_bytes(s);
	const struct { const char *name; int rank; enum dtype d; size_t at, bytes, shape[5]; } pools[] = {
		{ "state_pool", 5, s->state, 0, states, { p->slots, L, (size_t)s->Hv, (size_t)s->Dk, (size_t)s->Dv } },
		{ "conv_pool", 4, s->data, states, rings, { p->slots, L, executor_channels(s), (size_t)s->W } }
	};

	for (int i = 0; i < 2; i++) {
		char name[32];
		snprintf(name, sizeof name, "%s.%s", side, pools[i].name);
		struct tensor *t = add(c, ok, name, pools[i].d, pools[i].rank, pools[i].shape);
		for (size_t slot = 0; t && slot < p->slots; slot++)
			memcpy((char *)t->data + slot * pools[i].bytes, from + slot * (states + rings) + pools[i].at, pools[i].bytes);
	}
}

static void add_tables(struct capture *c, bool *ok, const struct play *p)
{
	struct tensor *t;

	if ((t = add(c, ok, "in.steps", DT_I32, 1, (size_t[]){ p->batches + 1 }))) {
		for (size_t r = p->rows; r-- > 0;) ((int32_t *)t->data)[p->row[r].batch] = (int32_t)r;
		((int32_t *)t->data)[p->batches] = (int32_t)p->rows;
	}
	if ((t = add(c, ok, "in.cu_seqlens", DT_I32, 1, (size_t[]){ p->rows + 1 }))) {
		for (size_t r = 0; r < p->rows; r++) ((int32_t *)t->data)[r] = (int32_t)p->row[r].first;
		((int32_t *)t->data)[p->rows] = (int32_t)p->tokens;
	}
	if ((t = add(c, ok, "in.kinds", DT_I32, 1, &p->rows)))
		for (size_t r = 0; r < p->rows; r++) ((int32_t *)t->data)[r] = p->row[r].kind;
	if ((t = add(c, ok, "in.read_slot", DT_I32, 1, &p->rows)))
		for (size_t r = 0; r < p->rows; r++) ((int32_t *)t->data)[r] = p->row[r].read_slot;
	if ((t = add(c, ok, "in.position", DT_I32, 1, &p->rows)))
		for (size_t r = 0; r < p->rows; r++) ((int32_t *)t->data)[r] = p->row[r].position;
	if ((t = add(c, ok, "in.write_slot", DT_I32, 1, &p->tokens)))
		for (size_t k = 0; k < p->tokens; k++) ((int32_t *)t->data)[k] = p->token[k].write_slot;
}

/* What the backend may round with this shape. */
static const char *contract_of(const struct setup *s)
{
	bool f32 = s->backend->promises(&s->shape) & PROMISE_F32, pool = s->shape.state == DT_BF16;

	return f32 ? (pool ? "pool_bf16" : "f32") : pool ? "scratch_bf16" : "chunks";
}

static bool set_meta(struct capture *c, const struct play *p)
{
	char producer[64], params[128];

	snprintf(producer, sizeof producer, "etalon executor, %s backend", p->setup->backend->name);
	snprintf(params, sizeof params, "{\"l2_eps\": %.9g, \"norm_eps\": %.9g}", (double)p->setup->shape.l2_eps, (double)p->setup->shape.norm_eps);
	return meta_set(&c->tensors, "etalon.op", op_of_slots()->name) && meta_set(&c->tensors, "etalon.params", params)
		&& meta_set(&c->tensors, "etalon.producer", producer)
		&& meta_set(&c->tensors, "etalon.contract", contract_of(p->setup));
}

bool play_capture(struct capture *c, const struct play *p, struct error *e)
{
	bool ok = true;

	*c = (struct capture){ 0 };
	add_tokens(c, &ok, p);
	add_weights(c, &ok, p->setup);
	add_pools(c, &ok, p, "in", p->before);
	add_pools(c, &ok, p, "out", p->after);
	add_tables(c, &ok, p);
	if (ok && set_meta(c, p)) {
		if (capture_bind(c, e)) return true;
	} else {
		error_set(e, E_MEMORY, "isolate", NO_OFFSET, "a capture of %zu tokens", p->tokens);
	}
	capture_free(c);
	return false;
}
