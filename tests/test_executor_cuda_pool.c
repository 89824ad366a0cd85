/* The executor's CUDA backend: slots far into a large pool, and what it refuses; skipped where there is no device. */
#include <stdlib.h>
#include <string.h>

#include "gpu/executor.h"
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

/* 280 x 10 layers x 48 x 128 x 128 elements, 8.8 GB: what a decode makes of one and the same memory is the same in
 * slot 3 and in slot 279, whose offset is past 2^31 elements. */
static void slots_past_2_to_the_31(void **state)
{
	const struct executor_shape s = { .layers = 10, .Hk = 16, .Hv = 48, .Dk = 128, .Dv = 128, .W = 4, .slots = 280,
		.max_tokens = 8, .max_rows = 4, .state = DT_F32, .data = DT_BF16, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
	const size_t state_bytes = executor_state_bytes(&s), ring_bytes = executor_ring_bytes(&s), heads = 10 * 48;
	const int32_t slots[] = { 3, 279 }, cu[] = { 0, 1 }, position = 5, kind = ROW_DECODE;
	const struct executor_backend *cuda;
	struct error e = { 0 };
	char *states[2], *rings[2], *y[2], *before = drawn(DT_F32, state_bytes / 4, 5);
	void *x = drawn(DT_BF16, 10 * executor_channels(&s), 6), *z = drawn(DT_BF16, heads * 128, 7), *a = drawn(DT_BF16, heads, 8);
	void *pools = open_pools(&cuda, &s);

	(void)state;
	if (!pools) skip();
	for (int i = 0; i < 2; i++) {
		struct executor_step step = { 1, 1, 1, &kind, cu, &slots[i], &slots[i], &slots[i], &slots[i], &position };
		states[i] = malloc(state_bytes), rings[i] = drawn(DT_BF16, ring_bytes / 2, 9), y[i] = malloc(heads * 128 * 2);
		need(cuda->write(pools, (size_t)slots[i], before, rings[i], &e), &e);
		need(cuda->run(pools, &step, &(struct executor_data){ x, z, a, a, y[i] }, i == 1, &e), &e);
		need(cuda->read(pools, (size_t)slots[i], states[i], rings[i], &e), &e);
	}
	assert_memory_equal(y[0], y[1], heads * 128 * 2);
	assert_memory_equal(states[0], states[1], state_bytes);
	assert_memory_not_equal(states[0], before, state_bytes);
	assert_memory_equal(rings[0], rings[1], ring_bytes);
	need(cuda->guards(pools, &e), &e);
	cuda->close(pools);
	for (int i = 0; i < 2; i++) free(states[i]), free(rings[i]), free(y[i]);
	free(before), free(x), free(z), free(a);
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(refuses_what_it_cannot), cmocka_unit_test(slots_past_2_to_the_31) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
