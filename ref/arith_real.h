/* The elements of an arithmetic on a C type. The including file defines E, the type, and F(f), the
 * function f of <math.h> on it; see arith_loops.h for what this makes of them. */
#define AT(c, p, i) ((E *)(uintptr_t)(p) + (i))
#define LOOP WIDE_LOOP
static inline void e_set0(calc *c, E *y) { (void)c; *y = 0; }
static inline void e_add(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a + *b; }
static inline void e_sub(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a - *b; }
static inline void e_mul(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a * *b; }
static inline void e_div(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a / *b; }
static inline void e_max(calc *c, E *y, const E *a, const E *b) { (void)c; *y = *a > *b ? *a : *b; }
static inline void e_pow(calc *c, E *y, const E *a, const E *b) { (void)c; *y = F(pow)(*a, *b); }
static inline void e_fma(calc *c, E *y, const E *a, const E *x) { (void)c; *y += *a * *x; }
static void e_map(calc *c, enum fn f, E *y, const E *px)
{
	E x = *px;

	(void)c;
	switch (f) {
	case FN_ID: *y = x; break;
	case FN_NEG: *y = -x; break;
	case FN_EXP: *y = F(exp)(x); break;
	case FN_SIGMOID: *y = 1 / (1 + F(exp)(-x)); break;
	case FN_SOFTPLUS: *y = (x > 0 ? x : 0) + F(log1p)(F(exp)(-F(fabs)(x))); break;
	case FN_SILU: *y = x / (1 + F(exp)(-x)); break;
	case FN_SQRT: *y = F(sqrt)(x); break;
	case FN_RSQRT: *y = 1 / F(sqrt)(x); break;
	case FN_RECIP: *y = 1 / x; break;
	case FN_SIN: *y = F(sin)(x); break;
	case FN_COS: *y = F(cos)(x); break;
	case FN_TANH: *y = F(tanh)(x); break;
	}
}
#include "arith_loops.h"

static size_t size(const calc *c) { (void)c; return sizeof(E); }
static void init(calc *c, void *y, size_t n) { (void)c; memset(y, 0, n * sizeof(E)); }
