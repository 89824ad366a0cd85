/* The ratchet: a baseline holds what it was given, and fails what got worse. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare/report/baseline.h"
#include "tests/kernel_model.h"

/* The case's capture, from a float32 kernel that rounds x (a site, or NULL) to bf16, judged under conv_bf16. */
static struct finding judged(const char *site)
{
	const struct judging how = { .contract = "conv_bf16", .truth = "f64" };
	struct plan p = plan_plain(&arith_f32, 24);
	struct finding f = { .judged = true, .op = "causal_conv1d", .producer = "kernel, toolkit 1",
		.device = "device", .name = "more/conv.safetensors", .root = "folder" };
	struct capture c;
	struct error e;

	snprintf(f.path, sizeof f.path, "folder/more/conv.safetensors");
	make_case(&c, "causal_conv1d", "prefill_silu");
	if (site) p.round[op_site(op_find("causal_conv1d"), site)] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	answer_by(&c, &p);
	no_error(judge(&c, &how, &f.verdict, &e), &e);
	assert_int_equal(f.verdict.outcome, PASS);
	capture_free(&c);
	return f;
}

static const char *base(void) { return scratch("baseline.json"); }

/* What a new file holds of the findings. */
static json_t *written(const struct finding *f, size_t n)
{
	struct error e;

	unlink(base());
	json_t *j = baseline_update(base(), NULL, f, n, &e);
	no_error(j != NULL, &e);
	json_t *read = baseline_read(base(), &e);
	no_error(read != NULL, &e);
	assert_int_equal(json_object_size(read), json_object_size(j));
	json_decref(j);
	return read;
}

static void compare(const json_t *j, struct finding *f)
{
	baseline_compare(j, "baseline.json", f, 1);
}

static void the_same_passes(void **state)
{
	struct finding f = judged("conv");
	json_t *j = written(&f, 1);

	(void)state;
	compare(j, &f);
	assert_int_equal(f.verdict.outcome, PASS);
	json_decref(j);
}

/* Both pass the contract; only the ratchet tells them apart. */
static void what_got_worse_fails(void **state)
{
	struct finding good = judged(NULL), worse = judged("conv");
	json_t *j = written(&good, 1);

	(void)state;
	compare(j, &worse);
	assert_int_equal(worse.verdict.outcome, FAIL);
	assert_non_null(strstr(worse.verdict.reason[0], "out.y: worse than the baseline"));
	assert_non_null(strstr(worse.verdict.reason[1], "rounds conv=bf16"));
	json_decref(j);
}

/* A right answer of the case, judged. alter: what becomes of the capture before. */
static struct finding judged_case(const char *name, void (*alter)(struct capture *))
{
	const struct judging how = { .quick = true };
	struct finding f;
	struct capture c;

	model_case(&c, "causal_conv1d", name, "f32");
	if (alter) alter(&c);
	finding_judge(&f, "a", &c, &how);
	capture_free(&c);
	f.name = "a";
	return f;
}

static void in_another_order(struct capture *c)
{
	struct tensor first = c->tensors.item[0];

	c->tensors.item[0] = c->tensors.item[1];
	c->tensors.item[1] = first;
}
static void without_activation(struct capture *c)
{
	json_object_set_new(c->params, "activation", json_string("none"));
}

/* An easier call says nothing of the kernel's error on the one that was there. */
static void another_call_fails(void **state)
{
	struct finding was = judged_case("prefill_silu", NULL), now = judged_case("decode", NULL),
		       same = judged_case("prefill_silu", in_another_order),
		       other = judged_case("prefill_silu", without_activation);
	json_t *j = written(&was, 1);

	(void)state;
	assert_int_equal(now.verdict.outcome, PASS);
	compare(j, &now);
	assert_int_equal(now.verdict.outcome, FAIL);
	assert_non_null(strstr(now.verdict.reason[0], "another call than in the baseline"));
	compare(j, &same);
	assert_int_equal(same.verdict.outcome, PASS);
	assert_string_not_equal(other.call, was.call);
	json_decref(j);
}

