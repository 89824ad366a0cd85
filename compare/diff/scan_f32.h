/* Two arrays of F32, 2 W elements at a time: sums in double, all else in float, in half the steps. Float tells for certain
 * that no element passes a limit; where one may, nothing is added and the loop in double decides. */
typedef int vw __attribute__((vector_size(8 * W)));
#ifdef __AVX512F__
#define V(op) _mm512_##op
typedef __m512i vany;
INLINE vf f_size(vf a, vf b) { return _mm512_range_ps(a, b, 0xb); }
INLINE vw w_count_equal(vw n, vw a, vw b)
{
	return (vw)_mm512_mask_sub_epi32((vany)n, _mm512_cmpeq_epi32_mask((vany)a, (vany)b), (vany)n, _mm512_set1_epi32(-1));
}
INLINE bool w_any(vw a) { return _mm512_test_epi32_mask((vany)a, (vany)a); }
#else
#define V(op) _mm256_##op
typedef __m256i vany;
INLINE vf f_size(vf a, vf b)
{
	const vw magnitude = (vw){ 0 } + 0x7fffffff;
	return _mm256_max_ps((vf)((vw)a & magnitude), (vf)((vw)b & magnitude));
}
INLINE vw w_count_equal(vw n, vw a, vw b) { return n - (a == b); }
INLINE bool w_any(vw a) { return !_mm256_testz_si256((vany)a, (vany)a); }
#endif
INLINE vw w_max(vw a, vw b) { return (vw)V(max_epi32)((vany)a, (vany)b); }
INLINE vw w_least(vw a, vw b) { return (vw)V(min_epu32)((vany)a, (vany)b); }
/* a - b, or 0, of numbers whose lower halves are 0 */
INLINE vw w_less(vw a, vw b) { return (vw)V(subs_epu16)((vany)a, (vany)b); }

/* The bits of 1 and of 2^-64, less 1; the exponent of 2^25. */
enum { ONE = 0x3f800000, TINY = ONE - (64 << 23) - 1, UNIT = 25 << 23 };
/* Below so many m every |d| is a float (Sterbenz). */
#define EXACT 0.25

/* rel: |d| less the limit's; most: |d|; past: |d| in units of m's power of two, as bits from 2^-25 on, so that its exponent is
 * the bin; tiny: the least m above 0, less 1. */
struct quick { vd d2[2], a2[2], d[2]; vf rel, most; vw past, tiny, equal; };

/* Returns what past is the largest of. */
INLINE vw quick_vector(struct quick *q, const float *x, const float *y, vf rel)
{
	const vw magnitude = (vw){ 0 } + 0x7fffffff, power = (vw){ 0 } + 0x7f800000;
	vf a = f_load(x), b = f_load(y), size = (vf)((vw)(b - a) & magnitude), m = f_size(a, b);
	vw unit = w_less((vw)m & power, (vw){ 0 } + UNIT), past = w_max((vw)size, unit) - unit;

	#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
		vd wide = load_f32(x, (size_t)i * W), d = load_f32(y, (size_t)i * W) - wide;
		q->d2[i] = v_fma(d, d, q->d2[i]);
		q->a2[i] = v_fma(wide, wide, q->a2[i]);
		q->d[i] += d;
	}
	q->equal = w_count_equal(q->equal, (vw)a, (vw)b);
	q->rel = f_max(V(fmadd_ps)(rel, m, size), q->rel);
	q->most = f_max(size, q->most);
	q->past = w_max(past, q->past);
	q->tiny = w_least((vw)m - 1, q->tiny);
	return past;
}

INLINE void ahead(const float *x, const float *y, size_t bytes)
{
	#pragma GCC unroll 2
	for (size_t k = 0; k < bytes; k += LINE) {
		__builtin_prefetch((const char *)x + AHEAD + k);
		__builtin_prefetch((const char *)y + AHEAD + k);
	}
}

#ifdef __AVX512F__
/* Each lane's 16 bits are 16 bins'; plane[i] counts 2^i. Vectors of a group, and groups between two flushes. */
struct counts { vu plane[8]; };
enum { GROUP = 16, GROUPS = 16 };

/* A bit for each of two vectors' elements; none in the last bin. */
INLINE vu quick_pair(struct quick *q, const float *x, const float *y, vf rel)
{
	vw low = quick_vector(q, x, y, rel), high = quick_vector(q, x + 2 * W, y + 2 * W, rel);
	vany both = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32((vany)low, 16), (vany)high);

	return (vu)_mm512_sllv_epi16(_mm512_set1_epi16(1), _mm512_srli_epi16(both, 7));
}

