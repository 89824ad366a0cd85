#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/truth/expected.h"
#include "layer_private.h"
#include "model_reading.h"

static const struct tensor *engine_tensor(const struct engine *x, const char *name, long number)
{
	char text[160];

	if (number < 0) snprintf(text, sizeof text, "%s%s", x->prefix, name);
	else snprintf(text, sizeof text, "%s%s.%ld", x->prefix, name, number);
	return tensors_find(x->file, text);
}

static const struct tensor *hidden(const struct model_reading *r, const struct engine *x, size_t l, struct error *e)
{
	const struct tensor *t = engine_tensor(x, "hidden", (long)l);
	char name[160];

	snprintf(name, sizeof name, "%shidden.%zu", x->prefix, l);
	if (!t) error_set(e, E_MISSING, name, NO_OFFSET, "expected [%zu,%zu]", r->tokens, r->model->config.hidden);
	else if (t->rank != 2 || t->shape[0] != r->tokens || t->shape[1] != r->model->config.hidden || !dtype_info[t->dtype].is_float)
		error_set(e, E_DIM, t->name, t->offset, "expected [%zu,%zu] of floats", r->tokens, r->model->config.hidden);
	else return t;
	return NULL;
}

/* Coverage costs a run for each suspect: the first layer of a kind that keeps its contract speaks for all. */
static bool has_coverage(const struct model_reading *r, const struct op *op)
{
	for (size_t l = 0; l < r->parts; l++)
		if (r->part[l].op == op && r->part[l].coverage_tokens) return true;
	return false;
}

/* The last part before l of the same op; NULL: none. */
static const struct layer_reading *like(const struct model_reading *r, const struct op *op, size_t l)
{
	while (l-- > 0)
		if (r->part[l].op == op) return &r->part[l];
	return NULL;
}

static bool read_part(struct model_reading *r, const struct engine *x, size_t l, struct error *e)
{
	size_t layers = r->model->config.layers;
	const struct tensor *from = hidden(r, x, l, e), *to = l < layers ? hidden(r, x, l + 1, e) : engine_tensor(x, "logits", -1);
	struct call call;

	if (!from || !to) return false;
	bool ok = l < layers ? model_layer_call(r->model, l, from, NULL, NULL, to, &call, e)
		: model_head_call(r->model, from, NULL, to, &call, e);
	if (!ok) return false;
	struct contract k;
	struct layer_context context = { r->model, l, like(r, call.op, l) };
	int part = l < layers ? (int)r->model->config.kind[l] : PART_HEAD;
	if (!model_contract(part, r->contract, &k, e) || !layer_read(&call, &k, &context, &r->part[l], e)) return false;
	if (r->part[l].kept && !has_coverage(r, call.op) && !layer_coverage(&call, &r->part[l], e)) return false;
	if (!r->part[l].kept && r->first == NOWHERE) r->first = (int)l;
	r->understood = r->understood && r->part[l].understood;
	return true;
}

/* How far rows first .. end - 1 of the engine's t are from the exact y and from the emulation z: sums of squares; equal counts. */
struct apart { double square, left, equal; };
static struct apart rows_apart(const struct tensor *t, const struct values *y, const struct values *z, size_t first, size_t end)
{
	struct apart s = { 0 };

	for (size_t i = first * y->cols; i < end * y->cols; i++) {
		double got, emulation = stored_as(t->dtype, z->hi[i], 0);
		dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &got);
		s.square += (got - y->hi[i]) * (got - y->hi[i]);
		s.left += (got - emulation) * (got - emulation);
		s.equal += got == emulation;
	}
	return s;
}

static struct grown compare(const struct tensor *t, const struct values *y, const struct values *z)
{
	enum { PARTS = 256 };
	struct apart part[PARTS], all = { 0 };

	#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < PARTS; i++) part[i] = rows_apart(t, y, z, i * y->rows / PARTS, (i + 1) * y->rows / PARTS);
	for (size_t i = 0; i < PARTS; i++) all.square += part[i].square, all.left += part[i].left, all.equal += part[i].equal;
	return (struct grown){ sqrt(all.square / (double)t->count), all.square > 0 ? 1 - all.left / all.square : all.left == 0,
		all.equal / (double)t->count };
}

/* The embedding is no layer: it must be there to the bit. */
static void read_embedding(struct model_reading *r, const struct tensor *t, const struct values *x)
{
	for (size_t i = 0; i < t->count; i++) {
		double got;
		dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &got);
		r->embedding_off += !(got == stored_as(t->dtype, x->hi[i], 0));
	}
}

/* The emulation with sums in an order like the engine's, where these are not too slow. */
static struct plan with_sums(const struct layer_reading *r)
{
	struct plan p = r->emulation;

	if (r->few) return p;
	p.arith = r->sums;
	p.bits = r->sums->precision;
	return p;
}

/* Nothing is detected, and no layer's sums are another arithmetic's. */
static bool is_contract_alone(const struct model_reading *r)
{
	for (size_t l = 0; l < r->model->config.layers; l++)
		if (r->part[l].n || with_sums(&r->part[l]).arith != &arith_f64) return false;
	return true;
}

static void keep_last(struct model_reading *r, struct values *exact, struct values *emulation)
{
	r->exact = *exact;
	*exact = (struct values){ 0 };
	if (!is_contract_alone(r)) return;
	r->emulation = *emulation;
	*emulation = (struct values){ 0 };
}

