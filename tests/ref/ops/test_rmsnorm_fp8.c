#include <math.h>

#include "tests/witness.h"

#define OP "rmsnorm_fp8"
#define LEN(a) (sizeof(a) / sizeof *(a))

static const struct sample plain = { OP, "{\"weight_offset\": 0}", "in.x F32 4,7 ~0,1; in.weight F32 7 ~1,0.3" };
static const struct sample added = { OP, "{\"weight_offset\": 1, \"eps\": 0.001}",
	"in.x F32 5,12 ~0,1; in.weight F32 12 ~0,0.3; in.residual F32 5,12 ~0,2" };
/* Rows whose mean square is about eps, and rows so small that the least scale holds; one of zeros. */
static const struct sample tiny = { OP, "{\"weight_offset\": 1}", "in.x F32 4,8 ~0,0.0002; in.weight BF16 8 ~0,0.3" };
static const struct sample least = { OP, "{\"weight_offset\": 1, \"min_scale\": 0.0001}",
	"in.x F32 3,5 =0,0,0,0,0,1e-6,-2e-5,3e-7,0,0,-4e-6,1e-5,2,0,1;"
	" in.weight BF16 5 ~0,0.3" };
static const struct sample small = { OP, "{\"weight_offset\": 1}", "in.x F32 4,8 ~0,1e-7; in.weight BF16 8 ~0,0.3" };
static const struct sample *const samples[] = { &plain, &added, &tiny, &least };

/* ---- the witness ---- */

/* scale = max(max |z| / 448, min_scale); y = z / scale, z = x' (offset + w) sqrt(D / (sum x'^2 + D eps)) */
static void ball_row(const struct capture *c, size_t row, size_t D, arb_ptr y, arb_ptr scale)
{
	arb_t s, t;

	arb_init(s), arb_init(t);
	arb_set_d(s, capture_number(c, "eps", 1e-6));
	arb_mul_ui(s, s, D, BALL);
	for (size_t i = 0; i < D; i++) {
		arb_set_d(y + i, at(c, "in.x", row * D + i));
		if (capture_in(c, "residual")) arb_set_d(t, at(c, "in.residual", row * D + i));
		arb_add(y + i, y + i, t, BALL);
		arb_addmul(s, y + i, y + i, BALL);
	}
	arb_ui_div(s, D, s, BALL);
	arb_sqrt(s, s, BALL);
	arb_set_d(scale, capture_number(c, "min_scale", 0x1p-18));
	arb_mul_ui(scale, scale, 448, BALL);
	for (size_t i = 0; i < D; i++) {
		arb_mul(y + i, y + i, s, BALL);
		arb_set_d(t, capture_number(c, "weight_offset", 0) + at(c, "in.weight", i));
		arb_mul(y + i, y + i, t, BALL);
		arb_abs(t, y + i);
		arb_max(scale, scale, t, BALL);
	}
	arb_div_ui(scale, scale, 448, BALL);
	for (size_t i = 0; i < D; i++) arb_div(y + i, y + i, scale, BALL);
	arb_clear(s), arb_clear(t);
}

static void equals_the_quotient(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 23);
		run_in(&r, &c, "mpfr:128");
		size_t R = extent(&c, "in.x", 0), D = extent(&c, "in.x", 1);
		arb_ptr y = _arb_vec_init((slong)(R * D)), scale = _arb_vec_init((slong)R);
		for (size_t row = 0; row < R; row++) ball_row(&c, row, D, y + row * D, scale + row);
		assert_balls(&r, 0, y, R * D, 1);
		assert_balls(&r, 1, scale, R, 1);
		for (size_t i = 0; i < r.call.out_count[2]; i++)
			assert_true(r.a.hi[2][i] == at(&c, "in.x", i) + at(&c, "in.residual", i));
		assert_int_equal(r.call.out_count[2], k == 1 ? R * D : 0);
		_arb_vec_clear(y, (slong)(R * D));
		_arb_vec_clear(scale, (slong)R);
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

/* ---- laws ---- */

/* A row's largest becomes 448 to within float32's roundings, in every arithmetic, and nothing is larger: e4m3 never
 * overflows, whose largest is 448 and which rounds numbers below 464 down to it. */
