/* Engines as people dump them: states and logits that are not what they are taken for, files of users. Each is found, and said. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>
#include <string.h>

#include "engine_made.h"

/* ---- states of other places ---- */
static void states_of_other_places_are_said(void **state)
{
	struct made e;
	size_t kept;

	(void)state;
	begin(&e, DENSE, true);
	run_all(&e);
	memset(e.x[2].data, 0, e.x[2].bytes);
	says(&e, "zeros", true, "hidden.2 is all zeros");

	begin(&e, DENSE, true);
	run_all(&e);
	for (int l = LAYERS; l > 0; l--) memcpy(e.x[l].data, e.x[l - 1].data, e.x[l].bytes);
	says(&e, "inputs", true, "each is what goes into a layer, not what comes out of it");

	begin(&e, DENSE, true);
	run_all(&e);
	for (int in = 0; model_op((int)e.model.config.kind[3])->in[in].name; in++)
		if (!strcmp(model_op((int)e.model.config.kind[3])->in[in].name, "final_norm")) e.model.layer[3].weight[in] = NULL;
	layer(&e, 3);
	says(&e, "unnormed", true, "layer 3, full_attention, the state before the final norm");

	begin(&e, DENSE, true);
	for (size_t t = T - 1; t > 0; t--) e.ids[t] = e.ids[t - 1];
	run_all(&e);
	for (size_t t = 0; t < T; t++) kept = (37 * t * t + 5) % e.model.config.vocabulary, e.ids[t] = kept;
	says(&e, "ids", true, "the ids are shifted by one");
}

/* ---- logits of another kind, with hidden states and without ---- */
enum { SHIFTED, LOG_PROBS, TEMPERATURE, KINDS };
static void change(struct made *e, int kind)
{
	float *x = e->logits.data;
	size_t V = e->model.config.vocabulary;

	if (kind == SHIFTED) memmove(x + V, x, (T - 1) * V * sizeof *x);
	for (size_t t = 0; t < T && kind == LOG_PROBS; t++) {
		double sum = 0;
		for (size_t i = 0; i < V; i++) sum += exp((double)x[t * V + i]);
		for (size_t i = 0; i < V; i++) x[t * V + i] -= (float)log(sum);
	}
	for (size_t i = 0; i < T * V && kind == TEMPERATURE; i++) x[i] /= 0.7F;
}

static void other_logits_are_said(void **state)
{
	static const char *const what[KINDS] = { "each position has the logits of the one before", "the logits are log-probabilities",
		"a temperature of 0.7" };

	(void)state;
	for (int kind = 0; kind < KINDS; kind++)
		for (int how = 0; how < 4; how++) {
			struct made e;
			begin(&e, DENSE, how & 1);
			run_all(&e);
			change(&e, kind);
			says(&e, "logits", how & 2, what[kind]);
		}
}

/* A correct engine in float32, whose dump is bf16. */
static void a_rounded_dump_is_said(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, false);
	run_all(&e);
	for (int l = 0; l <= LAYERS; l++)
		for (size_t i = 0; i < e.x[l].count; i++) {
			double z = (double)((float *)e.x[l].data)[i];
			uint16_t half;
			dtype_store(DT_BF16, &z, 1, &half);
			dtype_load(DT_BF16, &half, 1, &z);
			((float *)e.x[l].data)[i] = (float)z;
		}
	const char *place = written(&e, "rounded", true);
	expect(EXIT_FAIL, "logits", "--model", DENSE, "--got", place, "--contract", "f32");
	assert_non_null(strstr(out, "hidden states are stored as F32, but all are bf16 numbers"));
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", place, "--contract", "auto");
}

/* ---- numbers of rows, contracts, what is printed ---- */
static void fewer_logits_are_an_error(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	run_all(&e);
	e.logits.shape[0]--;
	e.logits.count -= e.model.config.vocabulary;
	const char *place = written(&e, "fewer", false);
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16");
	assert_non_null(strstr(err, "19 rows of logits for 20 token ids; --last takes them for those of the last ids"));
	expect(EXIT_FAIL, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16", "--last");
}

static void a_contract_says_what_else_is_rounded(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, true);
	run_all(&e);
	const char *place = written(&e, "right", true);
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16,delta.q_norm=bf16,scores=f32");
	assert_non_null(strstr(out, "PASS under contract torch_bf16,delta.q_norm=bf16,scores=f32"));
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16,delta.q_nrom=bf16");
	assert_non_null(strstr(err, "delta.q_nrom"));
	assert_non_null(strstr(err, "no site of a model's layers"));
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16,delta.q_norm=bf17");
	assert_non_null(strstr(err, "bf17"));
	assert_non_null(strstr(err, "no type to round delta.q_norm to"));
	expect(EXIT_INPUT, "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf61");
	assert_non_null(strstr(err, "no contract of a model's layers"));
}

static void float32_has_no_tensor_cores(void **state)
{
	struct made e;

	(void)state;
	begin(&e, DENSE, false);
	run_all(&e);
	const char *line = judged(DENSE, written(&e, "f32", true), EXIT_PASS);
	assert_non_null(strstr(line, "PASS under contract f32"));
	assert_null(strstr(out, "mma:"));
	for (const char *at = out; (at = strstr(at, " %")); at++) {
		const char *from = at;
		while (from > out && strchr("0123456789.e+", from[-1])) from--;
		assert_true(from == out || from[-1] != '-' || from[-2] == 'e');
	}
}

/* ---- files of a user ---- */
#define ENGINES "fixtures/models/engines/"
static void a_users_files(void **state)
{
	char model[512];

	(void)state;
	snprintf(model, sizeof model, "%s", scratch("tiny16"));
	expect(EXIT_PASS, "invent", ENGINES "tiny.json", "-o", model, "-n", "16");
	expect(EXIT_FAIL, "logits", "--model", model, "--got", ENGINES "skip_layer1.safetensors:logits");
	assert_non_null(strstr(out, "layer 1, full_attention, the layer is left out"));
	assert_null(strstr(out, "w for 1 + w"));
	assert_null(strstr(out, "silu for sigmoid"));
	expect(EXIT_PASS, "logits", "--model", model, "--got", ENGINES "engine_bf16_fused.safetensors:logits", "--contract", "auto");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_of_other_places_are_said),
		cmocka_unit_test(other_logits_are_said),
		cmocka_unit_test(a_rounded_dump_is_said),
		cmocka_unit_test(fewer_logits_are_an_error),
		cmocka_unit_test(a_contract_says_what_else_is_rounded),
		cmocka_unit_test(float32_has_no_tensor_cores),
		cmocka_unit_test(a_users_files),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
