/* scan_form for the instructions that the including file chose; NAME is its name. */
#include <string.h>

#include "load.h"
#include "scan.h"

enum { COUNTED = 128 };         /* vectors between two calls of take_counts; some lines of the cache */
/* few, many: 16 numbers of 4 and 8 bits in each lane. */
struct lanes { vd d2, a2, d, most, past_rel, past_ulp; vi equal; vu few, many[2], bin[SCAN_BINS - 1]; };

/* struct limits; below: what the exponent of a quarter of the unit is below m's. */
struct vlimits { vd rel, ulp, least; vi below; };
INLINE struct vlimits v_limits(const struct limits *l)
{
	return (struct vlimits){ -v_set(l->rel), -v_set(l->ulp), v_set(l->least), (vi)v_set(1) - (vi)v_set(l->scale / 4) };
}

/* How far the exponents of size and m are apart, 4 times as the place of what is added; beyond the word nothing is. */
INLINE void count(struct lanes *s, vd size, vd m, struct vlimits l)
{
	const vd least = (vd)((vi)m - l.below);

	s->few += v_shift((vu){ 0 } + 1, ((vu)v_max(least, size) - (vu)least) >> 50 & ~3ull);
}

/* At most 15 vectors were counted since the last time. */
INLINE void take_few(struct lanes *s)
{
	const vu half = (vu){ 0 } + 0x0f0f0f0f0f0f0f0full;

	s->many[0] += s->few & half;
	s->many[1] += s->few >> 4 & half;
	s->few = (vu){ 0 };
}

/* The bytes of all lanes. */
INLINE void take_counts(struct lanes *s)
{
	#pragma GCC unroll 16
	for (int i = 0; i < SCAN_BINS - 1; i++) s->bin[i] += s->many[i % 2] >> i / 2 * 8 & 0xff;
	s->many[0] = s->many[1] = (vu){ 0 };
}

INLINE void one_vector(struct lanes *s, vd a, vd b, struct vlimits l, bool wide)
{
	const vi magnitude = (vi)v_set(-0.0) ^ -1, power = (vi)v_set(INFINITY);
	vd d = b - a, m = v_size(a, b), size = (vd)((vi)d & magnitude);

	s->equal -= (vi)a == (vi)b;
	s->d2 = v_fma(d, d, s->d2);
	s->a2 = v_fma(a, a, s->a2);
	s->d += d;
	s->most = v_max(size, s->most);
	s->past_rel = v_max(v_fma(l.rel, m, size), s->past_rel);
	m = v_max((vd)((vi)m & power), l.least);
	s->past_ulp = v_max(v_fma(l.ulp, m, size), s->past_ulp);
	count(s, size, wide ? v_max(m, v_set(0x1p-960)) : m, l);
}

/* n is a multiple of W, at most COUNTED W. */
INLINE void all(struct lanes *to, load_of *load, size_t size, const void *a, const void *b, size_t n, const struct limits *l)
{
	struct lanes s = *to;                   /* in registers */
	const struct vlimits v = v_limits(l);
	size_t line = LINE / size < 8 * W ? LINE / size : 8 * W, some = 15 * W / line * line, i = 0;

	while (i + line <= n) {
		size_t end = n - i < some ? i + (n - i) / line * line : i + some;
		for (; i < end; i += line) {
			__builtin_prefetch((const char *)a + i * size + AHEAD);
			__builtin_prefetch((const char *)b + i * size + AHEAD);
			#pragma GCC unroll 4
			for (size_t k = i; k < i + line; k += W) one_vector(&s, load(a, k), load(b, k), v, size == 8);
		}
		take_few(&s);
	}
	for (; i < n; i += W) one_vector(&s, load(a, i), load(b, i), v, size == 8);
	take_few(&s);
	*to = s;
}

static void any(struct lanes *s, enum dtype t, const void *a, const void *b, size_t n, const struct limits *l)
{
	switch (t) {
	case DT_F64: all(s, load_f64, 8, a, b, n, l); break;
	case DT_F32: all(s, load_f32, 4, a, b, n, l); break;
	case DT_F16: all(s, load_f16, 2, a, b, n, l); break;
	case DT_BF16: all(s, load_bf16, 2, a, b, n, l); break;
	default: break;
	}
}

#ifdef __AVX2__
#include "scan_f32.h"
#else
static size_t quick(struct lanes *s, enum dtype t, const void *a, const void *b, size_t n, const struct limits *l)
{
	return (void)s, (void)t, (void)a, (void)b, (void)n, (void)l, 0;
}
#endif

/* n is a multiple of W. */
static void some(struct lanes *s, enum dtype t, const char *a, const char *b, size_t n, const struct limits *l)
{
	any(s, t, a, b, n, l);
	take_counts(s);
}

void NAME(struct scanned *s, enum dtype t, const void *a, const void *b, size_t n, const struct limits *l)
{
	struct lanes lanes = { 0 };
	size_t whole = n / W * W, size = dtype_info[t].size;
	char x[8 * W] = { 0 }, y[8 * W] = { 0 };        /* the rest, and zeros that are equal */

	for (size_t i = quick(&lanes, t, a, b, n, l); i < whole; i += COUNTED * W)
		some(&lanes, t, (const char *)a + i * size, (const char *)b + i * size, whole - i < COUNTED * W ? whole - i : COUNTED * W, l);
	memcpy(x, (const char *)a + whole * size, (n - whole) * size);
	memcpy(y, (const char *)b + whole * size, (n - whole) * size);
	some(&lanes, t, x, y, whole < n ? W : 0, l);
	size_t padding = whole < n ? W - (n - whole) : 0;
	*s = (struct scanned){ .differ = n + padding, .bin = { [SCAN_BINS - 1] = n + padding } };
	for (int k = 0; k < W; k++) {
		s->d2 += lanes.d2[k], s->a2 += lanes.a2[k], s->d += lanes.d[k], s->differ -= (uint64_t)lanes.equal[k];
		s->past |= lanes.most[k] > l->abs || lanes.past_rel[k] > 0 || lanes.past_ulp[k] > 0;
		for (int i = 0; i < SCAN_BINS - 1; i++) s->bin[i] += lanes.bin[i][k], s->bin[SCAN_BINS - 1] -= lanes.bin[i][k];
	}
	s->bin[0] -= padding;
}
