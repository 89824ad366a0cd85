/* The rules on either side of their limits: outputs in float64 whose every error, in sigma, is
 * chosen by the test. */
#include <math.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "compare/verdict/figures.h"
#include "tests/kernel_model.h"

/* rmsnorm's case plain_f32 with y in float64, R rows of D, under a contract whose errors are each
 * element's own. */
enum { R = 16, D = 500, N = R * D, RUNS = 64 };
static const char contract[] = "xhat_bf16";
struct bench { struct capture c; struct call call; struct answer truth; struct expected x; struct tensor *y; };

static int set_up(void **state)
{
	static struct bench b;
	struct test_case tc = *case_find("rmsnorm", "plain_f32");
	struct plan p = plan_plain(&arith_mpfr, 128);
	struct error e;

	tc.dims = (const struct case_dim[]){ { "R", R }, { "D", D }, { 0 } };
	tc.out = (const struct case_tensor[]){ { "y", "R,D", DT_F64, DRAW_NORMAL, 0, 0 }, { 0 } };
	no_error(case_make(&b.c, &tc, 1, true, &e), &e);
	b.y = capture_out(&b.c, "y");
	no_error(call_bind(&b.call, &b.c, true, &e) && ref_run(&b.call, &p, &b.truth, &e), &e);
	expect_under(&b.x, &b.call, contract, &b.truth, RUNS);
	assert_int_equal(b.x.count[0], N);
	*state = &b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	expected_free(&b->x);
	answer_free(&b->truth);
	capture_free(&b->c);
	return 0;
}

/* y becomes the truth, off by z sigma at element i. */
static void put(struct bench *b, size_t i, double z)
{
	set(b->y, i, b->truth.hi[0][i] + z * b->x.sigma[0][i]);
}

static void put_all(struct bench *b, double z)
{
	for (size_t i = 0; i < N; i++) put(b, i, z);
}

static struct verdict judged(const struct capture *c)
{
	const struct judging how = { .contract = contract, .quick = true };
	struct verdict v;
	struct error e;

	no_error(judge(c, &how, &v, &e), &e);
	assert_true(v.n_out == 1 && v.runs == RUNS);
	return v;
}

/* The rules that the verdict's reasons name, as bits. */
static unsigned broken(const struct verdict *v)
{
	unsigned rules = 0;

	for (int r = 0; r < RULE_COUNT; r++) {
		char name[32];
		snprintf(name, sizeof name, r <= RULE_EXCESS ? "; %s " : ": %s error", rule_name[r]);
		for (int i = 0; i < v->n_reason; i++)
			if (strstr(v->reason[i], name)
				|| (strstr(v->reason[i], "is a number: ")
					&& strstr(v->reason[i], rule_name[r])))
				rules |= 1u << r;
	}
	return rules;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b); }

static void expect_broken(const struct verdict *v, unsigned rules, const char *what)
{
	if (v->outcome == (rules ? FAIL : PASS) && broken(v) == rules) return;
	fail_msg("%s: %s, rules %#x, expected %#x; %s", what, outcome_name[v->outcome], broken(v), rules, v->n_reason ? v->reason[0] : "");
}

enum { WORST = 1 << RULE_WORST, EXCESS = 1 << RULE_EXCESS, P99 = 1 << RULE_P99, RMS = 1 << RULE_RMS, BIAS = 1 << RULE_BIAS };

static void the_truth_passes(void **state)
{
	struct bench *b = *state;

	put_all(b, 0);
	struct verdict v = judged(&b->c);
	expect_broken(&v, 0, "the truth");
	assert_int_equal(v.out[0].bit_equal, N);
	for (int r = 0; r < RULE_COUNT; r++) assert_true(v.out[0].rule[r].value < 1e-6 && v.out[0].rule[r].limit > 0);
	put(b, 3, 1e-3);
	v = judged(&b->c);
	assert_int_equal(v.out[0].bit_equal, N - 1);
	assert_true(v.out[0].worst.index == 3);
}

