/* The laws that need shapes of their own, on a backend without an executor. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "isolate_laws.h"

enum { MOST_ROWS = 4 };
struct tables { int32_t kinds[MOST_ROWS], cuts[MOST_ROWS + 1], read[MOST_ROWS], position[MOST_ROWS], *write; };

/* A step of n rows of `tokens` tokens each; row i reads (or starts from zeros) and writes slot[i] and begins at `position`. */
static struct executor_step make_step(struct tables *t, int n, int tokens, const int32_t *slot, bool fresh, int position)
{
	bool decode = !fresh && tokens == 1;

	t->cuts[0] = 0;
	for (int i = 0; i < n; i++) {
		t->kinds[i] = decode ? ROW_DECODE : ROW_PREFILL;
		t->cuts[i + 1] = (i + 1) * tokens;
		t->read[i] = fresh ? -1 : slot[i];
		t->position[i] = position;
		for (int k = 0; k < tokens; k++) t->write[i * tokens + k] = k + 1 < tokens ? -1 : slot[i];
	}
	return (struct executor_step){ n, n * tokens, decode ? n : 0, t->kinds, t->cuts, t->read, t->write, t->read, t->write, t->position };
}

struct bench { struct setup setup; void *backend; unsigned char *part[PARTS], *y, *slot; struct tables tables; };

static void bench_close(struct bench *b)
{
	if (b->setup.backend) b->setup.backend->close(b->backend);
	setup_free(&b->setup);
	for (int i = 0; i < PARTS; i++) free(b->part[i]);
	free(b->y);
	free(b->slot);
	free(b->tables.write);
}

static bool bench_open(struct bench *b, const struct executor_backend *backend, const struct executor_shape *shape, struct error *e)
{
	size_t most = (size_t)shape->max_tokens, size = dtype_info[shape->data].size;

	*b = (struct bench){ 0 };
	if (!setup_make(&b->setup, backend, shape, 1, e)) return false;
	bool room = (b->tables.write = malloc(most * sizeof *b->tables.write)) && (b->y = malloc(most * setup_y_elements(&b->setup) * size));
	for (int i = 0; i < PARTS; i++) room = (b->part[i] = malloc(most * setup_part_elements(&b->setup, i) * size)) && room;
	if (!room || !(b->slot = malloc(setup_slot_bytes(&b->setup))))
		return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "%zu tokens", most);
	return (b->backend = backend->open(shape, &b->setup.weights, e)) != NULL;
}

/* Tokens first, first + 1, ... */
static bool bench_run(struct bench *b, const struct executor_step *step, uint64_t first, struct error *e)
{
	const struct setup *s = &b->setup;
	struct executor_data data = { b->part[PART_X], b->part[PART_Z], b->part[PART_A], b->part[PART_B], b->y };

	for (int t = 0; t < step->tokens; t++)
		for (int i = 0; i < PARTS; i++)
			setup_token(s, (first + (uint64_t)t) * PARTS, i, b->part[i] + (size_t)t * setup_part_elements(s, i) * dtype_info[s->shape.data].size);
	memset(b->y, 0xff, (size_t)step->tokens * setup_y_elements(s) * dtype_info[s->shape.data].size);
	return s->backend->run(b->backend, step, &data, false, e);
}