/* *sum + a + b, bit by bit; returns what is carried. */
INLINE vu add_bits(vu *sum, vu a, vu b)
{
	vu carry = (vu)_mm512_ternarylogic_epi64((vany)*sum, (vany)a, (vany)b, 0xe8);

	*sum ^= a ^ b;
	return carry;
}

INLINE void quick_group(struct quick *q, struct lanes *s, struct counts *c, const float *x, const float *y, vf rel)
{
	vu bits[GROUP / 2], carry[8];
	int n = GROUP / 2;

	#pragma GCC unroll 1
	for (size_t i = 0; i < GROUP / 2; i++, x += 4 * W, y += 4 * W) {
		ahead(x, y, 16 * W);
		bits[i] = quick_pair(q, x, y, rel);
	}
	#pragma GCC unroll 3
	for (int i = 0; i < 3; i++, n /= 2) {
		#pragma GCC unroll 4
		for (int k = 0; k < n / 2; k++) carry[k] = add_bits(&c->plane[i], bits[2 * k], bits[2 * k + 1]);
		memcpy(bits, carry, (size_t)n / 2 * sizeof *bits);
	}
	#pragma GCC unroll 5
	for (int i = 3; i < 8; i++) {
		vu both = c->plane[i] & bits[0];
		c->plane[i] ^= bits[0], bits[0] = both;
	}
	(void)s;
}

INLINE void flush(struct lanes *s, struct counts *c)
{
	for (int bin = 0; bin < SCAN_BINS - 1; bin++)
		#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			s->bin[bin][0] += (unsigned)__builtin_popcount(
				_mm512_test_epi16_mask((vany)c->plane[i], _mm512_set1_epi16((short)(1 << bin)))) << i;
	*c = (struct counts){ 0 };
}
#else
struct counts { int none; };
enum { GROUP = 7, GROUPS = 16 };

/* A lane's two elements; none in the last bin. */
INLINE void quick_group(struct quick *q, struct lanes *s, struct counts *c, const float *x, const float *y, vf rel)
{
	#pragma GCC unroll 1
	for (int i = 0; i < GROUP; i++, x += 2 * W, y += 2 * W) {
		ahead(x, y, 8 * W);
		vu past = (vu)quick_vector(q, x, y, rel);
		s->few += v_shift((vu){ 0 } + 1, past >> 21 & 0x3fc) + v_shift((vu){ 0 } + 1, past >> 53 & 0x3fc);
	}
	take_few(s);
	(void)c;
}

INLINE void flush(struct lanes *s, struct counts *c) { (void)c, take_counts(s); }
#endif

INLINE float not_above(double x)
{
	float f = (float)x;

	return (double)f > x ? nextafterf(f, -INFINITY) : f;
}

/* In float, where |d| may have been rounded: any beyond x is beyond this. */
INLINE float quick_limit(double x) { return not_above(x < EXACT ? x : x * (1 - 0x1p-22)); }
INLINE vw quick_past(float x)
{
	int bits;

	memcpy(&bits, &x, sizeof bits);
	return w_max((vw){ 0 } + (bits - ONE + UNIT), (vw){ 0 });
}

/* Some element may pass a limit, or is so small that its bin is another, or a product of it no float. */
INLINE bool doubtful(const struct quick *q, const struct limits *l)
{
	const vf abs = (vf){ 0 } + not_above(l->abs);
	vw rounded = q->past >= quick_past(EXACT), past = q->past > quick_past(quick_limit(l->ulp));
	vw tiny = w_least(q->tiny, (vw){ 0 } + TINY) != TINY;

	return w_any(past | (q->rel > 0) | (q->most > abs) | (rounded & (q->most >= abs)) | tiny);
}

/* The elements that were added: of the first n those that fill groups, or none. F32's own spacing is asked for. */
static size_t quick(struct lanes *to, enum dtype t, const float *a, const float *b, size_t n, const struct limits *l)
{
	const size_t group = GROUP * 2 * W;
	const vf rel = (vf){ 0 } - quick_limit(l->rel);
	struct quick q = { .tiny = (vw){ 0 } - 1 };
	struct lanes s = *to;
	struct counts c = { 0 };

	if (t != DT_F32 || l->least != 0x1p-126 || l->scale != 0x1p-23) return 0;
	n -= n % group;
	for (size_t i = 0; i < n;) {
		for (size_t end = n - i < GROUPS * group ? n : i + GROUPS * group; i < end; i += group)
			quick_group(&q, &s, &c, a + i, b + i, rel);
		flush(&s, &c);
	}
	if (doubtful(&q, l)) return 0;
	for (int i = 0; i < 2; i++) s.d2 += q.d2[i], s.a2 += q.a2[i], s.d += q.d[i];
	for (int i = 0; i < 2 * W; i++) s.equal[0] += q.equal[i];
	*to = s;
	return n;
}
