/* kl_form for the instructions that the including file chose; NAME is its name. */
#include <string.h>

#include "kl_sums.h"
#include "load.h"

/* 1/(j + 2)! */
static const double factorial[] = {
	0x1p-1, 0x1.5555555555555p-3, 0x1.5555555555555p-5, 0x1.1111111111111p-7, 0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-13,
	0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19, 0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26, 0x1.1eed8eff8d898p-29,
	0x1.6124613a86d09p-33
};

/* Σ_{j < terms} x^j/(j + 2)! */
INLINE vd v_series(vd x, int terms)
{
	vd s = v_set(factorial[terms - 1]);

	#pragma GCC unroll 16
	for (int j = terms - 2; j >= 0; j--) s = v_fma(s, x, v_set(factorial[j]));
	return s;
}

/* 2^power and e^r - 1: x = k ln 2 + r with |r| < 0.35, to the 13th power of r: 2^-52. phi: e^x - 1 - x. */
struct exponential { vd power, near, minus_1, phi; };
INLINE struct exponential v_exp(vd x)
{
	vd magic = v_set(0x1.8p52), k = v_fma(x, v_set(0x1.71547652b82fep0), magic);
	vi bits = ((vi)k << 52) + 0x3ff0000000000000;

	k -= magic;
	vd r = v_fma(k, v_set(-0x1.abc9e3b39803fp-56), v_fma(k, v_set(-0x1.62e42fefa39efp-1), x));
	vd phi = v_series(r, 12) * (r * r), power = (vd)bits, near = r + phi, minus_1 = v_fma(power, near, power - 1);
	vi same = k == 0;
	return (struct exponential){ power, near, minus_1, (vd)(((vi)phi & same) | ((vi)(minus_1 - x) & ~same)) };
}

/* e^x, -700 <= x <= 0, within 2^-42. A weight: what it is off by, all that it weighs is off by. */
INLINE vd v_weight(vd x)
{
#if defined __AVX512F__
	/* x = (16 e + j) ln 2 / 16 + r with |r| < 0.022: 2^e 2^(j/16) e^r, the second from a table in two registers */
	static const double roots[] = {
		0x1p0, 0x1.0b5586cf9890fp0, 0x1.172b83c7d517bp0, 0x1.2387a6e756238p0,
		0x1.306fe0a31b715p0, 0x1.3dea64c123422p0, 0x1.4bfdad5362a27p0, 0x1.5ab07dd485429p0,
		0x1.6a09e667f3bcdp0, 0x1.7a11473eb0187p0, 0x1.8ace5422aa0dbp0, 0x1.9c49182a3f09p0,
		0x1.ae89f995ad3adp0, 0x1.c199bdd85529cp0, 0x1.d5818dcfba487p0, 0x1.ea4afa2a490dap0,
	};
	vd magic = v_set(0x1.8p52), k = v_fma(x, v_set(0x1.71547652b82fep4), magic);
	vd r = v_fma(k - magic, v_set(-0x1.62e42fefa39efp-5), x);
	vd root = _mm512_permutex2var_pd(v_load(roots), (__m512i)k, v_load(roots + 8));
	vd whole = (vd)((vi)root + ((vi)_mm512_srli_epi64((__m512i)k, 4) << 52));
	return v_fma(whole, v_fma(v_series(r, 4), r * r, r), whole);
#else
	struct exponential e = v_exp(x);
	return v_fma(e.power, e.near, e.power);
#endif
}

/* Is every one of x below the bound? A NaN is not. */
INLINE bool v_below(vd x, double bound)
{
#if defined __AVX512F__
	return _mm512_cmp_pd_mask(x, v_set(bound), _CMP_LT_OQ) == 0xff;
#elif defined __AVX2__
	return _mm256_movemask_pd(_mm256_cmp_pd(x, v_set(bound), _CMP_LT_OQ)) == 0xf;
#else
	return x[0] < bound && x[1] < bound;
#endif
}

INLINE vd v_within(vd x, double bound) { return v_max(v_set(-bound), -v_max(v_set(-bound), -x)); }

struct kl_lanes { vd w, we, wphi, wpsi, far; };

/* Where all |t| < 1/16, as they are for a kernel's rounding errors, no reduction: to the 8th power, 2^-44. */
INLINE void one_vector(struct kl_lanes *s, vd a, vd b, vd m, vd c)
{
	vd t = (b - a) - c, size = (vd)((vi)t & ((vi)v_set(-0.0) ^ -1)), phi, minus_1;
	vd w = v_weight(v_max(v_set(-700), a - m));     /* x, the second operand, where it is a NaN */

	if (v_below(size, 0x1p-4)) {
		phi = v_series(t, 7) * (t * t);
		minus_1 = t + phi;
	} else {
		struct exponential f = v_exp(v_within(t, KL_FAR));
		phi = f.phi;
		minus_1 = f.minus_1;
	}
	s->w += w;
	s->we = v_fma(w, minus_1, s->we);
	s->wphi = v_fma(w, phi, s->wphi);
	s->far = v_max(size, s->far);
	s->wpsi = v_fma(w, v_fma(t, minus_1, -phi), s->wpsi);
}

