/* Which captures a gate judges, and its baseline: what came, went or changed is named. */
#define _GNU_SOURCE     /* memfd_create */
#include <sys/stat.h>

#include "tests/kernel_model.h"
#include "tests/program.h"

static char base[512];

/* The answer of a kernel that rounds as a contract does, off by `off` in every element. */
static void write_call_of(const char *name, double off, const char *rounds, const char *contract)
{
	struct capture c;
	struct error e;

	model_case(&c, "causal_conv1d", "prefill_silu", rounds);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count; i++) set(y, i, get(y, i) * (1 + off));
	if (contract) assert_true(meta_set(&c.tensors, "etalon.contract", contract));
	no_error(tensors_write(&c.tensors, scratch(name), &e), &e);
	capture_free(&c);
}

static void write_call(const char *name, double off, const char *contract)
{
	write_call_of(name, off, "f32", contract);
}

static void make_folder(const char *name) { assert_int_equal(mkdir(scratch(name), 0700), 0); }

static int set_up(void **state)
{
	scratch_make(state);
	snprintf(base, sizeof base, "%s", scratch("base.json"));
	make_folder("A");
	make_folder("B");
	make_folder("B/more");
	write_call("A/norm.safetensors", 0, NULL);
	write_call("B/norm.safetensors", 0, NULL);
	return 0;
}

