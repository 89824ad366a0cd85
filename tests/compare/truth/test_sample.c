/* The truth in double-double, and MPFR that judges a sample of it. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "compare/verdict/verdict.h"
#include "ref/dd/dd_form.h"
#include "tests/kernel_model.h"

static struct answer answer_in(const struct call *call, const char *spec, size_t stride)
{
	struct plan p = { .stride = stride };
	struct answer a;
	struct error e;

	assert_true(arith_by_name(spec, &p.arith, &p.bits));
	no_error(ref_run(call, &p, &a, &e), &e);
	return a;
}

/* The largest distance from `exact`, as a share of the largest value of its row. */
static double share(const struct answer *a, const struct answer *exact, int i, size_t n, size_t row)
{
	double worst = 0;

	for (size_t first = 0; first < n; first += row) {
		double scale = 0, most = 0;
		for (size_t j = first; j < first + row; j++) {
			double d = fabs((a->hi[i][j] - exact->hi[i][j]) + ((a->lo[i] ? a->lo[i][j] : 0) - exact->lo[i][j]));
			if (isfinite(exact->hi[i][j])) most = fmax(most, d), scale = fmax(scale, fabs(exact->hi[i][j]));
			else assert_true(same_double(a->hi[i][j], exact->hi[i][j]));
			assert_true(isfinite(exact->hi[i][j]) == isfinite(a->hi[i][j]));
		}
		if (most > 0) worst = fmax(worst, most / scale);
	}
	return worst;
}

/* The natural scale of an output: the largest value of a row, and where the row is what is left of larger terms 2^51
 * times the error of f64, which knows those to 2^-53. */
static void dd_is_mpfr_to_100_bits_on_every_case(void **state)
{
	double worst = 0;

	(void)state;
	for (const struct test_case *k = test_cases; k->op; k++) {
		struct capture c;
		struct call call;
		struct error e;
		size_t stride = 1, pieces;
		if (k->large) continue;
		no_error(case_make(&c, k, 1, false, &e) && call_bind(&call, &c, false, &e), &e);
		pieces = call.op->pieces(&call);
		struct answer f64 = answer_in(&call, "f64", 1);
		while (f64.work / stride > 1 << 20 && stride < pieces) stride++;
		answer_free(&f64);
		f64 = answer_in(&call, "f64", stride);
		struct answer a = answer_in(&call, "dd", stride), exact = answer_in(&call, "mpfr:256", stride);
		for (int i = 0; i < MAX_OUT; i++) {
			if (!call.out_count[i]) continue;
			double other = share(&f64, &exact, i, call.out_count[i], out_row(&call, i));
			double own = share(&a, &exact, i, call.out_count[i], out_row(&call, i)), natural = fmax(1, 0x1p51 * other);
			worst = fmax(worst, own / natural);
			if (!(own <= 0x1p-100 * natural))
				fail_msg("%s %s %s: dd is off by 2^%.1f, f64 by 2^%.1f", k->op, k->name, call.op->out[i].name, log2(own), log2(other));
		}
		answer_free(&f64);
		answer_free(&a);
		answer_free(&exact);
		capture_free(&c);
	}
	print_message("dd is off by 2^%.1f of the natural scale at most\n", log2(worst));
	assert_true(worst > 0);
}

/* ---- a broken dd ---- */
static const struct dd_form *sound;
static double gain;
static void broken_map(enum fn f, dds y, dds x, size_t n)
{
	sound->map(f, y, x, n);
	for (size_t i = 0; i < n; i++) y.hi[i] *= gain;
}

static struct verdict judged(const struct capture *c, const char *truth)
{
	const struct judging how = { .truth = truth, .quick = true };
	struct verdict v;
	struct error e;

	no_error(judge(c, &how, &v, &e), &e);
	return v;
}

