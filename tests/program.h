/* Runs the program under test: the one that the environment variable ETALON names, else the one
 * beside the folder of the test. */
#ifndef ETALON_TEST_PROGRAM_H
#define ETALON_TEST_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/helpers.h"

extern char **environ;

static char program[1024], beside[512];  /* beside: the folder of the test program */
static char out[1 << 20], err[1 << 16]; /* of the last run */

static inline void program_find(const char *argv0)
{
	const char *slash = strrchr(argv0, '/'), *named = getenv("ETALON");

	snprintf(beside, sizeof beside, "%.*s", slash ? (int)(slash - argv0) : 1, slash ? argv0 : ".");
	if (named) snprintf(program, sizeof program, "%s", named);
	else snprintf(program, sizeof program, "%s/../etalon", beside);
}

static inline void take_back(int file, char *text, size_t size)
{
	ssize_t n = pread(file, text, size - 1, 0);

	assert_true(n >= 0 && (size_t)n < size - 1);
	text[n] = 0;
	close(file);
}

/* The exit code; a signal fails the test. Arguments end with NULL; no GPU is to be seen. */
static inline int run(const char *const *arguments)
{
	int to = memfd_create("out", MFD_CLOEXEC), errors = memfd_create("err", MFD_CLOEXEC), status;
	posix_spawn_file_actions_t actions;
	pid_t pid;

	assert_true(to >= 0 && errors >= 0 && setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO), 0);
	int failed = posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
	if (failed) fail_msg("%s: %s", program, strerror(failed));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	posix_spawn_file_actions_destroy(&actions);
	take_back(to, out, sizeof out);
	take_back(errors, err, sizeof err);
	if (!WIFEXITED(status)) fail_msg("%s %s: signal %d; %s", program, arguments[1], WTERMSIG(status), err);
	return WEXITSTATUS(status);
}

static inline size_t lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++) n += *text == '\n';
	return n;
}

static inline void expect_exit(int status, const char *const *arguments)
{
	int is = run(arguments);
	char line[1024] = "";

	if (is == status) return;
	for (size_t i = 1; arguments[i]; i++) snprintf(line + strlen(line), sizeof line - strlen(line), " %s", arguments[i]);
	fail_msg("etalon%s: exit %d, expected %d\n%s%s", line, is, status, out, err);
}

/* expect(EXIT_PASS, "check", path) */
#define expect(status, ...) expect_exit(status, (const char *const[]){ "etalon", __VA_ARGS__, NULL })

/* Refused with one line on stderr that holds `about`, and nothing on stdout. */
#define refused(about, ...) do { \
		expect(EXIT_INPUT, __VA_ARGS__); \
		if (lines(err) != 1 || *out || !strstr(err, about)) fail_msg("expected one line about %s: %s%s", about, out, err); \
	} while (0)

/* The JSON on stdout; json_decref it. */
static inline json_t *json_out(void)
{
	json_error_t e;
	json_t *j = json_loads(out, JSON_REJECT_DUPLICATES, &e);

	if (!j) fail_msg("line %d: %s in %s", e.line, e.text, out);
	assert_string_equal(err, "");
	return j;
}

static inline const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	if (!s) fail_msg("no string '%s'", key);
	return s;
}

/* The table has a row for each object, and a heading. */
static inline json_t *listed(const char *what)
{
	expect(EXIT_PASS, "list", what);
	size_t rows = lines(out) - 1;
	expect(EXIT_PASS, "list", what, "--json");
	json_t *j = json_out();
	assert_int_equal(json_array_size(j), rows);
	return j;
}

#endif
