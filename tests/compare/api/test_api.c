/* libetalon as its callers see it: compare/api/etalon.h alone. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare/api/etalon.h"
#include "tests/helpers.h"

static etalon_call *of_case(const char *op, const char *name)
{
	struct etalon_error e;
	etalon_call *c = etalon_call_case(op, name, 3, &e);

	if (!c) fail_msg("%s: %s", e.item, e.message);
	return c;
}

static etalon_verdict *judged(const etalon_call *c, const struct etalon_how *how)
{
	struct etalon_error e;
	etalon_verdict *v = etalon_judge(c, how, &e);

	if (!v) fail_msg("%s: %s", e.item, e.message);
	return v;
}

static struct etalon_tensor found(const etalon_call *c, const char *name)
{
	struct etalon_tensor t;

	for (size_t i = 0; etalon_call_get(c, i, &t); i++)
		if (!strcmp(t.name, name)) return t;
	fail_msg("no %s", name);
	return t;
}

/* The reference in float32 passes, each fault that it is given is told by its name. */
static void faults_are_named(void **state)
{
	static const char *const fault[] = { NULL, "plain_weight_for_zero_centred" };

	(void)state;
	for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
		etalon_call *c = of_case("rmsnorm", "zero_centred_256");
		assert_true(etalon_call_answer(c, "f32", fault[i], NULL));
		etalon_verdict *v = judged(c, NULL);
		assert_int_equal(etalon_outcome(v), fault[i] ? ETALON_FAIL : ETALON_PASS);
		if (fault[i]) {
			assert_string_equal(etalon_fault(v), fault[i]);
			assert_non_null(strstr(etalon_reason(v, 0), fault[i]));
			assert_non_null(strstr(etalon_report(v, "json", NULL), "\"verdict\": \"fail\""));
		} else assert_null(etalon_fault(v));
		assert_non_null(strstr(etalon_report(v, "text", NULL), fault[i] ? "FAIL under contract" : "PASS under contract"));
		etalon_verdict_free(v);
		etalon_call_free(c);
	}
}

/* The same numbers, columns first in memory, backwards, and every second one. */
static void strides_are_followed(void **state)
{
	enum { T = 5, D = 6 };
	float dense[T][D], columns[D][T], back[T * D], sparse[T][D][2];
	const struct { const void *data; ptrdiff_t strides[2]; } way[] = {
		{ columns, { 1, T } }, { back + T * D - 1, { -D, -1 } }, { sparse, { 2 * D, 2 } }
	};

	(void)state;
	for (int t = 0; t < T; t++)
		for (int d = 0; d < D; d++) dense[t][d] = columns[d][t] = back[T * D - 1 - (t * D + d)] = sparse[t][d][0] = (float)(10 * t + d);
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		etalon_call *c = etalon_call_new("rmsnorm", NULL, NULL);
		assert_true(etalon_call_set(c, &(struct etalon_tensor){ "in.x", "F32", 2, { T, D }, way[i].strides, way[i].data }, NULL));
		assert_memory_equal(found(c, "in.x").data, dense, sizeof dense);
		etalon_call_free(c);
	}
}

static void tensors_are_replaced(void **state)
{
	float one[4] = { 1, 2, 3, 4 };
	double two[2] = { 5, 6 };
	etalon_call *c = etalon_call_new("rmsnorm", NULL, NULL);
	struct etalon_tensor t;

	(void)state;
	assert_true(etalon_call_set(c, &(struct etalon_tensor){ "in.x", "F32", 2, { 1, 4 }, NULL, one }, NULL));
	assert_true(etalon_call_set(c, &(struct etalon_tensor){ "in.weight", "F32", 1, { 4 }, NULL, one }, NULL));
	assert_true(etalon_call_set(c, &(struct etalon_tensor){ "in.x", "F64", 2, { 1, 2 }, NULL, two }, NULL));
	assert_false(etalon_call_get(c, 2, &t));
	t = found(c, "in.x");
	assert_string_equal(t.dtype, "F64");
	assert_int_equal(t.shape[1], 2);
	assert_memory_equal(t.data, two, sizeof two);
	etalon_call_free(c);
}