/* Another commit or device is the same kernel, and what it regressed by fails. */
static void a_producer_is_no_key(void **state)
{
	struct finding good = judged(NULL), worse = judged("conv");
	json_t *j = written(&good, 1);

	(void)state;
	snprintf(worse.producer, sizeof worse.producer, "kernel, commit 2");
	snprintf(worse.device, sizeof worse.device, "another");
	compare(j, &worse);
	assert_int_equal(worse.verdict.outcome, FAIL);
	assert_non_null(strstr(worse.verdict.reason[0], "worse than the baseline"));
	assert_string_equal(worse.baseline, "baseline.json");
	const json_t *entry = json_object_get(j, good.name);
	assert_string_equal(json_string_value(json_object_get(entry, "producer")), good.producer);
	json_decref(j);
}

static void what_has_no_entry_fails(void **state)
{
	struct finding f = judged(NULL), other = f;
	json_t *j = written(&f, 1);

	(void)state;
	other.name = "conv.safetensors";
	compare(j, &other);
	assert_int_equal(other.verdict.outcome, FAIL);
	assert_non_null(strstr(other.verdict.reason[0], "not in the baseline"));
	json_decref(j);
}

/* The figures of a looser contract are smaller, as its sigma is larger. */
static void another_contract_or_op_fails(void **state)
{
	static const struct contract looser = { .name = "looser" };
	static const struct op another = { .name = "another" };
	struct finding f = judged(NULL), under = f, of = f;
	json_t *j = written(&f, 1);

	(void)state;
	under.verdict.contract = &looser;
	compare(j, &under);
	assert_int_equal(under.verdict.outcome, FAIL);
	assert_non_null(strstr(
		under.verdict.reason[0], "under contract looser, in the baseline under conv_bf16"));
	struct op called = *f.verdict.op;
	called.name = another.name;
	of.verdict.op = &called;
	compare(j, &of);
	assert_int_equal(of.verdict.outcome, FAIL);
	assert_non_null(strstr(of.verdict.reason[0], "a call of another"));
	json_decref(j);
}

static void undecided_is_worse_than_an_entry(void **state)
{
	struct finding f = judged(NULL), unsure = f, new = f;
	json_t *j = written(&f, 1);

	(void)state;
	unsure.verdict.outcome = new.verdict.outcome = UNDECIDED;
	compare(j, &unsure);
	assert_int_equal(unsure.verdict.outcome, FAIL);
	new.name = "new.safetensors";
	compare(j, &new);
	assert_int_equal(new.verdict.outcome, UNDECIDED);
	json_decref(j);
}

static void an_output_that_went_away_fails(void **state)
{
	struct finding f = judged(NULL);
	json_t *j = written(&f, 1);

	(void)state;
	json_object_set_new(
		json_object_get(json_object_get(j, f.name), "rms"), "state", json_real(1));
	compare(j, &f);
	assert_int_equal(f.verdict.outcome, FAIL);
	assert_non_null(strstr(f.verdict.reason[0], "the baseline has out.state"));
	json_decref(j);
}

/* What does not pass is no measure: its entry stays as it was, if it has one. */
static void only_what_passes_is_written(void **state)
{
	struct finding good = judged(NULL), bad = good;
	struct error e;
	json_t *j = written(&good, 1);

	(void)state;
	bad.verdict.out[0].rule[RULE_RMS].value = 1e9;
	bad.verdict.outcome = FAIL;
	json_t *after = baseline_update(base(), NULL, &bad, 1, &e);
	assert_true(after
		&& json_equal(json_object_get(after, "more/conv.safetensors"),
			json_object_get(j, "more/conv.safetensors")));
	json_decref(after);
	bad.name = "new.safetensors";
	after = baseline_update(base(), NULL, &bad, 1, &e);
	assert_true(after && json_object_size(after) == 1);
	json_decref(after);
	json_decref(j);
}

static void an_update_loses_nothing(void **state)
{
	struct finding f = judged(NULL), b = f;
	struct error e;

	(void)state;
	json_decref(written(&f, 1));
	b.name = "b.safetensors";
	json_t *both = baseline_update(base(), NULL, &b, 1, &e);
	assert_true(both && json_object_size(both) == 2);
	json_t *only = json_pack("{s:b}", b.name, 1),
	       *one = baseline_update(base(), only, &b, 1, &e);
	assert_true(one && json_object_size(one) == 1 && json_object_get(one, b.name));
	json_decref(both);
	json_decref(one);
	json_decref(only);
}

