/* The least squares behind the profile: against a solution found another way, and its error bars
 * against the scatter that they are to tell. */
#include <math.h>
#include <string.h>

#include "compare/attribute/fit.h"
#include "tests/helpers.h"

enum { N = 600, P = 5 };

/* y [N], d [P][N], weights and blocks */
struct problem {
	double y[N], d[P][N], weight[N];
	uint8_t block[N];
	int p, blocks;
	uint64_t random;
};

static double uniform(uint64_t *state) { return ((double)(random_bits(state) >> 12) + 0.5) * 0x1p-52; }
static double normal(uint64_t *state) { return sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state)); }

/* Columns that share a part, so that they are far from orthogonal; weights between 0.1 and 10. */
static void draw(struct problem *m, int p, int blocks, uint64_t seed)
{
	*m = (struct problem){ .p = p, .blocks = blocks, .random = seed };
	for (size_t i = 0; i < N; i++) {
		double common = normal(&m->random);
		for (int j = 0; j < p; j++) m->d[j][i] = common + normal(&m->random) * (j + 1);
		m->weight[i] = pow(10, 2 * uniform(&m->random) - 1);
		m->block[i] = (uint8_t)(i * (size_t)blocks / N);
	}
}

static void plant(struct problem *m, const double *c, double noise)
{
	for (size_t i = 0; i < N; i++) {
		m->y[i] = noise * normal(&m->random);
		for (int j = 0; j < m->p; j++) m->y[i] += c[j] * m->d[j][i];
	}
}

static double fit_it(const struct problem *m, struct coefficient *c)
{
	const double *d[P];

	for (int j = 0; j < P; j++) d[j] = m->d[j];
	struct fitting *f = fit_begin(m->blocks, m->p);

	assert_non_null(f);
	for (size_t at = 0; at < N; at += N / 3) {      /* in parts */
		struct sample part = { at + N / 3 < N ? N / 3 : N - at, m->blocks, m->block + at, m->weight + at };
		const double *from[P];
		for (int j = 0; j < P; j++) from[j] = d[j] + at;
		fit_add(f, &part, m->y + at, from);
	}
	return fit_end(f, c);
}

/* A [p][p+1] x = its last column, by elimination with the largest pivot. */
static void eliminate(long double A[P][P + 1], int p, long double *x)
{
	for (int k = 0; k < p; k++) {
		int pivot = k;
		for (int i = k + 1; i < p; i++)
			if (fabsl(A[i][k]) > fabsl(A[pivot][k])) pivot = i;
		for (int j = 0; j <= p; j++) {
			long double t = A[k][j];
			A[k][j] = A[pivot][j], A[pivot][j] = t;
		}
		for (int i = k + 1; i < p; i++)
			for (int j = p; j >= k; j--) A[i][j] -= A[i][k] / A[k][k] * A[k][j];
	}
	for (int k = p; k-- > 0;) {
		x[k] = A[k][p];
		for (int j = k + 1; j < p; j++) x[k] -= A[k][j] * x[j];
		x[k] /= A[k][k];
	}
}

/* The normal equations, their right side being that of y, or the unit vector j. */
static void solution(const struct problem *m, int unit, long double *x)
{
	long double A[P][P + 1] = { { 0 } };

	for (int j = 0; j < m->p; j++) {
		for (size_t i = 0; i < N; i++) {
			for (int k = 0; k < m->p; k++) A[j][k] += (long double)m->weight[i] * m->d[j][i] * m->d[k][i];
			if (unit < 0) A[j][m->p] += (long double)m->weight[i] * m->d[j][i] * m->y[i];
		}
		if (unit == j) A[j][m->p] = 1;
	}
	eliminate(A, m->p, x);
}

static void near(double found, long double expected, double relative, const char *what)
{
	if (!(fabsl(found - expected) <= relative * fabsl(expected))) fail_msg("%s: %.17g, expected %.17Lg", what, found, expected);
}

