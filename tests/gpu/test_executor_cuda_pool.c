/* The executor's CUDA backend: slots far into a large pool, and what it refuses; skipped where there is no device. */
#include <stdlib.h>
#include <string.h>

#include "gpu/executor/executor.h"
#include "tests/helpers.h"

static void need(bool ok, const struct error *e)
{
	if (!ok) fail_msg("%s: %s", e->item, e->detail);
}

/* n numbers of -1 .. 1 in the type d. */
static void *drawn(enum dtype d, size_t n, uint64_t seed)
{
	char *list = malloc(n * dtype_info[d].size);

	for (size_t i = 0; i < n; i++) {
		double v = (double)(random_bits(&seed) >> 32) * 0x1p-31 - 1;
		dtype_store(d, &v, 1, list + i * dtype_info[d].size);
	}
	return list;
}

/* NULL: no device, the test is skipped. */
static void *open_pools(const struct executor_backend **cuda, const struct executor_shape *s)
{
	size_t L = (size_t)s->layers, C = executor_channels(s);
	float *conv = drawn(DT_F32, L * C * (size_t)s->W, 1), *A_log = drawn(DT_F32, L * (size_t)s->Hv, 2);
	float *dt_bias = drawn(DT_F32, L * (size_t)s->Hv, 3), *norm = drawn(DT_F32, L * (size_t)s->Dv, 4);
	struct error e = { 0 };
	void *pools;

	*cuda = executor_cuda(&e);
	pools = *cuda ? (*cuda)->open(s, &(struct executor_weights){ conv, A_log, dt_bias, norm }, &e) : NULL;
	if (!pools && e.code != E_NO_BACKEND && e.code != E_NO_DEVICE) fail_msg("%s: %s", e.item, e.detail);
	free(conv), free(A_log), free(dt_bias), free(norm);
	return pools;
}

/* What one decode makes, on the same inputs and the same memory, wherever that lies. */
struct answer { unsigned char *y, *states; };

struct bench {
	struct executor_shape s;
	const struct executor_backend *cuda;
	void *pools;
	size_t state_bytes, ring_bytes, y_bytes;
	void *x, *z, *a, *before, *rings;
};

/* False: no device. */
static bool bench_open(struct bench *b, struct executor_shape s)
{
	size_t T = (size_t)(s.max_tokens * s.layers), heads = T * (size_t)s.Hv;

	*b = (struct bench){ .s = s, .state_bytes = executor_state_bytes(&s), .ring_bytes = executor_ring_bytes(&s),
		.y_bytes = heads * (size_t)s.Dv * dtype_info[s.data].size };
	b->pools = open_pools(&b->cuda, &s);
	if (!b->pools) return false;
	b->x = drawn(s.data, T * executor_channels(&s), 5), b->a = drawn(s.data, heads, 7);
	b->z = drawn(s.data, heads * (size_t)s.Dv, 6);
	b->before = drawn(s.state, b->state_bytes / dtype_info[s.state].size, 8);
	b->rings = drawn(s.data, b->ring_bytes / dtype_info[s.data].size, 9);
	return true;
}

static void bench_close(struct bench *b)
{
	b->cuda->close(b->pools);
	free(b->x), free(b->z), free(b->a), free(b->before), free(b->rings);
}

/* A prefill of max_tokens in the slot, or a decode. */
static struct answer run_in(struct bench *b, int32_t slot, int kind, bool replay)
{
	int32_t n = kind == ROW_DECODE ? 1 : b->s.max_tokens, cu[] = { 0, n }, position = 5, kinds = kind, write[1024];
	struct executor_step step = { 1, n, kind == ROW_DECODE, &kinds, cu, &slot, write, &slot, write, &position };
	struct answer r = { calloc(1, b->y_bytes), malloc(b->state_bytes) };
	void *rings = malloc(b->ring_bytes);
	struct error e = { 0 };

	for (int i = 0; i < n; i++) write[i] = i + 1 < n ? -1 : slot;
	need(b->cuda->write(b->pools, (size_t)slot, b->before, b->rings, &e), &e);
	need(b->cuda->run(b->pools, &step, &(struct executor_data){ b->x, b->z, b->a, b->a, r.y }, replay, &e), &e);
	need(b->cuda->read(b->pools, (size_t)slot, r.states, rings, &e), &e);
	free(rings);
	return r;
}

static bool same(const struct bench *b, const struct answer *p, const struct answer *q)
{
	return !memcmp(p->y, q->y, b->y_bytes) && !memcmp(p->states, q->states, b->state_bytes);
}

