/* The command line: inputs and ref, of which every fault, arithmetic and site of every op is asked for. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>

#include "tests/kernel_model.h"
#include "tests/witness.h"
#include "tests/program.h"

static const char *const small[][2] = {
	{ "gated_delta_rule", "decode" }, { "rmsnorm", "gated_128" }, { "rope", "full" }, { "causal_conv1d", "short_sequences" },
	{ "newton_schulz", "batch_f16" }, { "muon_step", "wide_f32" }, { "mixed_batch", "steps_f32" },
	{ "qk_norm_rope", "plain_48" }, { "rmsnorm_fp8", "tiny_rows" }, { "gated_product", "odd_333" },
	{ "attention", "full" }, { "rmsnorm_fp8_groups", "residual" }, { "kda", "plain" }, { "gdn2", "plain" }, { "ssd", "plain" }, { "mamba3", "plain" },
	{ "mamba3_mimo", "plain" }, { "conv_ssd_norm", "plain" }, { "allreduce_norm", "plain" }, { "allreduce_norm_fp8", "tiny" },
	{ "row_parallel", "biased" }, { "sharded_delta", "two" }, { "state_transfer", "two_to_one" }
};
enum { OPS = sizeof small / sizeof *small };

/* "FOLDER/OP.safetensors", made by `etalon inputs` when it is not there. */
static const char *inputs_of(const char *op)
{
	static char path[512];

	snprintf(path, sizeof path, "%s.safetensors", scratch(op));
	for (size_t i = 0; i < OPS; i++)
		if (!strcmp(small[i][0], op) && access(path, F_OK)) expect(EXIT_PASS, "inputs", op, "--case", small[i][1], "-o", path);
	return path;
}

static void inputs_are_those_of_the_case(void **state)
{
	struct capture made, read;
	struct error e;

	(void)state;
	for (size_t i = 0; i < OPS; i++) {
		no_error(case_make(&made, op_case(op_find(small[i][0]), small[i][1]), 1, false, &e) && capture_read(&read, inputs_of(small[i][0]), &e), &e);
		assert_string_equal(read.op, small[i][0]);
		assert_int_equal(read.tensors.n, made.tensors.n);
		for (size_t k = 0; k < made.tensors.n; k++)
			assert_memory_equal(read.tensors.item[k].data, made.tensors.item[k].data, made.tensors.item[k].bytes);
		capture_free(&made);
		capture_free(&read);
	}
	const char *path = scratch("seed");
	expect(EXIT_PASS, "inputs", "rope", "--case", "full", "-o", path, "--seed", "2", "--json");
	json_t *j = json_out();
	assert_string_equal(text_of(j, "file"), path);
	assert_int_equal(json_integer_value(json_object_get(j, "seed")), 2);
	json_decref(j);
	expect(EXIT_FAIL, "diff", path, inputs_of("rope"));
	size_t files = scratch_count();
	refused("nope", "inputs", "rope", "--case", "nope", "-o", scratch("x"));
	refused("nope", "inputs", "nope", "--case", "full", "-o", scratch("x"));
	refused("absent", "inputs", "rope", "--case", "full", "-o", scratch("absent/x"));
	assert_int_equal(scratch_count(), files);
}

/* Every fault that is listed can be made, and every answer is a capture. */
static void ref_makes_every_fault(void **state)
{
	json_t *all = listed("faults"), *one;
	size_t i, differ = 0;

	(void)state;
	for (i = 0; i < OPS; i++) {
		const char *in = inputs_of(small[i][0]);
		char right[512];
		snprintf(right, sizeof right, "%s.right", in);
		expect(EXIT_PASS, "ref", in, "-o", right, "--arith", "f64");
	}
	json_array_foreach(all, i, one) {
		const char *in = inputs_of(text_of(one, "op")), *wrong = scratch("wrong");
		char right[512];
		snprintf(right, sizeof right, "%s.right", in);
		expect(EXIT_PASS, "ref", in, "-o", wrong, "--arith", "f64", "--fault", text_of(one, "fault"));
		assert_non_null(strstr(out, text_of(one, "fault")));
		int status = run((const char *const[]){ "etalon", "diff", right, wrong, NULL });
		assert_true(status == EXIT_PASS || status == EXIT_FAIL);
		differ += status == EXIT_FAIL;
	}
	assert_true(differ >= 30);
	json_decref(all);
}

static void ref_computes_in_every_arithmetic(void **state)
{
	json_t *all = listed("arithmetics"), *one;
	size_t i;

	(void)state;
	json_array_foreach(all, i, one) {
		const char *name = text_of(one, "arithmetic");
		expect(EXIT_PASS, "ref", inputs_of("rmsnorm"), "-o", scratch("a"), "--arith", strcmp(name, "mpfr:BITS") ? name : "mpfr:64");
	}
	json_decref(all);
}

