#include "fixtures/error.h"

#include <stdlib.h>
#include <string.h>

#include "tests/helpers.h"

static void expect_line(const struct error *e, const char *expected)
{
	char line[1024] = "";
	FILE *f = fmemopen(line, sizeof line, "w");

	assert_non_null(f);
	error_print(f, e);
	fclose(f);
	assert_string_equal(line, expected);
}

static void prints_one_line(void **state)
{
	struct error e;

	(void)state;
	memset(&e, 0xA5, sizeof e);
	assert_false(error_set(&e, E_SHAPE, "in.q", 42, "expected %d, found %s", 3, "x"));
	expect_line(&e, "'in.q': byte 42: malformed shape (expected 3, found x)");
	assert_false(error_in_file(&e, "a.safetensors"));
	expect_line(&e, "a.safetensors: 'in.q': byte 42: malformed shape (expected 3, found x)");
	error_set(&e, E_OPEN, NULL, NO_OFFSET, "%s", "");
	expect_line(&e, "cannot open");
	error_set(&e, E_OPEN, "a\nb\x1B[0m", 0, "\x7F\xC3\xA9");
	expect_line(&e, "'a\\x0ab\\x1b[0m': byte 0: cannot open (\\x7f\xC3\xA9)");
}

static void knows_every_code(void **state)
{
	static const enum error_code machine[] = { E_MEMORY, E_NO_BACKEND, E_NO_DEVICE, E_DEVICE };

	(void)state;
	for (int i = 0; i < E_COUNT; i++) {
		struct error e = { .code = (enum error_code)i };
		int exit = EXIT_INPUT;
		for (size_t k = 0; k < sizeof machine / sizeof *machine; k++)
			if (machine[k] == e.code)
				exit = EXIT_MACHINE;
		assert_int_equal(error_exit(&e), exit);
		assert_true(strlen(error_message(e.code)) > 3);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(error_message((enum error_code)k), error_message(e.code));
	}
	assert_non_null(error_message((enum error_code)-1));
	assert_non_null(error_message(E_COUNT));
	assert_int_equal(error_exit(&(struct error){ .code = E_COUNT }), EXIT_INPUT);
}

/* Names are cut to their fields, between two characters. */
static void cuts_at_a_character(void **state)
{
	static const struct { const char *character; size_t bytes; } cases[] = {
		{ "a", 1 }, { "\xC3\xA9", 2 }, { "\xE2\x82\xAC", 3 }, { "\xF0\x9D\x84\x9E", 4 },
	};
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t before = 0; before < 4; before++) {
			char name[2048] = "xxxx";
			size_t w = cases[i].bytes;
			name[before] = '\0';
			for (int k = 0; k < 400; k++)
				strcat(name, cases[i].character);
			error_set(&e, E_NAME, name, 0, "%s", name);
			assert_false(error_in_file(&e, name));
			assert_int_equal(strlen(e.item), before + (sizeof e.item - 1 - before) / w * w);
			assert_int_equal(strlen(e.detail), before + (sizeof e.detail - 1 - before) / w * w);
			assert_int_equal(strlen(e.file), before + (400 * w + before > sizeof e.file - 1
			                 ? (sizeof e.file - 1 - before) / w * w : 400 * w));
			assert_memory_equal(e.item, name, strlen(e.item));
		}
}

static void may_have_no_error(void **state)
{
	struct error e;

	(void)state;
	assert_false(error_set(NULL, E_OPEN, "x", 0, "%s", "y"));
	assert_false(error_in_file(NULL, "x"));
	/* its own strings passed on */
	error_set(&e, E_OPEN, "item", 0, "detail");
	error_set(&e, E_READ, e.item, 1, "more %s", e.detail);
	expect_line(&e, "'item': byte 1: cannot read (more detail)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prints_one_line),
		cmocka_unit_test(knows_every_code),
		cmocka_unit_test(cuts_at_a_character),
		cmocka_unit_test(may_have_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
