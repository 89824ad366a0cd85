/* The cause of an error of Newton-Schulz, as verdicts report it; `etalon eigen --case`. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>
#include <string.h>

#include "compare/verdict/verdict.h"
#include "fixtures/cases/cases.h"
#include "tests/kernel_model.h"
#include "tests/program.h"

#define PUBLIC(name) "fixtures/captures/newton_schulz." name ".safetensors"

static char *reported(const struct capture *c, struct verdict *v)
{
	char *said = NULL;
	size_t size;
	FILE *to = open_memstream(&said, &size);

	*v = (struct verdict){ 0 };
	judge_cause(c, &(struct judging){ 0 }, v);
	eigen_cause_report(to, &v->cause);
	assert_int_equal(fclose(to), 0);
	return said;
}

/* Two public runs without a restart, whose input alone tells: R_0's rounding to float16. */
static void a_missing_restart_has_a_cause(void **state)
{
	static const char *const path[] = { PUBLIC("wide.gram_polar_express_no_restart"), "fixtures/readings/newton_schulz.tall.gram_polar_express_no_restart.safetensors" };
	struct capture c;
	struct verdict v;
	struct error e;
	char *said = NULL;

	(void)state;
	for (int i = 0; i < 2; i++) {
		free(said);
		no_error(capture_read(&c, path[i], &e), &e);
		said = reported(&c, &v);
		const struct eigen *g = &v.cause.found;
		assert_true(g->cause == NEGATIVE && g->left == 5 && g->cause_at == 0 && g->cause_value < 0);
		assert_true(!v.cause.recorded && v.cause.answer_left && v.cause.iterate == FMT_F16);
		assert_non_null(strstr(said, "at iteration 5: negative eigenvalues of R\n"));
		capture_free(&c);
	}
	expect(EXIT_UNDECIDED, "check", path[1]);
	if (!strstr(out, said)) fail_msg("%s\nhas not\n%s", out, said);
	free(said);
	expect(EXIT_UNDECIDED, "check", "--json", path[1]);
	json_t *all = json_out(), *j = json_object_get(json_array_get(all, 0), "spectrum");
	assert_string_equal(json_string_value(json_object_get(j, "cause")), "negative eigenvalues of R");
	assert_int_equal(json_integer_value(json_object_get(j, "leaves_at")), 5);
	assert_true(json_number_value(json_object_get(j, "cause_eigenvalue")) == v.cause.found.cause_value);
	assert_true(json_is_false(json_object_get(j, "recorded")) && json_is_true(json_object_get(j, "answer_leaves")));
	json_decref(all);
	expect(EXIT_UNDECIDED, "check", "--quick", path[1]);
	assert_null(strstr(out, "negative eigenvalues"));
}

static void what_follows_is_not_mentioned(void **state)
{
	struct capture c;
	struct verdict v;
	struct error e;

	(void)state;
	no_error(capture_read(&c, PUBLIC("tall.gram_polar_express"), &e), &e);
	char *said = reported(&c, &v);
	assert_true(v.cause.sought && v.cause.found.cause == FOLLOWS && !v.cause.answer_left && !*said);
	free(said);
	capture_free(&c);
	expect(EXIT_PASS, "check", "--json", "fixtures/captures/rope.partial.q.safetensors");
	assert_null(strstr(out, "\"spectrum\""));
}

/* An answer a fifth too large, or infinite, is none of the iteration's doing. */
static void an_answer_that_is_off_alone(void **state)
{
	struct capture c;
	struct verdict v;
	struct error e;

	(void)state;
	no_error(capture_read(&c, PUBLIC("tall.gram_you"), &e), &e);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count; i++) ((float *)y->data)[i] *= 1.2f;
	for (int i = 0; i < 2; i++) {
		char *said = reported(&c, &v);
		assert_true(v.cause.found.cause == FOLLOWS && v.cause.answer_left && !v.cause.recorded);
		assert_non_null(strstr(said, "the iteration does not explain"));
		assert_true(!strstr(said, "not finite") == !i);
		free(said);
		((float *)y->data)[7] = INFINITY;
	}
	capture_free(&c);
}

