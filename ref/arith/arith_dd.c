/* dd: double-double, by the form of dd_form.h that this processor runs. A vector is its high parts; the low parts lie
 * in the second half of its block. */
#include <string.h>

#include "calc_private.h"
#include "ref/dd/dd_form.h"

static dds parts(const calc *c, const void *x) { return (dds){ (double *)(uintptr_t)x, calc_low(c, x) }; }
static dd first(const calc *c, const void *x) { return (dd){ *parts(c, x).hi, *parts(c, x).lo }; }

static size_t size(const calc *c) { (void)c; return sizeof(double); }

static void init(calc *c, void *y, size_t n)
{
	memset(parts(c, y).hi, 0, n * sizeof(double));
	memset(parts(c, y).lo, 0, n * sizeof(double));
}

static void load(calc *c, void *y, const double *x, size_t n)
{
	memcpy(parts(c, y).hi, x, n * sizeof(double));
	memset(parts(c, y).lo, 0, n * sizeof(double));
}

/* The low part of what is not finite means nothing. */
static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	dds v = parts(c, x);

	memcpy(hi, v.hi, n * sizeof(double));
	for (size_t i = 0; lo && i < n; i++) lo[i] = isfinite(hi[i]) ? v.lo[i] : 0;
}

static void binary(calc *c, enum binary op, void *y, const void *a, const void *b, size_t b_step, size_t n)
{
	dd_form()->binary(op, parts(c, y), parts(c, a), parts(c, b), b_step, n);
}

static void map(calc *c, enum fn f, void *y, const void *x, size_t n) { dd_form()->map(f, parts(c, y), parts(c, x), n); }

static void axpy(calc *c, void *y, const void *a, const void *x, size_t n)
{
	dd_form()->axpy(parts(c, y), first(c, a), parts(c, x), n);
}

static void scan(calc *c, void *y, const void *x, size_t n)
{
	dds s = parts(c, y), v = parts(c, x);
	dd sum = { 0, 0 };

	for (size_t i = 0; i < n; i++) {
		sum = dd_add(sum, (dd){ v.hi[i], v.lo[i] });
		s.hi[i] = sum.hi;
		s.lo[i] = sum.lo;
	}
}

static void dot(calc *c, void *y, const void *a, const void *b, size_t n)
{
	dd_form()->dot(parts(c, y), parts(c, a), parts(c, b), n);
}

static dds row(dds A, size_t i) { return (dds){ A.hi + i, A.lo + i }; }

static void gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	dd_form()->gemv_t(parts(c, y), parts(c, A), parts(c, x), rows, cols);
}

static void ger(calc *c, void *A, const void *x, const void *y, size_t rows, size_t cols)
{
	const struct dd_form *f = dd_form();
	dds v = parts(c, x), w = parts(c, y), B = parts(c, A);

	for (size_t i = 0; i < rows; i++) f->axpy(row(B, i * cols), (dd){ v.hi[i], v.lo[i] }, w, cols);
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	struct dd_operand a = { parts(c, A), ta ? 1 : k, ta ? m : 1 }, b = { parts(c, B), tb ? 1 : n, tb ? k : 1 };

	if (!c->together || !dd_gemm_shared(parts(c, C), a, b, m, n, k)) dd_form()->gemm(parts(c, C), n, a, b, m, n, k, false);
}

const struct arith arith_dd = {
	.name = "dd", .what = "double-double: 106 bits in two doubles", .precision = 106, .wide = true, .split = true,
	.size = size, .init = init, .load = load, .read = take, .binary = binary, .map = map, .axpy = axpy, .scan = scan,
	.dot = dot, .gemv_t = gemv_t, .ger = ger, .gemm = gemm
};
