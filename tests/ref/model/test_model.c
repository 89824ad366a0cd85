/* The reference of whole models against recordings of a public library, against itself in extended precision, and against
 * its own decoding. */
#include "tests/helpers.h"
#include "tests/model_bed.h"

static struct bed beds[2];
static const char *const names[] = { "dense", "moe" };

static int make_beds(void **state)
{
	struct error e;

	(void)state;
	for (int i = 0; i < 2; i++)
		if (!bed_make(&beds[i], names[i], &e)) return error_print(stderr, &e), -1;
	return 0;
}

static int free_beds(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) bed_free(&beds[i]);
	return 0;
}

static void run(const struct bed *b, const char *arith, size_t n, struct model_memory *memory, size_t from,
	struct values **hidden, struct values *logits)
{
	const struct arith *a;
	struct error e;
	int bits;

	assert_true(arith_by_name(arith, &a, &bits));
	struct model_plan p = model_plan_plain(a, bits);
	assert_true(model_run(&b->model, &p, b->ids + from, n, memory, hidden, &e));
	assert_true(model_logits(&b->model, &p, &(*hidden)[b->model.config.layers], 0, n, logits, &e));
}

/* The largest distance of y from the recorded tensor. */
static double farthest(const struct bed *b, const char *name, const struct values *y)
{
	const struct tensor *t = tensors_find(&b->recorded, name);
	double most = 0;

	assert_non_null(t);
	assert_int_equal(t->count, y->rows * y->cols);
	for (size_t i = 0; i < t->count; i++) {
		double x;
		dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
		if (!(fabs(x - y->hi[i]) <= most)) most = fabs(x - y->hi[i]);
	}
	return most;
}

/* transformers' float64 mode computes some steps in float32: see docs/models.md, which takes its error apart. No layer's
 * fault is near: the smallest of the study moves the logits by more. */
static void agrees_with_a_public_librarys_float64(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct values *hidden, logits;
		char name[32];
		run(&beds[i], "f64", beds[i].n, NULL, 0, &hidden, &logits);
		assert_true(farthest(&beds[i], "cpu_f64.hidden.0", &hidden[0]) == 0);
		for (size_t l = 1; l <= beds[i].model.config.layers; l++) {
			snprintf(name, sizeof name, "cpu_f64.hidden.%zu", l);
			assert_true(farthest(&beds[i], name, &hidden[l]) < 4e-5);
		}
		double most = farthest(&beds[i], "cpu_f64.logits", &logits);
		print_message("%s: at most %.3g from cpu_f64.logits\n", names[i], most);
		assert_true(most < 4e-5);
		model_hidden_free(&beds[i].model, hidden);
		values_free(&logits);
	}
}

static double apart(const struct values *a, const struct values *b)
{
	double most = 0;

	for (size_t i = 0; i < a->rows * a->cols; i++) {
		double d = fabs(a->hi[i] - b->hi[i] + ((a->lo ? a->lo[i] : 0) - (b->lo ? b->lo[i] : 0)));
		if (!(d <= most)) most = d;
	}
	return most;
}

/* f64's by dd, dd's by MPFR: layers amplify a rounding of 2^-53 some hundred times, and one of 2^-106 as often. */
static void own_error_is_known(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		static const struct { const char *a, *b; size_t n; double most; } pair[] = { { "f64", "dd", 80, 1e-12 }, { "dd", "mpfr:160",
			12, 1e-27 } };
		for (int k = 0; k < 2; k++) {
			struct values *hidden[2], logits[2];
			run(&beds[i], pair[k].a, pair[k].n, NULL, 0, &hidden[0], &logits[0]);
			run(&beds[i], pair[k].b, pair[k].n, NULL, 0, &hidden[1], &logits[1]);
			double most = apart(&logits[0], &logits[1]);
			print_message("%s: %s and %s are %.3g apart\n", names[i], pair[k].a, pair[k].b, most);
			assert_true(most > 0);
			assert_true(most < pair[k].most);
			for (int s = 0; s < 2; s++) model_hidden_free(&beds[i].model, hidden[s]), values_free(&logits[s]);
		}
	}
}