/* Memory fetches what comes AHEAD while this computes. */
INLINE void both(struct kl_lanes *s, load_of *la, size_t size_a, load_of *lb, size_t size_b, const void *a, const void *b,
	size_t n, double m, double c)
{
	struct kl_lanes sum = *s;               /* in registers */

	for (size_t i = 0; i < n; i += W) {
		if (i * size_a % LINE == 0) __builtin_prefetch((const char *)a + i * size_a + AHEAD);
		if (i * size_b % LINE == 0) __builtin_prefetch((const char *)b + i * size_b + AHEAD);
		one_vector(&sum, la(a, i), lb(b, i), v_set(m), v_set(c));
	}
	*s = sum;
}

/* n is a multiple of W. */
static void any(struct kl_lanes *s, enum dtype ta, const void *a, enum dtype tb, const void *b, size_t n, double m, double c)
{
	load_of *la = ta == DT_F64 ? load_f64 : ta == DT_F16 ? load_f16 : ta == DT_BF16 ? load_bf16 : load_f32;
	load_of *lb = tb == DT_F64 ? load_f64 : tb == DT_F16 ? load_f16 : tb == DT_BF16 ? load_bf16 : load_f32;

	if (ta == DT_F32 && tb == DT_F32) both(s, load_f32, 4, load_f32, 4, a, b, n, m, c);
	else if (ta == DT_BF16 && tb == DT_BF16) both(s, load_bf16, 2, load_bf16, 2, a, b, n, m, c);
	else both(s, la, dtype_info[ta].size, lb, dtype_info[tb].size, a, b, n, m, c);
}

static void sums(struct kl_sums *s, enum dtype ta, const void *a, enum dtype tb, const void *b, size_t n, double m, double c)
{
	struct kl_lanes lanes = { 0 }, rest = { 0 };
	size_t whole = n / W * W, size_a = dtype_info[ta].size, size_b = dtype_info[tb].size;
	char x[8 * W] = { 0 }, y[8 * W] = { 0 };

	memcpy(x, (const char *)a + whole * size_a, (n - whole) * size_a);
	memcpy(y, (const char *)b + whole * size_b, (n - whole) * size_b);
	any(&lanes, ta, a, tb, b, whole, m, c);
	any(&rest, ta, x, tb, y, W, m, c);
	*s = (struct kl_sums){ 0 };
	for (size_t i = 0; i < W; i++) {
		bool there = whole + i < n;
		s->w += lanes.w[i] + (there ? rest.w[i] : 0), s->we += lanes.we[i] + (there ? rest.we[i] : 0);
		s->wphi += lanes.wphi[i] + (there ? rest.wphi[i] : 0), s->wpsi += lanes.wpsi[i] + (there ? rest.wpsi[i] : 0);
		s->far = fmax(s->far, fmax(lanes.far[i], there ? rest.far[i] : 0));
	}
}

INLINE vd most_of(load_of *load, const void *x, size_t n)
{
	vd y[2] = { v_set(-INFINITY), v_set(-INFINITY) };
	size_t i = 0;

	for (; i + 2 * W <= n; i += 2 * W) y[0] = v_max(load(x, i), y[0]), y[1] = v_max(load(x, i + W), y[1]);
	for (; i + W <= n; i += W) y[0] = v_max(load(x, i), y[0]);
	return v_max(y[0], y[1]);
}

/* Without a conversion: sixteen at a time. n is a multiple of W. */
INLINE vd most_f32(const float *x, size_t n)
{
#if defined __AVX512F__
	__m512 y[2] = { _mm512_set1_ps(-INFINITY), _mm512_set1_ps(-INFINITY) };
	size_t i = 0;

	for (; i + 4 * W <= n; i += 4 * W) {
		y[0] = _mm512_max_ps(_mm512_loadu_ps(x + i), y[0]);
		y[1] = _mm512_max_ps(_mm512_loadu_ps(x + i + 2 * W), y[1]);
	}
	y[0] = _mm512_max_ps(y[0], y[1]);
	vd most = v_max(of_floats(_mm512_castps512_ps256(y[0])), of_floats(_mm512_extractf32x8_ps(y[0], 1)));
	return v_max(most, most_of(load_f32, x + i, n - i));
#else
	return most_of(load_f32, x, n);
#endif
}

static double most(enum dtype t, const void *x, size_t n)
{
	vd y = t == DT_F64 ? most_of(load_f64, x, n) : t == DT_F32 ? most_f32(x, n / W * W)
		: t == DT_F16 ? most_of(load_f16, x, n) : most_of(load_bf16, x, n);
	double z[W], largest = -INFINITY;
	size_t whole = n / W * W;

	dtype_load(t, (const char *)x + whole * dtype_info[t].size, n - whole, z);
	for (size_t i = 0; i < n - whole; i++) largest = fmax(largest, z[i]);
	for (size_t i = 0; i < W; i++) largest = fmax(largest, y[i]);
	return largest;
}

const struct kl_form NAME = { most, sums };
