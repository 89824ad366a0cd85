/* Norms whose squares are added in order, where all additions are rounded one way: they must pass and be given no name. */
#include "compare/attribute/earned.h"
#include "own_capture.h"

enum { LONG = 16384, SD = 4099, R = 6, SG = 6, SW = 128 };

/* One number in all columns, a little more in the next row: each addition is rounded the same way. */
static void squares_alike(enum dtype type, size_t rows, size_t D, float more, bool fused)
{
	static float x[2 * LONG], w[LONG], y[2 * LONG];
	struct capture c;

	for (size_t i = 0; i < D; i++) w[i] = in_type(type, 1 + normal(0.2f));
	for (size_t r = 0; r < rows; r++) {
		float sum = 0, value = in_type(type, 1.37f + more * (float)r);
		for (size_t i = 0; i < D; i++) sum = fused ? fmaf(value, value, sum) : sum + value * value;
		for (size_t i = 0; i < D; i++) x[r * D + i] = value, y[r * D + i] = in_type(type, value * (1 / sqrtf(sum / (float)D + 1e-6f)) * w[i]);
	}
	begin(&c, "rmsnorm", "{\"weight_offset\": 0}");
	put(&c, "in.x", type, SHAPE(rows, D), x);
	put(&c, "in.weight", type, SHAPE(D), w);
	put(&c, "out.y", type, SHAPE(rows, D), y);
	judged_as(&c, "f32", true, false, "rmsnorm of numbers alike", (int)D);
}

/* The largest first: what comes after it is half an ulp of the sum, and lost. */
static void largest_first(void)
{
	static float x[LONG], w[LONG], y[LONG];
	struct capture c;
	float sum = 0;

	for (size_t i = 0; i < LONG; i++) x[i] = i ? normal(1) : 4505.6f, w[i] = 1 + normal(0.2f), sum += x[i] * x[i];
	for (size_t i = 0; i < LONG; i++) y[i] = x[i] * (1 / sqrtf(sum / LONG + 1e-6f)) * w[i];
	begin(&c, "rmsnorm", "{\"weight_offset\": 0}");
	put(&c, "in.x", DT_F32, SHAPE(1, LONG), x);
	put(&c, "in.weight", DT_F32, SHAPE(LONG), w);
	put(&c, "out.y", DT_F32, SHAPE(1, LONG), y);
	judged_as(&c, "f32", true, false, "rmsnorm, the largest first", 0);
}

/* A bf16 number of [1/2, 1) has a square that is 1 mod 8 in units of its last place: where a sum has coarser ones, it is rounded down. */
static void squares_of_bf16(bool backwards)
{
	static float x[R * SG * SW], w[SG * SW], y[R * SG * SW], scale[R * SG];
	const size_t D = SG * SW;
	struct capture c;

	for (size_t i = 0; i < R * D; i++) x[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < D; i++) w[i] = in_type(DT_BF16, 1 + normal(0.2f));
	for (size_t r = 0; r < R; r++) {
		float sum = 0;
		for (size_t i = 0; i < D; i++) {
			float v = x[r * D + (backwards ? D - 1 - i : i)];
			sum += v * v;
		}
		float root = 1 / sqrtf(sum / (float)D + 1e-6f);
		for (size_t g = 0; g < SG; g++) {
			float z[SW], most = 0;
			for (size_t i = 0; i < SW; i++) z[i] = x[r * D + g * SW + i] * root * w[g * SW + i], most = fmaxf(most, fabsf(z[i]));
			scale[r * SG + g] = most / 448;
			for (size_t i = 0; i < SW; i++) y[r * D + g * SW + i] = in_type(DT_F8_E4M3, fmaxf(-448, fminf(448, z[i] / scale[r * SG + g])));
		}
	}
	begin(&c, "rmsnorm_fp8_groups", "{\"weight_offset\": 0}");
	put(&c, "in.x", DT_BF16, SHAPE(R, SG, SW), x);
	put(&c, "in.weight", DT_BF16, SHAPE(SG, SW), w);
	put(&c, "out.y", DT_F8_E4M3, SHAPE(R, SG, SW), y);
	put(&c, "out.scale", DT_F32, SHAPE(R, SG), scale);
	judged_as(&c, "f32", true, false, "squares of bf16 added in order", backwards);
}

static void squares_in_order(void **state)
{
	(void)state;
	dice = 900;
	for (int i = 0; i < 4; i++) squares_alike(i / 2 ? DT_BF16 : DT_F32, 4, SD, 0.1f, i % 2), squares_of_bf16(i % 2);
	largest_first();
}

