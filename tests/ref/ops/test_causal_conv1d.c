#include <arb_poly.h>
#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define OP "causal_conv1d"
#define LEN(a) (sizeof(a) / sizeof *(a))

/* Four sequences of 4, 0, 1 and 6 tokens: two of them shorter than W-1. */
static const struct sample all = { OP, "{\"activation\": \"silu\"}",
	"in.x F32 11,3 ~0,1; in.weight F32 3,4 ~0,1; in.bias F32 3 ~0,1; in.initial_state F32 4,3,3 ~0,1;"
	"in.cu_seqlens I64 5 =0,4,4,5,11; out.final_state F32 4,3,3" };
static const struct sample bare = { OP, "{}", "in.x BF16 5,2 ~0,1; in.weight F16 2,3 ~0,1; out.final_state F32 1,2,2" };
static const struct sample one_tap = { OP, "{\"activation\": \"silu\"}", "in.x F32 4,2 ~0,4; in.weight F64 2,1 ~0,9; in.bias F32 2 ~0,1" };
static const struct sample two_taps = { OP, "{\"activation\": \"none\"}",
	"in.x F32 5,2 ~0,1; in.weight F32 2,2 ~0,1; in.initial_state F32 2,2,1 ~0,1; in.cu_seqlens I32 3 =0,1,5; out.final_state F32 2,2,1" };
static const struct sample short_call = { OP, "{}",
	"in.x F32 2,2 ~0,1; in.weight F32 2,4 ~0,1; in.initial_state F32 1,2,3 ~0,1; out.final_state F32 1,2,3" };

/* ---- the witness ---- */

/* Channel ch of sequence n: the product of the polynomials of [history | x] and of the taps,
 * newest first; coefficient t + W - 1 is the sum for token t. */
static void ball_channel(const struct capture *c, size_t n, size_t ch, arb_ptr y, arb_ptr history)
{
	size_t C = extent(c, "in.x", 1), H = extent(c, "in.weight", 1) - 1;
	span s = tokens(c, n, extent(c, "in.x", 0));
	arb_poly_t in, taps, product;
	arb_t x;

	arb_poly_init(in);
	arb_poly_init(taps);
	arb_poly_init(product);
	arb_init(x);
	for (size_t j = 0; j < H + s.last - s.first; j++) {
		if (j >= H) arb_set_d(x, at(c, "in.x", (s.first + j - H) * C + ch));
		else if (capture_in(c, "initial_state")) arb_set_d(x, at(c, "in.initial_state", (n * C + ch) * H + j));
		else arb_zero(x);
		arb_poly_set_coeff_arb(in, (slong)j, x);
	}
	for (size_t j = 0; j <= H; j++) {
		arb_set_d(x, at(c, "in.weight", ch * (H + 1) + H - j));
		arb_poly_set_coeff_arb(taps, (slong)j, x);
	}
	arb_poly_mul(product, in, taps, BALL);
	for (size_t t = s.first; t < s.last; t++) {
		arb_ptr out = y + t * C + ch;
		arb_poly_get_coeff_arb(out, product, (slong)(t - s.first + H));
		arb_set_d(x, capture_in(c, "bias") ? at(c, "in.bias", ch) : 0);
		arb_add(out, out, x, BALL);
		if (capture_string(c, "activation", "none")[0] == 'n') continue;
		arb_exp(x, out, BALL);
		arb_mul(out, out, x, BALL);
		arb_add_ui(x, x, 1, BALL);
		arb_div(out, out, x, BALL);
	}
	for (size_t j = 0; j < H; j++) arb_poly_get_coeff_arb(history + (n * C + ch) * H + j, in, (slong)(s.last - s.first + j));
	arb_poly_clear(in);
	arb_poly_clear(taps);
	arb_poly_clear(product);
	arb_clear(x);
}

static void equals_the_polynomial_product(void **state)
{
	static const struct sample *const samples[] = { &all, &bare, &one_tap, &two_taps, &short_call };

	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 41);
		run_in(&r, &c, "mpfr:128");
		size_t n = count(&c, "in.x"), C = extent(&c, "in.x", 1), H = extent(&c, "in.weight", 1) - 1;
		size_t N = capture_in(&c, "cu_seqlens") ? count(&c, "in.cu_seqlens") - 1 : 1;
		arb_ptr y = _arb_vec_init((slong)n), history = _arb_vec_init((slong)(N * C * H));
		for (size_t i = 0; i < N * C; i++) ball_channel(&c, i / C, i % C, y, history);
		assert_balls(&r, 0, y, n, C);
		if (H) assert_balls(&r, 1, history, N * C * H, 1);
		_arb_vec_clear(y, (slong)n);
		_arb_vec_clear(history, (slong)(N * C * H));
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

/* ---- laws ---- */
static const char *const names[] = { "f32", "f64", "mpfr:128" };