static void broken(struct isolation *x, int law, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void broken(struct isolation *x, int law, const char *format, ...)
{
	struct breach b = { laws[law].name, -1, -1, -1, -1, "", false };
	va_list args;

	va_start(args, format);
	vsnprintf(b.what, sizeof b.what, format, args);
	va_end(args);
	law_broken(x, law, &b);
}

/* One prefill of T tokens where scratch has room for T. */
static bool hold_length(struct isolation *x, const struct executor_backend *backend, int T, struct error *e)
{
	struct executor_shape shape = { .layers = 1, .Hk = 16, .Hv = 32, .Dk = 128, .Dv = 128, .W = 4, .slots = 2, .max_tokens = T,
		.max_rows = 1, .state = DT_F32, .data = DT_BF16, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
	struct bench b;
	struct error guard;
	bool ok = bench_open(&b, backend, &shape, e);

	if (ok) {
		struct executor_step step = make_step(&b.tables, 1, T, (const int32_t[]){ 1 }, true, 0);
		ok = bench_run(&b, &step, 0, e);
	}
	if (ok && !backend->guards(b.backend, &guard)) {
		if (guard.code != E_VALUE) *e = guard, ok = false;
		else broken(x, LAW_SCRATCH, "%d tokens: %s: %s", T, guard.item, guard.detail);
	}
	x->law[LAW_SCRATCH].plays++;
	x->law[LAW_SCRATCH].counted++;
	bench_close(&b);
	return ok;
}

static bool hold_scratch(struct isolation *x, const struct executor_backend *backend, bool thorough,
	void (*tick)(const char *, size_t, size_t), struct error *e)
{
	static const int few[] = { 1, 2, 63, 64, 65, 129, 257, 600 };
	int n = thorough ? 600 : (int)(sizeof few / sizeof *few);

	for (int i = 0; i < n && x->broken < 0; i++) {
		if (tick) tick("lengths", (size_t)i, (size_t)n);
		if (!hold_length(x, backend, thorough ? i + 1 : few[i], e)) return false;
	}
	if (tick) tick("lengths", 1, 1);
	return true;
}

static bool read_slot(struct bench *b, int32_t slot, struct error *e)
{
	return b->setup.backend->read(b->backend, (size_t)slot, b->slot, b->slot + executor_state_bytes(&b->setup.shape), e);
}

/* Rows in a pool of 1100 slots of 2^21 elements, and what their slots hold, against the same in a small pool. */
static bool hold_large(struct isolation *x, const struct executor_backend *backend, struct error *e)
{
	static const int32_t far[] = { 1, 1023, 1025, 1099 }, near[] = { 0, 1, 2, 3 };
	struct executor_shape shape = { .layers = 4, .Hk = 16, .Hv = 32, .Dk = 128, .Dv = 128, .W = 4, .slots = 4, .max_tokens = 2 * MOST_ROWS,
		.max_rows = MOST_ROWS, .state = DT_F32, .data = DT_BF16, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
	struct bench small = { 0 }, large = { 0 };
	bool ok = bench_open(&small, backend, &shape, e);

	shape.slots = 1100;
	ok = ok && bench_open(&large, backend, &shape, e);
	for (int k = 0; ok && k < 2; k++) {     /* a prefill of two tokens, a decode */
		struct executor_step a = make_step(&small.tables, MOST_ROWS, 2 - k, near, k == 0, 2 * k);
		struct executor_step b = make_step(&large.tables, MOST_ROWS, 2 - k, far, k == 0, 2 * k);
		ok = bench_run(&small, &a, (uint64_t)k * 8, e) && bench_run(&large, &b, (uint64_t)k * 8, e);
		size_t row = (size_t)(2 - k) * setup_y_elements(&small.setup) * dtype_info[shape.data].size;
		for (int i = 0; ok && i < MOST_ROWS; i++) {
			x->law[LAW_LARGE].counted++;
			if (memcmp(small.y + (size_t)i * row, large.y + (size_t)i * row, row))
				broken(x, LAW_LARGE, "%s: the row in slot %d of 2^21 elements is not the one in slot %d of a small pool",
					k ? "decode" : "prefill", far[i], near[i]);
			ok = read_slot(&small, near[i], e) && read_slot(&large, far[i], e);
			if (ok && memcmp(small.slot, large.slot, setup_slot_bytes(&small.setup)))
				broken(x, LAW_LARGE, "%s: slot %d of 2^21 elements does not hold what slot %d of a small pool does",
					k ? "decode" : "prefill", far[i], near[i]);
		}
	}
	x->law[LAW_LARGE].plays++;
	bench_close(&small);
	bench_close(&large);
	return ok;
}

bool isolate_shapes(struct isolation *x, const struct executor_backend *backend, bool thorough, int only,
	void (*tick)(const char *, size_t, size_t), struct error *e)
{
	bool large = only < 0 || only == LAW_LARGE, scratch = only < 0 || only == LAW_SCRATCH;

	return (!large || x->broken >= 0 || hold_large(x, backend, e))
		&& (!scratch || x->broken >= 0 || hold_scratch(x, backend, thorough, tick, e));
}
