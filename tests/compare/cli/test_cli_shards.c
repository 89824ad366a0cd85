/* gate --shard and merge: what the shards say together is what the gate says alone. */
#define _GNU_SOURCE     /* memfd_create */
#include <signal.h>
#include <sys/stat.h>

#include "tests/kernel_model.h"
#include "tests/program.h"
#include "tests/xml.h"

enum { CAPTURES = 5, SHARDS = 3 };

static char shard_file[1 + SHARDS][512], folder[512];

/* A call whose y[5] is off by `wrong`. */
static void write_call(const char *name, double wrong)
{
	struct capture c;
	struct error e;

	model_case(&c, "causal_conv1d", "prefill_silu", "f32");
	set(capture_out(&c, "y"), 5, get(capture_out(&c, "y"), 5) + wrong);
	no_error(tensors_write(&c.tensors, scratch(name), &e), &e);
	capture_free(&c);
}

/* Of five calls the second has a wrong number. */
static int set_up(void **state)
{
	char name[32];

	scratch_make(state);
	snprintf(folder, sizeof folder, "%s", scratch("calls"));
	for (int i = 1; i <= SHARDS; i++) {
		snprintf(name, sizeof name, "shard%d.json", i);
		snprintf(shard_file[i], sizeof shard_file[i], "%s", scratch(name));
	}
	assert_int_equal(mkdir(scratch("calls"), 0700), 0);
	for (int i = 0; i < CAPTURES; i++) {
		snprintf(name, sizeof name, "calls/%d.safetensors", i);
		write_call(name, i == 1);
	}
	for (int i = 1; i <= SHARDS; i++) {
		snprintf(name, sizeof name, "%d/%d", i, SHARDS);
		expect(i == 2 ? EXIT_FAIL : EXIT_PASS, "gate", "--quick", "--shard", name, "--output", shard_file[i], folder);
	}
	return 0;
}

static void together_they_are_the_gate(void **state)
{
	(void)state;
	expect(EXIT_FAIL, "gate", "--quick", folder);
	char *alone = strdup(out);
	expect(EXIT_FAIL, "merge", shard_file[3], shard_file[1], shard_file[2], "--junit", scratch("m.xml"), "--markdown", scratch("m.md"));
	assert_string_equal(out, alone);
	free(alone);
	assert_int_equal(access(scratch("m.xml"), R_OK) | access(scratch("m.md"), R_OK), 0);
	expect(EXIT_FAIL, "merge", "--json", shard_file[1], shard_file[2], shard_file[3]);
	json_t *j = json_out();
	assert_int_equal(json_array_size(json_object_get(j, "captures")), CAPTURES);
	json_decref(j);
}

static void none_is_missed_or_counted_twice(void **state)
{
	(void)state;
	refused("shard 2/3 is missing", "merge", shard_file[1], shard_file[3]);
	refused("shard 1/3 is there already", "merge", shard_file[1], shard_file[2], shard_file[1]);
	refused("--shard", "gate", "--shard", "0/3", folder);
	refused("--shard", "gate", "--shard", "4/3", folder);
	refused("--shard", "gate", "--shard", "1/3x", folder);
	expect(EXIT_PASS, "gate", "--quick", "--shard", "3/3", "--output", scratch("other.json"), scratch("calls/0.safetensors"), scratch("calls/2.safetensors"),
		scratch("calls/3.safetensors"));
	refused("another list", "merge", shard_file[1], shard_file[2], scratch("other.json"));
}

/* A run that was killed leaves no file; one that was cut is no JSON. */
static void a_broken_shard_is_named(void **state)
{
	size_t n;
	unsigned char *bytes = file_bytes(shard_file[1], &n);
	FILE *f = fopen(scratch("cut.json"), "wb");

	(void)state;
	assert_int_equal(fwrite(bytes, 1, n / 2, f), n / 2);
	fclose(f);
	free(bytes);
	refused("cut.json", "merge", scratch("cut.json"), shard_file[2], shard_file[3]);
	refused("none.json", "merge", scratch("none.json"), shard_file[2], shard_file[3]);
	f = fopen(scratch("empty.json"), "wb");
	fputs("{}", f);
	fclose(f);
	refused("empty.json", "merge", scratch("empty.json"));
}