static void one_element(void **state)
{
	struct bench *b = *state;

	put_all(b, 0);
	double limit = judged(&b->c).out[0].rule[RULE_WORST].limit;
	for (int sign = -1; sign <= 1; sign += 2) {
		put(b, 3 * D + 77, 0.99 * sign * limit);
		struct verdict v = judged(&b->c);
		expect_broken(&v, 0, "below the limit");
		assert_true(near(v.out[0].rule[RULE_WORST].value, 0.99 * limit) && near(v.out[0].worst.sigma, 0.99 * sign * limit));
		put(b, 3 * D + 77, 1.01 * sign * limit);
		v = judged(&b->c);
		expect_broken(&v, WORST | EXCESS, "above the limit");
		assert_string_equal(v.out[0].worst_at, "[3,77]");
		assert_string_equal(v.out[0].beyond_at, "[3,77]");
		assert_non_null(strstr(v.reason[0], "[3,77]"));
	}
}

/* The 99th percentile of 8000 errors has 79 above it. */
static void the_99th_percentile(void **state)
{
	struct bench *b = *state;

	put_all(b, 0);
	double limit = judged(&b->c).out[0].rule[RULE_P99].limit;
	for (size_t i = 0; i < 79; i++) put(b, i * 97, i % 2 ? 1.01 * limit : -1.01 * limit);
	struct verdict v = judged(&b->c);
	expect_broken(&v, 0, "79 errors above");
	assert_true(v.out[0].rule[RULE_P99].value < 1e-6);
	put(b, 79 * 97, 1.01 * limit);
	v = judged(&b->c);
	expect_broken(&v, P99, "80 errors above");
	assert_true(near(v.out[0].rule[RULE_P99].value, 1.01 * limit));
	for (size_t i = 0; i < 80; i++) put(b, i * 97, i % 2 ? 0.99 * limit : -0.99 * limit);
	v = judged(&b->c);
	expect_broken(&v, 0, "80 errors just below");
}

static void the_mean_square(void **state)
{
	struct bench *b = *state;

	put_all(b, 0);
	double limit = judged(&b->c).out[0].rule[RULE_RMS].limit;
	for (int above = 0; above < 2; above++) {
		double z = above ? 1.01 * limit : 0.99 * limit;
		for (size_t i = 0; i < N; i++) put(b, i, i % 2 ? z : -z);
		struct verdict v = judged(&b->c);
		expect_broken(&v, above ? RMS : 0, "half up, half down");
		assert_true(near(v.out[0].rule[RULE_RMS].value, z) && v.out[0].rule[RULE_BIAS].value < 1e-6);
	}
	for (size_t i = 0; i < N; i++) put(b, i, i % 2 ? 3 : -3);
	struct verdict v = judged(&b->c);
	expect_broken(&v, RMS, "3 sigma everywhere");
}

static void the_mean(void **state)
{
	struct bench *b = *state;

	put_all(b, 0);
	double limit = judged(&b->c).out[0].rule[RULE_BIAS].limit;
	for (int above = 0; above < 2; above++)
		for (int sign = -1; sign <= 1; sign += 2) {
			double z = above ? 1.01 * limit : 0.99 * limit;
			put_all(b, sign * z);
			struct verdict v = judged(&b->c);
			expect_broken(&v, above ? BIAS : 0, "all to one side");
			assert_true(near(v.out[0].rule[RULE_BIAS].value, z));
		}
	put_all(b, 0.5);
	struct verdict v = judged(&b->c);
	expect_broken(&v, BIAS, "half a sigma up everywhere");
}

static void no_number(void **state)
{
	struct bench *b = *state;
	static const double values[] = { NAN, INFINITY, -INFINITY };

	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		for (size_t at = 0; at < N; at += N - 1) {
			put_all(b, 0);
			set(b->y, at, values[i]);
			struct verdict v = judged(&b->c);
			assert_int_equal(v.outcome, FAIL);
			assert_int_equal(v.out[0].not_finite, 1);
			assert_non_null(strstr(v.reason[0], at ? "[15,499]" : "[0,0]"));
			assert_non_null(strstr(v.reason[0], "not finite"));
			expect_broken(&v, WORST | EXCESS | RMS | BIAS, "a figure that is no number either");
			assert_true(v.out[0].worst.index == at && v.out[0].beyond.index == at);
		}
}

/* An element in float32 that is further off than noise: so much beside the output's largest number, whatever its own is, may be other algebra's,
 * whose noise is then looked at; what is twice as far off fails without. */
