#include "elementwise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/io/bits.h"

#define INFINITE (UINT64_C(0x7FF) << 52)

enum { CHUNK = 1 << 18, BLOCK = 4096 };         /* elements: of a thread's turn; of the first cache */

/* Spacing of the coarser type at magnitude m: max(m & mask, least) scale. */
struct grid { uint64_t mask; double least, scale; };
struct sums { double d2, a2, d; size_t finite; };       /* Σd², Σa², Σd */

/* What one thread has seen. Only an element beyond one of these limits is looked at alone. */
struct part {
	scan_form *scan;
	size_t differ, nan_a, nan_b, inf_a, inf_b;
	double max_abs, max_rel, max_ulp;
	size_t histogram[SCAN_BINS];
	struct element *top;
	size_t n_top, room;
};

static struct grid grid_of(enum dtype a, enum dtype b)
{
	bool fa = dtype_info[a].is_float, fb = dtype_info[b].is_float;

	if (!fa && !fb)
		return (struct grid){ 0, 1, 1 };
	const struct format_info *x = &format_info[dtype_info[fa ? a : b].format], *y = &format_info[dtype_info[fb ? b : a].format];
	if (y->precision < x->precision)
		x = y;
	return (struct grid){ INFINITE, ldexp(1, x->emin), ldexp(1, 1 - x->precision) };
}

static inline double larger(double x, double y) { return x > y ? x : y; }

static inline double spacing(const struct grid *g, double m)
{
	return larger(from_bits(to_bits(m) & g->mask), g->least) * g->scale;
}

/* The smallest |d| that enters the list of the largest, whose first is the largest of all. */
static double threshold(const struct part *p)
{
	return !p->room ? p->max_abs : p->n_top < p->room ? 0 : p->top[p->n_top - 1].abs;
}

/* Below 1/2, and octaves. */
static void count_error(struct part *p, double ulps)
{
	int e;

	frexp(ulps, &e);
	p->histogram[ulps < 0.5 ? 0 : e + 1 < SCAN_BINS ? e + 1 : SCAN_BINS - 1]++;
}

/* Adds n elements to the sums and the count; true when some element passes a limit of p, which then has to be looked
 * at. *special: some element is not finite, or its square, and nothing was added. */
static bool scan(struct part *p, struct sums *s, const struct grid *g, enum dtype t, const void *a, const void *b, size_t n,
	bool *special)
{
	const struct limits l = { threshold(p), p->max_rel * (1 + 0x1p-52), p->max_ulp * g->scale, g->least, g->scale };
	struct scanned x;

	p->scan(&x, t, a, b, n, &l);
	*special = !isfinite(x.d2 + x.a2);
	if (*special)
		return false;
	p->differ += x.differ;
	s->d2 += x.d2, s->a2 += x.a2, s->d += x.d, s->finite += n;
	for (int i = 0; g->mask && i < SCAN_BINS; i++) p->histogram[i] += x.bin[i];
	return x.past || (x.differ && p->n_top < p->room);
}

/* Keeps the list sorted: |d| falling, and where equal the earlier element first. */
static void enter(struct part *p, const struct element *x)
{
	size_t i = p->n_top;

	if (!p->room)
		return;
	while (i > 0 && (p->top[i - 1].abs < x->abs || (p->top[i - 1].abs == x->abs && p->top[i - 1].index > x->index)))
		i--;
	if (i == p->room)
		return;
	if (p->n_top < p->room)
		p->n_top++;
	memmove(p->top + i + 1, p->top + i, (p->n_top - 1 - i) * sizeof *p->top);
	p->top[i] = *x;
}

/* One differing element; d = |b - a|. */
static void look(struct part *p, const struct grid *g, size_t index, double a, double b, double d)
{
	struct element x = { index, a, b, (double)INFINITY, (double)INFINITY, (double)INFINITY };

	if (isfinite(a) && isfinite(b)) {
		double m = larger(fabs(a), fabs(b));
		x.abs = d;
		x.rel = m > 0 ? d / m : 0;
		x.ulp = d / spacing(g, m);
		p->max_abs = larger(p->max_abs, x.abs);
		p->max_rel = larger(p->max_rel, x.rel);
		p->max_ulp = larger(p->max_ulp, x.ulp);
	}
	enter(p, &x);
}

/* Elements of which scan has taken the sums. */
static void look_at_all(struct part *p, const struct grid *g, size_t first, const double *a, const double *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (to_bits(a[i]) != to_bits(b[i]))
			look(p, g, first + i, a[i], b[i], fabs(b[i] - a[i]));
}

/* Elements of which some are not finite. */
static void look_at_special(struct part *p, struct sums *s, const struct grid *g, size_t first, const double *a, const double *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double d = b[i] - a[i];
		p->nan_a += isnan(a[i]) != 0, p->nan_b += isnan(b[i]) != 0;
		p->inf_a += isinf(a[i]) != 0, p->inf_b += isinf(b[i]) != 0;
		if (isfinite(a[i]) && isfinite(b[i])) {
			s->d2 += d * d, s->a2 += a[i] * a[i], s->d += d, s->finite++;
			count_error(p, fabs(d) / spacing(g, larger(fabs(a[i]), fabs(b[i]))));
		}
		if (to_bits(a[i]) == to_bits(b[i]) && !isnan(a[i]))
			continue;
		p->differ++;
		look(p, g, first + i, a[i], b[i], fabs(d));
	}
}

