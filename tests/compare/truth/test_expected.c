/* The expected error: where there is none, how large it is elsewhere, and that it is reproducible. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "tests/kernel_model.h"

enum { RUNS = 16 };

/* A case bound, its truth, and its expected error under a contract. */
struct setting { struct capture c; struct call call; struct answer truth; struct expected x; };

static void expect_runs(struct setting *s, const char *op, const char *name, const char *contract, int runs)
{
	struct plan p = plan_plain(&arith_mpfr, 128);
	struct error e;

	make_case(&s->c, op, name);
	no_error(call_bind(&s->call, &s->c, true, &e) && ref_run(&s->call, &p, &s->truth, &e), &e);
	expect_under(&s->x, &s->call, contract, &s->truth, runs);
}

static void expect(struct setting *s, const char *op, const char *name, const char *contract)
{
	expect_runs(s, op, name, contract, RUNS);
}

static void done(struct setting *s)
{
	expected_free(&s->x);
	answer_free(&s->truth);
	capture_free(&s->c);
}

/* Spacing of numbers with `bits` significant bits at x, by definition. */
static double spacing(double x, int bits)
{
	int exponent;

	frexp(x, &exponent);
	return ldexp(1, exponent - bits);
}

static double mean_of_squares(const double *x, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) sum += x[i] * x[i] / (double)n;
	return sum;
}

/* rope copies what is beyond rotary_dim, and all of a token at position 0. */
static void a_copy_has_no_sigma(void **state)
{
	struct setting s;
	size_t copies = 0;

	(void)state;
	expect(&s, "rope", "partial", "f32");
	struct tensor *positions = capture_in(&s.c, "positions");
	for (size_t i = 0, D = 256, H = 4; i < s.call.out_count[0]; i++) {
		bool copied = i % D >= 64 || get(positions, i / (H * D)) == 0;
		if ((s.x.sigma[0][i] > 0) == copied) fail_msg("element %zu: sigma %g", i, s.x.sigma[0][i]);
		copies += copied;
	}
	assert_int_equal(s.x.count[0], s.call.out_count[0] - copies);
	done(&s);
	expect(&s, "causal_conv1d", "short_sequences", "f32");
	for (size_t i = 0; i < s.call.out_count[1]; i++) assert_true(s.x.sigma[1][i] == 0 && s.x.upstream[1][i] == 0);
	for (size_t i = 0; i < s.call.out_count[0]; i++) assert_true(s.x.sigma[0][i] > 0);
	assert_int_equal(s.x.count[1], 0);
	done(&s);
}

/* bf16 is so coarse that the store is nearly all there is, but for numbers near zero. */
static void the_store_alone(void **state)
{
	struct setting s;
	size_t coarse = 0;

	(void)state;
	expect(&s, "rmsnorm", "zero_centred_256", "f32");
	for (size_t i = 0; i < s.call.out_count[0]; i++) {
		double store = spacing(s.truth.hi[0][i], 8) / sqrt(12);
		assert_true(s.x.upstream[0][i] > 0x1p-28 * fabs(s.truth.hi[0][i]) && s.x.sigma[0][i] > store);
		if (!(s.x.upstream[0][i] < 0x1p-10 * store)) continue;
		assert_true(s.x.sigma[0][i] < store * (1 + 0x1p-20));
		coarse++;
	}
	assert_true(coarse > s.call.out_count[0] * 9 / 10);
	done(&s);
	/* x + residual: float32 holds the sums, and they are rounded once, to bf16. */
	expect(&s, "rmsnorm", "residual", "f32");
	for (size_t i = 0; i < s.call.out_count[1]; i++) {
		double y = s.truth.hi[1][i];
		assert_true((double)(float)y == y && s.x.upstream[1][i] == 0 && s.x.sigma[1][i] == 0);
	}
	assert_int_equal(s.x.count[1], 0);
	done(&s);
}

/* A value rounded at random to a spacing u errs by u²/6 in the mean square. Rounding at two sites,
 * the normed x and its product with the weight, is all that bf16 leaves of the row's error. The
 * least upstream error in a row is the root of the row's mean. */
