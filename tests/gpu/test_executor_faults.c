/* Faults on purpose: the tables of one step that the backend is handed, against ones written by hand, while the published
 * tables stay the intended ones. In a build without faults: that none can be injected. */
#include "gpu/executor/executor_faults.h"
#include "tests/helpers.h"

#ifdef ETALON_FAULTS
#include "tests/gpu/executor_inject.h"
#include "tests/gpu/executor_ledger.h"

/* ---- one step of everything ---- */

enum { D = ROW_DECODE, P = ROW_PREFILL, S = ROW_SPECULATIVE, N = ROW_PADDING };

/* What the backend should be handed; the first is what is planned. */
struct handing {
	const char *fault;
	int rows, tokens, decode_rows;
	int32_t kinds[6], cu_seqlens[7], read[6], ring_read[6], write[8], ring_write[8], position[6];
};

#define CUTS { 0, 1, 2, 3, 5, 6, 8 }
#define KINDS { D, D, N, P, P, S }
#define READ { 0, 15, -1, -1, -1, 1 }
#define WRITE { 0, 15, -1, -1, 14, 2, 13, 3 }
#define POSITION { 1, 1, 0, 0, 0, 2 }
#define STEP 6, 8, 3
#define BOTH(...) __VA_ARGS__, __VA_ARGS__
static const struct handing handings[] = {
	{ NULL, STEP, KINDS, CUTS, BOTH(READ), BOTH(WRITE), POSITION },
	{ "all_tokens_use_first_slot", 1, 7, 0, { P }, { 0, 7 }, BOTH({ 0 }), BOTH({ -1, -1, -1, -1, -1, -1, 0 }), { 1 } },
	{ "prefill_overwrites_decode_slot", STEP, KINDS, CUTS, BOTH(READ), BOTH({ 0, 15, -1, -1, 0, 0, 13, 3 }), POSITION },
	{ "read_slot_is_not_write_slot", STEP, KINDS, CUTS, BOTH(READ), BOTH({ 15, 0, -1, -1, 14, 2, 13, 3 }), POSITION },
	{ "pad_minus_one_hits_slot_zero", STEP, { D, D, D, P, P, S }, CUTS, BOTH({ 0, 15, 0, -1, -1, 1 }),
		BOTH({ 0, 15, 0, -1, 14, 2, 13, 3 }), POSITION },
	{ "slot_zero_means_pad", STEP, { N, D, N, P, P, S }, CUTS, BOTH({ -1, 15, -1, -1, -1, 1 }),
		BOTH({ -1, 15, -1, -1, 14, 2, 13, 3 }), POSITION },
	{ "slot_not_zeroed_on_reuse", STEP, KINDS, CUTS, BOTH({ 0, 15, -1, 14, 2, 1 }), BOTH(WRITE), POSITION },
	{ "one_token_prefill_taken_for_decode", STEP, KINDS, CUTS, BOTH({ 0, 15, -1, -1, 2, 1 }), BOTH(WRITE), POSITION },
	{ "state_written_to_a_copy", STEP, KINDS, CUTS, BOTH(READ), BOTH({ -1, -1, -1, -1, 14, 2, 13, 3 }), POSITION },
	{ "conv_and_state_slots_differ", STEP, KINDS, CUTS, READ, { 15, 0, -1, -1, -1, 1 }, WRITE,
		{ 15, 0, -1, -1, 14, 2, 13, 3 }, POSITION },
};

static void expect_handed(const struct handing *h)
{
	const char *fault = h->fault ? h->fault : "no fault";
	size_t R = (size_t)h->rows, T = (size_t)h->tokens;

	if (handed.runs != 1 || handed.rows != h->rows || handed.tokens != h->tokens || handed.decode_rows != h->decode_rows)
		fail_msg("%s: %d rows, %d tokens, %d decode rows", fault, handed.rows, handed.tokens, handed.decode_rows);
	expect(fault, "kinds", handed.kinds, h->kinds, R);
	expect(fault, "cu_seqlens", handed.cu_seqlens, h->cu_seqlens, R + 1);
	expect(fault, "read_slot", handed.read_slot, h->read, R);
	expect(fault, "ring_read", handed.ring_read, h->ring_read, R);
	expect(fault, "write_slot", handed.write_slot, h->write, T);
	expect(fault, "ring_write", handed.ring_write, h->ring_write, T);
	expect(fault, "position", handed.position, h->position, R);
}

