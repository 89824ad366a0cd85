/* Readings of single layers: of recorded engines, which make one genuine fault, and of our own, with faults planted. */
#include "compare/layers/layer_private.h"
#include "tests/helpers.h"
#include "tests/model_bed.h"

static struct bed beds[2];
enum { FEW = 16 };                      /* tokens, where all are not needed */

static int make_beds(void **state)
{
	struct error e;

	(void)state;
	for (int i = 0; i < 2; i++)
		if (!bed_make(&beds[i], i ? "moe" : "dense", &e)) return error_print(stderr, &e), -1;
	return 0;
}

static int free_beds(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) bed_free(&beds[i]);
	return 0;
}

/* The one fault in gpu_bf16, made unknowingly when it was recorded: the model was converted to bf16 with its frequencies. */
static const char *const genuine = "rope.inv_freq_in_bf16";

static void names_it_in_the_mixture_too(void **state)
{
	struct tensors engine = { 0 };
	struct layer_reading r;
	struct error e;
	char name[32], to[32];

	(void)state;
	for (int l = 0; l < 5; l++) {
		snprintf(name, sizeof name, "gpu_bf16.hidden.%d", l);
		snprintf(to, sizeof to, "hidden.%d", l);
		const struct tensor *t = tensors_find(&beds[1].recorded, name);
		memcpy(tensors_add(&engine, to, t->dtype, t->rank, t->shape)->data, t->data, t->bytes);
	}
	assert_int_equal(bed_first(&beds[1], "torch_bf16", &engine, &r, &e), 3);
	assert_int_equal(r.n, 1);
	assert_string_equal(r.detected[0].name, genuine);
	assert_true(r.understood);
	assert_true(r.explained >= 0.97);
	tensors_free(&engine);
}

/* torch's default attention on a CPU (docs/your-engine.md): its contract explains most of it, and the rest is a cubic for e^x. */
static void names_what_default_attention_does(void **state)
{
	static const struct { const char *contract; double alone; bool named; } rows[] = { { "torch_bf16", 0.5, false }, { "torch_sdpa_bf16",
		0.7, true } };
	struct tensors file;
	struct error e;

	(void)state;
	assert_true(tensors_read(&file, "fixtures/models/qwen3_5_dense_tiny/torch_sdpa_cpu.safetensors", &e));
	for (int i = 0; i < 2; i++) {
		struct layer_reading r;
		struct call call;
		assert_true(model_layer_call(&beds[0].model, 3, tensors_find(&file, "hidden.3"), NULL, NULL, tensors_find(&file, "hidden.4"),
			&call, &e));
		assert_true(layer_read(&call, &call.op->contracts[op_contract(call.op, rows[i].contract)], NULL, &r, &e));
		assert_true(r.within && (rows[i].named ? r.alone > rows[i].alone : r.alone < rows[i].alone));
		assert_int_equal(r.kept, !rows[i].named);
		assert_int_equal(r.read, rows[i].named);
		if (!rows[i].named) continue;
		assert_int_equal(r.n, 1);
		assert_string_equal(r.detected[0].name, "attention.exp_by_cubic");
		assert_true(r.explained > 0.97);
	}
	tensors_free(&file);
}

/* On the first tokens: they know nothing of the others. */
static void float32_keeps_its_contract(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct bed *b = &beds[i];
		for (size_t l = 0; l < b->model.config.layers; l++) {
			char from[64], to[64];
			struct layer_reading r;
			struct call call;
			struct error e;
			snprintf(from, sizeof from, "%s.hidden.%zu", i ? "cpu_f32" : "gpu_f32", l);
			snprintf(to, sizeof to, "%s.hidden.%zu", i ? "cpu_f32" : "gpu_f32", l + 1);
			struct tensor x = first_rows(tensors_find(&b->recorded, from), FEW), y = first_rows(tensors_find(&b->recorded, to), FEW);
			assert_true(model_layer_call(&b->model, l, &x, NULL, NULL, &y, &call, &e));
			assert_true(layer_read(&call, &call.op->contracts[op_contract(call.op, "f32")], NULL, &r, &e));
			assert_true(r.kept);
			assert_int_equal(r.n, 0);
		}
	}
}

/* The first layer of an engine of the dense model, in bf16 and by the plan, under torch_bf16. */
static void read_first(const struct model_plan *p, struct tensors *engine, struct layer_reading *r)
{
	struct call call;
	struct error e;

	assert_true(bed_engine(&beds[0], p, FEW, DT_BF16, engine, &e));
	assert_true(model_layer_call(&beds[0].model, 0, tensors_find(engine, "hidden.0"), NULL, NULL, tensors_find(engine, "hidden.1"), &call,
		&e));
	assert_true(layer_read(&call, &call.op->contracts[op_contract(call.op, "torch_bf16")], NULL, r, &e));
}

