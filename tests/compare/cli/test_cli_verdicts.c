/* The command line's verdicts: check, gate and record, and every exit code. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>
#include <sys/stat.h>

#include "tests/kernel_model.h"
#include "tests/program.h"

enum { GOOD, CHANGED, UNSURE, TRUNCATED, STALE, FILES };
static const char *const name[FILES] = { "good", "changed", "unsure", "truncated", "stale" };

static const char *file(int i)
{
	char with[64];

	snprintf(with, sizeof with, "%s.safetensors", name[i]);
	return scratch(with);
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void truncated_copy(const char *from, const char *to)
{
	size_t n;
	unsigned char *bytes = file_bytes(from, &n);

	write_bytes(to, bytes, n - 1);
	free(bytes);
}

static int set_up(void **state)
{
	struct capture c;
	struct error e;

	scratch_make(state);
	model_case(&c, "rope", "full", "f32");
	no_error(tensors_write(&c.tensors, file(GOOD), &e), &e);
	truncated_copy(file(GOOD), file(TRUNCATED));
	struct tensor *x = capture_in(&c, "x"), *y = capture_out(&c, "y");
	double right = get(y, 300), finite = get(x, 300);
	set(y, 300, 1.05 * right);
	no_error(tensors_write(&c.tensors, file(CHANGED), &e), &e);
	set(y, 300, right);
	set(x, 300, INFINITY);
	no_error(tensors_write(&c.tensors, file(UNSURE), &e), &e);
	set(x, 300, finite);
	assert_true(meta_set(&c.tensors, "etalon.producer", "etalon gpu/rope.cu") && meta_set(&c.tensors, "etalon.source_sha256", "00"));
	no_error(tensors_write(&c.tensors, file(STALE), &e), &e);
	capture_free(&c);
	return 0;
}

/* ---- check ---- */

/* The word that ends a verdict, by exit code. */
static const struct { int file, status; const char *word; } verdicts[] = {
	{ GOOD, EXIT_PASS, "pass" }, { CHANGED, EXIT_FAIL, "fail" }, { UNSURE, EXIT_UNDECIDED, "undecided" }, { TRUNCATED, EXIT_INPUT, "error" },
	{ STALE, EXIT_FAIL, "fail" }
};

static void check_has_an_exit_for_each_verdict(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
		const char *path = file(verdicts[i].file);
		expect(verdicts[i].status, "check", path);
		assert_int_equal(lines(err), verdicts[i].status == EXIT_INPUT);
		expect(verdicts[i].status, "check", "--json", path);
		json_error_t broken;
		json_t *j = json_loads(out, JSON_REJECT_DUPLICATES, &broken), *one = json_array_get(j, 0);
		assert_int_equal(json_array_size(j), 1);
		assert_string_equal(text_of(one, "verdict"), verdicts[i].word);
		assert_string_equal(text_of(one, "capture"), path);
		json_decref(j);
	}
	expect(EXIT_FAIL, "check", file(GOOD), file(CHANGED));
	assert_non_null(strstr(out, "[1,0,44]"));
	assert_non_null(strstr(out, "\n  neither the capture nor --contract names a contract, so the op's first was taken, f32"));
	expect(EXIT_FAIL, "check", "--contract", "f32", file(CHANGED));
	assert_null(strstr(out, "nor --contract names"));
	expect(EXIT_FAIL, "check", file(CHANGED), file(GOOD), file(UNSURE));
	expect(EXIT_UNDECIDED, "check", file(UNSURE), file(GOOD));
	expect(EXIT_INPUT, "check", file(CHANGED), file(TRUNCATED), file(GOOD));
	assert_non_null(strstr(out, "PASS under contract f32"));
	assert_non_null(strstr(err, "truncated.safetensors"));
	expect(EXIT_PASS, "check", "--contract", "auto", "--truth", "mpfr:256", file(GOOD));
	assert_non_null(strstr(out, "mpfr:256, checked against mpfr:128"));
	refused("nope", "check", "--contract", "nope", file(GOOD));
	refused("nope", "check", "--truth", "nope", file(GOOD));
	refused("absent", "check", scratch("absent"));
}

/* The issue's own lines, on a call recorded on an H200 from a public kernel. */
static void a_public_capture_is_judged(void **state)
{
	static const char recorded[] = "fixtures/captures/gated_delta_rule.prefill.recurrent.safetensors";
	const char *wrong = scratch("wrong");
	struct capture c;
	struct error e;

	(void)state;
	expect(EXIT_PASS, "check", recorded);
	no_error(capture_read(&c, recorded, &e), &e);
	struct tensor *o = capture_out(&c, "o");
	char at[64];
	size_t i = o->count / 2;
	while (fabs(get(o, i)) < 0.01) i++;
	snprintf(at, sizeof at, "[%zu,%zu,%zu]", i / o->shape[2] / o->shape[1], i / o->shape[2] % o->shape[1], i % o->shape[2]);
	set(o, i, 1.05 * get(o, i));
	no_error(tensors_write(&c.tensors, wrong, &e), &e);
	capture_free(&c);
	expect(EXIT_FAIL, "check", "--quick", "--truth", "f64", wrong);
	assert_non_null(strstr(out, at));
	truncated_copy(recorded, wrong);
	refused("wrong", "check", wrong);
	expect(EXIT_PASS, "ref", recorded, "--fault", "retrieve_before_decay", "--arith", "f64", "-o", wrong);
	expect(EXIT_FAIL, "check", "--quick", "--truth", "f64", wrong);
	assert_int_equal(remove(wrong), 0);
}