/* ---- what a shard says of itself ---- */

static json_t *shard_json(int i)
{
	json_t *j = json_load_file(shard_file[i], 0, NULL);

	assert_non_null(j);
	return j;
}

static json_t *first_record(json_t *shard)
{
	return json_array_get(json_object_get(shard, "captures"), 0);
}

/* The shard in the place of the i-th, to be merged with the others; it releases j. */
static const char *changed(json_t *j)
{
	const char *path = scratch("changed.json");

	assert_int_equal(json_dump_file(j, path, 0), 0);
	json_decref(j);
	return path;
}

static void merge_refuses(const char *about, int i, json_t *j)
{
	const char *file = changed(j);

	refused(about, "merge", i == 1 ? file : shard_file[1], i == 2 ? file : shard_file[2],
		i == 3 ? file : shard_file[3]);
}

/* tests/compare/gate/test_gate.c has each kind; here is what is said. */
static void a_record_that_contradicts_itself_is_refused(void **state)
{
	(void)state;
	json_t *j = shard_json(2);
	json_object_set_new(first_record(j), "exit", json_integer(EXIT_PASS));
	json_object_set_new(j, "exit", json_integer(EXIT_PASS));
	merge_refuses("verdict 'fail' contradicts exit code 0", 2, j);
	j = shard_json(2);
	json_object_set_new(j, "exit", json_integer(EXIT_PASS));
	merge_refuses("exit code 0 contradicts the records", 2, j);
}

static void a_part_that_is_cut_or_empty_is_refused(void **state)
{
	(void)state;
	json_t *j = shard_json(1);
	json_array_remove(json_object_get(j, "captures"), 0);
	merge_refuses("1 captures, expected 2", 1, j);
	j = shard_json(1);
	json_object_set_new(json_object_get(j, "shard"), "captures", json_integer(0));
	json_array_clear(json_object_get(j, "captures"));
	refused("expected what `etalon gate --shard", "merge", changed(j));
	j = shard_json(1);
	json_object_set_new(j, "version", json_integer(7));
	merge_refuses("another version of etalon", 1, j);
}

static void parts_of_other_options_are_refused(void **state)
{
	(void)state;
	expect(EXIT_PASS, "gate", "--quick", "--contract", "f32", "--shard", "1/3", "--output",
		scratch("strict.json"), folder);
	refused("made with options", "merge", scratch("strict.json"), shard_file[2], shard_file[3]);
}

/* docs/ci.md's line runs again what is missing: a part that is there may be old. */
static void a_stale_part_is_named(void **state)
{
	(void)state;
	write_call("calls/3.safetensors", 1);
	refused("has changed since", "merge", shard_file[1], shard_file[2], shard_file[3]);
	assert_true(strstr(err, "shard1.json")
		&& strstr(err,
			"calls/3.safetensors has changed since; run it again: etalon gate --shard "
			"1/3"));
	expect(EXIT_FAIL, "merge", "--elsewhere", shard_file[1], shard_file[2], shard_file[3]);
	write_call("calls/3.safetensors", 0);
	expect(EXIT_FAIL, "merge", shard_file[1], shard_file[2], shard_file[3]);
	write_call("calls/9.safetensors", 1);
	refused("captures came or went since", "merge", shard_file[1], shard_file[2],
		shard_file[3]);
	remove(scratch("calls/9.safetensors"));
}

/* Texts that XML, Markdown, terminals and their readers take for their own. */
static const char *const hostile[] = { "x\"><skipped/></testcase><testcase a=\"", "a | b | c |",
	"</summary></details><script>", "\x1b[31m\x1b]0;t\x07", "```\n# heading",
	"![p](http://h/p.png) [l](http://h)", "\xe2\x80\xaeright to left", "&lt;<>&\"'`*_~#@" };