static void agrees_with_elimination(void **state)
{
	static const double planted[P] = { 0.3, -2, 1, 0, 0.01 };
	struct problem m;
	struct coefficient c[P];

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		long double x[P], residual = 0, square = 0, share[P][2] = { { 0 } };
		draw(&m, 1 + (int)(seed % P), 7, seed);
		plant(&m, planted, 3);
		double explained = fit_it(&m, c);
		solution(&m, -1, x);
		for (size_t i = 0; i < N; i++) {
			long double r = m.y[i];
			for (int j = 0; j < m.p; j++) {
				r -= x[j] * m.d[j][i];
				share[j][0] += (long double)m.weight[i] * m.d[j][i] * m.y[i];
				share[j][1] += (long double)m.weight[i] * m.d[j][i] * m.d[j][i];
			}
			residual += m.weight[i] * r * r;
			square += (long double)m.weight[i] * m.y[i] * m.y[i];
		}
		near(explained, 1 - residual / square, 1e-10, "share explained");
		for (int j = 0; j < m.p; j++) {
			near(c[j].value, x[j], 1e-11, "coefficient");
			near(c[j].gain, share[j][0] * share[j][0] / share[j][1] / square, 1e-12, "share explained alone");
			assert_true(c[j].determined);
		}
	}
}

static void recovers_what_is_planted(void **state)
{
	static const double planted[P] = { 1, 0, -0.25, 1e-6, 1e6 };
	struct problem m;
	struct coefficient c[P];

	(void)state;
	draw(&m, P, 10, 77);
	plant(&m, planted, 0);
	near(fit_it(&m, c), 1, 1e-13, "explained");
	for (int j = 0; j < P; j++)
		if (!(fabs(c[j].value - planted[j]) < 1e-14 * 1e6 * P)) fail_msg("%d: %.17g, expected %g", j, c[j].value, planted[j]);
}

static void weight_0_leaves_out(void **state)
{
	static const double planted[P] = { 1, -1, 2 };
	static const double nonsense[] = { 1e300, NAN, INFINITY, -INFINITY };
	struct problem m, wild;
	struct coefficient c[P], w[P];

	(void)state;
	draw(&m, 3, 6, 5);
	plant(&m, planted, 1);
	for (size_t i = 0; i < N; i += 3) m.weight[i] = 0;
	wild = m;
	for (size_t i = 0; i < N; i += 3) wild.y[i] = nonsense[i / 3 % 4], wild.d[i % 3][i] = nonsense[i / 12 % 4];
	assert_true(same_double(fit_it(&m, c), fit_it(&wild, w)));
	for (int j = 0; j < 3; j++) assert_true(same_double(c[j].value, w[j].value) && same_double(c[j].error, w[j].error) && c[j].determined);
}

/* Only the first of columns that are multiples of each other, or sums of those before, is determined. */
static void collinear_columns_are_told(void **state)
{
	static const double planted[P] = { 2, 0, 1, 0, 0 };
	struct problem m;
	struct coefficient c[P];

	(void)state;
	draw(&m, P, 8, 9);
	for (size_t i = 0; i < N; i++) m.d[1][i] = -3 * m.d[0][i], m.d[3][i] = m.d[0][i] + m.d[2][i], m.d[4][i] = 0;
	plant(&m, planted, 0.1);
	fit_it(&m, c);
	for (int j = 0; j < P; j++) {
		bool first = j == 0 || j == 2;
		assert_true(c[j].determined == first && isinf(c[j].error) == !first);
		if (first) near(c[j].value, planted[j], 0.01, "value");
		else assert_true(c[j].value == 0);
	}
	/* Not quite: a thousandth of the column is its own. */
	draw(&m, 2, 8, 10);
	for (size_t i = 0; i < N; i++) m.d[1][i] = m.d[0][i] + 1e-3 * m.d[1][i];
	plant(&m, planted, 0);
	fit_it(&m, c);
	assert_true(c[1].determined && fabs(c[1].value) < 1e-6);
}

/* The slope differs from block to block by N(0, 0.5²), besides the noise that the weights know of:
 * the error bar is the scatter of the coefficient over draws, and far above what the weights say. */
static void error_bars_are_the_scatter(void **state)
{
	enum { DRAWS = 200 };
	struct problem m;
	struct coefficient c[P];
	double sum[2] = { 0 }, square[2] = { 0 }, told[2] = { 0 };
	uint64_t random = 1234;

	(void)state;
	draw(&m, 2, 40, 3);
	for (int k = 0; k < DRAWS; k++) {
		double slope[2] = { 0 };
		for (size_t i = 0; i < N; i++) {
			if (i == 0 || m.block[i] != m.block[i - 1])
				for (int j = 0; j < 2; j++) slope[j] = 1 + 0.5 * normal(&random);
			m.y[i] = slope[0] * m.d[0][i] + slope[1] * m.d[1][i] + normal(&random) / sqrt(m.weight[i]);
		}
		fit_it(&m, c);
		for (int j = 0; j < 2; j++) {
			sum[j] += c[j].value / DRAWS;
			square[j] += c[j].value * c[j].value / DRAWS;
			told[j] += c[j].error * c[j].error / DRAWS;
		}
	}
	for (int j = 0; j < 2; j++) {
		double scatter = sqrt(square[j] - sum[j] * sum[j]);
		long double x[P];
		solution(&m, j, x);
		assert_true(sqrt(told[j]) > 1.5 * sqrt((double)x[j]));
		assert_true(fabs(sum[j] - 1) < 4 * scatter / sqrt(DRAWS));
		near(sqrt(told[j]), scatter, 0.25, "error bar");
	}
}