static void answer_free(struct answer *r) { free(r->y), free(r->states); }

/* 280 slots x 10 layers x 48 x 128 x 128 elements, 8.8 GB. */
static const struct executor_shape large = { .layers = 10, .Hk = 16, .Hv = 48, .Dk = 128, .Dv = 128, .W = 4, .slots = 280,
	.max_tokens = 8, .max_rows = 4, .state = DT_F32, .data = DT_BF16, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
static const struct executor_shape small = { .layers = 2, .Hk = 2, .Hv = 4, .Dk = 16, .Dv = 16, .W = 4, .slots = 4,
	.max_tokens = 64, .max_rows = 4, .state = DT_F32, .data = DT_F32, .l2_eps = 1e-6f, .norm_eps = 1e-6f };

/* Slot 279 begins past 2^31 elements. */
static void large_offsets(void **state)
{
	struct bench b;
	struct error e = { 0 };

	(void)state;
	if (!bench_open(&b, large)) skip();
	for (int kind = ROW_DECODE; kind <= ROW_PREFILL; kind++) {
		struct answer near = run_in(&b, 3, kind, false), far = run_in(&b, 279, kind, true);
		assert_true(same(&b, &near, &far));
		assert_memory_not_equal(near.states, b.before, b.state_bytes);
		answer_free(&near), answer_free(&far);
	}
	need(b.cuda->guards(b.pools, &e), &e);
	bench_close(&b);
}

/* In a build with faults: each of the three that the kernels can make shows, and only while it is injected. */
static void kernel_faults_show(void **state)
{
	struct bench b;
	struct error e = { 0 };
	struct answer five[5];
	int wrong = 0, varied = 0;

	(void)state;
	if (!executor_faults[0].name || !bench_open(&b, small)) skip();
	struct answer right = run_in(&b, 1, ROW_PREFILL, false);
	assert_true(executor_inject("workspace_overflow"));
	struct answer r = run_in(&b, 1, ROW_PREFILL, false);
	assert_true(same(&b, &right, &r));
	answer_free(&r);
	assert_false(b.cuda->guards(b.pools, &e));
	assert_int_equal(e.code, E_VALUE);
	assert_string_equal(e.item, "conv");
	assert_true(executor_inject("missing_barrier"));
	for (int i = 0; i < 5; i++) {
		five[i] = run_in(&b, 1, ROW_PREFILL, false);
		wrong += !same(&b, &right, &five[i]);
		varied += !same(&b, &five[0], &five[i]);
	}
	assert_true(wrong && varied);
	for (int i = 0; i < 5; i++) answer_free(&five[i]);
	assert_true(executor_inject(NULL));
	r = run_in(&b, 1, ROW_PREFILL, false);
	assert_true(same(&b, &right, &r));
	need(b.cuda->guards(b.pools, &e), &e);
	answer_free(&r), answer_free(&right);
	bench_close(&b);
}

/* Five tokens: in place, to another slot, from nothing, to nowhere, and padding; as decode rows, padded, or as prefills. */
enum { ROWS = 5 };

static unsigned char *five_tokens(struct bench *b, bool decode, bool replay)
{
	const int32_t cu[] = { 0, 1, 2, 3, 4, 5 }, read[ROWS] = { 2, 5, -1, 4, -1 }, write[ROWS] = { 2, 1, 3, -1, -1 };
	const int32_t position[ROWS] = { 7, 4, 0, 9, 0 };
	size_t slot_bytes = b->state_bytes + b->ring_bytes;
	unsigned char *all = calloc(1, ROWS * b->y_bytes + b->s.slots * slot_bytes), *slots = all + ROWS * b->y_bytes;
	int32_t kinds[ROWS];
	struct error e = { 0 };

	for (int r = 0; r < ROWS; r++) kinds[r] = r + 1 == ROWS ? ROW_PADDING : decode ? ROW_DECODE : ROW_PREFILL;
	struct executor_step step = { ROWS, ROWS, decode ? ROWS : 0, kinds, cu, read, write, read, write, position };
	for (size_t slot = 0; slot < b->s.slots; slot++) need(b->cuda->write(b->pools, slot, b->before, b->rings, &e), &e);
	need(b->cuda->run(b->pools, &step, &(struct executor_data){ b->x, b->z, b->a, b->a, all }, replay, &e), &e);
	for (size_t slot = 0; slot < b->s.slots; slot++, slots += slot_bytes)
		need(b->cuda->read(b->pools, slot, slots, slots + b->state_bytes, &e), &e);
	need(b->cuda->guards(b->pools, &e), &e);
	return all;
}

/* Decoding in one launch does what the three kernels do. */
static void decode_is_prefill_to_the_bit(void **state)
{
	const enum dtype types[][2] = { { DT_F32, DT_BF16 }, { DT_BF16, DT_BF16 }, { DT_F32, DT_F32 }, { DT_BF16, DT_F32 } };

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (int heads = 2; heads <= 48; heads += 46) {
			struct executor_shape s = large;
			struct bench b;
			s.layers = 3, s.slots = 6, s.max_tokens = s.max_rows = ROWS, s.Hk = heads / 2, s.Hv = heads;
			s.state = types[i][0], s.data = types[i][1];
			if (!bench_open(&b, s)) skip();
			b.y_bytes /= ROWS;
			size_t bytes = ROWS * b.y_bytes + s.slots * (b.state_bytes + b.ring_bytes);
			unsigned char *right = five_tokens(&b, false, false), *eager = five_tokens(&b, true, false);
			unsigned char *replayed = five_tokens(&b, true, true);
			assert_memory_equal(right, eager, bytes);
			assert_memory_equal(right, replayed, bytes);
			free(right), free(eager), free(replayed);
			bench_close(&b);
		}
}

/* Tables that lead out of the pool or of the step never reach a kernel. */
static void unsound_tables_are_refused(void **state)
{
	static const struct { int32_t cut, read, write, position; } bad[] = {
		{ 1, 4, 0, 0 }, { 1, -2, 0, 0 }, { 1, 0, 4, 0 }, { 1, 0, -2, 0 }, { 0, 0, 0, 0 }, { 2, 0, 0, 0 }, { 1, 0, 0, -1 }
	};
	struct bench b;
	struct error e = { 0 };
	char y[1024];

	(void)state;
	if (!bench_open(&b, small)) skip();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int32_t cu[] = { 0, bad[i].cut }, kind = ROW_DECODE;
		struct executor_step step = { 1, 1, 1, &kind, cu, &bad[i].read, &bad[i].write, &bad[i].read, &bad[i].write, &bad[i].position };
		assert_false(b.cuda->run(b.pools, &step, &(struct executor_data){ b.x, b.z, b.a, b.a, y }, false, &e));
		assert_int_equal(e.code, E_VALUE);
	}
	bench_close(&b);
}

