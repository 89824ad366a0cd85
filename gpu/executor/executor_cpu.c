/* The CPU backend: its memory, and what goes in and out. */
#include "gpu/executor/executor_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/executor/executor_faults.h"

/* ---- numbers ---- */

void executor_cpu_load(float *to, enum dtype d, const void *p, size_t n)
{
	if (d == DT_F32) {
		memcpy(to, p, n * sizeof *to);
		return;
	}
	const uint16_t *from = p;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits = (uint32_t)from[i] << 16;
		memcpy(&to[i], &bits, sizeof bits);
	}
}

void executor_cpu_store(void *p, enum dtype d, const float *from, size_t n)
{
	if (d == DT_F32) {
		memcpy(p, from, n * sizeof *from);
		return;
	}
	uint16_t *to = p;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, &from[i], sizeof bits);
		bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
		to[i] = (uint16_t)(nan ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
	}
}

/* ---- memory ---- */

void *executor_cpu_slot(const struct guarded_buffer *pool, size_t slot, size_t stride, size_t size, size_t within)
{
	ptrdiff_t first = (ptrdiff_t)(slot * stride);

	if (executor_fault_is("int32_slot_offset")) first = (int32_t)((uint32_t)slot * (uint32_t)stride);
	return pool->data + (first + (ptrdiff_t)within) * (ptrdiff_t)size;
}

static bool buffers_open(struct executor_cpu *b, struct error *e)
{
	const struct executor_shape *s = &b->shape;
	size_t L = (size_t)s->layers, T = (size_t)s->max_tokens, R = (size_t)s->max_rows, Hv = (size_t)s->Hv, Dk = (size_t)s->Dk;
	size_t Dv = (size_t)s->Dv, W = (size_t)s->W, f = sizeof(float), state = executor_state_bytes(s), ring = executor_ring_bytes(s);
	const struct { const char *name; size_t bytes; } sizes[BUFFERS] = {
		[STATES] = { "states", s->slots * state }, [RINGS] = { "rings", s->slots * ring },
		[CONVOLVED] = { "convolved", T * b->C * f }, [GATES] = { "gates", T * Hv * 2 * f },
		[OUTPUT] = { "o", T * Hv * Dv * f }, [WINDOW] = { "window", R * W * b->C * f }, [STATE] = { "state", R * Dk * Dv * f },
		[VECTOR] = { "vector", b->C * f }, [WEIGHTS] = { "weights", L * (W * b->C + 2 * Hv + Dv) * f },
		[TABLES] = { "tables", (5 * R + 1 + 2 * T) * sizeof(int32_t) }
	};

	for (int i = 0; i < BUFFERS; i++) {
		size_t lead = 0;
#ifdef ETALON_FAULTS
		/* int32_slot_offset: 2^31 elements before a pool that has more than those */
		if (i <= RINGS && sizes[i].bytes >> 32) lead = (size_t)1 << 33;
#endif
		if (!guarded_open(&b->buffer[i], sizes[i].name, sizes[i].bytes, lead, e)) return false;
	}
	return true;
}

/* conv [L,C,W] goes to [L,W,C]. */
static void copy_weights(struct executor_cpu *b, const struct executor_weights *w)
{
	const struct executor_shape *s = &b->shape;
	size_t L = (size_t)s->layers, W = (size_t)s->W, heads = L * (size_t)s->Hv;
	float *to = (float *)(void *)b->buffer[WEIGHTS].data;

	for (size_t l = 0; l < L; l++)
		for (size_t i = 0; i < W; i++)
			for (size_t c = 0; c < b->C; c++) *to++ = w->conv[(l * b->C + c) * W + i];
	memcpy(to, w->A_log, heads * sizeof *to);
	memcpy(to + heads, w->dt_bias, heads * sizeof *to);
	memcpy(to + 2 * heads, w->norm, L * (size_t)s->Dv * sizeof *to);
}

static void cpu_close(void *backend)
{
	struct executor_cpu *b = backend;

	for (int i = 0; b && i < BUFFERS; i++) guarded_close(&b->buffer[i]);
	free(b);
}

static void *cpu_open(const struct executor_shape *s, const struct executor_weights *w, struct error *e)
{
	struct executor_cpu *b = calloc(1, sizeof *b);

	if (!b) {
		error_set(e, E_MEMORY, "executor", NO_OFFSET, "%zu bytes", sizeof *b);
		return NULL;
	}
	b->shape = *s;
	b->C = executor_channels(s);
	if (!buffers_open(b, e)) {
		cpu_close(b);
		return NULL;
	}
	copy_weights(b, w);
	return b;
}

/* ---- a step ---- */

static bool slot_or_none(const struct executor_cpu *b, int32_t slot) { return slot >= -1 && slot < (int32_t)b->shape.slots; }

