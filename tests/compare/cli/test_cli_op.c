/* An op of one's own on the command line: what its user is told, and that the commands which are printed run. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>

#include "ref/formula/formula.h"
#include "tests/kernel_model.h"
#include "tests/program.h"

/* A row's softmax. */
static const char softmax[] =
	"op rows  # e^x / sum e^x\nin x [R, D]  label [R] integer\nout p [R, D]  s [R]\nparam heat = 1\nwhere heat > 0\neach r in R\n"
	"z = x[r] / heat\ne = exp(z - max(z))\nt = e / sum(e)\np[r] = t\ns[r] = element(t, 0) + x[r, label[r] - 1]\n"
	"fault heat_left_out: z = x[r]\nfault no_maximum: e = exp(z)\ncontract f32\ncontract low: e bf16, t bf16\n"
	"case warm: R = 6, D = 50, heat = 2, label = [1, 50, 3]\ncase tepid as warm: heat = 1\ncase beyond as warm: label = [1, 2, 51]     # the last label\n";

/* A path that a shell must not take apart */
static char op[512];
static const struct formula *formula;

static int begin(void **state)
{
	struct error e;

	if (scratch_make(state)) return -1;
	snprintf(op, sizeof op, "%s", scratch_text("it's mine.op", softmax));
	if ((formula = formula_read(op, &e))) op_add(formula_op(formula));
	return formula ? 0 : -1;
}

/* What stands between two texts of the output; the last one of them. */
static const char *between(const char *text, const char *begin, const char *end)
{
	static char found[4096];
	const char *at = NULL;

	for (const char *p = text; (p = strstr(p, begin)); p++) at = p + strlen(begin);
	if (!at || !strstr(at, end)) fail_msg("no '%s' in %s", begin, text);
	snprintf(found, sizeof found, "%.*s", (int)(strstr(at, end) - at), at);
	return found;
}