static int remove_all(void **state)
{
	static const char *const names[] = { "A/norm.safetensors", "B/norm.safetensors",
		"B/more/deep.safetensors", "B/.hidden.safetensors", "B/LOUD.SAFETENSORS", "B/loop",
		"B/more", "A", "B" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(scratch(names[i]));
	return scratch_remove(state);
}

static size_t judged(void)
{
	json_t *j = json_out();
	size_t n = json_array_size(json_object_get(j, "captures"));

	json_decref(j);
	return n;
}

static void whatever_is_below_a_folder_is_judged(void **state)
{
	(void)state;
	write_call("B/more/deep.safetensors", 0.01, NULL);
	expect(EXIT_FAIL, "gate", "--quick", scratch("B"));
	assert_non_null(strstr(out, "\nmore/deep "));
	expect(EXIT_PASS, "gate", "--quick", "--flat", scratch("B"));
	remove(scratch("B/more/deep.safetensors"));
	write_call("B/.hidden.safetensors", 0.01, NULL);
	expect(EXIT_FAIL, "gate", "--quick", scratch("B"));
	remove(scratch("B/.hidden.safetensors"));
	write_call("B/LOUD.SAFETENSORS", 0.01, NULL);
	expect(EXIT_FAIL, "gate", "--quick", scratch("B/"));
	remove(scratch("B/LOUD.SAFETENSORS"));
	refused("--flat", "gate", "--flat", scratch(""));
	refused("in a folder below it", "gate", scratch("B/more"));
}

/* A link to a folder above it adds nothing, and ends. */
static void a_link_that_loops_ends(void **state)
{
	(void)state;
	assert_int_equal(symlink("..", scratch("B/loop")), 0);
	expect(EXIT_PASS, "gate", "--quick", "--json", scratch("A"));
	assert_int_equal(judged(), 1);
	expect(EXIT_PASS, "gate", "--quick", "--json", scratch("B"));
	assert_int_equal(judged(), 2);          /* B/norm, and A/norm through the link */
	remove(scratch("B/loop"));
}

static void the_table_says_which_is_which(void **state)
{
	char row[700];

	(void)state;
	expect(EXIT_PASS, "gate", "--quick", scratch(""));
	assert_true(strstr(out, "\nA/norm ") && strstr(out, "\nB/norm "));
	expect(EXIT_PASS, "gate", "--quick", scratch("A"), scratch("B"));
	for (int b = 0; b < 2; b++) {
		snprintf(row, sizeof row, "\n%s/norm ", scratch(b ? "B" : "A"));
		assert_non_null(strstr(out, row));
	}
}

static void one_may_be_taken_alone(void **state)
{
	(void)state;
	expect(EXIT_PASS, "gate", "--quick", "--json", "--only", "B/norm.safetensors", scratch(""));
	assert_int_equal(judged(), 1);
	refused("--only", "gate", "--only", "norm.safetensors", scratch(""));
	refused("--only", "gate", "--only", "A/norm.safetensors", "--shard", "1/2", scratch(""));
}

static void equal_names_are_refused(void **state)
{
	(void)state;
	refused("norm.safetensors", "gate", "--quick", "--baseline", base, "--update-baseline",
		scratch("A"), scratch("B"));
	assert_true(access(base, F_OK) != 0);
}

/* The figures of a whole run in a new baseline. */
static void begin(void)
{
	remove(base);
	expect(EXIT_PASS, "gate", "--quick", "--baseline", base, "--update-baseline", scratch(""));
	expect(EXIT_PASS, "gate", "--quick", "--baseline", base, scratch(""));
}

/* The line behind "replay: " of what is named; run by a shell, its exit code. */
static int replayed(void)
{
	char line[2048], *at = strstr(out, "replay: etalon ");

	assert_non_null(at);
	snprintf(line, sizeof line, "'%s' %.*s >/dev/null 2>&1", program,
		(int)strcspn(at + 15, "\n"), at + 15);
	int status = system(line);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Both keep the contract's rules; the second rounds what the first does not. */
static void a_capture_that_got_worse_fails(void **state)
{
	(void)state;
	write_call("A/norm.safetensors", 0, "conv_bf16");
	begin();
	write_call_of("A/norm.safetensors", 0, "conv_bf16", "conv_bf16");
	expect(EXIT_PASS, "gate", "--quick", scratch(""));
	expect(EXIT_FAIL, "gate", "--quick", "--baseline", base, scratch(""));
	assert_non_null(strstr(out, "worse than the baseline"));
	assert_true(strstr(out, "--baseline") && strstr(out, "--only='A/norm.safetensors'"));
	assert_int_equal(replayed(), EXIT_FAIL);
	write_call("A/norm.safetensors", 0, NULL);
}

static void a_capture_that_is_gone_fails(void **state)
{
	(void)state;
	begin();
	remove(scratch("A/norm.safetensors"));
	expect(EXIT_FAIL, "gate", "--quick", "--baseline", base, scratch(""), "--junit", scratch("j.xml"));
	assert_non_null(strstr(
		out, "A/norm.safetensors: fail\n  in the baseline, but not among the captures"));
	assert_non_null(strstr(out, "2 captures: 1 passed, 1 failed"));
	assert_int_equal(replayed(), EXIT_FAIL);
	expect(EXIT_PASS, "gate", "--quick", "--baseline", base, "--partial", scratch(""));
	/* An update keeps it and says so; only --prune drops it. */
	expect(EXIT_PASS, "gate", "--quick", "--baseline", base, "--update-baseline", scratch(""));
	assert_non_null(strstr(err, "keeps the entry of 'A/norm.safetensors'"));
	expect(EXIT_FAIL, "gate", "--quick", "--baseline", base, scratch(""));
	expect(EXIT_PASS, "gate", "--quick", "--baseline", base, "--update-baseline", "--prune",
		scratch(""));
	expect(EXIT_PASS, "gate", "--quick", "--baseline", base, scratch(""));
	write_call("A/norm.safetensors", 0, NULL);
	expect(EXIT_FAIL, "gate", "--quick", "--baseline", base, scratch(""));
	assert_non_null(strstr(out, "not in the baseline"));
}

static void parts_name_it_once(void **state)
{
	(void)state;
	begin();
	remove(scratch("A/norm.safetensors"));
	for (int i = 1; i <= 2; i++)
		expect(i == 1 ? EXIT_PASS : EXIT_FAIL, "gate", "--quick", "--baseline", base,
			"--shard", i == 1 ? "1/2" : "2/2", "--output",
			scratch(i == 1 ? "s1.json" : "s2.json"), scratch(""));
	expect(EXIT_FAIL, "merge", scratch("s1.json"), scratch("s2.json"));
	assert_non_null(strstr(out, "2 captures: 1 passed, 1 failed"));
	write_call("A/norm.safetensors", 0, NULL);
}

/* The kernel is as wrong as it was, and says that it may be. */
static void a_looser_contract_fails(void **state)
{
	(void)state;
	begin();
	write_call("A/norm.safetensors", 0, "conv_bf16");
	expect(EXIT_PASS, "gate", "--quick", scratch(""));
	expect(EXIT_FAIL, "gate", "--quick", "--baseline", base, scratch(""));
	assert_non_null(strstr(out, "judged under contract conv_bf16, in the baseline under f32"));
	write_call("A/norm.safetensors", 0, NULL);
}

static void an_old_baseline_is_refused(void **state)
{
	static const char old[] = "{\"norm.safetensors | kernel | device\": {\"contract\": "
				  "\"f32\", \"rms\": {\"y\": 1}}}";
	struct error e;

	(void)state;
	assert_true(text_write(base, old, strlen(old), &e));
	refused("version 1; to write it anew, delete it and run", "gate", "--quick", "--baseline",
		base, scratch(""));
	refused("version 1; to write it anew", "gate", "--quick", "--baseline", base,
		"--update-baseline", scratch(""));
	remove(base);
}

static void usage(void **state)
{
	(void)state;
	refused("--prune needs", "gate", "--prune", scratch(""));
	refused("whole run", "gate", "--prune", "--update-baseline", "--baseline", base,
		"--partial", scratch(""));
	refused("--update-baseline needs", "gate", "--update-baseline", scratch(""));
	refused("expected once", "gate", "--contract", "rope=f32", "--contract",
		"causal_conv1d=f32", scratch("A"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(whatever_is_below_a_folder_is_judged),
		cmocka_unit_test(a_link_that_loops_ends),
		cmocka_unit_test(the_table_says_which_is_which),
		cmocka_unit_test(one_may_be_taken_alone), cmocka_unit_test(equal_names_are_refused),
		cmocka_unit_test(a_capture_that_got_worse_fails),
		cmocka_unit_test(a_capture_that_is_gone_fails),
		cmocka_unit_test(parts_name_it_once), cmocka_unit_test(a_looser_contract_fails),
		cmocka_unit_test(an_old_baseline_is_refused), cmocka_unit_test(usage) };

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, set_up, remove_all);
}