static void ref_rounds_at_every_site(void **state)
{
	json_t *all = listed("sites"), *one;
	size_t i;

	(void)state;
	json_array_foreach(all, i, one) {
		const char *in = inputs_of(text_of(one, "op")), *to = scratch("rounded");
		char round[64];
		snprintf(round, sizeof round, "%s=e4m3", text_of(one, "site"));
		expect(EXIT_PASS, "ref", in, "-o", to, "--arith", "f64", "--round", round, "--json");
		json_t *j = json_out();
		assert_non_null(strstr(text_of(j, "producer"), round));
		assert_string_equal(json_string_value(json_array_get(json_object_get(j, "round"), 0)), round);
		json_decref(j);
	}
	json_decref(all);
	/* a site of some forms: in the first of them, or the one that is asked for */
	const char *in = inputs_of("attention");
	expect(EXIT_PASS, "ref", in, "-o", scratch("a"), "--arith", "f64", "--round", "part_o=bf16");
	assert_non_null(strstr(out, "(split form)"));
	expect(EXIT_PASS, "ref", in, "-o", scratch("a"), "--arith", "f64", "--round", "part_o=bf16", "--form", "in_parts");
	assert_non_null(strstr(out, "(in_parts form)"));
	refused("part_o=bf16", "ref", in, "-o", scratch("a"), "--round", "p_normalised=bf16", "--round", "part_o=bf16");
	refused("plain", "ref", in, "-o", scratch("a"), "--round", "part_o=bf16", "--form", "plain");
	expect(EXIT_PASS, "ref", inputs_of("rmsnorm"), "-o", scratch("a"), "--arith", "f64");
	expect(EXIT_PASS, "ref", inputs_of("rmsnorm"), "-o", scratch("b"), "--arith", "f64", "--round", "xhat=bf16", "--round", "scale=f64");
	expect(EXIT_FAIL, "diff", scratch("a"), scratch("b"));
	expect(EXIT_PASS, "ref", inputs_of("rmsnorm"), "-o", scratch("b"), "--arith", "f64", "--round", "scale=f64");
	expect(EXIT_PASS, "diff", scratch("a"), scratch("b"));
}

static void ref_refuses_what_it_does_not_know(void **state)
{
	const char *to = scratch("never");

	(void)state;
	const char *in = inputs_of("rmsnorm");
	size_t files = scratch_count();
	refused("nope", "ref", in, "-o", to, "--fault", "nope");
	refused("turns_backwards", "ref", in, "-o", to, "--fault", "turns_backwards");
	refused("nope", "ref", in, "-o", to, "--arith", "nope");
	refused("mpfr:3", "ref", in, "-o", to, "--arith", "mpfr:3");
	refused("nope", "ref", in, "-o", to, "--round", "nope=bf16");
	refused("xhat=nope", "ref", in, "-o", to, "--round", "xhat=nope");
	refused("xhat", "ref", in, "-o", to, "--round", "xhat");
	refused("nope", "ref", in, "-o", to, "--form", "nope");
	refused("absent", "ref", scratch("absent"), "-o", to);
	refused("absent", "ref", in, "-o", scratch("absent/x"), "--arith", "f64");
	assert_int_equal(scratch_count(), files);
}

/* Rounded to nearest, a double's last bit is 0 every other time; a rounding on the way shows. */
static void ref_writes_the_nearest_double(void **state)
{
	struct capture c;
	struct error e;
	size_t even = 0;

	(void)state;
	expect(EXIT_PASS, "ref", inputs_of("rope"), "-o", scratch("a"));
	no_error(capture_read(&c, scratch("a"), &e), &e);
	struct tensor *y = capture_out(&c, "y");
	assert_int_equal(y->dtype, DT_F64);
	for (size_t i = 256; i < y->count; i++) even += double_bits(get(y, i)) % 2 == 0;
	assert_true(even > (y->count - 256) * 2 / 5 && even < (y->count - 256) * 3 / 5);
	capture_free(&c);
}

/* Where a decay is 0, its logarithm -inf: token by token that is a number, in chunks it is not, and is said. */
static void ref_says_what_is_no_number(void **state)
{
	struct capture c;
	struct error e;

	(void)state;
	no_error(case_make(&c, op_case(op_find("gated_delta_rule"), "decode"), 1, false, &e), &e);
	assert_non_null(capture_in(&c, "A_log"));
	put(&c, "in.A_log", 0, INFINITY);
	no_error(tensors_write(&c.tensors, scratch("inf"), &e), &e);
	capture_free(&c);
	expect(EXIT_PASS, "ref", scratch("inf"), "--form", "sequential", "-o", scratch("answer"));
	assert_null(strstr(out, "NaN"));
	expect(EXIT_PASS, "ref", scratch("inf"), "--form", "chunk", "-o", scratch("answer"));
	assert_non_null(strstr(out, " elements are NaN or infinite\n"));
	expect(EXIT_PASS, "ref", scratch("inf"), "--form", "chunk", "-o", scratch("answer"), "--json");
	assert_non_null(strstr(out, "\"not_finite\": "));
	assert_null(strstr(out, "\"not_finite\": 0,"));
	remove(scratch("inf"));
	remove(scratch("answer"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inputs_are_those_of_the_case),
		cmocka_unit_test(ref_makes_every_fault),
		cmocka_unit_test(ref_computes_in_every_arithmetic),
		cmocka_unit_test(ref_rounds_at_every_site),
		cmocka_unit_test(ref_refuses_what_it_does_not_know),
		cmocka_unit_test(ref_writes_the_nearest_double), cmocka_unit_test(ref_says_what_is_no_number),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