/* Equal numbers' squares, in float32 in such an order, their mean rounded to float16 or not: is it said that it is, where that is what was found? */
static bool names_a_rounding(const struct arith *sums, bool rounded)
{
	static float x[LONG], w[LONG], none[LONG];
	const struct site_rounding half = { true, FMT_F16, ROUND_NEAREST_EVEN };
	const struct op *op = op_find("rmsnorm");
	const struct contract *k = contract_of("rmsnorm", "f32");
	struct plan p = plan_plain(sums, sums->precision);
	const int site = op_site(op, "mean_square");
	struct capture c;
	struct call call;
	struct earned n;
	struct xray xray;
	struct error e;
	bool identified;

	for (size_t i = 0; i < LONG; i++) x[i] = 1.37f, w[i] = 1 + normal(0.2f);
	begin(&c, "rmsnorm", "{\"weight_offset\": 0}");
	put(&c, "in.x", DT_F32, SHAPE(1, LONG), x);
	put(&c, "in.weight", DT_F32, SHAPE(LONG), w);
	put(&c, "out.y", DT_F32, SHAPE(1, LONG), none);
	no_error(capture_bind(&c, &e), &e);
	p.round[site] = rounded ? half : p.round[site];
	answer_by(&c, &p);
	no_error(call_bind(&call, &c, true, &e) && xray_make(&xray, &call, NULL, &e), &e);
	xray.e = &e;
	xray.emulation = plan_plain(&arith_f64, arith_f64.precision);
	xray.emulation.round[site] = half;
	no_error(xray_refresh(&xray) && emulation_identified(&xray, &identified), &e);
	assert_true(identified);
	no_error(earned_names(&n, &xray, &(struct rules_say){ .hold = true, .call = &call, .contract = k, .first = k, .last = k }, &e), &e);
	assert_int_equal(n.faults, 0);
	xray_free(&xray);
	capture_free(&c);
	return n.sites >> site & 1;
}

/* What is lost of the sum has the size of the mean square's rounding to float16; it is a sum's, and legal. Of a mean that is
 * rounded, where sums lose nothing, it is said. */
static void no_rounding_is_named(void **state)
{
	(void)state;
	dice = 970;
	squares_alike(DT_F32, 2, LONG, 0, true);
	assert_false(names_a_rounding(&arith_f32, false));
	assert_false(names_a_rounding(&arith_f32_fma, false));
	assert_true(names_a_rounding(&arith_f32_tree, true));
}

/* One row of one number, its squares added in 32 lanes: what they drift by decides ties of one column in six, as 1 + w in TF32 and squares in
 * float16 would together. No element tells it. */
static void ties_name_no_structure(void **state)
{
	enum { WIDE = 40000, LANES = 32 };
	static float x[WIDE], w[WIDE], y[WIDE];
	float lane[LANES] = { 0 };
	struct capture c;

	(void)state;
	dice = 980;
	for (size_t i = 0; i < WIDE; i++) x[i] = 17.125f, w[i] = in_type(DT_BF16, normal(0.2f)), lane[i % LANES] += x[i] * x[i];
	for (size_t n = LANES / 2; n; n /= 2)
		for (size_t i = 0; i < n; i++) lane[i] += lane[i + n];
	for (size_t i = 0; i < WIDE; i++) y[i] = x[i] * (1 / sqrtf(lane[0] / WIDE + 1e-6f)) * (w[i] + 1);
	begin(&c, "rmsnorm", "{\"weight_offset\": 1}");
	put(&c, "in.x", DT_BF16, SHAPE(1, WIDE), x);
	put(&c, "in.weight", DT_BF16, SHAPE(WIDE), w);
	put(&c, "out.y", DT_BF16, SHAPE(1, WIDE), y);
	judged_as(&c, "f32", true, false, "rmsnorm of one number in lanes", 0);
}

/* x is one number: its last bits are where a float32's of the sum are not, and all sums are rounded alike. */
static void residual_of_one_number(void **state)
{
	static float x[3 * SD], a[3 * SD], w[SD], y[3 * SD], sum[3 * SD];
	struct capture c;

	(void)state;
	dice = 950;
	for (size_t i = 0; i < SD; i++) w[i] = 1 + normal(0.2f);
	for (size_t r = 0; r < 3; r++) {
		float square = 0;
		for (size_t i = r * SD; i < (r + 1) * SD; i++) x[i] = 1.37f, a[i] = normal(1) * 4.321f, sum[i] = x[i] + a[i], square = fmaf(sum[i], sum[i], square);
		for (size_t i = 0; i < SD; i++) y[r * SD + i] = sum[r * SD + i] * (1 / sqrtf(square / SD + 1e-6f)) * w[i];
	}
	begin(&c, "rmsnorm", "{\"weight_offset\": 0}");
	put(&c, "in.x", DT_F32, SHAPE(3, SD), x);
	put(&c, "in.residual", DT_F32, SHAPE(3, SD), a);
	put(&c, "in.weight", DT_F32, SHAPE(SD), w);
	put(&c, "out.y", DT_F32, SHAPE(3, SD), y);
	put(&c, "out.residual_out", DT_F32, SHAPE(3, SD), sum);
	judged_as(&c, "f32", true, false, "a residual of one number", 0);
}

