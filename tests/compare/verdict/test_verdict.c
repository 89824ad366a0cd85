/* What fails, what is undecided, what is refused. */
#include <math.h>
#include <stdlib.h>

#include "compare/verdict/figures.h"
#include "tests/kernel_model.h"

static struct verdict judged(const struct capture *c, const char *truth)
{
	const struct judging how = { .truth = truth, .quick = true };
	struct verdict v;
	struct error e;

	no_error(judge(c, &how, &v, &e), &e);
	assert_int_equal(v.outcome != PASS, v.n_reason > 0);
	return v;
}

static void expect_outcome(const struct verdict *v, enum outcome o, const char *what)
{
	if (v->outcome != o) fail_msg("%s: %s, expected %s; %s", what, outcome_name[v->outcome], outcome_name[o], v->n_reason ? v->reason[0] : "");
}

/* ---- one element ---- */

static void five_percent(struct tensor *t, size_t i) { set(t, i, 1.05 * get(t, i)); }
static void not_a_number(struct tensor *t, size_t i) { set(t, i, NAN); }
static void infinite(struct tensor *t, size_t i) { set(t, i, INFINITY); }
static void one_ulp(struct tensor *t, size_t i) { step_up(t, i); }

/* The element at `index` of an output is changed, and the verdict's first reason names it. one_ulp:
 * in a copy, an exact sum, or bf16 whose truth is nowhere near halfway. */
static const struct edit {
	const char *op, *name, *output, *index;
	void (*change)(struct tensor *t, size_t i);
} edits[] = {
	{ "gated_delta_rule", "decode", "o", "[3,1,100]", five_percent },
	{ "gated_delta_rule", "decode", "o", "[0,0,0]", not_a_number },
	{ "gated_delta_rule", "decode", "final_state", "[4,1,127,127]", five_percent },
	{ "gated_delta_rule", "decode", "final_state", "[2,0,5,6]", infinite },
	{ "rmsnorm", "zero_centred_256", "y", "[7,200]", five_percent },
	{ "rmsnorm", "zero_centred_256", "y", "[23,255]", not_a_number },
	{ "rmsnorm", "zero_centred_256", "y", "[11,30]", one_ulp },
	{ "rmsnorm", "residual", "residual_out", "[5,4000]", one_ulp },
	{ "rope", "partial", "y", "[3,2,5]", five_percent },
	{ "rope", "partial", "y", "[3,2,64]", one_ulp },
	{ "rope", "partial", "y", "[0,1,3]", one_ulp },
	{ "causal_conv1d", "short_sequences", "y", "[21,95]", five_percent },
	{ "causal_conv1d", "short_sequences", "final_state", "[2,50,1]", one_ulp },
	{ "causal_conv1d", "short_sequences", "final_state", "[0,0,0]", not_a_number },
};

static size_t flat_index(const struct tensor *t, const char *index)
{
	size_t at = 0;

	for (int r = 0; r < t->rank; r++) at = at * t->shape[r] + strtoul(index + 1, (char **)&index, 10);
	return at;
}

static void one_changed_element_fails_and_is_named(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof edits / sizeof *edits; k++) {
		const struct edit *d = &edits[k];
		struct capture c;
		char what[128];
		model_case(&c, d->op, d->name, "f32");
		struct verdict v = judged(&c, "f64");
		expect_outcome(&v, PASS, d->name);
		struct tensor *t = capture_out(&c, d->output);
		d->change(t, flat_index(t, d->index));
		v = judged(&c, "f64");
		snprintf(what, sizeof what, "%s %s %s%s", d->op, d->name, d->output, d->index);
		expect_outcome(&v, FAIL, what);
		if (!strstr(v.reason[0], d->index) || !strstr(v.reason[0], d->output)) fail_msg("%s: %s", what, v.reason[0]);
		capture_free(&c);
	}
}

