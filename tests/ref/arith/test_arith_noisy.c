/* Monte Carlo arithmetic: its grid, its bounds, and that it has no bias. */
#include <math.h>

#include "tests/witness.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

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
	enum { MANY = 40000 };

	for (size_t i = 0; i < LEN(rows); i++) {
		double sum = 0, squares = 0, least = 0, most = 0, b = (float)rows[i].b;
		vec x = c_vec(c, MANY), y = c_vec(c, MANY);
		c_set(c, x, rows[i].a);
		for (size_t j = 0; j < MANY; j++) ((double *)y.at)[j] = rows[i].op >= 0 ? b : 0;
		if (rows[i].op >= 0) c->arith->binary(c, (enum binary)rows[i].op, x.at, x.at, y.at, 1, MANY);
		else c_map(c, x, (enum fn)rows[i].f, x);
		double truth = rows[i].op == OP_SUB ? rows[i].a - b : rows[i].truth;
		for (size_t j = 0; j < MANY; j++) {
			double v = c_value(c, c_part(c, x, j, 1)), d = (v - truth) / (fabs(truth) * 0x1p-23);
			assert_true(v == (float)v && fabs(d) <= rows[i].bound);
			sum += d;
			squares += d * d;
			least = fmin(least, d);
			most = fmax(most, d);
		}
		double mean = sum / MANY, error = sqrt(squares / MANY / MANY);
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

/* Long sums by blocks scatter as sums of one multiply-add after the other do. Of bf16 numbers most additions are exact, and the
 * rest err by less. */
struct errors { double square, mean, fourth; };
static struct errors errors_of(const double *C, const double *exact, size_t n)
{
	struct errors x = { 0 };

	for (size_t i = 0; i < n; i++) {
		double d = C[i] - exact[i];
		x.mean += d / (double)n;
		x.square += d * d / (double)n;
		x.fourth += d * d * d * d / (double)n;
	}
	return x;
}

static void long_sums(calc *c, enum format f, size_t k)
{
	enum { M = 64, N = 128 };
	mat A = c_mat(c, M, k), B = c_mat(c, N, k), C = c_mat(c, M, N), D = c_mat(c, M, N);
	double *a = A.at, *b = B.at, *exact = c_vec(c, M * N).at;
	uint64_t stream = 1;

	for (size_t i = 0; i < (M + N) * k; i++) {
		double x = 0;
		for (int j = 0; j < 4; j++) x += (double)(random_next(&stream) >> 11) * 0x1p-53 - 0.5;
		*(i < M * k ? a + i : b + i - M * k) = format_round(f, ROUND_NEAREST_EVEN, x, 0);
	}
	for (size_t i = 0; i < M; i++)
		for (size_t j = 0; j < N; j++)
			for (size_t l = 0; l < k; l++) exact[i * N + j] += a[i * k + l] * b[j * k + l];
	c_gemm(c, C, NT, A, B);
	for (size_t i = 0; i < M * N; i++) c_dot(c, c_part(c, flat(D), i, 1), c_row(c, A, i / N), c_row(c, B, i % N));
	struct errors got = errors_of(C.at, exact, M * N), want = errors_of(D.at, exact, M * N);
	for (size_t i = 0; i < M * N; i++) assert_true(((double *)C.at)[i] == (double)(float)((double *)C.at)[i]);
	if (want.square == 0) {
		assert_true(got.square == 0);
		return;
	}
	/* a mean square's relative standard error is √((κ - 1)/n), κ = fourth/square² */
	double ratio = got.square / want.square, error = sqrt(2 * (want.fourth / (want.square * want.square) - 1) / (M * N));
	if (!(fabs(ratio - 1) < 4 * error) || error > 0.08) fail_msg("%s, %zu products: mean squares %g apart, error %g",
		format_info[f].name, k, ratio - 1, error);
	if (!(fabs(got.mean) < 5 * sqrt(got.square / (M * N)))) fail_msg("%zu products: biased by %g", k, got.mean);
}

static void blocks(calc *c)
{
	long_sums(c, FMT_F32, 512);
	long_sums(c, FMT_F32, 1100);
	long_sums(c, FMT_BF16, 512);
	long_sums(c, FMT_BF16, 3000);
	long_sums(c, FMT_E4M3, 1024);   /* all exact */
}

/* What is no number stays none, and sums of nothing, or of few bits, are exact. */
static void keeps_what_it_must(calc *c)
{
	enum { K = 600 };
	mat A = c_mat(c, 4, K), B = c_mat(c, 3, K), C = c_mat(c, 4, 3);
	double *a = A.at, *b = B.at, *y = C.at;

	for (size_t l = 0; l < K; l++) {
		a[K + l] = (double)(l % 7) - 3, a[2 * K + l] = a[3 * K + l] = 1;
		b[l] = (double)(l % 5), b[K + l] = 0, b[2 * K + l] = 1;
	}
	a[2 * K + 17] = NAN;
	a[3 * K + 17] = INFINITY;
	c_gemm(c, C, NT, A, B);
	for (int j = 0; j < 3; j++) assert_true(y[j] == 0 && isnan(y[6 + j]));
	double sum = 0;
	for (size_t l = 0; l < K; l++) sum += a[K + l] * b[l];
	assert_true(y[3] == sum && y[4] == 0 && y[5] != 0);
	assert_true(isinf(y[9]) && isnan(y[10]) && isinf(y[11]));
}

static void draws(void **state)
{
	struct plan p = plan_in("noisy");

	(void)state;
	in_calc(&p, NULL, NULL, unbiased);
	in_calc(&p, NULL, NULL, flushes);
	in_calc(&p, NULL, NULL, products);
	in_calc(&p, NULL, NULL, blocks);
	in_calc(&p, NULL, NULL, keeps_what_it_must);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draws),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
