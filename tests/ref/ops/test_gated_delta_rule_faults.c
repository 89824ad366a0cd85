#include <string.h>

#include "tests/ref/ops/gated_delta_rule_samples.h"

/* ---- faults and sites ---- */
static void no_g(struct capture *c) { put_all(c, "in.g", 0); }
static void no_A_log(struct capture *c) { put_all(c, "in.A_log", 0); }
static void no_bias(struct capture *c) { put_all(c, "in.dt_bias", 0); }
static void first_bias(struct capture *c) { put_all(c, "in.dt_bias", at(c, "in.dt_bias", 0)); }
static void no_state(struct capture *c) { put_all(c, "in.initial_state", 0); }
static void full_beta(struct capture *c) { put_all(c, "in.beta", 1); }

static void negate_g(struct capture *c)
{
	for (size_t i = 0; i < count(c, "in.g"); i++) put(c, "in.g", i, -at(c, "in.g", i));
}

static void double_beta(struct capture *c)
{
	for (size_t i = 0; i < count(c, "in.beta"); i++) put(c, "in.beta", i, 2 * at(c, "in.beta", i));
}

/* Of each sequence of `many`: the first token's g, the middle token's beta. */
static void first_g(struct capture *c)
{
	for (size_t n = 0; n < 4; n++)
		for (size_t h = 0; h < 3 && tokens(c, n, 9).first < 9; h++) put(c, "in.g", tokens(c, n, 9).first * 3 + h, 0);
}

static void middle_beta(struct capture *c)
{
	size_t middle = capture_in(c, "beta")->shape[0] / 2, heads = capture_in(c, "beta")->shape[1];

	for (size_t i = 0; i < heads; i++) put(c, "in.beta", middle * heads + i, 0);
}

static void state_before(struct capture *c)
{
	double x[96];

	for (size_t i = 0; i < 96; i++) x[i] = at(c, "in.initial_state", i);
	for (size_t i = 0; i < 96; i++) put(c, "in.initial_state", i, x[(i + 72) % 96]);
}

/* Every head's [3,5] block taken for [5,3]. */
static void state_turned(struct capture *c)
{
	double x[60];

	for (size_t i = 0; i < 60; i++) x[i] = at(c, "in.initial_state", i);
	for (size_t i = 0; i < 60; i++) put(c, "in.initial_state", i, x[i / 15 * 15 + i % 5 * 3 + i % 15 / 5]);
}

/* Tokens of [T,2Hv] = [b | a], flat, cut into b [T,Hv] and a [T,Hv]; T = 6, Hv = 4. */
static void split_gates(struct capture *c)
{
	double x[48];

	for (size_t i = 0; i < 48; i++) x[i] = at(c, i % 8 < 4 ? "in.b" : "in.a", i / 8 * 4 + i % 4);
	for (size_t i = 0; i < 48; i++) put(c, i < 24 ? "in.b" : "in.a", i % 24, x[i]);
}

/* Key heads 0 0 1 1 become 0 1 0 1: values, gates and states of heads 1 and 2 trade places (and so
 * would the outputs; see heads_tiled). */
static void heads_tiled(void **state)
{
	static const size_t to[] = { 0, 2, 1, 3 };
	struct plan tiled = plan_in("mpfr:128");
	struct capture a, b;
	struct outcome x, y;

	(void)state;
	made(&a, &raw, 7);
	made(&b, &raw, 7);
	for (size_t h = 0; h < 4; h++) {
		for (size_t t = 0; t < 6; t++) {
			for (size_t j = 0; j < 5; j++) put(&b, "in.v", (t * 4 + to[h]) * 5 + j, at(&a, "in.v", (t * 4 + h) * 5 + j));
			put(&b, "in.a", t * 4 + to[h], at(&a, "in.a", t * 4 + h));
			put(&b, "in.b", t * 4 + to[h], at(&a, "in.b", t * 4 + h));
		}
		put(&b, "in.A_log", to[h], at(&a, "in.A_log", h));
		put(&b, "in.dt_bias", to[h], at(&a, "in.dt_bias", h));
		for (size_t j = 0; j < 15; j++) put(&b, "in.initial_state", to[h] * 15 + j, at(&a, "in.initial_state", h * 15 + j));
	}
	plan_fault(&tiled, op_find(OP), HEAD_MAP_TILED);
	run_plan(&x, &a, &tiled);
	run_in(&y, &b, "mpfr:128");
	for (size_t i = 0; i < 120; i++)
		assert_true(x.a.hi[OUT_O][i] == y.a.hi[OUT_O][(i / 20 * 4 + to[i / 5 % 4]) * 5 + i % 5]);
	outcome_free(&x);
	outcome_free(&y);
	capture_free(&a);
	capture_free(&b);
}

/* Gates given, one key head, as many rows as columns. */
static const struct sample square = { OP, "{\"qk_l2norm\": true}",
	"in.q F32 5,1,4 ~0,1; in.k F32 5,1,4 ~0,1; in.v F32 5,2,4 ~0,1; in.g F32 5,2 =-0.5,-0.1,-2; in.beta F32 5,2 =0.9,0.3,0.7;"
	"in.initial_state F32 1,2,4,4 ~0,1" };

