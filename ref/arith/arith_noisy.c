/* noisy: Monte Carlo arithmetic at f32's 24 bits (Parker 1997; Verificarlo). Every operation is
 * computed in double and rounded to 24 bits up or down at random, without bias; a multiply-add
 * rounds once, as on a GPU. What is below f32's normal range is flushed to zero every other time,
 * because kernels may or may not keep subnormals. Sums of LONG products and more in A B' are computed exactly
 * in blocks, and what a block's roundings add up to is drawn at once (arith_noisy_long.c).
 *
 * Functions err uniformly within the largest error that the CUDA C++ Programming Guide gives for
 * the single-precision functions and their intrinsics (appendix on mathematical functions): 2 ulp
 * for exp, log, rsqrt, sin, cos, tanh, division; 4 for pow. exp is 2^(x log2 e) with a rounded
 * argument, which is what __expf does; softplus is log(1 + exp x), its crudest usual form. */
#include <math.h>

#include "arith_blas.h"
#include "calc_private.h"
#include "fixtures/io/bits.h"
#include "noisy.h"

#define E double
#define AT(c, p, i) ((E *)(uintptr_t)(p) + (i))
#define LOOP WIDE_LOOP

/* x with a uniform error of at most `ulps` units of 2^-23 |x|; results that float32 holds, such as
 * exp 0, are exact in every library. */
static inline double within(calc *c, double x, double ulps)
{
	double u = uniform(c);

	return x == (double)(float)x ? x : sr(c, x + x * (u * ulps * 0x1p-23));
}

static inline void e_set0(calc *c, E *y) { (void)c; *y = 0; }
static inline void e_add(calc *c, E *y, const E *a, const E *b) { *y = sr(c, *a + *b); }
static inline void e_sub(calc *c, E *y, const E *a, const E *b) { *y = sr(c, *a - *b); }
static inline void e_mul(calc *c, E *y, const E *a, const E *b) { *y = sr(c, *a * *b); }
static inline void e_div(calc *c, E *y, const E *a, const E *b) { *y = within(c, *a / *b, 2); }
static inline void e_max(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a > *b ? *a : *b; }
static inline void e_pow(calc *c, E *y, const E *a, const E *b) { *y = within(c, pow(*a, *b), 4); }
static inline void e_fma(calc *c, E *y, const E *a, const E *x) { *y = sr(c, *y + *a * *x); }

static double noisy_exp(calc *c, double x)
{
	return within(c, exp2(sr(c, x * 1.4426950408889634)), 2);
}

static double noisy_sigmoid(calc *c, double x)
{
	return within(c, 1 / sr(c, 1 + noisy_exp(c, -x)), 2);
}

static inline __attribute__((always_inline)) void e_map(calc *c, enum fn f, E *y, const E *px)
{
	E x = *px;

	switch (f) {
	case FN_ID: *y = x; break;
	case FN_NEG: *y = -x; break;
	case FN_EXP: *y = noisy_exp(c, x); break;
	case FN_EXP2: *y = within(c, x, 2); break;       /* of 2^x, which map computes */
	case FN_PER_LN2: *y = sr(c, x * 1.4426950408889634); break;
	case FN_SIGMOID: *y = noisy_sigmoid(c, x); break;
	case FN_SOFTPLUS: *y = x > 20 ? x : within(c, log(sr(c, 1 + noisy_exp(c, x))), 2); break;
	case FN_SILU: *y = sr(c, x * noisy_sigmoid(c, x)); break;
	case FN_SQRT: *y = within(c, sqrt(x), 2); break;
	case FN_RSQRT: *y = within(c, 1 / sqrt(x), 2); break;
	case FN_RECIP: *y = within(c, 1 / x, 2); break;
	case FN_SIN: *y = within(c, sin(x), 2); break;
	case FN_COS: *y = within(c, cos(x), 2); break;
	case FN_TANH: *y = within(c, tanh(x), 2); break;
	case FN_LOG: *y = within(c, log(x), 2); break;
	case FN_ERF: *y = within(c, erf(x), 2); break;
	case FN_ABS: *y = fabs(x); break;
	case FN_COUNT: break;
	}
}
#include "arith_loops.h"

/* 2^x within 2^-50 of it, exact where x is whole: 2^n of the nearest whole number times the series of exp(r ln 2) of the rest, up to
 * r^13, as the next term is below (ln 2 / 2)^14 / 14! < 2^-57. */