/* 7 tokens, as 1 + 6 and 5 + 2: the history handed on is the only link. */
static void two_calls_equal_one(void **state)
{
	static const struct sample whole = { OP, "{\"activation\": \"silu\"}",
		"in.x F32 7,2 ~0,1; in.weight F32 2,4 ~0,1; in.bias F32 2 ~0,1; in.initial_state F32 1,2,3 ~0,1; out.final_state F32 1,2,3" };
	static const char *const lengths[] = { "in.x F32 1,2;", "in.x F32 6,2;", "in.x F32 5,2;", "in.x F32 2,2;" };

	(void)state;
	for (size_t k = 0; k < 2 * LEN(names); k++) {
		struct capture a, c[2];
		struct outcome r, p[2];
		made(&a, &whole, 1);
		run_in(&r, &a, names[k / 2]);
		for (size_t i = 0, t0 = 0; i < 2; t0 += extent(&c[i], "in.x", 0), i++) {
			char text[256];
			snprintf(text, sizeof text, "%s %s", lengths[k % 2 * 2 + i], strchr(whole.tensors, ';') + 1);
			made(&c[i], &(struct sample){ OP, whole.params, text }, 1);
			for (size_t j = 0; j < count(&c[i], "in.x"); j++) put(&c[i], "in.x", j, at(&a, "in.x", t0 * 2 + j));
			for (size_t j = 0; j < 6 && i; j++) put(&c[1], "in.initial_state", j, p[0].a.hi[1][j]);
			run_in(&p[i], &c[i], names[k / 2]);
			for (size_t j = 0; j < count(&c[i], "in.x"); j++) assert_true(p[i].a.hi[0][j] == r.a.hi[0][t0 * 2 + j]);
		}
		for (size_t j = 0; j < 6; j++) assert_true(p[1].a.hi[1][j] == r.a.hi[1][j]);
		for (size_t i = 0; i < 2; i++) {
			outcome_free(&p[i]);
			capture_free(&c[i]);
		}
		outcome_free(&r);
		capture_free(&a);
	}
}

/* Without history, x one token later gives y one token later. */
static void shifts(void **state)
{
	static const struct sample s = { OP, "{\"activation\": \"silu\"}", "in.x F32 6,3 ~0,1; in.weight F32 3,4 ~0,1; out.final_state F32 1,3,3" };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, &s, 2);
		made(&b, &s, 2);
		for (size_t i = 0; i < 18; i++) put(&b, "in.x", i, i < 3 ? 0 : at(&a, "in.x", i - 3));
		run_in(&x, &a, names[k]);
		run_in(&y, &b, names[k]);
		for (size_t i = 3; i < 18; i++) assert_true(y.a.hi[0][i] == x.a.hi[0][i - 3]);
		for (size_t ch = 0; ch < 3; ch++) {
			assert_true(y.a.hi[0][ch] == 0);
			assert_true(y.a.hi[1][ch * 3 + 2] == x.a.hi[1][ch * 3 + 1] && y.a.hi[1][ch * 3 + 1] == x.a.hi[1][ch * 3]);
		}
		outcome_free(&x);
		outcome_free(&y);
		capture_free(&a);
		capture_free(&b);
	}
}

/* Without bias and activation: x + x' gives y + y'. Inputs are multiples of 1/256 below 16, so that
 * sums are exact; W products and sums, noisy at 2^-23 each. */
static void is_linear(void **state)
{
	static const struct sample s = { OP, "{}", "in.x F32 6,3 ~0,1; in.weight F32 3,4 ~0,1" };
	static const struct { const char *arith; double unit; } every[] = {
		{ "f32", 0x1p-24 }, { "f64", 0x1p-53 }, { "mpfr:128", 0x1p-52 }, { "noisy", 0x1p-23 } };

	(void)state;
	for (size_t k = 0; k < LEN(every); k++) {
		struct capture c[3];
		struct outcome r[3];
		for (size_t i = 0; i < 3; i++) made(&c[i], &s, 3 + i);
		for (size_t i = 0; i < 12; i++) {
			put(&c[1], "in.weight", i, at(&c[0], "in.weight", i));
			put(&c[2], "in.weight", i, at(&c[0], "in.weight", i));
		}
		for (size_t i = 0; i < 18; i++) {
			double x = rint(256 * at(&c[0], "in.x", i)) / 256, y = rint(256 * at(&c[1], "in.x", i)) / 256;
			put(&c[0], "in.x", i, x);
			put(&c[1], "in.x", i, y);
			put(&c[2], "in.x", i, x + y);
		}
		for (size_t i = 0; i < 3; i++) run_in(&r[i], &c[i], every[k].arith);
		for (size_t i = 0; i < 18; i++)
			assert_true(fabs(r[0].a.hi[0][i] + r[1].a.hi[0][i] - r[2].a.hi[0][i]) <= 3 * 9 * 4 * every[k].unit);
		for (size_t i = 0; i < 3; i++) {
			outcome_free(&r[i]);
			capture_free(&c[i]);
		}
	}
}