/* An I64 beyond 2^53 has no double of its own: what scan took for equal is compared exactly. */
static long double exact(const struct tensor *t, size_t i)
{
	double x;
	int64_t k;

	if (t->dtype == DT_I64) {
		memcpy(&k, (const char *)t->data + i * sizeof k, sizeof k);
		return (long double)k;
	}
	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return (long double)x;
}

static void look_at_wide(struct part *p, const struct grid *g, const struct tensor *a, const struct tensor *b, size_t first,
	const double *x, const double *y, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (to_bits(x[i]) != to_bits(y[i]) || !(fabs(x[i]) >= 0x1p53))
			continue;
		long double d = exact(b, first + i) - exact(a, first + i);
		if (d == 0)
			continue;
		p->differ++;
		look(p, g, first + i, x[i], y[i], (double)(d < 0 ? -d : d));
	}
}

static const char *at(const struct tensor *t, size_t i) { return (const char *)t->data + i * dtype_info[t->dtype].size; }

static void compare(struct part *p, struct sums *s, const struct grid *g, const struct tensor *a, const struct tensor *b, size_t first, size_t n)
{
	double x[BLOCK], y[BLOCK];
	bool typed = a->dtype == b->dtype && scan_has(a->dtype), special = false, hot = false;

	if (typed)
		hot = scan(p, s, g, a->dtype, at(a, first), at(b, first), n, &special);
	if (typed && !special && !hot)
		return;
	dtype_load(a->dtype, at(a, first), n, x);
	dtype_load(b->dtype, at(b, first), n, y);
	if (!typed)
		hot = scan(p, s, g, DT_F64, x, y, n, &special);
	for (size_t i = 0; !g->mask && i < n; i++) count_error(p, fabs(y[i] - x[i]));
	if (a->dtype == DT_I64 || b->dtype == DT_I64)
		look_at_wide(p, g, a, b, first, x, y, n);
	if (special)
		look_at_special(p, s, g, first, x, y, n);
	else if (hot)
		look_at_all(p, g, first, x, y, n);
}

/* The whole pages within elements [first, first + n). */
static void advise(const struct tensor *t, size_t first, size_t n, int advice)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at(t, first), to = (uintptr_t)at(t, first + n);

	from = (from + page - 1) / page * page;
	to = to / page * page;
	if (from < to)
		madvise((void *)from, to - from, advice);
}

static void merge(struct elementwise *r, struct part *all, const struct part *p)
{
	r->differ += p->differ, r->nan_a += p->nan_a, r->nan_b += p->nan_b, r->inf_a += p->inf_a, r->inf_b += p->inf_b;
	for (int i = 0; i < SCAN_BINS; i++) r->histogram[i] += p->histogram[i];
	r->max_abs = larger(r->max_abs, p->max_abs);
	r->max_rel = larger(r->max_rel, p->max_rel);
	r->max_ulp = larger(r->max_ulp, p->max_ulp);
	for (size_t i = 0; i < p->n_top; i++)
		enter(all, &p->top[i]);
}

/* In the order of the chunks, so that threads do not matter. */
static void finish(struct elementwise *r, const struct sums *s, size_t chunks)
{
	struct sums all = { 0 };

	for (size_t i = 0; i < chunks; i++) {
		all.d2 += s[i].d2, all.a2 += s[i].a2, all.d += s[i].d, all.finite += s[i].finite;
	}
	double n = all.finite ? (double)all.finite : 1;
	r->rms = sqrt(all.d2 / n);
	r->rms_a = sqrt(all.a2 / n);
	r->mean = all.d / n;
}

bool elementwise(const struct tensor *a, const struct tensor *b, size_t top, bool mapped, struct elementwise *r, struct error *e)
{
	size_t chunks = (a->count + CHUNK - 1) / CHUNK;
	struct sums *sums = calloc(chunks + 1, sizeof *sums);
	struct part all = { .top = calloc(top + 1, sizeof *all.top), .room = top };
	struct grid g = grid_of(a->dtype, b->dtype);
	bool ok = sums && all.top;

	*r = (struct elementwise){ .count = a->count };
	#pragma omp parallel if (chunks > 1)
	{
		struct part p = { .scan = scan_best(), .top = calloc(top + 1, sizeof *p.top), .room = top };
		bool go = sums && all.top && p.top;
		#pragma omp for schedule(dynamic)
		for (size_t k = 0; k < chunks; k++) {
			size_t first = k * CHUNK, n = a->count - first < CHUNK ? a->count - first : CHUNK;
			for (size_t i = 0; go && i < n; i += BLOCK)
				compare(&p, &sums[k], &g, a, b, first + i, n - i < BLOCK ? n - i : BLOCK);
			if (mapped) advise(a, first, n, MADV_DONTNEED), advise(b, first, n, MADV_DONTNEED);
		}
		#pragma omp critical
		{
			ok = ok && go;
			if (go) merge(r, &all, &p);
		}
		free(p.top);
	}
	if (ok)
		finish(r, sums, chunks);
	free(sums);
	r->top = all.top;
	r->n_top = all.n_top;
	if (ok)
		return true;
	elementwise_free(r);
	return error_set(e, E_MEMORY, a->name, NO_OFFSET, "comparing");
}

void elementwise_free(struct elementwise *r)
{
	free(r->top);
	*r = (struct elementwise){ 0 };
}