/* Without a residual blocks do not scatter: what is left is the error that the weights stand for. */
static void no_residual_the_formal_error(void **state)
{
	static const double planted[P] = { 1, 1, 1 };
	struct problem m;
	struct coefficient c[P];

	(void)state;
	draw(&m, 3, 12, 21);
	plant(&m, planted, 0);
	fit_it(&m, c);
	for (int j = 0; j < 3; j++) {
		long double x[P];
		solution(&m, j, x);
		near(c[j].error, sqrtl(x[j]), 1e-10, "formal error");
	}
}

/* Nine blocks of ten see a column a thousandth as well as the first does: without the first c is anything, and that says nothing of c. The error
 * bar holds what c is really off by, and is no larger than root N of what the weights stand for. */
static void a_column_nearly_in_one_block(void **state)
{
	static const double planted[P] = { 1 };
	struct problem m;
	struct coefficient c[P];
	long double x[P];

	(void)state;
	for (uint64_t seed = 31; seed < 51; seed++) {
		draw(&m, 1, 10, seed);
		for (size_t i = 0; i < N; i++) {
			m.weight[i] = 1;
			if (m.block[i]) m.d[0][i] *= 1e-3;
		}
		plant(&m, planted, 1);
		fit_it(&m, c);
		solution(&m, 0, x);
		assert_true(fabs(c[0].value - 1) < c[0].error && c[0].error < 1.2 * sqrt(N * (double)x[0]));
	}
}

static void nothing_to_fit(void **state)
{
	static const double planted[P] = { 1, 1 };
	struct problem m;
	struct coefficient c[P];

	(void)state;
	draw(&m, 2, 12, 22);
	plant(&m, planted, 1);
	m.p = 0;
	assert_true(fit_it(&m, c) == 0);
	m.p = 2;
	memset(m.y, 0, sizeof m.y);
	assert_true(fit_it(&m, c) == 0);
	for (int j = 0; j < 2; j++) {
		long double x[P];
		solution(&m, j, x);
		assert_true(c[j].value == 0 && c[j].gain == 0 && c[j].determined);
		near(c[j].error, sqrtl(x[j]), 1e-10, "formal error");
	}
	memset(m.weight, 0, sizeof m.weight);
	assert_true(fit_it(&m, c) == 0 && !c[0].determined && !c[1].determined && isinf(c[0].error));
}

/* All of the second column is in one block, which has nothing to scatter against: no residual of that
 * size may move c by more than the error bar, not even one that is a multiple of the column. */
static void one_block_has_a_bound(void **state)
{
	static const double planted[P] = { 1, 1 };
	struct problem m;
	struct coefficient c[P];

	(void)state;
	for (int p = 1; p <= 2; p++) {
		draw(&m, p, p == 1 ? 1 : 12, 23);
		int j = p - 1;
		for (size_t i = 0; i < N; i++) m.d[j][i] = m.block[i] ? 0 : m.d[j][i];
		plant(&m, planted, 0);
		fit_it(&m, c);
		assert_true(c[j].determined && fabs(c[j].value - 1) < 1e-12);
		double formal = c[j].error, size = 0;
		for (size_t i = 0; i < N; i++) {
			double bump = m.block[i] ? 0 : 10 * normal(&m.random);
			m.y[i] += bump;
			size += m.weight[i] * bump * bump;
		}
		fit_it(&m, c);
		assert_true(c[j].error > 0.8 * formal * sqrt(size) && c[j].error < 1.2 * formal * sqrt(size));
		assert_true(fabs(c[j].value - 1) < c[j].error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_elimination),
		cmocka_unit_test(recovers_what_is_planted),
		cmocka_unit_test(weight_0_leaves_out),
		cmocka_unit_test(collinear_columns_are_told),
		cmocka_unit_test(error_bars_are_the_scatter),
		cmocka_unit_test(no_residual_the_formal_error),
		cmocka_unit_test(one_block_has_a_bound),
		cmocka_unit_test(a_column_nearly_in_one_block),
		cmocka_unit_test(nothing_to_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
