/* The rules of gate and merge, called in this process: what is judged, what a baseline holds, and
 * which parts are no part of this gate. */
#include <sys/stat.h>
#include <unistd.h>

#include "compare/cli/cli.h"
#include "compare/gate/shard.h"
#include "fixtures/io/file.h"
#include "tests/kernel_model.h"

enum { MOST = 12 };

static char base[512], part[3][600];

/* Rounded as the contract that it declares; NULL: as f32, undeclared. */
static void write_call(const char *name, double wrong, const char *contract)
{
	struct capture c;
	struct error e;

	model_case(&c, "causal_conv1d", "prefill_silu", contract ? contract : "f32");
	set(capture_out(&c, "y"), 5, get(capture_out(&c, "y"), 5) + wrong);
	if (contract) assert_true(meta_set(&c.tensors, "etalon.contract", contract));
	no_error(tensors_write(&c.tensors, scratch(name), &e), &e);
	capture_free(&c);
}

/* The exit code; arguments end with NULL. */
static int called(int (*command)(int, char **), const char *const *arguments)
{
	static char text[MOST][600];
	char *argv[MOST + 1] = { NULL };
	int argc = 0;

	for (; arguments[argc]; argc++) {
		assert_true(argc < MOST);
		snprintf(text[argc], sizeof text[argc], "%s", arguments[argc]);
		argv[argc] = text[argc];
	}
	return command(argc, argv);
}

#define gate(...) \
	called(cmd_gate, (const char *const[]){ "etalon gate", "--quick", __VA_ARGS__, NULL })
#define merge(...) called(cmd_merge, (const char *const[]){ "etalon merge", __VA_ARGS__, NULL })

static int set_up(void **state)
{
	scratch_make(state);
	snprintf(base, sizeof base, "%s", scratch("base.json"));
	for (int i = 1; i <= 2; i++) snprintf(part[i], sizeof part[i], "%spart%d.json", scratch(""), i);
	assert_int_equal(mkdir(scratch("A"), 0700) | mkdir(scratch("A/B"), 0700), 0);
	write_call("A/n.safetensors", 0, NULL);
	write_call("A/B/n.safetensors", 0, NULL);
	return 0;
}

