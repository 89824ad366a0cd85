#include "logit_row.h"

#include <math.h>
#include <string.h>

#include "fixtures/wide.h"

#define EXPONENT (UINT64_C(0x7FF) << 52)

enum { BLOCK = 1024 };          /* two blocks of doubles stay in the first cache */

/* Of one side so far: Σ exp(x - max) and Σ exp(x - max) (x - other - shift). The shift is about what the two rows differ by
 * as a whole, which no probability depends on. */
struct weights { double max, sum, distance, shift; };

static inline uint64_t bits(double x)
{
	uint64_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}

static inline double number(uint64_t b)
{
	double x;
	memcpy(&x, &b, sizeof x);
	return x;
}

static inline double larger(double x, double y) { return x > y ? x : y; }

/* x = n ln 2 + r, |r| <= 0.347: e^r by Taylor's terms up to r^13/13! (the next is below 5e-18). ln 2 in two parts, the first of
 * 42 bits, so that its product with n is exact. */
static inline double exp_below(double x)
{
	const double shift = 0x1.8p52, high = 0x1.62e42fefa3800p-1, low = 0x1.ef35793c76730p-45;

	x = x > -708 ? x : -708;
	double k = x * 0x1.71547652b82fep+0 + shift, n = k - shift, r = (x - n * high) - n * low, r2 = r * r, r4 = r2 * r2;
	double p = ((1. / 5040 + r * (1. / 40320)) + r2 * (1. / 362880 + r * (1. / 3628800)))
		+ r4 * ((1. / 39916800 + r * (1. / 479001600)) + r2 * (1. / 6227020800));
	double q = (1. / 6 + r * (1. / 24)) + r2 * (1. / 120 + r * (1. / 720)) + r4 * p;

	return number(bits(1 + (r + r2 * (0.5 + r * q))) + (bits(k) << 52));
}

double logit_exp(double x) { return exp_below(x); }

double logit_bin_from(size_t i) { return i == 0 ? 0 : ldexp(i % 2 ? 1 : 1.5, (int)(i - 1) / 2 - 48); }

/* Half octaves: the exponent and the first bit behind it. */
static void count_errors(size_t *histogram, const double *a, const double *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t bin = (int64_t)((bits(b[i] - a[i]) & ~(UINT64_C(1) << 63)) >> 51) - 2 * (1023 - 48) + 1;
		histogram[bin < 0 ? 0 : bin < LOGIT_BINS ? bin : LOGIT_BINS - 1]++;
	}
}

/* The largest of each; true when some element is not finite. */
WIDE_LOOP
static bool largest(const double *a, const double *b, size_t n, double *max_a, double *max_b)
{
	double ma = (double)-INFINITY, mb = (double)-INFINITY;
	uint64_t special = 0;

	#pragma omp simd reduction(max:ma,mb) reduction(|:special)
	for (size_t i = 0; i < n; i++) {
		special |= (uint64_t)((bits(a[i]) & EXPONENT) == EXPONENT) | (uint64_t)((bits(b[i]) & EXPONENT) == EXPONENT);
		ma = larger(ma, a[i]);
		mb = larger(mb, b[i]);
	}
	*max_a = ma;
	*max_b = mb;
	return special;
}

static void raise(struct weights *w, double max)
{
	if (!(max > w->max)) return;
	double scale = exp(w->max - max);
	w->max = max;
	w->sum *= scale;
	w->distance *= scale;
}

/* Finite a [n], b [n], none above the maxima: adds to the weights and to the errors; returns the largest |d|. */
WIDE_LOOP
static double add(struct weights *wa, struct weights *wb, struct logit_row *r, const double *a, const double *b, size_t n)
{
	double za = 0, zb = 0, sa = 0, sb = 0, sum = 0, squares = 0, max = 0, ma = wa->max, mb = wb->max, shift = wb->shift;

	#pragma omp simd reduction(+:za,zb,sa,sb,sum,squares) reduction(max:max)
	for (size_t i = 0; i < n; i++) {
		double d = b[i] - a[i], ea = exp_below(a[i] - ma), eb = exp_below(b[i] - mb);
		za += ea;
		zb += eb;
		sa -= ea * (d - shift);
		sb += eb * (d - shift);
		sum += d;
		squares += d * d;
		max = larger(max, fabs(d));
	}
	wa->sum += za, wa->distance += sa;
	wb->sum += zb, wb->distance += sb;
	r->sum += sum, r->squares += squares, r->count += n;
	return max;
}

static void enter(struct logit_side *s, size_t top, size_t token, double x)
{
	size_t i = s->n_top;

	while (i > 0 && s->top[i - 1].value < x) i--;
	if (i == top) return;
	if (s->n_top < top) s->n_top++;
	memmove(s->top + i + 1, s->top + i, (s->n_top - 1 - i) * sizeof *s->top);
	s->top[i] = (struct ranked){ token, x };
}