static void narrow_offsets_show(void **state)
{
	struct bench b;

	(void)state;
	if (!executor_faults[0].name || !bench_open(&b, large)) skip();
	struct answer right = run_in(&b, 279, ROW_DECODE, true);
	assert_true(executor_inject("int32_slot_offset"));
	struct answer near = run_in(&b, 3, ROW_DECODE, true), far = run_in(&b, 279, ROW_DECODE, true);
	assert_true(executor_inject(NULL));
	assert_true(same(&b, &right, &near));
	assert_false(same(&b, &right, &far));
	assert_memory_equal(far.states, b.before, b.state_bytes);
	answer_free(&near), answer_free(&far), answer_free(&right);
	bench_close(&b);
}

/* A build without nvcc says so; sizes that no kernel has are refused. */
static void refuses_what_it_cannot(void **state)
{
	struct error e = { 0 };

	(void)state;
	if (!executor_cuda(&e)) {
		assert_int_equal(e.code, E_NO_BACKEND);
		return;
	}
	struct executor_shape s = { 1, 1, 1, 1, 1, 1, 1, 1, 1, DT_F32, DT_F32, 1, 1 };
	const struct { int Dk, W; const char *item; } bad[] = { { 257, 4, "Dk" }, { 8, 9, "W" } };
	const struct executor_backend *cuda;
	void *pools = open_pools(&cuda, &s);

	if (!pools) skip();
	cuda->close(pools);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		float w[3000] = { 0 };
		s.Dk = bad[i].Dk, s.W = bad[i].W;
		assert_null(cuda->open(&s, &(struct executor_weights){ w, w, w, w }, &e));
		assert_int_equal(e.code, E_DIM);
		assert_string_equal(e.item, bad[i].item);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_what_it_cannot), cmocka_unit_test(large_offsets),
		cmocka_unit_test(decode_is_prefill_to_the_bit),
		cmocka_unit_test(unsound_tables_are_refused), cmocka_unit_test(kernel_faults_show),
		cmocka_unit_test(narrow_offsets_show),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