static void two_sites_give_what_they_should(void **state)
{
	struct setting s;
	size_t R = 96, D = 128;
	double all = 0;

	(void)state;
	expect_runs(&s, "rmsnorm", "gated_128", "xhat_bf16", 64);
	struct tensor *x = capture_in(&s.c, "x"), *w = capture_in(&s.c, "weight"), *gate = capture_in(&s.c, "gate");
	for (size_t r = 0; r < R; r++) {
		double square = 0, least = INFINITY, want = 0;
		for (size_t i = r * D; i < (r + 1) * D; i++) square += get(x, i) * get(x, i) / (double)D;
		for (size_t i = r * D; i < (r + 1) * D; i++) {
			double hat = get(x, i) / sqrt(square + 1e-6), scale = get(w, i % D), g = get(gate, i), silu = g / (1 + exp(-g));
			double first = spacing(hat, 8) * scale * silu, second = spacing(hat * scale, 8) * silu;
			want += (first * first + second * second) / 6 / (double)D;
			least = fmin(least, s.x.upstream[0][i]);
		}
		if (!(least * least > 0.6 * want && least * least < 1.6 * want)) fail_msg("row %zu: %g, expected %g", r, least, sqrt(want));
		all += least * least / want / (double)R;
	}
	if (!(fabs(all - 1) < 0.05)) fail_msg("%.4f of the expected mean square", all);
	done(&s);
}

/* max(own, mean of the row), the mean m being over those that err: some show m, others more, none
 * less; and the mean of the maxima is at most 2m. */
static void rows_are_pooled(void **state)
{
	static const struct { const char *op, *name; size_t D, noisy; } rows[] = { { "rmsnorm", "plain_f32", 512, 512 }, { "rope", "partial", 256, 64 } };
	struct setting s;

	(void)state;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		expect(&s, rows[k].op, rows[k].name, "f32");
		for (size_t r = 0, n = rows[k].noisy; r < s.call.out_count[0]; r += rows[k].D) {
			const double *u = s.x.upstream[0] + r;
			double least = INFINITY;
			size_t at_least = 0;
			for (size_t i = 0; i < n; i++) least = fmin(least, u[i]);
			for (size_t i = 0; i < n; i++) at_least += u[i] == least;
			if (least == 0) continue;       /* position 0 */
			assert_true(at_least > n / 4 && at_least < n);
			assert_true(mean_of_squares(u, n) < 2 * least * least);
		}
		done(&s);
	}
}

/* A contract with bf16 sites expects more than the same form in float32; by orders, but in rope,
 * whose angles at positions of 1e5 leave little in float32 either. */
