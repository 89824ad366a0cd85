/* Calls that cross GPUs: recorded ones are judged and read, recorded and planted faults are named. */
#define _GNU_SOURCE     /* memfd_create */
#include <string.h>

#include "fixtures/io/tensor.h"
#include "ref/call/op.h"
#include "tests/program.h"

static const char *const over_ranks[] = { "allreduce_norm", "allreduce_norm_fp8", "row_parallel",
	"sharded_delta", "state_transfer" };
#define LEN(a) (sizeof(a) / sizeof *(a))

/* What the kernels' own sources round, on the way of a sum over ranks. The first ones ran on two GPUs. */
enum { ON_TWO_GPUS = 7 };
static const struct { const char *capture, *rounds; } readings[] = {
	{ "allreduce_norm.two_gpus_nccl", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm.two_gpus_one_shot", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm.two_gpus_scattered", "rounds total bf16, u bf16, y bf16" },
	{ "row_parallel.two_gpus_two_shot", "rounds part bf16" },
	{ "row_parallel.two_gpus_fused", "rounds part bf16, y bf16" },
	{ "row_parallel.two_gpus_gathered", "rounds nothing" },
	{ "row_parallel.two_gpus_nccl_f32", "rounds nothing" },
	{ "allreduce_norm.nccl_bf16", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm.torch_two_shot", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm.nccl_scattered", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm.flashinfer_one_shot", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm.flashinfer_two_shot", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm.vllm_custom", "rounds total bf16, u bf16, y bf16" },
	{ "allreduce_norm_fp8.flashinfer_fp8", "rounds total bf16, u bf16, weighted bf16, y e4m3" },
	{ "allreduce_norm_fp8.given.etalon", "rounds total bf16, residual_out bf16, y e4m3" },
	{ "allreduce_norm.two_bf16.etalon", "rounds total bf16, residual_out bf16, y bf16" },
	{ "allreduce_norm.shards.etalon", "rounds total bf16, shard bf16, y bf16" },
	{ "allreduce_norm.two_f32.etalon", "rounds nothing" },
	{ "allreduce_norm.sent_bf16.etalon", "rounds part bf16, total bf16" },
	{ "allreduce_norm.sent_e4m3.etalon", "rounds part e4m3, total e4m3" },
	{ "row_parallel.torch_fused", "rounds part bf16, y bf16" },
	{ "row_parallel.sent_e4m3.etalon", "rounds part e4m3, total e4m3" },
	{ "sharded_delta.one.etalon", "rounds y bf16, delta.o bf16, norm.y bf16" },
	{ "sharded_delta.two.etalon", "rounds part bf16, y bf16, delta.o bf16, norm.y bf16" },
};

static void path_of(char *path, size_t size, const char *folder, const char *name)
{
	snprintf(path, size, "fixtures/%s/%s.safetensors", folder, name);
}

static void recorded_calls_are_read(void **state)
{
	char path[256];

	(void)state;
	for (size_t i = 0; i < LEN(readings); i++) {
		path_of(path, sizeof path, "captures", readings[i].capture);
		expect(EXIT_PASS, "check", path);
		if (!strstr(out, readings[i].rounds) || strstr(out, "has the fault"))
			fail_msg("%s: %s", path, out);
	}
}

/* Of kernels on two GPUs each output in bf16 is the emulation's to the last bit; what is float32 is float32's noise. */
static void calls_on_two_gpus_are_read_to_the_last_bit(void **state)
{
	char path[256];

	(void)state;
	for (size_t i = 0; i < ON_TWO_GPUS; i++) {
		struct capture c;
		struct error e;
		size_t outputs = 0, exact = 0;
		path_of(path, sizeof path, "captures", readings[i].capture);
		assert_true(capture_read(&c, path, &e));
		assert_string_equal(meta_get(&c.tensors, "etalon.device"), "2 NVIDIA H200");
		for (size_t t = 0; t < c.tensors.n; t++)
			outputs += !strncmp(c.tensors.item[t].name, "out.", 4)
				&& c.tensors.item[t].dtype == DT_BF16;
		capture_free(&c);
		expect(EXIT_PASS, "check", path);
		for (const char *p = out; (p = strstr(p, "100.0000 % of elements equal")); p++)
			exact++;
		assert_int_equal(exact, outputs);
		if (!outputs) assert_non_null(strstr(out, "the error is float32's noise"));
	}
}

/* A sum that travels in a narrow type is no sum of float32. */
static void narrow_sums_are_told(void **state)
{
	static const struct { const char *capture, *reason; } wrong[] = {
		{ "allreduce_norm.sent_bf16.etalon",
			"rounds total to bf16, which the contract does not allow" },
		{ "allreduce_norm.sent_e4m3.etalon",
			"rounds total to e4m3, which the contract does not allow" },
		{ "row_parallel.sent_e4m3.etalon",
			"rounds total to e4m3, which the contract does not allow" },
	};
	char path[256];

	(void)state;
	for (size_t i = 0; i < LEN(wrong); i++) {
		path_of(path, sizeof path, "captures", wrong[i].capture);
		expect(EXIT_FAIL, "check", "--contract", "f32", path);
		if (!strstr(out, wrong[i].reason)) fail_msg("%s: %s", path, out);
	}
}

/* Faults that public kernels had, made anew and recorded on a GPU. */
static void recorded_faults_are_named(void **state)
{
	static const struct { const char *capture, *fault; } recorded[] = {
		{ "allreduce_norm.two_gpus_norm_per_shard", "norm_per_shard" },
		{ "allreduce_norm.two_gpus_residual_on_each_rank", "residual_on_each_rank" },
		{ "allreduce_norm.norm_per_shard", "norm_per_shard" },
		{ "allreduce_norm.residual_on_each_rank", "residual_on_each_rank" },
		{ "allreduce_norm.weight_f32_as_bf16", "weight_f32_as_bf16" },
	};
	char path[256], said[128];

	(void)state;
	for (size_t i = 0; i < LEN(recorded); i++) {
		path_of(path, sizeof path, "readings", recorded[i].capture);
		expect(EXIT_FAIL, "check", "--contract", "eager_bf16", path);
		snprintf(said, sizeof said, "has the fault %s: ", recorded[i].fault);
		if (!strstr(out, said)) fail_msg("%s: %s", path, out);
	}
}

/* The same numbers on one rank and on two: the calls differ, and each is a correct one of float32. */
static void orders_of_a_sum_pass(void **state)
{
	static const char *const of[] = { "row_parallel", "sharded_delta" };
	char name[64], one[256], two[256];

	(void)state;
	for (size_t i = 0; i < LEN(of); i++) {
		struct tensors a, b;
		struct error e;
		snprintf(name, sizeof name, "%s.one_f32.etalon", of[i]);
		path_of(one, sizeof one, "captures", name);
		snprintf(name, sizeof name, "%s.two_f32.etalon", of[i]);
		path_of(two, sizeof two, "captures", name);
		assert_true(tensors_read(&a, one, &e));
		assert_true(tensors_read(&b, two, &e));
		assert_string_equal(
			meta_get(&a, "etalon.inputs_sha256"), meta_get(&b, "etalon.inputs_sha256"));
		const struct tensor *x = tensors_find(&a, "out.y"), *y = tensors_find(&b, "out.y");
		assert_int_equal(2 * x->bytes, y->bytes);
		assert_memory_equal(y->data, (const char *)y->data + x->bytes,
			x->bytes); /* both ranks hold the same */
		assert_memory_not_equal(x->data, y->data, x->bytes);
		expect(EXIT_PASS, "check", one, two);
		tensors_free(&a);
		tensors_free(&b);
	}
}

/* Whether the fault, planted in the reference on this capture's inputs, fails and is named; *seen: whether it changes anything. */
static bool is_named(const char *capture, const char *fault, bool *seen)
{
	char wrong[1200];

	snprintf(wrong, sizeof wrong, "%s/ranks_wrong.safetensors", beside);
	expect(EXIT_PASS, "ref", capture, "--fault", fault, "-o", wrong);
	int status =
		run((const char *const[]){ "etalon", "check", "--contract", "f32", wrong, NULL });
	*seen = status != 0;
	remove(wrong);
	return status == EXIT_FAIL && strstr(out, fault)
		&& (strstr(out, "has the fault")
			|| strstr(out, "which the contract does not allow"));
}

/* The faults that sums and memories over ranks are asked for, by hand: each is planted below. */
static void asked_for_faults_are_there(void **state)
{
	static const struct { const char *what, *op, *faults[3]; } asked[] = {
		{ "the norm of a rank's own part", "allreduce_norm", { "norm_per_shard" } },
		{ "the norm of a rank's own part", "allreduce_norm_fp8", { "norm_per_shard" } },
		{ "the residual on each rank", "allreduce_norm", { "residual_on_each_rank" } },
		{ "the residual on each rank", "allreduce_norm_fp8", { "residual_on_each_rank" } },
		{ "a contribution twice or missing", "allreduce_norm",
			{ "rank_twice", "rank_lost" } },
		{ "a contribution twice or missing", "allreduce_norm_fp8",
			{ "rank_twice", "rank_lost" } },
		{ "a contribution twice or missing", "row_parallel",
			{ "rank_twice", "rank_lost" } },
		{ "a contribution twice or missing", "sharded_delta",
			{ "rank_twice", "rank_lost" } },
		{ "heads by the wrong split", "state_transfer",
			{ "heads_dealt", "heads_dealt_from", "rank_for_rank" } },
		{ "the sum in bf16", "allreduce_norm", { "sum_in_bf16" } },
		{ "the sum in bf16", "allreduce_norm_fp8", { "sum_in_bf16" } },
		{ "the sum in bf16", "row_parallel", { "sum_in_bf16" } },
	};

	(void)state;
	for (size_t i = 0; i < LEN(asked); i++) {
		bool known = false;
		for (size_t k = 0; k < LEN(over_ranks); k++)
			known = known || !strcmp(over_ranks[k], asked[i].op);
		assert_true(known);
		for (int k = 0; k < 3 && asked[i].faults[k]; k++)
			if (op_fault(op_find(asked[i].op), asked[i].faults[k]) < 0)
				fail_msg("%s: %s", asked[i].what, asked[i].op);
	}
}

/* Each fault of each op is named on the inputs of one of its cases at least. */
static void planted_faults_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(over_ranks); i++) {
		expect(EXIT_PASS, "list", "faults", over_ranks[i], "--json");
		json_t *list = json_loads(out, 0, NULL), *fault;
		size_t k;
		assert_true(json_array_size(list) > 5);
		json_array_foreach(list, k, fault) {
			const char *name = json_string_value(json_object_get(fault, "fault"));
			const struct { const char *op, *cases[6]; } inputs[] = { { "allreduce_norm", { "tiny", "two_f32" } },
				{ "allreduce_norm_fp8", { "tiny", "rows", "given" } },
				{ "row_parallel", { "two_f32", "biased" } },
				{ "sharded_delta", { "two_f32" } },
				{ "state_transfer",
					{ "one_to_two", "two_to_one", "two_to_four" } } };
			bool named = false, seen = false;
			char capture[1200];
			for (int c = 0; inputs[i].cases[c] && !named; c++) {
				bool shows;
				snprintf(capture, sizeof capture,
					"fixtures/captures/%s.%s.etalon.safetensors", over_ranks[i],
					inputs[i].cases[c]);
				bool recorded = access(capture, R_OK) == 0;
				if (!recorded) {
					snprintf(capture, sizeof capture,
						"%s/ranks_inputs.safetensors", beside);
					expect(EXIT_PASS, "inputs", over_ranks[i], "--case",
						inputs[i].cases[c], "-o", capture);
				}
				named = is_named(capture, name, &shows);
				if (!recorded) remove(capture);
				seen = seen || shows;
			}
			if (!named)
				print_message("%s of %s: %s\n", name, over_ranks[i],
					seen ? "seen, not named" : "not seen");
			assert_true(named);
		}
		json_decref(list);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_calls_are_read),
		cmocka_unit_test(calls_on_two_gpus_are_read_to_the_last_bit),
		cmocka_unit_test(narrow_sums_are_told),
		cmocka_unit_test(recorded_faults_are_named),
		cmocka_unit_test(orders_of_a_sum_pass),
		cmocka_unit_test(asked_for_faults_are_there),
		cmocka_unit_test(planted_faults_are_named),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