/* ---- gate ---- */

static void gate_takes_the_worst(void **state)
{
	char folder[512];

	(void)state;
	expect(EXIT_PASS, "gate", file(GOOD));
	expect(EXIT_FAIL, "gate", file(GOOD), file(STALE));
	assert_non_null(strstr(out, "stale"));
	expect(EXIT_FAIL, "gate", file(UNSURE), file(CHANGED));
	expect(EXIT_UNDECIDED, "gate", file(GOOD), file(UNSURE));
	snprintf(folder, sizeof folder, "%s", scratch("folder"));
	assert_int_equal(mkdir(folder, 0700), 0);
	refused("folder", "gate", folder);
	static const char *const names[] = { "1.safetensors", "2.safetensors", "3.safetensors", "4.safetensors", ".5.safetensors", "6.txt" };
	static const int what[] = { TRUNCATED, GOOD, CHANGED, UNSURE, TRUNCATED, TRUNCATED };
	char path[600];
	for (size_t i = 0; i < 6; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		assert_int_equal(link(file(what[i]), path), 0);
	}
	expect(EXIT_INPUT, "gate", folder);
	assert_non_null(strstr(out, "5 captures: 1 passed, 1 failed, 1 undecided, 2 unreadable"));
	assert_true(strstr(out, "\n1 ") && strstr(out, "\n4 ") && strstr(out, "\n1 ") < strstr(out, "\n4 "));
	expect(EXIT_INPUT, "gate", "--json", folder);
	json_t *j = json_out();
	assert_int_equal(json_array_size(json_object_get(j, "captures")), 5);
	assert_int_equal(json_integer_value(json_object_get(j, "exit")), EXIT_INPUT);
	json_decref(j);
	for (size_t i = 0; i < 6; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(folder), 0);
	refused("folder", "gate", folder);
}

static void gate_writes_reports(void **state)
{
	size_t n, files = scratch_count();

	(void)state;
	expect(EXIT_FAIL, "gate", file(GOOD), file(CHANGED), "--junit", scratch("j"), "--markdown", scratch("m"));
	char *text = (char *)file_bytes(scratch("j"), &n);
	text[n] = 0;
	assert_non_null(strstr(text, "<testsuite name=\"etalon\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\">"));
	free(text);
	text = (char *)file_bytes(scratch("m"), &n);
	text[n] = 0;
	assert_non_null(strstr(text, "2 captures: 1 passed, 1 failed"));
	free(text);
	assert_int_equal(remove(scratch("j")) + remove(scratch("m")), 0);
	expect(EXIT_INPUT, "gate", file(GOOD), "--junit", scratch("absent/j"));
	assert_true(lines(err) == 1 && strstr(err, "absent/j"));
	expect(EXIT_INPUT, "gate", file(CHANGED), "--markdown", scratch("absent/m"));
	assert_int_equal(scratch_count(), files);
}

/* ---- record ---- */

static const char *plugin(const char *which)
{
	static char spec[600];

	snprintf(spec, sizeof spec, "plugin:%s/plugin_%s.so", beside, which);
	return spec;
}

static void record_says_what_is_lacking(void **state)
{
	size_t files = scratch_count();

	(void)state;
	expect(EXIT_MACHINE, "record", "rope", "-o", scratch("records"));
	bool backend = strstr(err, error_message(E_NO_BACKEND)), device = strstr(err, error_message(E_NO_DEVICE));
	assert_true(lines(err) == 1 && !*out && backend != device);
	assert_true(device || strstr(err, "nvcc"));
	expect(EXIT_MACHINE, "record", "row_parallel", "--case", "two", "--backend", "nccl", "-o",
		scratch("records"));
	backend = strstr(err, error_message(E_NO_BACKEND)),
	device = strstr(err, error_message(E_NO_DEVICE));
	assert_true(lines(err) == 1 && !*out && backend != device);
	assert_true(device || strstr(err, "nvcc") || strstr(err, "NCCL"));
	refused("nope", "record", "nope", "-o", scratch("records"));
	refused("nope", "record", "rope", "-o", scratch("records"), "--case", "nope");
	refused("nope", "record", "rope", "-o", scratch("records"), "--backend", "nope");
	refused("absent", "record", "rope", "-o", scratch("records"), "--backend", "plugin:absent.so");
	refused("good", "record", "rope", "-o", file(GOOD), "--backend", plugin("rope"));
	assert_int_equal(scratch_count(), files);
}