/* Squares of bf16 numbers drift by a seventh of what an eps of 1e-5 does, so that around exact sums its coefficient is 0.86. Around sums in the
 * kernel's order it is 1; an eps of 6e-6 is told as well. */
static void an_eps_beside_a_drift(size_t rows, size_t D, float eps)
{
	static float x[LONG], w[LONG], y[LONG];
	struct capture c;
	struct verdict v;
	struct error e;
	char said[SUSPECT_TEXT] = "", wanted[SUSPECT_TEXT];

	for (size_t i = 0; i < D; i++) w[i] = in_type(DT_BF16, 1 + normal(0.2f));
	for (size_t r = 0; r < rows; r++) {
		float sum = 0;
		for (size_t i = r * D; i < (r + 1) * D; i++) x[i] = in_type(DT_BF16, normal(1)), sum += x[i] * x[i];
		for (size_t i = 0; i < D; i++) y[r * D + i] = x[r * D + i] * (1 / sqrtf(sum / (float)D + eps)) * w[i];
	}
	begin(&c, "rmsnorm", "{\"weight_offset\": 0}");
	put(&c, "in.x", DT_BF16, SHAPE(rows, D), x);
	put(&c, "in.weight", DT_BF16, SHAPE(D), w);
	put(&c, "out.y", DT_F32, SHAPE(rows, D), y);
	no_error(capture_bind(&c, &e) && judge(&c, &(struct judging){ .contract = "f32" }, &v, &e), &e);
	assert_int_equal(v.outcome, FAIL);
	for (int i = 0; i < v.x.n; i++)
		if (v.x.suspect[i].state == DETECTED) suspect_said(&v.x.suspect[i], said, sizeof said);
	assert_int_equal(v.x.count[DETECTED], 1);
	snprintf(wanted, sizeof wanted, "eps_wrong(value = %g;", (double)eps);
	if (strncmp(said, wanted, strlen(wanted))) fail_msg("%zu rows of %zu: %s", rows, D, said);
	capture_free(&c);
}

static void a_fault_beside_a_drift_is_named(void **state)
{
	(void)state;
	dice = 1020;
	an_eps_beside_a_drift(20, 640, 1e-5f);
	an_eps_beside_a_drift(20, 640, 6e-6f);
	dice = 1031;
	an_eps_beside_a_drift(9, 1007, 1e-5f);
	dice = 1102;
	an_eps_beside_a_drift(6, 768, 1e-5f);
}

/* Ones whose norm is rounded to bf16, with such an eps: what y is beside what it would be without. *far: that no flip is as large. */
static void one_number_without_its_eps(const char *params, bool far)
{
	enum { ONES = 64 };
	const struct op *op = op_find("rmsnorm");
	struct plan p = plan_plain(&arith_f32, arith_f32.precision), q;
	float x[ONES], w[ONES], none[ONES] = { 0 };
	struct capture c;
	struct call call;
	struct error e;
	struct xray xray;

	for (size_t i = 0; i < ONES; i++) x[i] = 1, w[i] = 1.37f;
	begin(&c, "rmsnorm", params);
	put(&c, "in.x", DT_F32, SHAPE(1, ONES), x);
	put(&c, "in.weight", DT_F32, SHAPE(ONES), w);
	put(&c, "out.y", DT_F32, SHAPE(1, ONES), none);
	no_error(capture_bind(&c, &e), &e);
	p.round[op_site(op, "xhat")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	answer_by(&c, &p);
	q = p;
	plan_fault(&q, op, op_fault(op, "eps_missing"));
	no_error(call_bind(&call, &c, true, &e) && xray_make(&xray, &call, NULL, &e), &e);
	xray.e = &e;
	xray.emulation = p;
	xray.emulation.arith = &arith_f64;
	q.arith = &arith_f64;
	struct look look = look_of(&q);
	no_error(xray_refresh(&xray) && xray_look(&xray, &look, 1, LOOK_VOTES), &e);
	assert_int_equal(look.votes.all, ONES);
	assert_int_equal(look.votes.different, 1);
	assert_int_equal(look.votes.far, far);
	assert_int_equal(look_told(&look), far);
	xray_free(&xray);
	capture_free(&c);
}

/* 1 - 2^-9 lies half way between two bf16 numbers: an eps of 2^-8 takes all ones there, and whether they flip is 2^16 times float32's noise, and
 * nobody's name. One of 4 takes them where no flip goes. */
static void equal_numbers_that_flip_tell_once(void **state)
{
	(void)state;
	one_number_without_its_eps("{\"weight_offset\": 0, \"eps\": 0.0039196}", false);
	one_number_without_its_eps("{\"weight_offset\": 0, \"eps\": 4}", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(equal_numbers_that_flip_tell_once), cmocka_unit_test(squares_in_order), cmocka_unit_test(no_rounding_is_named), cmocka_unit_test(ties_name_no_structure),
		cmocka_unit_test(residual_of_one_number), cmocka_unit_test(a_fault_beside_a_drift_is_named) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