/* ---- faults and sites ---- */
static void reversed(struct capture *c)
{
	double w[12];

	for (size_t i = 0; i < 12; i++) w[i] = at(c, "in.weight", i);
	for (size_t i = 0; i < 12; i++) put(c, "in.weight", i, w[i / 4 * 4 + 3 - i % 4]);
}

static void no_bias(struct capture *c) { put_all(c, "in.bias", 0); }
static void no_history(struct capture *c) { put_all(c, "in.initial_state", 0); }

/* The history of `leaky`'s second sequence becomes the first one's last tokens. */
static const struct sample leaky = { OP, "{\"activation\": \"silu\"}",
	"in.x F32 7,2 ~0,1; in.weight F32 2,4 ~0,1; in.bias F32 2 ~1,1; in.initial_state F32 2,2,3 ~0,1;"
	"in.cu_seqlens I32 3 =0,3,7; out.final_state F32 2,2,3" };
static void leak(struct capture *c)
{
	for (size_t i = 0; i < 6; i++) put(c, "in.initial_state", 6 + i, at(c, "in.x", i % 3 * 2 + i / 3));
}

static const struct same_as same[] = {
	{ "taps_reversed", &all, NULL, reversed, NULL },
	{ "bias_missing", &all, NULL, no_bias, NULL },
	{ "no_activation", &leaky, "{\"activation\": \"none\"}", NULL, NULL },
	{ "zero_history", &leaky, NULL, no_history, NULL },
	{ "leaks_across_sequences", &leaky, NULL, leak, NULL },
};

static void faults_are_what_they_say(void **state)
{
	(void)state;
	faults_are(same, LEN(same));
}

/* Of a call of 2 tokens, W = 4 and no activation, what is left behind: inputs -1, 0 and 1; y is the
 * plain one. Each row says which value stands in columns 0, 1, 2: 'h' and a number for a column of
 * the initial state, 'x' or 'y' and a number for a token of it, '0' for zero. */
static void what_is_left_behind(void **state)
{
	static const struct { const char *fault, *columns; } rows[] = {
		{ NULL, "h2x0x1" }, { "short_chunk_history", "0_x0x1" }, { "ring_off_by_one", "h1h2x0" },
		{ "history_after_convolution", "h2y0y1" }, { "history_from_padded_end", "0_0_0_" },
	};
	struct capture c;
	struct outcome plain, r;

	(void)state;
	made(&c, &short_call, 5);
	run_in(&plain, &c, "f64");
	for (size_t k = 0; k < LEN(rows); k++) {
		struct plan p = plan_in("f64");
		if (rows[k].fault) plan_fault(&p, op_find(OP), op_fault(op_find(OP), rows[k].fault));
		run_plan(&r, &c, &p);
		assert_true(distance_of(&plain, &r, 0) == 0);
		for (size_t i = 0; i < 6; i++) {
			const char *w = rows[k].columns + 2 * (i % 3);
			size_t n = (size_t)(w[1] - '0'), ch = i / 3;
			double want = *w == 'h' ? at(&c, "in.initial_state", ch * 3 + n) : *w == 'x' ? at(&c, "in.x", n * 2 + ch)
				: *w == 'y' ? plain.a.hi[0][n * 2 + ch] : 0;
			if (r.a.hi[1][i] != want) fail_msg("%s: %g at %zu, expected %g", rows[k].fault, r.a.hi[1][i], i, want);
		}
		outcome_free(&r);
	}
	outcome_free(&plain);
	capture_free(&c);
}

/* With the activation, the history is silu of the last inputs. */
static void history_after_activation(void **state)
{
	struct capture c;
	struct outcome r;
	struct plan p = plan_in("f64");

	(void)state;
	made(&c, &leaky, 5);
	plan_fault(&p, op_find(OP), op_fault(op_find(OP), "history_after_activation"));
	run_plan(&r, &c, &p);
	for (size_t i = 0; i < 12; i++) {
		double x = at(&c, "in.x", ((i < 6 ? 0 : 4) + i % 3) * 2 + i / 3 % 2);
		assert_true(fabs(r.a.hi[1][i] - x * (1 + tanh(x / 2)) / 2) <= 4 * 0x1p-52 * fabs(x));
	}
	outcome_free(&r);
	capture_free(&c);
}

static void each_fault_shows(void **state)
{
	(void)state;
	faults_show((struct sample[]){ all, bare, short_call, leaky }, 4);
}

static void sites(void **state)
{
	static const struct rounded_as r[] = { { "y", &all, "out.y" }, { "conv", &bare, "out.y" } };

	(void)state;
	sites_show((struct sample[]){ all, bare }, 2, 0);
	sites_are(r, LEN(r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_polynomial_product),
		cmocka_unit_test(two_calls_equal_one),
		cmocka_unit_test(shifts),
		cmocka_unit_test(is_linear),
		cmocka_unit_test(faults_are_what_they_say),
		cmocka_unit_test(what_is_left_behind),
		cmocka_unit_test(history_after_activation),
		cmocka_unit_test(each_fault_shows),
		cmocka_unit_test(sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
