/* Heads that are split over ranks: which a rank has, and what is refused. */
#include "tests/helpers.h"

#include <string.h>

#include "gpu/ranks/executor_ranks.h"
#include "gpu/ranks/executor_split.h"

enum { HK = 2, HV = 4, D = 2, TAPS = 2, CHANNELS = 2 * HK * D + HV * D };

static struct executor_shape shape_of(int Hk, int Hv)
{
	return (struct executor_shape){ .layers = 1, .Hk = Hk, .Hv = Hv, .Dk = D, .Dv = D,
		.W = TAPS, .slots = 3, .max_tokens = 4, .max_rows = 2, .state = DT_F32,
		.data = DT_F32, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
}

/* By hand: ranks 0 and 1 of four read key head 0, ranks 2 and 3 key head 1. */
static void a_rank_has_its_heads(void **state)
{
	const struct { int ranks, rank, heads, head, keys, key; } rows[] = {
		{ 1, 0, 4, 0, 2, 0 }, { 2, 0, 2, 0, 1, 0 }, { 2, 1, 2, 2, 1, 1 },
		{ 4, 1, 1, 1, 1, 0 }, { 4, 2, 1, 2, 1, 1 }, { 4, 3, 1, 3, 1, 1 }
	};
	struct executor_shape shape = shape_of(HK, HV);
	float all[HV * D * D + CHANNELS * TAPS], back[HV * D * D + CHANNELS * TAPS],
		part[HV * D * D + CHANNELS * TAPS];
	struct error e;

	(void)state;
	for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) all[i] = (float)i;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct split s;
		assert_true(split_make(&s, &shape, rows[i].ranks, &e));
		assert_true(s.part.Hv == rows[i].heads && s.part.Hk == rows[i].keys);
		split_memory(&s, rows[i].rank, all, part, false);
		const float *ring = all + HV * D * D, *mine = part + rows[i].heads * D * D;
		assert_memory_equal(part, all + rows[i].head * D * D,
			(size_t)(rows[i].heads * D * D) * sizeof *part);
		size_t keys = (size_t)(rows[i].keys * D * TAPS),
		       values = (size_t)(rows[i].heads * D * TAPS);
		assert_memory_equal(mine, ring + rows[i].key * D * TAPS, keys * sizeof *mine);
		assert_memory_equal(
			mine + keys, ring + (HK + rows[i].key) * D * TAPS, keys * sizeof *mine);
		assert_memory_equal(mine + 2 * keys, ring + (2 * HK + rows[i].head) * D * TAPS,
			values * sizeof *mine);
	}
	struct split s;
	assert_true(split_make(&s, &shape, 4, &e));
	memset(back, 0xff, sizeof back);
	for (int r = 0; r < 4; r++) {
		split_memory(&s, r, all, part, false);
		split_memory(&s, r, back, part, true);
	}
	assert_memory_equal(back, all, sizeof all);
}

/* A memory that is written from outside is read back, whichever ranks have it. */
static void a_slot_is_whole_from_outside(void **state)
{
	const struct executor_backend *b = executor_ranks("cpu", 2, 4);
	struct executor_shape shape = shape_of(HK, HV);
	float weights[CHANNELS * TAPS] = { 0 }, x[CHANNELS] = { 1 }, z[HV * D] = { 1 },
				 gate[HV] = { 0 }, y[HV * D];
	float states[HV * D * D], rings[CHANNELS * TAPS], got[HV * D * D], inputs[CHANNELS * TAPS];
	const int32_t kinds[] = { ROW_DECODE }, cuts[] = { 0, 1 }, read[] = { 1 }, write[] = { 2 },
		      position[] = { 1 }, far[] = { 3 };
	struct executor_step step = { 1, 1, 1, kinds, cuts, read, write, read, write, position };
	struct executor_data data = { x, z, gate, gate, y };
	struct error e;

	(void)state;
	for (int i = 0; i < HV * D * D; i++) states[i] = (float)i;
	for (int i = 0; i < CHANNELS * TAPS; i++) rings[i] = (float)-i;
	void *at = b->open(
		&shape, &(struct executor_weights){ weights, weights, weights, weights }, &e);
	assert_non_null(at);
	assert_true(b->write(at, 1, states, rings, &e));
	for (int moved = 0; moved < 2; moved++) {
		assert_true(b->read(at, 1, got, inputs, &e));
		assert_memory_equal(got, states, sizeof states);
		assert_memory_equal(inputs, rings, sizeof rings);
		assert_true(b->run(at, &step, &data, false, &e));
	}
	step.read_slot = far;
	assert_false(b->run(at, &step, &data, false, &e));
	assert_int_equal(e.code, E_VALUE);
	assert_true(b->guards(at, &e));
	b->close(at);
}

static void uneven_heads_are_refused(void **state)
{
	static const struct {
		int Hk, Hv, prefill, decode;
	} rows[] = { { 1, 2, 4, 1 }, { 1, 2, 1, 4 }, { 1, 1, 2, 1 }, { 2, 6, 4, 4 },
		{ 3, 12, 2, 1 } };
	float weights[256] = { 0 };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct executor_backend *b =
			executor_ranks("cpu", rows[i].prefill, rows[i].decode);
		struct executor_shape shape = shape_of(rows[i].Hk, rows[i].Hv);
		assert_null(b->open(&shape,
			&(struct executor_weights){ weights, weights, weights, weights }, &e));
		assert_int_equal(e.code, E_DIM);
		assert_int_equal(b->promises(&shape), 0);
	}
	assert_null(executor_ranks("cpu", 3, 1));
	assert_null(executor_ranks("tpu", 2, 1));
	struct executor_shape shape = shape_of(HK, HV);
	assert_int_equal(
		executor_ranks("cpu", 2, 4)->promises(&shape), executor_cpu.promises(&shape));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_rank_has_its_heads),
		cmocka_unit_test(a_slot_is_whole_from_outside),
		cmocka_unit_test(uneven_heads_are_refused) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
