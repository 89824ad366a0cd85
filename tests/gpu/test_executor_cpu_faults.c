/* Faults of the CPU backend itself, seen from outside. In a build without faults: that none is there. */
#include "gpu/executor/executor_faults.h"
#include "tests/helpers.h"

#ifdef ETALON_FAULTS
#include "tests/gpu/executor_bed.h"
#include "tests/gpu/executor_inject.h"

/* Scratch for 48 tokens of Hv Dv = 24 channels has room for 20 of C = 56. */
static void narrow_scratch_breaks_a_guard(void **state)
{
	struct executor_shape s = shape(DT_F32, DT_F32);
	unsigned char *y = outputs();
	struct error e = { 0 };
	struct bed b;

	(void)state;
	bed_open(&b, &s, &executor_cpu);
	inject("workspace_overflow");
	bed_step(&b, PLAYS({ bed_admit(&b, -1), 1, 20, false, y }), 0, false);
	assert_true(executor_guards(b.x, &e));
	bed_step(&b, PLAYS({ bed_admit(&b, -1), 1, 21, false, y }), 0, false);
	assert_false(executor_guards(b.x, &e));
	assert_string_equal(e.item, "convolved");
	assert_non_null(strstr(e.detail, "byte 4608 of 4608"));
	inject(NULL);
	bed_step(&b, PLAYS({ bed_admit(&b, -1), 1, 21, false, y }), 0, false);
	assert_true(executor_guards(b.x, &e));
	bed_close(&b);
}

/* Of five launches of the same, some differ; without the fault none does. */
static void a_missing_barrier_shows_in_five_launches(void **state)
{
	struct executor_shape s = shape(DT_F32, DT_F32);
	unsigned char *y[5];
	int differ = 0;

	(void)state;
	for (int faulty = 0; faulty < 2; faulty++) {
		for (int k = 0; k < 5; k++) {
			struct bed b;
			inject(faulty ? "missing_barrier" : NULL);
			y[k] = outputs();
			bed_open(&b, &s, &executor_cpu);
			bed_step(&b, PLAYS({ bed_admit(&b, -1), 1, 12, false, y[k] }), 0, false);
			differ += k && memcmp(y[k], y[0], 12 * y_bytes(&s));
			bed_close(&b);
		}
		assert_true(faulty ? differ > 0 : differ == 0);
	}
}

/* Slot 4095 of 2^20 elements each is in its place, or 2^20 elements before the pool. */
static void a_wrapped_offset_misses_the_slot(void **state)
{
	enum { SIDE = 1024, SLOT = SIDE * SIDE };
	struct executor_shape s = { .layers = 1, .Hk = 1, .Hv = 1, .Dk = SIDE, .Dv = SIDE, .W = 2, .slots = 4096, .max_tokens = 4,
		.max_rows = 4, .state = DT_F32, .data = DT_BF16, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
	float *states = malloc(SLOT * sizeof(float));
	unsigned char rings[3 * SIDE * 2 * 2], y[2][SIDE * 2];

	(void)state;
	for (int faulty = 0; faulty < 2; faulty++) {
		struct bed b;
		size_t set = 0;
		inject(faulty ? "int32_slot_offset" : NULL);
		bed_open(&b, &s, &executor_cpu);
		bed_step(&b, PLAYS({ bed_admit(&b, -1), 1, 1, false, y[0] }, { bed_admit(&b, -1), 2, 1, false, y[1] }), 0, false);
		assert_true(executor_read(b.x, 0, states, rings, NULL));
		for (size_t i = 0; i < SLOT; i++) set += states[i] != 0;
		assert_true(set > SLOT / 2);
		assert_true(executor_read(b.x, 4095, states, rings, NULL));
		for (size_t i = set = 0; i < SLOT; i++) set += states[i] != 0;
		assert_true(faulty ? set == 0 : set > SLOT / 2);
		bed_close(&b);
	}
	free(states);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAULTS(narrow_scratch_breaks_a_guard), FAULTS(a_missing_barrier_shows_in_five_launches),
		FAULTS(a_wrapped_offset_misses_the_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void nothing_is_injected(void **state)
{
	(void)state;
	assert_false(executor_inject("missing_barrier"));
	assert_false(executor_fault_is("missing_barrier"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_injected) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