static void a_looser_contract_expects_more(void **state)
{
	static const struct { const char *op, *name, *tight, *loose; double times; } pairs[] = {
		{ "gated_delta_rule", "tiny_keys", "chunk_f32", "bf16_operands", 100 },
		{ "gated_delta_rule", "decode_state_bf16", "f32", "state_bf16", 100 },
		{ "rmsnorm", "residual", "f32", "residual_bf16", 100 },
		{ "rmsnorm", "plain_f32", "f32", "xhat_bf16", 1000 },
		{ "rope", "partial_f32", "f32", "cos_sin_bf16", 1.05 },
		{ "rope", "partial_f32", "cos_sin_bf16", "bf16", 1.02 },
		{ "causal_conv1d", "bias_f32", "f32", "conv_bf16", 1000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct setting a, b;
		expect(&a, pairs[i].op, pairs[i].name, pairs[i].tight);
		expect(&b, pairs[i].op, pairs[i].name, pairs[i].loose);
		double ratio = sqrt(mean_of_squares(b.x.upstream[0], b.call.out_count[0]) / mean_of_squares(a.x.upstream[0], a.call.out_count[0]));
		if (!(ratio > pairs[i].times)) fail_msg("%s: %s has %.3g times the error of %s", pairs[i].op, pairs[i].loose, ratio, pairs[i].tight);
		done(&a);
		done(&b);
	}
}

/* The head's decay is common to its state; the roundings of rope's pairs are not. */
static void freedom_tells_common_errors_from_own(void **state)
{
	struct setting s;
	double n;

	(void)state;
	expect(&s, "gated_delta_rule", "decode", "f32");
	assert_true(s.x.freedom[1] >= 1 && s.x.freedom[1] < (double)s.x.count[1] / 100);
	done(&s);
	expect(&s, "rope", "full", "f32");
	n = (double)s.x.count[0];
	assert_true(s.x.freedom[0] <= n && s.x.freedom[0] > n / 10);
	done(&s);
	expect(&s, "rope", "partial_f32", "f32");
	n = (double)s.x.count[0];
	assert_true(s.x.bias[0] > 0.2 / sqrt(n) && s.x.bias[0] < 3 / sqrt(n));
	done(&s);
}

/* Rows that are the same, of which a kernel makes the same: as many degrees of freedom as one has, and a bias of as few errors. */
static void equal_numbers_are_fewer(void **state)
{
	struct setting s;

	(void)state;
	static const char *const in[] = { "x", "gate", "addend" };
	expect(&s, "gated_product", "attention_plus", "f32");
	size_t D = capture_in(&s.c, "x")->shape[1], rows = capture_in(&s.c, "x")->shape[0];
	double apart = s.x.freedom[0], bias = s.x.bias[0];
	for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
		float *data = capture_in(&s.c, in[i])->data;
		for (size_t r = 1; r < rows; r++) memcpy(data + r * D, data, D * sizeof *data);
	}
	answer_free(&s.truth), expected_free(&s.x);
	struct plan p = plan_plain(&arith_mpfr, 128);
	struct error e;
	no_error(ref_run(&s.call, &p, &s.truth, &e), &e);
	double most = 0;
	for (int more = 0; more < 10; more++) {
		if (more) expected_free(&s.x);
		expect_under(&s.x, &s.call, "f32", &s.truth, RUNS + more);
		most = fmax(most, s.x.freedom[0]);
	}
	assert_true(apart > 2 * (double)D && s.x.bias[0] > 1.5 * bias);
	assert_true(most < 1.2 * (double)D);
	done(&s);
}

/* kda's "plain" of so many tokens, whose decays are ten times as large but in the last. */
enum { TOKENS = 80, LAST = 16 };
static void steep(struct setting *s)
{
	struct plan exact = plan_plain(&arith_mpfr, 128);
	struct test_case k = *case_find("kda", "plain");
	struct case_dim dims[8] = { { 0 } };
	struct error e;

	for (int i = 0; k.dims[i].name; i++) dims[i] = (struct case_dim){ k.dims[i].name, strcmp(k.dims[i].name, "T") ? k.dims[i].size : TOKENS };
	k.dims = dims;
	no_error(case_make(&s->c, &k, 1, true, &e), &e);
	struct tensor *g = capture_in(&s->c, "g");
	for (size_t i = 0; i < g->count / TOKENS * (TOKENS - LAST); i++) set(g, i, 10 * get(g, i));
	no_error(call_bind(&s->call, &s->c, true, &e) && ref_run(&s->call, &exact, &s->truth, &e), &e);
}

/* Of the final state, in chunks of that length: the mean square error of noisy runs that sigma does not know. */
static double in_chunks_of(const struct setting *s, const struct plan *model, size_t chunk)
{
	enum { SEEDS = 8, STATE = 1 };
	size_t n = s->call.out_count[STATE];
	double sum = 0;
	struct error e;

	for (uint64_t seed = 1001; seed <= 1000 + SEEDS; seed++) {
		struct plan p = *model;
		struct answer a;
		p.chunk = chunk, p.seed = seed;
		no_error(ref_run(&s->call, &p, &a, &e), &e);
		for (size_t i = 0; i < n; i++) a.hi[STATE][i] -= s->truth.hi[STATE][i];
		sum += mean_of_squares(a.hi[STATE], n) / SEEDS;
		answer_free(&a);
	}
	return sum;
}

/* In chunks of 64 the state is of 16 tokens alone, their decays are summed over these, and what was before is gone; in one chunk they
 * are summed over all, up to 200. */
