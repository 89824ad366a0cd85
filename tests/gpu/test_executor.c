/* Which slots an executor's steps read and write, against tables written by hand; what it refuses. */
#include "tests/gpu/executor_ledger.h"

static void refused(enum error_code code, const struct error *e, bool ok)
{
	if (ok || e->code != code) fail_msg("code %d (%s), expected %d", (int)e->code, e->detail, (int)code);
}

static void decode_rows_stand_first_and_are_padded(void **state)
{
	struct executor *x = ledger_executor(16, 8, 32);
	int a = admit(x, -1), b = admit(x, -1), c = admit(x, -1), d = admit(x, -1);

	(void)state;
	step(x, WORK({ a, 3, false }, { b, 1, false }), 0, false);
	assert_int_equal(planned.decode_rows, 0);
	expect("plan", "kinds", planned.kinds, TABLE(ROW_PREFILL, ROW_PREFILL));
	expect("plan", "read_slot", planned.read_slot, TABLE(-1, -1));
	expect("plan", "write_slot", planned.write_slot, TABLE(-1, -1, 0, 15));         /* from both ends of the pool */
	expect("plan", "position", planned.position, TABLE(0, 0));

	plan(x, WORK({ c, 2, false }, { b, 1, false }, { d, 2, true }, { a, 1, false }), 4);
	assert_int_equal(planned.rows, 6);
	assert_int_equal(planned.tokens, 8);
	assert_int_equal(planned.decode_rows, 4);
	expect("plan", "order", (int32_t *)order, TABLE(1, 3, -1, -1, 0, 2));
	expect("plan", "kinds", planned.kinds, TABLE(ROW_DECODE, ROW_DECODE, ROW_PADDING, ROW_PADDING, ROW_PREFILL, ROW_SPECULATIVE));
	expect("plan", "cu_seqlens", planned.cu_seqlens, TABLE(0, 1, 2, 3, 4, 6, 8));
	expect("plan", "read_slot", planned.read_slot, TABLE(15, 0, -1, -1, -1, -1));
	expect("plan", "write_slot", planned.write_slot, TABLE(15, 0, -1, -1, -1, 1, 14, 2));
	expect("plan", "ring_read", planned.ring_read, TABLE(15, 0, -1, -1, -1, -1));
	expect("plan", "ring_write", planned.ring_write, TABLE(15, 0, -1, -1, -1, 1, 14, 2));
	expect("plan", "position", planned.position, TABLE(1, 3, 0, 0, 0, 0));
	assert_int_equal(executor_slot(x, c), -1);      /* a plan takes nothing */
	executor_close(x);
}

static void several_tokens_with_memory_are_a_prefill_in_place(void **state)
{
	struct executor *x = ledger_executor(4, 4, 16);
	int a = admit(x, -1);

	(void)state;
	step(x, WORK({ a, 5, false }), 0, false);
	step(x, WORK({ a, 2, false }), 0, false);
	expect("plan", "kinds", planned.kinds, TABLE(ROW_PREFILL));
	expect("plan", "read_slot", planned.read_slot, TABLE(0));
	expect("plan", "write_slot", planned.write_slot, TABLE(-1, 0));
	assert_int_equal(executor_position(x, a), 7);
	executor_close(x);
}

static void who_writes_a_shared_slot_writes_elsewhere(void **state)
{
	struct executor *x = ledger_executor(4, 4, 16);
	int a = admit(x, -1);

	(void)state;
	step(x, WORK({ a, 2, false }), 0, false);
	int c = executor_checkpoint(x, a, NULL), b = admit(x, c);
	assert_true(executor_position(x, b) == 2 && executor_slot(x, b) == 0);
	step(x, WORK({ a, 1, false }, { b, 1, false }), 0, false);
	expect("plan", "kinds", planned.kinds, TABLE(ROW_DECODE, ROW_DECODE));
	expect("plan", "read_slot", planned.read_slot, TABLE(0, 0));
	expect("plan", "write_slot", planned.write_slot, TABLE(3, 1));
	step(x, WORK({ a, 1, false }), 0, false);
	expect("plan", "write_slot", planned.write_slot, TABLE(3));
	assert_true(executor_forget(x, c, NULL));       /* slot 0 is free, and the next to be taken */
	assert_int_equal(executor_admit(x, c, NULL), -1);
	int d = admit(x, -1);
	step(x, WORK({ d, 1, false }), 0, false);
	expect("plan", "read_slot", planned.read_slot, TABLE(-1));
	expect("plan", "write_slot", planned.write_slot, TABLE(0));
	executor_close(x);
}

