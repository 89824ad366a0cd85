/* Runs of a model: its layers' calls one after the other. */
#include <stdlib.h>
#include <string.h>

#include "model_private.h"

/* ---- plans ---- */
struct model_plan model_plan_plain(const struct arith *a, int bits)
{
	struct model_plan p = { .planted = NOWHERE };

	for (int i = 0; i < MODEL_PARTS; i++) p.part[i] = plan_plain(a, bits);
	return p;
}

bool model_plan_contract(struct model_plan *p, const char *contract, struct error *e)
{
	for (int i = 0; i < MODEL_PARTS; i++) {
		struct contract k;
		if (!model_contract(i, contract, &k, e)) return false;
		plan_contract(&p->part[i], &k);
	}
	struct site_rounding y = p->part[LINEAR_ATTENTION].round[op_site(model_op(LINEAR_ATTENTION), "hidden")];
	p->embedding_on = y.on;
	p->embedding = y.format;
	return true;
}

void model_plan_fault(struct model_plan *p, enum layer_kind kind, int layer, int fault)
{
	struct plan *to = &p->part[kind];

	if (layer != NOWHERE) {
		if (p->planted != layer) p->there = p->part[kind];
		p->planted = layer;
		to = &p->there;
	}
	plan_fault(to, model_op((int)kind), fault);
}

const struct plan *model_plan_at(const struct model *m, const struct model_plan *p, size_t layer)
{
	if (p->each) return &p->each[layer];
	return p->planted == (int)layer ? &p->there : &p->part[m->config.kind[layer]];
}

/* ---- values ---- */
bool values_make(struct values *v, size_t rows, size_t cols, bool wide, struct error *e)
{
	*v = (struct values){ calloc(rows * cols, sizeof(double)), wide ? calloc(rows * cols, sizeof(double)) : NULL, rows, cols };
	if (v->hi && (v->lo || !wide)) return true;
	values_free(v);
	return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu x %zu numbers", rows, cols);
}

void values_free(struct values *v)
{
	free(v->hi);
	free(v->lo);
	*v = (struct values){ 0 };
}

struct tensor tensor_of(const double *data, size_t rows, size_t cols)
{
	struct tensor t = { .name = "hidden", .offset = NO_OFFSET, .data = (void *)(uintptr_t)data };

	shape_set(&t, DT_F64, 2, (size_t[]){ rows, cols });
	return t;
}

void model_memory_free(struct model_memory *m)
{
	for (size_t l = 0; l < m->layers; l++) tensors_free(&m->layer[l]);
	free(m->layer);
	*m = (struct model_memory){ 0 };
}

uint64_t model_part_work(const struct model *m, size_t part)
{
	const struct model_config *c = &m->config;
	uint64_t work = part < c->layers ? 0 : m->head->count;

	for (int in = 0; part < c->layers && in < MAX_IN; in++) {
		const struct tensor *t = m->layer[part].weight[in];
		bool of_experts = t && t->rank == 3 && c->experts && t->shape[0] == c->experts;
		if (t && t->rank > 1) work += of_experts ? t->count / c->experts * c->top_k : t->count;
	}
	return work;
}

uint64_t model_work(const struct model *m)
{
	uint64_t work = 0;

	for (size_t part = 0; part <= m->config.layers; part++) work += model_part_work(m, part);
	return work;
}

/* ---- calls ---- */
static bool bind(const struct model *m, struct call *call, const struct tensor *x, const struct tensor *x_low, const struct tensor *got,
	size_t before, struct error *e)
{
	size_t T = x->shape[0], E = m->config.hidden, width = call->op == model_op(PART_HEAD) ? m->config.vocabulary : E;

	if (x->rank != 2 || x->shape[1] != E || !T || !dtype_info[x->dtype].is_float)
		return error_set(e, E_DIM, x->name, x->offset, "expected a hidden state [T,%zu] of floats", E);
	if (got && (got->rank != 2 || got->shape[0] != T || got->shape[1] != width || !dtype_info[got->dtype].is_float))
		return error_set(e, E_DIM, got->name, got->offset, "expected [%zu,%zu] of floats", T, width);
	call->in[model_in(call->op, "x")] = x;
	call->in[model_in(call->op, "x_low")] = x_low;
	call->out[OUT_Y] = got;
	call->out_count[OUT_Y] = T * width;
	model_dims(&m->config, call, T, before);
	return true;
}

