/* f64: double; sums and products through OpenBLAS. f64up: the same, rounding towards +infinity. */
#include <cblas.h>
#include <fenv.h>
#include <math.h>
#include <threads.h>

#include "calc_private.h"

#define E double
#define AT(c, p, i) ((E *)(uintptr_t)(p) + (i))
#define LOOP WIDE_LOOP
static inline void e_set0(calc *c, E *y) { (void)c; *y = 0; }
static inline void e_add(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a + *b; }
static inline void e_sub(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a - *b; }
static inline void e_mul(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a * *b; }
static inline void e_div(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a / *b; }
static inline void e_max(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a > *b ? *a : *b; }
static inline void e_pow(calc *c, E *y, const E *a, const E *b) { (void)c; *y = pow(*a, *b); }
static inline void e_fma(calc *c, E *y, const E *a, const E *x) { (void)c; *y += *a * *x; }
static void e_map(calc *c, enum fn f, E *y, const E *px)
{
	E x = *px;

	(void)c;
	switch (f) {
	case FN_ID: *y = x; break;
	case FN_NEG: *y = -x; break;
	case FN_EXP: *y = exp(x); break;
	case FN_SIGMOID: *y = 1 / (1 + exp(-x)); break;
	case FN_SOFTPLUS: *y = (x > 0 ? x : 0) + log1p(exp(-fabs(x))); break;
	case FN_SILU: *y = x / (1 + exp(-x)); break;
	case FN_SQRT: *y = sqrt(x); break;
	case FN_RSQRT: *y = 1 / sqrt(x); break;
	case FN_RECIP: *y = 1 / x; break;
	case FN_SIN: *y = sin(x); break;
	case FN_COS: *y = cos(x); break;
	case FN_TANH: *y = tanh(x); break;
	}
}
#include "arith_loops.h"

static size_t size(const calc *c) { (void)c; return sizeof(E); }
static void init(calc *c, void *y, size_t n) { (void)c; memset(y, 0, n * sizeof(E)); }
static void load(calc *c, void *y, const double *x, size_t n) { (void)c; memcpy(y, x, n * sizeof(E)); }

static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	(void)c;
	memcpy(hi, x, n * sizeof(E));
	if (lo) memset(lo, 0, n * sizeof(E));
}

static void dot(calc *c, void *y, const void *a, const void *b, size_t n)
{
	(void)c;
	*(E *)y = cblas_ddot((int)n, a, 1, b, 1);
}

static void gemv(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	(void)c;
	cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)rows, (int)cols, 1, A, (int)cols, x, 1, 0, y, 1);
}

static void gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	(void)c;
	cblas_dgemv(CblasRowMajor, CblasTrans, (int)rows, (int)cols, 1, A, (int)cols, x, 1, 0, y, 1);
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	(void)c;
	cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k,
		1, A, (int)(ta ? m : k), B, (int)(tb ? k : n), 0, C, (int)n);
}

/* Pieces run on threads of their own; OpenBLAS's would only stand in their way. */
static void one_thread(void) { openblas_set_num_threads(1); }
static void enter(calc *c)
{
	static once_flag once = ONCE_FLAG_INIT;

	(void)c;
	call_once(&once, one_thread);
}

static void enter_up(calc *c)
{
	enter(c);
	fesetround(FE_UPWARD);
}

static void leave_up(calc *c) { (void)c; fesetround(FE_TONEAREST); }

/* OpenBLAS skips zero factors in dger, which would lose 0·inf: the plain loop stays. */
#define F64 .precision = 53, .size = size, .init = init, .load = load, .read = take, \
	.binary = l_binary, .map = l_map, .axpy = l_axpy, .ger = l_ger, \
	.dot = dot, .gemv = gemv, .gemv_t = gemv_t, .gemm = gemm

const struct arith arith_f64 = { .name = "f64", .what = "double, sums through OpenBLAS", F64, .enter = enter };
const struct arith arith_f64up = {
	.name = "f64up", .what = "f64 rounding towards +infinity: its distance from f64 shows f64's error", F64,
	.enter = enter_up, .leave = leave_up
};
