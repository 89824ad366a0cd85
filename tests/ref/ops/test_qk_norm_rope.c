#include <acb.h>
#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define OP "qk_norm_rope"
#define LEN(a) (sizeof(a) / sizeof *(a))
#define TENSORS(T, Hq, E, Hk, D, type, deviation, positions) \
	"in.qg " type " " T "," Hq "," E " ~0," deviation "; in.k " type " " T "," Hk "," D " ~0," deviation \
	"; in.q_weight " type " " D " ~0,0.3; in.k_weight " type " " D " ~0,0.3; in.positions I32 " T " =" positions

static const struct sample partial = { OP, "{\"rotary_dim\": 6, \"theta\": 10000000}",
	TENSORS("4", "2", "32", "1", "16", "F32", "1", "131071,0,5,77") };
static const struct sample full = { OP, "{\"rotary_dim\": 8, \"theta\": 1000000, \"eps\": 0.001}",
	TENSORS("3", "1", "16", "3", "8", "BF16", "1", "3,131071,0") };
/* Heads whose mean square is far below and about eps. */
static const struct sample tiny = { OP, "{\"rotary_dim\": 2, \"theta\": 500000.5}",
	TENSORS("3", "2", "20", "2", "10", "F32", "0.001", "9,4096,1") };
static const struct sample *const samples[] = { &partial, &full, &tiny };

/* ---- the witness ---- */

/* y [D]: x (1 + w) sqrt(D / (sum x^2 + D eps)), then pair i times e^(i position theta^(-2i / rotary)). */
static void ball_head(const struct capture *c, const char *name, const char *weight, size_t at_x, size_t t, size_t D, arb_ptr y)
{
	size_t rotary = (size_t)capture_number(c, "rotary_dim", 0);
	acb_t z, e;
	arb_t s;

	acb_init(z), acb_init(e), arb_init(s);
	arb_set_d(s, capture_number(c, "eps", 1e-6));
	arb_mul_ui(s, s, D, BALL);
	for (size_t i = 0; i < D; i++) {
		arb_set_d(y + i, at(c, name, at_x + i));
		arb_addmul(s, y + i, y + i, BALL);
	}
	arb_ui_div(s, D, s, BALL);
	arb_sqrt(s, s, BALL);
	for (size_t i = 0; i < D; i++) {
		arb_mul(y + i, y + i, s, BALL);
		arb_set_d(acb_realref(z), at(c, weight, i));
		arb_addmul(y + i, y + i, acb_realref(z), BALL);
	}
	for (size_t i = 0; i < rotary / 2; i++) {
		arb_ptr x1 = y + i, x2 = y + i + rotary / 2;
		acb_zero(e);
		arb_set_d(acb_imagref(e), capture_number(c, "theta", 0));
		arb_log(acb_imagref(e), acb_imagref(e), BALL);
		arb_mul_si(acb_imagref(e), acb_imagref(e), -2 * (slong)i, BALL);
		arb_div_ui(acb_imagref(e), acb_imagref(e), rotary, BALL);
		arb_exp(acb_imagref(e), acb_imagref(e), BALL);
		arb_mul_ui(acb_imagref(e), acb_imagref(e), (ulong)at(c, "in.positions", t), BALL);
		acb_exp(e, e, BALL);
		acb_set_arb_arb(z, x1, x2);
		acb_mul(z, z, e, BALL);
		arb_set(x1, acb_realref(z));
		arb_set(x2, acb_imagref(z));
	}
	acb_clear(z), acb_clear(e), arb_clear(s);
}

static void equals_the_complex_product(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 41);
		run_in(&r, &c, "mpfr:128");
		size_t T = extent(&c, "in.k", 0), Hq = extent(&c, "in.qg", 1), Hk = extent(&c, "in.k", 1), D = extent(&c, "in.k", 2);
		arb_ptr q = _arb_vec_init((slong)(T * Hq * D)), y = _arb_vec_init((slong)(T * Hk * D));
		for (size_t row = 0; row < T * Hq; row++) ball_head(&c, "in.qg", "in.q_weight", row * 2 * D, row / Hq, D, q + row * D);
		for (size_t row = 0; row < T * Hk; row++) ball_head(&c, "in.k", "in.k_weight", row * D, row / Hk, D, y + row * D);
		assert_balls(&r, 0, q, T * Hq * D, D);
		assert_balls(&r, 1, y, T * Hk * D, D);
		for (size_t i = 0; i < T * Hq * D; i++) assert_true(r.a.hi[2][i] == at(&c, "in.qg", i / D * 2 * D + D + i % D));
		_arb_vec_clear(q, (slong)(T * Hq * D));
		_arb_vec_clear(y, (slong)(T * Hk * D));
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

/* ---- laws ---- */

/* Bit for bit the op rmsnorm and then the op rope, of k: float32 inputs and no rounding but the arithmetic's own. */
static void is_norm_then_rope(void **state)
{
	static const char *const names[] = { "f32", "f64", "mpfr:128" };
	static const struct sample norm = { "rmsnorm", "{\"weight_offset\": 1}", "in.x F32 4,16; in.weight F32 16" };
	static const struct sample turn = { "rope", "{\"rotary_dim\": 6, \"theta\": 10000000}", "in.x F64 4,1,16; in.positions I32 4" };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture c, n, t;
		struct outcome all, first, second;
		made(&c, &partial, 3);
		made(&n, &norm, 3);
		made(&t, &turn, 3);
		for (size_t i = 0; i < 64; i++) put(&n, "in.x", i, at(&c, "in.k", i));
		for (size_t i = 0; i < 16; i++) put(&n, "in.weight", i, at(&c, "in.k_weight", i));
		for (size_t i = 0; i < 4; i++) put(&t, "in.positions", i, at(&c, "in.positions", i));
		run_in(&all, &c, names[k]);
		run_in(&first, &n, names[k]);
		for (size_t i = 0; i < 64; i++) put(&t, "in.x", i, first.a.hi[0][i]);
		run_in(&second, &t, names[k]);
		for (size_t i = 0; i < 64; i++) {
			double d = fabs(all.a.hi[1][i] - second.a.hi[0][i]);
			assert_true(k == 2 ? d <= 0x1p-51 : d == 0);     /* mpfr handed on as F64 */
		}
		outcome_free(&all), outcome_free(&first), outcome_free(&second);
		capture_free(&c), capture_free(&n), capture_free(&t);
	}
}

