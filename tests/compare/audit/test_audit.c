/* etalon audit: what a rule makes of faults and correct kernels that are known. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>

#include "tests/kernel_model.h"
#include "tests/program.h"

/* y = a x / sqrt(mean x^2 + eps): a fault of 2, one that only small x show, one that nothing shows. */
static const char scaled[] =
	"op scaled # rows\nin x [R, D] b [R] ?\nout y [R, D]\nparam eps = 1e-6\neach r in R\n"
	"a = 1 + eps\nm = mean(x[r]^2) + eps\nu = a x[r] * rsqrt(m)\ny[r] = u\n"
	"fault twice: y[r] = 2 u\nfault no_eps: m = mean(x[r]^2)\nfault of_b: y[r] = u * b[r] if has(b) else u\n"
	"fault off(by in 1:3): y[r] = (1 + by) u\n"
	"contract f32\ncontract rounded: u bf16\n"
	"case large: R = 4, D = 8\ncase small as large: x = f32 normal(0, 0.001)\n";

static json_t *fault_of(json_t *all, const char *name)
{
	json_t *f;
	size_t i;

	json_array_foreach(json_object_get(all, "faults"), i, f)
		if (!strcmp(text_of(f, "name"), name)) return f;
	fail_msg("no fault %s", name);
	return NULL;
}

static const char *fate(json_t *all, const char *name) { return text_of(json_array_get(json_object_get(fault_of(all, name), "rules"), 0), "fate"); }

static long long number(json_t *all, const char *key) { return json_integer_value(json_object_get(all, key)); }

static void faults_are_caught_or_pass(void **state)
{
	const char *op = scratch_text("scaled.op", scaled);

	(void)state;
	expect(EXIT_FAIL, "audit", "--op", op, "scaled:large", "--rule", "allclose:1e-4,1e-4", "--json");
	json_t *j = json_out();
	assert_string_equal(fate(j, "twice"), "caught");
	assert_string_equal(fate(j, "no_eps"), "passes");
	assert_string_equal(fate(j, "of_b"), "no effect");
	assert_string_equal(fate(j, "off(by = 1)"), "caught");
	assert_string_equal(fate(j, "off(by = 2)"), "caught");
	assert_int_equal(number(j, "faults_known"), 4);
	assert_int_equal(number(j, "faults_with_effect"), 3);
	/* What shows it, by one change, and where etalon fails it. */
	json_t *no_eps = fault_of(j, "no_eps");
	assert_string_equal(text_of(json_array_get(json_object_get(no_eps, "rules"), 0), "caught_with"), "x = F32 normal(0, 0.001)");
	assert_string_equal(text_of(no_eps, "etalon_fails_on"), "small");
	assert_string_equal(text_of(fault_of(j, "twice"), "etalon"), "fails");
	assert_true(json_is_null(json_object_get(fault_of(j, "of_b"), "etalon_fails_on")));
	/* 5 correct kernels of each contract; the coarser ones, off by 2^-9, are not within 1e-4. */
	json_t *honest = json_object_get(j, "correct_kernels");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(honest, 0), "passed"), 0)), 5);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(honest, 1), "passed"), 0)), 0);
	assert_true(json_is_false(json_object_get(json_array_get(honest, 0), "etalon_fails")));
	json_decref(j);
}

static void exit_codes(void **state)
{
	const char *op = scratch_text("scaled.op", scaled);
	char none[sizeof scaled];

	(void)state;
	/* On small x all that has an effect is caught; to the bit, correct kernels are failed too. */
	expect(EXIT_PASS, "audit", "-q", "--op", op, "scaled:small", "--rule", "allclose:1e-4,1e-4");
	assert_non_null(strstr(out, "rule 1 passes 0 of these"));
	expect(EXIT_FAIL, "audit", "-q", "--op", op, "scaled:small", "--rule", "allclose:0,0");
	assert_non_null(strstr(out, "rule 1 passes 0 of these"));
	expect(EXIT_FAIL, "audit", "-q", "--op", op, "scaled:small", "--rule", "allclose:1e-4,1e-4", "--rule", "cosine:0.9");
	assert_non_null(strstr(out, "rule 2 passes 3 of these"));
	/* Nothing to catch is nothing shown. */
	snprintf(none, sizeof none, "%.*s", (int)(strstr(scaled, "fault twice") - scaled), scaled);
	strcat(none, "fault of_b: y[r] = u * b[r] if has(b) else u\ncase large: R = 4, D = 8\n");
	expect(EXIT_UNDECIDED, "audit", "-q", "--op", scratch_text("none.op", none), "scaled:large", "--rule", "cosine:0.9");
}

