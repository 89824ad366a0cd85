/* Opening and closing an executor; its slots from outside. */
#include "gpu/executor/executor_private.h"

#include <stdlib.h>

size_t executor_state_bytes(const struct executor_shape *s)
{
	return (size_t)s->layers * (size_t)s->Hv * (size_t)s->Dk * (size_t)s->Dv * dtype_info[s->state].size;
}

size_t executor_ring_bytes(const struct executor_shape *s)
{
	return (size_t)s->layers * executor_channels(s) * (size_t)s->W * dtype_info[s->data].size;
}

/* ---- opening ---- */

static bool check_bytes(const struct executor_shape *s, struct error *e)
{
	double heads = (double)s->Hv * s->Dv, channels = 2.0 * s->Hk * s->Dk + heads, cells = (double)s->slots * s->layers * 4;
	double bytes = cells * heads * s->Dk + cells * channels * s->W + 8.0 * s->max_tokens * channels;

	if (bytes < 0x1p60) return true;
	return error_set(e, E_DIM, "slots", NO_OFFSET, "pools and scratch would take %.3g bytes", bytes);
}

static bool check_shape(const struct executor_shape *s, struct error *e)
{
	const struct { const char *name; int value; } sizes[] = {
		{ "layers", s->layers }, { "Hk", s->Hk }, { "Hv", s->Hv }, { "Dk", s->Dk }, { "Dv", s->Dv }, { "W", s->W },
		{ "max_tokens", s->max_tokens }, { "max_rows", s->max_rows }
	};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (sizes[i].value < 1)
			return error_set(e, E_DIM, sizes[i].name, NO_OFFSET, "expected at least 1, got %d", sizes[i].value);
	if (s->Hv % s->Hk)
		return error_set(e, E_DIM, "Hv", NO_OFFSET, "expected a multiple of Hk = %d, got %d", s->Hk, s->Hv);
	if (s->slots < 1 || s->slots > INT32_MAX / 2 || s->max_rows > INT32_MAX / 2)
		return error_set(e, E_DIM, "slots", NO_OFFSET, "expected 1 .. 2^30 - 1, and less than 2^30 rows, got %zu", s->slots);
	if (s->state != DT_F32 && s->state != DT_BF16)
		return error_set(e, E_DTYPE, "state", NO_OFFSET, "expected F32 or BF16");
	if (s->data != DT_F32 && s->data != DT_BF16)
		return error_set(e, E_DTYPE, "data", NO_OFFSET, "expected F32 or BF16");
	if (!(s->l2_eps >= 0 && s->norm_eps >= 0))
		return error_set(e, E_VALUE, "eps", NO_OFFSET, "expected 0 or more");
	return check_bytes(s, e);
}

bool tables_open(struct tables *t, const struct executor_shape *s)
{
	size_t R = (size_t)s->max_rows, T = (size_t)s->max_tokens;
	int32_t *at = calloc(5 * R + 1 + 2 * T, sizeof *at);

	if (!at) return false;
	*t = (struct tables){
		.kinds = at, .read_slot = at + R, .ring_read = at + 2 * R, .position = at + 3 * R, .cu_seqlens = at + 4 * R,
		.write_slot = at + 5 * R + 1, .ring_write = at + 5 * R + 1 + T
	};
	return true;
}

static bool books_open(struct executor *x, struct error *e)
{
	size_t slots = x->shape.slots, handles = slots + (size_t)x->shape.max_rows;

	x->handles = (int)handles;
	x->request = calloc(handles, sizeof *x->request);
	x->checkpoint = calloc(handles, sizeof *x->checkpoint);
	x->holders = calloc(slots, sizeof *x->holders);
	x->next_draft = calloc(slots, sizeof *x->next_draft);
	x->free = calloc(slots, sizeof *x->free);
	x->row_request = calloc((size_t)x->shape.max_rows, sizeof *x->row_request);
	if (!tables_open(&x->tables, &x->shape) || !x->request || !x->checkpoint || !x->holders || !x->next_draft || !x->free ||
	    !x->row_request)
		return error_set(e, E_MEMORY, "executor", NO_OFFSET, "the books of %zu slots", slots);
	/* 0, slots-1, 1, slots-2 ...: from both ends, where wrong indices show */
	for (size_t i = 0; i < slots; i++)
		x->free[slots - 1 - i] = (int32_t)(i % 2 ? slots - 1 - i / 2 : i / 2);
	x->n_free = slots;
	return true;
}

struct executor *executor_open(const struct executor_backend *backend, const struct executor_shape *s,
                               const struct executor_weights *w, struct error *e)
{
	if (!check_shape(s, e)) return NULL;
	struct executor *x = calloc(1, sizeof *x);

	if (!x) {
		error_set(e, E_MEMORY, "executor", NO_OFFSET, "%zu bytes", sizeof *x);
		return NULL;
	}
	x->backend = backend;
	x->shape = *s;
	bool ok = books_open(x, e);
#ifdef ETALON_FAULTS
	ok = ok && faults_open(x, e);
#endif
	if (!ok || !(x->pools = backend->open(s, w, e))) {
		executor_close(x);
		return NULL;
	}
	return x;
}

void executor_close(struct executor *x)
{
	if (!x) return;
	x->backend->close(x->pools);
#ifdef ETALON_FAULTS
	faults_close(x);
#endif
	free(x->request);
	free(x->checkpoint);
	free(x->holders);
	free(x->next_draft);
	free(x->free);
	free(x->row_request);
	free(x->tables.kinds);
	free(x);
}

/* ---- slots from outside ---- */

static bool in_pool(const struct executor *x, size_t slot, struct error *e)
{
	if (slot < x->shape.slots) return true;
	return error_set(e, E_VALUE, "slot", NO_OFFSET, "expected less than %zu, got %zu", x->shape.slots, slot);
}

bool executor_read(struct executor *x, size_t slot, void *states, void *rings, struct error *e)
{
	return in_pool(x, slot, e) && x->backend->read(x->pools, slot, states, rings, e);
}

bool executor_write(struct executor *x, size_t slot, const void *states, const void *rings, struct error *e)
{
	return in_pool(x, slot, e) && x->backend->write(x->pools, slot, states, rings, e);
}

bool executor_guards(struct executor *x, struct error *e) { return x->backend->guards(x->pools, e); }
