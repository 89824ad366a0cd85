/* Figures of a report are true where there is no sigma, where numbers are not finite, and where
 * ratios are huge. */
#include <math.h>
#include <stdlib.h>

#include "compare/print/print.h"
#include "compare/report/report.h"
#include "ref/formula/formula.h"
#include "tests/kernel_model.h"

/* Powers of two scale exactly, so nothing that float32 does moves y: it has no sigma. */
static const char scaled[] = "op scaled\n"
			     "in x [R, W]\n"
			     "out y [R, W]\n"
			     "each r in R\n"
			     "s = power_of_two(max(maximum(-x[r], x[r])) / 448)\n"
			     "y[r] = x[r] * s^-1\n"
			     "site s\n"
			     "site y\n"
			     "contract f32\n"
			     "case plain: R = 8, W = 64, x = bf16 normal(0, 1), y = F8_E4M3\n";

static char *report_of(const struct capture *c, struct finding *f)
{
	static struct finding found;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	finding_judge(&found, "", c, &(struct judging){ .truth = NULL });
	assert_true(to && found.judged);
	report_text(to, &found, false);
	assert_int_equal(fclose(to), 0);
	*f = found;
	return text;
}

static void expect_line(const char *text, const char *line, bool there)
{
	if (!strstr(text, line) == there)
		fail_msg("'%s' is %s\n%s", line, there ? "missing" : "there", text);
}

static void without_sigma_the_wrong_are_counted(void **state)
{
	struct finding f;
	struct capture c;

	(void)state;
	const struct op *op = formula_op(op_added_of("scaled.op", scaled));
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	struct error e;
	no_error(case_make(&c, op_case(op, "plain"), 1, true, &e) && capture_bind(&c, &e), &e);
	answer_by(&c, &p);
	char *text = report_of(&c, &f);
	assert_int_equal(f.verdict.outcome, PASS);
	expect_line(text, "are wrong", false);
	free(text);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 70; i < 100; i++) set(y, i, get(y, i) > 0 ? -200 : 200);
	text = report_of(&c, &f);
	const struct output_verdict *o = &f.verdict.out[0];
	assert_int_equal(f.verdict.outcome, FAIL);
	assert_true(o->worst.index >= 70 && o->worst.index < 100);
	assert_true(o->unscaled == o->count && o->unscaled_wrong == 30);
	expect_line(text,
		"y has 512 elements that have no sigma, as float32 is exact there; 30 are wrong",
		true);
	expect_line(text, "0 (", false);
	free(text);
	capture_free(&c);
}

static void what_is_not_finite_is_said_in_words(void **state)
{
	struct finding f;
	struct capture c;

	(void)state;
	model_case(&c, "rmsnorm", "gated_128", "f32");
	set(capture_out(&c, "y"), 5, NAN);
	char *text = report_of(&c, &f);
	expect_line(text, "worst of y: [0,5] is NaN, expected ", true);
	expect_line(text, "the first at [0,5] is NaN", true);
	expect_line(text, "nan", false);
	expect_line(text, "inf ", false);
	free(text);
	set(capture_out(&c, "y"), 5, 1e30);
	text = report_of(&c, &f);
	expect_line(text, "over a million sigma, over a million ulp", true);
	expect_line(text, "e+2", false);
	free(text);
	capture_free(&c);
}

/* One element that is off by some units in float32's last place breaks a rule, and is no noise. */
static void noise_is_within_the_rules(void **state)
{
	struct finding f;
	struct capture c;

	(void)state;
	model_case(&c, "rmsnorm", "plain_f32", "f32");
	char *text = report_of(&c, &f);
	assert_int_equal(f.verdict.outcome, PASS);
	expect_line(text, "the error is float32's noise", true);
	free(text);
	struct tensor *y = capture_out(&c, "y");
	set(y, 5, get(y, 5) * (1 + 0x1p-14));
	text = report_of(&c, &f);
	assert_int_equal(f.verdict.outcome, FAIL);
	assert_true(f.verdict.x.identified);
	expect_line(text, "the error is float32's noise", false);
	free(text);
	capture_free(&c);
}

static void a_gain_is_a_factor(void **state)
{
	struct finding f;
	struct capture c;

	(void)state;
	model_case(&c, "rope", "partial", "f32");
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count; i++) set(y, i, get(y, i) * 2);
	char *text = report_of(&c, &f);
	expect_line(text, "what is left amounts to this: y is 2.00", true);
	expect_line(text, " times what it should be", true);
	free(text);
	capture_free(&c);
}

static void ratios_in_words(void **state)
{
	static const struct {
		double x;
		const char *text;
	} rows[] = { { 49.4912, "49.49" }, { -0.5, "-0.5" }, { 286468.9, "286469" },
		{ 1e6, "1000000" }, { 1.1e6, "over a million" }, { -5e44, "over a million" },
		{ INFINITY, "infinite" }, { NAN, "NaN" } };
	char text[RATIO];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_string_equal(ratio_text(rows[i].x, 4, text), rows[i].text);
}

/* GitHub drops a summary of more than 1 MiB: what there is no room for is counted. */
static void a_summary_has_an_end(void **state)
{
	json_t *all = json_array();
	char reason[600], *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	(void)state;
	memset(reason, '<', sizeof reason - 1);
	reason[sizeof reason - 1] = 0;
	for (int i = 0; i < 4000; i++)
		json_array_append_new(all,
			json_pack("{s:s, s:s, s:i, s:[s]}", "capture", "c", "verdict", "error",
				"exit", EXIT_INPUT, "reasons", reason));
	report_markdown(to, all);
	assert_int_equal(fclose(to), 0);
	assert_true(size > 900000 && size < 1 << 20);
	assert_non_null(strstr(text, "4000 captures: 0 passed"));
	assert_non_null(strstr(text, "\nThis page has room for 4000 of 4000 captures and the reasons of 1"));
	free(text);
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_summary_has_an_end), cmocka_unit_test(without_sigma_the_wrong_are_counted),
		cmocka_unit_test(what_is_not_finite_is_said_in_words),
		cmocka_unit_test(noise_is_within_the_rules),
		cmocka_unit_test(a_gain_is_a_factor),
		cmocka_unit_test(ratios_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
