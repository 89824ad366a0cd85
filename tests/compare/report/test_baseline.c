/* The ratchet: a baseline holds what it was given, and fails what got worse. */
#include <string.h>

#include "compare/report/baseline.h"
#include "tests/kernel_model.h"

/* The case's capture, from a float32 kernel that rounds x (a site, or NULL) to bf16, judged under conv_bf16. */
static struct finding judged(const char *site)
{
	const struct judging how = { .contract = "conv_bf16", .truth = "f64" };
	struct plan p = plan_plain(&arith_f32, 24);
	struct finding f = { .judged = true, .op = "causal_conv1d", .producer = "kernel, toolkit 1", .device = "device" };
	struct capture c;
	struct error e;

	snprintf(f.path, sizeof f.path, "folder/conv.safetensors");
	make_case(&c, "causal_conv1d", "prefill_silu");
	if (site) p.round[op_site(op_find("causal_conv1d"), site)] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	answer_by(&c, &p);
	no_error(judge(&c, &how, &f.verdict, &e), &e);
	assert_int_equal(f.verdict.outcome, PASS);
	capture_free(&c);
	return f;
}

static json_t *written(const struct finding *f, const json_t *old)
{
	struct error e;

	no_error(baseline_write(scratch("baseline.json"), old, f, 1, &e), &e);
	json_t *j = baseline_read(scratch("baseline.json"), &e);
	no_error(j != NULL, &e);
	return j;
}

static void the_same_passes(void **state)
{
	struct finding f = judged("conv");
	json_t *j = written(&f, NULL);

	(void)state;
	baseline_compare(j, &f, 1);
	assert_int_equal(f.verdict.outcome, PASS);
	json_decref(j);
}

/* Both pass the contract; only the ratchet tells them apart. */
static void what_got_worse_fails(void **state)
{
	struct finding good = judged(NULL), worse = judged("conv");
	json_t *j = written(&good, NULL);

	(void)state;
	baseline_compare(j, &worse, 1);
	assert_int_equal(worse.verdict.outcome, FAIL);
	assert_non_null(strstr(worse.verdict.reason[0], "out.y: worse than the baseline"));
	assert_non_null(strstr(worse.verdict.reason[1], "rounds conv=bf16"));
	json_decref(j);
}

/* Another device or toolkit has an entry of its own; writing keeps the others. */
static void entries_are_of_one_device_and_toolkit(void **state)
{
	struct finding a = judged(NULL), b = a;

	(void)state;
	snprintf(b.device, sizeof b.device, "another");
	json_t *first = written(&a, NULL);
	baseline_compare(first, &b, 1);
	assert_int_equal(b.verdict.outcome, FAIL);
	assert_non_null(strstr(b.verdict.reason[0], "not in the baseline"));
	json_t *both = written(&b, first);
	assert_int_equal(json_object_size(both), 2);
	baseline_compare(both, &a, 1);
	assert_int_equal(a.verdict.outcome, PASS);
	json_decref(first);
	json_decref(both);
}

static void what_is_no_baseline_is_refused(void **state)
{
	static const char *const texts[] = { "", "[]", "{\"a\": 1, \"a\": 2}", "{" };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_true(text_write(scratch("bad.json"), texts[i], strlen(texts[i]), &e));
		assert_null(baseline_read(scratch("bad.json"), &e));
		assert_int_equal(error_exit(&e), EXIT_INPUT);
		assert_non_null(strstr(e.file, "bad.json"));
	}
	assert_null(baseline_read(scratch("none.json"), &e));
	assert_true(e.code == E_OPEN && strstr(e.detail, "--update-baseline"));
}

/* A kernel whose structure was identified has to stay so; one whose was not may be either. */
static void identified_stays_identified(void **state)
{
	struct finding known = judged("conv"), unknown = known;
	json_t *j = written(&known, NULL);

	(void)state;
	unknown.verdict.x.identified = false;
	baseline_compare(j, &unknown, 1);
	assert_int_equal(unknown.verdict.outcome, FAIL);
	assert_non_null(strstr(unknown.verdict.reason[0], "not identified, which it was"));
	json_decref(j);
	unknown = known;
	unknown.verdict.x.identified = false;
	j = written(&unknown, NULL);
	baseline_compare(j, &unknown, 1);
	assert_int_equal(unknown.verdict.outcome, PASS);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_passes),
		cmocka_unit_test(what_got_worse_fails),
		cmocka_unit_test(entries_are_of_one_device_and_toolkit),
		cmocka_unit_test(what_is_no_baseline_is_refused),
		cmocka_unit_test(identified_stays_identified),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
