/* Laws hold on a sound executor, and captures that were tampered with break the right one. */
#define _GNU_SOURCE     /* memfd_create */
#include <jansson.h>
#include <string.h>

#include "tests/kernel_model.h"
#include "tests/program.h"

#include "compare/cli/isolate_captures.h"
#include "compare/isolate/isolate_laws.h"
#include "gpu/ranks/executor_ranks.h"

static void a_sound_executor_breaks_no_law(void **state)
{
	struct error e;

	(void)state;
	for (uint64_t seed = 0; seed < 3; seed++) {
		struct isolation x = { .broken = -1 };
		struct executor_shape shape = setup_small(seed == 2 ? DT_BF16 : DT_F32, seed ? DT_BF16 : DT_F32);
		struct scenario scenario;
		struct setup s;
		assert_true(setup_make(&s, &executor_cpu, &shape, seed, &e) && scenario_draw(&scenario, seed, 80, &e));
		assert_true(isolate_scenario(&x, &s, &scenario, -1, &e));
		assert_int_equal(x.broken, -1);
		for (int i = 0; i < LAWS; i++) {
			if (i == LAW_SCRATCH || i == LAW_LARGE || i == LAW_TRANSFER) continue;
			assert_true(x.law[i].plays > 0 && x.law[i].counted > 0);
			assert_true(x.law[i].within == 0 || (i == LAW_SPLIT && shape.state == DT_BF16));
		}
		assert_true(x.law[LAW_VALUES].worst > 0.5 && x.law[LAW_VALUES].worst < 12);
		scenario_free(&scenario);
		setup_free(&s);
	}
}

/* Of heads that are split over ranks, and over others once a request decodes; key heads have copies where four ranks share two. */
static void all_laws_hold_over_ranks(void **state)
{
	static const int split[][2] = { { 2, 1 }, { 1, 2 }, { 2, 2 }, { 2, 4 }, { 4, 1 } };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof split / sizeof *split; i++) {
		struct isolation x = { .broken = -1 };
		struct executor_shape shape =
			setup_ranks(setup_small(i == 2 ? DT_BF16 : DT_F32, i ? DT_BF16 : DT_F32));
		struct scenario scenario;
		struct setup s;
		const struct executor_backend *b = executor_ranks("cpu", split[i][0], split[i][1]);
		assert_true(
			setup_make(&s, b, &shape, i, &e) && scenario_draw(&scenario, i, 40, &e));
		s.one = &executor_cpu;
		assert_true(isolate_scenario(&x, &s, &scenario, -1, &e));
		assert_int_equal(x.broken, -1);
		for (int law = 0; law < LAWS; law++) {
			if (law == LAW_SCRATCH || law == LAW_LARGE) continue;
			assert_true(x.law[law].plays > 0 && x.law[law].counted > 0);
			assert_true(x.law[law].within == 0
				|| (law == LAW_SPLIT && shape.state == DT_BF16));
		}
		scenario_free(&scenario);
		setup_free(&s);
	}
	expect(EXIT_PASS, "isolate", "--ranks", "2:1", "--play",
		"r0:3 / r0:1 c0=r0 / r0:2 r1=c0 r1:1", "--law", "transfer");
	assert_non_null(strstr(out, "isolate: cpu, ranks 2:1 backend"));
	assert_non_null(strstr(out, "transfer         7  tokens"));
}

static void zero_work_does_not_pass(void **state)
{
	struct executor_shape shape = setup_small(DT_F32, DT_F32);
	struct isolation x = { .broken = -1 };
	struct scenario scenario;
	struct setup s;
	struct error e = { 0 };

	(void)state;
	assert_true(setup_make(&s, &executor_cpu, &shape, 1, &e) && scenario_parse(&scenario, "r0. / @4 g / c0=r1", &e));
	assert_false(isolate_scenario(&x, &s, &scenario, -1, &e));
	assert_int_equal(e.code, E_EMPTY);
	scenario_free(&scenario);
	setup_free(&s);
}

/* Of names that stand for others later: neither content nor presence may take one family's memory for another's. */
static void names_may_be_used_again(void **state)
{
	(void)state;
	expect(EXIT_PASS, "isolate", "--play", "r1:3 / c0=r1 / r2=c0 r2:1 / c0. r0:3 / c0=r0");
	expect(EXIT_PASS, "isolate", "--play", "r0:3 c0=r0 / r1=c0 r1:2 c1=r1 / r0. / r0=c1 r0:1");
}

/* ---- captures ---- */

static const struct play_how as_given = { .marked = -1 };