/* beta = tanh(b) = sigmoid(2b) 2 - 1 has no such input; it and the wrong turns inside a token are
 * held apart from each other by faults_show. */
static const struct same_as same[] = {
	{ "no_decay", &many, NULL, no_g, NULL },
	{ "decay_as_positive", &many, NULL, negate_g, NULL },
	{ "decay_without_A_log", &raw, NULL, no_A_log, NULL },
	{ "dt_bias_missing", &raw, NULL, no_bias, NULL },
	{ "dt_bias_first_element", &raw, NULL, first_bias, NULL },
	{ "initial_state_ignored", &many, NULL, no_state, NULL },
	{ "stale_initial_state", &many, NULL, state_before, NULL },
	{ "state_transposed_in", &raw, NULL, state_turned, NULL },
	{ "ba_layout_split", &raw, NULL, split_gates, NULL },
	{ "beta_doubled", &many, NULL, double_beta, NULL },
	{ "error_without_beta", &square, NULL, full_beta, NULL },
	{ "token_skipped", &many, NULL, middle_beta, NULL },
	{ "first_decay_skipped", &many, NULL, first_g, NULL },
	{ "scale_missing", &raw, "{\"qk_l2norm\": true, \"scale\": 1}", NULL, NULL },
	{ "scale_twice", &square, "{\"qk_l2norm\": true, \"scale\": 0.25}", NULL, NULL },
	{ "scale_from_dv", &overflowing, "{\"qk_l2norm\": true, \"scale\": 0.5}", NULL, NULL },
};

static void faults_are_what_they_say(void **state)
{
	(void)state;
	faults_are(same, LEN(same));
}

static void each_fault_shows(void **state)
{
	static struct sample all[6];

	(void)state;
	memcpy(all, (struct sample[]){ raw, overflowing, many, lengthy, small_keys, square }, sizeof all);
	faults_show(all, LEN(all));
}

/* How far the two forms' answers are apart under these faults; in chunks of `length`. */
static double forms_apart(const struct capture *c, const struct outcome *token, uint64_t faults, size_t length)
{
	struct plan p = plan_in("mpfr:128");
	struct outcome chunk;

	p.form = FORM_CHUNK;
	p.chunk = length;
	p.faults = faults;
	run_plan(&chunk, c, &p);
	double d = distance(token, &chunk);
	outcome_free(&chunk);
	return d;
}

/* faults[a] and [b] in both forms, whose answers are the same in exact arithmetic; 2^-106 each is
 * from reading hi + lo. */
static void expect_forms_agree(const struct capture *c, int a, int b, const size_t *lengths)
{
	const struct fault_spec *m = op_find(OP)->faults;
	struct plan p = plan_in("mpfr:128");
	struct outcome token;

	p.faults = UINT64_C(1) << a | UINT64_C(1) << b;
	run_plan(&token, c, &p);
	for (; *lengths; lengths++) {
		double d = forms_apart(c, &token, p.faults, *lengths);
		if (!(d <= 0x1p-100)) fail_msg("%s with %s, chunks of %zu: %g apart", m[a].name, m[b].name, *lengths, d);
	}
	outcome_free(&token);
}

/* One fault at a time over several chunks and a tail, two at a time over a few tokens. */
static void both_forms_make_them(void **state)
{
	static const struct sample *const samples[] = { &lengthy, &raw, &many, &square };
	static const size_t lengths[][4] = { { 64, 16, 37, 0 }, { 4, 64, 0 }, { 2, 0 }, { 3, 0 } };
	const struct fault_spec *m = op_find(OP)->faults;

	(void)state;
	for (size_t i = 0; i < LEN(samples); i++) {
		struct capture c;
		made(&c, samples[i], 17);
		for (int a = 0; m[a].name; a++)
			for (int b = i ? 0 : a; b <= a && m[a].form < 0; b++)
				if (m[b].form < 0) expect_forms_agree(&c, a, b, lengths[i]);
		capture_free(&c);
	}
}

static void each_site_shows(void **state)
{
	(void)state;
	sites_show((struct sample[]){ raw, lengthy }, 2, 32);
}

static void sites_are_where_they_say(void **state)
{
	static const struct rounded_as r[] = {
		{ "A_log", &raw, "in.A_log" }, { "dt_bias", &raw, "in.dt_bias" }, { "g", &many, "in.g" },
		{ "beta", &many, "in.beta" }, { "o", &raw, "out.o" }, { "final_state", &raw, "out.final_state" },
	};

	(void)state;
	sites_are(r, LEN(r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_what_they_say),
		cmocka_unit_test(heads_tiled),
		cmocka_unit_test(each_fault_shows),
		cmocka_unit_test(both_forms_make_them),
		cmocka_unit_test(each_site_shows),
		cmocka_unit_test(sites_are_where_they_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