/* The exit code of a line as it was printed, "etalon ...", in a shell. */
static int shell(const char *line)
{
	char command[sizeof program + 8192];

	snprintf(command, sizeof command, "etalon() { '%s' \"$@\"; }\n(%s) >/dev/null 2>&1", program, line);
	int status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void printed_commands_run(void **state)
{
	char in[512], wrong[512];

	(void)state;
	snprintf(in, sizeof in, "%s", scratch("in"));
	snprintf(wrong, sizeof wrong, "%s", scratch("wrong"));
	expect(EXIT_PASS, "inputs", "--op", op, "--case", "warm", "-o", in);
	expect(EXIT_PASS, "ref", "--op", op, in, "-o", wrong, "--fault", "heat_left_out");
	expect(EXIT_FAIL, "check", "--op", op, wrong, "--truth", "f64");
	assert_int_equal(shell(between(out, "replay: ", "\n")), EXIT_FAIL);
	assert_non_null(strstr(between(out, "replay: ", "\n"), "--truth f64"));
	assert_int_equal(shell(between(out, "(`", "`")), EXIT_PASS);
	expect(EXIT_FAIL, "gate", "--op", op, wrong);
	assert_int_equal(shell(between(out, "replay: ", "\n")), EXIT_FAIL);
	expect(EXIT_FAIL, "gate", "--op", op, wrong, "--json");
	json_t *j = json_out();
	assert_int_equal(shell(text_of(json_array_get(json_object_get(j, "captures"), 0), "replay")), EXIT_FAIL);
	json_decref(j);
	refused("nope", "inputs", "--op", op, "--case", "nope", "-o", in);
	assert_int_equal(shell(between(err, "see `", "`")), EXIT_PASS);
	refused("nope", "ref", "--op", op, in, "-o", wrong, "--fault", "nope");
	assert_int_equal(shell(between(err, "see `", "`")), EXIT_PASS);
	refused("nope", "ref", "--op", op, in, "-o", wrong, "--round", "nope=bf16");
	assert_int_equal(shell(between(err, "see `", "`")), EXIT_PASS);
	refused("nope", "check", "--op", op, wrong, "--contract", "nope");
	assert_int_equal(shell(between(err, "see `", "`")), EXIT_PASS);
	refused("--op FILE", "check", wrong);
}

/* Not the formula is wrong but an element of an input: which, what it is and what it makes, and what is expected. */
static void a_label_beyond_its_axis(void **state)
{
	char in[512];

	(void)state;
	snprintf(in, sizeof in, "%s", scratch("beyond"));
	struct capture c;
	struct error e;
	no_error(case_make(&c, op_case(formula_op(formula), "warm"), 1, true, &e), &e);
	((int32_t *)capture_in(&c, "label")->data)[4] = 51;
	no_error(tensors_write(&c.tensors, in, &e), &e);
	const char *const commands[] = { "check", "ref", "profile" };
	for (size_t i = 0; i < 3; i++) {
		if (i == 1) refused("'in.label'", commands[i], "--op", op, in, "-o", scratch("x"));
		else refused("'in.label'", commands[i], "--op", op, in);
		assert_non_null(strstr(err, in));
		assert_non_null(strstr(err, "element 4 is 51, which makes 50;"));
		assert_non_null(strstr(err, "it's mine.op:11:24 expects 0 to 49, an index of D = 50 in x [R,D] = [6,50]"));
		assert_null(strstr(err, "not sound"));
	}
	capture_free(&c);
}

static void a_case_must_be_a_call_of_its_op(void **state)
{
	char text[2048], cold[512];

	(void)state;
	snprintf(text, sizeof text, "%scase cold as warm: heat = -1\n", softmax);
	snprintf(cold, sizeof cold, "%s", scratch_text("cold.op", text));
	size_t files = scratch_count();
	refused("cold.op:19:6: expected a call of the op: ", "inputs", "--op", cold, "--case", "warm", "-o", scratch("none"));
	assert_non_null(strstr(err, "cold.op:5: expected heat > 0"));
	assert_int_equal(scratch_count(), files);
}

/* Its cases are those that `record` runs; which no kernel of ours answers. */
static void its_cases_are_recorded(void **state)
{
	(void)state;
	expect(EXIT_INPUT, "record", "rows", "--op", op, "--backend", "cpu", "-o", scratch("record"));
	assert_non_null(strstr(out, "rows warm: skipped"));
	assert_non_null(strstr(err, "cpu supports none of the 3 cases"));
	refused("nope", "record", "rows", "--op", op, "--backend", "cpu", "--case", "nope", "-o", scratch("record"));
	assert_int_equal(shell(between(err, "see `", "`")), EXIT_PASS);
}

/* A line that has no comment says itself. */
static void lists_say_what_is_meant(void **state)
{
	(void)state;
	expect(EXIT_PASS, "list", "cases", "--op", op);
	assert_non_null(strstr(out, "R = 6, D = 50, heat = 2, label = [1, 50, 3]"));
	assert_non_null(strstr(out, "as warm: heat = 1"));
	assert_non_null(strstr(out, "the last label\n"));
	expect(EXIT_PASS, "list", "contracts", "--op", op);
	assert_non_null(strstr(out, "all in float32"));
	assert_non_null(strstr(out, "e bf16, t bf16"));
	expect(EXIT_PASS, "list", "ops", "--op", op, "--op", "tests/ops/gelu.op");
	assert_non_null(strstr(out, "\nrows"));
	assert_non_null(strstr(out, "\ngelu"));
	assert_null(strstr(out, "\nrmsnorm"));
	expect(EXIT_PASS, "inputs", "--help");
	assert_non_null(strstr(out, "--op FILE --case NAME -o FILE"));
}

/* A float32 kernel whose sums run the other way: its error is noise, of which nothing is explained, and never less. */
static void noise_is_no_negative_share(void **state)
{
	char in[512];
	struct capture c;
	struct error e;

	(void)state;
	snprintf(in, sizeof in, "%s", scratch("noise"));
	no_error(case_make(&c, op_case(formula_op(formula), "warm"), 1, true, &e), &e);
	const float *x = capture_in(&c, "x")->data;
	const int32_t *label = capture_in(&c, "label")->data;
	float *p = capture_out(&c, "p")->data, *s = capture_out(&c, "s")->data;
	for (int r = 0; r < 6; r++) {
		float sum = 0, most = -INFINITY;
		for (int i = 0; i < 50; i++) most = fmaxf(most, x[r * 50 + i] / 2);
		for (int i = 50; i-- > 0;) sum += p[r * 50 + i] = expf(x[r * 50 + i] / 2 - most);
		for (int i = 0; i < 50; i++) p[r * 50 + i] *= 1 / sum;
		s[r] = p[r * 50] + x[r * 50 + label[r] - 1];
	}
	no_error(tensors_write(&c.tensors, in, &e), &e);
	capture_free(&c);
	expect(EXIT_PASS, "check", "--op", op, in);
	assert_non_null(strstr(out, "the error is float32's noise"));
	assert_null(strchr(between(out, "structure form", "coverage"), '-'));
	expect(EXIT_PASS, "profile", "--op", op, in);
	assert_null(strchr(strstr(out, "error explained"), '-'));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(printed_commands_run), cmocka_unit_test(a_label_beyond_its_axis), cmocka_unit_test(a_case_must_be_a_call_of_its_op),
		cmocka_unit_test(its_cases_are_recorded), cmocka_unit_test(lists_say_what_is_meant), cmocka_unit_test(noise_is_no_negative_share)
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, begin, scratch_remove);
}
