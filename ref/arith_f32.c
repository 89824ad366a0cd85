/* f32: float throughout, sums in order. */
#include <math.h>

#include "calc_private.h"

#define E float
#define AT(c, p, i) ((E *)(uintptr_t)(p) + (i))
#define LOOP WIDE_LOOP
static inline void e_set0(calc *c, E *y) { (void)c; *y = 0; }
static inline void e_add(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a + *b; }
static inline void e_sub(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a - *b; }
static inline void e_mul(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a * *b; }
static inline void e_div(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a / *b; }
static inline void e_max(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a > *b ? *a : *b; }
static inline void e_pow(calc *c, E *y, const E *a, const E *b) { (void)c; *y = powf(*a, *b); }
static inline void e_fma(calc *c, E *y, const E *a, const E *x) { (void)c; *y += *a * *x; }
static void e_map(calc *c, enum fn f, E *y, const E *px)
{
	E x = *px;

	(void)c;
	switch (f) {
	case FN_ID: *y = x; break;
	case FN_NEG: *y = -x; break;
	case FN_EXP: *y = expf(x); break;
	case FN_SIGMOID: *y = 1 / (1 + expf(-x)); break;
	case FN_SOFTPLUS: *y = (x > 0 ? x : 0) + log1pf(expf(-fabsf(x))); break;
	case FN_SILU: *y = x / (1 + expf(-x)); break;
	case FN_SQRT: *y = sqrtf(x); break;
	case FN_RSQRT: *y = 1 / sqrtf(x); break;
	case FN_RECIP: *y = 1 / x; break;
	case FN_SIN: *y = sinf(x); break;
	case FN_COS: *y = cosf(x); break;
	case FN_TANH: *y = tanhf(x); break;
	}
}
#include "arith_loops.h"

static size_t size(const calc *c) { (void)c; return sizeof(E); }
static void init(calc *c, void *y, size_t n) { (void)c; memset(y, 0, n * sizeof(E)); }

static void load(calc *c, void *y, const double *x, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++) ((E *)y)[i] = (E)x[i];
}

static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++) {
		hi[i] = (double)((const E *)x)[i];
		if (lo) lo[i] = 0;
	}
}

const struct arith arith_f32 = {
	.name = "f32", .what = "float, sums in order", .precision = 24,
	.size = size, .init = init, .load = load, .read = take, ARITH_LOOPS
};
