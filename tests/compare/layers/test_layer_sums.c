/* Sums that are tried on first tokens alone: how far a correct layer that adds like that may be from the emulation, which does not. */
#include "tests/helpers.h"
#include "tests/model_bed.h"

static struct bed bed;
static struct tensors dump;
static struct tensor *logits;           /* [T,V]: the head of the recorded hidden state, its sums as Hopper's tensor cores add */
static double *exact, *hopper;
static struct call call;

static void answer_by(const struct arith *a, double **y)
{
	struct plan p = plan_plain(a, a->precision);
	struct answer all;
	struct error e;

	assert_true(ref_run(&call, &p, &all, &e));
	*y = all.hi[0];
	all.hi[0] = NULL;
	answer_free(&all);
}

static int make_head(void **state)
{
	struct error e;

	(void)state;
	if (!bed_make(&bed, "dense", &e)) return error_print(stderr, &e), -1;
	logits = tensors_add(&dump, "logits", DT_F32, 2, (const size_t[]){ bed.n, bed.model.config.vocabulary });
	if (!model_head_call(&bed.model, tensors_find(&bed.recorded, "gpu_bf16.hidden.4"), NULL, logits, &call, &e)) return -1;
	answer_by(&arith_f64, &exact);
	answer_by(&arith_mma[MMA_HOPPER], &hopper);
	return 0;
}

static int free_head(void **state)
{
	(void)state;
	free(exact);
	free(hopper);
	tensors_free(&dump);
	bed_free(&bed);
	return 0;
}

enum { FEW = 5, THERE = 50 };           /* first tokens on which sums are tried; a row behind them */

/* Of an engine that is `times` as far from the exact head as Hopper's sums are, but on the first tokens as far. */
static struct layer_reading read_lossy(double times, double one)
{
	const struct layer_work kept = layer_work;
	size_t V = logits->shape[1], n = logits->count;
	float *y = logits->data;
	struct layer_reading r;
	struct error e;

	for (size_t i = 0; i < n; i++) y[i] = (float)(exact[i] + (i < FEW * V ? 1 : times) * (hopper[i] - exact[i]));
	y[THERE * V] += (float)one;
	layer_work = (struct layer_work){ 1, (2 * FEW + 1) * V * bed.model.config.hidden / 2, kept.suspects, kept.reading,
		kept.coverage };
	assert_true(layer_read(&call, &call.op->contracts[op_contract(call.op, "f32")], NULL, &r, &e));
	layer_work = kept;
	assert_int_equal(r.few, FEW);
	assert_ptr_equal(r.sums, &arith_mma[MMA_HOPPER]);
	assert_true(r.few_explained == 1);
	return r;
}

/* `times` where the score is that share of its limit. */
static double times_of(double share)
{
	double low = 1, high = 64;

	for (int i = 0; i < 20; i++) {
		double middle = sqrt(low * high);
		struct layer_reading r = read_lossy(middle, 0);
		*(r.left.score < share * r.limit ? &low : &high) = middle;
	}
	return sqrt(low * high);
}

/* The limit is twice what all tokens would have if they were like the first, and these sums lose more than float32 in order. */
static void a_lossy_sum_has_a_limit(void **state)
{
	struct layer_reading r = read_lossy(1, 0), edge;
	double within = times_of(0.98), beyond = times_of(1.02);

	(void)state;
	assert_true(r.kept && r.explained < 0.5);
	assert_true(r.limit > 1.8 * r.left.score && r.limit < 2.2 * r.left.score);
	assert_true(within > 1 && beyond < 1.2 * within);
	edge = read_lossy(within, 0);
	assert_true(edge.kept);
	assert_true(edge.limit == r.limit);
	edge = read_lossy(beyond, 0);
	assert_false(edge.kept);
}

/* What noise alone allows is less: without the sums on the first tokens the same engine would fail. */
static void the_limit_is_more_than_noise_has(void **state)
{
	struct layer_reading r = read_lossy(1, 0);
	struct layer_reading plain;
	struct error e;

	(void)state;
	assert_true(layer_read(&call, &call.op->contracts[op_contract(call.op, "f32")], NULL, &plain, &e));
	assert_int_equal(plain.few, 0);
	assert_true(plain.limit < 0.8 * r.limit);
}

/* A single element, wherever it is. */
static void so_has_each_element(void **state)
{
	struct layer_reading r = read_lossy(1, 1);
	double unit = 1 / r.left.worst, now = r.worst_limit;

	(void)state;
	assert_false(r.kept);
	assert_true(r.left.score <= r.limit);
	r = read_lossy(1, 0.9 * now * unit);
	assert_true(r.kept);
	r = read_lossy(1, 1.1 * now * unit);
	assert_false(r.kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lossy_sum_has_a_limit),
		cmocka_unit_test(the_limit_is_more_than_noise_has),
		cmocka_unit_test(so_has_each_element),
	};

	return cmocka_run_group_tests(tests, make_head, free_head);
}
