/* dot, axpy, gemv_t, ger and gemm of each arithmetic. */
#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

/* unit: the largest relative error of one operation */
static const struct arithmetic { const char *spec; double unit; } tried[] = {
	{ "f32", 0x1p-24 }, { "f32_fma", 0x1p-24 }, { "f32_tree", 0x1p-24 }, { "mma:turing", 0x1p-24 }, { "mma:ampere", 0x1p-24 }, { "mma:hopper", 0x1p-24 }, { "f64", 0x1p-53 }, { "f64up", 0x1p-52 }, { "dd", 0x1p-102 }, { "mpfr:24", 0x1p-24 }, { "mpfr:100", 0x1p-100 }, { "mpfr:128", 0x1p-100 }, { "noisy", 0x1p-23 },
};
static const struct arithmetic *now;
static bool whole;      /* numbers are small integers: every arithmetic is exact */
static uint64_t stream;

static void in_every(void (*body)(calc *c))
{
	for (now = tried; now < tried + LEN(tried); now++) {
		for (int i = 0; i < 2; i++) {
			struct plan p = plan_in(now->spec);
			whole = i;
			stream = 9;
			in_calc(&p, NULL, NULL, body);
		}
	}
}

/* Integers in [-8, 8), or floats in (-1, 1) of 24 bits at many scales. */
static vec drawn(calc *c, size_t n)
{
	vec x = c_vec(c, n);

	for (size_t i = 0; i < n; i++) {
		uint64_t r = random_bits(&stream);
		double v = whole ? (double)(r >> 60) - 8 : (double)((int64_t)r >> 40) * 0x1p-23 * ldexp(1, -(int)(r & 7));
		c_set(c, c_part(c, x, i, 1), v);
	}
	return x;
}

static mat drawn_mat(calc *c, size_t rows, size_t cols) { return (mat){ drawn(c, rows * cols).at, rows, cols }; }
static double element(calc *c, vec x, size_t i) { return c_value(c, c_part(c, x, i, 1)); }

/* Σ over k of the products, in 113 bits: exact for 24-bit factors at 8 scales, and few terms. */
struct sum { __float128 value, size; size_t n; };
static void term(struct sum *s, double a, double b)
{
	__float128 t = (__float128)a * b;

	s->value += t;
	s->size += t < 0 ? -t : t;
	s->n++;
}

/* |y - Σ| <= (n + 1) unit Σ|terms|, in any order (Higham 2002, section 3.1) */
static void expect(calc *c, num y, struct sum s, const char *what)
{
	double hi, lo, units = (double)s.n + 1;
	__float128 d;

	c->arith->read(c, &hi, &lo, y.at, 1);
	d = (__float128)hi + lo - s.value;
	if (d < 0) d = -d;
	if (!(d <= (whole ? 0 : units * now->unit * s.size)))
		fail_msg("%s: %s is %.17g, expected %.17g (n = %zu)", now->spec, what, hi, (double)s.value, s.n);
}

static const size_t shapes[][3] = { { 1, 1, 1 }, { 3, 5, 2 }, { 7, 4, 9 }, { 1, 8, 3 }, { 6, 1, 5 }, { 2, 3, 1 }, { 16, 17, 33 }, { 2, 35, 70 } };

static void vectors(calc *c)
{
	static const size_t lengths[] = { 1, 2, 3, 7, 8, 16, 33, 130 };

	for (size_t k = 0; k < LEN(lengths); k++) {
		size_t n = lengths[k];
		vec a = drawn(c, n), b = drawn(c, n), y = drawn(c, n), before = c_vec(c, n);
		num s = drawn(c, 1), dot = drawn(c, 1);
		struct sum sum = { 0 };
		c_copy(c, before, y);
		for (size_t i = 0; i < n; i++) term(&sum, element(c, a, i), element(c, b, i));
		c_dot(c, dot, a, b);
		expect(c, dot, sum, "dot");
		c_axpy(c, y, s, a);
		for (size_t i = 0; i < n; i++) {
			struct sum t = { 0 };
			term(&t, element(c, before, i), 1);
			term(&t, element(c, s, 0), element(c, a, i));
			expect(c, c_part(c, y, i, 1), t, "axpy");
		}
	}
	c_axpy(c, c_vec(c, 0), drawn(c, 1), c_vec(c, 0));
}

static void matrix_and_vector(calc *c)
{
	for (size_t k = 0; k < LEN(shapes); k++) {
		size_t m = shapes[k][0], n = shapes[k][1];
		mat A = drawn_mat(c, m, n), before = c_mat(c, m, n);
		vec x = drawn(c, n), xt = drawn(c, m), yt = drawn(c, n);
		c_gemv_t(c, yt, A, xt);
		for (size_t j = 0; j < n; j++) {
			struct sum s = { 0 };
			for (size_t i = 0; i < m; i++) term(&s, element(c, flat(A), i * n + j), element(c, xt, i));
			expect(c, c_part(c, yt, j, 1), s, "gemv_t");
		}
		c_copy(c, flat(before), flat(A));
		c_ger(c, A, xt, x);
		for (size_t i = 0; i < m * n; i++) {
			struct sum s = { 0 };
			term(&s, element(c, flat(before), i), 1);
			term(&s, element(c, xt, i / n), element(c, x, i % n));
			expect(c, c_part(c, flat(A), i, 1), s, "ger");
		}
	}
}