/* Sixteen at a time, each with a capture of its own: no entry is lost. */
static void updates_wait_for_each_other(void **state)
{
	enum { MANY = 16 };
	struct finding f = judged(NULL);
	struct error e;
	char name[16];
	int status;

	(void)state;
	unlink(base());
	for (int i = 0; i < MANY; i++)
		if (!fork()) {
			snprintf(name, sizeof name, "%d", i);
			f.name = name;
			_exit(!baseline_update(base(), NULL, &f, 1, &e));
		}
	for (int i = 0; i < MANY; i++) assert_true(wait(&status) > 0 && status == 0);
	json_t *j = baseline_read(base(), &e);
	no_error(j != NULL, &e);
	assert_int_equal(json_object_size(j), MANY);
	json_decref(j);
}

static void what_is_no_baseline_is_refused(void **state)
{
	static const struct { const char *text, *said;
	} rows[] = {
		{ "", "line 1" },
		{ "[]", "object" },
		{ "{\"a\": 1, \"a\": 2}", "duplicate" },
		{ "{", "line 1" },
		{ "{}", "version 1" },
		{ "{\"conv.safetensors | kernel | device\": {\"rms\": {}}}",
			"version 1; to write it anew, delete it and run" },
		{ "{\"version\": 3, \"captures\": {}}", "got 3" },
		{ "{\"version\": \"2\", \"captures\": {}}", "got \"2\"" },
		{ "{\"version\": 2}", "expected an object" },
		{ "{\"version\": 2, \"captures\": {\"a\": 1}}", "entry" },
		{ "{\"version\": 2, \"captures\": {\"a\": {\"op\": \"rope\", \"contract\": "
		  "\"f32\", \"rms\": {\"y\": 1}, \"rounds\": null}}}",
			"entry with op, call" },
		{ "{\"version\": 2, \"captures\": {\"a\": {\"op\": \"rope\", \"call\": \"0\", \"contract\": "
		  "\"f32\", \"rms\": {\"y\": -1}, \"rounds\": null}}}",
			"entry" },
		{ "{\"version\": 2, \"captures\": {\"a\": {\"op\": \"rope\", \"call\": \"0\", \"contract\": "
		  "\"f32\", \"rms\": {\"y\": 1}, \"rounds\": [1]}}}",
			"entry" },
	};
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *path = scratch("bad.json");
		assert_true(text_write(path, rows[i].text, strlen(rows[i].text), &e));
		assert_null(baseline_read(path, &e));
		assert_int_equal(error_exit(&e), EXIT_INPUT);
		if (!strstr(e.file, "bad.json") || !strstr(e.detail, rows[i].said))
			fail_msg("row %zu: %s: %s", i, e.file, e.detail);
		assert_true(i == 0 || !baseline_update(path, NULL, NULL, 0, &e));
	}
	assert_null(baseline_read(scratch("none.json"), &e));
	assert_true(e.code == E_OPEN && strstr(e.detail, "--update-baseline"));
}

/* A kernel whose structure was identified has to stay so; one whose was not may be either. */
static void identified_stays_identified(void **state)
{
	struct finding known = judged("conv"), unknown = known;
	json_t *j = written(&known, 1);

	(void)state;
	unknown.verdict.x.identified = false;
	compare(j, &unknown);
	assert_int_equal(unknown.verdict.outcome, FAIL);
	assert_non_null(strstr(unknown.verdict.reason[0], "not identified, which it was"));
	json_decref(j);
	unknown = known;
	unknown.verdict.x.identified = false;
	j = written(&unknown, 1);
	compare(j, &unknown);
	assert_int_equal(unknown.verdict.outcome, PASS);
	compare(j, &known);     /* what --quick did not look at is no accusation */
	assert_int_equal(known.verdict.outcome, PASS);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_passes),
		cmocka_unit_test(what_got_worse_fails),
		cmocka_unit_test(another_call_fails),
		cmocka_unit_test(a_producer_is_no_key),
		cmocka_unit_test(what_has_no_entry_fails),
		cmocka_unit_test(another_contract_or_op_fails),
		cmocka_unit_test(undecided_is_worse_than_an_entry),
		cmocka_unit_test(an_output_that_went_away_fails),
		cmocka_unit_test(only_what_passes_is_written),
		cmocka_unit_test(an_update_loses_nothing),
		cmocka_unit_test(updates_wait_for_each_other),
		cmocka_unit_test(what_is_no_baseline_is_refused),
		cmocka_unit_test(identified_stays_identified),
	};
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