/* A few of tests/studies/model_faults.c. */
static void plant_and_name(bool large)
{
	static const struct { int bed, layer; const char *contract, *fault; } plants[] = {
		{ 0, 1, "torch_bf16", "norm.zero_centred_for_plain" },
		{ 0, 2, "f32", "delta.retrieve_before_decay" },
		{ 1, 0, "torch_bf16", "router.no_renormalising" },
		{ 1, 3, "f32", "gate_split_flat" },
		{ 1, 3, "torch_bf16", "gqa_tiled" },
		{ 0, 1, "torch_bf16", "delta.decay_after_read" },
	};

	for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
		const struct bed *b = &beds[plants[i].bed];
		bool narrow = strcmp(plants[i].contract, "f32");
		int fault = op_fault(model_op((int)b->model.config.kind[plants[i].layer]), plants[i].fault);
		struct tensors engine;
		struct layer_reading r;
		struct error e;
		assert_true(fault >= 0);
		for (int clean = 0; clean < (i % 3 ? 1 : 2); clean++) {
			struct model_plan p = bed_plan(b, plants[i].contract, plants[i].layer, clean ? -1 : fault);
			assert_true(bed_engine(b, &p, FEW, narrow ? DT_BF16 : DT_F32, &engine, &e));
			int first = bed_first(b, plants[i].contract, &engine, &r, &e);
			tensors_free(&engine);
			assert_int_equal(first, clean ? NOWHERE : plants[i].layer);
			assert_true(r.truth_error > 0 && r.truth_error < 1e-6);
			if (large) assert_true(r.few >= 2 && r.few < FEW && r.truth_tokens == r.few);
			if (large) assert_true(r.truth_upwards > 0 && r.truth_upwards < 1e-6);
			else assert_true(!r.few && r.truth_tokens == FEW && r.truth_upwards == 0);
			if (clean) continue;
			assert_true(r.n > 0);
			assert_string_equal(r.detected[0].name, plants[i].fault);
			assert_true(r.understood);
		}
	}
}

static void names_planted_faults(void **state)
{
	(void)state;
	plant_and_name(false);
}

/* As a layer of real width is read: slow sums and suspects on the first tokens. */
static void reads_large_layers_alike(void **state)
{
	const struct layer_work kept = layer_work;

	(void)state;
	layer_work = (struct layer_work){ 1, 1 << 21, 3 << 20, 3 << 20, 1 << 21 };
	plant_and_name(true);
	layer_work = kept;
}

/* What a pass has ruled out: what moves the layer by more than float32 does, not what changes nothing in a dense one. */
static void says_what_it_would_have_seen(void **state)
{
	static const char *const seen[] = { "norm.zero_centred_for_plain", "delta.retrieve_before_decay", "residual_missing" };
	struct model_plan p = bed_plan(&beds[0], "torch_bf16", 0, -1);
	const struct bed *b = &beds[0];
	struct tensors engine;
	struct call call;
	struct error e;

	(void)state;
	assert_true(bed_engine(b, &p, FEW, DT_BF16, &engine, &e));
	assert_true(model_layer_call(&b->model, 0, tensors_find(&engine, "hidden.0"), NULL, NULL, tensors_find(&engine, "hidden.1"), &call, &e));
	struct layer_reading r = { .op = call.op, .emulation = p.part[LINEAR_ATTENTION], .read = true };
	r.emulation.arith = &arith_f64;
	assert_true(layer_coverage(&call, &r, &e));
	assert_int_equal(r.coverage_tokens, FEW);
	assert_true(r.idle >= 10 && r.not_identifiable > 0 && r.tried > r.idle + r.not_identifiable + 30);
	for (int i = 0; i < r.not_identifiable; i++)
		for (size_t k = 0; k < sizeof seen / sizeof *seen; k++) assert_string_not_equal(r.unseen[i], seen[k]);
	int hidden = r.not_identifiable;
	r.work = 1 << 23;
	const struct layer_work kept = layer_work;
	layer_work.coverage = 1 << 20;
	assert_true(layer_coverage(&call, &r, &e));
	layer_work = kept;
	assert_int_equal(r.coverage_tokens, 2);
	assert_true(r.not_identifiable + r.idle > hidden);
	tensors_free(&engine);
}

/* A rounding that no fault is called by, and one that the contract has and the engine has not. Neither fails: the layer is within its
 * size; both are read. */