static void enter_all(struct logit_side *s, size_t top, size_t first, const double *x, size_t n, double max)
{
	if (!top || (s->n_top == top && !(max > s->top[top - 1].value))) return;
	for (size_t i = 0; i < n; i++)
		if (x[i] > (double)-INFINITY && (s->n_top < top || x[i] > s->top[top - 1].value)) enter(s, top, first + i, x[i]);
}

/* A logit whose partner is masked: of the sum, but at no distance. */
static void add_alone(struct weights *w, double x)
{
	raise(w, x);
	w->sum += exp_below(x - w->max);
}

/* Counts what is not finite and moves the pairs that are to the front; `token` follows them. Returns their number. */
static size_t sort_out(struct logit_row *r, struct weights *wa, struct weights *wb, double *a, double *b, size_t *token, size_t n)
{
	const double masked = (double)-INFINITY;
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool fa = isfinite(a[i]), fb = isfinite(b[i]);
		r->a.nan += isnan(a[i]) != 0, r->b.nan += isnan(b[i]) != 0;
		r->a.inf += a[i] == (double)INFINITY, r->b.inf += b[i] == (double)INFINITY;
		if (a[i] == masked && b[i] == masked) r->masked++;
		else if (a[i] == masked) r->a.masked++;
		else if (b[i] == masked) r->b.masked++;
		if (fa && b[i] == masked) add_alone(wa, a[i]);
		if (fb && a[i] == masked) add_alone(wb, b[i]);
		if (!fa || !fb) continue;
		a[kept] = a[i], b[kept] = b[i], token[kept++] = token[i];
	}
	return kept;
}

static void block(struct logit_row *r, struct weights *wa, struct weights *wb, double *a, double *b, size_t first, size_t n,
	size_t top,
	size_t *histogram)
{
	size_t token[BLOCK];
	double max_a, max_b;
	bool special = largest(a, b, n, &max_a, &max_b);

	enter_all(&r->a, top, first, a, n, max_a);
	enter_all(&r->b, top, first, b, n, max_b);
	if (special) {
		for (size_t i = 0; i < n; i++) token[i] = first + i;
		n = sort_out(r, wa, wb, a, b, token, n);
		largest(a, b, n, &max_a, &max_b);
	}
	raise(wa, max_a);
	raise(wb, max_b);
	if (n == 0) return;
	if (r->count == 0) wa->shift = -(wb->shift = max_b - max_a);
	if (histogram) count_errors(histogram, a, b, n);
	double max = add(wa, wb, r, a, b, n);
	if (!(max > r->max || r->count == n)) return;
	r->max = max;
	for (size_t i = 0; i < n; i++)
		if (fabs(b[i] - a[i]) == max) {
			r->worst = special ? token[i] : first + i;
			return;
		}
}

/* KL(p||q) = Σ p (log p - log q), with log p - log q = (x - y) - (log_sum_p - log_sum_q). */
static double divergence(const struct weights *p, const struct weights *q, bool masked, bool usable)
{
	if (!usable) return (double)NAN;
	if (masked) return (double)INFINITY;
	double kl = p->distance / p->sum - ((p->max - q->max - p->shift) + log(p->sum / q->sum));
	return kl < 0 ? 0 : kl;         /* a rounding below 0; a NaN stays one */
}

void logit_row(enum dtype type_a, const void *a, enum dtype type_b, const void *b, size_t V, size_t top, size_t *histogram,
	struct logit_row *r)
{
	struct weights wa = { .max = (double)-INFINITY }, wb = wa;
	size_t size_a = dtype_info[type_a].size, size_b = dtype_info[type_b].size;
	double x[BLOCK], y[BLOCK];

	*r = (struct logit_row){ 0 };
	for (size_t first = 0; first < V; first += BLOCK) {
		size_t n = V - first < BLOCK ? V - first : BLOCK;
		dtype_load(type_a, (const char *)a + first * size_a, n, x);
		dtype_load(type_b, (const char *)b + first * size_b, n, y);
		block(r, &wa, &wb, x, y, first, n, top, histogram);
	}
	r->a.log_sum = wa.max + log(wa.sum);
	r->b.log_sum = wb.max + log(wb.sum);
	bool usable = !r->a.nan && !r->b.nan && !r->a.inf && !r->b.inf && r->count > 0;
	r->kl = divergence(&wa, &wb, r->b.masked > 0, usable);
	r->kl_back = divergence(&wb, &wa, r->a.masked > 0, usable);
}

double logit_value(enum dtype type, const void *x, size_t token)
{
	double value;

	dtype_load(type, (const char *)x + token * dtype_info[type].size, 1, &value);
	return value;
}

size_t logit_rank(enum dtype type, const void *x, size_t V, size_t token)
{
	double mine = logit_value(type, x, token), value[BLOCK];
	size_t rank = 1;

	for (size_t first = 0; first < V; first += BLOCK) {
		size_t n = V - first < BLOCK ? V - first : BLOCK;
		dtype_load(type, (const char *)x + first * dtype_info[type].size, n, value);
		for (size_t i = 0; i < n; i++) rank += value[i] > mine || (value[i] == mine && first + i < token);
	}
	return rank;
}
