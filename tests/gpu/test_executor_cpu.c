/* The CPU backend's memory: slots that a step does not name, pools past 2^31 elements, bf16, and what it refuses. */
#include "tests/gpu/executor_bed.h"

#include "gpu/executor/executor_cpu.h"

/* All slots that the step does not name hold NaN before and the same NaN after; fresh rows do not read theirs. */
static void other_slots_stay_to_the_bit(void **state)
{
	struct executor_shape s = shape(DT_BF16, DT_BF16);
	unsigned char *y = outputs(), *clean = outputs(), states[L * HV * DK * DV * 2], rings[L * CH * TAPS * 2];
	size_t n = y_bytes(&s);
	struct bed b;

	(void)state;
	for (int poisoned = 0; poisoned < 2; poisoned++) {
		unsigned char *to = poisoned ? y : clean;
		bed_open(&b, &s, &executor_cpu);
		for (size_t slot = 0; poisoned && slot < s.slots; slot++) {
			memset(states, 0xFF - (int)slot, sizeof states);
			memset(rings, 0xFF - (int)slot, sizeof rings);
			assert_true(executor_write(b.x, slot, states, rings, NULL));
		}
		int r = bed_admit(&b, -1), q = bed_admit(&b, -1);
		bed_step(&b, PLAYS({ r, 1, 2, false, to }, { q, 2, 2, true, to + 2 * n }), 3, false);
		assert_true(executor_accept(b.x, q, 0, NULL));
		bed_step(&b, PLAYS({ r, 1, 1, false, to + 4 * n }), 3, false);
		if (poisoned) assert_memory_equal(y, clean, 5 * n);
		for (size_t slot = 0; poisoned && slot < s.slots; slot++) {
			if (slot == 0 || slot == 11 || slot == 1) continue;     /* r's, and q's two drafts */
			assert_true(executor_read(b.x, slot, states, rings, NULL));
			for (size_t i = 0; i < sizeof states; i++) assert_int_equal(states[i], 0xFF - (int)slot);
			for (size_t i = 0; i < sizeof rings; i++) assert_int_equal(rings[i], 0xFF - (int)slot);
		}
		bed_close(&b);
	}
}

/* Slot 0 and the last of a pool of 2^32 elements hold what the slots of a small pool hold. */
static void offsets_have_64_bits(void **state)
{
	enum { D = 1024, SLOT = D * D };
	struct executor_shape s = { .layers = 1, .Hk = 1, .Hv = 1, .Dk = D, .Dv = D, .W = 2, .slots = 4096, .max_tokens = 4,
		.max_rows = 4, .state = DT_F32, .data = DT_BF16, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
	float *states[2] = { malloc(SLOT * sizeof(float)), malloc(SLOT * sizeof(float)) };
	unsigned char rings[2][3 * D * 2 * 2], y[2][4 * D * 2] = { { 0 } };

	(void)state;
	for (int small = 0; small < 2; small++) {
		struct bed b;
		if (small) s.slots = 2;
		bed_open(&b, &s, &executor_cpu);
		int r = bed_admit(&b, -1), q = bed_admit(&b, -1);
		for (size_t t = 0; t < 2; t++)
			bed_step(&b, PLAYS({ r, 1, 1, false, y[small] + t * 4 * D }, { q, 2, 1, false, y[small] + t * 4 * D + 2 * D }), 0, false);
		assert_int_equal(executor_slot(b.x, q), s.slots - 1);
		assert_true(executor_read(b.x, s.slots - 1, states[small], rings[small], NULL));
		assert_true(executor_guards(b.x, NULL));
		bed_close(&b);
	}
	assert_memory_equal(states[0], states[1], SLOT * sizeof(float));
	assert_memory_equal(rings[0], rings[1], sizeof *rings);
	assert_memory_equal(y[0], y[1], sizeof *y);
	free(states[0]);
	free(states[1]);
}

/* bf16 as fixtures/ stores it: all upper halves, each with lower halves around the tie. */
static void bf16_is_nearest_even(void **state)
{
	static const uint32_t low[] = { 0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF };

	(void)state;
	for (uint32_t high = 0; high < 0x10000; high++)
		for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
			uint32_t bits = high << 16 | low[i];
			float x, back;
			uint16_t found, expected;
			memcpy(&x, &bits, sizeof x);
			dtype_store(DT_BF16, &(double){ (double)x }, 1, &expected);
			executor_cpu_store(&found, DT_BF16, &x, 1);
			executor_cpu_load(&back, DT_BF16, &found, 1);
			if (x == x ? found != expected : back == back) fail_msg("%08x gives %04x, expected %04x", bits, found, expected);
		}
}

struct bad {
	const char *what;
	enum error_code code;
	int rows, tokens;
	int32_t cu_seqlens[3], read, ring_read, write, ring_write, position;
};