/* The call's answer has output `out`, too. */
static void ask(struct call *call, int out)
{
	size_t shape[MAX_RANK];

	call->out_count[out] = 1;
	for (int r = call_out_shape(call, out, shape); r-- > 0;) call->out_count[out] *= shape[r];
}

int model_ask_router(struct call *call)
{
	int out = OUT_Y, router = model_in(call->op, "router");

	while (call->op->out[out].name && strcmp(call->op->out[out].name, "router_logits")) out++;
	if (router < 0 || !call->in[router] || !call->op->out[out].name) return NOWHERE;
	ask(call, out);
	return out;
}

bool model_layer_call(const struct model *m, size_t layer, const struct tensor *x, const struct tensor *x_low,
	const struct model_memory *memory, const struct tensor *got, struct call *call, struct error *e)
{
	*call = (struct call){ .op = model_op((int)m->config.kind[layer]) };
	memcpy(call->in, m->layer[layer].weight, sizeof call->in);
	if (!bind(m, call, x, x_low, got, memory ? memory->tokens : 0, e)) return false;
	for (int i = OUT_Y + 1, n = 0; memory && model_memory_of(call->op, i) >= 0; i++, n++) {
		ask(call, i);
		if (memory->tokens) call->in[model_memory_of(call->op, i)] = &memory->layer[layer].item[n];
	}
	return true;
}

bool model_head_call(const struct model *m, const struct tensor *x, const struct tensor *x_low, const struct tensor *got,
	struct call *call, struct error *e)
{
	*call = (struct call){ .op = model_op(PART_HEAD) };
	call->in[model_in(call->op, "head")] = m->head;
	return bind(m, call, x, x_low, got, 0, e);
}

/* t's first n rows into *part; NULL for none. */
static const struct tensor *first_rows(const struct tensor *t, size_t n, struct tensor *part)
{
	if (!t) return NULL;
	*part = *t;
	shape_set(part, t->dtype, 2, (size_t[]){ n, t->shape[1] });
	return part;
}

void model_first_tokens(const struct call *all, size_t n, struct first_tokens *part)
{
	struct call *c = &part->call;
	int x = model_in(all->op, "x"), x_low = model_in(all->op, "x_low");

	*c = *all;
	c->in[x] = first_rows(all->in[x], n, &part->x);
	c->in[x_low] = first_rows(all->in[x_low], n, &part->x_low);
	c->out[OUT_Y] = first_rows(all->out[OUT_Y], n, &part->got);
	for (int i = 0; i < MAX_OUT; i++)
		c->out_count[i] = all->out_count[i] / all->in[x]->shape[0] * n;
	for (int i = 0; c->op->dims[i]; i++)
		if (!strcmp(c->op->dims[i], "T")) c->dim[i] = n;
	c->op->derive(c);
}

/* ---- runs ---- */
static void embed(const struct model *m, const struct model_plan *p, const size_t *ids, struct values *x)
{
	size_t E = x->cols, size = dtype_info[m->embedding->dtype].size;

	for (size_t t = 0; t < x->rows; t++) {
		double *row = x->hi + t * E;
		dtype_load(m->embedding->dtype, (const char *)m->embedding->data + ids[t] * E * size, E, row);
		for (size_t i = 0; p->embedding_on && i < E; i++) row[i] = format_round(p->embedding, ROUND_NEAREST_EVEN, row[i], 0);
	}
}

/* What the layer's call left behind becomes what it remembers. */
static bool remember(struct model_memory *memory, size_t layer, const struct call *call, const struct answer *a, struct error *e)
{
	struct tensors next = { 0 };

	for (int i = OUT_Y + 1; model_memory_of(call->op, i) >= 0; i++) {
		size_t shape[MAX_RANK];
		int rank = call_out_shape(call, i, shape);
		struct tensor *t = tensors_add(&next, call->op->out[i].name, DT_F64, rank, shape);
		if (!t) {
			tensors_free(&next);
			return error_set(e, E_MEMORY, call->op->out[i].name, NO_OFFSET, "%zu numbers", call->out_count[i]);
		}
		memcpy(t->data, a->hi[i], t->bytes);
	}
	tensors_free(&memory->layer[layer]);
	memory->layer[layer] = next;
	return true;
}