/* What is far from the limit of 64 noisy runs is decided by 16, what is near it by all. */
static void near_a_limit_all_runs_decide(void **state)
{
	static const struct { double of_limit; int runs; enum outcome o; } far[] = {
		{ 0.3, 16, PASS }, { 0.6, 16, PASS }, { 0.85, 64, PASS }, { 1.3, 64, FAIL }, { 2.4, 64, FAIL }, { 3, 16, FAIL }, { 1e4, 16, FAIL },
	};
	enum { AT = 7000 };
	struct capture c;

	(void)state;
	model_case(&c, "gated_delta_rule", "odd_sizes", "f32");
	struct tensor *t = capture_out(&c, "final_state");
	double own = get(t, AT);
	set(t, AT, 1.5 * own);
	struct verdict v = judged(&c, "f64");
	const struct output_verdict *o = &v.out[1];
	assert_int_equal(o->worst.index, AT);
	double expected = o->worst.expected, sigma = (o->worst.got - expected) / o->worst.sigma, limit = worst_limit(64, o->count);
	for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
		set(t, AT, expected + far[k].of_limit * limit * sigma);
		v = judged(&c, "f64");
		if (v.runs != far[k].runs || v.outcome != far[k].o)
			fail_msg("%g of the limit: %s by %d runs; %.4g, at most %.4g", far[k].of_limit, outcome_name[v.outcome], v.runs,
				o->rule[RULE_WORST].value, limit);
		assert_float_equal(o->rule[RULE_WORST].limit, worst_limit(v.outcome == PASS ? 64 : v.runs, o->count), 1e-12);
	}
	capture_free(&c);
}

/* One bf16 ulp is under 6 sigma: only `excess` sees it, also where the wrong neighbour is no more
 * than 3/4 ulp away. */
static void one_ulp_is_seen_by_excess_alone(void **state)
{
	struct plan p = plan_plain(&arith_f64, 53);
	struct capture c;
	struct call call;
	struct answer truth;
	struct error e;
	char said[96];
	size_t i = 11 * 256;

	(void)state;
	model_case(&c, "rmsnorm", "zero_centred_256", "f32");
	no_error(call_bind(&call, &c, true, &e) && ref_run(&call, &p, &truth, &e), &e);
	struct tensor *y = capture_out(&c, "y");
	for (;; i++) {
		double own = get(y, i), ulp = format_ulp(FMT_BF16, own), beyond = (fabs(truth.hi[0][i]) - fabs(own)) / ulp;
		if (beyond > 0.25 && beyond < 0.35) break;
	}
	step_up(y, i);
	size_t small = i + 1;           /* two of its ulps are more in sigma, but less beyond a store */
	while (fabs(get(y, small)) > fabs(get(y, i)) / 32) small++;
	step_up(y, small);
	step_up(y, small);
	struct verdict v = judged(&c, NULL);
	const struct output_verdict *o = &v.out[0];
	for (int r = 0; r < RULE_COUNT; r++) assert_true((o->rule[r].value <= o->rule[r].limit) == (r != RULE_EXCESS));
	snprintf(said, sizeof said, "out.y: [%zu,%zu] is %.9g, expected", i / 256, i % 256, get(y, i));
	assert_true(v.n_reason == 1 && strstr(v.reason[0], said));
	assert_true(o->worst.index == small && o->beyond.index == i && o->beyond.got == get(y, i) && fabs(o->beyond.expected / truth.hi[0][i] - 1) < 0x1p-40);
	assert_true(fabs(o->beyond.ulp) > 0.65 && fabs(o->beyond.ulp) < 0.75);
	answer_free(&truth);
	capture_free(&c);
}

/* Where there is no sigma the smallest step is infinitely many. */
static void a_copy_is_exact_or_wrong(void **state)
{
	struct capture c;

	(void)state;
	model_case(&c, "rope", "partial", "f32");
	step_up(capture_out(&c, "y"), 255);
	struct verdict v = judged(&c, "f64");
	assert_true(isinf(v.out[0].rule[RULE_WORST].value) && isinf(v.out[0].rule[RULE_EXCESS].value) && isinf(v.out[0].worst.sigma));
	assert_true(v.out[0].worst.index == 255 && v.out[0].rule[RULE_RMS].value < v.out[0].rule[RULE_RMS].limit);
	capture_free(&c);
}

