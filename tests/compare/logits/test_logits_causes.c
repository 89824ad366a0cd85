/* Faults planted in a model, and what etalon logits says of them from the command line. */
#define _GNU_SOURCE     /* memfd_create */
#include <string.h>

#include "fixtures/io/tensor.h"
#include "ref/model/model.h"
#include "tests/kernel_model.h"
#include "tests/program.h"

#define DENSE "fixtures/models/qwen3_5_dense_tiny"
enum { T = 12 };

static void add(struct tensors *t, const char *name, enum dtype type, const struct values *v)
{
	struct tensor *x = tensors_add(t, name, type, 2, (const size_t[]){ v->rows, v->cols });

	assert_non_null(x);
	dtype_store(type, v->hi, x->count, x->data);
}

/* "FILE:logits": an engine's run under the contract, stored in the type, with a fault in one layer or, NOWHERE, in all of a kind;
 * NULL: no fault. */
static const char *engine_of(const char *contract, enum dtype type, const char *name, enum layer_kind kind, int layer, const char *fault, bool with_hidden)
{
	static char place[600];
	struct model_plan p = model_plan_plain(&arith_f32, arith_f32.precision);
	struct tensors t = { 0 };
	struct values *hidden, logits;
	struct model m;
	struct error e;
	size_t ids[T];

	no_error(model_load(&m, DENSE, &e), &e);
	for (size_t i = 0; i < T; i++) ids[i] = (37 * i * i + 5) % m.config.vocabulary;
	assert_true(model_plan_contract(&p, contract, NULL));
	if (fault) model_plan_fault(&p, kind, layer, op_fault(model_op((int)kind), fault));
	no_error(model_run(&m, &p, ids, T, NULL, &hidden, &e), &e);
	no_error(model_logits(&m, &p, &hidden[m.config.layers], 0, T, &logits, &e), &e);
	for (size_t l = 0; with_hidden && l <= m.config.layers; l++) {
		char text[32];
		snprintf(text, sizeof text, "hidden.%zu", l);
		add(&t, text, type, &hidden[l]);
	}
	add(&t, "logits", type, &logits);
	struct tensor *x = tensors_add(&t, "input_ids", DT_I64, 1, (const size_t[]){ T });
	for (size_t i = 0; i < T; i++) ((int64_t *)x->data)[i] = (int64_t)ids[i];
	snprintf(place, sizeof place, "%s", scratch(name));
	no_error(tensors_write(&t, place, &e), &e);
	strcat(place, ":logits");
	values_free(&logits);
	model_hidden_free(&m, hidden);
	model_unload(&m);
	tensors_free(&t);
	return place;
}

static const char *engine(const char *name, enum layer_kind kind, int layer, const char *fault, bool with_hidden)
{
	return engine_of("torch_bf16", DT_BF16, name, kind, layer, fault, with_hidden);
}

#define LOGITS(place) "logits", "--model", DENSE, "--got", place, "--contract", "torch_bf16", "--runs", "2"

static void a_correct_engine_keeps_its_contract(void **state)
{
	const char *place = engine("right", LINEAR_ATTENTION, NOWHERE, NULL, true);

	(void)state;
	expect(EXIT_PASS, LOGITS(place), "--json");
	json_t *j = json_out(), *causes = json_object_get(j, "causes"), *layers = json_object_get(causes, "layers");
	assert_string_equal(text_of(j, "outcome"), "pass");
	assert_int_equal(json_integer_value(json_object_get(layers, "first_divergence")), -1);
	assert_true(json_is_null(json_object_get(causes, "suspects")));
	json_decref(j);
}

/* The layer, and what is wrong in it; the verdict's first reason says so. */
static void the_first_wrong_layer_is_named(void **state)
{
	const char *place = engine("wrong", LINEAR_ATTENTION, 1, "delta.retrieve_before_decay", true);
	char page[600];
	size_t n;

	(void)state;
	snprintf(page, sizeof page, "%s.html", scratch("page"));
	expect(EXIT_FAIL, LOGITS(place), "--html", page, "--progress");
	assert_non_null(strstr(err, "\nlayer 0 of 4, linear_attention: 1"));
	assert_non_null(strstr(err, "\nlayer 1 of 4, linear_attention: "));
	assert_non_null(strstr(err, "\n100 % in "));
	assert_non_null(strstr(out, "first divergence: layer 1\n"));
	assert_non_null(strstr(out, "\nFAIL under contract torch_bf16: the first that is wrong: "
		"layer 1, linear_attention, delta rule: "));
	assert_null(strstr(out, "layer 2, "));
	char *text = (char *)file_bytes(page, &n);
	assert_non_null(memmem(text, n, "Layer by layer", 14));
	assert_non_null(memmem(text, n, "<td class=\"off\">1 linear_attention</td>", 39));
	free(text);
}

