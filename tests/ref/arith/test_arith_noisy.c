/* Monte Carlo arithmetic: its grid, its bounds, and that it has no bias. */
#include <math.h>
#include <string.h>

#include "ref/arith/noisy.h"
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
		{ -1, FN_EXP2, -2.5, 0, 0.17677669529663689, 3 }, { -1, FN_EXP2, 60.375, 0, 0x1.4bfdad5362a27p+60, 3 },
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
	/* in sums of products side by side, too: those below 2^-126, and no others */
	mat A = c_mat(c, 2, 64), B = c_mat(c, 64, 2), C = c_mat(c, 64, 64);
	for (int below = 0; below < 2; below++) {
		for (size_t i = 0; i < 128; i++) ((double *)A.at)[i] = 0x1p-63, ((double *)B.at)[i] = i % 2 ? 0 : below ? 0x1p-64 : 0x1p-63;
		c_gemm(c, C, NN, B, A);
		kept = 0;
		for (size_t i = 0; i < 64 * 64; i++) kept += ((double *)C.at)[i] != 0;
		assert_true(below ? kept > 64 * 16 && kept < 64 * 48 : kept == 64 * 64);
	}
	kept = 0;
	c_set(c, x, 1 + 0x1p-25);
	for (size_t i = 0; i < x.n; i++) kept += c_value(c, c_part(c, x, i, 1)) == 1 + 0x1p-23;
	assert_true(fabs((double)kept - 2500) <= 5 * sqrt(10000 * 0.25 * 0.75));
}

/* Two draws, both uniform: how their product scatters about 0 where they have nothing to do with each other, in standard errors. */
struct together { double sum; size_t n; };
static double centred(const struct draws *d, size_t i) { return (double)drawn(d, i) * 0x1p-32 - 0.5; }
static void add_pair(struct together *t, double a, double b) { t->sum += 12 * a * b, t->n++; }
static double errors_apart(const struct together *t) { return fabs(t->sum) / sqrt((double)t->n); }

/* Neighbours of a row, rows one after the other, and rows from one place have nothing to do with each other; draws are uniform, and
 * sums within a row scatter as those of independent numbers. */
static void rows_of_draws(calc *c)
{
	enum { ROWS = 100000, LENGTH = 128, STRIDE = ROW / LENGTH };
	struct together beside = { 0 }, after = { 0 }, again = { 0 };
	static struct draws last[PLACES];
	double mean = 0, square = 0;
	struct draws before = draws_at(c->noise);

	memset(last, 0, sizeof last);
	for (size_t r = 1; r < ROWS; r++) {
		struct draws d = draws_at(c->noise + r * LENGTH), *same = &last[d.first - noise_table[0]];
		size_t i = r % (LENGTH - 1);
		double sum = 0;
		for (size_t l = 0; l < LENGTH; l++) sum += centred(&d, l * STRIDE);
		mean += sum / ROWS;
		square += 12 * sum * sum / LENGTH / ROWS;
		add_pair(&beside, centred(&d, i), centred(&d, i + 1));
		add_pair(&after, centred(&d, i), centred(&before, i));
		if (same->first) {
			struct draws here = { d.first, d.first, d.mask }, there = { d.first, d.first, same->mask };
			add_pair(&again, centred(&here, i), centred(&there, i));
		}
		*same = before = d;
	}
	assert_true(fabs(mean) < 5 * sqrt(LENGTH / 12.0 / ROWS) && fabs(square - 1) < 5 * sqrt(2.0 / ROWS) && again.n > ROWS / 2);
	assert_true(errors_apart(&beside) < 5 && errors_apart(&after) < 5 && errors_apart(&again) < 5);
}

