/* The command line but for verdicts: usage, list, diff. */
#define _GNU_SOURCE     /* memfd_create */
#include "tests/kernel_model.h"
#include "tests/program.h"
#include "tests/xml.h"

/* ---- usage ---- */

static void help_fits_a_screen(void **state)
{
	static const char *const commands[] = { "check", "gate", "record", "inputs", "ref", "diff", "logits", "quantize", "eigen", "restarts", "audit", "list" };

	(void)state;
	expect(EXIT_PASS, "--help");
	assert_true(lines(out) <= 24 && !*err);
	for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) assert_true(strlen(line) <= 100);
	expect(EXIT_PASS, "help");
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		char usage[64], name[32];
		snprintf(name, sizeof name, "\n  %s ", commands[i]);
		expect(EXIT_PASS, "--help");
		assert_non_null(strstr(out, name));
		expect(EXIT_PASS, commands[i], "--help");
		snprintf(usage, sizeof usage, "Usage: etalon %s ", commands[i]);
		assert_int_equal(strncmp(out, usage, strlen(usage)), 0);
		assert_true(strstr(out, "--json") && !*err);
	}
}

static void bad_usage_is_one_line(void **state)
{
	(void)state;
	expect_exit(EXIT_INPUT, (const char *const[]){ "etalon", NULL });
	assert_true(lines(err) == 1 && !*out);
	refused("nope", "nope");
	refused("CAPTURE", "check");
	refused("--nope", "check", "--nope", "x");
	refused("--contract", "check", "--contract");
	refused("--HANG", "list", "--HANG=3");
	refused("--H", "check", "--H", "x");
	refused("--json", "gate", "--json=3");
	refused("-o DIR", "record");
	refused("-o DIR", "record", "rope");
	refused("--seed", "record", "rope", "-o", "x", "--seed", "-1");
	refused("-o FILE", "inputs", "rope");
	refused("-o FILE", "ref", "x");
	refused("etalon ref", "ref", "x", "y", "-o", "z");
	refused("--chunk", "ref", "x", "-o", "y", "--chunk", "0");
	refused("two files", "diff", "x");
	refused("etalon diff", "diff", "x", "y", "z");
	refused("--top", "diff", "x", "y", "--top", "many");
	refused("cases", "list");
	refused("nope", "list", "nope");
	refused("nope", "list", "ops", "nope");
	refused("etalon list", "list", "ops", "rope", "rope");
}

#define CALL "fixtures/captures/rope.full.etalon.safetensors"

/* Of an object, and of each object of an array. */
static void versioned(const char *command)
{
	json_t *j = json_out(), *one;
	size_t i;

	if (json_is_object(j))
		assert_int_equal(json_integer_value(json_object_get(j, "version")), 1);
	else assert_true(json_array_size(j) > 0);
	json_array_foreach(j, i, one) if (json_integer_value(json_object_get(one, "version")) != 1)
		fail_msg("%s: %zu", command, i);
	json_decref(j);
}

static void every_json_has_its_version(void **state)
{
	static const char *const lists[] = { "ops", "tensors", "params", "cases", "faults", "sites",
		"contracts" };

	(void)state;
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		expect(EXIT_PASS, "list", lists[i], "--json");
		versioned(lists[i]);
	}
	expect(EXIT_PASS, "check", "--quick", "--json", CALL);
	versioned("check");
	expect(EXIT_INPUT, "check", "--json", scratch("none"));
	err[0] = 0;
	versioned("check");
	expect(EXIT_PASS, "gate", "--quick", "--json", CALL, "--output", scratch("gate.json"));
	versioned("gate");
	json_t *whole = json_load_file(scratch("gate.json"), 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(whole, "version")), 1);
	json_decref(whole);
	expect(EXIT_PASS, "diff", "--json", CALL, CALL);
	versioned("diff");
	expect(EXIT_PASS, "inputs", "rope", "--case", "full", "-o", scratch("in.safetensors"),
		"--json");
	versioned("inputs");
	expect(EXIT_PASS, "ref", scratch("in.safetensors"), "-o", scratch("ref.safetensors"),
		"--json");
	versioned("ref");
	expect(EXIT_PASS, "profile", CALL, "--json");
	versioned("profile");
	expect(EXIT_PASS, "restarts", "jordan", "--json");
	versioned("restarts");
	expect(EXIT_PASS, "isolate", "--seeds", "1", "--steps", "5", "--json");
	versioned("isolate");
}

static void version_is_one_line(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		int major, minor, patch, end = 0;
		expect(EXIT_PASS, i ? "-V" : "--version");
		assert_true(sscanf(out, "etalon %d.%d.%d%n", &major, &minor, &patch, &end) == 3 && !strcmp(out + end, "\n") && !*err);
	}
	refused("--versions", "--versions");
}

static void output_that_is_lost_does_not_pass(void **state)
{
	char line[sizeof program + 64];

	(void)state;
	snprintf(line, sizeof line, "'%s' list ops >/dev/full 2>/dev/null", program);
	int status = system(line);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != EXIT_PASS);
	snprintf(line, sizeof line, "'%s' list ops --json 2>&1 >/dev/full", program);
	FILE *said = popen(line, "r");
	assert_non_null(said);
	out[fread(out, 1, sizeof out - 1, said)] = 0;
	assert_int_equal(
		WEXITSTATUS(pclose(said)), EXIT_INPUT); /* as of any file that cannot be written */
	if (!strstr(out, "stdout") || strstr(out, "memory") || lines(out) != 1) fail_msg("%s", out);
}

