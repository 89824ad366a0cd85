/* gpu/sources.sh: which files a capture's hash is of, and what it is, against sha256sum. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/helpers.h"

static char script[1024], tree[512];

/* The first word that a shell command in the tree prints; its exit status. */
static int word(char text[65], const char *format, ...)
{
	char command[4096];
	va_list arguments;
	int n = snprintf(command, sizeof command, "cd '%s' && { ", tree);

	va_start(arguments, format);
	n += vsnprintf(command + n, sizeof command - (size_t)n, format, arguments);
	va_end(arguments);
	snprintf(command + n, sizeof command - (size_t)n, "; }");
	FILE *from = popen(command, "r");
	assert_non_null(from);
	size_t got = fread(text, 1, 64, from);
	text[got] = 0;
	while (fgetc(from) != EOF) { }
	return pclose(from);
}

static void hash_of(char text[65], const char *files)
{
	assert_int_equal(word(text, "sh %s %s", script, files), 0);
	assert_int_equal(strlen(text), 64);
}

static void does(const char *command)
{
	char text[65];

	if (word(text, "%s", command)) fail_msg("%s", command);
}

static int grow(void **state)
{
	char here[900];

	if (scratch_make(state) || !getcwd(here, sizeof here)) return -1;
	snprintf(script, sizeof script, "'%s/gpu/sources.sh'", here);
	snprintf(tree, sizeof tree, "%s", scratch("tree"));
	if (mkdir(tree, 0700)) return -1;
	does("mkdir gpu fixtures && printf '/* both */\\n#include <cuda_runtime.h>\\n#include \"gpu/part.cuh\"\\n#include \"fixtures/x.h\"\\n"
		"int one;\\n' >gpu/one.cu && echo '#include \"gpu/part.cuh\"' >gpu/two.cu && echo 'int part;' >gpu/part.cuh && "
		"echo 'int other;' >gpu/other.cuh && echo 'int x;' >fixtures/x.h && echo 'int host;' >gpu/one_host.c");
	return 0;
}

static int fell(void **state)
{
	does("rm -r gpu fixtures");
	return rmdir(tree) || scratch_remove(state);
}

/* Worked out here with sha256sum alone: of each file its text, includes without folders, and its base name, in order. */
static void the_hash_is_of_the_listed_files(void **state)
{
	char is[65], expected[65];

	(void)state;
	assert_int_equal(word(expected, "one=$(printf '/* both */\\n#include <cuda_runtime.h>\\n#include \"part.cuh\"\\n#include \"x.h\"\\nint one;\\n'"
		" | sha256sum | cut -c 1-64); part=$(echo 'int part;' | sha256sum | cut -c 1-64);"
		" printf '%%s  one.cu\\n%%s  part.cuh\\n' $one $part | LC_ALL=C sort | sha256sum"), 0);
	hash_of(is, "gpu/one.cu");
	assert_string_equal(is, expected);
}

static void only_what_is_included_counts(void **state)
{
	char before[65], after[65], two[65], both[65];

	(void)state;
	hash_of(before, "gpu/one.cu");
	hash_of(two, "gpu/two.cu");
	hash_of(both, "gpu/one_host.c gpu/one.cu");
	assert_string_not_equal(before, two);
	assert_string_not_equal(before, both);
	does("echo 'int more;' >>gpu/other.cuh && echo 'int more;' >>fixtures/x.h && echo 'int new_op;' >gpu/three.cu");
	hash_of(after, "gpu/one.cu");
	assert_string_equal(before, after);
	does("echo 'int more;' >>gpu/one_host.c");
	hash_of(after, "gpu/one_host.c gpu/one.cu");
	assert_string_not_equal(both, after);
	does("cp gpu/part.cuh kept && echo 'int more;' >>gpu/part.cuh");
	hash_of(after, "gpu/one.cu");
	assert_string_not_equal(before, after);
	hash_of(after, "gpu/two.cu");
	assert_string_not_equal(two, after);
	does("mv kept gpu/part.cuh");
	hash_of(after, "gpu/one.cu");
	assert_string_equal(before, after);
}

static void a_move_changes_nothing(void **state)
{
	char before[65], after[65];

	(void)state;
	hash_of(before, "gpu/one.cu gpu/one_host.c");
	does("mkdir -p gpu/kernels gpu/shared fixtures/io && mv gpu/one.cu gpu/one_host.c gpu/kernels && mv gpu/part.cuh gpu/shared && "
		"mv fixtures/x.h fixtures/io && sed -i 's|gpu/part|gpu/shared/part|; s|fixtures/x|fixtures/io/x|' gpu/kernels/one.cu");
	hash_of(after, "gpu/kernels/one.cu gpu/kernels/one_host.c");
	assert_string_equal(before, after);
	does("mv gpu/kernels/one.cu gpu/kernels/four.cu");
	hash_of(after, "gpu/kernels/four.cu gpu/kernels/one_host.c");
	assert_string_not_equal(before, after);
}

static void a_missing_file_has_no_hash(void **state)
{
	char text[65];

	(void)state;
	assert_int_not_equal(word(text, "sh %s gpu/none.cu 2>/dev/null", script), 0);
	assert_string_equal(text, "");
	assert_int_not_equal(word(text, "CXX=no-such-compiler sh %s gpu/two.cu 2>/dev/null", script), 0);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_is_of_the_listed_files),
		cmocka_unit_test(only_what_is_included_counts),
		cmocka_unit_test(a_missing_file_has_no_hash),
		cmocka_unit_test(a_move_changes_nothing),
	};

	return cmocka_run_group_tests(tests, grow, fell);
}
