/* The elements of an arithmetic on a C type. The including file defines E, the type; F(f), the function
 * f of <math.h> on it; FUSED where y + a x is rounded once; EXP, EXP2 and SOFTPLUS where they are not F's. See
 * arith_loops.h for what this makes of them. */
#ifndef EXP2
#define EXP2 F(exp2)
#define EXP F(exp)
#define SOFTPLUS(x) ((x > 0 ? x : 0) + F(log1p)(F(exp)(-F(fabs)(x))))
#endif
#define AT(c, p, i) ((E *)(uintptr_t)(p) + (i))
#define LOOP WIDE_LOOP
static inline void e_set0(calc *c, E *y) { (void)c; *y = 0; }
static inline void e_add(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a + *b; }
static inline void e_sub(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a - *b; }
static inline void e_mul(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a * *b; }
static inline void e_div(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a / *b; }
static inline void e_max(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a > *b ? *a : *b; }
static inline void e_pow(calc *c, E *y, const E *a, const E *b) { (void)c; *y = F(pow)(*a, *b); }
#ifdef FUSED
static inline void e_fma(calc *c, E *y, const E *a, const E *x) { (void)c; *y = F(fma)(*a, *x, *y); }
#else
static inline void e_fma(calc *c, E *y, const E *a, const E *x) { (void)c; *y += *a * *x; }
#endif
static inline __attribute__((always_inline)) void e_map(calc *c, enum fn f, E *y, const E *px)
{
	E x = *px;

	(void)c;
	switch (f) {
	case FN_ID: *y = x; break;
	case FN_NEG: *y = -x; break;
	case FN_EXP: *y = EXP(x); break;
	case FN_EXP2: *y = EXP2(x); break;
	case FN_PER_LN2: *y = x * (E)1.4426950408889634; break;
	case FN_SIGMOID: *y = 1 / (1 + EXP(-x)); break;
	case FN_SOFTPLUS: *y = SOFTPLUS(x); break;
	case FN_SILU: *y = x / (1 + EXP(-x)); break;
	case FN_SQRT: *y = F(sqrt)(x); break;
	case FN_RSQRT: *y = 1 / F(sqrt)(x); break;
	case FN_RECIP: *y = 1 / x; break;
	case FN_SIN: *y = F(sin)(x); break;
	case FN_COS: *y = F(cos)(x); break;
	case FN_TANH: *y = F(tanh)(x); break;
	case FN_LOG: *y = F(log)(x); break;
	case FN_ERF: *y = F(erf)(x); break;
	case FN_ABS: *y = F(fabs)(x); break;
	case FN_COUNT: break;
	}
}
#include "arith_loops.h"

/* l_gemm's sums, in the same order, SIDE columns side by side, DEEP terms at a time. */
enum { SIDE = 32, DEEP = 64 };
LOOP UNUSED static void gemm_in_order(calc *c, void *to, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	E block[DEEP][SIDE], *C = to;

	for (size_t i = 0; i < m * n; i++) C[i] = 0;
	for (size_t j = 0; j < n; j += SIDE)
		for (size_t first = 0; first < k; first += DEEP) {
			const size_t lanes = n - j < SIDE ? n - j : SIDE, depth = k - first < DEEP ? k - first : DEEP;
			if (lanes < SIDE) memset(block, 0, sizeof block);
			for (size_t v = 0; v < lanes; v++)
				for (size_t l = 0; l < depth; l++) block[l][v] = *AT(c, B, tb ? (j + v) * k + first + l : (first + l) * n + j + v);
			for (size_t i = 0; i < m; i++) {
				E sum[SIDE] = { 0 };
				memcpy(sum, C + i * n + j, lanes * sizeof *sum);
				for (size_t l = 0; l < depth; l++) {
					const E a = *AT(c, A, ta ? (first + l) * m + i : i * k + first + l);
					for (size_t v = 0; v < SIDE; v++) e_fma(c, sum + v, &a, block[l] + v);
				}
				memcpy(C + i * n + j, sum, lanes * sizeof *sum);
			}
		}
}

static size_t size(const calc *c) { (void)c; return sizeof(E); }
static void init(calc *c, void *y, size_t n) { (void)c; memset(y, 0, n * sizeof(E)); }

static void load(calc *c, void *y, const double *x, size_t n)
{
	(void)c;
	if (y == x) return;             /* plain */
	for (size_t i = 0; i < n; i++) ((E *)y)[i] = (E)x[i];
}

static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++) hi[i] = (double)((const E *)x)[i];
	if (lo) memset(lo, 0, n * sizeof *lo);
}
