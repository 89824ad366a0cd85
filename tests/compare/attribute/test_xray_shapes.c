/* The x-ray on outputs of shapes that few ops have: of rank 1, and of an axis longer than is searched. rmsnorm_fp8 has both: its
 * scales are [R]. */
#include "compare/attribute/suspects.h"
#include "tests/kernel_model.h"

enum { OUT_Y, OUT_SCALE, D = 2 };

/* R rows as a kernel of float32 answers them. */
static void scales(struct capture *c, struct call *call, struct xray *x, size_t R)
{
	struct test_case k = *case_find("rmsnorm_fp8", "odd_1007");
	struct plan p = plan_plain(&arith_f32, 24);
	struct error e;

	k.dims = (const struct case_dim[]){ { "R", R }, { "D", D }, { 0 } };
	no_error(case_make(c, &k, 1, true, &e), &e);
	answer_by(c, &p);
	no_error(call_bind(call, c, true, &e) && xray_make(x, call, NULL, &e), &e);
	x->emulation = plan_plain(&arith_f64, arith_f64.precision);
}

static void blocks_of_rank_1_are_of_rows(void **state)
{
	(void)state;
	for (size_t R = 60; R <= 240; R *= 2) {
		struct capture c;
		struct call call;
		struct xray x;
		scales(&c, &call, &x, R);
		assert_false(x.segments[OUT_SCALE]);
		for (size_t row = 0; row < R; row++) {
			size_t block = R <= 64 ? row : row * 64 / R;
			assert_int_equal(x.block[x.first[OUT_Y] + row * D] - x.first_block[OUT_Y], block);
			assert_int_equal(x.block[x.first[OUT_SCALE] + row] - x.first_block[OUT_SCALE], block);
		}
		xray_free(&x);
		capture_free(&c);
	}
}

/* 2^16 indices are searched, and more are not. */
static void an_axis_may_be_too_long_to_search(void **state)
{
	static const struct { size_t R; const char *where;
	} rows[] = { { 1 << 16, "at R = 5 to 8" }, { 70000, "spread over it" } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char where[256];
		struct capture c;
		struct call call;
		struct error e;
		struct xray x;
		scales(&c, &call, &x, rows[i].R);
		xray_free(&x);
		for (size_t r = 5; r < 9; r++) set(capture_out(&c, "scale"), r, 100);
		no_error(xray_make(&x, &call, NULL, &e), &e);
		x.emulation = plan_plain(&arith_f64, arith_f64.precision);
		x.e = &e;
		no_error(xray_refresh(&x) && where_left(&x, where, sizeof where), &e);
		if (strncmp(where, "100 % of it in scale", 20) || !strstr(where, rows[i].where)) fail_msg("%zu rows: %s", rows[i].R, where);
		xray_free(&x);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_rank_1_are_of_rows),
		cmocka_unit_test(an_axis_may_be_too_long_to_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
