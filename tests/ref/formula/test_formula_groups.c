/* Pieces that 0:n counts, of shapes of their own and, where they are many, of one; numbers joined to vectors. */
#include <math.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/kernel_model.h"

enum { C = 1200, L = 3 };

/* The op of that name, with these lines of pieces, added to the others. */
static void grouped(const char *name, const char *pieces)
{
	char text[1024];

	snprintf(text, sizeof text, "op %s\nin x [N, C, L]  w [C]\nout y [N, C, L]\nparam groups\nwhere C mod groups == 0\n"
		"let per = C div groups\n%s", name, pieces);
	op_added_of("g.op", text);
}

static void made(struct capture *c, const char *op, int groups)
{
	struct error e;
	char params[64];

	*c = (struct capture){ 0 };
	snprintf(params, sizeof params, "{\"groups\": %d}", groups);
	assert_true(meta_set(&c->tensors, "etalon.op", op) && meta_set(&c->tensors, "etalon.params", params));
	float *x = tensors_add(&c->tensors, "in.x", DT_F32, 3, (size_t[]){ 2, C, L })->data;
	float *w = tensors_add(&c->tensors, "in.w", DT_F32, 1, (size_t[]){ C })->data;
	for (int i = 0; i < 2 * C * L; i++) x[i] = (float)(i * 7 % 31);
	for (int i = 0; i < C; i++) w[i] = (float)(i % 13);
	assert_true(capture_bind(c, &e));
}

/* Each channel times its weight, less its group's mean, by hand. */
static void of_each_group(const char *op, int groups)
{
	struct plan plan = plan_plain(&arith_f64, 53);
	struct capture c;
	struct answer a;
	struct call call;
	struct error e;

	made(&c, op, groups);
	no_error(call_bind(&call, &c, false, &e), &e);
	no_error(ref_run(&call, &plan, &a, &e), &e);
	const float *x = capture_in(&c, "x")->data, *w = capture_in(&c, "w")->data;
	for (int n = 0, per = C / groups; n < 2; n++)
		for (int g = 0; g < groups; g++) {
			const float *of = x + (n * C + g * per) * L;
			double sum = 0;
			for (int i = 0; i < per * L; i++) sum += of[i];
			for (int i = 0; i < per * L; i++) {
				double want = of[i] * w[g * per + i / L] - sum / (per * L);
				if (!(fabs(a.hi[0][(n * C + g * per) * L + i] - want) < 1e-9)) fail_msg("%d groups: element %d of group %d", groups, i, g);
			}
		}
	answer_free(&a);
	capture_free(&c);
}

static void groups_of_channels(void **state)
{
	static const int groups[] = { 1, 4, 240, 300, 1200 };

	(void)state;
	grouped("groups", "each n in N, g in 0:groups\nblock = x[n, g * per:g * per + per]\nv = w[g * per:g * per + per]\n"
		"y[n, g * per:g * per + per] = block * v - mean(mean(block))\n");
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) of_each_group("groups", groups[i]);
}

/* Not the file is wrong but the call's parameter. */
static void a_wrong_count_is_the_calls(void **state)
{
	static const int wrong[] = { 0, -4, 7 };
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	for (int i = 0; i < 3; i++) {
		made(&c, "groups", wrong[i]);
		assert_false(call_bind(&call, &c, false, &e));
		assert_true(e.code == E_PARAM || e.code == E_VALUE);
		if (wrong[i] < 0) assert_string_equal(e.item, "groups");
		capture_free(&c);
	}
}

static void numbers_are_joined(void **state)
{
	static const char text[] = "op pairs\nin x [R, D]\nout y [R, K] z [R, M]\nlet K = 2\nlet M = D + 1\n"
		"each r in R\na = max(x[r])\nb = sum(x[r])\n"
		"y[r] = joined(a, b)\nz[r] = joined(x[r], b)\n";
	struct plan plan = plan_plain(&arith_dd, arith_dd.precision);
	const float x[6] = { 1, 5, -2, 4, 0, 3 };
	struct capture c = { 0 };
	struct answer a;
	struct call call;
	struct error e;

	(void)state;
	op_added_of("p.op", text);
	assert_true(meta_set(&c.tensors, "etalon.op", "pairs") && meta_set(&c.tensors, "etalon.params", "{}"));
	memcpy(tensors_add(&c.tensors, "in.x", DT_F32, 2, (size_t[]){ 2, 3 })->data, x, sizeof x);
	assert_true(capture_bind(&c, &e));
	no_error(call_bind(&call, &c, false, &e), &e);
	no_error(ref_run(&call, &plan, &a, &e), &e);
	assert_memory_equal(a.hi[0], ((double[]){ 5, 4, 4, 7 }), 4 * sizeof(double));
	assert_memory_equal(a.hi[1], ((double[]){ 1, 5, -2, 4, 4, 0, 3, 7 }), 8 * sizeof(double));
	answer_free(&a);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_of_channels), cmocka_unit_test(a_wrong_count_is_the_calls), cmocka_unit_test(numbers_are_joined)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
