#include <acb.h>
#include <math.h>

#include "tests/witness.h"

#define OP "rope"
#define LEN(a) (sizeof(a) / sizeof *(a))

static const struct sample half = { OP, "{\"rotary_dim\": 8, \"theta\": 10000000}",
	"in.x F32 5,2,8 ~0,1; in.positions I64 5 =0,1,77,4096,131071" };
static const struct sample half_partial = { OP, "{\"rotary_dim\": 6, \"theta\": 10000, \"layout\": \"half\"}",
	"in.x BF16 3,2,16 ~0,1; in.positions I32 3 =131071,0,5" };
static const struct sample interleaved = { OP, "{\"rotary_dim\": 8, \"theta\": 1000000, \"layout\": \"interleaved\"}",
	"in.x F32 4,1,8 ~0,1; in.positions I32 4 =131071,3,0,1000" };
static const struct sample interleaved_partial = { OP, "{\"rotary_dim\": 4, \"theta\": 500000.5, \"layout\": \"interleaved\"}",
	"in.x F64 3,3,11 ~0,1; in.positions I64 3 =9,131071,0" };
static const struct sample two = { OP, "{\"rotary_dim\": 2, \"theta\": 10000}", "in.x F32 2,1,2 ~0,1; in.positions I32 2 =1,131071" };
static const struct sample *const samples[] = { &half, &half_partial, &interleaved, &interleaved_partial, &two };

/* ---- the witness ---- */

/* Pair i of a row becomes (x1 + i x2) e^(i position e^(-2i log(theta) / rotary_dim)). */
static void ball_pair(const struct capture *c, size_t t, size_t i, size_t rotary, arb_t x1, arb_t x2)
{
	acb_t z, e;

	acb_init(z);
	acb_init(e);
	arb_set_d(acb_imagref(e), capture_number(c, "theta", 0));
	arb_log(acb_imagref(e), acb_imagref(e), BALL);
	arb_mul_ui(acb_imagref(e), acb_imagref(e), 2 * i, BALL);
	arb_div_ui(acb_imagref(e), acb_imagref(e), rotary, BALL);
	arb_neg(acb_imagref(e), acb_imagref(e));
	arb_exp(acb_imagref(e), acb_imagref(e), BALL);
	arb_mul_ui(acb_imagref(e), acb_imagref(e), (ulong)at(c, "in.positions", t), BALL);
	acb_exp(e, e, BALL);
	acb_set_arb_arb(z, x1, x2);
	acb_mul(z, z, e, BALL);
	arb_set(x1, acb_realref(z));
	arb_set(x2, acb_imagref(z));
	acb_clear(z);
	acb_clear(e);
}

static void equals_the_complex_product(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 31);
		run_in(&r, &c, "mpfr:128");
		size_t n = count(&c, "in.x"), H = extent(&c, "in.x", 1), D = extent(&c, "in.x", 2);
		size_t rotary = (size_t)capture_number(&c, "rotary_dim", 0);
		bool near = capture_string(&c, "layout", "half")[0] == 'i';
		arb_ptr y = _arb_vec_init((slong)n);
		for (size_t i = 0; i < n; i++) arb_set_d(y + i, at(&c, "in.x", i));
		for (size_t row = 0; row < n / D; row++)
			for (size_t i = 0; i < rotary / 2; i++)
				ball_pair(&c, row / H, i, rotary, y + row * D + (near ? 2 * i : i), y + row * D + (near ? 2 * i + 1 : i + rotary / 2));
		assert_balls(&r, 0, y, n, D);
		_arb_vec_clear(y, (slong)n);
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

/* ---- laws ---- */
static const struct { const char *arith; double unit; } every[] = {
	{ "f32", 0x1p-24 }, { "f64", 0x1p-53 }, { "mpfr:128", 0x1p-53 }, { "noisy", 0x1p-23 },
};

/* Position 0 copies, and so do dimensions that do not turn (F32 inputs are exact in every arithmetic). */
static void copies_what_does_not_turn(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(every); k++) {
		for (size_t m = 0; m < LEN(samples); m++) {
			struct capture c;
			struct outcome r;
			if (samples[m] == &interleaved_partial && every[k].unit > 0x1p-53) continue;
			made(&c, samples[m], 1);
			run_in(&r, &c, every[k].arith);
			size_t D = extent(&c, "in.x", 2), per_token = D * extent(&c, "in.x", 1), copied = 0;
			for (size_t i = 0; i < count(&c, "in.x"); i++) {
				bool still = at(&c, "in.positions", i / per_token) == 0 || i % D >= (size_t)capture_number(&c, "rotary_dim", 0);
				if (still) assert_true(r.a.hi[0][i] == at(&c, "in.x", i));
				copied += still;
			}
			assert_true(copied > 0 || samples[m] == &two);
			outcome_free(&r);
			capture_free(&c);
		}
	}
}

