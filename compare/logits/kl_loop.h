/* kl_form for the instructions that the including file chose; NAME is its name. */
#include <string.h>

#include "kl_sums.h"
#include "compare/diff/load.h"

/* (e^r - 1 - r)/r^2, minimax: of itself within 2^-51.4 for |r| <= KL_NEAR; within 2^-42.9 for |r| <= ln 2 / 32, as a weight
 * needs no more; within 2^-48.1 and 2^-55 for |r| <= ln 2 / 8. Of 2^(j/STEPS) the bits, less j 2^52/STEPS. */
static const double near_term[] = {
	0x1p-1, 0x1.55555555557ddp-3, 0x1.55555555558fbp-5, 0x1.111110fcd65d1p-7, 0x1.6c16c14de6d5dp-10, 0x1.a0241eddc8a6fp-13,
	0x1.a0246d7045582p-16
};
#if defined __AVX512F__
static const double weight_term[] = {
	0x1.0000000000001p-1, 0x1.55555554dd387p-3, 0x1.55555554b92fep-5, 0x1.11120b03d8329p-7, 0x1.6c181f5989431p-10
};
#define far_term near_term
static const long long roots[] = {
	0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238, 0x3fef06fe0a31b715, 0x3feedea64c123422,
	0x3feebfdad5362a27, 0x3feeab07dd485429, 0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
	0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da
};
enum { STEPS = 16, TOGETHER = 2 };
#else
static const double far_term[] = {
	0x1p-1, 0x1.5555555555556p-3, 0x1.55555555565c3p-5, 0x1.111111110fb19p-7, 0x1.6c16c116a148ap-10, 0x1.a01a01d64b215p-13,
	0x1.a02bc92b65465p-16, 0x1.71e282b233c3ep-19
};
static const double weight_term[] = {
	0x1p-1, 0x1.555555555674dp-3, 0x1.5555555553171p-5, 0x1.111110c64a764p-7, 0x1.6c16c1a7abdddp-10, 0x1.a02d73e4f528fp-13,
	0x1.a01f3789da8d3p-16
};
static const long long roots[] = { 0x3ff0000000000000, 0x3fef06fe0a31b715, 0x3feea09e667f3bcd, 0x3feee89f995ad3ad };
enum { STEPS = 4, TOGETHER = 2 };
#endif
#define LEN(a) ((int)(sizeof(a) / sizeof *(a)))

/* A step for TOGETHER vectors, one after the other: what each waits for, the others fill. */
#define EACH _Pragma("GCC unroll 8") for (int i = 0; i < n; i++)
struct some { vd v[TOGETHER]; };

/* y = Σ_j c[j] x^j, even and odd j apart, so that less is waited for; x2 = x^2 */
INLINE void v_series(int n, struct some *y, const struct some *x, const struct some *x2, const double *c, int terms)
{
	struct some odd;

	EACH y->v[i] = v_set(c[(terms - 1) / 2 * 2]), odd.v[i] = v_set(c[terms / 2 * 2 - 1]);
	#pragma GCC unroll 16
	for (int j = terms - 3; j >= 0; j--)
		EACH {
			if (j % 2) odd.v[i] = v_fma(odd.v[i], x2->v[i], v_set(c[j]));
			else y->v[i] = v_fma(y->v[i], x2->v[i], v_set(c[j]));
		}
	EACH y->v[i] = v_fma(odd.v[i], x->v[i], y->v[i]);
}

/* roots[k % STEPS] */
INLINE vi v_root(vi k)
{
#if defined __AVX512F__
	return (vi)_mm512_permutex2var_epi64(_mm512_loadu_si512(roots), (__m512i)k, _mm512_loadu_si512(roots + 8));
#elif defined __AVX2__
	__m256i twice = _mm256_castps_si256(_mm256_moveldup_ps((__m256)k)), halves = _mm256_add_epi32(twice, twice);
	halves = _mm256_add_epi32(halves, _mm256_set1_epi64x(1ll << 32));
	return (vi)_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const void *)roots), halves);
#else
	return (vi){ roots[k[0] & 3], roots[k[1] & 3] };
#endif
}

