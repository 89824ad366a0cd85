/* noisy: Monte Carlo arithmetic at f32's 24 bits (Parker 1997; Verificarlo). Every operation is
 * computed in double and rounded to 24 bits up or down at random, without bias; a multiply-add
 * rounds once, as on a GPU. What is below f32's normal range is flushed to zero every other time,
 * because kernels may or may not keep subnormals. Sums of LONG products and more in A B' are computed exactly
 * in blocks of SPAN, and what the block's roundings add up to is drawn at once (below).
 *
 * Functions err uniformly within the largest error that the CUDA C++ Programming Guide gives for
 * the single-precision functions and their intrinsics (appendix on mathematical functions): 2 ulp
 * for exp, log, rsqrt, sin, cos, tanh, division; 4 for pow. exp is 2^(x log2 e) with a rounded
 * argument, which is what __expf does; softplus is log(1 + exp x), its crudest usual form. */
#include <cblas.h>
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

static void e_map(calc *c, enum fn f, E *y, const E *px)
{
	E x = *px;

	switch (f) {
	case FN_ID: *y = x; break;
	case FN_NEG: *y = -x; break;
	case FN_EXP: *y = noisy_exp(c, x); break;
	case FN_EXP2: *y = within(c, exp2(x), 2); break;
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

uint32_t noise_table[2][PLACES + ROW];

/* Before main, and so before anything runs beside. */
__attribute__((constructor)) static void fill(void)
{
	for (size_t i = 0; i < 2 * (PLACES + ROW); i++) noise_table[i % 2][i / 2] = (uint32_t)(random_at(i) >> 32);
}

struct draws draws_at(uint64_t at)
{
	uint64_t r = random_at(at);

	return (struct draws){ noise_table[0] + r % PLACES, noise_table[1] + r / PLACES % PLACES, (uint32_t)(r >> 32) };
}

/* From i on, m of n in a row. */
#define IN_ROWS(i, m, n) for (size_t i = 0, m; m = (n) - i < ROW ? (n) - i : ROW, i < (n); i += m, c->noise += m)

/* a OP b for a number b or a vector; y may be either, but no part of them from elsewhere on. */
#define EACH(result) do { \
	_Pragma("GCC ivdep") \
	for (size_t i = 0; i < n; i++) y[i] = sr_by(drawn(&d, i), result); \
} while (0)
WIDE_LOOP static void noisy_binary(enum binary op, double *y, const double *a, const double *b, bool number, size_t n, struct draws d)
{
	double x = *b;

	if (number) {
		if (op == OP_MUL) EACH(a[i] * x);
		else EACH(a[i] + (op == OP_ADD ? x : -x));
	} else if (op == OP_MUL) EACH(a[i] * b[i]);
	else if (op == OP_ADD) EACH(a[i] + b[i]);
	else EACH(a[i] - b[i]);
}
#undef EACH

static void binary(calc *c, enum binary op, void *y, const void *a, const void *b, size_t b_step, size_t n)
{
	if (b_step > 1 || (op != OP_ADD && op != OP_SUB && op != OP_MUL)) {
		l_binary(c, op, y, a, b, b_step, n);
		return;
	}
	IN_ROWS(i, m, n) noisy_binary(op, AT(c, y, i), AT(c, a, i), AT(c, b, i * b_step), b_step == 0, m, draws_at(c->noise));
}

WIDE_LOOP static void noisy_axpy(double *y, double a, const double *x, size_t n, struct draws d)
{
	for (size_t i = 0; i < n; i++) y[i] = sr_by(drawn(&d, i), y[i] + a * x[i]);
}

static void axpy(calc *c, void *y, const void *a, const void *x, size_t n)
{
	const double by = *(const E *)a;

	IN_ROWS(i, m, n) noisy_axpy(AT(c, y, i), by, AT(c, x, i), m, draws_at(c->noise));
}

static void gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	memset(y, 0, cols * sizeof(E));
	for (size_t i = 0; i < rows; i++) axpy(c, y, AT(c, x, i), AT(c, A, i * cols), cols);
}

