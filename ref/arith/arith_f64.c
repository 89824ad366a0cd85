/* f64: double; sums and products through OpenBLAS. f64up: the same, rounding towards +infinity. */
#include <cblas.h>
#include <fenv.h>
#include <math.h>
#include <threads.h>

#include "arith_blas.h"
#include "calc_private.h"

#define E double
#define F(name) name
#include "arith_real.h"

static void dot(calc *c, void *y, const void *a, const void *b, size_t n)
{
	(void)c;
	*(E *)y = cblas_ddot((int)n, a, 1, b, 1);
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

static void one_thread(void) { openblas_set_num_threads(1); }
void blas_enter(calc *c)
{
	static once_flag once = ONCE_FLAG_INIT;

	(void)c;
	call_once(&once, one_thread);
}

static void enter_up(calc *c)
{
	blas_enter(c);
	fesetround(FE_UPWARD);
}

static void leave_up(calc *c) { (void)c; fesetround(FE_TONEAREST); }

/* OpenBLAS skips zero factors in dger, which would lose 0·inf: the plain loop stays. */
#define F64 .precision = 53, .plain = true, .size = size, .init = init, .load = load, .read = take, \
	.binary = l_binary, .map = l_map, .axpy = l_axpy, .scan = l_scan, .ger = l_ger, \
	.dot = dot, .gemv_t = gemv_t, .gemm = gemm

const struct arith arith_f64 = { .name = "f64", .what = "double, sums through OpenBLAS", F64, .enter = blas_enter };
const struct arith arith_f64up = {
	.name = "f64up", .what = "f64 rounding towards +infinity: its distance from f64 shows f64's error", F64,
	.enter = enter_up, .leave = leave_up
};
