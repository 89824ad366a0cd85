#include <math.h>

#include "tests/witness.h"

#define OP "rmsnorm"
#define LEN(a) (sizeof(a) / sizeof *(a))

static const struct sample plain = { OP, "{\"weight_offset\": 0}", "in.x F32 4,7 ~0,1; in.weight F32 7 ~1,0.3" };
static const struct sample all = { OP, "{\"weight_offset\": 1, \"gate\": \"silu\", \"eps\": 0.001}",
	"in.x F32 5,12 ~0,1; in.weight F32 12 ~0,0.3; in.residual F32 5,12 ~0,2; in.gate F32 5,12 ~0,3" };
/* Rows whose mean square is far below and about eps. */
static const struct sample tiny = { OP, "{\"weight_offset\": 1}",
	"in.x F32 4,8 ~0,0.0002; in.weight BF16 8 ~0,0.3; in.residual F32 4,8 ~0,0.001" };
static const struct sample gated = { OP, "{\"weight_offset\": 0, \"gate\": \"silu\"}",
	"in.x F16 3,5 ~0,1; in.weight F32 5 ~1,0.3; in.gate F32 3,5 =-40,0,1e-3,30,-1" };
static const struct sample one_wide = { OP, "{\"weight_offset\": 0.5, \"eps\": 0.25}", "in.x F64 3,1 =0,1e-9,-7; in.weight F32 1 =2" };

/* ---- the witness ---- */

/* y [R,D] = x' (offset + w) silu(gate) sqrt(D / (sum x'^2 + D eps)), and x' */
static void ball_row(const struct capture *c, size_t row, size_t D, arb_ptr y, arb_ptr x)
{
	arb_t s, t;

	arb_init(s);
	arb_init(t);
	arb_set_d(s, capture_number(c, "eps", 1e-6));
	arb_mul_ui(s, s, D, BALL);
	for (size_t i = 0; i < D; i++) {
		arb_set_d(x + i, at(c, "in.x", row * D + i));
		if (capture_in(c, "residual")) arb_set_d(t, at(c, "in.residual", row * D + i));
		arb_add(x + i, x + i, t, BALL);
		arb_addmul(s, x + i, x + i, BALL);
	}
	arb_ui_div(s, D, s, BALL);
	arb_sqrt(s, s, BALL);
	for (size_t i = 0; i < D; i++) {
		arb_set_d(y + i, capture_number(c, "weight_offset", 0));
		arb_set_d(t, at(c, "in.weight", i));
		arb_add(y + i, y + i, t, BALL);
		arb_mul(y + i, y + i, s, BALL);
		arb_mul(y + i, y + i, x + i, BALL);
		if (!capture_in(c, "gate")) continue;
		arb_set_d(t, at(c, "in.gate", row * D + i));
		arb_mul(y + i, y + i, t, BALL);
		arb_exp(t, t, BALL);
		arb_mul(y + i, y + i, t, BALL);
		arb_add_ui(t, t, 1, BALL);
		arb_div(y + i, y + i, t, BALL);
	}
	arb_clear(s);
	arb_clear(t);
}

static void equals_the_quotient(void **state)
{
	static const struct sample *const samples[] = { &plain, &all, &tiny, &gated, &one_wide };

	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 21);
		run_in(&r, &c, "mpfr:128");
		size_t R = extent(&c, "in.x", 0), D = extent(&c, "in.x", 1);
		arb_ptr y = _arb_vec_init((slong)(R * D)), x = _arb_vec_init((slong)(R * D));
		for (size_t row = 0; row < R; row++) ball_row(&c, row, D, y + row * D, x + row * D);
		assert_balls(&r, 0, y, R * D, 1);
		if (capture_in(&c, "residual")) assert_balls(&r, 1, x, R * D, 1);
		else assert_int_equal(r.call.out_count[1], 0);
		_arb_vec_clear(y, (slong)(R * D));
		_arb_vec_clear(x, (slong)(R * D));
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

/* ---- laws ---- */
static const char *const names[] = { "f32", "f64", "mpfr:128" };

/* eps = 0: x 2^11 times as large, and no other bit. The same holds for noisy, whose random stream
 * does not depend on values. */
