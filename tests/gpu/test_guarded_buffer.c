/* Guard bands: every byte of them, on both sides. */
#include "gpu/executor/guarded_buffer.h"
#include <string.h>

#include "tests/helpers.h"

enum { BYTES = 100, BAND = 4096 };

static void each_byte_around_is_watched(void **state)
{
	struct guarded_buffer b;
	struct error e;

	(void)state;
	assert_true(guarded_open(&b, "scratch", BYTES, 0, &e));
	for (ptrdiff_t i = 0; i < BYTES; i++) {
		assert_int_equal(b.data[i], 0);
		b.data[i] = (unsigned char)~b.data[i];
	}
	assert_true(guarded_intact(&b, &e));
	for (ptrdiff_t i = -BAND; i < BYTES + BAND; i++) {
		if (i >= 0 && i < BYTES) continue;
		char where[64];
		snprintf(where, sizeof where, "byte %td of 100 ", i);
		b.data[i] ^= 1;
		assert_false(guarded_intact(&b, &e));
		assert_int_equal(e.code, E_VALUE);
		assert_string_equal(e.item, "scratch");
		assert_non_null(strstr(e.detail, where));
		b.data[i] ^= 1;
	}
	assert_true(guarded_intact(&b, &e));
	guarded_close(&b);
	guarded_close(&b);
}

static void a_narrower_buffer_has_a_longer_band(void **state)
{
	struct guarded_buffer b;

	(void)state;
	assert_true(guarded_open(&b, "scratch", BYTES, BAND, NULL));
	guarded_resize(&b, 60);
	assert_true(guarded_intact(&b, NULL));
	b.data[60] ^= 1;
	assert_false(guarded_intact(&b, NULL));
	b.data[60] ^= 1;
	b.data[BYTES + BAND - 1] ^= 1;
	assert_false(guarded_intact(&b, NULL));
	guarded_resize(&b, BYTES);
	assert_true(guarded_intact(&b, NULL));
	b.data[-BAND - 1] = 1;                  /* the lead */
	assert_true(guarded_intact(&b, NULL));
	b.data[99] = 1;
	assert_true(guarded_intact(&b, NULL));
	guarded_close(&b);
}

/* 2^44 bytes, of which two pages are touched. */
static void what_is_not_touched_costs_nothing(void **state)
{
	struct guarded_buffer b;
	struct error e;

	(void)state;
	assert_true(guarded_open(&b, "pool", (size_t)1 << 44, 0, &e));
	b.data[((size_t)1 << 44) - 1] = 1;
	assert_true(guarded_intact(&b, &e));
	guarded_close(&b);
	assert_false(guarded_open(&b, "pool", (size_t)1 << 62, 0, &e));
	assert_int_equal(e.code, E_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_around_is_watched), cmocka_unit_test(a_narrower_buffer_has_a_longer_band),
		cmocka_unit_test(what_is_not_touched_costs_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
