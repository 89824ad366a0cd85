/* Traces taken from captures, recorded or emulated, and the command `etalon eigen` on them. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/eigen/eigen.h"
#include "compare/eigen/eigen_source.h"
#include "tests/program.h"

static void add(struct tensors *to, const char *name, int rank, const size_t *shape, const double *data)
{
	struct tensor *x = tensors_add(to, name, DT_F32, rank, shape);

	assert_non_null(x);
	dtype_store(DT_F32, data, x->count, x->data);
}

/* A tall x [L,S] in a batch of two, the second of interest; with traces or without. */
static void capture_make(struct capture *c, const struct trace *t, const double *x, const char *params, bool traces)
{
	size_t s = t->s, l = t->l, K1 = t->how.polynomials.n + 1;
	double *two = calloc(2 * K1 * s * l, sizeof *two);
	struct error e;

	*c = (struct capture){ 0 };
	assert_true(meta_set(&c->tensors, "etalon.op", "newton_schulz") && meta_set(&c->tensors, "etalon.params", params));
	for (size_t i = 0; i < s * l; i++) two[s * l + i % l * s + i / l] = x[i];
	add(&c->tensors, "in.x", 3, (size_t[]){ 2, l, s }, two);
	for (size_t i = 0; i < s * l; i++) two[s * l + i % l * s + i / l] = t->y[i];
	add(&c->tensors, "out.y", 3, (size_t[]){ 2, l, s }, two);
	if (traces) {
		memcpy(two + K1 * s * l, t->X, K1 * s * l * sizeof *two);
		add(&c->tensors, "out.X", 4, (size_t[]){ 2, K1, s, l }, two);
		memcpy(two + K1 * s * s, t->R, K1 * s * s * sizeof *two);
		add(&c->tensors, "out.R", 4, (size_t[]){ 2, K1, s, s }, two);
		memcpy(two + K1 * s * s, t->Q, K1 * s * s * sizeof *two);
		add(&c->tensors, "out.Q", 4, (size_t[]){ 2, K1, s, s }, two);
	}
	assert_true(capture_bind(c, &e));
	free(two);
}

#define LIST "[[1.875,-1.25,0.375],[2,-1.5,0.5],[1.5,-0.5,0]]"
#define PARAMS(more) "{\"algorithm\": \"gram\", \"coefficients\": " LIST ", \"iterate_dtype\": \"F16\"" more "}"

static void traces_of_captures(void **state)
{
	enum { S = 6, L = 10 };
	struct iteration how = { .algorithm = NS_GRAM, .iterate = FMT_F16, .restarts = 4, .eps = 1e-7, .polynomials = { .n = 3, .at = {
		{ 1.875, -1.25, 0.375 }, { 2, -1.5, 0.5 }, { 1.5, -0.5, 0 } } } };
	double x[S * L], *y;
	struct trace t, found;
	struct capture c;
	struct error e;

	(void)state;
	assert_true(spectrum_draw(x, S, L, "linear", 0, 4, &e));
	for (size_t i = 0; i < S * L; i++) x[i] = (double)(float)x[i];
	assert_true(trace_emulate(&t, &how, x, S, L, &e));
	for (int traces = 0; traces < 2; traces++) {
		capture_make(&c, &t, x, PARAMS(), traces);
		if (!trace_of(&found, &y, &c, 1, &e)) fail_msg("%s: %s", e.item, e.detail);
		assert_true(found.recorded == traces && found.s == S && found.l == L && found.how.restarts == 4);
		assert_memory_equal(found.X, t.X, 4 * S * L * sizeof(double));
		assert_memory_equal(found.R, t.R, 4 * S * S * sizeof(double));
		assert_memory_equal(found.Q, t.Q, 4 * S * S * sizeof(double));
		assert_memory_equal(y, t.y, S * L * sizeof(double));
		free(y);
		trace_free(&found);
		assert_false(trace_of(&found, &y, &c, 2, &e));
		assert_int_equal(e.code, E_SHAPE);
		capture_free(&c);
	}
	trace_free(&t);
}

