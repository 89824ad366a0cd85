/* `etalon record --backend plugin:LIB.so`: what a plugin may do besides computing, and what becomes of it. */
#define _GNU_SOURCE     /* memfd_create */
#include <string.h>

#include "gpu/host/plugin_memory.h"
#include "tests/program.h"

static const char *record(const char *how, int status)
{
	char plugin[1024];
	const char *folder = scratch("records");

	snprintf(plugin, sizeof plugin, "plugin:%s/plugin_hostile.so", beside);
	assert_int_equal(setenv("HOSTILE", how, 1), 0);
	expect(status, "record", "rmsnorm", "-o", folder, "--backend", plugin);
	return folder;
}

static void sweep(const char *folder)
{
	char command[1024];

	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	assert_int_equal(system(command), 0);
}

/* It fails the recording, in one line that names the tensor or the case. */
static void what_spoils_a_capture_fails(void **state)
{
	static const char *const way[][3] = {
		{ "zeroes its input", "in.x", "changed element 0 of this input" }, { "changes its last input", "in.weight", "changed element 511 of this input" },
		{ "writes behind", "out.y", "behind" }, { "writes far behind", "out.y", "behind" }, { "writes before", "out.y", "bytes before it" },
		{ "writes behind its input", "in.x", "behind" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		const char *folder = record(way[i][0], EXIT_MACHINE);
		if (lines(err) != 1 || !strstr(err, way[i][1]) || !strstr(err, way[i][2]) || strstr(out, "safetensors")) fail_msg("%s: %s%s", way[i][0], err, out);
		sweep(folder);
	}
}

static void what_ends_the_process_fails(void **state)
{
	static const char *const way[][2] = { { "exit(0)", "exit 0" }, { "_exit(0)", "exit 0" }, { "abort", "signal 6" }, { "a bad address", "" } };

	(void)state;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		const char *folder = record(way[i][0], EXIT_MACHINE);
		if (!strstr(err, "ended the process: ") || !strstr(err, "'rmsnorm.") || !strstr(err, way[i][1])) fail_msg("%s: %s", way[i][0], err);
		sweep(folder);
	}
}

/* On both sides as far as the tensor is large. */
static void what_is_written_beside_a_tensor_is_seen(void **state)
{
	enum { N = 100000 };
	static const ptrdiff_t at[] = { -1, -N, N, 2 * N - 1 };

	(void)state;
	for (size_t i = 0; i <= sizeof at / sizeof *at; i++) {
		struct capture c = { .op = "rmsnorm" };
		struct loan loan;
		struct error e;
		assert_non_null(tensors_add(&c.tensors, "out.y", DT_F32, 1, (size_t[]){ N }));
		assert_true(loan_make(&loan, &c, &e));
		((float *)loan.tensor[0].data)[i ? at[i - 1] : 0] = 1;
		assert_int_equal(loan_take_back(&loan, &c, "p.so", &e), !i);
		if (i) assert_error_at(&e, E_DEVICE, NO_OFFSET, "beside");
		else assert_true(*(float *)c.tensors.item[0].data == 1);
		loan_free(&loan);
		tensors_free(&c.tensors);
	}
}

/* These leave nothing behind: the captures are the same, case by case. */
static void what_is_put_right_does_no_harm(void **state)
{
	static const char *const way[] = { "nothing", "changes shapes", "rounds upwards", "goes elsewhere" };
	size_t n[2], first_lines = 0;

	(void)state;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		const char *folder = record(way[i], EXIT_PASS);
		char path[1024], kept[1024];
		assert_true(lines(out) >= 2 && !strchr(out, '\033'));
		if (!i) first_lines = lines(out);
		assert_int_equal(lines(out), first_lines);
		snprintf(path, sizeof path, "%s/rmsnorm.tiny_rows.etalon.safetensors", folder);
		snprintf(kept, sizeof kept, "%s", scratch("kept"));
		if (!i) assert_int_equal(rename(path, kept), 0);
		else {
			unsigned char *a = file_bytes(kept, &n[0]), *b = file_bytes(path, &n[1]);
			assert_int_equal(n[0], n[1]);
			assert_memory_equal(a, b, n[0]);
			free(a);
			free(b);
		}
		sweep(folder);
	}
	remove(scratch("kept"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_spoils_a_capture_fails), cmocka_unit_test(what_ends_the_process_fails),
		cmocka_unit_test(what_is_written_beside_a_tensor_is_seen), cmocka_unit_test(what_is_put_right_does_no_harm)
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