/* x = k ln 2 / STEPS + r; whole = 2^(k / STEPS), e^r - 1 - r = r2 rest, r2 = r^2. -700 <= x <= 700. */
struct exponential { struct some k, r, r2, whole, rest; };
INLINE void v_exp(int n, struct exponential *e, const struct some *x, const double *c, int terms)
{
	const vd magic = v_set(0x1.8p52);
	struct some bits;

	EACH bits.v[i] = v_fma(x->v[i], v_set(0x1.71547652b82fep0 * STEPS), magic);
	EACH e->k.v[i] = bits.v[i] - magic;
	EACH e->r.v[i] = v_fma(e->k.v[i], v_set(-0x1.62e42fefa39efp-1 / STEPS), x->v[i]);
	/* k 2^52/STEPS adds to a root's bits the exponent and j 2^52/STEPS. */
	EACH e->whole.v[i] = (vd)(v_root((vi)bits.v[i]) + ((vi)bits.v[i] << (STEPS == 16 ? 48 : 50)));
	EACH e->r2.v[i] = e->r.v[i] * e->r.v[i];
	v_series(n, &e->rest, &e->r, &e->r2, c, terms);
}

struct lanes { vd w, we, wphi, wte, d, d2, least, most; };

INLINE void vectors(int n, struct lanes *s, const struct some *a, const struct some *b, vd m, vd c, bool near)
{
	struct exponential e;
	struct some x, t, w, phi, minus_1;

	EACH {
		vd d = b->v[i] - a->v[i];
		s->d += d;
		s->d2 = v_fma(d, d, s->d2);
		s->most = v_max(d, s->most);
		s->least = v_min(d, s->least);
		t.v[i] = d - c;
	}
	EACH x.v[i] = near ? a->v[i] - m : v_max(v_set(-KL_DEEP), a->v[i] - m);
	v_exp(n, &e, &x, weight_term, LEN(weight_term));
	EACH w.v[i] = v_fma(e.whole.v[i], v_fma(e.r2.v[i], e.rest.v[i], e.r.v[i]), e.whole.v[i]);
	if (near) {
		EACH x.v[i] = t.v[i] * t.v[i];
		v_series(n, &phi, &t, &x, near_term, LEN(near_term));
		EACH phi.v[i] = phi.v[i] * x.v[i];
		EACH minus_1.v[i] = t.v[i] + phi.v[i];
	} else {
		EACH x.v[i] = v_max(v_set(-KL_FAR), v_min(v_set(KL_FAR), t.v[i]));
		v_exp(n, &e, &x, far_term, LEN(far_term));
		EACH {
			vi same = e.k.v[i] == 0;
			minus_1.v[i] = v_fma(e.whole.v[i], v_fma(e.r2.v[i], e.rest.v[i], e.r.v[i]), e.whole.v[i] - 1);
			phi.v[i] = (vd)(((vi)(e.r2.v[i] * e.rest.v[i]) & same) | ((vi)(minus_1.v[i] - t.v[i]) & ~same));
		}
	}
	EACH s->w += w.v[i];
	EACH s->wphi = v_fma(w.v[i], phi.v[i], s->wphi);
	EACH w.v[i] = w.v[i] * minus_1.v[i];
	EACH s->we += w.v[i];
	EACH s->wte = v_fma(w.v[i], t.v[i], s->wte);
}

/* n is a multiple of W. Memory fetches the next n while this computes. */
INLINE void all(struct lanes *to, load_of *load, size_t size, const void *a, const void *b, size_t n, double m, double c, bool near)
{
	struct lanes s = *to;                   /* in registers */
	struct some x, y;
	size_t i = 0;

	for (; i + TOGETHER * W <= n; i += TOGETHER * W) {
		#pragma GCC unroll 8
		for (size_t k = 0; k < TOGETHER * W * size; k += LINE) {
			__builtin_prefetch((const char *)a + (n + i) * size + k);
			__builtin_prefetch((const char *)b + (n + i) * size + k);
		}
		#pragma GCC unroll 8
		for (size_t k = 0; k < TOGETHER; k++) x.v[k] = load(a, i + k * W), y.v[k] = load(b, i + k * W);
		vectors(TOGETHER, &s, &x, &y, v_set(m), v_set(c), near);
	}
	for (; i < n; i += W) {
		x.v[0] = load(a, i), y.v[0] = load(b, i);
		vectors(1, &s, &x, &y, v_set(m), v_set(c), near);
	}
	*to = s;
}

