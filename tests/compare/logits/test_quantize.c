/* Rounding weights to e4m3, and what a model's logits make of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/logits/quantize.h"
#include "tests/kernel_model.h"

static double uniform(uint64_t *state) { return (double)(random_bits(state) >> 11) * 0x1p-53; }

static const struct layout *e4m3(void)
{
	for (int i = 0; i < LAYOUTS; i++)
		if (layouts[i].format == FMT_E4M3) return &layouts[i];
	return NULL;
}

/* The nearest e4m3 number to |x| <= 448 by trying all; of two as near the one with an even pattern. */
static double nearest(double x)
{
	const struct layout *l = e4m3();
	double best = 0, a = fabs(x);

	for (uint32_t b = 0; b <= l->top; b++) {
		double v = value_of(l, b), off = fabs(v - a), now = fabs(best - a);
		if (off < now || (off == now && b % 2 == 0)) best = v;
	}
	return copysign(best, x);
}

/* Every element of y against the plain definition; matrices of rows x cols, n of them, blocks of side (0: whole). */
static void check(const double *x, const double *y, size_t n, size_t rows, size_t cols, size_t side)
{
	for (size_t k = 0; k < n * rows * cols; k++) {
		size_t m = k / (rows * cols), i = k / cols % rows, j = k % cols;
		double max = 0;
		for (size_t r = 0; r < rows; r++)
			for (size_t c = 0; c < cols; c++)
				if (!side || (r / side == i / side && c / side == j / side)) max = fmax(max, fabs(x[(m * rows + r) * cols + c]));
		double scale = (double)(float)(max / 448), ratio = scale > 0 ? x[k] / scale : 0, expected = scale > 0
			? scale * nearest(fmax(-448, fmin(448, ratio))) : x[k];
		if (y[k] != expected) fail_msg("element %zu: %.17g, expected %.17g", k, y[k], expected);
	}
}

static void rounds_as_defined(void **state)
{
	static const struct { int rank; size_t shape[3], n, rows, cols; } shapes[] = {
		{ 2, { 5, 7, 0 }, 1, 5, 7 }, { 2, { 131, 140, 0 }, 1, 131, 140 }, { 1, { 150, 0, 0 }, 1, 1, 150 }, { 3, { 9, 1, 4 }, 1, 9,
			4 }, { 3, { 3, 6, 5 }, 3, 6, 5 }
	};
	uint64_t seed = 1;

	(void)state;
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		for (int k = 0; k < 2; k++) {
			struct tensor t = { .name = (char *)(uintptr_t)"w" }, *y;
			struct error e;
			assert_true(shape_set(&t, DT_F64, shapes[s].rank, shapes[s].shape));
			double *x = malloc(t.bytes);
			for (size_t i = 0; i < t.count; i++) x[i] = (uniform(&seed) - 0.5) * exp2(12 * uniform(&seed) - 9);
			t.data = x;
			y = quantized(&t, k ? 128 : 0, &e);
			assert_non_null(y);
			assert_true(y->dtype == DT_F64 && y->rank == t.rank && y->count == t.count);
			check(x, y->data, shapes[s].n, shapes[s].rows, shapes[s].cols, k ? 128 : 0);
			quantized_free(y);
			free(x);
		}
	}
}

static void zeros_stay_and_nan_is_refused(void **state)
{
	double x[6] = { 0 };
	struct tensor t = { .name = (char *)(uintptr_t)"w", .data = x }, *y;
	struct error e;

	(void)state;
	assert_true(shape_set(&t, DT_F64, 2, (const size_t[]){ 2, 3 }));
	y = quantized(&t, 0, &e);
	for (int i = 0; i < 6; i++) assert_true(((const double *)y->data)[i] == 0);
	quantized_free(y);
	x[4] = (double)NAN;
	assert_null(quantized(&t, 0, &e));
	assert_true(e.code == E_VALUE && !strcmp(e.item, "w"));
}