static void scale_is_lost(void **state)
{
	static const struct sample no_eps = { OP, "{\"weight_offset\": 1, \"eps\": 0}", "in.x F32 6,33 ~0,1; in.weight F32 33 ~0,0.3" };

	(void)state;
	for (size_t k = 0; k < LEN(names) + 1; k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, &no_eps, 1);
		made(&b, &no_eps, 1);
		for (size_t i = 0; i < count(&a, "in.x"); i++) put(&b, "in.x", i, 0x1p11 * at(&a, "in.x", i));
		run_in(&x, &a, k < LEN(names) ? names[k] : "noisy");
		run_in(&y, &b, k < LEN(names) ? names[k] : "noisy");
		/* sqrt(2^22 s) is exact in every arithmetic: the power is even */
		assert_true(same_outcome(&x, &y));
		outcome_free(&x);
		outcome_free(&y);
		capture_free(&a);
		capture_free(&b);
	}
}

/* Other rows changed, and one row alone: its answer stays. */
static void rows_are_independent(void **state)
{
	static const struct sample single = { OP, "{\"weight_offset\": 1, \"gate\": \"silu\", \"eps\": 0.001}",
		"in.x F32 1,12; in.weight F32 12 ~0,0.3; in.residual F32 1,12; in.gate F32 1,12" };
	static const char *const rows[] = { "in.x", "in.residual", "in.gate" };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, &all, 1);
		made(&b, &single, 1);
		run_in(&x, &a, names[k]);
		for (size_t row = 0; row < 5; row++) {
			for (size_t i = 0; i < 36; i++) put(&b, rows[i / 12], i % 12, at(&a, rows[i / 12], row * 12 + i % 12));
			run_in(&y, &b, names[k]);
			for (size_t i = 0; i < 24; i++) assert_true(y.a.hi[i / 12][i % 12] == x.a.hi[i / 12][row * 12 + i % 12]);
			outcome_free(&y);
		}
		outcome_free(&x);
		capture_free(&a);
		capture_free(&b);
	}
}

/* mean (y / w)^2 = mean x^2 / (mean x^2 + eps); 3 D + 8 operations, noisy at 2^-23 each. */
static void mean_square_is_one(void **state)
{
	static const char *const every[] = { "f32", "f64", "noisy" };

	(void)state;
	for (size_t k = 0; k < LEN(every); k++) {
		struct capture c;
		struct outcome r;
		made(&c, &plain, 3);
		put_all(&c, "in.weight", -2);
		run_in(&r, &c, every[k]);
		for (size_t row = 0; row < 4; row++) {
			double s = 0, y = 0;
			for (size_t i = row * 7; i < row * 7 + 7; i++) {
				s += at(&c, "in.x", i) * at(&c, "in.x", i) / 7;
				y += r.a.hi[0][i] * r.a.hi[0][i] / 28;
			}
			assert_true(fabs(y - s / (s + 1e-6)) <= 29 * (k == 1 ? 0x1p-52 : 0x1p-23));
		}
		outcome_free(&r);
		capture_free(&c);
	}
}

/* ---- faults and sites ---- */
static void one_more(struct capture *c)
{
	for (size_t i = 0; i < count(c, "in.weight"); i++) put(c, "in.weight", i, 1 + at(c, "in.weight", i));
}

static void one_less(struct capture *c)
{
	for (size_t i = 0; i < count(c, "in.weight"); i++) put(c, "in.weight", i, at(c, "in.weight", i) - 1);
}

/* Weights with few enough bits that 1 + w is exact. */
static const struct sample offset_one = { OP, "{\"weight_offset\": 1}", "in.x F32 3,6 ~0,1; in.weight F32 6 =0.25,-0.5,1,0.125" };
static const struct sample offset_none = { OP, "{\"weight_offset\": 0}", "in.x F32 3,6 ~0,1; in.weight F32 6 =0.25,-0.5,1,0.125" };
/* Two heads of 6: the second row is the first's neighbour; a tile of 256 takes all rows that follow. */
static const struct sample heads = { OP, "{\"weight_offset\": 0}", "in.x F32 6,6 ~0,1; in.weight F32 6 =1,0.5,-2,0.75,3,1.5" };

