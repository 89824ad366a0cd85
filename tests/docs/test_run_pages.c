/* docs/run_pages.sh: the commands of a page are run, their output compared and written. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "tests/program.h"

/* A page whose commands need no call. ` stands for the three that fence a block. */
static void page_make(const char *path, const char *text)
{
	FILE *to = fopen(path, "w");

	assert_non_null(to);
	for (; *text; text++) fputs(*text == '`' ? "```" : (char[]){ *text, 0 }, to);
	assert_int_equal(fclose(to), 0);
}

static void page_is(const char *path, const char *text)
{
	char is[4096] = "", should[4096] = "";
	FILE *from = fopen(path, "r");

	assert_non_null(from);
	is[fread(is, 1, sizeof is - 1, from)] = 0;
	fclose(from);
	for (size_t n = 0; *text; text++)
		n += (size_t)snprintf(should + n, sizeof should - n, "%s",
			*text == '`' ? "```" : (char[]){ *text, 0 });
	assert_string_equal(is, should);
}

/* Runs the script on the page: its exit code, what it says in `out`. */
static int run_page(const char *option, const char *text, char path[64])
{
	char command[2400];

	snprintf(path, 64, "/tmp/etalon-page-XXXXXX");
	int file = mkstemp(path);
	assert_true(file >= 0);
	close(file);
	page_make(path, text);
	snprintf(command, sizeof command, "ETALON='%s' docs/run_pages.sh %s %s 2>&1", program,
		option, path);
	FILE *said = popen(command, "r");
	assert_non_null(said);
	out[fread(out, 1, sizeof out - 1, said)] = 0;
	int status = pclose(said);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void run_of(
	const char *option, const char *text, int expected, const char *said, const char *after)
{
	char path[64];
	int status = run_page(option, text, path);

	if (status != expected || !strstr(out, said))
		fail_msg("exit %d, expected %d and '%s': %s", status, expected, said, out);
	page_is(path, after ? after : text);
	unlink(path);
}

/* A block whose first command is of etalon, and says nothing. */
#define OPS_LINE "$ etalon list ops >/dev/null; "
#define OPS "`\n" OPS_LINE

static void an_output_is_compared(void **state)
{
	(void)state;
	run_of("", "`\n$ ls\nno etalon in it\n`\n", 0, "0 commands on 1 pages", NULL);
	run_of("", OPS "echo one\none\n$ echo two\ntwo\n`\n", 0, "2 commands", NULL);
	run_of("", OPS "echo one; echo two\none\nthree\n`\n", 1, "  output two", NULL);
	run_of("", OPS "echo one; echo two\none\n`\n", 1, "  page   (nothing)", NULL);
	run_of("", OPS "echo one\none\ntwo\n`\n", 1, "  output (nothing)", NULL);
}

static void what_is_elided_is_anything(void **state)
{
	(void)state;
	run_of("", OPS "seq 9\n1\n…\n8\n9\n`\n", 0, "1 commands", NULL);
	run_of("", OPS "seq 9\n1\n…\n8\n`\n", 1, "another", NULL);
	run_of("", OPS "echo took 3.2 s of it\ntook … s of it\n`\n", 0, "1 commands", NULL);
	run_of("", OPS "echo took 3.2 s of it\ntook … s of them\n`\n", 1, "another", NULL);
}

static void a_command_without_output_must_work(void **state)
{
	(void)state;
	run_of("", "`\n$ etalon list ops\n`\n", 0, "1 commands", NULL);
	run_of("", "`\n$ etalon check no.safetensors\n`\n", 1, "ended with 2", NULL);
	run_of("", "`\netalon check no.safetensors\n`\n", 0, "no line begins", NULL);
}

static void comments_prepare_and_leave_out(void **state)
{
	(void)state;
	run_of("", "<!-- not run: too long -->\n`\n$ etalon check no.safetensors\nx\n`\n", 0,
		":2: too long\nrun_pages: 0 commands on 1 pages; 1 blocks", NULL);
	run_of("", "<!-- file: a/b -->\n`\nin it\n`\n`\n" OPS_LINE "cat a/b\nin it\n`\n", 0,
		"1 commands", NULL);
	run_of("", "<!-- run: echo made >c -->\n`\n" OPS_LINE "cat c\nmade\n`\n", 0, "1 commands",
		NULL);
	run_of("", "<!-- run: false -->\n", 1, "failed", NULL);
	run_of("", "<!-- begin: etalon list nothing -->\n`\n$ etalon list\n`\n<!-- end -->\n", 0,
		"0 commands", NULL);
}

/* … stays where it was, and lines are found by their first words. */
static void outputs_are_written(void **state)
{
	(void)state;
	run_of("--write", "a\n`\n" OPS_LINE "echo one; echo two\nthree\n`\nb\n", 0, "1 commands",
		"a\n`\n" OPS_LINE "echo one; echo two\none\ntwo\n`\nb\n");
	run_of("--write", OPS "seq 3; echo size 4; echo; echo PASS\n…\nsize 5\n…\nPASS\n`\n", 0,
		"1 commands",
		OPS "seq 3; echo size 4; echo; echo PASS\n…\nsize 4\n…\nPASS\n`\n");
	run_of("--write", OPS "echo x 1 took 7 s; echo y\nx 2 took … s\n`\n", 0, "1 commands",
		OPS "echo x 1 took 7 s; echo y\nx 1 took … s\ny\n`\n");
	run_of("--write", OPS "echo a; echo b\n…\ngone\n`\n", 1, "left out",
		OPS "echo a; echo b\n…\n`\n");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_output_is_compared),
		cmocka_unit_test(what_is_elided_is_anything),
		cmocka_unit_test(a_command_without_output_must_work),
		cmocka_unit_test(comments_prepare_and_leave_out),
		cmocka_unit_test(outputs_are_written),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
