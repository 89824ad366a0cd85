/* Divergences of rows of logits against a loop in long double that shares nothing with them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/logits/logit_row.h"
#include "tests/helpers.h"

static double uniform(uint64_t *state) { return (double)(random_bits(state) >> 11) * 0x1p-53; }

/* About normal, spread 1. */
static double normal(uint64_t *state)
{
	double s = -6;

	for (int i = 0; i < 12; i++) s += uniform(state);
	return s;
}

/* The largest of x [V] by value, then by index, not among the n taken. */
static size_t next_largest(const double *x, size_t V, const size_t *taken, size_t n)
{
	size_t best = V;

	for (size_t i = 0; i < V; i++) {
		bool free_one = x[i] == x[i] && x[i] > (double)-INFINITY;
		for (size_t k = 0; k < n; k++) free_one = free_one && taken[k] != i;
		if (free_one && (best == V || x[i] > x[best])) best = i;
	}
	return best;
}

static long double log_sum(const double *x, size_t V)
{
	long double max = -INFINITY, sum = 0;

	for (size_t i = 0; i < V; i++) max = x[i] > max ? x[i] : max;
	for (size_t i = 0; i < V; i++) sum += expl(x[i] - max);
	return max + logl(sum);
}

/* KL(x||y) = Σ p (log p - log q) over the tokens with p > 0. */
static long double divergence(const double *x, const double *y, size_t V)
{
	long double lx = log_sum(x, V), ly = log_sum(y, V), kl = 0;

	for (size_t i = 0; i < V; i++)
		if (x[i] > (double)-INFINITY) kl += expl(x[i] - lx) * ((x[i] - lx) - (y[i] - ly));
	return kl;
}

static void near(double found, long double expected, const char *what)
{
	long double off = fabsl(found - expected), bound = 4e-14L + 4e-14L * fabsl(expected);

	if (!(off <= bound)) fail_msg("%s: %.17g, expected %.17Lg", what, found, expected);
}

/* logit_row on x, y stored as these types against the loops above. */
static void agrees(enum dtype dx, enum dtype dy, double *x, double *y, size_t V, size_t top)
{
	static unsigned char a[1 << 16], b[1 << 16];
	size_t taken_x[LOGIT_TOP], taken_y[LOGIT_TOP], histogram[LOGIT_BINS] = { 0 }, counted = 0;
	long double sum = 0, squares = 0, max = 0;
	struct logit_row r;

	assert_true(V * 8 + 1 <= sizeof a);
	dtype_store(dx, x, V, a + 1);           /* any alignment */
	dtype_store(dy, y, V, b + 1);
	dtype_load(dx, a + 1, V, x);
	dtype_load(dy, b + 1, V, y);
	logit_row(dx, a + 1, dy, b + 1, V, top, histogram, &r);
	near(r.a.log_sum, log_sum(x, V), "log sum a");
	near(r.b.log_sum, log_sum(y, V), "log sum b");
	near(r.kl, divergence(x, y, V), "KL");
	near(r.kl_back, divergence(y, x, V), "KL back");
	for (size_t i = 0; i < V; i++) {
		if (!isfinite(x[i])) continue;
		long double d = (long double)y[i] - x[i];
		sum += d, squares += d * d, max = fabsl(d) > max ? fabsl(d) : max;
		counted++;
		size_t bin = 0;
		while (bin + 1 < LOGIT_BINS && fabs(y[i] - x[i]) >= logit_bin_from(bin + 1)) bin++;
		assert_true(histogram[bin]-- > 0);
	}
	for (size_t i = 0; i < LOGIT_BINS; i++) assert_int_equal(histogram[i], 0);
	assert_int_equal(r.count, counted);
	assert_true(r.max == (double)max && fabs(y[r.worst] - x[r.worst]) == r.max);
	assert_true(fabsl(r.sum - sum) <= 1e-12L * sqrtl(squares * (long double)V) && fabsl(r.squares - squares) <= 1e-12L * squares);
	size_t expected = counted < top ? counted : top;
	assert_true(r.a.n_top == expected && r.b.n_top == expected);
	for (size_t k = 0; k < expected; k++) {
		taken_x[k] = next_largest(x, V, taken_x, k);
		taken_y[k] = next_largest(y, V, taken_y, k);
		assert_true(r.a.top[k].token == taken_x[k] && r.a.top[k].value == x[taken_x[k]]);
		assert_true(r.b.top[k].token == taken_y[k] && r.b.top[k].value == y[taken_y[k]]);
		assert_int_equal(logit_rank(dx, a + 1, V, taken_x[k]), k + 1);
	}
}

static void agrees_with_long_double(void **state)
{
	static const enum dtype types[] = { DT_F64, DT_F32, DT_BF16, DT_F16, DT_F8_E4M3 };
	static const double error[] = { 1e-9, 1e-5, 1e-2, 3 }, spread[] = { 0.01, 3, 60 };
	static double x[8000], y[8000];
	uint64_t seed = 1;

	(void)state;
	for (size_t k = 0; k < 600; k++) {
		size_t V = 1 + random_bits(&seed) % (k % 3 ? 3000 : 20);
		double scale = spread[k % 3], noise = error[k % 4], shift = k % 5 ? 0 : 30;
		for (size_t i = 0; i < V; i++) {
			x[i] = scale * normal(&seed);
			y[i] = x[i] + noise * normal(&seed) + shift;
		}
		agrees(types[k % 5], types[k / 5 % 5], x, y, V, k % 7 ? k % 20 : LOGIT_TOP);
	}
}

