/* What a stage leaves for the next. */
#include "tests/witness.h"

/* A field as a matrix is what loading it gives, random stream included. */
static void fields(calc *c)
{
	field f = c_field(c, 3, 5);
	vec x = c_vec(c, 15), y = c_vec(c, 15);

	for (size_t i = 0; i < x.n; i++) c_set(c, c_part(c, x, i, 1), (double)i / 8);
	c_put(c, f, 0, 1, x);
	if (f.lo) f.lo[7] = 0x1p-80;
	uint64_t before = c->noise;
	c_get(c, y, f, 0, 1);
	uint64_t after = c->noise;
	c->noise = before;
	mat A = c_matrix(c, f);
	assert_true(A.rows == 3 && A.cols == 5 && (c->noise == after || c->arith == &arith_f64 || c->arith == &arith_f64up));
	c_sub(c, y, y, flat(A));
	for (size_t i = 0; i < y.n; i++) assert_true(c_value(c, c_part(c, y, i, 1)) == 0 && c_value(c, c_part(c, flat(A), i, 1)) == (double)i / 8);
	vec z = c_vec(c, 3);
	c_get(c, z, f, 1, 5);
	for (size_t i = 0; i < 3; i++) assert_true(c_value(c, c_part(c, z, i, 1)) == (double)(1 + 5 * i) / 8);
}

static void every_field(void **state)
{
	static const char *const names[] = { "f32", "f32_tree", "mma:hopper", "f64", "f64up", "dd", "mpfr:128", "noisy" };

	(void)state;
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		struct plan p = plan_in(names[k]);
		in_calc(&p, NULL, NULL, fields);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_field) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