static void a_file_and_back(void **state)
{
	char path[] = "/tmp/etalon_api_XXXXXX";
	struct etalon_error e;
	etalon_call *c = of_case("rope", "partial_f32"), *read;

	(void)state;
	close(mkstemp(path));
	assert_true(etalon_call_answer(c, NULL, NULL, NULL));
	assert_true(etalon_call_note(c, "producer", "a test", NULL));
	assert_true(etalon_call_write(c, path, NULL));
	read = etalon_call_read(path, &e);
	assert_non_null(read);
	assert_memory_equal(found(read, "out.y").data, found(c, "out.y").data, 8);
	etalon_verdict *v = judged(read, &(struct etalon_how){ .quick = true });
	assert_int_equal(etalon_outcome(v), ETALON_PASS);
	assert_non_null(strstr(etalon_report(v, "text", NULL), "a test"));
	etalon_verdict_free(v);
	etalon_call_free(read);
	etalon_call_free(c);
	unlink(path);
}

/* The call's error, read, so that the next one is seen. */
static struct etalon_error read_error(etalon_call *c)
{
	struct etalon_error e;

	assert_true(etalon_call_error(c, &e));
	assert_false(etalon_call_error(c, &e));
	return e;
}

static void errors_say_what_was_expected(void **state)
{
	struct etalon_error e;
	float x[4] = { 0 };
	struct etalon_tensor t = { "in.x", "F33", 1, { 4 }, NULL, x };
	etalon_call *c = etalon_call_new("rmsnorm", "{\"weight_offset\": 0}", &e);

	(void)state;
	assert_null(etalon_call_new("no_such_op", NULL, &e));
	assert_string_equal(e.item, "no_such_op");
	assert_int_equal(e.code, 2);
	assert_null(etalon_call_new("rmsnorm", "{\"eps\": ", &e));
	assert_string_equal(e.item, "etalon.params");
	assert_false(etalon_call_set(c, &t, &e));
	assert_non_null(strstr(read_error(c).message, "F33"));
	t.dtype = "F32", t.data = NULL;
	assert_false(etalon_call_set(c, &t, &e));
	assert_non_null(strstr(read_error(c).message, "NULL"));
	t.data = x, t.name = "x";
	assert_false(etalon_call_set(c, &t, &e));
	assert_non_null(strstr(read_error(c).message, "in.NAME"));
	t.name = "in.x", t.rank = 9;
	assert_false(etalon_call_set(c, &t, &e));
	assert_non_null(strstr(read_error(c).message, "expected 0 to 8"));
	assert_null(etalon_judge(c, NULL, &e));         /* no tensors */
	assert_string_equal(e.item, "in.x");
	assert_false(etalon_call_note(c, "color", "red", &e));
	read_error(c);
	assert_false(etalon_call_note(c, "contract", "auto", &e));
	assert_string_equal(read_error(c).item, "etalon.contract");
	assert_null(etalon_call_case("rmsnorm", "no_such_case", 1, &e));
	assert_null(etalon_call_read("/nowhere/at/all", &e));
	assert_string_equal(e.file, "/nowhere/at/all");
	assert_null(etalon_op("/nowhere/at/all.op", &e));
	etalon_call_free(c);
}