static void both_last_holders_leave_a_shared_slot(void **state)
{
	struct executor *x = ledger_executor(3, 3, 8);
	int a = admit(x, -1);

	(void)state;
	step(x, WORK({ a, 1, false }), 0, false);
	int c = executor_checkpoint(x, a, NULL), b = admit(x, c);
	assert_true(executor_forget(x, c, NULL));
	step(x, WORK({ a, 1, false }, { b, 1, false }), 0, false);
	expect("plan", "write_slot", planned.write_slot, TABLE(2, 1));
	int d = admit(x, -1);
	step(x, WORK({ d, 1, false }), 0, false);
	assert_int_equal(executor_slot(x, d), 0);
	executor_close(x);
}

static void accepting_moves_an_index(void **state)
{
	struct executor *x = ledger_executor(5, 2, 8);
	int a = admit(x, -1);
	struct error e;

	(void)state;
	step(x, WORK({ a, 2, true }), 0, false);                  /* from nothing */
	assert_true(executor_slot(x, a) == -1 && executor_position(x, a) == 0);
	refused(E_VALUE, &e, executor_plan(x, WORK({ a, 1, false }), 0, &planned, order, &e));
	refused(E_VALUE, &e, executor_checkpoint(x, a, &e) >= 0);
	refused(E_VALUE, &e, executor_accept(x, a, 3, &e));
	refused(E_VALUE, &e, executor_accept(x, a, -1, &e));
	assert_true(executor_accept(x, a, 0, &e));      /* and back to nothing */
	assert_true(executor_slot(x, a) == -1 && executor_position(x, a) == 0);
	refused(E_VALUE, &e, executor_accept(x, a, 0, &e));

	step(x, WORK({ a, 1, false }), 0, false);
	int32_t before = executor_slot(x, a);
	for (int k = 0; k <= 3; k++) {
		int32_t draft[3];
		step(x, WORK({ a, 3, true }), 0, false);
		expect("plan", "read_slot", planned.read_slot, &before, 1);
		memcpy(draft, planned.write_slot, sizeof draft);
		assert_int_equal(executor_slot(x, a), before);
		assert_true(executor_accept(x, a, k, &e));
		before = k ? draft[k - 1] : before;
		assert_int_equal(executor_slot(x, a), before);
		assert_int_equal(executor_position(x, a), 1 + k * (k + 1) / 2);
	}
	step(x, WORK({ a, 4, true }), 0, false);                  /* all 5 slots */
	assert_true(executor_release(x, a, &e));
	a = admit(x, -1);
	step(x, WORK({ a, 5, true }), 0, false);
	executor_close(x);
}

static void what_cannot_run_is_refused(void **state)
{
	struct executor *x = ledger_executor(2, 3, 6);
	int a = admit(x, -1), b = admit(x, -1);
	struct executor_data d = { in, in, in, in, out };
	struct error e;

	(void)state;
	refused(E_USAGE, &e, executor_run(x, &d, false, &e));
	refused(E_EMPTY, &e, executor_plan(x, NULL, 0, 0, &planned, order, &e));
	refused(E_EMPTY, &e, executor_plan(x, WORK({ a, 0, false }), 0, &planned, order, &e));
	refused(E_VALUE, &e, executor_plan(x, WORK({ 4, 1, false }), 0, &planned, order, &e));
	refused(E_VALUE, &e, executor_plan(x, WORK({ -1, 1, false }), 0, &planned, order, &e));
	refused(E_VALUE, &e, executor_plan(x, WORK({ 99, 1, false }), 0, &planned, order, &e));
	refused(E_DUPLICATE, &e, executor_plan(x, WORK({ a, 1, false }, { b, 1, false }, { a, 1, false }), 0, &planned, order, &e));
	refused(E_DIM, &e, executor_plan(x, WORK({ a, 5, false }, { b, 2, false }), 0, &planned, order, &e));
	refused(E_DIM, &e, executor_plan(x, WORK({ a, 1, false }, { b, 1, false }), 2, &planned, order, &e));
	refused(E_DIM, &e, executor_plan(x, WORK({ a, 6, false }), 1, &planned, order, &e));
	refused(E_DIM, &e, executor_plan(x, NULL, 4, 0, &planned, order, &e));
	refused(E_MEMORY, &e, executor_plan(x, WORK({ a, 1, false }, { b, 2, true }), 0, &planned, order, &e));
	refused(E_USAGE, &e, executor_run(x, &d, false, &e));
	assert_true(executor_slot(x, a) == -1 && executor_slot(x, b) == -1 && executor_position(x, a) == 0);
	step(x, WORK({ a, 1, false }, { b, 1, false }), 0, false);
	refused(E_USAGE, &e, executor_run(x, &d, false, &e));           /* once */
	refused(E_VALUE, &e, executor_plan(x, WORK({ a, 1, false }, { b, 1, false }), 1, &planned, order, &e));
	refused(E_VALUE, &e, executor_plan(x, WORK({ a, 1, false }, { b, 1, false }), -1, &planned, order, &e));
	refused(E_MEMORY, &e, executor_plan(x, WORK({ a, 1, true }), 0, &planned, order, &e));
	refused(E_VALUE, &e, executor_admit(x, 0, &e) >= 0);
	refused(E_VALUE, &e, executor_forget(x, 0, &e));
	refused(E_VALUE, &e, executor_release(x, 2, &e));
	refused(E_VALUE, &e, executor_checkpoint(x, admit(x, -1), &e) >= 0);
	refused(E_VALUE, &e, executor_read(x, 2, in, in, &e));
	refused(E_VALUE, &e, executor_write(x, 2, in, in, &e));
	plan(x, WORK({ a, 1, false }), 0);
	assert_true(executor_release(x, b, &e));
	refused(E_USAGE, &e, executor_run(x, &d, false, &e));           /* requests changed since */
	assert_true(executor_position(x, b) == -1 && executor_slot(x, b) == -1);
	executor_close(x);
}