/* |y1 + i y2| = |x1 + i x2|: 3 roundings of each product, 2 of cos and sin, and the sum's. */
static void keeps_the_norm(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(every); k++) {
		struct capture c;
		struct outcome r;
		made(&c, &half, 2);
		run_in(&r, &c, every[k].arith);
		for (size_t i = 0; i < 80; i++) {
			if (i % 8 >= 4) continue;
			double before = hypot(at(&c, "in.x", i), at(&c, "in.x", i + 4)), after = hypot(r.a.hi[0][i], r.a.hi[0][i + 4]);
			assert_true(fabs(after - before) <= 8 * every[k].unit * before);
		}
		outcome_free(&r);
		capture_free(&c);
	}
}

/* Turned by p, then by -p: angles are each other's negatives to the bit, so about 10 roundings of
 * numbers below 4 are left. noisy draws each angle anew, with 45 units of relative error: 3 of the
 * exponent, times log(theta) < 17 and an exponent below 0.75, 5 of the power, 3 and 1. */
static void turns_back(void **state)
{
	static const struct sample wide[] = {
		{ OP, "{\"rotary_dim\": 8, \"theta\": 10000000}", "in.x F64 5,2,8 ~0,1; in.positions I64 5 =0,1,77,4096,131071" },
		{ OP, "{\"rotary_dim\": 6, \"theta\": 10000, \"layout\": \"interleaved\"}", "in.x F64 5,2,8 ~0,1; in.positions I64 5 =2,131071,9" },
	};

	(void)state;
	for (size_t k = 0; k < LEN(every); k++) {
		for (size_t m = 0; m < LEN(wide); m++) {
			struct capture c, back;
			struct outcome r, y;
			made(&c, &wide[m], m);
			made(&back, &wide[m], m);
			run_in(&r, &c, every[k].arith);
			for (size_t i = 0; i < 80; i++) put(&back, "in.x", i, r.a.hi[0][i]);
			for (size_t t = 0; t < 5; t++) put(&back, "in.positions", t, -at(&c, "in.positions", t));
			run_in(&y, &back, every[k].arith);
			for (size_t i = 0; i < 80; i++) {
				double p = at(&c, "in.positions", i / 16);
				assert_true(fabs(y.a.hi[0][i] - at(&c, "in.x", i)) <= ((k == 3 ? 4 * 90 * p : 0) + 40) * every[k].unit);
			}
			outcome_free(&r);
			outcome_free(&y);
			capture_free(&c);
			capture_free(&back);
		}
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

static const struct same_as same[] = {
	{ "rotates_all_dims", &half_partial, "{\"rotary_dim\": 16, \"theta\": 10000}", NULL, NULL },
	{ "interleaved_for_half", &half_partial, "{\"rotary_dim\": 6, \"theta\": 10000, \"layout\": \"interleaved\"}", NULL, NULL },
	{ "half_for_interleaved", &interleaved, "{\"rotary_dim\": 8, \"theta\": 1000000, \"layout\": \"half\"}", NULL, NULL },
	{ "theta_wrong(1e4)", &half, "{\"rotary_dim\": 8, \"theta\": 10000}", NULL, NULL },
	{ "theta_wrong(1e6)", &half, "{\"rotary_dim\": 8, \"theta\": 1000000}", NULL, NULL },
	{ "decode_position_off", &half, NULL, index_in_call, NULL },
	{ "turns_backwards", &interleaved, NULL, negative, NULL },
};

static void faults_are_what_they_say(void **state)
{
	(void)state;
	faults_are(same, LEN(same));
}

/* theta^(-2i/D) with D = 16, rotary_dim = 4 is (theta^(1/4))^(-2i/4): theta = 10^4 becomes 10. */
static void exponent_over_head_dim(void **state)
{
	static const struct sample quarter = { OP, "{\"rotary_dim\": 4, \"theta\": 10000}",
		"in.x F32 3,2,16 ~0,1; in.positions I32 3 =3,0,50" };
	static const struct same_as m[] = { { "exponent_over_head_dim", &quarter, "{\"rotary_dim\": 4, \"theta\": 10}", NULL, NULL } };

	(void)state;
	faults_are(m, 1);
}

/* The wrong dimensions turn: x1 and x2 of pair i of half_partial (D = 16, rotary_dim = 6). */
static void wrong_dimensions(void **state)
{
	static const struct { const char *fault; size_t first, apart; } rows[] = { { "pairs_half_head_dim", 0, 8 }, { "rotates_the_tail", 10, 3 } };
	struct capture c;

	(void)state;
	made(&c, &half_partial, 1);
	for (size_t k = 0; k < LEN(rows); k++) {
		struct plan p = plan_in("f64");
		struct outcome r;
		plan_fault(&p, op_find(OP), op_fault(op_find(OP), rows[k].fault));
		run_plan(&r, &c, &p);
		for (size_t row = 0; row < 6; row++) {
			double y[16];
			for (size_t i = 0; i < 16; i++) y[i] = at(&c, "in.x", row * 16 + i);
			for (size_t i = 0; i < 3; i++) {
				double a = at(&c, "in.positions", row / 2) / pow(10000, (double)i / 3), *x1 = y + rows[k].first + i, *x2 = x1 + rows[k].apart, x = *x1;
				*x1 = x * cos(a) - *x2 * sin(a);
				*x2 = *x2 * cos(a) + x * sin(a);
			}
			/* an angle of 131071 is known to 2^-36 at best */
			for (size_t i = 0; i < 16; i++) assert_true(fabs(y[i] - r.a.hi[0][row * 16 + i]) <= 0x1p-30);
		}
		outcome_free(&r);
	}
	capture_free(&c);
}

static void each_fault_shows(void **state)
{
	(void)state;
	faults_show((struct sample[]){ half, half_partial, interleaved, interleaved_partial }, 4);
}

/* y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin, each product rounded at a site of its own: by hand, from the cosine and the sine that
 * (1, 0) turns into. */
static void each_product_has_its_site(void **state)
{
	static const char *const names[] = { "x1_cos", "x2_sin", "x2_cos", "x1_sin" };
	static const struct sample angles = { OP, "{\"rotary_dim\": 8, \"theta\": 10000000}", "in.x F32 5,2,8 =1,1,1,1,0,0,0,0; in.positions I64 5 =0,1,77,4096,131071" };
	struct capture c, unit;
	struct outcome turned;

	(void)state;
	made(&c, &half, 5);
	made(&unit, &angles, 5);
	run_in(&turned, &unit, "f64");
	for (int rounded = 0; rounded < 16; rounded++) {
		struct plan p = plan_in("f64");
		struct outcome r;
		for (int s = 0; s < 4; s++)
			p.round[op_site(op_find(OP), names[s])] = (struct site_rounding){ rounded >> s & 1, FMT_BF16, ROUND_NEAREST_EVEN };
		run_plan(&r, &c, &p);
		for (size_t row = 0; row < 10; row++)
			for (size_t i = row * 8; i < row * 8 + 4; i++) {
				double x1 = at(&c, "in.x", i), x2 = at(&c, "in.x", i + 4), co = turned.a.hi[0][i], si = turned.a.hi[0][i + 4];
				double product[4] = { x1 * co, x2 * si, x2 * co, x1 * si };
				for (int s = 0; s < 4; s++)
					if (rounded >> s & 1) product[s] = format_round(FMT_BF16, ROUND_NEAREST_EVEN, product[s], 0);
				assert_true(r.a.hi[0][i] == product[0] - product[1] && r.a.hi[0][i + 4] == product[2] + product[3]);
			}
		outcome_free(&r);
	}
	outcome_free(&turned);
	capture_free(&unit);
	capture_free(&c);
}

static void sites(void **state)
{
	static const struct rounded_as r[] = { { "positions", &half, "in.positions" }, { "y", &half, "out.y" } };

	(void)state;
	sites_show((struct sample[]){ half, interleaved_partial }, 2, 0);
	sites_are(r, LEN(r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_complex_product),
		cmocka_unit_test(copies_what_does_not_turn),
		cmocka_unit_test(keeps_the_norm),
		cmocka_unit_test(turns_back),
		cmocka_unit_test(faults_are_what_they_say),
		cmocka_unit_test(exponent_over_head_dim),
		cmocka_unit_test(wrong_dimensions),
		cmocka_unit_test(each_fault_shows),
		cmocka_unit_test(each_product_has_its_site),
		cmocka_unit_test(sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