WIDE_LOOP static void powers_of_two(double *y, const double *x, size_t n)
{
	static const double series[] = {        /* (ln 2)^k / k! */
		1, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0c0p-5, 0x1.3b2ab6fba4e77p-7,
		0x1.5d87fe78a6731p-10, 0x1.430912f86c787p-13, 0x1.ffcbfc588b0c7p-17, 0x1.62c0223a5c824p-20, 0x1.b5253d395e7c4p-24,
		0x1.e4cf5158b8ecap-28, 0x1.e8cac7351bb25p-32, 0x1.c3bd650fc2986p-36, 0x1.816193166d0f9p-40
	};

	for (size_t i = 0; i < n; i++) {
		const double whole = x[i] + 0x1.8p52, r = x[i] - (whole - 0x1.8p52);
		const double half = from_bits((to_bits(whole) << 52) + (UINT64_C(1022) << 52));    /* 2^(n - 1) */
		double p = series[13];
		for (int k = 12; k >= 0; k--) p = p * r + series[k];
		p = 2 * (p * half);
		y[i] = x[i] >= 1024 ? (double)INFINITY : x[i] < -1021 ? 0 : p;
	}
}

static void map(calc *c, enum fn f, void *y, const void *x, size_t n)
{
	if (f == FN_EXP2) powers_of_two(y, x, n);
	l_map(c, f, y, f == FN_EXP2 ? y : x, n);
}

uint32_t noise_table[2][PLACES + ROW];

/* Before main, and so before anything runs beside. */
__attribute__((constructor)) static void fill(void)
{
	for (size_t i = 0; i < 2 * (PLACES + ROW); i++) noise_table[i % 2][i / 2] = (uint32_t)(random_at(i) >> 32);
}

struct draws draws_at(uint64_t at)
{
	uint64_t r = random_at(at);

	return (struct draws){ noise_table[0] + r % PLACES, noise_table[1] + r / PLACES % PLACES, (r >> 32) * UINT64_C(0x100000001) };
}

/* y_i = result, of i, rounded, n of them. */
#define ROUND_EACH(y, n, d, result) do { \
	const size_t whole = (n) / LANES * LANES; \
	for (size_t at = 0; at < whole; at += LANES) { \
		_Pragma("omp simd") \
		for (size_t v = 0; v < WORDS; v++) { \
			const uint64_t w = word(&(d), at / 2 + v); \
			size_t i = at + v; \
			(y)[i] = sr_by(w << 32, result); \
			i += WORDS; \
			(y)[i] = sr_by(w, result); \
		} \
	} \
	for (size_t i = whole; i < (n); i++) (y)[i] = sr_by((uint64_t)drawn(&(d), i) << 32, result); \
} while (0)

WIDE_LOOP static void to_grid(double *y, const double *x, size_t n, struct draws d) { ROUND_EACH(y, n, d, x[i]); }

void noisy_load(calc *c, void *y, const double *x, size_t n)
{
	IN_ROWS(i, m, n) to_grid((double *)y + i, x + i, m, draws_at(c->noise));
}

/* a OP b for a number b or a vector; y may be either, but no part of them from elsewhere on. */
WIDE_LOOP static void noisy_binary(enum binary op, double *y, const double *a, const double *b, bool number, size_t n, struct draws d)
{
	const double x = op == OP_SUB ? -*b : *b;

	if (number && op == OP_MUL) ROUND_EACH(y, n, d, a[i] * x);
	else if (number) ROUND_EACH(y, n, d, a[i] + x);
	else if (op == OP_MUL) ROUND_EACH(y, n, d, a[i] * b[i]);
	else if (op == OP_ADD) ROUND_EACH(y, n, d, a[i] + b[i]);
	else ROUND_EACH(y, n, d, a[i] - b[i]);
}

static void binary(calc *c, enum binary op, void *y, const void *a, const void *b, size_t b_step, size_t n)
{
	if (b_step > 1 || (op != OP_ADD && op != OP_SUB && op != OP_MUL)) {
		l_binary(c, op, y, a, b, b_step, n);
		return;
	}
	IN_ROWS(i, m, n) noisy_binary(op, AT(c, y, i), AT(c, a, i), AT(c, b, i * b_step), b_step == 0, m, draws_at(c->noise));
}

WIDE_LOOP static void noisy_ger(calc *c, E *A, const E *x, const E *y, size_t rows, size_t cols)
{
	for (size_t r = 0; r < rows; r++)
		IN_ROWS(j, m, cols) {
			const struct draws d = draws_at(c->noise);
			const double a = x[r], *b = y + j;
			double *to = A + r * cols + j;
			ROUND_EACH(to, m, d, to[i] + a * b[i]);
		}
}

