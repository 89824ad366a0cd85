/* Monte Carlo arithmetic: its grid, its bounds, and that it has no bias. */
#include <math.h>

#include "tests/witness.h"

#define LEN(a) (sizeof (a) / sizeof *(a))

/* draws of a OP b or of f(a), in units of 2^-23 |truth|: on the 24-bit grid; within the bound, on
 * both sides; mean within 5 standard errors of 0 */
static void unbiased(calc *c)
{
	static const struct { int op, f; double a, b, truth, bound; } rows[] = {
		{ OP_ADD, -1, 1, 0x1.3p-25, 1 + 0x1.3p-25, 1 }, { OP_SUB, -1, -3, 0x1p-23 / 3, -3 - 0x1p-23 / 3, 1 },
		{ OP_MUL, -1, 1.1f, 1.3f, (double)1.1f * (double)1.3f, 1 }, { OP_DIV, -1, 1, 3, 1 / 3.0, 3 },
		{ OP_POW, -1, 3, 0.75, 2.27950705695478, 5 }, { -1, FN_RSQRT, 3, 0, 0.57735026918962576, 3 },
		{ -1, FN_SIN, 2, 0, 0.90929742682568170, 3 }, { -1, FN_EXP, -2.5, 0, 0.0820849986238988, 6.5 },
		{ -1, FN_SIGMOID, -1.25, 0, 0.22270013882530884, 9.25 }, { -1, FN_TANH, 0.5, 0, 0.46211715726000976, 3 },
		{ -1, FN_SOFTPLUS, 0.5, 0, 0.97407698418010669, 10 }, { -1, FN_SILU, 1.5, 0, 1.2263617142904655, 10.5 },
	};
	enum { DRAWS = 40000 };

	for (size_t i = 0; i < LEN(rows); i++) {
		double sum = 0, squares = 0, least = 0, most = 0, b = (float)rows[i].b;
		vec x = c_vec(c, DRAWS), y = c_vec(c, DRAWS);
		c_set(c, x, rows[i].a);
		for (size_t j = 0; j < DRAWS; j++) ((double *)y.at)[j] = rows[i].op >= 0 ? b : 0;
		if (rows[i].op >= 0) c->arith->binary(c, (enum binary)rows[i].op, x.at, x.at, y.at, 1, DRAWS);
		else c_map(c, x, (enum fn)rows[i].f, x);
		double truth = rows[i].op == OP_SUB ? rows[i].a - b : rows[i].truth;
		for (size_t j = 0; j < DRAWS; j++) {
			double v = c_value(c, c_part(c, x, j, 1)), d = (v - truth) / (fabs(truth) * 0x1p-23);
			assert_true(v == (float)v && fabs(d) <= rows[i].bound);
			sum += d;
			squares += d * d;
			least = fmin(least, d);
			most = fmax(most, d);
		}
		double mean = sum / DRAWS, error = sqrt(squares / DRAWS / DRAWS);
		if (!(fabs(mean) <= 5 * error && least < 0 && most > 0)) fail_msg("row %zu: mean %g, standard error %g", i, mean, error);
	}
}

/* What is below the normal range is flushed every other time; loads round at random too. */
static void flushes(calc *c)
{
	vec x = c_vec(c, 10000);
	size_t kept = 0;

	c_set(c, x, -0x1p-130);
	for (size_t i = 0; i < x.n; i++) {
		double v = c_value(c, c_part(c, x, i, 1));
		assert_true(v == 0 || v == -0x1p-130);
		kept += v != 0;
	}
	assert_true(fabs((double)kept - 5000) <= 5 * 50);
	kept = 0;
	c_set(c, x, 1 + 0x1p-25);
	for (size_t i = 0; i < x.n; i++) kept += c_value(c, c_part(c, x, i, 1)) == 1 + 0x1p-23;
	assert_true(fabs((double)kept - 2500) <= 5 * sqrt(10000 * 0.25 * 0.75));
}

/* A product A B' is its dot products one after the other, draw for draw, however it is cut and vectorised. */
static void products(calc *c)
{
	static const size_t sizes[][3] = { { 1, 1, 1 }, { 3, 17, 129 }, { 5, 16, 128 }, { 7, 33, 5 }, { 2, 40, 300 } };

	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		size_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
		mat A = c_mat(c, m, k), B = c_mat(c, n, k), C = c_mat(c, m, n), D = c_mat(c, m, n);
		for (size_t i = 0; i < m * k; i++) c_set(c, c_part(c, flat(A), i, 1), (double)(i * 7919 % 1000) / 700 - 0.7);
		for (size_t i = 0; i < n * k; i++) c_set(c, c_part(c, flat(B), i, 1), (double)(i * 3571 % 1000) / 900 - 0.5);
		c_set(c, flat(C), 5);
		uint64_t before = c->noise;
		c_gemm(c, C, NT, A, B);
		uint64_t after = c->noise;
		c->noise = before;
		for (size_t i = 0; i < m * n; i++) c_dot(c, c_part(c, flat(D), i, 1), c_row(c, A, i / n), c_row(c, B, i % n));
		assert_true(c->noise == after && after == before + m * n * k);
		assert_memory_equal(C.at, D.at, m * n * sizeof(double));
	}
}

static void draws(void **state)
{
	struct plan p = plan_in("noisy");

	(void)state;
	in_calc(&p, NULL, NULL, unbiased);
	in_calc(&p, NULL, NULL, flushes);
	in_calc(&p, NULL, NULL, products);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draws),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