static void the_backend_is_handed_what_the_fault_says(void **state)
{
	(void)state;
	for (const struct handing *h = handings; h < handings + sizeof handings / sizeof *handings; h++) {
		struct executor *x = ledger_executor(16, 8, 32);
		int a = admit(x, -1), b = admit(x, -1), s = admit(x, -1), c = admit(x, -1), d = admit(x, -1);

		inject(NULL);
		step(x, WORK({ a, 1, false }, { b, 1, false }, { s, 2, false }), 0, false);
		inject(h->fault);
		step(x, WORK({ a, 1, false }, { b, 1, false }, { c, 2, false }, { d, 1, false }, { s, 2, true }), 3, false);
		expect_handed(h);
		expect("published", "kinds", planned.kinds, handings->kinds, 6);
		expect("published", "read_slot", planned.read_slot, handings->read, 6);
		expect("published", "write_slot", planned.write_slot, handings->write, 8);
		expect("published", "ring_read", planned.ring_read, handings->read, 6);
		expect("published", "ring_write", planned.ring_write, handings->write, 8);
		executor_close(x);
	}
}

/* The tokens are packed for the backend, and their outputs return to where they belong. */
static void one_sequence_has_its_outputs_in_place(void **state)
{
	struct executor *x = ledger_executor(8, 8, 16);
	int a = admit(x, -1), b = admit(x, -1);
	uint64_t past;

	(void)state;
	step(x, WORK({ a, 1, false }), 0, false);
	past = history(0, in[0]);
	inject("all_tokens_use_first_slot");
	step(x, WORK({ b, 3, false }, { a, 1, false }), 3, false);
	for (int t = 0; t < 6; t++) {
		if (t == 1 || t == 2) {
			assert_int_equal(out[t], 0);
			continue;
		}
		past = history(past, in[2 * t]);
		assert_int_equal(out[t], past + past);
	}
	executor_close(x);
}

static void a_prefill_into_slot_zero_does_not_run(void **state)
{
	struct executor *x = ledger_executor(8, 8, 16);
	int a = admit(x, -1), b = admit(x, -1);

	(void)state;
	inject("slot_zero_means_pad");
	step(x, WORK({ a, 3, false }, { b, 2, false }), 0, false);
	assert_true(handed.runs == 1 && handed.rows == 1 && handed.tokens == 2);
	expect("slot_zero_means_pad", "write_slot", handed.write_slot, TABLE(-1, 7));
	uint64_t past = history(history(0, in[6]), in[8]);
	assert_true(out[0] == 0 && out[2] == 0 && out[4] == past + past);
	step(x, WORK({ a, 2, false }), 0, false);
	assert_int_equal(handed.runs, 0);
	executor_close(x);
}

/* ---- names ---- */

static void faults_have_names(void **state)
{
	int n = 0;

	(void)state;
	for (const struct executor_fault *f = executor_faults; f->name; f++, n++) {
		assert_true(*f->what && f->seen);
		inject(f->name);
		for (const struct executor_fault *g = executor_faults; g->name; g++)
			assert_int_equal(executor_fault_is(g->name), f == g);
	}
	assert_int_equal(n, 17);
	assert_false(executor_inject("no_such_fault"));
	inject(NULL);
	assert_false(executor_fault_is("int32_slot_offset"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAULTS(the_backend_is_handed_what_the_fault_says), FAULTS(one_sequence_has_its_outputs_in_place),
		FAULTS(a_prefill_into_slot_zero_does_not_run),
		FAULTS(faults_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void none_can_be_injected(void **state)
{
	(void)state;
	assert_null(executor_faults->name);
	assert_false(executor_inject("all_tokens_use_first_slot"));
	assert_false(executor_fault_is("all_tokens_use_first_slot"));
	assert_true(executor_inject(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(none_can_be_injected) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