static void ger(calc *c, void *A, const void *x, const void *y, size_t rows, size_t cols) { noisy_ger(c, A, x, y, rows, cols); }
static void axpy(calc *c, void *y, const void *a, const void *x, size_t n) { noisy_ger(c, y, a, x, 1, n); }

/* The exponent of the least number but 0. */
static inline int64_t least_exponent(const double *x, size_t n)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		int64_t bits = (int64_t)((to_bits(x[i]) & INT64_MAX) - 1) & INT64_MAX;
		least = bits < least ? bits : least;
	}
	return (least >> 52) - 1023;
}

/* Of products of numbers of 24 bits that are no smaller sums are 0 or normal: multiples of 2^-126. */
enum { NORMAL = 46 - 126 };

/* sum[v] += a[l a_step] b[l b_step + v], `depth` terms. Half of a triangular A is zeros, which add nothing to what is finite. */
#define ADD_TERMS(rounded) do { \
	for (size_t l = 0; l < depth; l++) { \
		const double x = a[l * a_step]; \
		if (finite && x == 0) continue; \
		_Pragma("omp simd") \
		for (size_t v = 0; v < WORDS; v++) { \
			const uint64_t w = word(&d, l * WORDS + v); \
			sum[v] = rounded(w << 32, sum[v] + x * b[l * b_step + v]); \
			sum[v + WORDS] = rounded(w, sum[v + WORDS] + x * b[l * b_step + v + WORDS]); \
		} \
	} \
} while (0)

/* The sums of LANES columns side by side, DEPTH terms at a time. */
enum { DEPTH = 128 };
_Static_assert(LANES * DEPTH <= ROW, "a block's draws are one row's");
WIDE_LOOP static void gemm_blocks(calc *c, E *C, const E *A, bool ta, const E *B, bool tb, size_t m, size_t n, size_t k)
{
	const bool many = m > 1, finite = many && all_finite(B, k * n);
	const bool normal = many && least_exponent(A, m * k) + least_exponent(B, k * n) >= NORMAL;
	const size_t a_step = ta ? m : 1;

	for (size_t j = 0; j < n; j += LANES)
		for (size_t first = 0; first < k; first += DEPTH) {
			size_t lanes = n - j < LANES ? n - j : LANES, depth = k - first < DEPTH ? k - first : DEPTH, b_step = n;
			const double *b = B + first * n + j;
			double block[DEPTH][LANES];
			if (tb || many || lanes < LANES) {
				if (lanes < LANES) memset(block, 0, sizeof block);
				for (size_t v = 0; v < lanes; v++)
					for (size_t l = 0; l < depth; l++) block[l][v] = tb ? B[(j + v) * k + first + l] : b[l * n + v];
				b = block[0], b_step = LANES;
			}
			for (size_t i = 0; i < m; i++) {
				const double *a = ta ? A + first * m + i : A + i * k + first;
				const struct draws d = draws_at(c->noise + (i * n + j) * k + first);
				double sum[LANES] = { 0 };
				for (size_t v = 0; first && v < lanes; v++) sum[v] = C[i * n + j + v];
				if (normal) ADD_TERMS(sr_normal);
				else ADD_TERMS(sr_by);
				memcpy(C + i * n + j, sum, lanes * sizeof *sum);
			}
		}
	c->noise += m * n * k;
}

static void gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	if (!rows || cols < LANES / 2) l_gemv_t(c, y, A, x, rows, cols);
	else gemm_blocks(c, y, x, false, A, false, 1, cols, rows);
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	if (tb && !ta && k >= LONG) noisy_long(c, C, A, B, m, n, k);
	else if (!k || n < LANES / 2) l_gemm(c, C, A, ta, B, tb, m, n, k);
	else gemm_blocks(c, C, A, ta, B, tb, m, n, k);
}

static size_t size(const calc *c) { (void)c; return sizeof(E); }
static void init(calc *c, void *y, size_t n) { (void)c; memset(y, 0, n * sizeof(E)); }

static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	(void)c;
	memcpy(hi, x, n * sizeof(E));
	if (lo) memset(lo, 0, n * sizeof(E));
}

const struct arith arith_noisy = {
	.name = "noisy", .what = "f32 with every operation rounded up or down at random (Monte Carlo arithmetic)",
	.precision = 24, .plain = true, .size = size, .init = init, .load = noisy_load, .read = take,
	.binary = binary, .map = map, .axpy = axpy, .scan = l_scan, .dot = l_dot, .gemv_t = gemv_t,
	.ger = ger, .gemm = gemm, .enter = blas_enter
};
