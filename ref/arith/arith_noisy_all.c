/* noisy, also where float32 happens to be exact: full Monte Carlo arithmetic (Parker 1997), in which operands are off as well as
 * results. A kernel with another algebra need not be exact where the formula is: e^(s - m) = 1 for s = m, but not when it is
 * 2^(s c - m c) with c = log2 e; a / 3 = 2 for a = 6, but not a times the float nearest 1/3.
 *
 * What the next operation finds is x + off, off uniform within half a unit of 2^-23 of the operands' sizes: |a| + |b| of a sum, the
 * product's own of a product. The last operation of all is the kernel's alone and stays exact where float32 is: the sum of two inputs
 * has one value. A copy, a product with 0, a sum with 0 and a function of 0 are what they are in every algebra, and so is what no number is
 * but a mask, 2^96 and beyond. */
#include <math.h>

#include "calc_private.h"
#include "noisy.h"

typedef struct { double x, off; } loose;
#define E loose
#define AT(c, p, i) ((E *)(uintptr_t)(p) + (i))
#define LOOP

static inline double now(const E *a) { return a->x + a->off; }
static inline bool is_zero(const E *a) { return a->x == 0 && a->off == 0; }

/* size: of what was added or multiplied; only of numbers is what is made off. */
static inline bool is_number(double size) { return size < 0x1p96; }
static inline E made(calc *c, double x, double size)
{
	return c->indices ? (E){ x, 0 } : (E){ sr(c, x), is_number(size) ? size * 0x1p-24 * uniform(c) : 0 };
}

/* Of a function that errs by at most `ulps` units of 2^-23. */
static inline E function(calc *c, double x, double ulps)
{
	return made(c, isfinite(x) && !c->indices ? x + x * (uniform(c) * ulps * 0x1p-23) : x, fabs(x));
}

static inline void e_set0(calc *c, E *y) { (void)c; *y = (E){ 0, 0 }; }

static inline void e_add(calc *c, E *y, const E *a, const E *b)
{
	double p = now(a), q = now(b);

	*y = is_zero(a) || is_zero(b) ? (E){ sr(c, p + q), 0 } : made(c, p + q, fabs(p) + fabs(q));
}

static inline void e_sub(calc *c, E *y, const E *a, const E *b)
{
	E minus = { -b->x, -b->off };

	e_add(c, y, a, &minus);
}

static inline void e_mul(calc *c, E *y, const E *a, const E *b)
{
	double p = now(a) * now(b);

	*y = made(c, p, fabs(p));
}

/* A given power of two divides exactly. */
static inline void e_div(calc *c, E *y, const E *a, const E *b)
{
	double q = now(a) / now(b);
	int exponent;

	*y = b->off == 0 && fabs(frexp(b->x, &exponent)) == 0.5 ? made(c, q, fabs(q)) : function(c, q, 2);
}

static inline void e_max(calc *c, E *y, const E *a, const E *b) { (void)c; *y = now(a) > now(b) ? *a : *b; }
static inline void e_pow(calc *c, E *y, const E *a, const E *b) { *y = function(c, pow(now(a), now(b)), 4); }

static inline void e_fma(calc *c, E *y, const E *a, const E *x)
{
	double p = now(a) * now(x), sum = now(y) + p;

	if (p != 0) *y = made(c, sum, is_zero(y) ? fabs(p) : fabs(now(y)) + fabs(p));
}

static void e_map(calc *c, enum fn f, E *y, const E *px)
{
	double x = now(px), value, err = 2;

	switch (f) {
	case FN_ID: *y = *px; return;
	case FN_NEG: *y = (E){ -px->x, -px->off }; return;
	case FN_ABS: *y = x < 0 ? (E){ -px->x, -px->off } : *px; return;
	default: break;
	}
	arith_f64.map(c, f, &value, &x, 1);
	if (f == FN_SIGMOID || f == FN_SOFTPLUS || f == FN_SILU) err = 6;
	if (f == FN_EXP) err += fmin(fabs(x), 128);     /* the argument's rounding, to base 2 */
	*y = is_zero(px) ? (E){ sr(c, value), 0 } : function(c, value, err);
}
#include "arith_loops.h"

/* made()'s offset by the low half of w, whose high half rounds. */
static inline double off_by(uint64_t w, double size)
{
	union { uint64_t u; double d; } v = { (w << 32 >> 12) | UINT64_C(1023) << 52 };   /* [1, 2) */

	return is_number(size) ? size * 0x1p-23 * (v.d - 1.5) : 0;
}

/* The sums of LANES columns side by side, DEPTH terms at a time, each of which takes a word of draws. */
enum { DEPTH = 64 };
_Static_assert(LANES * DEPTH <= ROW / 2, "a block's draws are one row's");
WIDE_LOOP static void gemm_blocks(calc *c, E *C, const E *A, bool ta, const E *B, bool tb, size_t m, size_t n, size_t k)
{
	double block[DEPTH][LANES];

	for (size_t j = 0; j < n; j += LANES)
		for (size_t first = 0; first < k; first += DEPTH) {
			const size_t lanes = n - j < LANES ? n - j : LANES, depth = k - first < DEPTH ? k - first : DEPTH;
			bool finite = true;
			if (lanes < LANES) memset(block, 0, sizeof block);
			for (size_t v = 0; v < lanes; v++)
				for (size_t l = 0; l < depth; l++) {
					block[l][v] = now(B + (tb ? (j + v) * k + first + l : (first + l) * n + j + v));
					finite = finite && isfinite(block[l][v]);
				}
			for (size_t i = 0; i < m; i++) {
				const struct draws d = draws_at(c->noise + (i * n + j) * k + first);
				double sum[LANES] = { 0 }, off[LANES] = { 0 };
				for (size_t v = 0; first && v < lanes; v++) sum[v] = C[i * n + j + v].x, off[v] = C[i * n + j + v].off;
				for (size_t l = 0; l < depth; l++) {
					const double a = now(A + (ta ? (first + l) * m + i : i * k + first + l));
					if (finite && a == 0) continue;
					#pragma omp simd
					for (size_t v = 0; v < LANES; v++) {
						const double p = a * block[l][v], before = sum[v] + off[v];
						const uint64_t w = word(&d, l * LANES + v);
						const double y = sr_by(w, before + p), beside = off_by(w, fabs(before) + fabs(p));
						sum[v] = p != 0 ? y : sum[v];
						off[v] = p != 0 ? beside : off[v];
					}
				}
				for (size_t v = 0; v < lanes; v++) C[i * n + j + v] = (E){ sum[v], off[v] };
			}
		}
	c->noise += m * n * k;
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	if (!k || n < LANES / 2 || c->indices) l_gemm(c, C, A, ta, B, tb, m, n, k);
	else gemm_blocks(c, C, A, ta, B, tb, m, n, k);
}

static size_t size(const calc *c) { (void)c; return sizeof(E); }
static void init(calc *c, void *y, size_t n) { (void)c; memset(y, 0, n * sizeof(E)); }

static void load(calc *c, void *y, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) ((E *)y)[i] = (E){ sr(c, x[i]), 0 };
}

static void take(calc *c, double *hi, double *lo, const void *x, size_t n)
{
	(void)c;
	for (size_t i = 0; i < n; i++) hi[i] = ((const E *)x)[i].x;
	if (lo) memset(lo, 0, n * sizeof(double));
}

const struct arith arith_noisy_all = {
	.name = "noisy everywhere", .what = "noisy, where float32 is exact too", .precision = 24,
	.size = size, .init = init, .load = load, .read = take, ARITH_LOOPS_WITH(gemm)
};