/* Of several functions the last alone is asked: it says what went wrong first. */
static void the_first_error_stays(void **state)
{
	struct etalon_error e = { 0 };
	float x[8] = { 0 };
	etalon_call *c = etalon_call_new("rmsnorm", "{\"weight_offset\": 0}", NULL);

	(void)state;
	assert_false(etalon_call_set(c, &(struct etalon_tensor){ "in.x", "float32", 2, { 2, 4 }, NULL, x }, NULL));
	assert_false(etalon_call_set(c, &(struct etalon_tensor){ "in.weight", "F32", 1, { 4 }, NULL, x }, &e));
	assert_non_null(strstr(e.message, "float32"));
	assert_false(etalon_call_note(c, "nonsense", "x", &e));
	assert_non_null(strstr(e.message, "float32"));
	assert_false(etalon_call_answer(c, "nonsense", NULL, &e));
	assert_false(etalon_call_write(c, "/nowhere/at/all", &e));
	assert_null(etalon_judge(c, NULL, &e));
	assert_string_equal(e.item, "in.x");
	assert_non_null(strstr(e.message, "float32"));
	assert_non_null(strstr(read_error(c).message, "float32"));
	assert_true(etalon_call_set(c, &(struct etalon_tensor){ "in.x", "F32", 2, { 2, 4 }, NULL, x }, &e));
	assert_null(etalon_judge(c, NULL, &e));
	assert_string_equal(e.item, "in.weight");       /* missing: that leaves the call as it is */
	assert_false(etalon_call_error(c, &e));
	etalon_call_free(c);
}

/* A tensor that is seen in a call is set there again, whole and in part: its memory goes when it has been read. */
static void a_tensor_is_set_as_it_was_got(void **state)
{
	etalon_call *c = of_case("rmsnorm", "plain_f32");

	(void)state;
	assert_true(etalon_call_answer(c, "f32", NULL, NULL));
	for (int half = 0; half < 2; half++) {
		struct etalon_tensor y = found(c, "out.y");
		const size_t n = y.shape[1];
		double *before = malloc(y.shape[0] * n * sizeof *before);
		assert_non_null(before);
		memcpy(before, y.data, y.shape[0] * n * sizeof *before);
		y.strides = (const ptrdiff_t[]){ (ptrdiff_t)n, 1 };
		y.shape[1] = half ? n / 2 : n;
		assert_true(etalon_call_set(c, &y, NULL));
		y = found(c, "out.y");
		for (size_t r = 0; r < y.shape[0]; r++)
			assert_memory_equal((const double *)y.data + r * y.shape[1], before + r * n, y.shape[1] * sizeof *before);
		free(before);
		if (half) continue;
		etalon_verdict *v = judged(c, &(struct etalon_how){ .quick = true });
		assert_int_equal(etalon_outcome(v), ETALON_PASS);
		etalon_verdict_free(v);
	}
	etalon_call_free(c);
}

static void null_is_an_error(void **state)
{
	struct etalon_error e = { 0 };
	etalon_call *c = of_case("rmsnorm", "plain_f32");

	(void)state;
	assert_null(etalon_op(NULL, &e));
	assert_non_null(strstr(e.message, "the path is NULL"));
	assert_int_equal(e.code, 2);
	assert_null(etalon_call_new(NULL, NULL, &e));
	assert_non_null(strstr(e.message, "the op's name is NULL"));
	assert_null(etalon_call_read(NULL, &e));
	assert_null(etalon_call_case(NULL, "plain_f32", 1, &e));
	assert_null(etalon_call_case("rmsnorm", NULL, 1, &e));
	assert_non_null(strstr(e.message, "the case's name is NULL"));
	assert_false(etalon_call_set(c, NULL, &e));
	assert_non_null(strstr(read_error(c).message, "the tensor is NULL"));
	assert_false(etalon_call_note(c, NULL, "x", NULL));
	assert_non_null(strstr(read_error(c).message, "the key is NULL"));
	assert_false(etalon_call_note(c, "producer", NULL, &e));
	assert_non_null(strstr(read_error(c).message, "producer is NULL"));
	assert_false(etalon_call_get(c, 0, NULL));
	assert_true(etalon_call_answer(c, NULL, NULL, NULL));
	assert_false(etalon_call_write(c, NULL, &e));
	assert_non_null(strstr(e.message, "the path is NULL"));
	etalon_verdict *v = judged(c, &(struct etalon_how){ .quick = true });
	assert_null(etalon_report(v, NULL, &e));
	assert_non_null(strstr(e.message, "the format is NULL"));
	assert_non_null(etalon_report(v, "text", NULL));
	etalon_verdict_free(v);
	etalon_call_free(c);
}