static void a_broken_dd_decides_nothing(void **state)
{
	struct dd_form broken = *dd_form();
	struct capture c;

	(void)state;
	sound = dd_form();
	broken.map = broken_map;
	model_case(&c, "rmsnorm", "zero_centred_256", "f32");
	for (int i = 0; i < 3; i++) {
		static const double gains[] = { 1, 1 + 0x1p-22, NAN };
		static const enum outcome outcomes[] = { PASS, UNDECIDED, UNDECIDED };
		gain = gains[i];
		dd_use(&broken);
		struct verdict v = judged(&c, "dd");
		dd_use(NULL);
		assert_int_equal(v.outcome, outcomes[i]);
		assert_true(v.sampled && (i == 2 || v.out[0].sample.count > v.out[0].count / 2));
		assert_true(i == 0 || v.n_reason > 0);
		if (i == 1) assert_non_null(strstr(v.reason[0], "apart on the sample"));
	}
	gain = 1 + 0x1p-22;
	dd_use(&broken);
	struct verdict v = judged(&c, NULL);            /* MPFR takes its place */
	dd_use(NULL);
	assert_int_equal(v.outcome, PASS);
	assert_string_equal(v.truth, "mpfr:256");
	assert_string_equal(v.second, "dd");
	assert_false(v.sampled);
	capture_free(&c);
}

/* ---- the figures ---- */
/* Of a call in one strip. */
static bool sample_whole(struct truth_sample *s, const struct call *call, uint64_t work, struct error *e)
{
	return sample_begin(s, call, work, call->out_count, 1, e) && sample_refresh(s, call, 0, 1, e) && sample_wait(s, e);
}

static struct sample_figures figures_of(const struct truth_sample *s, const struct call *call, int i, const struct expected *x)
{
	struct sample_figures f = { 0 };

	sample_add(&f, s, call, i, call->out_count[i], x);
	return f;
}

static void distances_are_told(void **state)
{
	struct capture c;
	struct call call;
	struct truth_sample s;
	struct expected x;
	struct error e;

	(void)state;
	model_case(&c, "rmsnorm", "residual", "f32");
	no_error(call_bind(&call, &c, true, &e) && sample_whole(&s, &call, 1, &e), &e);
	assert_int_equal(s.stride, 1);
	expect_under(&x, &call, "f32", &s.dd, 8);
	struct sample_figures f = figures_of(&s, &call, 0, &x);
	assert_true(f.count <= call.out_count[0] && f.count > call.out_count[0] / 2);
	assert_true(f.share < 0x1p-100 && f.sigma < 1e-20);
	double was = s.dd.hi[0][77];
	s.dd.hi[0][77] += 0.5 * x.sigma[0][77];
	f = figures_of(&s, &call, 0, &x);
	assert_true(fabs(f.sigma - 0.5) < 1e-3 && f.share > 0x1p-40);
	s.dd.hi[0][77] = NAN;
	assert_true(isinf(figures_of(&s, &call, 0, &x).sigma));
	s.dd.hi[0][77] = was;
	s.judge.hi[0][77] = INFINITY;
	assert_true(isinf(figures_of(&s, &call, 0, &x).sigma));
	size_t j = 0;                                   /* a sum that float32 holds has no sigma: it is stored the same or not */
	while (j < call.out_count[1] && x.sigma[1][j] > 0) j++;
	assert_true(j < call.out_count[1]);
	s.dd.lo[1][j] += s.dd.hi[1][j] * 0x1p-70;
	assert_true(figures_of(&s, &call, 1, &x).sigma == 0);
	s.dd.hi[1][j] *= 1.01;
	assert_true(isinf(figures_of(&s, &call, 1, &x).sigma));
	expected_free(&x);
	sample_free(&s);
	capture_free(&c);
}

/* Some 2^20 operations' worth of pieces; none where one piece is too much. */
static void samples_are_bounded(void **state)
{
	struct capture c;
	struct call call;
	struct truth_sample s;
	struct error e;

	(void)state;
	make_case(&c, "causal_conv1d", "prefill_silu");
	no_error(call_bind(&call, &c, false, &e), &e);
	size_t pieces = call.op->pieces(&call);
	assert_true(pieces > 8);
	no_error(sample_whole(&s, &call, UINT64_C(3) << 20, &e), &e);
	assert_int_equal(s.stride, 3);
	sample_free(&s);
	no_error(sample_whole(&s, &call, pieces << 25, &e), &e);
	assert_int_equal(s.stride, pieces);
	sample_free(&s);
	no_error(sample_whole(&s, &call, (pieces << 25) + pieces, &e), &e);
	assert_true(s.stride == 0 && s.judged.elements > 0);
	sample_free(&s);
	capture_free(&c);
}

/* Of pieces that are too large operations are judged: of every op to 2^-99 of the sum of their terms, on any element. An op that only
 * moves numbers has none. */