static bool run_layer(const struct model *m, const struct model_plan *p, size_t layer, const struct values *x,
	struct model_memory *memory,
	struct values *y, struct error *e)
{
	/* Clang 14 takes what the layer before was given, and is freed, for what it made. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	struct tensor hi = tensor_of(x->hi, x->rows, x->cols), lo = tensor_of(x->lo, x->rows, x->cols);
	struct plan plan = *model_plan_at(m, p, layer);
	struct call call;
	struct answer a;

	plan.seed = plan.seed * 4096 + layer;
	plan.keep = true;
	if (!model_layer_call(m, layer, &hi, x->lo ? &lo : NULL, memory, NULL, &call, e) || !ref_run(&call, &plan, &a, e)) return false;
	*y = (struct values){ a.hi[OUT_Y], a.lo[OUT_Y], x->rows, x->cols };
	a.hi[OUT_Y] = a.lo[OUT_Y] = NULL;
	bool ok = !memory || remember(memory, layer, &call, &a, e);
	answer_free(&a);
	return ok;
}

bool model_run(const struct model *m, const struct model_plan *p, const size_t *ids, size_t n, struct model_memory *memory,
	struct values **hidden, struct error *e)
{
	size_t layers = m->config.layers;
	bool wide = p->part[0].arith->wide;

	*hidden = calloc(layers + 1, sizeof **hidden);
	if (!*hidden) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu layers", layers);
	if (memory && !memory->layer) {
		memory->layer = calloc(layers, sizeof *memory->layer);
		memory->layers = memory->layer ? layers : 0;
	}
	bool ok = !memory || memory->layer || error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu layers", layers);
	ok = ok && values_make(*hidden, n, m->config.hidden, wide, e);
	if (ok) embed(m, p, ids, *hidden);
	for (size_t l = 0; l < layers && ok; l++) ok = run_layer(m, p, l, *hidden + l, memory, *hidden + l + 1, e);
	if (ok && memory) memory->tokens += n;
	if (ok) return true;
	model_hidden_free(m, *hidden);
	*hidden = NULL;
	return false;
}

bool model_run_last(const struct model *m, const struct model_plan *p, const size_t *ids, size_t n, struct values *last, struct error *e)
{
	if (!values_make(last, n, m->config.hidden, p->part[0].arith->wide, e)) return false;
	embed(m, p, ids, last);
	for (size_t l = 0; l < m->config.layers; l++) {
		struct values next = { 0 };
		bool ok = run_layer(m, p, l, last, NULL, &next, e);
		values_free(last);
		if (!ok) return false;
		*last = next;
	}
	return true;
}

void model_hidden_free(const struct model *m, struct values *hidden)
{
	for (size_t l = 0; hidden && l <= m->config.layers; l++) values_free(&hidden[l]);
	free(hidden);
}

bool model_logits(const struct model *m, const struct model_plan *p, const struct values *hidden, size_t first, size_t n,
	struct values *logits, struct error *e)
{
	size_t at = first * hidden->cols;
	struct tensor hi = tensor_of(hidden->hi + at, n, hidden->cols), lo = tensor_of(hidden->lo ? hidden->lo + at : NULL, n,
		hidden->cols);
	struct plan plan = p->part[PART_HEAD];
	struct call call;
	struct answer a;

	plan.seed = plan.seed * 4096 + m->config.layers + first;
	plan.keep = true;
	if (!model_head_call(m, &hi, hidden->lo ? &lo : NULL, NULL, &call, e) || !ref_run(&call, &plan, &a, e)) return false;
	*logits = (struct values){ a.hi[OUT_Y], a.lo[OUT_Y], n, m->config.vocabulary };
	return true;
}