/* From the logits alone, in all layers of the kind. */
static void a_fault_everywhere_is_named_from_the_logits(void **state)
{
	const char *place = engine("all", LINEAR_ATTENTION, NOWHERE, "delta.retrieve_before_decay", false);

	(void)state;
	expect(EXIT_FAIL, LOGITS(place), "--json");
	json_t *j = json_out(), *suspects = json_object_get(json_object_get(j, "causes"), "suspects");
	assert_true(json_array_size(suspects) >= 1);
	assert_string_equal(text_of(json_array_get(suspects, 0), "fault"), "delta.retrieve_before_decay");
	assert_non_null(strstr(json_string_value(json_array_get(json_object_get(j, "reasons"), 0)),
		"all layers of linear_attention, delta rule"));
	json_decref(j);
	expect(EXIT_FAIL, LOGITS(place), "--quick", "--json");
	j = json_out();
	assert_true(json_is_null(json_object_get(json_object_get(j, "causes"), "suspects")));
	json_decref(j);
}

/* An engine all in float32 with a fault that is smaller than what a bf16 engine rounds: auto names it under f32. */
static void auto_throws_no_name_away(void **state)
{
	const char *place = engine_of("f32", DT_F32, "pairs", FULL_ATTENTION, NOWHERE, "rope.interleaved_for_half", false);

	(void)state;
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", place, "--contract", "etalon_bf16", "--quick");
	expect(EXIT_FAIL, "logits", "--model", DENSE, "--got", place, "--contract", "auto");
	assert_non_null(strstr(out, "FAIL under contract f32: all layers of full_attention, rope: neighbours are paired"));
	place = engine_of("f32", DT_F32, "right_f32", FULL_ATTENTION, NOWHERE, NULL, false);
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", place, "--contract", "auto");
	assert_non_null(strstr(out, "PASS under contract f32"));
}

/* A wrong layer fails although the logits are within the noise. */
static void a_layer_fails_whatever_the_logits(void **state)
{
	const char *place = engine("small", FULL_ATTENTION, 3, "rope.inv_freq_in_bf16", true);

	(void)state;
	expect(EXIT_PASS, LOGITS(place), "--quick");
	expect(EXIT_FAIL, LOGITS(place));
	assert_non_null(strstr(out, "first divergence: layer 3\n"));
}

static void hidden_states_must_be_whole(void **state)
{
	struct tensors t = { 0 }, all = { 0 };
	struct error e;
	char path[512], place[600];

	(void)state;
	snprintf(path, sizeof path, "%s", engine("whole", LINEAR_ATTENTION, NOWHERE, NULL, true));
	*strrchr(path, ':') = 0;
	no_error(tensors_read(&all, path, &e), &e);
	for (size_t i = 0; i < all.n; i++) {
		const struct tensor *x = &all.item[i];
		if (!strcmp(x->name, "hidden.2")) continue;
		memcpy(tensors_add(&t, x->name, x->dtype, x->rank, x->shape)->data, x->data, x->bytes);
	}
	snprintf(path, sizeof path, "%s", scratch("gap"));
	no_error(tensors_write(&t, path, &e), &e);
	snprintf(place, sizeof place, "%s:logits", path);
	refused("hidden.2", LOGITS(place));
	tensors_free(&t);
	tensors_free(&all);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_correct_engine_keeps_its_contract), cmocka_unit_test(the_first_wrong_layer_is_named),
		cmocka_unit_test(a_fault_everywhere_is_named_from_the_logits), cmocka_unit_test(auto_throws_no_name_away), cmocka_unit_test(a_layer_fails_whatever_the_logits),
		cmocka_unit_test(hidden_states_must_be_whole),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