/* The last ten positions one at a time, from what the others left, equal the prefill: to f64's own error. */
static void decodes_as_it_prefills(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct bed *b = &beds[i];
		struct values *hidden, whole, part;
		struct model_memory memory = { 0 };
		double most = 0;
		run(b, "f64", b->n, NULL, 0, &hidden, &whole);
		model_hidden_free(&b->model, hidden);
		run(b, "f64", b->n - 10, &memory, 0, &hidden, &part);
		model_hidden_free(&b->model, hidden);
		values_free(&part);
		for (size_t t = b->n - 10; t < b->n; t++) {
			assert_int_equal(memory.tokens, t);
			run(b, "f64", 1, &memory, t, &hidden, &part);
			struct values row = { whole.hi + t * whole.cols, NULL, 1, whole.cols };
			most = fmax(most, apart(&part, &row));
			model_hidden_free(&b->model, hidden);
			values_free(&part);
		}
		print_message("%s: decoding is %.3g from prefill\n", names[i], most);
		assert_true(most < 1e-12);
		values_free(&whole);
		model_memory_free(&memory);
	}
}

/* Decoding forgets nothing: without the memory the same tokens give something else. */
static void memory_matters(void **state)
{
	struct values *hidden, alone, after;
	struct model_memory memory = { 0 };

	(void)state;
	run(&beds[0], "f64", 5, &memory, 0, &hidden, &after);
	model_hidden_free(&beds[0].model, hidden);
	values_free(&after);
	for (int kind = 0; kind < 2; kind++) assert_int_equal(memory.layer[3 * kind].n, 2);
	run(&beds[0], "f64", 1, &memory, 5, &hidden, &after);
	model_hidden_free(&beds[0].model, hidden);
	run(&beds[0], "f64", 1, NULL, 5, &hidden, &alone);
	model_hidden_free(&beds[0].model, hidden);
	assert_true(apart(&after, &alone) > 0.01);
	values_free(&after);
	values_free(&alone);
	model_memory_free(&memory);
}

/* No answer depends on the number of threads, nor on what is asked for at once. */
static void rows_of_logits_are_their_own(void **state)
{
	struct model_plan p = model_plan_plain(&arith_f32, 24);
	struct values *hidden, all, row;
	struct error e;

	(void)state;
	assert_true(model_run(&beds[1].model, &p, beds[1].ids, 9, NULL, &hidden, &e));
	assert_true(model_logits(&beds[1].model, &p, &hidden[4], 0, 9, &all, &e));
	assert_true(model_logits(&beds[1].model, &p, &hidden[4], 7, 1, &row, &e));
	assert_memory_equal(row.hi, all.hi + 7 * all.cols, all.cols * sizeof(double));
	values_free(&all);
	values_free(&row);
	model_hidden_free(&beds[1].model, hidden);
}

/* Every fault and every site of each kind changes an answer, on at least one of the models. */
static double moved(const struct bed *b, size_t layer, const struct plan *p)
{
	struct plan exact = plan_plain(&arith_f64, 53);
	char name[32];
	struct call call;
	struct answer x, y;
	struct error e;
	double most = 0;

	snprintf(name, sizeof name, "cpu_f32.hidden.%zu", layer);
	assert_true(model_layer_call(&b->model, layer, tensors_find(&b->recorded, name), NULL, NULL, NULL, &call, &e));
	assert_true(ref_run(&call, &exact, &x, &e) && ref_run(&call, p, &y, &e));
	for (size_t i = 0; i < call.out_count[0]; i++)
		if (x.hi[0][i] != y.hi[0][i]) most = fmax(most, isfinite(y.hi[0][i]) ? fabs(x.hi[0][i] - y.hi[0][i]) : INFINITY);
	answer_free(&x);
	answer_free(&y);
	return most;
}