static void largest_is_448(void **state)
{
	static const struct { const char *arith; double unit; } every[] = {
		{ "f32", 0x1p-24 }, { "f64", 0x1p-53 }, { "mpfr:128", 0x1p-53 }, { "noisy", 0x1p-23 },
	};

	(void)state;
	for (size_t k = 0; k < LEN(every); k++) {
		struct capture c;
		struct outcome r;
		made(&c, &added, 2);
		run_in(&r, &c, every[k].arith);
		for (size_t row = 0; row < 5; row++) {
			double peak = 0;
			for (size_t i = 0; i < 12; i++) peak = fmax(peak, fabs(r.a.hi[0][row * 12 + i]));
			assert_true(fabs(peak - 448) <= 448 * 4 * every[k].unit);
			assert_true(r.a.hi[1][row] > 0);
		}
		outcome_free(&r);
		capture_free(&c);
	}
}

/* y scale is rmsnorm's y. */
static void product_is_the_norm(void **state)
{
	static const struct sample norm = { "rmsnorm", "{\"weight_offset\": 1, \"eps\": 0.001}",
		"in.x F32 5,12 ~0,1; in.weight F32 12 ~0,0.3; in.residual F32 5,12 ~0,2" };
	struct capture c, n;
	struct outcome r, y;

	(void)state;
	made(&c, &added, 6);
	made(&n, &norm, 6);
	run_in(&r, &c, "mpfr:128");
	run_in(&y, &n, "mpfr:128");
	for (size_t i = 0; i < 60; i++)
		assert_true(fabs(r.a.hi[0][i] * r.a.hi[1][i / 12] - y.a.hi[0][i]) <= 0x1p-50 * fabs(y.a.hi[0][i]));
	outcome_free(&r), outcome_free(&y);
	capture_free(&c), capture_free(&n);
}

/* ---- faults and sites ---- */
static const struct same_as same[] = {
	{ "eps_missing", &tiny, "{\"weight_offset\": 1, \"eps\": 0}", NULL, NULL },
	{ "plain_weight_for_zero_centred", &added, "{\"weight_offset\": 0, \"eps\": 0.001}", NULL, NULL },
	{ "min_scale_missing", &small, "{\"weight_offset\": 1, \"min_scale\": 1e-300}", NULL, NULL },
};

static void faults_are_what_they_say(void **state)
{
	(void)state;
	faults_are(same, LEN(same));
}

/* What a fault writes, from what the plain reference writes: y times `y`, scale times `scale`, per row. */
static void scales_go_wrong(void **state)
{
	struct capture c;
	struct outcome plain_run;

	(void)state;
	made(&c, &added, 8);
	run_in(&plain_run, &c, "f64");
	static const char *const names[] = { "scale_divided_for_multiplied", "scale_missing", "scale_inverted", "largest_wrong(240)" };
	for (size_t k = 0; k < LEN(names); k++) {
		struct plan p = plan_in("f64");
		struct outcome r;
		double value;
		int fault = fault_named(op_find(OP), names[k], &value);
		assert_true(fault >= 0);
		plan_fault_at(&p, op_find(OP), fault, value);
		run_plan(&r, &c, &p);
		for (size_t i = 0; i < 60; i++) {
			double s = plain_run.a.hi[1][i / 12], y = plain_run.a.hi[0][i];
			const double times[][2] = { { s * s, 1 }, { s, 1 }, { 1, 1 / (s * s) }, { 240.0 / 448, 448.0 / 240 } };
			assert_true(fabs(r.a.hi[0][i] - y * times[k][0]) <= 0x1p-50 * fabs(y * times[k][0]));
			assert_true(fabs(r.a.hi[1][i / 12] - s * times[k][1]) <= 0x1p-50 * s * times[k][1]);
		}
		outcome_free(&r);
	}
	outcome_free(&plain_run);
	capture_free(&c);
}

static void each_fault_shows(void **state)
{
	(void)state;
	faults_show((struct sample[]){ plain, added, tiny, small }, 4);
}

static void sites(void **state)
{
	static const struct rounded_as r[] = { { "y", &added, "out.y" } };

	(void)state;
	sites_show((struct sample[]){ plain, added, tiny }, 3, 0);
	sites_are(r, LEN(r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_quotient), cmocka_unit_test(largest_is_448), cmocka_unit_test(product_is_the_norm),
		cmocka_unit_test(faults_are_what_they_say), cmocka_unit_test(scales_go_wrong), cmocka_unit_test(each_fault_shows),
		cmocka_unit_test(sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