/* The cases of rope, recorded by a plugin, pass; they are the files that the program names. */
static void a_plugin_is_recorded(void **state)
{
	char folder[512];
	size_t i;
	json_t *one;

	(void)state;
	snprintf(folder, sizeof folder, "%s", scratch("records"));
	expect(EXIT_PASS, "record", "rope", "-o", folder, "--backend", plugin("rope"), "--json");
	json_t *list = json_out();
	assert_true(json_array_size(list) >= 4);
	json_array_foreach(list, i, one) {
		assert_string_equal(text_of(one, "producer"), "plugin_rope");
		assert_string_equal(text_of(one, "device"), "the host");
		struct tensors written;
		assert_true(tensors_read(&written, text_of(one, "file"), NULL));
		assert_non_null(tensors_find(&written, "in.x"));        /* a stranger's need no etalon to be read */
		tensors_free(&written);
	}
	expect(EXIT_PASS, "gate", folder);
	assert_int_equal(json_array_size(list), lines(strstr(out, "capture")) - 3);
	json_array_foreach(list, i, one) assert_int_equal(unlink(text_of(one, "file")), 0);
	json_decref(list);
	assert_int_equal(rmdir(folder), 0);
	expect(EXIT_PASS, "record", "all", "-o", folder, "--backend", plugin("rope"), "--case", "interleaved");
	assert_int_equal(lines(out), 1);
	expect(EXIT_INPUT, "record", "rmsnorm", "-o", folder, "--backend", plugin("rope"));
	assert_non_null(strstr(err, "supports none"));
	assert_int_equal(unlink(scratch("records/rope.interleaved.etalon.safetensors")), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void a_faulty_plugin_leaves_nothing(void **state)
{
	static const char *const faults[][2] = {
		{ "rope", "the cat sat on the device" }, { "rmsnorm", "NaN in element 0 of" }, { "causal_conv1d", "NaN in element 22398 of 22400" },
		{ "gated_delta_rule", "returned 7" }, { "all", "" }
	};
	size_t files = scratch_count();

	(void)state;
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		expect(EXIT_MACHINE, "record", faults[i][0], "-o", scratch("records"), "--backend", plugin("faulty"));
		assert_true(lines(err) == 1 && strstr(err, faults[i][1]));
		assert_int_equal(scratch_count(), files);
	}
}

static void profiles_of_many_are_lines(void **state)
{
	const char *plain = "fixtures/captures/rmsnorm.odd_1007.etalon.safetensors";
	const char *held = "fixtures/captures/rmsnorm.residual.etalon.safetensors";

	(void)state;
	expect(EXIT_PASS, "profile", "--brief", plain, held);
	assert_int_equal(lines(out), 3);
	const char *first = strstr(out, "rmsnorm.odd_1007  "), *second = strstr(out, "rmsnorm.residual  ");
	assert_true(first && second && first < second && strstr(second, "rmsnorm_held  ") && !strstr(out, ", CUDA"));
	assert_true(strstr(first, "y bf16 1.0000") < second && strstr(second, "y bf16 1.0000"));
	expect(EXIT_INPUT, "profile", plain, held);
	expect(EXIT_INPUT, "profile", "--brief", "--json", plain);
	expect(EXIT_INPUT, "profile", "--brief", plain, "absent.safetensors");
}

/* Of gram-newton-schulz: a I is rounded to float16 before Z + a I is, of tall X as of wide. */
static void a_call_is_read_from_another(void **state)
{
	const char *one = "fixtures/captures/newton_schulz.gram_tall_small_1.safetensors", *two = "fixtures/captures/newton_schulz.gram_wide_small_2.safetensors";

	(void)state;
	expect(EXIT_PASS, "profile", "--work", "1", "--from", one, two);
	assert_non_null(strstr(err, "newton_schulz.gram_tall_small_1.safetensors: read\n"));
	assert_true(strstr(out, "+ f16(... * identity)") && strstr(out, "y                    100.0000 %         100.0000 %"));
	expect(EXIT_INPUT, "profile", "--from", "fixtures/captures/rmsnorm.odd_1007.etalon.safetensors", two);
	assert_true(lines(err) == 1 && strstr(err, "rmsnorm.odd_1007.etalon.safetensors") && strstr(err, "expected newton_schulz, as in") && !lines(out));
	expect(EXIT_INPUT, "profile", "--from", "absent.safetensors", two);
	expect(EXIT_INPUT, "profile", "--brief", "--from", one, two);
	expect(EXIT_PASS, "profile", "--work", "1", "fixtures/captures/newton_schulz.optax.safetensors");
	assert_non_null(strstr(out, "name those with --from"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profiles_of_many_are_lines),
		cmocka_unit_test(a_call_is_read_from_another),
		cmocka_unit_test(check_has_an_exit_for_each_verdict),
		cmocka_unit_test(a_public_capture_is_judged),
		cmocka_unit_test(gate_takes_the_worst),
		cmocka_unit_test(gate_writes_reports),
		cmocka_unit_test(record_says_what_is_lacking),
		cmocka_unit_test(a_plugin_is_recorded),
		cmocka_unit_test(a_faulty_plugin_leaves_nothing),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