static bool check_step(const struct executor_cpu *b, const struct executor_step *s, struct error *e)
{
	if (s->rows < 1 || s->rows > b->shape.max_rows || s->tokens < s->rows || s->tokens > b->shape.max_tokens)
		return error_set(e, E_DIM, "step", NO_OFFSET, "%d rows and %d tokens, at most %d and %d", s->rows, s->tokens,
		                 b->shape.max_rows, b->shape.max_tokens);
	if (s->cu_seqlens[0] != 0 || s->cu_seqlens[s->rows] != s->tokens)
		return error_set(e, E_VALUE, "cu_seqlens", NO_OFFSET, "expected 0 .. %d", s->tokens);
	for (int r = 0; r < s->rows; r++)
		if (s->cu_seqlens[r + 1] <= s->cu_seqlens[r] || s->position[r] < 0 || !slot_or_none(b, s->read_slot[r]) ||
		    !slot_or_none(b, s->ring_read[r]))
			return error_set(e, E_VALUE, "step", NO_OFFSET, "row %d: no token, no position, or no slot to read", r);
	for (int t = 0; t < s->tokens; t++)
		if (!slot_or_none(b, s->write_slot[t]) || !slot_or_none(b, s->ring_write[t]))
			return error_set(e, E_VALUE, "step", NO_OFFSET, "token %d: no slot to write", t);
	return true;
}

static const int32_t *put_table(int32_t **at, const int32_t *from, int n)
{
	int32_t *to = memcpy(*at, from, (size_t)n * sizeof *from);

	*at += n;
	return to;
}

/* To where the tables of a device would be. */
static void put_tables(struct executor_cpu *b, const struct executor_step *s)
{
	int32_t *at = (int32_t *)(void *)b->buffer[TABLES].data;

	b->step = (struct executor_step){
		.rows = s->rows, .tokens = s->tokens, .decode_rows = s->decode_rows,
		.kinds = put_table(&at, s->kinds, s->rows), .cu_seqlens = put_table(&at, s->cu_seqlens, s->rows + 1),
		.read_slot = put_table(&at, s->read_slot, s->rows), .write_slot = put_table(&at, s->write_slot, s->tokens),
		.ring_read = put_table(&at, s->ring_read, s->rows), .ring_write = put_table(&at, s->ring_write, s->tokens),
		.position = put_table(&at, s->position, s->rows)
	};
}

static bool cpu_run(void *backend, const struct executor_step *step, const struct executor_data *data, bool replay,
                    struct error *e)
{
	struct executor_cpu *b = backend;

	(void)replay;
	if (!check_step(b, step, e)) return false;
	put_tables(b, step);
#ifdef ETALON_FAULTS
	size_t values = (size_t)b->shape.Hv * (size_t)b->shape.Dv, width = executor_fault_is("workspace_overflow") ? values : b->C;
	size_t bytes = (size_t)b->shape.max_tokens * width * sizeof(float);

	if (bytes != b->buffer[CONVOLVED].bytes) guarded_resize(&b->buffer[CONVOLVED], bytes);
#endif
	for (int l = 0; l < b->shape.layers; l++) executor_cpu_layer(b, l, data);
	return true;
}

/* ---- slots from outside: never the faulty offset ---- */

static bool cpu_read(void *backend, size_t slot, void *states, void *rings, struct error *e)
{
	struct executor_cpu *b = backend;
	size_t state = executor_state_bytes(&b->shape), ring = executor_ring_bytes(&b->shape);

	(void)e;
	memcpy(states, b->buffer[STATES].data + slot * state, state);
	memcpy(rings, b->buffer[RINGS].data + slot * ring, ring);
	return true;
}

static bool cpu_write(void *backend, size_t slot, const void *states, const void *rings, struct error *e)
{
	struct executor_cpu *b = backend;
	size_t state = executor_state_bytes(&b->shape), ring = executor_ring_bytes(&b->shape);

	(void)e;
	memcpy(b->buffer[STATES].data + slot * state, states, state);
	memcpy(b->buffer[RINGS].data + slot * ring, rings, ring);
	return true;
}

static bool cpu_guards(void *backend, struct error *e)
{
	struct executor_cpu *b = backend;

	for (int i = 0; i < BUFFERS; i++)
		if (!guarded_intact(&b->buffer[i], e)) return false;
	return true;
}

static unsigned cpu_promises(const struct executor_shape *s)
{
	(void)s;
	return PROMISE_BATCH | PROMISE_SPLIT | PROMISE_F32;
}

const struct executor_backend executor_cpu = { "cpu", cpu_promises, cpu_open, cpu_close, cpu_run, cpu_read, cpu_write, cpu_guards };