static void any(struct lanes *s, enum dtype t, const void *a, const void *b, size_t n, double m, double c, bool near)
{
	#define CASE(type, load, size) \
		case type: if (near) all(s, load, size, a, b, n, m, c, true); else all(s, load, size, a, b, n, m, c, false); break
	switch (t) {
		CASE(DT_F64, load_f64, 8);
		CASE(DT_F32, load_f32, 4);
		CASE(DT_F16, load_f16, 2);
		CASE(DT_BF16, load_bf16, 2);
	default: break;
	}
}

static void sums(struct kl_sums *s, enum dtype t, const void *a, const void *b, size_t n, double m, double c, bool near)
{
	struct lanes lanes = { .least = v_set(INFINITY), .most = v_set(-INFINITY) }, rest = lanes;
	size_t whole = n / W * W, size = dtype_info[t].size;
	char x[8 * W] = { 0 }, y[8 * W] = { 0 };

	any(&lanes, t, a, b, whole, m, c, near);
	if (whole < n) {
		memcpy(x, (const char *)a + whole * size, (n - whole) * size);
		memcpy(y, (const char *)b + whole * size, (n - whole) * size);
		any(&rest, t, x, y, W, m, c, near);
	}
	*s = (struct kl_sums){ .least = INFINITY, .most = -INFINITY };
	for (size_t i = 0; i < W + (n - whole); i++) {
		const struct lanes *l = i < W ? &lanes : &rest;
		size_t k = i % W;
		s->w += l->w[k], s->we += l->we[k], s->wphi += l->wphi[k], s->wpsi += l->wte[k] - l->wphi[k];
		s->d += l->d[k], s->d2 += l->d2[k], s->least = l->least[k] < s->least ? l->least[k] : s->least;
		s->most = l->most[k] > s->most ? l->most[k] : s->most;
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

/* Without a conversion: 2 W at a time. n is a multiple of W. */
INLINE vd most_f32(const float *x, size_t n)
{
#if defined __AVX2__
	vf y[2] = { (vf){ 0 } - INFINITY, (vf){ 0 } - INFINITY };
	size_t i = 0;

	for (; i + 4 * W <= n; i += 4 * W)
		y[0] = f_max(f_load(x + i), y[0]), y[1] = f_max(f_load(x + i + 2 * W), y[1]);
	y[0] = f_max(y[0], y[1]);
	vd most = v_max(load_f32((const float *)&y[0], 0), load_f32((const float *)&y[0], W));
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

	if (whole < n) dtype_load(t, (const char *)x + whole * dtype_info[t].size, n - whole, z);
	for (size_t i = 0; i < n - whole; i++) largest = z[i] > largest ? z[i] : largest;
	for (size_t i = 0; i < W; i++) largest = y[i] > largest ? y[i] : largest;
	return largest;
}

INLINE vd least_of(load_of *load, const void *x, size_t n)
{
	vd y[2] = { v_set(INFINITY), v_set(INFINITY) };
	size_t i = 0;

	for (; i + 2 * W <= n; i += 2 * W) y[0] = v_min(load(x, i), y[0]), y[1] = v_min(load(x, i + W), y[1]);
	for (; i + W <= n; i += W) y[0] = v_min(load(x, i), y[0]);
	return v_min(y[0], y[1]);
}

static bool deep(enum dtype t, const void *x, size_t n, double m)
{
	const char *end = (const char *)x + n / W * W * dtype_info[t].size;
	vd y = v_set(m);
	double z[W];

	switch (t) {
	case DT_F64: y = least_of(load_f64, x, n); break;
	case DT_F16: y = least_of(load_f16, x, n); break;
	case DT_BF16: y = least_of(load_bf16, x, n); break;
#if defined __AVX2__
	case DT_F32: {
		vf least[2] = { (vf){ 0 } + INFINITY, (vf){ 0 } + INFINITY };
		size_t i = 0;
		for (; i + 4 * W <= n; i += 4 * W)
			for (size_t k = 0; k < 2; k++) least[k] = f_min(f_load((const float *)x + i + k * 2 * W), least[k]);
		y = v_min(least_of(load_f32, least, 4 * W), least_of(load_f32, (const float *)x + i, n - i));
		break;
	}
#else
	case DT_F32: y = least_of(load_f32, x, n); break;
#endif
	default: break;
	}
	dtype_load(t, end, n % W, z);
	for (size_t i = 0; i < n % W; i++) y[i] = z[i] < y[i] ? z[i] : y[i];
	for (size_t i = 0; i < W; i++)
		if (y[i] - m < -KL_DEEP) return true;
	return false;
}

const struct kl_form NAME = { most, deep, sums };