static void classes_are_named(void **state)
{
	static const char *const names[][2] = {
		{ "model.layers.12.linear_attn.in_proj_a.weight", "linear_attn.in_proj_a" }, { "model.layers.0.linear_attn.A_log",
			"linear_attn.A_log" },
		{ "model.language_model.layers.3.mlp.experts.down_proj", "mlp.experts.down_proj" }, { "model.language_model.norm.weight",
		"norm" },
		{ "language_model.model.embed_tokens.weight", "embed_tokens" }, { "lm_head.weight", "lm_head" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_string_equal(quantize_class_name(names[i][0], text,
		sizeof text), names[i][1]);
	assert_true(quantize_kept("linear_attn.A_log") && quantize_kept("norm") && !quantize_kept("linear_attn.out_proj")
		&& !quantize_kept("mlp.gate_proj"));
}

static const struct quantize_class *row_of(const struct quantize *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (!strcmp(r->row[i].name, name)) return &r->row[i];
	fail_msg("no row %s", name);
	return NULL;
}

/* Mean KL, in long double, between the logits of the model as it is and with A_log rounded here. */
static double kl_by_hand(struct model *m, const size_t *ids, size_t n)
{
	struct model_plan p = model_plan_plain(&arith_f64, arith_f64.precision);
	static double changed[16][64];
	struct tensor t[16];
	struct values *hidden[2], logits[2];
	size_t V = m->config.vocabulary, L = m->config.layers;
	struct error e;
	long double sum = 0;

	for (int k = 0; k < 2; k++) {
		no_error(model_run(m, &p, ids, n, NULL, &hidden[k], &e), &e);
		no_error(model_logits(m, &p, &hidden[k][L], 0, n, &logits[k], &e), &e);
		for (size_t l = 0; !k && l < L; l++)
			for (size_t i = 0; i < MAX_IN; i++) {
				const struct tensor *w = m->layer[l].weight[i];
				double max = 0;
				if (!w || !strstr(w->name, "A_log")) continue;
				t[l] = *w;
				t[l].dtype = DT_F64, t[l].data = changed[l], t[l].bytes = 8 * w->count;
				dtype_load(w->dtype, w->data, w->count, changed[l]);
				for (size_t j = 0; j < w->count; j++) max = fmax(max, fabs(changed[l][j]));
				double scale = (double)(float)(max / 448);
				for (size_t j = 0; j < w->count; j++) changed[l][j] = scale * nearest(changed[l][j] / scale);
				m->layer[l].weight[i] = &t[l];
			}
	}
	for (size_t i = 0; i < n; i++) {
		const double *a = logits[0].hi + i * V, *b = logits[1].hi + i * V;
		long double za = 0, zb = 0, kl = 0;
		for (size_t v = 0; v < V; v++) za += expl(a[v]), zb += expl(b[v]);
		for (size_t v = 0; v < V; v++) kl += expl(a[v]) / za * (((long double)a[v] - b[v]) - (logl(za) - logl(zb)));
		sum += kl;
	}
	for (int k = 0; k < 2; k++) model_hidden_free(m, hidden[k]), values_free(&logits[k]);
	return (double)(sum / (long double)n);
}

static void effects_are_those_of_the_model(void **state)
{
	static const char *const folders[] = { "fixtures/models/qwen3_5_dense_tiny", "fixtures/models/qwen3_5_moe_tiny" };

	(void)state;
	for (size_t f = 0; f < 2; f++) {
		struct model m;
		struct quantize r;
		struct error e;
		size_t ids[24], total = 0, sum = 0;
		for (size_t i = 0; i < 24; i++) ids[i] = 7 * i + 3;
		no_error(model_load(&m, folders[f], &e), &e);
		struct model_question q = { .model = &m, .ids = ids, .n = 24, .positions = 24, .truth = &arith_f64,
			.bits = arith_f64.precision };
		no_error(quantize_make(&r, &q, &e), &e);
		for (size_t i = 0; i + 2 < r.n; i++) {
			sum += r.row[i].elements;
			for (int g = 0; g < GRAINS; g++) assert_true(r.row[i].effect[g].kl > 0 && r.row[i].effect[g].rms > 0
				&& r.row[i].effect[g].agree <= 24);
		}
		for (size_t k = 0; k < m.folder.n; k++)
			for (size_t i = 0; i < m.folder.file[k].n; i++) total += m.folder.file[k].item[i].count;
		assert_int_equal(sum, total);
		assert_int_equal(r.row[r.n - 2].elements + r.row[r.n - 1].elements, total);
		assert_true(r.row[r.n - 2].kept && row_of(&r, "lm_head")->kept && !row_of(&r, "self_attn.q_proj")->kept);
		assert_int_equal(row_of(&r, "linear_attn.A_log")->tensors, 3);
		double expected = kl_by_hand(&m, ids, 24), found = row_of(&r, "linear_attn.A_log")->effect[GRAIN_TENSOR].kl;
		if (!(fabs(found - expected) <= 1e-9 * expected)) fail_msg("KL %.17g, expected %.17g", found, expected);
		/* one scale for six numbers or for a block that holds them: the same */
		assert_true(row_of(&r, "linear_attn.A_log")->effect[GRAIN_BLOCK].kl == found);
		quantize_free(&r);
		model_unload(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_as_defined), cmocka_unit_test(zeros_stay_and_nan_is_refused), cmocka_unit_test(classes_are_named),
		cmocka_unit_test(effects_are_those_of_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