static void make_capture(struct capture *c, const char *text)
{
	struct executor_shape shape = setup_small(DT_F32, DT_F32);
	struct scenario scenario;
	struct setup s;
	struct play p;
	struct error e;

	assert_true(setup_make(&s, &executor_cpu, &shape, 5, &e) && scenario_parse(&scenario, text, &e));
	assert_true(play_make(&p, &s, &scenario, &as_given, &e) && play_capture(c, &p, &e));
	play_free(&p);
	scenario_free(&scenario);
	setup_free(&s);
}

static const char sound[] = "r0:3 r1:2 / @4 r0:1 r1:1 / r2:4 r0?2:1";

static const char *written(const struct capture *c, const char *name)
{
	const char *path = scratch(name);
	struct error e;

	assert_true(tensors_write(&c->tensors, path, &e));
	return path;
}

/* The finding of `check --json`. */
static json_t *checked(int status, const char *path)
{
	expect(status, "check", "--json", path);
	json_t *all = json_out(), *j = json_incref(json_array_get(all, 0));

	json_decref(all);
	return j;
}

static void a_sound_capture_passes_and_repeats(void **state)
{
	struct capture c;

	(void)state;
	make_capture(&c, sound);
	const char *path = written(&c, "sound");
	expect(EXIT_PASS, "isolate", path);
	assert_non_null(strstr(out, "PASS"));
	expect(EXIT_PASS, "isolate", path, path);
	assert_non_null(strstr(out, "repeat           15 tokens  bit for bit"));
	((float *)capture_out(&c, "y")->data)[7] *= 1 + 0x1p-22f;
	expect(EXIT_FAIL, "isolate", path, written(&c, "other"));
	assert_non_null(strstr(out, "broken     repeat"));
	char *two[] = { (char *)(uintptr_t)path, (char *)(uintptr_t)scratch("other") };
	assert_int_equal(isolate_captures(two, 2, false), EXIT_FAIL);
	expect(EXIT_FAIL, "isolate", "--json", path, scratch("other"));
	json_t *j = json_out();
	assert_string_equal(text_of(json_array_get(j, 0), "verdict"), "pass");
	assert_string_equal(text_of(json_array_get(j, 1), "verdict"), "fail");
	json_decref(j);
	capture_free(&c);
}

