/* Faults that depend on earlier steps: the tables that the backend is handed, while the published ones stay the intended. In a
 * build without faults: that none is there. */
#include "gpu/executor/executor_faults.h"
#include "tests/helpers.h"

#ifdef ETALON_FAULTS
#include "tests/gpu/executor_inject.h"
#include "tests/gpu/executor_ledger.h"

static void a_graph_keeps_its_first_slots(void **state)
{
	struct executor *x = ledger_executor(8, 8, 16);
	int a = admit(x, -1), b = admit(x, -1);
	const char *fault = "stale_slot_table_in_graph";

	(void)state;
	step(x, WORK({ a, 1, false }, { b, 1, false }), 0, false);
	inject(fault);
	step(x, WORK({ a, 1, false }), 2, true);
	expect(fault, "write_slot", handed.write_slot, TABLE(0, -1));
	step(x, WORK({ b, 1, false }), 2, false);
	expect(fault, "write_slot", handed.write_slot, TABLE(7, -1));
	step(x, WORK({ b, 1, false }), 2, true);
	expect(fault, "read_slot", handed.read_slot, TABLE(0, -1));
	expect(fault, "write_slot", handed.write_slot, TABLE(0, -1));
	expect(fault, "ring_read", handed.ring_read, TABLE(0, -1));
	step(x, WORK({ b, 1, false }), 3, true);
	expect(fault, "read_slot", handed.read_slot, TABLE(7, -1, -1));
	inject(NULL);
	step(x, WORK({ b, 1, false }), 2, true);
	expect("no fault", "read_slot", handed.read_slot, TABLE(7, -1));
	inject(fault);                                  /* begins anew */
	step(x, WORK({ b, 1, false }), 2, true);
	step(x, WORK({ a, 1, false }), 2, true);
	expect(fault, "read_slot", handed.read_slot, TABLE(7, -1));
	executor_close(x);
}

static void a_shared_slot_is_written(void **state)
{
	struct executor *x = ledger_executor(8, 8, 16);
	const char *fault = "checkpoint_shared_not_copied";
	int a = admit(x, -1);

	(void)state;
	inject(fault);
	step(x, WORK({ a, 2, false }), 0, false);
	int c = executor_checkpoint(x, a, NULL), b = admit(x, c);
	step(x, WORK({ a, 1, false }), 0, false);
	expect("published", "write_slot", planned.write_slot, TABLE(7));
	expect(fault, "write_slot", handed.write_slot, TABLE(0));
	step(x, WORK({ a, 1, false }, { b, 1, false }), 0, false);
	expect("published", "read_slot", planned.read_slot, TABLE(7, 0));
	expect(fault, "read_slot", handed.read_slot, TABLE(0, 0));
	expect(fault, "write_slot", handed.write_slot, TABLE(0, 0));
	step(x, WORK({ a, 2, true }), 0, false);
	expect(fault, "read_slot", handed.read_slot, TABLE(0));
	expect(fault, "write_slot", handed.write_slot, planned.write_slot, 2);
	assert_true(executor_accept(x, a, 1, NULL));    /* out of the shared slot; 7 is free again */
	int d = admit(x, -1);
	step(x, WORK({ a, 1, false }, { d, 2, true }), 0, false);
	expect(fault, "read_slot", handed.read_slot, planned.read_slot, 2);
	expect(fault, "write_slot", handed.write_slot, planned.write_slot, 3);
	assert_int_equal(planned.write_slot[1], 7);
	assert_true(executor_accept(x, d, 1, NULL));
	step(x, WORK({ d, 1, false }), 0, false);
	expect(fault, "read_slot", handed.read_slot, TABLE(7));
	executor_close(x);
}

static void a_checkpoint_is_a_step_late(void **state)
{
	struct executor *x = ledger_executor(8, 8, 16);
	const char *fault = "checkpoint_at_wrong_boundary";
	int a = admit(x, -1);

	(void)state;
	inject(fault);
	step(x, WORK({ a, 2, false }), 0, false);
	int c = executor_checkpoint(x, a, NULL), b = admit(x, c);
	step(x, WORK({ b, 1, false }, { a, 3, false }), 0, false);      /* b began in time */
	expect(fault, "read_slot", handed.read_slot, TABLE(0, 0));
	expect(fault, "write_slot", handed.write_slot, TABLE(7, -1, -1, 1));
	int d = admit(x, c);
	assert_int_equal(executor_position(x, d), 2);
	step(x, WORK({ d, 1, false }), 0, false);
	expect("published", "read_slot", planned.read_slot, TABLE(0));
	expect(fault, "read_slot", handed.read_slot, TABLE(1));
	expect(fault, "ring_read", handed.ring_read, TABLE(1));
	expect(fault, "write_slot", handed.write_slot, TABLE(6));
	expect(fault, "position", handed.position, TABLE(2));
	step(x, WORK({ d, 1, false }), 0, false);
	expect(fault, "read_slot", handed.read_slot, TABLE(6));
	int late = executor_checkpoint(x, d, NULL);     /* whose next step is a speculation, of which two drafts stand */
	step(x, WORK({ d, 3, true }), 0, false);
	int32_t second = planned.write_slot[1];
	assert_true(executor_accept(x, d, 2, NULL));
	int f = admit(x, late);
	step(x, WORK({ f, 1, false }), 0, false);
	expect("published", "read_slot", planned.read_slot, TABLE(6));
	expect(fault, "read_slot", handed.read_slot, &second, 1);
	executor_close(x);
}

static void one_draft_too_many_is_accepted(void **state)
{
	const char *fault = "accepted_row_off_by_one";

	(void)state;
	inject(fault);
	for (int k = 0; k <= 3; k++) {
		struct executor *x = ledger_executor(8, 8, 16);
		int a = admit(x, -1), fork = -1;
		int32_t draft[3];

		step(x, WORK({ a, 2, false }), 0, false);
		step(x, WORK({ a, 3, true }), 0, false);
		memcpy(draft, planned.write_slot, sizeof draft);
		assert_true(executor_accept(x, a, k, NULL));
		int c = executor_checkpoint(x, a, NULL);
		fork = admit(x, c);
		step(x, WORK({ a, 1, false }), 0, false);
		expect("published", "read_slot", planned.read_slot, k ? &draft[k - 1] : &(int32_t){ 0 }, 1);
		expect(fault, "read_slot", handed.read_slot, &draft[k < 3 ? k : 2], 1);
		int32_t now = executor_slot(x, a);
		step(x, WORK({ a, 1, false }), 0, false);
		expect(fault, "read_slot", handed.read_slot, &now, 1);
		step(x, WORK({ fork, 1, false }), 0, false);
		expect(fault, "read_slot", handed.read_slot, &draft[k < 3 ? k : 2], 1);
		executor_close(x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAULTS(a_graph_keeps_its_first_slots), FAULTS(a_shared_slot_is_written), FAULTS(a_checkpoint_is_a_step_late),
		FAULTS(one_draft_too_many_is_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void nothing_is_injected(void **state)
{
	(void)state;
	assert_false(executor_inject("accepted_row_off_by_one"));
	assert_false(executor_fault_is("accepted_row_off_by_one"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_injected) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