static void bad_captures(void **state)
{
	static const struct { const char *params; enum error_code code; } bad[] = {
		{ PARAMS(", \"restarts\": [3]"), E_PARAM }, { PARAMS(", \"restarts\": [0]"), E_PARAM },
		{ PARAMS(", \"restarts\": 2"), E_PARAM },
		{ PARAMS(", \"eps\": -1"), E_PARAM }, { "{\"algorithm\": \"gram\"}", E_PARAM }, { "{\"algorithm\": \"grams\"}", E_PARAM },
	};
	enum { S = 3, L = 4 };
	struct iteration how = { .algorithm = NS_GRAM, .iterate = FMT_F32, .eps = 1e-7, .polynomials = { .n = 3, .at = { { 2, -1, 0 }, { 2, -1, 0 },
		{ 2, -1, 0 } } } };
	double x[S * L], *y;
	struct trace t, found;
	struct capture c;
	struct eigen g;
	struct error e;

	(void)state;
	assert_true(spectrum_draw(x, S, L, "flat", 0, 4, &e) && trace_emulate(&t, &how, x, S, L, &e));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		capture_make(&c, &t, x, bad[i].params, true);
		assert_false(trace_of(&found, &y, &c, 0, &e));
		assert_int_equal(e.code, bad[i].code);
		capture_free(&c);
	}
	capture_make(&c, &t, x, PARAMS(), true);
	strcpy(tensors_find(&c.tensors, "out.R")->name, "out.S");
	assert_false(trace_of(&found, &y, &c, 0, &e));
	assert_int_equal(e.code, E_MISSING);
	capture_free(&c);
	t.X[3] = NAN;                           /* what it starts from must be finite; what comes later may not be */
	assert_false(eigen_make(&g, &t, NULL, 0.1, NULL, &e));
	assert_int_equal(e.code, E_VALUE);
	t.X[3] = 0;
	t.R[2 * S * S] = INFINITY;
	assert_true(eigen_make(&g, &t, NULL, 0.1, NULL, &e));
	assert_true(g.left == 2 && !g.step[2].finite && g.cause != FOLLOWS && isnan(g.step[2].least_r));
	eigen_free(&g);
	trace_free(&t);
}

/* ---- the commands ---- */
static const json_t *at(const json_t *j, const char *array, size_t i) { return json_array_get(json_object_get(j, array), i); }
static double number(const json_t *j, const char *name)
{
	const json_t *x = json_object_get(j, name);

	assert_non_null(x);
	return json_is_string(x) ? strtod(json_string_value(x), NULL) : json_number_value(x);
}

/* The lines of a CSV, its heading checked; *n is how many there are. */
static char **csv(const char *path, const char *heading, size_t *n)
{
	size_t size;
	char *text = (char *)file_bytes(path, &size), **line = calloc(size + 1, sizeof *line);

	assert_true(text && line && size && text[size - 1] == '\n');
	text[size - 1] = 0;
	*n = 0;
	for (char *l = strtok(text, "\n"); l; l = strtok(NULL, "\n")) line[(*n)++] = l;
	assert_string_equal(line[0], heading);
	return line;
}

/* JSON and CSV say the same, and say what was found. */
static void eigen_writes_its_tables(void **state)
{
	char rows[256], steps[256];
	size_t n_rows, n_steps;

	(void)state;
	snprintf(rows, sizeof rows, "%s", scratch("rows.csv"));
	snprintf(steps, sizeof steps, "%s", scratch("steps.csv"));
	expect(EXIT_PASS, "eigen", "--spectrum", "exp", "--n", "40", "--m", "24", "--decades", "6", "--coefficients", "quintic", "--algorithm",
		"gram_naive", "--iterate", "bf16", "--table", rows, "--summary", steps, "--json");
	json_t *j = json_out();
	char **row = csv(rows, "iteration,matrix,index,sigma,exact,observed,error,along", &n_rows);
	char **step = csv(steps, "iteration,min_eig_R,exact_min_eig_R,cond_Q,exact_cond_Q,max_error_X,orthogonality,drift_R,drift_Q,drift_X,skew_R",
		&n_steps);
	assert_int_equal(n_rows, 1 + 24 * (3 * 11 + 1));
	assert_int_equal(n_steps, 1 + 11);
	assert_int_equal(json_array_size(json_object_get(j, "rows")), n_rows - 1);
	for (size_t i = 1; i < n_rows; i++) {
		unsigned t, index;
		char matrix;
		double x[5];
		const json_t *r = at(j, "rows", i - 1);
		assert_int_equal(sscanf(row[i], "%u,%c,%u,%lf,%lf,%lf,%lf,%lf", &t, &matrix, &index, x, x + 1, x + 2, x + 3, x + 4), 8);
		assert_true(number(r, "iteration") == t && number(r, "index") == index && number(r, "sigma") == x[0] && number(r, "exact") == x[1]);
		assert_true(json_string_value(json_object_get(r, "matrix"))[0] == matrix && same_double(number(r, "observed"), x[2]));
	}
	for (size_t i = 1; i < n_steps; i++) {
		double t, least;
		assert_int_equal(sscanf(step[i], "%lf,%lf", &t, &least), 2);
		double found = number(at(j, "steps", i - 1), "min_eig_R");
		assert_true((isnan(found) && isnan(least)) || fabs(found - least) <= 1e-8 * fabs(found));
	}
	assert_string_equal(json_string_value(json_object_get(j, "cause")), "negative eigenvalues of R");
	assert_in_range(json_integer_value(json_object_get(j, "leaves_at")), 7, 10);
	json_decref(j);
	free(row[0]);
	free(row);
	free(step[0]);
	free(step);
}

/* An answer of other coefficients, the answer with the other sign, one that is not finite: none
 * is what the iteration gives. The right one is, in the iterate's type and in bf16. */