static void reads_roundings(void **state)
{
	static const char *const sites[] = { "delta.g", "mixed" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct model_plan p = bed_plan(&beds[0], "torch_bf16", 0, -1);
		struct plan *to = &p.part[LINEAR_ATTENTION];
		int site = op_site(model_op(LINEAR_ATTENTION), sites[i]);
		struct tensors engine;
		struct layer_reading r;
		to->round[site] = (struct site_rounding){ !i, FMT_BF16, ROUND_NEAREST_EVEN };
		read_first(&p, &engine, &r);
		assert_true(r.kept && r.read && r.within);
		assert_int_equal(r.n, 1);
		assert_int_equal(r.detected[0].kind, SUSPECT_SITE);
		assert_int_equal(r.detected[0].index, site);
		assert_int_equal(r.detected[0].rounded, !i);
		tensors_free(&engine);
	}
}

/* Both q and k behind their norm: two roundings at once. */
static void reads_two_roundings_at_once(void **state)
{
	struct model_plan p = bed_plan(&beds[0], "f32", 0, -1);
	struct plan *to = &p.part[LINEAR_ATTENTION];
	struct tensors engine;
	struct layer_reading r;
	struct error e;
	bool q = false, k = false;

	(void)state;
	assert_true(model_plan_contract(&p, "torch_bf16,delta.q_norm=bf16,delta.k_norm=bf16", &e));
	read_first(&p, &engine, &r);
	assert_true(r.kept && r.read);
	assert_int_equal(r.n, 2);
	for (int i = 0; i < r.n; i++) {
		q = q || r.detected[i].index == op_site(r.op, "delta.q_norm");
		k = k || r.detected[i].index == op_site(r.op, "delta.k_norm");
	}
	assert_true(q && k && to->round[op_site(r.op, "delta.q_norm")].on);
	tensors_free(&engine);
}

/* A correct layer's error, times so much: in all tokens, or in one alone. */
static void its_size_decides(void **state)
{
	static const struct { double times; size_t tokens; bool within; } rows[] = { { 0, FEW, true }, { 0.5, FEW, true }, { 1, FEW, true },
		{ 1.9, FEW, false }, { 1.9, 1, true }, { 20, 1, false } };
	struct model_plan p = bed_plan(&beds[0], "torch_bf16", 0, -1);
	struct plan f64 = plan_plain(&arith_f64, arith_f64.precision);
	struct tensors engine;
	struct answer exact;
	struct call call;
	struct error e;

	(void)state;
	assert_true(bed_engine(&beds[0], &p, FEW, DT_F32, &engine, &e));
	struct tensor *y = tensors_find(&engine, "hidden.1");
	assert_true(model_layer_call(&beds[0].model, 0, tensors_find(&engine, "hidden.0"), NULL, NULL, y, &call, &e));
	assert_true(ref_run(&call, &f64, &exact, &e));
	float *got = y->data, *correct = memcpy(malloc(y->bytes), got, y->bytes);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t changed = y->count / FEW * rows[i].tokens;
		struct layer_reading r;
		memcpy(got, correct, y->bytes);
		for (size_t k = 0; k < changed; k++) got[k] = (float)(exact.hi[0][k] + rows[i].times * ((double)correct[k] - exact.hi[0][k]));
		assert_true(layer_read_size(&call, &call.op->contracts[op_contract(call.op, "torch_bf16")], &r, &e));
		assert_int_equal(r.within, rows[i].within);
		if (rows[i].times == 20) assert_true(r.size.at == 0 && r.size.worst > 10 && r.size.value < 1.4);
	}
	free(correct);
	answer_free(&exact);
	tensors_free(&engine);
}

static void nan_never_passes(void **state)
{
	struct model_plan p = bed_plan(&beds[0], "f32", 0, -1);
	struct tensors engine;
	struct layer_reading r;
	struct error e = { 0 };

	(void)state;
	for (int everywhere = 0; everywhere < 2; everywhere++) {
		assert_true(bed_engine(&beds[0], &p, 6, DT_F32, &engine, &e));
		struct tensor *t = tensors_find(&engine, "hidden.2");
		for (size_t i = 0; i < (everywhere ? t->count : 1); i++) ((float *)t->data)[i] = NAN;
		assert_int_equal(bed_first(&beds[0], "f32", &engine, &r, &e), 1);
		assert_false(r.kept || r.understood);
		tensors_free(&engine);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_it_in_the_mixture_too),
		cmocka_unit_test(names_what_default_attention_does),
		cmocka_unit_test(float32_keeps_its_contract),
		cmocka_unit_test(names_planted_faults),
		cmocka_unit_test(reads_large_layers_alike),
		cmocka_unit_test(says_what_it_would_have_seen),
		cmocka_unit_test(reads_roundings),
		cmocka_unit_test(reads_two_roundings_at_once),
		cmocka_unit_test(its_size_decides),
		cmocka_unit_test(nan_never_passes),
	};

	return cmocka_run_group_tests(tests, make_beds, free_beds);
}