static void operations_are_judged(void **state)
{
	double worst = 0;
	uint64_t elements = 0;

	(void)state;
	for (const struct test_case *k = test_cases; k->op; k++) {
		struct judged j = { .stride = 1000 };
		struct plan p = plan_plain(&arith_judged, arith_judged.precision);
		struct capture c;
		struct call call;
		struct answer a, plain;
		struct error e;
		if (k->large) continue;
		no_error(case_make(&c, k, 1, false, &e) && call_bind(&call, &c, false, &e), &e);
		p.judged = &j;
		p.stride = call.op->pieces(&call) / 4 + 1;
		no_error(ref_run(&call, &p, &a, &e), &e);
		plain = answer_in(&call, "dd", p.stride);
		for (int i = 0; i < MAX_OUT; i++)               /* judging changes nothing */
			if (call.out_count[i]) assert_memory_equal(a.hi[i], plain.hi[i], call.out_count[i] * sizeof(double));
		if (!(j.apart <= 0x1p-99) || (a.work && !j.elements))
			fail_msg("%s %s: 2^%.1f apart", k->op, k->name, log2(j.apart));
		worst = fmax(worst, j.apart), elements += j.elements;
		assert_true(a.work || !strcmp(k->op, "state_transfer"));
		answer_free(&a), answer_free(&plain);
		capture_free(&c);
	}
	print_message("%zu elements of operations, 2^%.1f apart at most\n", (size_t)elements, log2(worst));
}

static void broken_gemv_t(dds y, dds A, dds x, size_t rows, size_t cols)
{
	sound->gemv_t(y, A, x, rows, cols);
	for (size_t i = 0; i < cols; i++) y.hi[i] *= gain;
}

/* A dd whose products are off by 2^-30 is far from its judge, and what that comes to in sigma decides. */
static void broken_operations_are_seen(void **state)
{
	struct dd_form broken = *dd_form();
	struct truth_sample s;
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	sound = dd_form();
	broken.gemv_t = broken_gemv_t;
	no_error(case_make(&c, case_find("gated_delta_rule", "prefill"), 1, false, &e) && call_bind(&call, &c, false, &e), &e);
	for (int i = 0; i < 3; i++) {
		static const double gains[] = { 1, 1 + 0x1p-30, NAN };
		gain = gains[i];
		dd_use(&broken);
		no_error(sample_whole(&s, &call, (uint64_t)call.op->pieces(&call) << 28, &e), &e);
		dd_use(NULL);
		assert_true(s.stride == 0 && s.judged.elements > 100);
		assert_true(i == 0 ? s.judged.apart < 0x1p-99 : s.judged.apart > 0x1p-40);
		assert_true((sample_operations(&s, 1e-6).sigma <= 1e-6) == (i == 0));
		sample_free(&s);
	}
	capture_free(&c);
}

/* Beside the other threads it is what it is alone. */
static void one_piece_goes_on_aside(void **state)
{
	struct truth_sample s[2];
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	make_case(&c, "causal_conv1d", "prefill_silu");
	no_error(call_bind(&call, &c, false, &e), &e);
	uint64_t work = (uint64_t)call.op->pieces(&call) << 25;
	for (int i = 0; i < 2; i++) {
		omp_set_num_threads(1 + i);
		no_error(sample_begin(&s[i], &call, work, call.out_count, 1, &e) && sample_refresh(&s[i], &call, 0, 1, &e), &e);
		assert_true(s[i].aside.goes_on == (i == 1));
		no_error(sample_wait(&s[i], &e) && sample_wait(&s[i], &e), &e);
	}
	for (int i = 0; i < MAX_OUT; i++)
		if (call.out_count[i]) assert_memory_equal(s[0].judge.hi[i], s[1].judge.hi[i], call.out_count[i] * sizeof(double));
	no_error(sample_refresh(&s[1], &call, 0, 1, &e), &e);           /* not waited for */
	for (int i = 0; i < 2; i++) sample_free(&s[i]);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dd_is_mpfr_to_100_bits_on_every_case),
		cmocka_unit_test(a_broken_dd_decides_nothing),
		cmocka_unit_test(distances_are_told),
		cmocka_unit_test(samples_are_bounded),
		cmocka_unit_test(operations_are_judged),
		cmocka_unit_test(broken_operations_are_seen),
		cmocka_unit_test(one_piece_goes_on_aside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