static void ger(calc *c, void *A, const void *x, const void *y, size_t rows, size_t cols)
{
	for (size_t i = 0; i < rows; i++) axpy(c, AT(c, A, i * cols), AT(c, x, i), y, cols);
}

/* The sums of LANES columns side by side, DEPTH terms at a time. Half of a triangular A is zeros, which add nothing. */
enum { LANES = 16, DEPTH = 128 };
_Static_assert(LANES * DEPTH <= ROW, "a block's draws are one row's");
WIDE_LOOP static void gemm_blocks(calc *c, E *C, const E *A, bool ta, const E *B, bool tb, size_t m, size_t n, size_t k)
{
	const bool finite = all_finite(B, k * n);

	for (size_t j = 0; j < n; j += LANES)
		for (size_t first = 0; first < k; first += DEPTH) {
			size_t lanes = n - j < LANES ? n - j : LANES, depth = k - first < DEPTH ? k - first : DEPTH;
			double b[DEPTH][LANES] = { 0 };
			for (size_t v = 0; v < lanes; v++)
				for (size_t l = 0; l < depth; l++) b[l][v] = tb ? B[(j + v) * k + first + l] : B[(first + l) * n + j + v];
			for (size_t i = 0; i < m; i++) {
				double sum[LANES] = { 0 };
				struct draws d = draws_at(c->noise + (i * n + j) * k + first);
				for (size_t v = 0; first && v < lanes; v++) sum[v] = C[i * n + j + v];
				for (size_t l = 0; l < depth; l++) {
					double a = ta ? A[(first + l) * m + i] : A[i * k + first + l];
					if (a == 0 && finite) continue;
					#pragma omp simd
					for (size_t v = 0; v < LANES; v++) sum[v] = sr_by(drawn(&d, l * LANES + v), sum[v] + a * b[l][v]);
				}
				memcpy(C + i * n + j, sum, lanes * sizeof *sum);
			}
		}
	c->noise += m * n * k;
}

/* ---- long sums ---- */

/* A rounding at random of x = s + a b, s a float, errs by f up or 1 - f down, in units u of the last place of x: by 0 on
 * average, with variance f (1 - f) u². What lies below u is that of a b, whose last bit is at the sum of a's and b's: d bits
 * below, f is an odd multiple of 2^-d, and f (1 - f) is (1 + 2 4^-d)/6 on average; where a b ends at or above u,
 * as most products of two bf16 numbers do, nothing is rounded. A chain of k such errors is normal, as k is large. */
enum { LONG = 512, SPAN = 256, LAST = 160, BITS = 320, ROW_SAMPLE = 256, SAMPLE = 4096 };
_Static_assert(ROW_SAMPLE <= LONG, "a row has as many numbers as are looked at");

/* How often a number's last bit stands at 2^(i - LAST); zeros count in n alone. */
struct ends { double share[BITS]; int first, last; };

static struct ends ends_of(const double *x, size_t n, size_t step)
{
	struct ends y = { .first = BITS, .last = -1 };
	double one = 1 / (double)((n + step - 1) / step);

	for (size_t i = 0; i < n; i += step) {
		uint64_t b = to_bits(x[i]), fraction = b & ((UINT64_C(1) << 52) - 1);
		int exponent = (int)(b >> 52 & 0x7ff) - 1023;
		int at = LAST + exponent - (fraction ? 52 - __builtin_ctzll(fraction) : 0);
		if (at < 0 || at >= BITS || exponent == 1024) continue;
		y.share[at] += one;
		y.first = at < y.first ? at : y.first;
		y.last = at > y.last ? at : y.last;
	}
	return y;
}