static void what_algebra_reaches(void **state)
{
	const double reach[] = { 0, 1e-9, 0.5, 2 };
	struct bench *b = *state;
	const struct strip s = call_strip(&b->call, 0, 1);
	double largest = 0;
	struct expected x;
	size_t at = 0;

	put_all(b, 0);
	expect_under(&x, &b->call, "f32", &b->truth, RUNS);
	for (size_t i = 0; i < N; i++) {
		double size = fabs(b->truth.hi[0][i]);
		largest = fmax(largest, size);
		if (x.upstream[0][i] > 0 && size < 0.01 && !x.nearly[0][i]) at = i;
	}
	assert_true(at && x.upstream[0][at] * 1e3 < algebra_reach * largest);
	for (size_t i = 0; i < sizeof reach / sizeof *reach; i++) {
		set(b->y, at, b->truth.hi[0][at] + reach[i] * algebra_reach * largest);
		assert_int_equal(figures_beyond(&b->call, 0, &s, &b->truth, &x), reach[i] == 0.5);
	}
	x.nearly[0][at] = 1;    /* float32 nearly holds it: what it is elsewhere says nothing */
	assert_true(figures_beyond(&b->call, 0, &s, &b->truth, &x));
	expected_free(&x);
}

/* y in float16 where the truth is far beyond it: infinity is its rounding; the largest number
 * and the other infinity are not. */
static void overflow_is_a_rounding(void **state)
{
	struct test_case tc = *case_find("rmsnorm", "plain_f32");
	const struct case_tensor in[] = { tc.in[0], { "weight", "D", DT_F32, DRAW_NORMAL, 1e6, 1 }, { 0 } };
	struct case_tensor out[] = { tc.out[0], { 0 } };
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;
	struct error e;

	(void)state;
	tc.in = in;
	tc.out = out;
	out[0].dtype = DT_F16;
	no_error(case_make(&c, &tc, 1, true, &e), &e);
	answer_by(&c, &p);
	struct tensor *y = capture_out(&c, "y");
	size_t i = 0;
	while (get(y, i) < INFINITY) i++;
	struct verdict v = judged(&c);
	expect_broken(&v, 0, "infinite as it should be");
	assert_int_equal(v.out[0].not_finite, 0);
	set(y, i, 65504);
	v = judged(&c);
	assert_int_equal(v.outcome, FAIL);
	set(y, i, -INFINITY);
	v = judged(&c);
	assert_int_equal(v.outcome, FAIL);
	assert_int_equal(v.out[0].not_finite, 1);
	capture_free(&c);
}

/* 1.4 t_64(1e-6/N), with t from a numerical integration of the density; 2.65 = t_64(0.01). One
 * degree of freedom an element leaves 1.4 to the root mean square; the mean may be off by 0.1. */
static void limits_are_what_the_document_says(void **state)
{
	static const struct { const char *name; size_t n; double worst; } cases[] = {
		{ "zero_centred_256", 24 * 256, 10.7 }, { "zero_centred_5120", 8 * 5120, 11.3 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct capture c;
		struct verdict v;
		struct error e;
		model_case(&c, "rmsnorm", cases[i].name, "f32");
		no_error(judge(&c, &(struct judging){ .truth = "f64", .quick = true }, &v, &e), &e);
		const struct rule *r = v.out[0].rule;
		assert_int_equal(v.out[0].count, cases[i].n);
		assert_true(fabs(r[RULE_WORST].limit / cases[i].worst - 1) < 0.01 && r[RULE_EXCESS].limit == r[RULE_WORST].limit);
		assert_true(r[RULE_RMS].limit > 1.4 && r[RULE_RMS].limit < 1.5);
		assert_true(r[RULE_P99].limit > 2.65 * r[RULE_RMS].limit && r[RULE_P99].limit < 2.72 * r[RULE_RMS].limit);
		assert_true(r[RULE_BIAS].limit > 0.1 && r[RULE_BIAS].limit < 0.25);
		/* Of the error of a correct kernel nearly all is the store: sigma is its standard deviation. */
		assert_true(fabs(r[RULE_RMS].value - 1) < 0.02 && fabs(r[RULE_WORST].value - sqrt(3)) < 0.02);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_truth_passes),
		cmocka_unit_test(one_element),
		cmocka_unit_test(the_99th_percentile),
		cmocka_unit_test(the_mean_square),
		cmocka_unit_test(the_mean),
		cmocka_unit_test(no_number),
		cmocka_unit_test(what_algebra_reaches),
		cmocka_unit_test(overflow_is_a_rounding),
		cmocka_unit_test(limits_are_what_the_document_says),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