static void matrices(calc *c)
{
	for (size_t k = 0; k < LEN(shapes); k++) {
		size_t m = shapes[k][0], n = shapes[k][1], l = shapes[k][2];
		for (enum trans t = NN; t <= TN; t++) {
			mat A = t == TN ? drawn_mat(c, l, m) : drawn_mat(c, m, l), B = t == NT ? drawn_mat(c, n, l) : drawn_mat(c, l, n);
			mat C = drawn_mat(c, m, n);     /* its old content does not matter */
			c_gemm(c, C, t, A, B);
			for (size_t i = 0; i < m * n; i++) {
				struct sum s = { 0 };
				for (size_t p = 0; p < l; p++)
					term(&s, element(c, flat(A), t == TN ? p * m + i / n : i / n * l + p), element(c, flat(B), t == NT ? i % n * l + p : p * n + i % n));
				expect(c, c_part(c, flat(C), i, 1), s, (const char *const[]){ "gemm NN", "gemm NT", "gemm TN" }[t]);
			}
		}
	}
}

/* Sums that are in order are, to the bit, one product after the other, however the matrices lie. */
static void in_order(calc *c)
{
	const bool fused = !strcmp(now->spec, "f32_fma");
	float A[5 * 70], B[70 * 35], C[5 * 35];

	if (!fused && strcmp(now->spec, "f32") != 0) return;
	for (size_t i = 0; i < LEN(A); i++) A[i] = (float)(i * 7919 % 1000) / 700 - 0.7f;
	for (size_t i = 0; i < LEN(B); i++) B[i] = (float)(i * 3571 % 1000) / 900 - 0.5f;
	for (int t = 0; t < 4; t++) {
		c->arith->gemm(c, C, A, t & 1, B, t & 2, 5, 35, 70);
		for (size_t i = 0; i < LEN(C); i++) {
			float sum = 0;
			for (size_t l = 0; l < 70; l++) {
				float a = A[t & 1 ? l * 5 + i / 35 : i / 35 * 70 + l], b = B[t & 2 ? i % 35 * 70 + l : l * 35 + i % 35];
				sum = fused ? fmaf(a, b, sum) : sum + a * b;
			}
			if (C[i] != sum) fail_msg("%s, transposed %d: %zu is %.9g, expected %.9g", now->spec, t, i, (double)C[i], (double)sum);
		}
	}
}

/* A' B' has no name in calc.h: through the table. */
static void both_transposed(calc *c)
{
	size_t m = 3, n = 4, l = 5;
	mat A = drawn_mat(c, l, m), B = drawn_mat(c, n, l), C = drawn_mat(c, m, n);

	c->arith->gemm(c, C.at, A.at, true, B.at, true, m, n, l);
	for (size_t i = 0; i < m * n; i++) {
		struct sum s = { 0 };
		for (size_t p = 0; p < l; p++) term(&s, element(c, flat(A), p * m + i / n), element(c, flat(B), i % n * l + p));
		expect(c, c_part(c, flat(C), i, 1), s, "gemm TT");
	}
}

/* inf · 0 is NaN in a sum, a product and an update: no zero is skipped. */
static void zeros_are_not_skipped(calc *c)
{
	mat A = c_mat(c, 2, 2), C = c_mat(c, 2, 2);
	vec x = c_vec(c, 2), y = c_vec(c, 2);

	c_set(c, x, INFINITY);
	c_ger(c, A, y, x);
	assert_true(isnan(element(c, flat(A), 3)));
	c_set(c, flat(A), 0);
	c_dot(c, c_part(c, y, 0, 1), x, c_row(c, A, 0));
	assert_true(isnan(element(c, y, 0)));
	c_gemv_t(c, y, A, x);
	assert_true(isnan(element(c, y, 1)));
	c_set(c, flat(A), INFINITY);
	c_gemm(c, C, NN, A, c_mat(c, 2, 2));
	assert_true(isnan(element(c, flat(C), 1)));
}

static void no_terms(calc *c)
{
	num y = drawn(c, 1);

	c_dot(c, y, c_vec(c, 0), c_vec(c, 0));
	assert_true(element(c, y, 0) == 0);
}

#define TEST(body) static void test_##body(void **state) { (void)state; in_every(body); }
TEST(vectors)
TEST(matrix_and_vector)
TEST(matrices)
TEST(in_order)
TEST(both_transposed)
TEST(zeros_are_not_skipped)
TEST(no_terms)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_matrix_and_vector),
		cmocka_unit_test(test_matrices),
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_both_transposed),
		cmocka_unit_test(test_zeros_are_not_skipped),
		cmocka_unit_test(test_no_terms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