static void an_answer_that_is_another_fails(void **state)
{
	enum { RIGHT, IN_BF16, TOO_LARGE, NEGATIVE_OF_IT, NOT_FINITE, ANSWERS };
	static const char *const says[ANSWERS] = { [TOO_LARGE] = "its singular values are off by",
		[NEGATIVE_OF_IT] = "along the singular vectors",
		[NOT_FINITE] = "not finite" };
	enum { S = 6, L = 10 };
	struct iteration how = { .algorithm = NS_GRAM,
		.iterate = FMT_F16,
		.restarts = 4,
		.eps = 1e-7,
		.polynomials = { .n = 3,
			.at = { { 1.875, -1.25, 0.375 }, { 2, -1.5, 0.5 }, { 1.5, -0.5, 0 } } } };
	double x[S * L], y[S * L];
	struct trace t;
	struct error e;

	(void)state;
	assert_true(
		spectrum_draw(x, S, L, "linear", 0, 4, &e) && trace_emulate(&t, &how, x, S, L, &e));
	memcpy(y, t.y, sizeof y);
	for (int i = 0; i < ANSWERS; i++)
		for (int traces = 0; traces < 2; traces++) {
			struct capture c;
			for (size_t j = 0; j < S * L; j++)
				t.y[j] = i == IN_BF16
					? format_round(FMT_BF16, ROUND_NEAREST_EVEN, y[j], 0)
					: i == TOO_LARGE            ? 1.5 * y[j]
					: i == NEGATIVE_OF_IT       ? -y[j]
					: i == NOT_FINITE && j == 7 ? INFINITY
								    : y[j];
			capture_make(&c, &t, x, PARAMS(), traces);
			const char *path = scratch("answer");
			assert_true(tensors_write(&c.tensors, path, &e));
			capture_free(&c);
			expect(says[i] ? EXIT_FAIL : EXIT_PASS, "eigen", "--batch", "1", path);
			*strchr(out, '\n') = 0;
			if (!strncmp(out, "FAIL  ", 6) == !says[i]
				|| (says[i] && !strstr(out, says[i])))
				fail_msg("%d: %s", i, out);
			expect(says[i] ? EXIT_FAIL : EXIT_PASS, "eigen", "--batch", "1", "--json",
				path);
			json_t *j = json_out();
			assert_true(json_is_true(json_object_get(j, "answer_wrong"))
				== (says[i] != NULL));
			json_decref(j);
		}
	trace_free(&t);
}

static void commands_refuse_in_one_line(void **state)
{
	(void)state;
	refused("CAPTURE", "eigen");
	refused("CAPTURE", "eigen", "a", "--spectrum", "exp");
	refused("--n", "eigen", "--spectrum", "exp", "--n", "0");
	refused("nope", "eigen", "--spectrum", "nope");
	refused("nope", "eigen", "--spectrum", "exp", "--algorithm", "nope");
	refused("nope", "eigen", "--spectrum", "exp", "--coefficients", "nope");
	refused("nope", "eigen", "--spectrum", "exp", "--iterate", "nope");
	refused("--iterate", "eigen", "--spectrum", "exp", "--iterate", "e4m3");
	refused("--restarts", "eigen", "--spectrum", "exp", "--restarts", "5");
	refused("--restarts", "eigen", "--spectrum", "exp", "--restarts", "2,x");
	refused("--restarts", "eigen", "--spectrum", "exp", "--restarts", "2", "--algorithm", "standard");
	refused("--round-r0", "eigen", "--spectrum", "exp", "--round-r0", "bf16", "--algorithm", "standard");
	refused("--safety", "eigen", "--spectrum", "exp", "--safety", "0.5");
	refused("rope", "eigen", "fixtures/captures/rope.full.etalon.safetensors");
	refused("none", "eigen", scratch("none"));
	refused("COEFFICIENTS", "restarts");
	refused("restarts", "restarts", "quintic", "--restarts", "10");
	refused("--spurious", "restarts", "quintic", "--spurious", "x");
}

static void restarts_prints_all_choices(void **state)
{
	(void)state;
	expect(EXIT_PASS, "restarts", "quintic", "--restarts", "2");
	assert_int_equal(lines(out), 2 + 1 + 36 + 2);
	assert_non_null(strstr(out, "\nbest: [4,7]\n"));
	expect(EXIT_PASS, "restarts", "polar_express", "--restarts", "2", "--json");
	json_t *j = json_out();
	assert_int_equal(json_array_size(json_object_get(j, "choices")), 6);
	assert_true(json_integer_value(at(j, "best", 0)) == 1 && json_integer_value(at(j, "best", 1)) == 2);
	json_decref(j);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traces_of_captures),
		cmocka_unit_test(bad_captures),
		cmocka_unit_test(eigen_writes_its_tables),
		cmocka_unit_test(an_answer_that_is_another_fails),
		cmocka_unit_test(commands_refuse_in_one_line),
		cmocka_unit_test(restarts_prints_all_choices),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