/* Sums side by side, and long ones by blocks, scatter as one multiply-add after the other does. Of bf16 numbers most additions are exact, and the
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

static void sums(calc *c, enum format f, size_t k)
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

/* Of any shape, and however its factors lie, a product is its sums but for a unit a term, and takes a draw a term. */
static void shapes(calc *c)
{
	static const size_t sizes[][3] = { { 1, 1, 1 }, { 3, 17, 129 }, { 5, 16, 128 }, { 7, 33, 5 }, { 2, 40, 300 } };

	for (size_t s = 0; s < 3 * LEN(sizes); s++) {
		enum trans t = (enum trans)(s % 3);
		size_t m = sizes[s / 3][0], n = sizes[s / 3][1], k = sizes[s / 3][2];
		mat A = t == TN ? c_mat(c, k, m) : c_mat(c, m, k), B = t == NT ? c_mat(c, n, k) : c_mat(c, k, n), C = c_mat(c, m, n);
		double *a = A.at, *b = B.at, *y = C.at;
		for (size_t i = 0; i < m * k; i++) a[i] = (double)(float)((double)(i * 7919 % 1000) / 700 - 0.7);
		for (size_t i = 0; i < n * k; i++) b[i] = (double)(float)((double)(i * 3571 % 1000) / 900 - 0.5);
		c_set(c, flat(C), 5);
		uint64_t before = c->noise;
		c_gemm(c, C, t, A, B);
		assert_true(c->noise == before + m * n * k);
		for (size_t i = 0; i < m; i++)
			for (size_t j = 0; j < n; j++) {
				double sum = 0, size = 0;
				for (size_t l = 0; l < k; l++) {
					double p = a[t == TN ? l * m + i : i * k + l] * b[t == NT ? j * k + l : l * n + j];
					sum += p, size += fabs(p);
				}
				assert_true(fabs(y[i * n + j] - sum) <= 0x1p-23 * (double)k * size && y[i * n + j] == (double)(float)y[i * n + j]);
			}
	}
}

/* Results side by side, made in each of the ways there are, err each by itself: whatever the lag. */
enum { WAYS = 6, BESIDE = 4 * LANES, TIMES = 4000 };
static void results(calc *c, int way, double *y, const double *x)
{
	memset(y, 0, BESIDE * sizeof *y);
	switch (way) {
	case 0: c->arith->load(c, y, x, BESIDE); break;
	case 1: c->arith->binary(c, OP_MUL, y, x, x, 0, BESIDE); break;
	case 2: c->arith->binary(c, OP_SUB, y, x, x + BESIDE, 1, BESIDE); break;
	case 3: c->arith->axpy(c, y, x, x, BESIDE); break;
	case 4: c->arith->gemv_t(c, y, x, x, 3, BESIDE); break;
	default: c->arith->gemm(c, y, x, false, x, false, 2, BESIDE / 2, 3); break;
	}
}

static void err_by_themselves(calc *c)
{
	static double y[TIMES][BESIDE], x[3 * BESIDE];

	for (size_t i = 0; i < 3 * BESIDE; i++) x[i] = i / BESIDE == 1 ? 0x1p-25 / 3 : 1 + 0x1p-23 / 3;
	for (int way = 0; way < WAYS; way++) {
		double product[LANES + 1] = { 0 };
		for (size_t t = 0; t < TIMES; t++) results(c, way, y[t], x);
		for (size_t i = 0; i < BESIDE; i++) {
			double mean = 0;
			for (size_t t = 0; t < TIMES; t++) mean += y[t][i] / TIMES;
			for (size_t t = 0; t < TIMES; t++) y[t][i] -= mean;
		}
		for (size_t lag = 0; lag <= LANES; lag++)
			for (size_t t = 0; t < TIMES; t++)
				for (size_t i = 0; i + lag < BESIDE; i++) product[lag] += y[t][i] * y[t][i + lag] / (double)(BESIDE - lag);
		assert_true(product[0] > 0);
		for (size_t lag = 1; lag <= LANES; lag++)
			if (!(fabs(product[lag]) < 5 * product[0] / sqrt((double)TIMES * (double)(BESIDE - lag))))
				fail_msg("way %d: results %zu apart go together, %g", way, lag, product[lag] / product[0]);
	}
}

