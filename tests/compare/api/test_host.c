/* libetalon in a host that has set what results must not depend on. */
#define _GNU_SOURCE     /* feenableexcept */
#include <fenv.h>
#include <locale.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "compare/api/etalon.h"
#include "tests/helpers.h"

enum { R = 4, D = 16, CONTROL_FTZ_DAZ = 0x8040 };
static float x[R][D], weight[D];
static const char *const case_params = "{\"eps\": 0, \"weight_offset\": 0}";

/* Numbers of which the rows of odd number are denormal in float32. */
static void fill(void)
{
	for (int d = 0; d < D; d++) weight[d] = 1 + 0.01f * (float)d;
	for (int r = 0; r < R; r++)
		for (int d = 0; d < D; d++) x[r][d] = (r % 2 ? 3e-41f : 1.0f) * (float)((7 * (r * D + d)) % 23 - 11);
}

/* The report on x as it is, and its exact answer. */
static char *reported(void)
{
	struct etalon_error e = { 0 };
	etalon_call *c = etalon_call_new("rmsnorm", case_params, &e);

	etalon_call_set(c, &(struct etalon_tensor){ "in.x", "F32", 2, { R, D }, NULL, x }, &e);
	etalon_call_set(c, &(struct etalon_tensor){ "in.weight", "F32", 1, { D }, NULL, weight }, &e);
	etalon_call_answer(c, "f32", NULL, &e);
	etalon_verdict *v = etalon_judge(c, NULL, &e);
	const char *text = etalon_report(v, "json", &e);
	char *copy = strdup(text ? text : e.message);
	etalon_verdict_free(v);
	etalon_call_free(c);
	return copy;
}

static char *plain;
static int begin(void **state)
{
	fill();
	plain = reported();
	if (scratch_make(state)) return -1;
	return strstr(plain, "\"verdict\"") ? 0 : -1;
}

static int end(void **state)
{
	free(plain);
	return scratch_remove(state);
}

static void expect_plain(void)
{
	char *text = reported();

	assert_string_equal(text, plain);
	free(text);
}

static void the_rounding_mode_is_its_own(void **state)
{
	static const int modes[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

	(void)state;
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		assert_int_equal(fesetround(modes[i]), 0);
		char *text = reported();
		const int after = fegetround();
		fesetround(FE_TONEAREST);
		assert_int_equal(after, modes[i]);
		assert_string_equal(text, plain);
		free(text);
	}
}

static void denormal_numbers_are_kept(void **state)
{
	(void)state;
#ifdef __x86_64__
	const unsigned was = _mm_getcsr();
	_mm_setcsr(was | CONTROL_FTZ_DAZ);
	char *text = reported();
	const unsigned after = _mm_getcsr() & CONTROL_FTZ_DAZ;
	_mm_setcsr(was);
	assert_int_equal(after, CONTROL_FTZ_DAZ);
	assert_string_equal(text, plain);
	free(text);
#endif
}

static void traps_do_not_end_the_host(void **state)
{
	(void)state;
	feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
	char *text = reported();
	const int after = fegetexcept();
	fedisableexcept(FE_ALL_EXCEPT);
	assert_int_equal(after, FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
	assert_string_equal(text, plain);
	free(text);
}

/* A locale that writes 0,5, made here: few machines have one. */
static void numbers_have_a_point(void **state)
{
	static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
	static const char half[] = "op half_op # x\nin x [R, D] # rows\nout y [R, D]\neach r in R\n\ny[r] = x[r] * 0.5\ncase plain: R = 4, D = 8, x = normal(0.5, 0.25)\n";
	struct etalon_error e = { 0 };
	struct error why;
	char command[700], op[300];

	(void)state;
	snprintf(op, sizeof op, "%s", scratch("half.op"));
	assert_true(text_write(op, half, sizeof half - 1, &why));
	assert_true(text_write(scratch("source"), source, sizeof source - 1, &why));
	snprintf(command, sizeof command, "cd '%s' && localedef -c -i source -f ANSI_X3.4-1968 ./comma >/dev/null 2>&1; [ -d comma ]", scratch("."));
	assert_int_equal(system(command), 0);
	assert_int_equal(setenv("LOCPATH", scratch("."), 1), 0);
	assert_non_null(setlocale(LC_ALL, "comma"));
	snprintf(command, sizeof command, "%g", 0.5);
	const char *name = etalon_op(op, &e);
	etalon_call *c = etalon_call_case("half_op", "plain", 1, NULL);
	const bool answered = etalon_call_answer(c, "f32", NULL, NULL);
	etalon_verdict *v = etalon_judge(c, NULL, NULL);
	const enum etalon_outcome outcome = etalon_outcome(v);
	const char *found = v ? etalon_report(v, "text", NULL) : NULL;
	const bool comma = !found || strstr(found, "0,");
	char *text = reported();
	etalon_verdict_free(v);
	etalon_call_free(c);
	setlocale(LC_ALL, "C");
	assert_string_equal(command, "0,5");
	if (!name) fail_msg("%s: %s", e.file, e.message);
	assert_true(answered && !comma);
	assert_int_equal(outcome, ETALON_PASS);
	assert_string_equal(text, plain);
	free(text);
	snprintf(command, sizeof command, "rm -r '%s'", scratch("comma"));
	assert_int_equal(system(command), 0);
	remove(scratch("source"));
	remove(op);
}

static void *report_in(void *with) { return (void)with, reported(); }

/* A thread that has hardly a stack can be made, with the library's static memory of threads in it, and can judge. */
static void a_small_stack_is_enough(void **state)
{
	pthread_attr_t a;
	pthread_t thread;
	void *text;

	(void)state;
	assert_int_equal(pthread_attr_init(&a), 0);
	assert_int_equal(pthread_attr_setstacksize(&a, 128 << 10), 0);        /* OpenBLAS takes 60 of it */
#ifdef __SANITIZE_ADDRESS__
	assert_int_equal(pthread_attr_setstacksize(&a, 256 << 10), 0);
#endif
	assert_int_equal(pthread_create(&thread, &a, report_in, NULL), 0);
	pthread_attr_destroy(&a);
	assert_int_equal(pthread_join(thread, &text), 0);
	assert_string_equal(text, plain);
	free(text);
}

/* As Python's multiprocessing does: a child of a process that has judged judges too, with as many threads. */
static void a_child_may_judge(void **state)
{
	int status;

	(void)state;
	omp_set_num_threads(4);
	expect_plain();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(200);     /* else it would wait for ever for threads that it has not */
		char *text = reported();
		_exit(strcmp(text, plain) ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_plain();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rounding_mode_is_its_own), cmocka_unit_test(denormal_numbers_are_kept), cmocka_unit_test(traps_do_not_end_the_host),
		cmocka_unit_test(numbers_have_a_point), cmocka_unit_test(a_small_stack_is_enough), cmocka_unit_test(a_child_may_judge)
	};

	return cmocka_run_group_tests(tests, begin, end);
}
