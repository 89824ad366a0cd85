/* The operations of a dd_form. The including file defines FORM, its name, and chooses the instructions by a pragma. */
#include "dd_angle.h"
#include "dd_form.h"
#include "dd_simd.h"

#define SIMD _Pragma("omp simd")
INLINE dd at(dds x, size_t i) { return (dd){ x.hi[i], x.lo[i] }; }
INLINE void put(dds y, size_t i, dd x) { y.hi[i] = x.hi, y.lo[i] = x.lo; }
INLINE dds from(dds x, size_t i) { return (dds){ x.hi + i, x.lo + i }; }

/* ---- elementwise ---- */

INLINE dd larger(dd a, dd b) { return dd_choose((a.hi > b.hi) | ((a.hi == b.hi) & (a.lo > b.lo)), a, b); }

/* 2^(b log2 a), a > 0: log2 a = e + log2 m with m from √½ to √2, and b e is exact. (40 + 40 |b|) u^2. */
static dd power(dd a, dd b)
{
	int e;
	double m = frexp(a.hi, &e);

	if (m < 0.7071067811865476) e--;
	a = (dd){ ldexp(a.hi, -e), ldexp(a.lo, -e) };
	dd log2m = dd_mul(dd_twice_atanh(dd_div(dd_sub(a, dd_of(1)), dd_add(a, dd_of(1)))), dd_per_ln2);
	dd whole = dd_two_prod(b.hi, e), part = dd_mul(b, log2m);
	double k = dd_round(fmin(fmax(whole.hi + part.hi, -1200), 1200));
	dd x = dd_add(dd_sub(whole, dd_of(k)), dd_add(part, dd_of(b.lo * e)));
	return dd_times_power(dd_exp2(x), k);
}

#define BINARY(f) \
	if (b_step) SIMD for (size_t i = 0; i < n; i++) put(y, i, f(at(a, i), at(b, i))); \
	else { dd one = at(b, 0); SIMD for (size_t i = 0; i < n; i++) put(y, i, f(at(a, i), one)); } \
	break

static void binary(enum binary op, dds y, dds a, dds b, size_t b_step, size_t n)
{
	switch (op) {
	case OP_ADD: BINARY(dd_add);
	case OP_SUB: BINARY(dd_sub);
	case OP_MUL: BINARY(dd_mul);
	case OP_DIV: BINARY(dd_div);
	case OP_MAX: BINARY(larger);
	case OP_POW: for (size_t i = 0; i < n; i++) put(y, i, power(at(a, i), at(b, i * b_step))); break;
	}
}

/* The parts of x mod π/2 that a vector cannot reduce, one by one. */
static void circular(dds y, dds x, size_t n, double quarter)
{
	enum { SOME = 64 };
	double hi[SOME], lo[SOME], turn[SOME];
	dds r = { hi, lo };

	for (size_t first = 0; first < n; first += SOME) {
		size_t some = n - first < SOME ? n - first : SOME;
		SIMD for (size_t i = 0; i < some; i++) put(r, i, dd_angle(at(x, first + i), &turn[i]));
		for (size_t i = 0; i < some; i++) {
			dd far = at(x, first + i);
			if (fabs(far.hi) > DD_ANGLE && isfinite(far.hi)) put(r, i, dd_angle_far(far, &turn[i]));
		}
		SIMD for (size_t i = 0; i < some; i++) put(y, first + i, dd_circular(at(r, i), turn[i], quarter));
	}
}

/* log x = e ln 2 + log m with m from √½ to √2: e ln 2 and log m have opposite signs where e = -1 only, and then log m is at most
 * half of it. 100 u^2. */
static dd logarithm(dd x)
{
	int e;
	double m = frexp(x.hi, &e);

	if (!(x.hi > 0) || isinf(x.hi)) return dd_of(log(x.hi));
	if (m < 0.7071067811865476) e--;
	x = (dd){ ldexp(x.hi, -e), ldexp(x.lo, -e) };
	dd part = dd_twice_atanh(dd_div(dd_sub(x, dd_of(1)), dd_add(x, dd_of(1))));
	return dd_add(dd_mul(dd_of(e), dd_ln2), part);
}

/* erf x = 2/√π x e^-x² Σ (2x²)^k / (1·3·…·(2k + 1)), all terms positive; 1 - erf 8.7 < 2^-110. The error is that of x² in
 * e^-x², and a rounding for each of the terms. 1000 u^2. */
static dd error_function(dd x)
{
	static const dd two_per_root_pi = { 0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56 };
	dd square = dd_mul(x, x), twice = dd_scale(square, 2), term = dd_of(1), sum = term;

	if (isnan(x.hi) || fabs(x.hi) > 8.7) return dd_of(isnan(x.hi) ? x.hi : x.hi > 0 ? 1 : -1);
	for (int k = 1; k < 400 && term.hi > sum.hi * 0x1p-110; k++) {
		term = dd_div(dd_mul(term, twice), dd_of(2 * k + 1));
		sum = dd_add(sum, term);
	}
	return dd_mul(dd_mul(dd_mul(two_per_root_pi, x), dd_exp(dd_neg(square))), sum);
}

#define MAP(f) SIMD for (size_t i = 0; i < n; i++) put(y, i, f(at(x, i))); break
INLINE dd same(dd x) { return x; }
INLINE dd size_of(dd x) { return dd_times_sign(x, x.hi); }
INLINE dd per_ln2(dd x) { return dd_mul(x, dd_per_ln2); }

