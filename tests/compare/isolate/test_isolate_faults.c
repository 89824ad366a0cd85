/* Every listed fault is caught and named; in a build without faults, that none can be made. */
#include "tests/helpers.h"

#include <string.h>

#include "compare/isolate/isolate_laws.h"
#include "gpu/ranks/executor_ranks.h"

#ifdef ETALON_FAULTS

/* Memory moves between ranks for this fault alone. */
static const struct executor_backend *backend_for(const char *fault)
{
	return strcmp(fault, "heads_rank_for_rank") ? &executor_cpu : executor_ranks("cpu", 2, 1);
}

/* Seeds 1, 2, ... until a law is broken, as cmd_isolate has it. */
static struct isolation play(const char *fault, struct setup *s, struct scenario *scenario, struct explanation *why)
{
	const struct executor_backend *backend = backend_for(fault),
				      *one = backend == &executor_cpu ? NULL : &executor_cpu;
	struct isolation x = { .broken = -1 };
	struct error e;

	assert_true(executor_inject(fault));
	*why = (struct explanation){ .leaks_from = -1 };
	for (uint64_t seed = 1; seed < 6 && x.broken < 0; seed++) {
		struct executor_shape shape = setup_small(seed % 2 ? DT_F32 : DT_BF16, DT_BF16);
		if (one) shape = setup_ranks(shape);
		assert_true(setup_make(s, backend, &shape, seed, &e));
		s->one = one;
		assert_true(scenario_draw(scenario, seed, 60, &e));
		assert_true(isolate_scenario(&x, s, scenario, -1, &e));
		if (x.broken >= 0) break;
		scenario_free(scenario);
		setup_free(s);
	}
	if (x.broken < 0) assert_true(isolate_shapes(&x, backend, false, -1, NULL, &e));
	if (x.broken >= 0) assert_true(isolate_explain(why, s, scenario, &x, &e));
	return x;
}

/* The law that is to see it first; all others: values. */
static const struct { const char *fault; int law; } seen_by[] = {
	{ "pad_minus_one_hits_slot_zero", LAW_PADDING }, { "int32_slot_offset", LAW_LARGE },
	{ "stale_slot_table_in_graph", LAW_UNTOUCHED },
	{ "checkpoint_shared_not_copied", LAW_UNTOUCHED }, { "workspace_overflow", LAW_GUARDS },
	{ "missing_barrier", LAW_REPEAT }, { "heads_rank_for_rank", LAW_TRANSFER }
};

static int law_of(const char *fault)
{
	for (size_t i = 0; i < sizeof seen_by / sizeof *seen_by; i++)
		if (!strcmp(seen_by[i].fault, fault)) return seen_by[i].law;
	return LAW_VALUES;
}

static void every_fault_is_named(void **state)
{
	int faults = 0;

	(void)state;
	for (const struct executor_fault *f = executor_faults; f->name; f++) {
		struct setup s = { 0 };
		struct scenario scenario = { 0 };
		struct explanation why;
		struct isolation x = play(f->name, &s, &scenario, &why);
		if (x.broken != law_of(f->name))
			fail_msg("%s: %s, expected %s", f->name, x.broken < 0 ? "missed" : laws[x.broken].name, laws[law_of(f->name)].name);
		faults++;
		assert_non_null(why.fault);
		assert_string_equal(why.fault, f->name);
		/* rows that are not run leave y as it was: the reference has zeros there */
		assert_true(strcmp(f->name, "slot_zero_means_pad") || why.explained == why.wrong);
		scenario_free(&scenario);
		setup_free(&s);
	}
	executor_inject(NULL);
	assert_int_equal(faults, 17);
}

/* What other faults break on one rank as well is not the transfer's, and where a checkpoint was
 * moved wrongly nobody shared it. */
