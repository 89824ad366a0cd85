/* A tiny model, and engines made with the reference: what the model's tests and their study share. */
#ifndef ETALON_MODEL_BED_H
#define ETALON_MODEL_BED_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/logits/logits.h"
#include "compare/layers/model_reading.h"

struct bed { struct model model; struct tensors recorded; size_t *ids, n; };

/* name: "dense" or "moe". */
static inline bool bed_make(struct bed *b, const char *name, struct error *e)
{
	char path[128];

	*b = (struct bed){ 0 };
	snprintf(path, sizeof path, "fixtures/models/qwen3_5_%s_tiny", name);
	if (!model_load(&b->model, path, e)) return false;
	snprintf(path, sizeof path, "fixtures/models/qwen3_5_%s_tiny/capture.safetensors", name);
	if (!tensors_read(&b->recorded, path, e)) return false;
	const struct tensor *ids = tensors_find(&b->recorded, "input_ids");
	b->n = ids->count;
	return (b->ids = ids_of_tensor(ids, b->n, b->model.config.vocabulary, e)) != NULL;
}

static inline void bed_free(struct bed *b)
{
	model_unload(&b->model);
	tensors_free(&b->recorded);
	free(b->ids);
	*b = (struct bed){ 0 };
}

static inline bool keep_values(struct tensors *t, const char *name, enum dtype d, const struct values *v)
{
	struct tensor *x = tensors_add(t, name, d, 2, (size_t[]){ v->rows, v->cols });

	if (x) dtype_store(d, v->hi, x->count, x->data);
	return x != NULL;
}

/* An engine that runs by the plan and records in d, on the first n tokens. */
static inline bool bed_engine(const struct bed *b, const struct model_plan *p, size_t n, enum dtype d, struct tensors *out,
	struct error *e)
{
	struct values *hidden, logits;
	char name[32];

	*out = (struct tensors){ 0 };
	if (!model_run(&b->model, p, b->ids, n, NULL, &hidden, e)) return false;
	bool ok = model_logits(&b->model, p, &hidden[b->model.config.layers], 0, n, &logits, e);
	for (size_t l = 0; ok && l <= b->model.config.layers; l++) {
		snprintf(name, sizeof name, "hidden.%zu", l);
		ok = keep_values(out, name, d, &hidden[l]);
	}
	ok = ok && keep_values(out, "logits", DT_F32, &logits);
	model_hidden_free(&b->model, hidden);
	values_free(&logits);
	return ok;
}

/* An engine of the contract, in float32 with sums in order, that has a fault in one layer. */
static inline struct model_plan bed_plan(const struct bed *b, const char *contract, int layer, int fault)
{
	struct model_plan p = model_plan_plain(&arith_f32, arith_f32.precision);

	if (!model_plan_contract(&p, contract, NULL)) abort();
	if (fault >= 0) model_plan_fault(&p, b->model.config.kind[layer], layer, fault);
	return p;
}

/* Reads parts one after the other until one is not explained by the contract; which, or NOWHERE. */
static inline int bed_first(const struct bed *b, const char *contract, const struct tensors *engine, struct layer_reading *r,
	struct error *e)
{
	for (size_t l = 0; l < b->model.config.layers; l++) {
		char from[32], to[32];
		struct call call;
		snprintf(from, sizeof from, "hidden.%zu", l);
		snprintf(to, sizeof to, "hidden.%zu", l + 1);
		if (!model_layer_call(&b->model, l, tensors_find(engine, from), NULL, NULL, tensors_find(engine, to), &call, e)) abort();
		if (!layer_read(&call, &call.op->contracts[op_contract(call.op, contract)], NULL, r, e)) abort();
		if (!r->kept) return (int)l;
	}
	return NOWHERE;
}

/* Is the fault there for this model, in this layer? */
static inline bool bed_has(const struct bed *b, size_t layer, const char *fault)
{
	bool mixture = !strncmp(fault, "experts.", 8) || !strncmp(fault, "router.", 7) || !strncmp(fault, "shared.", 7);

	if (mixture && !b->model.config.experts) return false;
	if (!strcmp(fault, "decode_position_off")) return false;        /* nothing in a prefill */
	return strncmp(fault, "final_norm.", 11) || layer + 1 == b->model.config.layers;
}

#endif