static void tampering_breaks_its_law(void **state)
{
	static const struct { const char *tensor; size_t element; const char *says; } cases[] = {
		{ "state_pool", 30 * 1024 + 600, "broken     untouched: no token writes slot 30, but its state changed from byte 240" },
		{ "conv_pool", 30 * 512 + 300, "broken     untouched: no token writes slot 30, but its inputs of the convolution changed from byte 120" },
		{ "y", 8 * 64 + 3, "broken     padding: y of row 5" },
		{ "y", 6 * 64 + 40, "first wrong step 1" },
		{ "state_pool", 43 * 1024 + 5, "broken     values: state_pool[43,0,0,0,5]" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct capture c;
		make_capture(&c, sound);
		((float *)capture_out(&c, cases[i].tensor)->data)[cases[i].element] += 1;
		expect(EXIT_FAIL, "isolate", written(&c, "tampered"));
		if (!strstr(out, cases[i].says)) fail_msg("expected '%s' in\n%s", cases[i].says, out);
		assert_int_equal(isolate_captures((char *[]){ (char *)(uintptr_t)scratch("tampered") }, 1, false), EXIT_FAIL);
		capture_free(&c);
	}
}

/* `check` asks isolation before it searches: it says row, step and slot, and takes no x-ray. A
 * sound capture has one, and so has one most of whose tokens are wrong, which no memory
 * explains. */
static void check_says_where_as_isolate_does(void **state)
{
	struct capture c;
	json_t *j;

	(void)state;
	make_capture(&c, sound);
	j = checked(EXIT_PASS, written(&c, "checked"));
	assert_non_null(json_object_get(j, "xray"));
	json_decref(j);
	float *y = capture_out(&c, "y")->data;
	for (size_t i = 0; i < 3; i++) y[6 * 64 + i] += 3;
	j = checked(EXIT_FAIL, written(&c, "checked"));
	const char *said = json_string_value(json_array_get(json_object_get(j, "reasons"), 0));
	if (!strstr(said, "isolate: y[6,0,0,0] of row 3")
		|| !strstr(said, "first wrong step 1, slot ")
		|| !strstr(said, "1 of 13 tokens is wrong"))
		fail_msg("%s", said);
	assert_null(json_object_get(j, "xray"));
	json_decref(j);
	for (size_t i = 0; i < capture_out(&c, "y")->count; i++) y[i] *= 1.01f;
	j = checked(EXIT_FAIL, written(&c, "checked"));
	assert_null(strstr(
		json_string_value(json_array_get(json_object_get(j, "reasons"), 0)), "isolate"));
	assert_non_null(json_object_get(j, "xray"));
	json_decref(j);
	capture_free(&c);
}

/* A pool in bf16 under a contract without it: few tokens are wrong, by what a rounding makes. */
static void check_finds_a_rounding_as_before(void **state)
{
	(void)state;
	expect(EXIT_FAIL, "check", "--contract", "f32",
		"fixtures/captures/mixed_batch.few_bf16.etalon.safetensors");
	assert_null(strstr(out, "isolate:"));
	assert_non_null(strstr(out, "rounds pool to bf16"));
}

/* A fault whose answer all wrong tokens hold is named. */
static void check_names_what_isolate_does(void **state)
{
	struct plan p = plan_plain(&arith_f32, 24);
	const struct op *op = op_of_slots();
	struct capture c;

	(void)state;
	make_capture(&c, sound);
	plan_fault(&p, op, op_fault(op, "state_written_to_a_copy"));
	answer_by(&c, &p);
	json_t *j = checked(EXIT_FAIL, written(&c, "checked"));
	const char *said = json_string_value(json_array_get(json_object_get(j, "reasons"), 0));
	if (!strstr(said, "has the fault state_written_to_a_copy")) fail_msg("%s", said);
	json_decref(j);
	capture_free(&c);
}

static void every_broken_law_is_told(void **state)
{
	struct capture c;

	(void)state;
	make_capture(&c, sound);
	memset(capture_out(&c, "y")->data, 0xff, capture_out(&c, "y")->bytes);
	const char *path = written(&c, "all\xff");
	expect(EXIT_FAIL, "isolate", path);
	assert_null(strstr(out, "within the expected error"));
	expect(EXIT_FAIL, "isolate", "--json", path);
	json_t *j = json_out(), *list = json_object_get(json_array_get(j, 0), "laws");
	assert_true(json_is_true(json_object_get(json_array_get(list, 1), "broken")));
	assert_true(json_is_true(json_object_get(json_array_get(list, 2), "broken")));
	json_decref(j);
	capture_free(&c);
}

static void nan_in_a_slot_that_is_not_touched_is_no_fault(void **state)
{
	const uint32_t nan = UINT32_C(0x7fc01234);
	struct capture c;

	(void)state;
	make_capture(&c, sound);
	memcpy((float *)capture_in(&c, "state_pool")->data + 30 * 1024, &nan, sizeof nan);
	memcpy((float *)capture_out(&c, "state_pool")->data + 30 * 1024, &nan, sizeof nan);
	expect(EXIT_PASS, "isolate", written(&c, "nan"));
	((uint32_t *)capture_out(&c, "state_pool")->data)[30 * 1024]++;
	expect(EXIT_FAIL, "isolate", written(&c, "nan"));
	capture_free(&c);
}

static void bad_usage_is_told(void **state)
{
	(void)state;
	refused("byte 0", "isolate", "--play", "r0:x");
	refused("no request", "isolate", "--play", "");
	refused("tpu", "isolate", "--backend", "tpu");
	refused("'2:3'", "isolate", "--ranks", "2:3");
	refused("'2'", "isolate", "--ranks", "2");
	refused("'2:11'", "isolate", "--ranks", "2:11");
	refused("sees nothing", "isolate", "--play", "r0:1 / r0:1", "--law", "transfer");
	refused("faults", "isolate", "--inject", "no_such_fault");
	refused("no_such_law", "isolate", "--law", "no_such_law");
	refused("mixed_batch", "isolate", "fixtures/captures/rope.partial.q.safetensors");
	refused("no-such-file", "isolate", "no-such-file");
	refused("not played", "isolate", "--seeds", "2", "fixtures/captures/mixed_batch.steps_f32.etalon.safetensors");
	refused("tokens", "isolate", "--play", "r0:200");
	refused("step 0 has 15 rows", "isolate", "--play", "@14 r0:1");
	refused("44 slots", "isolate", "--play", "r0?45:0");
	refused("sees nothing", "isolate", "--play", "r1:3", "--law", "content");
	refused("sees nothing", "isolate", "--play", "r0:1", "--law", "large");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_sound_executor_breaks_no_law),
		cmocka_unit_test(all_laws_hold_over_ranks),
		cmocka_unit_test(zero_work_does_not_pass),
		cmocka_unit_test(names_may_be_used_again),
		cmocka_unit_test(every_broken_law_is_told),
		cmocka_unit_test(a_sound_capture_passes_and_repeats),
		cmocka_unit_test(tampering_breaks_its_law),
		cmocka_unit_test(check_says_where_as_isolate_does),
		cmocka_unit_test(check_names_what_isolate_does),
		cmocka_unit_test(check_finds_a_rounding_as_before),
		cmocka_unit_test(nan_in_a_slot_that_is_not_touched_is_no_fault),
		cmocka_unit_test(bad_usage_is_told) };

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
