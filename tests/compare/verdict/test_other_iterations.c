/* Iterations and gradients by kernels of other algebra, and of numbers that are all the same: none may fail, or be given a name. */
#include "own_capture.h"

static struct plan kernel(const char *op, const char *contract, int structure)
{
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);

	plan_structure(&p, contract_of(op, contract), structure);
	return p;
}

/* A call of Newton-Schulz on x, answered in the contract's structure of that number, under the contract. */
static struct verdict iterated(const char *params, const char *contract, int structure, size_t n, size_t m, const float *x)
{
	static float none[MOST];
	struct plan p = kernel("newton_schulz", contract, structure);
	struct capture c;
	struct verdict v;
	struct error e;

	begin(&c, "newton_schulz", params);
	put(&c, "in.x", DT_F32, SHAPE(n, m), x);
	put(&c, "out.y", DT_F32, SHAPE(n, m), none);
	no_error(capture_bind(&c, &e), &e);
	answer_by(&c, &p);
	no_error(judge(&c, &(struct judging){ .contract = contract }, &v, &e), &e);
	capture_free(&c);
	return v;
}

/* A matrix of one number. In float16 R of so steep a polynomial gets a negative eigenvalue, or none, and Q may be infinite after five iterations
 * or not: that it is not is no fault, though noise is infinite in one run of many. */
static void noise_without_a_bound_fails_nobody(void **state)
{
	static const char params[] = "{\"algorithm\": \"gram_naive\", \"iterate_dtype\": \"F16\", \"eps_kind\": \"max\", \"coefficients\": [[7.892582874424408, -20.38301394587957, 13.555306149406924],"
		"[3.911484868135431, -2.5464635929060884, 0.4268988319673074], [3.760657955697423, -2.512819018216563, 0.4323647349070073],"
		"[3.160399673686287, -2.149649518898498, 0.3996366907664389], [2.1910971618617303, -1.441662010214663, 0.328146487623155]]}";
	float x[3 * 64];

	(void)state;
	for (size_t i = 0; i < 3 * 64; i++) x[i] = 0.0371f;
	struct verdict v = iterated(params, "lower_f16", 1, 3, 64, x);
	assert_int_equal(v.outcome, UNDECIDED);
	assert_int_equal(v.out[0].boundless, 3 * 64);
	assert_int_equal(v.out[0].not_finite, 0);
}

static const char five_steps[] = "{\"algorithm\": \"standard\", \"iterate_dtype\": \"F16\", \"coefficients\": [[4.0848, -6.8946, 2.927], [3.9505, -6.3029, 2.6377],"
	"[3.7418, -5.5913, 2.3037], [2.8769, -3.1427, 1.2046], [2.8366, -3.0525, 1.2012]]}";

/* All that is not 0 is one number, 16 times, which is short by chance: that is no rounding of the output. */
static void one_number_many_times_tells_once(void **state)
{
	float x[48 * 16] = { 0 };

	(void)state;
	for (size_t i = 0; i < 16; i++) x[i * 16 + i] = 1;
	struct verdict v = iterated(five_steps, "lower_f16", 1, 48, 16, x);
	assert_int_equal(v.outcome, PASS);
	assert_int_equal(v.x.count[DETECTED], 0);
}

/* Where each product and multiple is rounded, the identity comes out 2^-8 too small in all eight places; in the contract's other structure it is exact. */
static void one_number_many_times_errs_once(void **state)
{
	static const char steps[] = "{\"algorithm\": \"standard\", \"iterate_dtype\": \"BF16\", \"eps_kind\": \"max\", \"coefficients\": [[1.875, -1.25, 0.375], [1.875, -1.25, 0.375],"
		"[1.875, -1.25, 0.375], [1.875, -1.25, 0.375], [1.875, -1.25, 0.375]]}";
	float x[8 * 16] = { 0 };

	(void)state;
	for (size_t i = 0; i < 8; i++) x[i * 16 + i] = 1;
	struct verdict v = iterated(steps, "bf16_input", 1, 8, 16, x);
	if (v.outcome != PASS) fail_msg("%s", v.reason[0]);
	assert_true(v.out[0].rule[RULE_BIAS].value > 1);
}

