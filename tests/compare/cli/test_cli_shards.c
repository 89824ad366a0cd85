/* gate --shard and merge: what the shards say together is what the gate says alone. */
#define _GNU_SOURCE     /* memfd_create */
#include <signal.h>
#include <sys/stat.h>

#include "tests/kernel_model.h"
#include "tests/program.h"

enum { CAPTURES = 5, SHARDS = 3 };

static char shard_file[1 + SHARDS][512], folder[512];

/* Of five calls the second has a wrong number. */
static int set_up(void **state)
{
	struct capture c;
	struct error e;
	char name[32];

	scratch_make(state);
	snprintf(folder, sizeof folder, "%s", scratch("calls"));
	for (int i = 1; i <= SHARDS; i++) {
		snprintf(name, sizeof name, "shard%d.json", i);
		snprintf(shard_file[i], sizeof shard_file[i], "%s", scratch(name));
	}
	assert_int_equal(mkdir(scratch("calls"), 0700), 0);
	model_case(&c, "causal_conv1d", "prefill_silu", "f32");
	for (int i = 0; i < CAPTURES; i++) {
		struct tensor *y = capture_out(&c, "y");
		double right = get(y, 5);
		if (i == 1) set(y, 5, right + 1);
		snprintf(name, sizeof name, "calls/%d.safetensors", i);
		no_error(tensors_write(&c.tensors, scratch(name), &e), &e);
		set(y, 5, right);
	}
	capture_free(&c);
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(together_they_are_the_gate), cmocka_unit_test(none_is_missed_or_counted_twice), cmocka_unit_test(a_broken_shard_is_named),
		cmocka_unit_test(a_killed_shard_is_run_again)
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, set_up, remove_all);
}