/* ---- whole outputs ---- */

static void chopped(struct tensor *y)
{
	for (size_t i = 0; i < y->count; i++) {
		float x = (float)get(y, i);
		uint32_t bits;
		memcpy(&bits, &x, sizeof bits);
		bits &= UINT32_C(0xffff0000);
		memcpy(&x, &bits, sizeof bits);
		set(y, i, (double)x);
	}
}

/* A float32 answer, cut to bf16 as a kernel does that keeps the upper half of each float. */
static void truncation_fails_where_rounding_passes(void **state)
{
	static const char *const cases[][2] = { { "rmsnorm", "zero_centred_256" }, { "rope", "full" }, { "causal_conv1d", "short_sequences" } };

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (int cut = 0; cut < 2; cut++) {
			struct test_case tc = *case_find(cases[k][0], cases[k][1]);
			struct plan p = plan_plain(&arith_f32, 24);
			struct case_tensor out[MAX_OUT + 1] = { 0 };
			struct capture wide, c;
			struct error e;
			for (int i = 0; tc.out[i].name; i++) out[i] = tc.out[i], out[i].dtype = DT_F32;
			tc.out = out;
			no_error(case_make(&wide, &tc, 1, true, &e), &e);
			answer_by(&wide, &p);
			if (cut) chopped(capture_out(&wide, "y"));
			model_case(&c, cases[k][0], cases[k][1], "f32");
			for (size_t i = 0; i < capture_out(&c, "y")->count; i++) set(capture_out(&c, "y"), i, get(capture_out(&wide, "y"), i));
			struct verdict v = judged(&c, "f64");
			expect_outcome(&v, cut ? FAIL : PASS, cases[k][1]);
			capture_free(&c);
			capture_free(&wide);
		}
}

/* ---- undecided ---- */

static void a_reference_that_is_not_finite_decides_nothing(void **state)
{
	static const struct { const char *op, *name, *input; double value; } rows[] = {
		{ "rmsnorm", "zero_centred_256", "x", INFINITY }, { "rmsnorm", "plain_f32", "weight", NAN },
		{ "rope", "partial", "x", -INFINITY }, { "causal_conv1d", "bias_f32", "bias", NAN },
		{ "gated_delta_rule", "decode", "v", INFINITY }
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		model_case(&c, rows[i].op, rows[i].name, "f32");
		struct tensor *t = capture_in(&c, rows[i].input);
		set(t, t->count / 2, rows[i].value);
		struct verdict v = judged(&c, "f64");
		expect_outcome(&v, UNDECIDED, rows[i].op);
		assert_int_equal(outcome_exit(v.outcome), EXIT_UNDECIDED);
		assert_non_null(strstr(v.reason[0], "the reference is"));
		capture_free(&c);
	}
}

/* Angles of some 1e17 radians: float64 knows them to about 10, as mpfr:128 well knows. */
static void a_coarse_truth_climbs_or_decides_nothing(void **state)
{
	static const double far[] = { 1e17, 3e16, 7e17, 123456789012345677.0 };
	struct test_case tc = *case_find("rope", "partial_f32");
	const struct case_tensor in[] = { tc.in[0], { "positions", "T", DT_I64, DRAW_LIST, 0, 0 }, { 0 } };
	struct plan p = plan_plain(&arith_mpfr, 128);
	struct capture c;
	struct error e;

	(void)state;
	tc.in = in;
	tc.lists = (const struct case_list[]){ { "positions", far, sizeof far / sizeof *far }, { 0 } };
	no_error(case_make(&c, &tc, 1, true, &e), &e);
	answer_by(&c, &p);
	struct verdict v = judged(&c, "mpfr:256");
	expect_outcome(&v, PASS, "mpfr:256");
	assert_string_equal(v.second, "mpfr:128");
	assert_true(v.out[0].truth_error < 1e-6);
	v = judged(&c, NULL);
	expect_outcome(&v, PASS, "the best that there is");
	assert_string_equal(v.truth, "mpfr:256");
	v = judged(&c, "mpfr:128");
	expect_outcome(&v, UNDECIDED, "mpfr:128 against f64");
	assert_string_equal(v.second, "f64");
	assert_true(v.out[0].truth_error > 0.1);
	assert_non_null(strstr(v.reason[0], "truth"));
	v = judged(&c, "f64");
	expect_outcome(&v, UNDECIDED, "f64 against f64up");
	set(capture_out(&c, "y"), 255, 17);
	v = judged(&c, "mpfr:128");
	expect_outcome(&v, FAIL, "a wrong copy, however coarse the truth");
	capture_free(&c);
}