static void handles_run_out(void **state)
{
	struct executor *x = ledger_executor(2, 3, 6);
	struct error e;
	int a = admit(x, -1);

	(void)state;
	step(x, WORK({ a, 1, false }), 0, false);
	for (int i = 0; i < 5; i++) assert_int_equal(executor_checkpoint(x, a, &e), i);
	refused(E_MEMORY, &e, executor_checkpoint(x, a, &e) >= 0);
	for (int i = 1; i < 5; i++) assert_int_equal(admit(x, 0), i);
	refused(E_MEMORY, &e, executor_admit(x, -1, &e) >= 0);
	assert_true(executor_release(x, 3, &e));
	assert_int_equal(admit(x, -1), 3);
	executor_close(x);
}

static void impossible_shapes_are_refused(void **state)
{
	static const struct { size_t at; int value; } bad[] = {
		{ offsetof(struct executor_shape, layers), 0 }, { offsetof(struct executor_shape, Hk), 0 },
		{ offsetof(struct executor_shape, Hk), 3 }, { offsetof(struct executor_shape, Hv), -2 },
		{ offsetof(struct executor_shape, Dk), 0 }, { offsetof(struct executor_shape, Dv), 0 },
		{ offsetof(struct executor_shape, W), 0 }, { offsetof(struct executor_shape, max_tokens), 0 },
		{ offsetof(struct executor_shape, max_rows), 0 }, { offsetof(struct executor_shape, layers), INT32_MAX }
	};
	struct executor_weights w = { 0 };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct executor_shape s = ledger_shape(4, 4, 4);
		s.Dk = s.Dv = 1 << 14;
		memcpy((char *)&s + bad[i].at, &bad[i].value, sizeof bad[i].value);
		refused(E_DIM, &e, executor_open(&ledger, &s, &w, &e) != NULL);
	}
	struct executor_shape s = ledger_shape(0, 4, 4);
	refused(E_DIM, &e, executor_open(&ledger, &s, &w, &e) != NULL);
	s = ledger_shape(4, 4, 4);
	s.state = DT_F16;
	refused(E_DTYPE, &e, executor_open(&ledger, &s, &w, &e) != NULL);
	s.state = DT_F32;
	s.data = DT_F64;
	refused(E_DTYPE, &e, executor_open(&ledger, &s, &w, &e) != NULL);
	s.data = DT_BF16;
	s.l2_eps = (float)bits_double(UINT64_C(0x7FF8) << 48);
	refused(E_VALUE, &e, executor_open(&ledger, &s, &w, &e) != NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decode_rows_stand_first_and_are_padded),
		cmocka_unit_test(several_tokens_with_memory_are_a_prefill_in_place),
		cmocka_unit_test(who_writes_a_shared_slot_writes_elsewhere),
		cmocka_unit_test(both_last_holders_leave_a_shared_slot),
		cmocka_unit_test(accepting_moves_an_index),
		cmocka_unit_test(what_cannot_run_is_refused),
		cmocka_unit_test(handles_run_out),
		cmocka_unit_test(impossible_shapes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