static bool read_grown(struct model_reading *r, const size_t *ids, const struct engine *x, struct error *e)
{
	const struct model *m = r->model;
	size_t layers = m->config.layers;
	struct model_plan exact = model_plan_plain(&arith_f64, arith_f64.precision), emulation = exact;
	struct plan *each = calloc(layers, sizeof *each);
	struct values *y = NULL, *z = NULL, a = { 0 }, b = { 0 };

	for (size_t l = 0; each && l < layers; l++) each[l] = with_sums(&r->part[l]);
	bool ok = each ? model_plan_contract(&emulation, r->contract, e) : error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu layers", layers);
	emulation.each = each;
	if (ok && r->parts > layers) emulation.part[PART_HEAD] = with_sums(&r->part[layers]);
	ok = ok && model_run(m, &exact, ids, r->tokens, NULL, &y, e) && model_run(m, &emulation, ids, r->tokens, NULL, &z, e);
	for (size_t l = 0; ok && l <= layers; l++) r->grown[l] = compare(hidden(r, x, l, e), &y[l], &z[l]);
	if (ok) read_embedding(r, hidden(r, x, 0, e), &z[0]);
	if (ok && r->parts > layers) {
		ok = model_logits(m, &exact, &y[layers], 0, r->tokens, &a, e) && model_logits(m, &emulation, &z[layers], 0, r->tokens, &b, e);
		if (ok) r->grown[layers + 1] = compare(engine_tensor(x, "logits", -1), &a, &b);
	}
	if (ok) keep_last(r, &y[layers], &z[layers]);
	values_free(&a);
	values_free(&b);
	model_hidden_free(m, y);
	model_hidden_free(m, z);
	free(each);
	return ok;
}

static bool look(struct model_reading *r, const size_t *ids, const struct engine *x, struct error *e)
{
	size_t layers = r->model->config.layers;
	const struct tensor **all = calloc(layers + 1, sizeof *all);

	if (!all) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu layers", layers);
	for (size_t l = 0; l <= layers; l++) all[l] = hidden(r, x, l, e);
	model_look(r, ids, all);
	free(all);
	return true;
}

bool model_read(const struct model *m, const char *contract, const size_t *ids, size_t n, const struct engine *engine,
	struct model_reading *r, struct error *e)
{
	size_t layers = m->config.layers;

	*r = (struct model_reading){ .model = m, .contract = contract, .tokens = n, .first = NOWHERE, .understood = true };
	r->parts = layers + (engine_tensor(engine, "logits", -1) != NULL);
	r->part = calloc(r->parts, sizeof *r->part);
	r->grown = calloc(r->parts + 1, sizeof *r->grown);
	bool ok = (r->part && r->grown) || error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu layers", layers);
	for (size_t l = 0; ok && l < r->parts; l++) {
		watch_tick(engine->watch, "layers", l, r->parts + 1);
		ok = read_part(r, engine, l, e);
		if (ok && engine->probe && !r->part[l].kept && !r->part[l].n) return r->ended = true;
		if (ok && engine->watch && engine->watch->part_read) engine->watch->part_read(engine->watch, r, l);
	}
	if (ok) watch_tick(engine->watch, "layers", r->parts, r->parts + 1);
	ok = ok && read_grown(r, ids, engine, e) && look(r, ids, engine, e);
	watch_tick(engine->watch, "layers", r->parts + 1, r->parts + 1);
	if (!ok) model_reading_free(r);
	return ok;
}

static double left_by(const struct call *call, const struct contract *k)
{
	size_t n = call->out_count[0];
	double *room = calloc(2 * n, sizeof *room), share = INFINITY;
	struct reader d = { .call = call, .n = n, .row = out_row(call, 0), .got = room, .now = room + n, .router = NOWHERE };
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision), emulation = exact;
	struct answer a;

	plan_contract(&emulation, k);
	if (room && ref_run(call, &exact, &a, NULL)) {
		dtype_load(call->out[0]->dtype, call->out[0]->data, n, d.got);
		double error = layer_median_row(&d, d.got, a.hi[0]);
		if (layer_answer(&d, &emulation, d.now)) share = error > 0 ? layer_median_row(&d, d.got, d.now) / error : 1;
		answer_free(&a);
	}
	free(room);
	return share;
}

double model_nearness(const struct model *m, const char *contract, size_t n, const struct engine *engine)
{
	struct model_reading r = { .model = m, .tokens = n };
	double most = 0;

	for (int kind = 0; kind < LAYER_KINDS; kind++) {
		size_t l = 0, layers = m->config.layers;
		struct call call;
		struct first_tokens few;
		struct contract k;
		while (l < layers && (int)m->config.kind[l] != kind) l++;
		if (l == layers) continue;
		const struct tensor *from = hidden(&r, engine, l, NULL), *to = hidden(&r, engine, l + 1, NULL);
		if (!from || !to || !model_layer_call(m, l, from, NULL, NULL, to, &call, NULL) || !model_contract(kind, contract, &k, NULL))
			return INFINITY;
		double some = (double)layer_work.reading / (double)(model_part_work(m, l) + 1);
		model_first_tokens(&call, some < 2 ? 2 : some < (double)n ? (size_t)some : n, &few);
		most = fmax(most, left_by(&few.call, &k));
	}
	return most;
}

void model_reading_free(struct model_reading *r)
{
	free(r->part);
	free(r->grown);
	values_free(&r->exact);
	values_free(&r->emulation);
	*r = (struct model_reading){ 0 };
}