static void a_capture_is_its_case(void **state)
{
	const char *path = scratch("audit.safetensors");
	struct capture c;
	char by_case[8192];

	(void)state;
	expect(EXIT_FAIL, "audit", "-q", "rmsnorm:plain_f32", "--rule", "allclose:1e-2,1e-2");
	assert_true(strlen(out) < sizeof by_case);
	strcpy(by_case, strchr(out, '\n'));
	model_case(&c, "rmsnorm", "plain_f32", "f32");
	struct error e;
	no_error(tensors_write(&c.tensors, path, &e), &e);
	capture_free(&c);
	expect(EXIT_FAIL, "audit", "-q", path, "--rule", "allclose:1e-2,1e-2");
	assert_string_equal(strchr(out, '\n'), by_case);
}

static void cases_of_a_file(void **state)
{
	const char *cases = scratch_text("more.cases", "cases rmsnorm\ndraw weight_offset = 0, weight = f32 [1]\n"
		"case unit: R = 2, D = 16, x = f32 unit(normal(0, 1)) * 3, y = f32\n");

	(void)state;
	expect(EXIT_FAIL, "audit", "-q", "rmsnorm:unit", "--cases", cases, "--rule", "allclose:1e-3,1e-3");
	assert_non_null(strstr(out, "rmsnorm:unit: R = 2, D = 16"));
	refused("unit", "audit", "-q", "rmsnorm:unit", "--rule", "allclose:1e-3,1e-3");
	refused(":1:1", "audit", "rmsnorm:unit", "--cases", scratch_text("a.cases", "cases nope\ncase x: R = 1\n"), "--rule", "ulp:1");
	refused("case", "audit", "rmsnorm:unit", "--cases", scratch_text("b.cases", "cases rmsnorm\n"), "--rule", "ulp:1");
	refused(":2:1", "audit", "rmsnorm:unit", "--cases", scratch_text("c.cases", "cases rmsnorm\nfault x: y = 1\n"), "--rule", "ulp:1");
	refused("of a draw", "audit", "rmsnorm:unit", "--cases", scratch_text("d.cases", "cases rmsnorm\ncase x: R = 1, D = 2, weight_offset = 0, x = f32 tan(normal(0, 1))\n"),
		"--rule", "ulp:1");
}

static void bad_usage(void **state)
{
	(void)state;
	refused("--rule", "audit", "rmsnorm:plain_f32");
	refused("nope", "audit", "nope:plain", "--rule", "ulp:1");
	refused("nope", "audit", "rmsnorm:nope", "--rule", "ulp:1");
	refused("allclose", "audit", "rmsnorm:plain_f32", "--rule", "allclose:1");
	refused("z", "audit", "rmsnorm:plain_f32", "--rule", "z=ulp:1");
	refused("nope", "audit", "rmsnorm:plain_f32", "--rule", "ulp:1", "--contract", "nope");
	refused("nope", "audit", "rmsnorm:plain_f32", "--rule", "ulp:1", "--reference", "nope");
	refused("none.safetensors", "audit", "none.safetensors", "--rule", "ulp:1");
}

/* unit rows, running sums down the first axis, and a multiple. */
static void draws_are_what_they_say(void **state)
{
	const char *cases = "op drawn\nin x [R, D] c [R, D]\nout y [R, D]\neach r in R\ny[r] = x[r] + c[r]\n"
		"case one: R = 3, D = 4, x = f64 unit(normal(0, 1)) * 2, c = f64 cumsum(abs(uniform(-1, 0))) * -1\n";
	const char *path = scratch("drawn.safetensors");
	struct capture c;
	struct error e;

	(void)state;
	expect(EXIT_PASS, "inputs", "--op", scratch_text("drawn.op", cases), "drawn", "--case", "one", "-o", path);
	no_error(capture_read(&c, path, &e), &e);
	struct tensor *x = capture_in(&c, "x"), *s = capture_in(&c, "c");
	for (size_t r = 0; r < 3; r++) {
		double square = 0;
		for (size_t d = 0; d < 4; d++) square += get(x, 4 * r + d) * get(x, 4 * r + d);
		assert_true(fabs(square - 4) < 1e-14);
		for (size_t d = 0; d < 4; d++) {
			double step = get(s, 4 * r + d) - (r ? get(s, 4 * (r - 1) + d) : 0);
			assert_true(step < 0 && step > -1);
		}
	}
	capture_free(&c);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_caught_or_pass),
		cmocka_unit_test(exit_codes),
		cmocka_unit_test(a_capture_is_its_case),
		cmocka_unit_test(cases_of_a_file),
		cmocka_unit_test(bad_usage),
		cmocka_unit_test(draws_are_what_they_say),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