/* What failed before fails what follows. */
static void nothing_passes_as_nothing(void **state)
{
	(void)state;
	assert_false(etalon_call_set(NULL, &(struct etalon_tensor){ 0 }, NULL));
	assert_null(etalon_judge(NULL, NULL, NULL));
	assert_int_equal(etalon_outcome(NULL), ETALON_FAIL);
	assert_null(etalon_reason(NULL, 0));
	assert_null(etalon_fault(NULL));
	assert_null(etalon_report(NULL, "text", NULL));
	assert_null(etalon_report(NULL, NULL, NULL));
	assert_null(etalon_call_params(NULL));
	assert_false(etalon_call_error(NULL, NULL));
	assert_false(etalon_call_answer(NULL, NULL, NULL, NULL));
	assert_false(etalon_call_note(NULL, NULL, NULL, NULL));
	assert_false(etalon_call_write(NULL, NULL, NULL));
	etalon_call_free(NULL);
	etalon_verdict_free(NULL);
}

/* A process that stays, a notebook's, reads files again and again. */
static void an_op_may_be_read_often(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++) assert_string_equal(etalon_op("tests/ops/gelu.op", NULL), "gelu");
	assert_string_equal(etalon_op("tests/ops/layer_norm.op", NULL), "layer_norm");
	etalon_call *c = of_case("layer_norm", "with_bias");
	etalon_call_free(c);
}

static void nan_never_passes(void **state)
{
	etalon_call *c = of_case("rmsnorm", "plain_f32");

	(void)state;
	assert_true(etalon_call_answer(c, "f32", NULL, NULL));
	struct etalon_tensor y = found(c, "out.y");
	((double *)(uintptr_t)y.data)[7] = NAN;
	etalon_verdict *v = judged(c, NULL);
	assert_int_equal(etalon_outcome(v), ETALON_FAIL);
	etalon_verdict_free(v);
	etalon_call_free(c);
}

static void *report_of(void *call)
{
	etalon_verdict *v = etalon_judge(call, NULL, NULL);
	const char *text = v ? etalon_report(v, "json", NULL) : NULL;
	char *copy = text ? strdup(text) : NULL;

	etalon_verdict_free(v);
	return copy;
}

static void threads_do_not_meet(void **state)
{
	enum { N = 4 };
	etalon_call *c[N];
	pthread_t thread[N];
	void *got[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		c[i] = of_case("rmsnorm", i % 2 ? "zero_centred_256" : "residual");
		assert_true(etalon_call_answer(c[i], "f32", NULL, NULL));
		assert_int_equal(pthread_create(&thread[i], NULL, report_of, c[i]), 0);
	}
	for (int i = 0; i < N; i++) pthread_join(thread[i], &got[i]);
	for (int i = 0; i < N; i++) {
		char *alone = report_of(c[i]);
		assert_non_null(got[i]);
		assert_string_equal(got[i], alone);
		free(alone);
		free(got[i]);
		etalon_call_free(c[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_named), cmocka_unit_test(strides_are_followed), cmocka_unit_test(tensors_are_replaced),
		cmocka_unit_test(a_file_and_back), cmocka_unit_test(errors_say_what_was_expected), cmocka_unit_test(nothing_passes_as_nothing),
		cmocka_unit_test(the_first_error_stays), cmocka_unit_test(a_tensor_is_set_as_it_was_got), cmocka_unit_test(null_is_an_error),
		cmocka_unit_test(an_op_may_be_read_often), cmocka_unit_test(nan_never_passes), cmocka_unit_test(threads_do_not_meet)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