/* Of a batch the matrix that leaves is named; R is what was recorded, NaN in X_0 and too large a batch are said. */
static void recorded_batches(void **state)
{
	struct capture c;
	struct verdict v;
	struct error e;
	double x = 40, n = NAN;

	(void)state;
	no_error(case_make(&c, case_find("newton_schulz", "batch_f16"), 1, false, &e), &e);
	char *said = reported(&c, &v);
	assert_true(*said == 0 && v.cause.sought && !v.cause.left_out[0] && v.cause.matrices == 3 && v.cause.found.cause == FOLLOWS);
	free(said);
	capture_free(&c);
	no_error(case_make(&c, case_find("newton_schulz", "batch_f16"), 1, true, &e), &e);
	for (int i = 0; i < 3; i++) {           /* a poor record: Q = I, X and R constant, but for one element */
		struct tensor *t = capture_out(&c, (const char *const[]){ "X", "R", "Q" }[i]);
		memset(t->data, 0, t->bytes);
	}
	memset(capture_out(&c, "y")->data, 0, capture_out(&c, "y")->bytes);
	struct tensor *X = capture_out(&c, "X"), *Q = capture_out(&c, "Q");
	size_t one = X->count / 3, q = Q->count / 3;
	dtype_store(X->dtype, &x, 1, (char *)X->data + 2 * (one + one / 6 * 4));        /* matrix 1, entry 4 */
	dtype_store(Q->dtype, &x, 1, (char *)Q->data + 2 * (q + q / 6 * 4));
	said = reported(&c, &v);
	assert_true(v.cause.recorded && v.cause.batch == 1 && v.cause.found.left == 4 && v.cause.found.cause != FOLLOWS);
	assert_non_null(strstr(said, "matrix 1, as recorded"));
	free(said);
	dtype_store(X->dtype, &n, 1, X->data);
	said = reported(&c, &v);
	assert_non_null(strstr(said, "left out: "));
	free(said);
	capture_in(&c, "x")->shape[1] = capture_in(&c, "x")->shape[2] = 356;     /* 3 * 356^3 > 512^3 */
	said = reported(&c, &v);
	assert_non_null(strstr(said, "left out: 3 x [356,356]"));
	free(said);
	capture_free(&c);
}

/* The command on a case and on a capture of the same case say the same. */
static void eigen_of_a_case(void **state)
{
	static char first[sizeof out];
	const char *path = scratch("case.safetensors");

	(void)state;
	expect(EXIT_PASS, "eigen", "--case", "graded_no_restart_f16", "--seed", "3");
	assert_non_null(strstr(out, "graded_no_restart_f16\n  gram, 5 iterations in f16, no restart; emulated\n  [32,64]"));
	assert_non_null(strstr(out, "min eig R"));
	snprintf(first, sizeof first, "%s", strchr(out, '\n'));
	expect(EXIT_PASS, "inputs", "newton_schulz", "--case", "graded_no_restart_f16", "--seed", "3", "-o", path);
	expect(EXIT_PASS, "eigen", path);
	assert_string_equal(strchr(out, '\n'), first);
	expect(EXIT_PASS, "inputs", "newton_schulz", "--case", "graded_no_restart_f16", "-o", path);
	expect(EXIT_PASS, "eigen", path);
	snprintf(first, sizeof first, "%s", strchr(out, '\n'));
	expect(EXIT_PASS, "eigen", "--case", "graded_no_restart_f16");
	assert_string_equal(strchr(out, '\n'), first);
	refused("nope", "eigen", "--case", "nope");
	refused("CAPTURE", "eigen", "--case", "batch_f16", "--spectrum", "exp");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_restart_has_a_cause), cmocka_unit_test(what_follows_is_not_mentioned),
		cmocka_unit_test(an_answer_that_is_off_alone), cmocka_unit_test(recorded_batches), cmocka_unit_test(eigen_of_a_case),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