/* One query of attention with a softcap that its logits are beyond, backwards: the softcap's derivative is 1 - tanh², of which float32 knows 2^-24 of 1. */
static void a_derivative_that_cancels(void **state)
{
	enum { S = 24, D = 4 };
	static float q[D], k[S * D], v[S * D], go[D], dq[D], dk[S * D], dv[S * D], t[S], p[S], dp[S];
	const float cap = 4, scale = 0.5f;
	float most = -INFINITY, l = 0, delta = 0;
	struct capture c;

	(void)state;
	dice = 1000;
	for (size_t i = 0; i < D; i++) q[i] = 20 + normal(1), go[i] = normal(1);
	for (size_t i = 0; i < S * D; i++) k[i] = normal(1), v[i] = normal(1);
	for (size_t j = 0; j < S; j++) {
		float s = 0;
		for (size_t i = 0; i < D; i++) s += q[i] * k[j * D + i], dp[j] += go[i] * v[j * D + i];
		t[j] = tanhf(s * scale / cap);
		most = fmaxf(most, cap * t[j]);
	}
	for (size_t j = 0; j < S; j++) p[j] = expf(cap * t[j] - most), l += p[j];
	for (size_t j = 0; j < S; j++) p[j] /= l, delta += p[j] * dp[j];
	for (size_t j = 0; j < S; j++) {
		float ds = p[j] * (dp[j] - delta) * (1 - t[j] * t[j]);
		for (size_t i = 0; i < D; i++) dq[i] += ds * k[j * D + i] * scale, dk[j * D + i] = ds * q[i] * scale, dv[j * D + i] = p[j] * go[i];
	}
	begin(&c, "attention.backward", "{\"softcap\": 4}");
	put(&c, "in.q", DT_F32, SHAPE(1, 1, D), q);
	put(&c, "in.k", DT_F32, SHAPE(S, 1, D), k);
	put(&c, "in.v", DT_F32, SHAPE(S, 1, D), v);
	put(&c, "in.do", DT_F32, SHAPE(1, 1, D), go);
	put(&c, "out.dq", DT_F32, SHAPE(1, 1, D), dq);
	put(&c, "out.dk", DT_F32, SHAPE(S, 1, D), dk);
	put(&c, "out.dv", DT_F32, SHAPE(S, 1, D), dv);
	judged_as(&c, "f32", true, false, "a softcap backwards", 0);
}

/* The same of a sigmoid, of which it is σ (1 - σ). */
static void a_gate_that_is_open(void **state)
{
	enum { R = 4, W = 33 };
	static float x[R * W], g[R * W], gy[R * W], dx[R * W], dg[R * W];
	struct capture c;

	(void)state;
	dice = 1010;
	for (size_t i = 0; i < R * W; i++) {
		x[i] = normal(1), g[i] = 12 + normal(2), gy[i] = normal(1);
		float s = 1 / (1 + expf(-g[i]));
		dx[i] = gy[i] * s, dg[i] = gy[i] * x[i] * (s * (1 - s));
	}
	begin(&c, "gated_product.backward", "{}");
	put(&c, "in.x", DT_F32, SHAPE(R, W), x);
	put(&c, "in.gate", DT_F32, SHAPE(R, W), g);
	put(&c, "in.dy", DT_F32, SHAPE(R, W), gy);
	put(&c, "out.dx", DT_F32, SHAPE(R, W), dx);
	put(&c, "out.dgate", DT_F32, SHAPE(R, W), dg);
	judged_as(&c, "f32", true, false, "a gate backwards", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(noise_without_a_bound_fails_nobody), cmocka_unit_test(one_number_many_times_tells_once),
		cmocka_unit_test(one_number_many_times_errs_once), cmocka_unit_test(a_derivative_that_cancels), cmocka_unit_test(a_gate_that_is_open) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