static void only_transfers_are_blamed(void **state)
{
	static const struct { const char *fault, *play; int law; } cases[] = {
		{ "checkpoint_shared_not_copied", "r0:1 / r0:1 c0=r0 / r0:1", LAW_UNTOUCHED },
		{ "missing_barrier", "r0:3 / r0:1", LAW_REPEAT },
		{ "heads_rank_for_rank", "r0:3 c0=r0 / r0:1", LAW_TRANSFER },
		{ "heads_rank_for_rank", "r0:3 / r0:1", LAW_TRANSFER }
	};
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct executor_shape shape = setup_ranks(setup_small(DT_F32, DT_F32));
		struct isolation x = { .broken = -1 };
		struct explanation why;
		struct scenario scenario;
		struct setup s;
		assert_true(executor_inject(cases[i].fault));
		assert_true(setup_make(&s, executor_ranks("cpu", 2, 1), &shape, 1, &e)
			&& scenario_parse(&scenario, cases[i].play, &e));
		s.one = &executor_cpu;
		assert_true(isolate_scenario(&x, &s, &scenario, -1, &e)
			&& isolate_explain(&why, &s, &scenario, &x, &e));
		if (x.broken != cases[i].law)
			fail_msg("%s, %s: %s", cases[i].fault, cases[i].play,
				x.broken < 0 ? "missed" : laws[x.broken].name);
		assert_string_equal(why.fault, cases[i].fault);
		executor_inject(NULL);
		scenario_free(&scenario);
		setup_free(&s);
	}
}

/* The shortest one fails alone, in the same way, and what is left out of it makes it pass. */
static void a_failure_is_shrunk(void **state)
{
	static const char *const faults[] = { "all_tokens_use_first_slot", "checkpoint_shared_not_copied", "conv_and_state_slots_differ" };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		struct setup s = { 0 };
		struct scenario scenario = { 0 }, shortest;
		struct explanation why, again;
		struct isolation x = play(faults[i], &s, &scenario, &why), y = { .broken = -1 };
		assert_true(isolate_shrink(&shortest, &s, &scenario, &x, &why, NULL, &e));
		assert_in_range(shortest.n, 2, 8);
		assert_true(isolate_scenario(&y, &s, &shortest, -1, &e));
		assert_int_equal(y.broken, x.broken);
		assert_in_range(y.breach.step, 0, shortest.steps - 1);
		assert_true(isolate_explain(&again, &s, &shortest, &y, &e));
		assert_string_equal(again.fault, faults[i]);
		executor_inject(NULL);
		struct isolation clean = { .broken = -1 };
		assert_true(isolate_scenario(&clean, &s, &shortest, -1, &e));
		assert_int_equal(clean.broken, -1);
		scenario_free(&shortest);
		scenario_free(&scenario);
		setup_free(&s);
	}
}

static void scratch_of_a_wrong_width_is_seen_at_a_length(void **state)
{
	struct isolation x = { .broken = -1 };
	struct error e;

	(void)state;
	assert_true(executor_inject("workspace_overflow"));
	assert_true(isolate_shapes(&x, &executor_cpu, false, LAW_SCRATCH, NULL, &e));
	assert_int_equal(x.broken, LAW_SCRATCH);
	executor_inject(NULL);
}

static void a_leak_is_traced_to_its_slot(void **state)
{
	struct executor_shape shape = setup_small(DT_F32, DT_F32);
	struct explanation why;
	struct scenario scenario;
	struct isolation x = { .broken = -1 };
	struct setup s;
	struct error e;

	(void)state;
	assert_true(executor_inject("slot_not_zeroed_on_reuse"));
	assert_true(setup_make(&s, &executor_cpu, &shape, 3, &e) && scenario_parse(&scenario, "r0:3", &e));
	assert_true(isolate_scenario(&x, &s, &scenario, -1, &e) && isolate_explain(&why, &s, &scenario, &x, &e));
	assert_int_equal(x.broken, LAW_VALUES);
	assert_int_equal(why.leaks_from, 0);            /* the first slot that an executor gives */
	assert_int_equal(x.breach.request, 0);
	assert_int_equal(x.breach.step, 0);
	executor_inject(NULL);
	scenario_free(&scenario);
	setup_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_fault_is_named),
		cmocka_unit_test(only_transfers_are_blamed), cmocka_unit_test(a_failure_is_shrunk),
		cmocka_unit_test(scratch_of_a_wrong_width_is_seen_at_a_length),
		cmocka_unit_test(a_leak_is_traced_to_its_slot) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void there_is_none(void **state)
{
	(void)state;
	assert_null(executor_faults[0].name);
	assert_false(executor_inject("all_tokens_use_first_slot"));
	for (int i = 0; i < LAWS; i++) assert_int_equal(law_find(laws[i].name), i);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(there_is_none) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