static void bad_tables_are_refused(void **state)
{
	static const struct bad bad[] = {
		{ "no rows", E_DIM, 0, 2, { 0, 1, 2 }, 0, 0, 0, 0, 0 },
		{ "too many tokens", E_DIM, 2, 49, { 0, 1, 49 }, 0, 0, 0, 0, 0 },
		{ "too many rows", E_DIM, 13, 14, { 0, 1, 2 }, 0, 0, 0, 0, 0 },
		{ "fewer tokens than rows", E_DIM, 2, 1, { 0, 1, 1 }, 0, 0, 0, 0, 0 },
		{ "starts late", E_VALUE, 2, 3, { 1, 2, 3 }, 0, 0, 0, 0, 0 },
		{ "ends early", E_VALUE, 2, 3, { 0, 1, 2 }, 0, 0, 0, 0, 0 },
		{ "empty row", E_VALUE, 2, 2, { 0, 2, 2 }, 0, 0, 0, 0, 0 },
		{ "reads slot 12", E_VALUE, 2, 2, { 0, 1, 2 }, 12, 0, 0, 0, 0 },
		{ "reads slot -2", E_VALUE, 2, 2, { 0, 1, 2 }, -2, 0, 0, 0, 0 },
		{ "reads ring 12", E_VALUE, 2, 2, { 0, 1, 2 }, 0, 12, 0, 0, 0 },
		{ "writes slot 12", E_VALUE, 2, 2, { 0, 1, 2 }, 0, 0, 12, 0, 0 },
		{ "writes ring 12", E_VALUE, 2, 2, { 0, 1, 2 }, 0, 0, 0, 12, 0 },
		{ "writes slot -2", E_VALUE, 2, 2, { 0, 1, 2 }, 0, 0, -2, 0, 0 },
		{ "negative position", E_VALUE, 2, 2, { 0, 1, 2 }, 0, 0, 0, 0, -1 },
	};
	struct executor_shape s = shape(DT_F32, DT_F32);
	struct bed b;

	(void)state;
	bed_open(&b, &s, &executor_cpu);
	void *backend = executor_cpu.open(&s, &b.w, NULL);
	for (const struct bad *t = bad; t < bad + sizeof bad / sizeof *bad; t++) {
		const int32_t kinds[2] = { ROW_DECODE, ROW_PREFILL }, read[2] = { 1, t->read }, ring_read[2] = { 1, t->ring_read };
		const int32_t write[3] = { 1, 2, t->write }, ring_write[3] = { 1, 2, t->ring_write }, position[2] = { 0, t->position };
		const struct executor_step step = {
			.rows = t->rows, .tokens = t->tokens, .decode_rows = 1, .kinds = kinds, .cu_seqlens = t->cu_seqlens, .read_slot = read,
			.write_slot = t->tokens == 2 ? write + 1 : write, .ring_read = ring_read,
			.ring_write = t->tokens == 2 ? ring_write + 1 : ring_write, .position = position
		};
		struct error e = { 0 };
		if (executor_cpu.run(backend, &step, &(struct executor_data){ 0 }, false, &e) || e.code != t->code)
			fail_msg("%s: code %d (%s)", t->what, (int)e.code, e.detail);
	}
	executor_cpu.close(backend);
	bed_close(&b);
}

/* A row that is called padding touches nothing, whatever its slots say. */
static void padding_is_what_is_called_so(void **state)
{
	struct executor_shape s = shape(DT_F32, DT_F32);
	unsigned char *y = outputs(), states[L * HV * DK * DV * 4], rings[L * CH * TAPS * 4];
	static float x[L * CH] = { 1 }, other[L * HV * DV] = { 1 };
	struct executor_data d = { x, other, other, other, y };
	struct bed b;

	(void)state;
	bed_open(&b, &s, &executor_cpu);
	void *backend = executor_cpu.open(&s, &b.w, NULL);
	for (int kind = ROW_DECODE; kind <= ROW_PADDING; kind += ROW_PADDING - ROW_DECODE) {
		const int32_t kinds[] = { kind }, cu_seqlens[] = { 0, 1 }, slot[] = { 3 }, position[] = { 5 };
		const struct executor_step step = { 1, 1, 1, kinds, cu_seqlens, slot, slot, slot, slot, position };
		size_t found = 0;
		memset(states, 0x3D, sizeof states);
		memset(rings, 0x3D, sizeof rings);
		memset(y, 0x3D, y_bytes(&s));
		assert_true(executor_cpu.write(backend, 3, states, rings, NULL) && executor_cpu.run(backend, &step, &d, false, NULL));
		assert_true(executor_cpu.read(backend, 3, states, rings, NULL));
		for (size_t i = 0; i < sizeof states; i++) found += states[i] != 0x3D;
		for (size_t i = 0; i < sizeof rings; i++) found += rings[i] != 0x3D;
		for (size_t i = 0; i < y_bytes(&s); i++) found += y[i] != 0x3D;
		assert_int_equal(found > 0, kind == ROW_DECODE);
	}
	executor_cpu.close(backend);
	bed_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_slots_stay_to_the_bit), cmocka_unit_test(offsets_have_64_bits),
		cmocka_unit_test(bf16_is_nearest_even), cmocka_unit_test(bad_tables_are_refused),
		cmocka_unit_test(padding_is_what_is_called_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
