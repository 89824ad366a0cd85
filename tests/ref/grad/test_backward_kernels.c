/* A backward kernel of an op of one's own is judged as any other: right, it passes; with a fault of the formula, that fault is named; with
 * one of no file, it is rejected. */
#include <math.h>

#include "ref/formula/formula.h"
#include "tests/helpers.h"
#include "tests/judged.h"

enum kind { RIGHT, MEAN_FOR_SUM, TERM_MISSING };

/* dx = (dy - x r² Σ x dy) r in float32, written out by hand. */
static void l2norm_backward(struct capture *c, enum kind kind)
{
	const struct tensor *in = capture_in(c, "x");
	const float *x = in->data, *dy = capture_in(c, "dy")->data;
	float *dx = capture_out(c, "dx")->data;
	size_t D = in->shape[1];

	assert_int_equal(in->dtype, DT_F32);
	for (size_t r = 0; r < in->shape[0]; r++, x += D, dy += D, dx += D) {
		float s = 0, b = 0, n = kind == MEAN_FOR_SUM ? (float)D : 1;
		for (size_t i = 0; i < D; i++) s += x[i] * x[i], b += x[i] * dy[i];
		float inverse = 1 / sqrtf(s / n + 1e-6f);
		for (size_t i = 0; i < D; i++) dx[i] = (dy[i] - (kind == TERM_MISSING ? 0 : x[i] * (inverse * inverse * b / n))) * inverse;
	}
}

static void a_kernel_is_judged(void **state)
{
	const struct op *op = op_find("l2norm.backward");

	(void)state;
	for (enum kind k = RIGHT; k <= TERM_MISSING; k++) {
		struct capture c;
		struct error e;
		bool named = false;
		no_error(case_make(&c, op_case(op, "plain"), 3, true, &e), &e);
		l2norm_backward(&c, k);
		struct verdict v = judged(&c, "f32", false);
		if (v.outcome != (k == RIGHT ? PASS : FAIL)) fail_msg("kernel %d: %s", (int)k, v.reason[0]);
		for (int s = 0; v.examined && s < v.x.n; s++) {
			if (v.x.suspect[s].state != DETECTED) continue;
			assert_string_equal(v.x.suspect[s].name, "mean_for_sum");
			named = true;
		}
		assert_true(named == (k == MEAN_FOR_SUM));
		capture_free(&c);
	}
}

static int load(void **state)
{
	(void)state;
	op_added_from("tests/ops/l2norm.op");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_kernel_is_judged) };

	return cmocka_run_group_tests(tests, load, NULL);
}