static const struct same_as same[] = {
	{ "plain_weight_for_zero_centred", &offset_one, NULL, one_less, NULL },
	{ "zero_centred_for_plain", &offset_none, NULL, one_more, NULL },
	{ "offset_twice", &offset_one, NULL, one_more, NULL },
	{ "eps_wrong(1e-5)", &tiny, "{\"weight_offset\": 1, \"eps\": 1e-5}", NULL, NULL },
	{ "norm_over_all_heads", &heads, NULL, NULL, "in.x F32 3,12 ~0,1; in.weight F32 12 =1,0.5,-2,0.75,3,1.5" },
	{ "eps_missing", &tiny, "{\"weight_offset\": 1, \"eps\": 0}", NULL, NULL },
};

static void faults_are_what_they_say(void **state)
{
	(void)state;
	faults_are(same, LEN(same));
}

/* silu(x) = x sigmoid(x), for a gate of x throughout. */
static void sigmoid_for_silu(void **state)
{
	(void)state;
	for (double x = -2; x <= 2; x++) {
		struct plan right = plan_in("f64"), wrong = right;
		struct outcome y, z;
		struct capture c;
		made(&c, &gated, 1);
		put_all(&c, "in.gate", x);
		plan_fault(&wrong, op_find(OP), op_fault(op_find(OP), "gate_is_sigmoid"));
		run_plan(&y, &c, &right);
		run_plan(&z, &c, &wrong);
		for (size_t i = 0; i < 15; i++) assert_true(fabs(y.a.hi[0][i] - x * z.a.hi[0][i]) <= 0x1p-50 * fabs(y.a.hi[0][i]));
		outcome_free(&y);
		outcome_free(&z);
		capture_free(&c);
	}
}

/* Faults that no other input gives, on `gated` [3,5] in plain doubles. */
static void faults_by_hand(void **state)
{
	static const char *const faults[] = { "eps_outside_root", "gate_before_norm", "variance_with_stray_lanes", "gate_missing" };
	struct capture c;

	(void)state;
	made(&c, &gated, 1);
	for (size_t k = 0; k < LEN(faults); k++) {
		struct plan p = plan_in("f64");
		struct outcome r;
		plan_fault(&p, op_find(OP), op_fault(op_find(OP), faults[k]));
		run_plan(&r, &c, &p);
		for (size_t row = 0; row < 3; row++) {
			double x[5], s = 0;
			for (size_t i = 0; i < 5; i++) {
				double g = at(&c, "in.gate", row * 5 + i);
				x[i] = at(&c, "in.x", row * 5 + i) * (k == 1 ? g / (1 + exp(-g)) : 1);
				s += x[i] * x[i] / 5;
			}
			/* the rest of a tile of 256 is the rest of the tensor */
			for (size_t i = row * 5 + 5; i < 15 && k == 2; i++) s += at(&c, "in.x", i) * at(&c, "in.x", i) / 5;
			for (size_t i = 0; i < 5; i++) {
				double g = at(&c, "in.gate", row * 5 + i), y = x[i] * at(&c, "in.weight", i) / (k == 0 ? sqrt(s) + 1e-6 : sqrt(s + 1e-6));
				if (k == 0 || k == 2) y *= g / (1 + exp(-g));
				if (!(fabs(r.a.hi[0][row * 5 + i] - y) <= 0x1p-48 * fabs(y))) fail_msg("%s: %g, expected %g", faults[k], r.a.hi[0][row * 5 + i], y);
			}
		}
		outcome_free(&r);
	}
	capture_free(&c);
}

static void each_fault_shows(void **state)
{
	(void)state;
	faults_show((struct sample[]){ plain, all, tiny, gated, heads }, 5);
}

static void sites(void **state)
{
	static const struct rounded_as r[] = {
		{ "scale", &plain, "in.weight" }, { "y", &gated, "out.y" }, { "weighted", &plain, "out.y" },
	};

	(void)state;
	sites_show((struct sample[]){ plain, all }, 2, 0);
	sites_are(r, LEN(r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_quotient),
		cmocka_unit_test(scale_is_lost),
		cmocka_unit_test(rows_are_independent),
		cmocka_unit_test(mean_square_is_one),
		cmocka_unit_test(faults_are_what_they_say),
		cmocka_unit_test(sigmoid_for_silu),
		cmocka_unit_test(faults_by_hand),
		cmocka_unit_test(each_fault_shows),
		cmocka_unit_test(sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