static void map(enum fn f, dds y, dds x, size_t n)
{
	switch (f) {
	case FN_ID: MAP(same);
	case FN_NEG: MAP(dd_neg);
	case FN_EXP: MAP(dd_exp);
	case FN_EXP2: MAP(dd_exp2);
	case FN_PER_LN2: MAP(per_ln2);
	case FN_SIGMOID: MAP(dd_sigmoid);
	case FN_SOFTPLUS: MAP(dd_softplus);
	case FN_SILU: MAP(dd_silu);
	case FN_SQRT: MAP(dd_sqrt);
	case FN_RSQRT: MAP(dd_rsqrt);
	case FN_RECIP: MAP(dd_recip);
	case FN_TANH: MAP(dd_tanh);
	case FN_SIN: circular(y, x, n, 0); break;
	case FN_COS: circular(y, x, n, 1); break;
	case FN_ABS: MAP(size_of);
	case FN_LOG: for (size_t i = 0; i < n; i++) put(y, i, logarithm(at(x, i))); break;
	case FN_ERF: for (size_t i = 0; i < n; i++) put(y, i, error_function(at(x, i))); break;
	case FN_COUNT: break;
	}
}

static void axpy(dds y, dd a, dds x, size_t n)
{
	SIMD for (size_t i = 0; i < n; i++) put(y, i, dd_fma(a, at(x, i), at(y, i)));
}

/* ---- sums ---- */

/* A sum not yet normalised: h + l. */
struct sum { double h, l; };
INLINE void add_term(struct sum *s, dd a, dd b)
{
	dd p = dd_two_prod(a.hi, b.hi), t = dd_two_sum(s->h, p.hi);

	s->h = t.hi;
	s->l += fma(a.lo, b.hi, fma(a.hi, b.lo, p.lo)) + t.lo;
}
INLINE void normalise(struct sum *s)
{
	dd t = dd_join(s->h, s->l);

	*s = (struct sum){ t.hi, t.lo };
}

/* The same for a vector of sums. */
struct vsum { vd h, l; };
INLINE void v_add_term(struct vsum *s, vd ah, vd al, vd bh, vd bl)
{
	vd p = ah * bh, e = v_fma(ah, bh, -p), h = s->h + p, b = h - s->h, t = (s->h - (h - b)) + (p - b);

	s->h = h;
	s->l += v_fma(al, bh, v_fma(ah, bl, e)) + t;
}
INLINE void v_normalise(struct vsum *s)
{
	vd l = v_finite(s->l), h = s->h + l;

	s->l = l - (h - s->h);
	s->h = h;
}

/* Term i goes to sum i % LANES; the sums are then added pairwise. */
enum { LANES = 16, V = LANES / W };
static void dot(dds y, dds a, dds b, size_t n)
{
	double h[LANES], l[LANES];
	struct vsum s[V] = { 0 };
	dds lane = { h, l };
	size_t i = 0;

	for (size_t block = 1; i + LANES <= n; i += LANES, block++) {
		#pragma GCC unroll 8
		for (int v = 0; v < V; v++) {
			size_t k = i + (size_t)(v * W);
			v_add_term(&s[v], v_load(a.hi + k), v_load(a.lo + k), v_load(b.hi + k), v_load(b.lo + k));
			if (block % DD_TERMS == 0) v_normalise(&s[v]);
		}
	}
	for (int v = 0; v < V; v++) v_store(h + v * W, s[v].h), v_store(l + v * W, s[v].l);
	for (size_t k = 0; k < LANES; k++) {
		struct sum one = { h[k], l[k] };
		if (i + k < n) add_term(&one, at(a, i + k), at(b, i + k));
		normalise(&one);
		h[k] = one.h, l[k] = one.l;
	}
	for (size_t w = LANES / 2; w; w /= 2) SIMD for (size_t k = 0; k < w; k++) put(lane, k, dd_add(at(lane, k), at(lane, k + w)));
	put(y, 0, at(lane, 0));
}

enum { COLUMNS = W == 8 ? 4 : 2 };      /* vectors of sums that fit the registers */
static void gemv_t(dds y, dds A, dds x, size_t rows, size_t cols)
{
	size_t j = 0;

	for (; j + COLUMNS * W <= cols; j += COLUMNS * W) {
		struct vsum s[COLUMNS] = { 0 };
		for (size_t i = 0; i < rows; i++) {
			vd xh = v_set(x.hi[i]), xl = v_set(x.lo[i]);
			#pragma GCC unroll 4
			for (int v = 0; v < COLUMNS; v++) {
				size_t k = i * cols + j + (size_t)(v * W);
				v_add_term(&s[v], v_load(A.hi + k), v_load(A.lo + k), xh, xl);
			}
			if (i % DD_TERMS == DD_TERMS - 1)
				for (int v = 0; v < COLUMNS; v++) v_normalise(&s[v]);
		}
		for (int v = 0; v < COLUMNS; v++) {
			v_normalise(&s[v]);
			v_store(y.hi + j + v * W, s[v].h), v_store(y.lo + j + v * W, s[v].l);
		}
	}
	for (; j < cols; j++) {
		struct sum s = { 0 };
		for (size_t i = 0; i < rows; i++) {
			add_term(&s, at(A, i * cols + j), at(x, i));
			if (i % DD_TERMS == DD_TERMS - 1) normalise(&s);
		}
		normalise(&s);
		y.hi[j] = s.h, y.lo[j] = s.l;
	}
}

#include "dd_gemm.h"

#define NAME2(f) dd_##f
#define NAME(f) NAME2(f)
#define TEXT2(f) #f
#define TEXT(f) TEXT2(f)
const struct dd_form NAME(FORM) = { TEXT(FORM), form_runs, binary, map, axpy, dot, gemv_t, gemm };