/* deviation[i]: of the errors of one multiply-add, over the power of two below a sum of biased exponent LEAST + i. */
enum { LEAST = 1023 - 151, EXPONENTS = 288, ULP = 23, NEGLIGIBLE = 12 };
static void deviations(double *deviation, const struct ends *a, const struct ends *b)
{
	double share[2 * BITS] = { 0 };
	int first = a->first + b->first, last = a->last + b->last;

	for (int i = a->first; i <= a->last; i++)
		for (int j = b->first; j <= b->last; j++) share[i + j] += a->share[i] * b->share[j];
	for (int i = 0; i < EXPONENTS; i++) {
		int ulp = LEAST + i - 1023 - ULP + 2 * LAST;
		double variance = 0, rest = 0.25;
		if (i > 0 && ulp > last + NEGLIGIBLE) {
			deviation[i] = deviation[i - 1];
			continue;
		}
		for (int p = ulp - 1; p >= first; p--, rest /= 4) variance += p <= last ? share[p] * (1 + 2 * rest) / 6 : 0;
		deviation[i] = sqrt(variance) * 0x1p-23;
	}
}

/* y + deviation at y's exponent times z. */
static inline double disturbed(double y, const double *deviation, double z)
{
	int64_t e = (int64_t)(to_bits(y) >> 52 & 0x7ff), i = e < LEAST ? 0 : e < LEAST + EXPONENTS ? e - LEAST : EXPONENTS - 1;

	return y + deviation[i] * from_bits(e == 0x7ff ? 0 : (uint64_t)e << 52) * z;
}

/* Of 32 bits, the sum of two uniform numbers, of deviation 26755 and mean 0; a chain's errors are sums of many blocks'. */
static inline double pair(uint32_t r) { return (double)(int32_t)((r & 0xffff) + (r >> 16)) - 65535; }

/* y + what `steps` roundings of sums near y add up to. */
WIDE_LOOP static void disturb(double *y, size_t n, const double *deviation, double steps, struct draws d)
{
	double scale = sqrt(steps) / 26755.1;

	for (size_t i = 0; i < n; i++) y[i] = disturbed(y[i], deviation, scale * pair(drawn(&d, i)));
}

/* To 24 bits; y may be x. */
WIDE_LOOP static void to_grid(double *y, const double *x, size_t n, struct draws d)
{
	_Pragma("GCC ivdep")
	for (size_t i = 0; i < n; i++) y[i] = sr_by(drawn(&d, i), x[i]);
}

static void load(calc *c, void *y, const double *x, size_t n)
{
	IN_ROWS(i, m, n) to_grid(AT(c, y, i), x + i, m, draws_at(c->noise));
}

/* The sums at a block's two ends stand for those inside, half and half. */
static void gemm_long(calc *c, E *C, const E *A, const E *B, size_t m, size_t n, size_t k)
{
	size_t mark = c_mark(c);
	double *deviation = c_bytes(c, m * EXPONENTS * sizeof *deviation);
	struct ends b = ends_of(B, n * k, n * k / SAMPLE + 1);

	for (size_t i = 0; i < m; i++) {
		struct ends a = ends_of(A + i * k, k, k / ROW_SAMPLE);
		deviations(deviation + i * EXPONENTS, &a, &b);
	}
	for (size_t first = 0; first < k; first += SPAN) {
		size_t depth = k - first < SPAN ? k - first : SPAN, next = k - first - depth < SPAN ? k - first - depth : SPAN;
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)depth, 1, A + first, (int)k, B + first, (int)k,
			first > 0, C, (int)n);
		for (size_t i = 0; i < m; i++)
			IN_ROWS(j, part, n) disturb(C + i * n + j, part, deviation + i * EXPONENTS, (double)(depth + next) / 2, draws_at(c->noise));
	}
	load(c, C, C, m * n);
	c_release(c, mark);
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	if (tb && !ta && k >= LONG) gemm_long(c, C, A, B, m, n, k);
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
	.precision = 24, .plain = true, .size = size, .init = init, .load = load, .read = take,
	.binary = binary, .map = l_map, .axpy = axpy, .scan = l_scan, .dot = l_dot, .gemv_t = gemv_t,
	.ger = ger, .gemm = gemm, .enter = blas_enter
};