/* Maxima late, falling and rising: every block rescales, or none. */
static void order_does_not_matter(void **state)
{
	static double x[8000], y[8000];

	(void)state;
	for (int rising = 0; rising < 2; rising++) {
		for (size_t i = 0; i < 8000; i++) {
			x[i] = 0.1 * (double)(rising ? i : 8000 - i);
			y[i] = x[i] + 0.01 * sin((double)i);
		}
		agrees(DT_F64, DT_F64, x, y, 8000, 10);
	}
}

static void equal_rows_are_at_no_distance(void **state)
{
	static double x[5000];
	struct logit_row r;
	uint64_t seed = 2;

	(void)state;
	for (size_t i = 0; i < 5000; i++) x[i] = 10 * normal(&seed);
	logit_row(DT_F64, x, DT_F64, x, 5000, 3, NULL, &r);
	assert_true(r.kl == 0 && r.kl_back == 0 && r.max == 0 && r.squares == 0 && r.count == 5000);
}

static void masks_are_legal_where_both_have_them(void **state)
{
	static double x[4000], y[4000];
	uint64_t seed = 3;
	struct logit_row r;

	(void)state;
	for (size_t i = 0; i < 4000; i++) {
		bool masked = i % 7 == 0 || (i > 1000 && i < 2100);
		x[i] = masked ? (double)-INFINITY : normal(&seed);
		y[i] = masked ? (double)-INFINITY : x[i] + 0.1 * normal(&seed);
	}
	logit_row(DT_F64, x, DT_F64, y, 4000, 0, NULL, &r);
	assert_true(r.masked + r.count == 4000 && r.masked > 1500 && r.a.masked == 0 && r.b.masked == 0);
	agrees(DT_F32, DT_F64, x, y, 4000, 10);
}

static void a_mask_on_one_side_is_counted(void **state)
{
	double x[] = { 1, 2, 3, 4 }, y[] = { 1, 2, (double)-INFINITY, 4 }, e = exp(1), all = e + e * e + e * e * e + exp(4);
	struct logit_row r;

	(void)state;
	logit_row(DT_F64, x, DT_F64, y, 4, 4, NULL, &r);
	assert_true(r.a.masked == 0 && r.b.masked == 1 && r.count == 3 && r.b.n_top == 3);
	near(r.a.log_sum, logl(all), "all of the reference's tokens count");
	assert_true(r.kl == (double)INFINITY);
	near(r.kl_back, logl(all) - logl(all - e * e * e), "KL of a row that masks more");
	logit_row(DT_F64, y, DT_F64, x, 4, 4, NULL, &r);
	assert_true(r.a.masked == 1 && r.b.masked == 0 && r.kl_back == (double)INFINITY && isfinite(r.kl));
}

/* A bad value anywhere in the row, in a block of its own or not, on either side. */
static void bad_values_leave_no_divergence(void **state)
{
	static const double bad[] = { (double)NAN, (double)INFINITY };
	static double x[3000], y[3000];
	uint64_t seed = 4;

	(void)state;
	for (size_t k = 0; k < 400; k++) {
		size_t V = 1 + random_bits(&seed) % 3000, at = random_bits(&seed) % V;
		struct logit_row r;
		for (size_t i = 0; i < V; i++) y[i] = x[i] = normal(&seed);
		(k % 2 ? x : y)[at] = bad[k / 2 % 2];
		logit_row(DT_F64, x, DT_F64, y, V, 5, NULL, &r);
		const struct logit_side *s = k % 2 ? &r.a : &r.b, *other = k % 2 ? &r.b : &r.a;
		assert_true(isnan(r.kl) && isnan(r.kl_back));
		assert_true(s->nan == !(k / 2 % 2) && s->inf == k / 2 % 2 && other->nan == 0 && other->inf == 0);
		assert_int_equal(r.count, V - 1);
		for (size_t i = 0; i < s->n_top; i++) assert_true(s->top[i].value == s->top[i].value);
	}
}

static void nothing_finite_is_no_agreement(void **state)
{
	static double x[2000];
	struct logit_row r;

	(void)state;
	for (size_t i = 0; i < 2000; i++) x[i] = (double)-INFINITY;
	logit_row(DT_F64, x, DT_F64, x, 2000, 5, NULL, &r);
	assert_true(isnan(r.kl) && isnan(r.kl_back) && r.count == 0 && r.masked == 2000 && r.a.n_top == 0);
	assert_true(r.a.log_sum == (double)-INFINITY);
}

static void one_token_is_certain(void **state)
{
	double x = 3, y = -5;
	struct logit_row r;

	(void)state;
	logit_row(DT_F64, &x, DT_F64, &y, 1, 5, NULL, &r);
	assert_true(r.kl == 0 && r.kl_back == 0 && r.max == 8 && r.a.n_top == 1 && r.a.log_sum == 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_long_double), cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(equal_rows_are_at_no_distance), cmocka_unit_test(masks_are_legal_where_both_have_them),
		cmocka_unit_test(a_mask_on_one_side_is_counted), cmocka_unit_test(bad_values_leave_no_divergence),
		cmocka_unit_test(nothing_finite_is_no_agreement), cmocka_unit_test(one_token_is_certain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
