/* The command line on a machine that has too little: it says so in one line with exit 4, at once, and never for a verdict. */
#define _GNU_SOURCE     /* memfd_create */
#include <string.h>
#include <sys/resource.h>

#include "compare/cli/machine.h"
#include "tests/program.h"

#define SMALL "fixtures/captures/rope.partial.q.safetensors"
#define LARGE "fixtures/captures/gated_delta_rule.prefill.chunk.safetensors"

/* Far more than is needed: what waits for room does so for ever, and burns the processor. */
enum { CPU_SECONDS = 100, SECONDS = 400 };

/* As run in program.h, with the address space limited to KiB (0: not), and with threads. */
static int run_within(size_t KiB, const char *threads, const char *const *arguments)
{
	int to = memfd_create("out", MFD_CLOEXEC), errors = memfd_create("err", MFD_CLOEXEC), status;
	const struct rlimit space = { KiB * 1024, KiB * 1024 }, cpu = { CPU_SECONDS, CPU_SECONDS };

	assert_true(to >= 0 && errors >= 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		bool ok = dup2(to, STDOUT_FILENO) >= 0 && dup2(errors, STDERR_FILENO) >= 0 && setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0
			&& setenv("OMP_NUM_THREADS", threads, 1) == 0 && unsetenv("OPENBLAS_NUM_THREADS") == 0
			&& setrlimit(RLIMIT_CPU, &cpu) == 0 && (!KiB || setrlimit(RLIMIT_AS, &space) == 0);
		if (ok) execv(program, (char *const *)(uintptr_t)arguments);
		_exit(126);
	}
	alarm(SECONDS);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	alarm(0);
	take_back(to, out, sizeof out);
	take_back(errors, err, sizeof err);
	if (!WIFEXITED(status)) fail_msg("%zu KiB, %s threads: signal %d; %s", KiB, threads, WTERMSIG(status), err);
	return WEXITSTATUS(status);
}

#define within(KiB, threads, ...) run_within(KiB, threads, (const char *const[]){ "etalon", __VA_ARGS__, NULL })

/* A verdict that is right, or one line. */
static bool passes(size_t KiB, const char *threads, const char *capture)
{
	int status = within(KiB, threads, "check", "--quick", capture);

	if (status == EXIT_PASS && strstr(out, "PASS") && !*err) return true;
	if (status != EXIT_MACHINE || lines(err) != 1 || strstr(out, "FAIL"))
		fail_msg("%s, %zu KiB, %s threads: exit %d\n%s%s", capture, KiB, threads, status, out, err);
	return false;
}

static void too_little_address_space_is_told(void **state)
{
	static const size_t limits[] = { 100000, 150000, 200000, 300000, 400000, 500000, 700000, 1000000 };
	static const char *const threads[] = { "1", "2", "9" };

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("the address sanitizer maps more than any limit\n");
	skip();
#endif
	for (size_t t = 0; t < 3; t++)
		for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
			bool ok = passes(limits[i], threads[t], SMALL);
			if (limits[i] == 100000) assert_true(!ok && strstr(err, "the address space is limited to 100000 KiB"));
			if (limits[i] >= 300000) assert_true(ok);
			if (t == 2 && i % 2) assert_true(passes(limits[i], "9", LARGE) || limits[i] < 300000);
		}
}

/* A stack of 512 KiB, of the main thread and of the others, and more threads than OpenMP has room for. */
static void a_small_stack_is_enough(void **state)
{
	struct rlimit was;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_STACK, &was), 0);
	for (rlim_t KiB = 1024; KiB >= 256; KiB /= 2) {
		const struct rlimit small = { KiB * 1024, was.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
		int status = within(0, "2", "check", SMALL);
		assert_int_equal(setrlimit(RLIMIT_STACK, &was), 0);
		if (status != EXIT_PASS || *err) fail_msg("%d KiB: exit %d, %s", (int)KiB, status, err);
	}
	assert_int_equal(within(0, "100000", "check", "--quick", SMALL), EXIT_PASS);
}

/* Where OpenBLAS's pool would wait for its buffer. */
static void what_computes_nothing_needs_no_room(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("the address sanitizer maps more than any limit\n");
	skip();
#endif
	assert_int_equal(within(150000, "2", "list", "ops"), EXIT_PASS);
	assert_int_equal(within(150000, "2", "--version"), EXIT_PASS);
	assert_int_equal(within(150000, "2", "--help"), EXIT_PASS);
	assert_int_equal(within(150000, "2", "diff", SMALL, SMALL), EXIT_PASS);
}

/* libgomp's exit(1). */
static void a_thread_that_cannot_be_made_is_no_verdict(void **state)
{
	(void)state;
	assert_int_equal(setenv("OMP_STACKSIZE", "200000G", 1), 0);
	int status = within(0, "2", "check", "--quick", SMALL);
	unsetenv("OMP_STACKSIZE");
	assert_non_null(strstr(err, "libgomp"));
	assert_int_equal(status, EXIT_MACHINE);
}

/* What OpenBLAS knows it is left to choose itself; one that it takes for a Prescott has more where the processor says so. */
static void a_processor_that_openblas_does_not_know_is_named(void **state)
{
	(void)state;
	assert_string_equal(machine_core("Prescott", NULL, true, true), "SkylakeX");
	assert_string_equal(machine_core("Prescott", NULL, true, false), "Haswell");
	assert_null(machine_core("Prescott", NULL, false, false));
	assert_null(machine_core("Zen", NULL, true, true));
	assert_null(machine_core("Prescott", "Prescott", true, true));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(too_little_address_space_is_told),
		cmocka_unit_test(a_small_stack_is_enough), cmocka_unit_test(what_computes_nothing_needs_no_room),
		cmocka_unit_test(a_thread_that_cannot_be_made_is_no_verdict),
		cmocka_unit_test(a_processor_that_openblas_does_not_know_is_named),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