static void sums_over_longer_chunks_are_expected(void **state)
{
	struct plan model = plan_plain(&arith_noisy, arith_noisy.precision);
	struct setting s;
	struct error e;

	(void)state;
	steep(&s);
	plan_contract(&model, contract_of("kda", "chunk_f32"));
	model.region = contract_of("kda", "chunk_f32");
	no_error(expected_sigma(&s.x, &s.call, &model, &s.truth, RUNS, &e), &e);
	double sigma = mean_of_squares(s.x.upstream[1], s.call.out_count[1]), usual = in_chunks_of(&s, &model, model.chunk), one = in_chunks_of(&s, &model, LONGEST_CHUNK);
	if (!(one > 400 * usual)) fail_msg("%g in one chunk, %g in the usual ones", one, usual);
	if (!(sigma > one / 4 && sigma < one * 4)) fail_msg("sigma² %g, %g in one chunk", sigma, one);
	done(&s);
}

/* The runs that show the scatter are not those behind sigma: with more of these, they are others. */
static void fresh_runs_are_fresh(void **state)
{
	double low = INFINITY, high = 0;

	(void)state;
	for (int runs = 16; runs <= 48; runs += 2) {
		struct setting s;
		expect_runs(&s, "rope", "partial_f32", "f32", runs);
		low = fmin(low, s.x.bias[0]);
		high = fmax(high, s.x.bias[0]);
		done(&s);
	}
	if (!(high > 1.2 * low)) fail_msg("%g %g", low, high);
}

/* The second is one piece, of which some runs are made side by side. */
static void same_seeds_same_sigma_on_any_threads(void **state)
{
	static const char *const of[][3] = { { "gated_delta_rule", "tiny_keys", "bf16_operands" }, { "newton_schulz", "odd_gram_f32", "f32" } };
	int threads = omp_get_max_threads();

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct setting s[2];
		for (int i = 0; i < 2; i++) {
			omp_set_num_threads(i ? 5 : 1);
			expect(&s[i], of[k][0], of[k][1], of[k][2]);
		}
		omp_set_num_threads(threads);
		for (int i = 0; i < MAX_OUT; i++) {
			size_t bytes = s[0].call.out_count[i] * sizeof(double);
			if (!bytes) continue;
			assert_memory_equal(s[0].x.sigma[i], s[1].x.sigma[i], bytes);
			assert_memory_equal(s[0].x.upstream[i], s[1].x.upstream[i], bytes);
			assert_true(same_double(s[0].x.bias[i], s[1].x.bias[i]) && same_double(s[0].x.freedom[i], s[1].x.freedom[i]));
		}
		assert_true((s[0].call.op->pieces(&s[0].call) == 1) == (k == 1));
		done(&s[0]);
		done(&s[1]);
	}
}

/* How the distance from the truth is told in sigma. */
static void distances_in_sigma(void **state)
{
	static const struct { double got, hi, lo, sigma, z; } rows[] = {
		{ 3, 1, 0, 0.5, 4 }, { -1, 1, 0, 0.5, -4 }, { 1, 1, 0x1p-60, 0x1p-60, -1 }, { 1, 1, 0, 2, 0 },
		{ INFINITY, INFINITY, 0, 1, 0 }, { INFINITY, 1, 0, 2, INFINITY }, { NAN, 1, 0, 1, NAN }
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		double z = in_sigma(rows[i].got, rows[i].hi, rows[i].lo, rows[i].sigma);
		if (!same_double(z, rows[i].z)) fail_msg("row %zu: %g, expected %g", i, z, rows[i].z);
	}
	/* Halfway between two bf16 numbers, but for the low part. */
	assert_true(stored_as(DT_BF16, 1 + 0x1p-8, 0x1p-70) == 1 + 0x1p-7);
	assert_true(stored_as(DT_BF16, 1 + 0x1p-8, -0x1p-70) == 1);
	assert_true(stored_as(DT_BF16, 1 + 0x1p-8, 0) == 1);
	assert_true(stored_as(DT_F64, 1, 0x1p-70) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_has_no_sigma),
		cmocka_unit_test(the_store_alone),
		cmocka_unit_test(two_sites_give_what_they_should),
		cmocka_unit_test(rows_are_pooled),
		cmocka_unit_test(a_looser_contract_expects_more),
		cmocka_unit_test(freedom_tells_common_errors_from_own),
		cmocka_unit_test(equal_numbers_are_fewer),
		cmocka_unit_test(sums_over_longer_chunks_are_expected),
		cmocka_unit_test(fresh_runs_are_fresh),
		cmocka_unit_test(same_seeds_same_sigma_on_any_threads),
		cmocka_unit_test(distances_in_sigma),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