/* No command hands a capture's text to the terminal as it is. */
static void a_strangers_text_is_shown(void **state)
{
	static const char hostile[] = "\x1b[31m\n# x\x07\xc2\x9b\xe2\x80\xaey";
	struct capture c;
	struct error e;

	(void)state;
	model_case(&c, "rmsnorm", "plain_f32", "f32");
	assert_true(meta_set(&c.tensors, "etalon.producer", hostile)
		&& meta_set(&c.tensors, "etalon.device", hostile));
	no_error(tensors_write(&c.tensors, scratch("h.safetensors"), &e), &e);
	struct tensor *y = capture_out(&c, "y");
	free(y->name);
	y->name = strdup("out.\x1b[31m\n");
	no_error(tensors_write(&c.tensors, scratch("t.safetensors"), &e), &e);
	capture_free(&c);
	const char *h = scratch("h.safetensors"), *t = scratch("t.safetensors");
	const char *const calls[][8] = {
		{ "etalon", "check", "--quick", h },
		{ "etalon", "gate", "--quick", h },
		{ "etalon", "profile", h },
		{ "etalon", "diff", h, t },
		{ "etalon", "diff", t, t },
		{ "etalon", "check", "--quick", t },
		{ "etalon", "gate", "--quick", t },
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		run(calls[i]);
		if (!*out && !*err) fail_msg("call %zu says nothing", i);
		if (!clean_text(out) || !clean_text(err) || strstr(out, "\xe2\x80\xae")
			|| strstr(out, "\n# x"))
			fail_msg("call %zu: %s%s", i, out, err);
	}
}

/* ---- list ---- */

static void list_tells_all(void **state)
{
	size_t n[6] = { 0 };
	static const char *const kinds[] = { "ops", "cases", "faults", "sites", "contracts", "arithmetics" };

	(void)state;
	for (size_t o = 0; ops[o]; o++) {
		n[0] += op_backward(ops[o]) ? 2 : 1;
		for (const struct fault_spec *m = ops[o]->faults; m->name; m++) n[2]++;
		for (const struct site_spec *s = ops[o]->sites; s->name; s++) n[3]++;
		for (const struct contract *k = ops[o]->contracts; k->name; k++) n[4]++;
		for (const struct test_case *k = ops[o]->cases ? ops[o]->cases : test_cases; k->op; k++) n[1] += !strcmp(k->op, ops[o]->name);
	}
	while (ariths[n[5]]) n[5]++;
	for (size_t i = 0; i < 6; i++) {
		json_t *all = listed(kinds[i]);
		assert_int_equal(json_array_size(all), n[i]);
		json_decref(all);
	}
	expect(EXIT_PASS, "list", "faults", "rope", "--json");
	json_t *j = json_out();
	assert_int_equal(json_array_size(j), 14);
	assert_string_equal(text_of(json_array_get(j, 0), "op"), "rope");
	json_decref(j);
}

/* ---- diff ---- */

static void diff_tells_equal_from_different(void **state)
{
	struct capture c;
	struct error e;

	(void)state;
	model_case(&c, "rope", "full", "f32");
	no_error(tensors_write(&c.tensors, scratch("a"), &e), &e);
	no_error(tensors_write(&c.tensors, scratch("b"), &e), &e);
	expect(EXIT_PASS, "diff", scratch("a"), scratch("b"));
	step_up(capture_out(&c, "y"), 300);
	no_error(tensors_write(&c.tensors, scratch("b"), &e), &e);
	expect(EXIT_FAIL, "diff", scratch("a"), scratch("b"));
	assert_true(strstr(out, "out.y [1,0,44]") && strstr(out, "out.y: errors by ulp\n") && strstr(out, "\n       1         1  #\n"));
	expect(EXIT_FAIL, "diff", scratch("a"), scratch("b"), "--json");
	json_t *j = json_out(), *list = json_object_get(j, "tensors"), *y = json_array_get(list, c.tensors.n - 1);
	assert_true(json_is_false(json_object_get(j, "equal")) && json_array_size(list) == c.tensors.n);
	y = json_array_get(json_object_get(y, "histogram"), 2);
	assert_true(json_real_value(json_object_get(y, "from_ulp")) == 1 && json_integer_value(json_object_get(y, "elements")) == 1);
	json_decref(j);
	assert_non_null(tensors_add(&c.tensors, "more", DT_F32, 0, NULL));
	no_error(tensors_write(&c.tensors, scratch("b"), &e), &e);
	expect(EXIT_FAIL, "diff", scratch("b"), scratch("a"));
	capture_free(&c);
	expect(EXIT_INPUT, "diff", scratch("a"), scratch("absent"));
	assert_true(lines(err) == 1 && strstr(err, "absent") && !*out);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(help_fits_a_screen),
		cmocka_unit_test(bad_usage_is_one_line),
		cmocka_unit_test(version_is_one_line), cmocka_unit_test(every_json_has_its_version),
		cmocka_unit_test(output_that_is_lost_does_not_pass),
		cmocka_unit_test(a_strangers_text_is_shown),
		cmocka_unit_test(list_tells_all),
		cmocka_unit_test(diff_tells_equal_from_different),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
