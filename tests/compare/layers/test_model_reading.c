/* The reading of a whole engine, recorded with one genuine fault; suspects from logits alone; dumps that are refused. */
#include "tests/helpers.h"
#include "tests/model_bed.h"

static struct bed beds[1];

static int make_beds(void **state)
{
	struct error e;

	(void)state;
	for (int i = 0; i < 1; i++)
		if (!bed_make(&beds[i], "dense", &e)) return error_print(stderr, &e), -1;
	return 0;
}

static int free_beds(void **state)
{
	(void)state;
	for (int i = 0; i < 1; i++) bed_free(&beds[i]);
	return 0;
}

/* The one fault in gpu_bf16, made unknowingly when it was recorded: the model was converted to bf16 with its frequencies. */
static const char *const genuine = "rope.inv_freq_in_bf16";

static void names_the_genuine_fault(void **state)
{
	struct model_reading r;
	struct engine engine = { .file = &beds[0].recorded, .prefix = "gpu_bf16." };
	struct error e;

	(void)state;
	assert_true(model_read(&beds[0].model, "torch_bf16", beds[0].ids, beds[0].n, &engine, &r, &e));
	model_reading_print(stdout, &r);
	assert_int_equal(r.parts, 5);
	assert_int_equal(r.first, 3);
	assert_int_equal(r.embedding_off, 0);
	assert_true(r.understood);
	assert_int_equal(model_reading_exit(&r), EXIT_FAIL);
	for (size_t l = 0; l < r.parts; l++) {
		assert_int_equal(r.part[l].n, l == 3);
		assert_true(r.part[l].explained >= 0.97);
	}
	assert_true(r.part[3].alone < 0.6);
	assert_string_equal(r.part[3].detected[0].name, genuine);
	assert_true(r.grown[5].explained > 0.999);
	json_t *j = model_reading_json(&r);
	assert_int_equal(json_integer_value(json_object_get(j, "first_divergence")), 3);
	json_decref(j);
	model_reading_free(&r);
}

/* y is what a run by the plan ends in. */
static void is_last_of(const struct model_plan *p, size_t n, const struct values *y)
{
	const struct model *m = &beds[0].model;
	struct values *hidden;
	struct error e;

	assert_true(model_run(m, p, beds[0].ids, n, NULL, &hidden, &e));
	assert_true(y->rows == n && y->cols == m->config.hidden);
	assert_memory_equal(y->hi, hidden[m->config.layers].hi, n * y->cols * sizeof(double));
	model_hidden_free(m, hidden);
}

/* Whoever takes the emulation's run for the contract's own must not get one with a fault in it, or with other sums. */
static void keeps_only_the_runs_that_others_make(void **state)
{
	enum { TOKENS = 12 };
	static const struct { const struct arith *arith; const char *contract; enum dtype type; int layer; bool kept; } engines[] = {
		{ &arith_f64, "torch_bf16", DT_BF16, NOWHERE, true }, { &arith_f64, "torch_bf16", DT_BF16, 0, false },
		{ &arith_f32_tree, "f32", DT_F32, NOWHERE, false },
	};
	struct model_plan exact = model_plan_plain(&arith_f64, arith_f64.precision);
	int fault = op_fault(model_op(LINEAR_ATTENTION), "delta.no_error_term");

	(void)state;
	for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
		struct model_plan p = model_plan_plain(engines[i].arith, engines[i].arith->precision), emulation = exact;
		struct model_reading r;
		struct tensors dump;
		struct error e;
		assert_true(model_plan_contract(&p, engines[i].contract, NULL) && model_plan_contract(&emulation, engines[i].contract, NULL));
		if (engines[i].layer != NOWHERE) model_plan_fault(&p, LINEAR_ATTENTION, engines[i].layer, fault);
		assert_true(bed_engine(&beds[0], &p, TOKENS, engines[i].type, &dump, &e));
		struct engine x = { .file = &dump, .prefix = "" };
		assert_true(model_read(&beds[0].model, engines[i].contract, beds[0].ids, TOKENS, &x, &r, &e));
		assert_int_equal(r.first, engines[i].layer);
		is_last_of(&exact, TOKENS, &r.exact);
		assert_int_equal(r.emulation.hi != NULL, engines[i].kept);
		if (engines[i].kept) is_last_of(&emulation, TOKENS, &r.emulation);
		model_reading_free(&r);
		tensors_free(&dump);
	}
}

static void logits_alone_name_a_fault(void **state)
{
	struct model_plan p = bed_plan(&beds[0], "torch_bf16", 0, -1);
	int fault = op_fault(model_op(LINEAR_ATTENTION), "delta.no_error_term"), n;
	struct model_suspect found[3];
	struct tensors engine;
	struct error e;
	double alone;

	(void)state;
	model_plan_fault(&p, LINEAR_ATTENTION, NOWHERE, fault);
	assert_true(bed_engine(&beds[0], &p, 16, DT_F32, &engine, &e));
	n = model_suspects(&beds[0].model, "torch_bf16", beds[0].ids, 16, tensors_find(&engine, "logits"), found, 3, &alone, &e);
	assert_true(n >= 1);
	assert_int_equal(found[0].kind, LINEAR_ATTENTION);
	assert_int_equal(found[0].fault, fault);
	assert_true(alone < 0.5 && found[0].explained > 0.9);
	tensors_free(&engine);
}

static void bad_dumps_are_refused(void **state)
{
	struct model_plan p = bed_plan(&beds[0], "f32", 0, -1);
	struct tensors engine;
	struct model_reading r;
	struct error e = { 0 };

	(void)state;
	assert_true(bed_engine(&beds[0], &p, 6, DT_F32, &engine, &e));
	struct engine x = { .file = &engine, .prefix = "" };
	assert_false(model_read(&beds[0].model, "bf32", beds[0].ids, 6, &x, &r, &e));
	assert_int_equal(e.code, E_UNKNOWN_NAME);
	assert_false(model_read(&beds[0].model, "f32", beds[0].ids, 7, &x, &r, &e));
	assert_int_equal(e.code, E_DIM);
	tensors_find(&engine, "hidden.2")->name[0] = 'x';
	assert_false(model_read(&beds[0].model, "f32", beds[0].ids, 6, &x, &r, &e));
	assert_int_equal(e.code, E_MISSING);
	assert_string_equal(e.item, "hidden.2");
	assert_int_equal(error_exit(&e), EXIT_INPUT);
	tensors_free(&engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_the_genuine_fault),
		cmocka_unit_test(keeps_only_the_runs_that_others_make),
		cmocka_unit_test(logits_alone_name_a_fault),
		cmocka_unit_test(bad_dumps_are_refused),
	};

	return cmocka_run_group_tests(tests, make_beds, free_beds);
}