static void each_field_is_escaped(void **state)
{
	static const char *const fields[] = { "capture", "name", "op", "producer", "device",
		"contract", "replay" };
	char text[1 << 16];

	(void)state;
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
		json_t *j = shard_json(2), *r = first_record(j);
		for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
			json_object_set_new(r, fields[k], json_string(hostile[i]));
		json_array_insert_new(json_object_get(r, "reasons"), 0, json_string(hostile[i]));
		expect(EXIT_FAIL, "merge", "--elsewhere", shard_file[1], changed(j), shard_file[3],
			"--junit", scratch("h.xml"), "--markdown", scratch("h.md"));
		if (!clean_text(out) || strstr(out, "\xe2\x80\xae"))
			fail_msg("row %zu: %s", i, out);
		size_t n;
		char *xml = (char *)file_bytes(scratch("h.xml"), &n), *md;
		snprintf(text, sizeof text, "%.*s", (int)n, xml);
		free(xml);
		if (!well_formed(text)) fail_msg("row %zu: %s", i, text);
		size_t cases = 0;
		for (char *p = text; (p = strstr(p, "<testcase ")); p++) cases++;
		assert_int_equal(cases, CAPTURES);
		assert_null(strstr(text, "<skipped"));
		assert_non_null(strstr(text, "<failure message=\"fail: "));
		md = (char *)file_bytes(scratch("h.md"), &n);
		snprintf(text, sizeof text, "%.*s", (int)n, md);
		free(md);
		size_t rows = 0, fence = 0;
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
			if (!strncmp(line, "```", 3)) fence++;
			if (fence % 2 || strncmp(line, "| ", 2)) continue;
			rows++;
			for (char *p = line + 1; *p; p++)
				if (strchr("[]!`<*_~#@", *p) && p[-1] != '\\'
					&& !strstr("&#96;&#64;", (char[]){ p[-1], *p, 0 }))
					fail_msg("row %zu: '%c' in %s", i, *p, line);
		}
		assert_int_equal(rows, 1 + CAPTURES);
		assert_int_equal(fence, 2);
	}
}

/* Shard 2 into `file`, killed after so many microseconds unless it ended before: was it killed? */
static bool killed_after(unsigned microseconds, const char *file)
{
	const char *arguments[] = { "etalon", "gate", "--quick", "--shard", "2/3", "--output", file, folder, NULL };
	posix_spawn_file_actions_t actions;
	int status;
	pid_t pid;

	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0), 0);
	assert_int_equal(posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	usleep(microseconds);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status);
}

/* Whenever it is killed, a shard has left nothing or all; run again, it is counted once. */
static void a_killed_shard_is_run_again(void **state)
{
	const char *again = scratch("again.json");
	bool killed = true;
	int n = 0;

	(void)state;
	expect(EXIT_FAIL, "gate", "--quick", folder);
	char *alone = strdup(out);
	for (unsigned us = 500; killed && us < 60000000; us *= 2, n += killed) {
		killed = killed_after(us, again);
		if (access(again, F_OK)) refused("shard 2/3 is missing", "merge", shard_file[1], shard_file[3]);
		else expect(EXIT_FAIL, "merge", shard_file[1], again, shard_file[3]);
	}
	assert_true(n > 0 && !killed);
	expect(EXIT_FAIL, "merge", shard_file[1], again, shard_file[3]);
	assert_string_equal(out, alone);
	free(alone);
}

static int remove_all(void **state)
{
	char name[32];

	for (int i = 0; i < CAPTURES; i++) {
		snprintf(name, sizeof name, "calls/%d.safetensors", i);
		remove(scratch(name));
	}
	rmdir(folder);
	return scratch_remove(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(together_they_are_the_gate),
		cmocka_unit_test(none_is_missed_or_counted_twice),
		cmocka_unit_test(a_broken_shard_is_named),
		cmocka_unit_test(a_killed_shard_is_run_again),
		cmocka_unit_test(a_record_that_contradicts_itself_is_refused),
		cmocka_unit_test(a_part_that_is_cut_or_empty_is_refused),
		cmocka_unit_test(parts_of_other_options_are_refused),
		cmocka_unit_test(a_stale_part_is_named), cmocka_unit_test(each_field_is_escaped) };

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, set_up, remove_all);
}