static void products(calc *c)
{
	sums(c, FMT_F32, 5);
	sums(c, FMT_F32, 64);
	sums(c, FMT_F32, 300);
	sums(c, FMT_BF16, 129);
	sums(c, FMT_F32, 512);
	sums(c, FMT_F32, 1100);
	sums(c, FMT_BF16, 512);
	sums(c, FMT_BF16, 3000);
	sums(c, FMT_E4M3, 1024);   /* all exact */
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
	/* 2^x: exact where it is a power, and what a double does not hold */
	static const double power[] = { -126, -1, 0, 1, 127, 1023, -1022, 1024, INFINITY, -INFINITY, -1e300, NAN };
	vec x = c_vec(c, LEN(power));
	memcpy(x.at, power, sizeof power);
	c_map(c, x, FN_EXP2, x);
	for (size_t i = 0; i < LEN(power); i++) {
		double v = ((double *)x.at)[i], want = exp2(power[i]);
		if (!(want < 0x1p-126 ? v == 0 || v == want : v == want || (isnan(v) && isnan(want)))) fail_msg("2^%g is %g", power[i], v);
	}
}

/* Where float32 is exact, too: sums side by side scatter as one multiply-add after the other does, and a product that is 0 adds nothing. */
static void everywhere(calc *c)
{
	enum { M = 64, N = 70, K = 150 };
	mat A = c_mat(c, M, K), B = c_mat(c, N, K), C = c_mat(c, M, N);
	num y = c_vec(c, 1);
	static double got[M * N], want[M * N], exact[M * N];

	for (size_t i = 0; i < M * K; i++) c_set(c, c_part(c, flat(A), i, 1), i / K ? (double)(i * 7919 % 64) / 32 - 1 : i == 3);
	for (size_t i = 0; i < N * K; i++) c_set(c, c_part(c, flat(B), i, 1), i / K ? (double)(i * 3571 % 64) / 32 - 1 : i == 3);
	c_gemm(c, C, NT, A, B);
	for (size_t i = 0; i < M * N; i++) {
		exact[i] = 0;
		for (size_t l = 0; l < K; l++) exact[i] += c_value(c, c_part(c, flat(A), i / N * K + l, 1)) * c_value(c, c_part(c, flat(B), i % N * K + l, 1));
		c_dot(c, y, c_row(c, A, i / N), c_row(c, B, i % N));
		got[i] = c_value(c, c_part(c, flat(C), i, 1)), want[i] = c_value(c, y);
		if (i < N || i % N == 0) assert_true(got[i] == exact[i]);       /* one term alone, of few bits */
	}
	struct errors g = errors_of(got + N, exact + N, M * N - N), w = errors_of(want + N, exact + N, M * N - N);
	double error = sqrt(2 * (w.fourth / (w.square * w.square) - 1) / (M * N - N));
	if (!(w.square > 0 && error < 0.08 && fabs(g.square / w.square - 1) < 4 * error)) fail_msg("mean squares %g apart, error %g", g.square / w.square - 1, error);
	assert_true(fabs(g.mean) < 5 * sqrt(g.square / (M * N - N)));
}

static void draws(void **state)
{
	const struct plan all = plan_plain(&arith_noisy_all, arith_noisy_all.precision);
	struct plan p = plan_in("noisy");

	(void)state;
	in_calc(&p, NULL, NULL, unbiased);
	in_calc(&p, NULL, NULL, flushes);
	in_calc(&p, NULL, NULL, rows_of_draws);
	in_calc(&p, NULL, NULL, err_by_themselves);
	in_calc(&p, NULL, NULL, shapes);
	in_calc(&p, NULL, NULL, products);
	in_calc(&p, NULL, NULL, keeps_what_it_must);
	in_calc(&all, NULL, NULL, everywhere);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draws),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
