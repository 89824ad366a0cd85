#include "fixtures/file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/tensor.h"
#include "tests/helpers.h"

static void expect_text(const char *path, const char *text)
{
	size_t n;
	unsigned char *found = file_bytes(path, &n);

	assert_int_equal(n, strlen(text));
	assert_memory_equal(found, text, n);
	free(found);
}

static void replaces_a_file(void **state)
{
	struct error e;
	struct stat s;
	mode_t mask = umask(022);

	(void)state;
	assert_true(text_write(scratch("a"), "old", 3, &e));
	assert_true(text_write(scratch("a"), "", 0, &e));
	expect_text(scratch("a"), "");
	const struct part part[] = { { "new ", 4 }, { NULL, 0 }, { "text", 4 } };
	assert_true(file_write(scratch("a"), part, 3, &e));
	expect_text(scratch("a"), "new text");
	assert_int_equal(stat(scratch("a"), &s), 0);
	assert_int_equal(s.st_mode & 0777, 0644);
	assert_int_equal(scratch_count(), 1);
	umask(mask);
	remove(scratch("a"));
}

/* The limit on file size stops a write in its middle. */
static void keeps_the_old_file_when_a_write_fails(void **state)
{
	struct rlimit was, limit;
	struct error e;
	struct tensors t = { 0 };

	(void)state;
	assert_true(text_write(scratch("a"), "old", 3, &e));
	assert_non_null(tensors_add(&t, "x", DT_U8, 1, (size_t[]){ 100000 }));
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	limit = was;
	limit.rlim_cur = 5000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	bool ok = tensors_write(&t, scratch("a"), &e), new = tensors_write(&t, scratch("b"), NULL);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_false(ok || new);
	assert_error_at(&e, E_WRITE, 5000, "limited");
	assert_string_equal(e.file, scratch("a"));
	assert_string_equal(e.detail, strerror(EFBIG));
	expect_text(scratch("a"), "old");
	assert_int_equal(scratch_count(), 1);
	tensors_free(&t);
	remove(scratch("a"));
}

static void says_why_it_cannot_write(void **state)
{
	struct error e;
	char deep[600];

	(void)state;
	assert_false(text_write(scratch("none/a"), "x", 1, &e));
	assert_error_at(&e, E_OPEN, NO_OFFSET, "no folder");
	assert_false(text_write(scratch("."), "x", 1, &e));
	assert_error_at(&e, E_OPEN, NO_OFFSET, "a folder");
	assert_false(text_write("/dev/full", "x", 1, &e));
	assert_error_at(&e, E_WRITE, 0, "full");
	snprintf(deep, sizeof deep, "%s/%0300d", scratch("."), 0);
	assert_false(text_write(deep, "x", 1, &e));
	assert_error_at(&e, E_OPEN, NO_OFFSET, "a name too long");
	assert_true(text_write("/dev/null", "x", 1, &e));
	assert_int_equal(scratch_count(), 0);
}

static void steps_aside_for_a_leftover(void **state)
{
	char name[64];

	(void)state;
	snprintf(name, sizeof name, "a.%ld.0.tmp", (long)getpid());
	assert_true(text_write(scratch(name), "left", 4, NULL));
	assert_true(text_write(scratch("a"), "new", 3, NULL));
	expect_text(scratch(name), "left");
	expect_text(scratch("a"), "new");
	assert_int_equal(scratch_count(), 2);
	remove(scratch(name));
	remove(scratch("a"));
}

static void expect_unreadable(const char *path, enum error_code code, uint64_t offset)
{
	struct tensors t;
	struct error e;

	assert_false(tensors_read(&t, path, &e));
	assert_error_at(&e, code, offset, path);
	assert_string_equal(e.file, path);
	assert_true(!t.item && !t.map);
	assert_false(tensors_read(&t, path, NULL));
}

static void says_why_it_cannot_read(void **state)
{
	struct rlimit was, limit;

	(void)state;
	expect_unreadable(scratch("none"), E_OPEN, NO_OFFSET);
	expect_unreadable(scratch("."), E_READ, NO_OFFSET);
	assert_int_equal(mkfifo(scratch("pipe"), 0600), 0);
	expect_unreadable(scratch("pipe"), E_READ, NO_OFFSET);
	assert_true(text_write(scratch("a"), "", 0, NULL));
	expect_unreadable(scratch("a"), E_TRUNCATED, 0);
	assert_true(text_write(scratch("a"), "\x93NUMPY", 6, NULL));    /* read as npy */
	expect_unreadable(scratch("a"), E_TRUNCATED, 6);
	assert_true(text_write(scratch("a"), "plain text, not tensors", 23, NULL));
	expect_unreadable(scratch("a"), E_HEADER_LENGTH, 0);

	/* a file larger than the address space that is left */
	assert_int_equal(truncate(scratch("a"), (off_t)1 << 40), 0);
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	limit = was;
	limit.rlim_cur = (rlim_t)1 << 39;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	expect_unreadable(scratch("a"), E_MEMORY, NO_OFFSET);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	remove(scratch("a"));
	remove(scratch("pipe"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replaces_a_file),
		cmocka_unit_test(keeps_the_old_file_when_a_write_fails),
		cmocka_unit_test(says_why_it_cannot_write),
		cmocka_unit_test(steps_aside_for_a_leftover),
		cmocka_unit_test(says_why_it_cannot_read),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
