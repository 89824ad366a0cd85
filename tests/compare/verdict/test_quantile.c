/* Quantiles against tails summed another way; selection against qsort. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/verdict/quantile.h"
#include "tests/helpers.h"

/* P(|T_nu| > t): with t = sqrt(nu) tan x the density is c cos^(nu-1) x. Simpson's rule. */
static long double student_tail(long double nu, long double t)
{
	const long double pi = acosl(-1);
	long double c = expl(lgammal((nu + 1) / 2) - lgammal(nu / 2)) / sqrtl(pi);
	long double low = atanl(t / sqrtl(nu)), high = pi / 2, sum = 0;
	enum { N = 400 };

	for (int i = 0; i <= N; i++) {
		long double x = low + (high - low) * i / N;
		sum += (i % N == 0 ? 1 : i % 2 ? 4 : 2) * powl(i < N ? cosl(x) : 0, nu - 1);
	}
	return 2 * c * sum * (high - low) / (3 * N);
}

/* P(X² > x), n degrees of freedom, n even or 1: a sum of Poisson probabilities; erfc. */
static long double chi_squared_tail(int n, long double x)
{
	long double sum = 0;

	if (n == 1) return erfcl(sqrtl(x / 2));
	for (int k = n / 2 - 1; k >= 0; k--) sum += expl(k * logl(x / 2) - x / 2 - lgammal(k + 1.0L));
	return sum;
}

/* Where a falling tail(n, x) reaches p. */
static long double falls_to(long double p, long double (*tail)(int, long double), int n)
{
	long double low = 0, high = 1;

	while (tail(n, high) > p) low = high, high *= 2;
	for (int i = 0; i < 40; i++) *(tail(n, (low + high) / 2) > p ? &low : &high) = (low + high) / 2;
	return high;
}

static long double student_of(int nu, long double t) { return student_tail(nu, t); }

static const double probability[] = { 1e-2, 1e-4, 1e-6, 1e-9, 1e-12, 1e-15 };
enum { PROBABILITIES = sizeof probability / sizeof *probability };

/* Two-sided quantiles as printed in tables of Student's distribution. */
static void the_witness_knows_the_tables(void **state)
{
	static const struct { int nu; double p, t; } table[] = {
		{ 2, 0.05, 4.303 }, { 8, 0.01, 3.355 }, { 16, 0.01, 2.921 }, { 20, 0.001, 3.850 }, { 60, 0.001, 3.460 }
	};
	static const struct { int n; double p, x; } squares[] = {
		{ 1, 0.01, 6.635 }, { 2, 0.001, 13.816 }, { 10, 0.01, 23.209 }, { 100, 0.01, 135.807 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		assert_true(fabsl(falls_to(table[i].p, student_of, table[i].nu) - table[i].t) < 6e-4L);
	for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
		assert_true(fabsl(falls_to(squares[i].p, chi_squared_tail, squares[i].n) - squares[i].x) < 6e-4L);
}

/* Above the true quantile, by 5 % at most, from 1e-6 on by 2 %. */
static void student_is_bounded_from_above(void **state)
{
	static const int nus[] = { 8, 16, 40, 64, 1000 };

	(void)state;
	for (size_t i = 0; i < sizeof nus / sizeof *nus; i++)
		for (int j = 0; j < PROBABILITIES; j++) {
			double p = probability[j], t = student_quantile(nus[i], p);
			long double exact = falls_to(p, student_of, nus[i]), most = p > 1e-5 ? 1.05L : 1.02L;
			if (!(student_tail(nus[i], t) <= p && t <= exact * most))
				fail_msg("nu %d, p %g: %.8g for %.8Lg", nus[i], p, t, exact);
		}
}

/* From 1e-6 on the excess over 1 is at most 1.55 times what it should be, even for one degree of
 * freedom. */
static void mean_square_is_bounded_from_above(void **state)
{
	static const int ns[] = { 1, 2, 4, 16, 100, 1000, 4000 };

	(void)state;
	for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
		for (int j = 0; j < PROBABILITIES; j++) {
			double p = probability[j], m = mean_square_bound(ns[i], p);
			long double exact = falls_to(p, chi_squared_tail, ns[i]) / ns[i];
			if (!(chi_squared_tail(ns[i], (long double)m * ns[i]) <= p && (p > 1e-5 || m - 1 <= 1.55L * (exact - 1))))
				fail_msg("n %d, p %g: %.8g for %.8Lg", ns[i], p, m, exact);
		}
}

static int ascending(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* n numbers of `values` different ones, the last of them infinite. */
static void draw(double *x, size_t n, uint64_t values, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = random_bits(seed) % values;
		x[i] = v + 1 == values ? (double)INFINITY : (double)v - (double)(values / 2);
	}
}

static void selection_agrees_with_sorting(void **state)
{
	enum { MOST = 300 };
	double x[MOST], sorted[MOST];
	uint64_t seed = 1;

	(void)state;
	for (size_t round = 0; round < 3000; round++) {
		size_t n = round % MOST + 1, k = random_bits(&seed) % n;
		draw(x, n, (const uint64_t[]){ 1, 2, 5, 100, 1 << 20 }[round % 5], &seed);
		memcpy(sorted, x, n * sizeof *x);
		qsort(sorted, n, sizeof *sorted, ascending);
		if (round % 3 == 1) memcpy(x, sorted, n * sizeof *x);
		if (round % 7 == 0) k = round % 2 ? 0 : n - 1;
		assert_true(same_double(select_smallest(x, n, k), sorted[k]));
		qsort(x, n, sizeof *x, ascending);
		assert_memory_equal(x, sorted, n * sizeof *x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_witness_knows_the_tables),
		cmocka_unit_test(student_is_bounded_from_above),
		cmocka_unit_test(mean_square_is_bounded_from_above),
		cmocka_unit_test(selection_agrees_with_sorting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