static void each_fault_and_site_shows(void **state)
{
	int unseen = 0;

	(void)state;
	for (int kind = 0; kind < LAYER_KINDS; kind++) {
		const struct op *op = model_op(kind);
		size_t layer = kind == LINEAR_ATTENTION ? 1 : 3;
		for (int m = 0; op->faults[m].name; m++) {
			struct plan p = plan_plain(&arith_f64, 53);
			bool final = kind == LINEAR_ATTENTION && !strncmp(op->faults[m].name, "final_norm", 10);
			bool later = !strcmp(op->faults[m].name, "decode_position_off") || !strcmp(op->faults[m].name, "rope.positions_in_bf16");
			if (final || later) continue;           /* later: only behind a first call, or position 256 */
			plan_fault(&p, op, m);
			if (moved(&beds[1], layer, &p) > 0) continue;
			print_message("%s: %s changes nothing\n", op->name, op->faults[m].name);
			unseen++;
		}
		for (int s = 0; op->sites[s].name; s++) {
			struct plan p = plan_plain(&arith_f64, 53);
			bool final = kind == LINEAR_ATTENTION && !strncmp(op->sites[s].name, "final_norm", 10);
			bool exact = !strcmp(op->sites[s].name, "rope.positions") || !strncmp(op->sites[s].name, "delta.A_log", 11)
				|| !strcmp(op->sites[s].name, "delta.dt_bias");         /* bf16 holds them */
			if (final) continue;
			p.round[s] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
			if ((moved(&beds[1], layer, &p) > 0) != exact) continue;
			print_message("%s: site %s %s\n", op->name, op->sites[s].name, exact ? "changes something" : "changes nothing");
			unseen++;
		}
	}
	assert_int_equal(unseen, 0);
}

/* A hidden state in two parts is their sum: of each kind of layer, and of the head. */
static void low_parts_count(void **state)
{
	enum { TOKENS = 3 };
	const struct model *m = &beds[1].model;
	size_t E = m->config.hidden, n = TOKENS * E;
	double *all = malloc(n * sizeof *all), *high = malloc(n * sizeof *high), *low = malloc(n * sizeof *low);

	(void)state;
	assert_true(all && high && low);
	for (size_t i = 0; i < n; i++) high[i] = (double)(i % 17) - 8, low[i] = (double)(i % 5) / 64, all[i] = high[i] + low[i];
	const struct tensor x = tensor_of(all, TOKENS, E), hi = tensor_of(high, TOKENS, E), lo = tensor_of(low, TOKENS, E);
	for (size_t part = 2; part <= 4; part++) {
		struct plan p = plan_plain(&arith_f64, 53);
		struct call whole, parts;
		struct answer a, b;
		struct error e;
		assert_true(part < 4 ? model_layer_call(m, part, &x, NULL, NULL, NULL, &whole, &e) : model_head_call(m, &x, NULL, NULL, &whole, &e));
		assert_true(part < 4 ? model_layer_call(m, part, &hi, &lo, NULL, NULL, &parts, &e) : model_head_call(m, &hi, &lo, NULL, &parts, &e));
		assert_true(ref_run(&whole, &p, &a, &e) && ref_run(&parts, &p, &b, &e));
		assert_memory_equal(a.hi[0], b.hi[0], whole.out_count[0] * sizeof(double));
		answer_free(&a);
		answer_free(&b);
	}
	free(all);
	free(high);
	free(low);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_a_public_librarys_float64), cmocka_unit_test(own_error_is_known),
		cmocka_unit_test(decodes_as_it_prefills), cmocka_unit_test(memory_matters), cmocka_unit_test(rows_of_logits_are_their_own),
		cmocka_unit_test(each_fault_and_site_shows), cmocka_unit_test(low_parts_count),
	};

	return cmocka_run_group_tests(tests, make_beds, free_beds);
}
