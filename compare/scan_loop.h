/* scan_form for the instructions that the including file chose; NAME is its name. */
#include <string.h>

#include "load.h"
#include "scan.h"

struct lanes { vd d2, a2, d, most, past_rel, past_ulp; vi differ; };

INLINE void one_vector(struct lanes *s, vd a, vd b, const struct limits *l)
{
	const vi magnitude = (vi)v_set(-0.0) ^ -1, power = (vi)v_set(INFINITY);
	vd d = b - a, m = v_max((vd)((vi)a & magnitude), (vd)((vi)b & magnitude)), size = (vd)((vi)d & magnitude);

	s->differ -= (vi)a != (vi)b;
	s->d2 = v_fma(d, d, s->d2);
	s->a2 = v_fma(a, a, s->a2);
	s->d += d;
	s->most = v_max(size, s->most);
	s->past_rel = v_max(size - v_set(l->rel) * m, s->past_rel);    /* not fused: the largest itself is not past its quotient */
	s->past_ulp = v_max(v_fma(-v_set(l->ulp), v_max((vd)((vi)m & power), v_set(l->least)), size), s->past_ulp);
}

/* n is a multiple of W. */
INLINE void all(struct lanes *to, load_of *load, size_t size, const void *a, const void *b, size_t n, const struct limits *l)
{
	struct lanes s = *to;                   /* in registers */
	size_t line = LINE / size, i = 0;

	for (; i + line <= n; i += line) {
		__builtin_prefetch((const char *)a + i * size + AHEAD);
		__builtin_prefetch((const char *)b + i * size + AHEAD);
		#pragma GCC unroll 4
		for (size_t k = i; k < i + line; k += W) one_vector(&s, load(a, k), load(b, k), l);
	}
	for (; i < n; i += W) one_vector(&s, load(a, i), load(b, i), l);
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

void NAME(struct scanned *s, enum dtype t, const void *a, const void *b, size_t n, const struct limits *l)
{
	struct lanes lanes = { 0 };
	size_t whole = n / W * W, size = dtype_info[t].size;
	char x[8 * W] = { 0 }, y[8 * W] = { 0 };        /* the rest, and zeros that are equal */

	memcpy(x, (const char *)a + whole * size, (n - whole) * size);
	memcpy(y, (const char *)b + whole * size, (n - whole) * size);
	any(&lanes, t, a, b, whole, l);
	any(&lanes, t, x, y, W, l);
	*s = (struct scanned){ 0 };
	for (int i = 0; i < W; i++) {
		s->d2 += lanes.d2[i], s->a2 += lanes.a2[i], s->d += lanes.d[i], s->differ += (uint64_t)lanes.differ[i];
		s->most = fmax(s->most, lanes.most[i]);
		s->past_rel = fmax(s->past_rel, lanes.past_rel[i]);
		s->past_ulp = fmax(s->past_ulp, lanes.past_ulp[i]);
	}
}