static int remove_all(void **state)
{
	static const char *const names[] = { "A/n.safetensors", "A/B/n.safetensors",
		"A/c.safetensors", "A/B", "A" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(scratch(names[i]));
	return scratch_remove(state);
}

static void folders_below_count(void **state)
{
	(void)state;
	write_call("A/B/n.safetensors", 1, NULL);
	assert_int_equal(gate(scratch("A")), EXIT_FAIL);
	assert_int_equal(gate("--flat", scratch("A")), EXIT_PASS);
	write_call("A/B/n.safetensors", 0, NULL);
	assert_int_equal(gate(scratch("A")), EXIT_PASS);
}

static void a_baseline_misses_what_is_gone(void **state)
{
	(void)state;
	assert_int_equal(gate("--baseline", base, "--update-baseline", scratch("A")), EXIT_PASS);
	assert_int_equal(gate("--baseline", base, scratch("A")), EXIT_PASS);
	assert_int_equal(gate("--baseline", base, "--flat", scratch("A")), EXIT_FAIL);
	assert_int_equal(gate("--baseline", base, "--flat", "--partial", scratch("A")), EXIT_PASS);
	remove(base);
}

/* A gate reads files of any size before it judges: a signal would take all verdicts with it. */
static void a_large_capture_may_be_cut_off(void **state)
{
	const char *large = scratch("large");
	struct error e;
	void *map;
	size_t n;

	(void)state;
	assert_int_equal(gate(scratch("none")), EXIT_INPUT);
	assert_true(text_write(large, "x", 1, &e) && truncate(large, (off_t)300 << 20) == 0);
	no_error(file_map(large, &map, &n, &e), &e);
	assert_int_equal(truncate(large, 1), 0);
	assert_int_equal(((volatile char *)map)[0], 'x');
	assert_int_equal(((volatile char *)map)[n - 1], 0);
	file_unmap(map, n);
	remove(large);
}

static void equal_names_share_no_entry(void **state)
{
	(void)state;
	assert_int_equal(
		gate("--baseline", base, "--update-baseline", "--flat", scratch("A"), scratch("A/B")),
		EXIT_INPUT);
	assert_true(access(base, F_OK) != 0);
	assert_int_equal(gate("--flat", scratch("A"), scratch("A/B")), EXIT_PASS);
}

/* A kernel may not loosen what the owner says, with a baseline or without one. */
static void the_owners_contract_outranks_the_captures(void **state)
{
	static const char *const strict[] = { "f32", "causal_conv1d=f32",
		"conv_bf16,causal_conv1d=f32", "causal_conv1d=f32,rope=bf16" };
	static const char *const loose[] = { "conv_bf16", "rope=f32",
		"f32,causal_conv1d=conv_bf16" };

	(void)state;
	write_call("A/n.safetensors", 0, "conv_bf16");
	assert_int_equal(gate(scratch("A")), EXIT_PASS);
	for (size_t i = 0; i < sizeof strict / sizeof *strict; i++)
		assert_int_equal(gate("--contract", strict[i], scratch("A")), EXIT_FAIL);
	for (size_t i = 0; i < sizeof loose / sizeof *loose; i++)
		assert_int_equal(gate("--contract", loose[i], scratch("A")), EXIT_PASS);
	write_call("A/n.safetensors", 0, NULL);
}

/* A name that nothing has would leave the captures' own word. */
static void a_contract_for_no_op_is_an_error(void **state)
{
	static const char *const wrong[] = { "rope=nope", "nope=f32", "nope", "", "f32,", "f32,f32",
		"causal_conv1d=f32,causal_conv1d=conv_bf16", "=f32", "causal_conv1d=" };

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(gate("--contract", wrong[i], scratch("A")), EXIT_INPUT);
}

static void make_parts(void)
{
	assert_int_equal(gate("--shard", "1/2", "--output", part[1], scratch("A")), EXIT_PASS);
	assert_int_equal(gate("--shard", "2/2", "--output", part[2], scratch("A")), EXIT_PASS);
	assert_int_equal(merge(part[1], part[2]), EXIT_PASS);
}

static void a_stale_part_is_refused(void **state)
{
	(void)state;
	make_parts();
	write_call("A/n.safetensors", 1, NULL);
	assert_int_equal(merge(part[1], part[2]), EXIT_INPUT);
	assert_int_equal(merge("--elsewhere", part[1], part[2]), EXIT_PASS);
	write_call("A/n.safetensors", 0, NULL);
	assert_int_equal(merge(part[1], part[2]), EXIT_PASS);
	write_call("A/c.safetensors", 0, NULL);
	assert_int_equal(merge(part[1], part[2]), EXIT_INPUT);
	remove(scratch("A/c.safetensors"));
}

static void other_options_make_other_parts(void **state)
{
	(void)state;
	make_parts();
	assert_int_equal(gate("--contract", "f32", "--shard", "2/2", "--output", part[2], scratch("A")),
		EXIT_PASS);
	assert_int_equal(merge(part[1], part[2]), EXIT_INPUT);
}

/* Half of a list judged with a baseline, half without; half of one folder's, half of another's. */
static void parts_of_other_gates_are_refused(void **state)
{
	(void)state;
	assert_int_equal(gate("--baseline", base, "--update-baseline", scratch("A")), EXIT_PASS);
	make_parts();
	assert_int_equal(gate("--baseline", base, "--shard", "2/2", "--output", part[2], scratch("A")),
		EXIT_PASS);
	assert_int_equal(merge(part[1], part[2]), EXIT_INPUT);
	assert_int_equal(merge(part[2], part[1]), EXIT_INPUT);
	assert_int_equal(gate("--baseline", base, "--shard", "1/2", "--output", part[1], scratch("A")),
		EXIT_PASS);
	assert_int_equal(merge(part[1], part[2]), EXIT_PASS);
	assert_int_equal(
		gate("--baseline", base, "--shard", "2/2", "--output", part[2], scratch("A/.")),
		EXIT_PASS);
	assert_int_equal(merge(part[1], part[2]), EXIT_INPUT);
	assert_int_equal(merge("--elsewhere", part[1], part[2]), EXIT_PASS);
	remove(base);
}

/* The part with what `change` does to it. */
static int merge_changed(void (*change)(json_t *, json_t *))
{
	json_t *j = json_load_file(part[1], 0, NULL);

	assert_non_null(j);
	change(j, json_array_get(json_object_get(j, "captures"), 0));
	assert_int_equal(json_dump_file(j, scratch("changed.json"), 0), 0);
	json_decref(j);
	return merge(scratch("changed.json"), part[2]);
}

static void no_change(json_t *j, json_t *record) { (void)j, (void)record; }
static void failed_record(json_t *j, json_t *record)
{
	(void)j, json_object_set_new(record, "verdict", json_string("fail"));
}
static void failed_exit(json_t *j, json_t *record)
{
	(void)record, json_object_set_new(j, "exit", json_integer(EXIT_FAIL));
}
static void passed_failure(json_t *j, json_t *record)
{
	(void)j;
	json_object_set_new(record, "verdict", json_string("fail"));
	json_object_set_new(record, "exit", json_integer(EXIT_FAIL));
}
static void failing_pass(json_t *j, json_t *record)
{
	json_object_set_new(record, "exit", json_integer(EXIT_FAIL));
	json_object_set_new(j, "exit", json_integer(EXIT_FAIL));
}
static void no_digest(json_t *j, json_t *record)
{
	(void)j;
	json_object_del(record, "sha256");
}
static void cut(json_t *j, json_t *record)
{
	(void)record, json_array_clear(json_object_get(j, "captures"));
}

static void what_contradicts_itself_is_refused(void **state)
{
	(void)state;
	make_parts();
	assert_int_equal(merge_changed(no_change), EXIT_PASS);
	assert_int_equal(merge_changed(failed_record), EXIT_INPUT);
	assert_int_equal(merge_changed(failed_exit), EXIT_INPUT);
	assert_int_equal(merge_changed(passed_failure), EXIT_INPUT);
	assert_int_equal(merge_changed(failing_pass), EXIT_INPUT);
	assert_int_equal(merge_changed(no_digest), EXIT_INPUT);
	assert_int_equal(merge_changed(cut), EXIT_INPUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folders_below_count),
		cmocka_unit_test(a_baseline_misses_what_is_gone),
		cmocka_unit_test(a_large_capture_may_be_cut_off),
		cmocka_unit_test(equal_names_share_no_entry),
		cmocka_unit_test(the_owners_contract_outranks_the_captures),
		cmocka_unit_test(a_contract_for_no_op_is_an_error),
		cmocka_unit_test(a_stale_part_is_refused),
		cmocka_unit_test(other_options_make_other_parts),
		cmocka_unit_test(parts_of_other_gates_are_refused),
		cmocka_unit_test(what_contradicts_itself_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, remove_all);
}