/* ---- refused ---- */

static void drop(struct capture *c, const char *name)
{
	struct tensor *t = tensors_find(&c->tensors, name), *last = &c->tensors.item[c->tensors.n - 1], dropped = *t;

	*t = *last;
	*last = dropped;
	free(last->name);
	free(last->data);
	c->tensors.n--;
}

static void add(struct capture *c, const char *name, enum dtype d, int rank, const size_t *shape)
{
	if (tensors_find(&c->tensors, name)) drop(c, name);
	assert_non_null(tensors_add(&c->tensors, name, d, rank, shape));
}

static void no_output(struct capture *c) { drop(c, "out.y"); }
static void no_input(struct capture *c) { drop(c, "in.weight"); }
static void extra_output(struct capture *c) { add(c, "out.z", DT_F32, 1, (size_t[]){ 1 }); }
static void other_shape(struct capture *c) { add(c, "out.y", DT_BF16, 2, (size_t[]){ 24, 255 }); }
static void other_kind(struct capture *c) { add(c, "out.y", DT_I32, 2, (size_t[]){ 24, 256 }); }
static void no_rows(struct capture *c) { add(c, "in.x", DT_BF16, 2, (size_t[]){ 0, 256 }); }

static void bad_calls_are_refused(void **state)
{
	static const struct { void (*spoil)(struct capture *c); enum error_code code; } rows[] = {
		{ no_output, E_MISSING }, { no_input, E_MISSING }, { extra_output, E_EXTRA },
		{ other_shape, E_DIM }, { other_kind, E_KIND }, { no_rows, E_EMPTY },
	};
	static const struct { struct judging how; enum error_code code; } ways[] = {
		{ { .contract = "nope" }, E_UNKNOWN_NAME }, { { .contract = "state_bf16" }, E_UNKNOWN_NAME }, { { .contract = "" }, E_UNKNOWN_NAME },
		{ { .truth = "f32" }, E_USAGE }, { { .truth = "noisy" }, E_USAGE }, { { .truth = "mpfr:1" }, E_USAGE }, { { .truth = "" }, E_USAGE },
	};
	struct capture c;
	struct verdict v;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		model_case(&c, "rmsnorm", "zero_centred_256", "f32");
		rows[i].spoil(&c);
		assert_false(judge(&c, &(struct judging){ 0 }, &v, &e));
		if (e.code != rows[i].code) fail_msg("row %zu: %s", i, error_message(e.code));
		capture_free(&c);
	}
	model_case(&c, "rmsnorm", "zero_centred_256", "f32");
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		assert_false(judge(&c, &ways[i].how, &v, &e));
		if (e.code != ways[i].code) fail_msg("way %zu: %s", i, error_message(e.code));
	}
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_changed_element_fails_and_is_named),
		cmocka_unit_test(near_a_limit_all_runs_decide),
		cmocka_unit_test(one_ulp_is_seen_by_excess_alone),
		cmocka_unit_test(a_copy_is_exact_or_wrong),
		cmocka_unit_test(truncation_fails_where_rounding_passes),
		cmocka_unit_test(a_reference_that_is_not_finite_decides_nothing),
		cmocka_unit_test(a_coarse_truth_climbs_or_decides_nothing),
		cmocka_unit_test(bad_calls_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