/* ---- faults and sites ---- */
static void index_in_call(struct capture *c)
{
	for (size_t t = 0; t < count(c, "in.positions"); t++) put(c, "in.positions", t, (double)t);
}

static void negative(struct capture *c)
{
	for (size_t t = 0; t < count(c, "in.positions"); t++) put(c, "in.positions", t, -at(c, "in.positions", t));
}

static void weights_exchanged(struct capture *c)
{
	for (size_t i = 0; i < count(c, "in.q_weight"); i++) {
		double w = at(c, "in.q_weight", i);
		put(c, "in.q_weight", i, at(c, "in.k_weight", i));
		put(c, "in.k_weight", i, w);
	}
}

static void halves_exchanged(struct capture *c)
{
	size_t D = extent(c, "in.k", 2);

	for (size_t i = 0; i < count(c, "in.qg"); i++) {
		if (i % (2 * D) >= D) continue;
		double x = at(c, "in.qg", i);
		put(c, "in.qg", i, at(c, "in.qg", i + D));
		put(c, "in.qg", i + D, x);
	}
}

/* [2,H,D] of each token becomes [H,2,D]. */
static void heads_gathered(struct capture *c)
{
	size_t D = extent(c, "in.k", 2), H = extent(c, "in.qg", 1), n = 2 * H * D;
	double old[64];

	assert_true(n <= LEN(old));
	for (size_t t = 0; t < extent(c, "in.qg", 0); t++) {
		for (size_t i = 0; i < n; i++) old[i] = at(c, "in.qg", t * n + i);
		for (size_t i = 0; i < n; i++) put(c, "in.qg", t * n + i / D % H * 2 * D + i / D / H * D + i % D, old[i]);
	}
}

static const struct same_as same[] = {
	{ "gate_and_query_swapped", &partial, NULL, halves_exchanged, NULL },
	{ "gates_after_all_heads", &partial, NULL, heads_gathered, NULL },
	{ "weights_swapped", &partial, NULL, weights_exchanged, NULL },
	{ "eps_missing", &tiny, "{\"rotary_dim\": 2, \"theta\": 500000.5, \"eps\": 0}", NULL, NULL },
	{ "eps_wrong(1e-5)", &tiny, "{\"rotary_dim\": 2, \"theta\": 500000.5, \"eps\": 1e-5}", NULL, NULL },
	{ "rotates_all_dims", &partial, "{\"rotary_dim\": 16, \"theta\": 10000000}", NULL, NULL },
	{ "theta_wrong(1e4)", &partial, "{\"rotary_dim\": 6, \"theta\": 10000}", NULL, NULL },
	{ "decode_position_off", &partial, NULL, index_in_call, NULL },
	{ "turns_backwards", &full, NULL, negative, NULL },
};

static void faults_are_what_they_say(void **state)
{
	(void)state;
	faults_are(same, LEN(same));
}

static void each_fault_shows(void **state)
{
	(void)state;
	faults_show((struct sample[]){ partial, full, tiny }, 3);
}

static void sites(void **state)
{
	static const struct rounded_as r[] = {
		{ "positions", &partial, "in.positions" }, { "q", &partial, "out.q" }, { "k", &partial, "out.k" }
	};

	(void)state;
	sites_show((struct sample[]){ partial, tiny }, 2, 0);
	sites_are(r, LEN(r));
}

/* Refused: rows of qg that are not a query and a gate; parameters out of range. */
static void refusals(void **state)
{
#define USUAL TENSORS("2", "1", "32", "1", "16", "F32", "1", "0")
	static const struct { struct sample s; const char *said; } bad[] = {
		{ { OP, "{\"rotary_dim\": 6, \"theta\": 1e4}", TENSORS("2", "1", "31", "1", "16", "F32", "1", "0") }, "rows of 2 D in in.qg" },
		{ { OP, "{\"rotary_dim\": 5, \"theta\": 1e4}", USUAL }, "an even rotary_dim" },
		{ { OP, "{\"rotary_dim\": 18, \"theta\": 1e4}", USUAL }, "an even rotary_dim" },
		{ { OP, "{\"rotary_dim\": 6, \"theta\": 0}", USUAL }, "a positive theta" },
		{ { OP, "{\"rotary_dim\": 6, \"theta\": 1, \"eps\": -1}", USUAL }, "an eps of 0 or more" },
	};

	(void)state;
	for (size_t k = 0; k < LEN(bad); k++) {
		struct capture c;
		struct call call;
		struct error e = { 0 };
		made(&c, &bad[k].s, 1);
		assert_false(call_bind(&call, &c, false, &e));
		assert_int_equal(e.code, E_VALUE);
		assert_string_equal(e.item, OP);
		assert_non_null(strstr(e.detail, bad[k].said));
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_complex_product), cmocka_unit_test(is_norm_then_rope),
		cmocka_unit_test(faults_are_what_they_say), cmocka_unit_test(each_fault_shows),
		cmocka_unit_test(sites), cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
