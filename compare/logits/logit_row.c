#include "logit_row.h"

#include <math.h>
#include <string.h>

#include "fixtures/io/bits.h"
#include "kl_sums.h"

enum { BLOCK = 1024, PART = 64 };       /* logits of each side that stay in the first cache; that are looked at together */
#define MASKED ((double)-INFINITY)

/* A divergence that is so much less than what it is the difference of is computed again, carefully; as where Σ q / Σ p, which
 * are as far apart as c is from its best place, is so far from 1. */
#define CANCELS 16
#define APART 1024

/* Logits of one type. */
struct logits { enum dtype type; const char *at; };

/* Σ exp(x - max) over the tokens that the other side masks: they are of the sum, but at no distance. */
struct alone { double max, sum; };

/* Of the pairs so far: sums, with the m and c that they are of. */
struct work {
	const struct kl_form *form;
	struct logit_row *r;
	struct kl_sums all;
	double m, c;
	struct alone alone[2];
	bool near, careful;
	size_t top, *histogram;
};

static struct logits from(struct logits x, size_t i) { return (struct logits){ x.type, x.at + i * dtype_info[x.type].size }; }
static void load(double *y, struct logits x, size_t n) { dtype_load(x.type, x.at, n, y); }
static double larger(double x, double y) { return x > y ? x : y; }

double logit_bin_from(size_t i) { return i == 0 ? 0 : ldexp(i % 2 ? 1 : 1.5, (int)(i - 1) / 2 - 48); }

/* Half octaves: the exponent and the first bit behind it. */
static void count_errors(size_t *histogram, const double *a, const double *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t bin = (int64_t)((to_bits(b[i] - a[i]) & ~(UINT64_C(1) << 63)) >> 51) - 2 * (1023 - 48) + 1;
		histogram[bin < 0 ? 0 : bin < LOGIT_BINS ? bin : LOGIT_BINS - 1]++;
	}
}

/* ---- the largest ---- */
static void enter(struct logit_side *s, size_t top, size_t token, double x)
{
	size_t i = s->n_top;

	while (i > 0 && s->top[i - 1].value < x) i--;
	if (i == top) return;
	if (s->n_top < top) s->n_top++;
	memmove(s->top + i + 1, s->top + i, (s->n_top - 1 - i) * sizeof *s->top);
	s->top[i] = (struct ranked){ token, x };
}

static bool enters(const struct logit_side *s, size_t top, double x) { return s->n_top < top || x > s->top[top - 1].value; }

/* A block whose largest is `most`; of it, only the parts that hold a new one are looked at. */
static void enter_all(const struct work *w, struct logit_side *s, size_t first, struct logits x, size_t n, double most)
{
	double y[PART];
	size_t top = w->top;

	if (!top || !enters(s, top, most)) return;
	for (size_t at = 0; at < n; at += PART) {
		size_t part = n - at < PART ? n - at : PART;
		struct logits some = from(x, at);
		if (!enters(s, top, w->form->most(some.type, some.at, part))) continue;
		load(y, some, part);
		double least = s->n_top < top ? MASKED : s->top[top - 1].value;
		for (size_t i = 0; i < part; i++)
			if (y[i] > least) {
				enter(s, top, first + at + i, y[i]);
				least = s->n_top < top ? MASKED : s->top[top - 1].value;
			}
	}
}

static void add_alone(struct alone *s, double x)
{
	double max = larger(s->max, x);

	s->sum = s->sum * exp(s->max - max) + exp(x - max);
	s->max = max;
}

/* Counts what is not finite and moves the pairs that are to the front; `token` follows them. Returns their number. */
static size_t sort_out(struct work *w, double *a, double *b, size_t *token, size_t first, size_t n)
{
	struct logit_row *r = w->r;
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool fa = isfinite(a[i]), fb = isfinite(b[i]);
		r->a.nan += isnan(a[i]) != 0, r->b.nan += isnan(b[i]) != 0;
		r->a.inf += a[i] == (double)INFINITY, r->b.inf += b[i] == (double)INFINITY;
		if (a[i] == MASKED && b[i] == MASKED) r->masked++;
		else if (a[i] == MASKED) r->a.masked++;
		else if (b[i] == MASKED) r->b.masked++;
		if (fa != fb && (fa ? b : a)[i] == MASKED) add_alone(&w->alone[fb], (fa ? a : b)[i]);
		if (fa && fb) a[kept] = a[i], b[kept] = b[i], token[kept++] = first + i;
	}
	return kept;
}

static void scale(struct kl_sums *s, double by) { s->w *= by, s->we *= by, s->wphi *= by, s->wpsi *= by; }

/* The first of n pairs that is so far apart. */
static size_t place(struct logits a, struct logits b, size_t n, double distance)
{
	double x[PART], y[PART];

	for (size_t at = 0; at < n; at += PART) {
		size_t part = n - at < PART ? n - at : PART;
		load(x, from(a, at), part), load(y, from(b, at), part);
		for (size_t i = 0; i < part; i++)
			if (fabs(y[i] - x[i]) == distance) return at + i;
	}
	return 0;
}

/* n pairs, the largest of each side given. False, and nothing is added, where some are not finite; token [n]: none of these
 * are. Their tokens are first, first + 1 ..., or token's. */
static bool add(struct work *w, struct logits a, struct logits b, size_t n, double most_a, double most_b, size_t first,
	const size_t *token)
{
	struct logit_row *r = w->r;
	struct kl_sums s;
	double m = r->count ? larger(w->m, most_a) : most_a, c = r->count ? w->c : most_b - most_a;

	if (!isfinite(m)) return false;
	if (!isfinite(c)) c = 0;
	w->near = w->near && !w->form->deep(a.type, a.at, n, m);
	w->form->sums(&s, a.type, a.at, b.at, n, m, c, w->near);
	if (!isfinite(s.d2) && !token) return false;
	double wide = larger(c - s.least, s.most - c), most = larger(-s.least, s.most);
	if (w->near && !(wide <= KL_NEAR)) w->form->sums(&s, a.type, a.at, b.at, n, m, c, false);
	w->near = wide <= KL_NEAR;
	w->careful |= !(wide <= KL_FAR);
	if (r->count && m > w->m) scale(&w->all, exp(w->m - m));
	w->all.w += s.w, w->all.we += s.we, w->all.wphi += s.wphi, w->all.wpsi += s.wpsi;
	w->m = m, w->c = c;
	r->sum += s.d, r->squares += s.d2;
	if (!r->count || most > r->max) {
		size_t i = place(a, b, n, most);
		r->max = most, r->worst = token ? token[i] : first + i;
	}
	r->count += n;
	return true;
}

static void block(struct work *w, struct logits a, struct logits b, size_t first, size_t n)
{
	double x[BLOCK], y[BLOCK], most[2] = { w->form->most(a.type, a.at, n), w->form->most(b.type, b.at, n) };
	size_t token[BLOCK];

	enter_all(w, &w->r->a, first, a, n, most[0]);
	enter_all(w, &w->r->b, first, b, n, most[1]);
	bool added = add(w, a, b, n, most[0], most[1], first, NULL);
	if (added && !w->histogram) return;
	load(x, a, n), load(y, b, n);
	if (!added) n = sort_out(w, x, y, token, first, n);
	a = (struct logits){ DT_F64, (char *)x }, b = (struct logits){ DT_F64, (char *)y };
	if (!added && n) add(w, a, b, n, w->form->most(DT_F64, x, n), w->form->most(DT_F64, y, n), first, token);
	if (w->histogram) count_errors(w->histogram, x, y, n);
}

/* ---- divergences ---- */

/* e^t - 1 - t, |t| <= 1: Taylor's terms up to t^20/20! */
static double less_line(double t)
{
	double s = 1;

	for (int i = 20; i > 2; i--) s = 1 + s * t / i;
	return s * t * t / 2;
}

/* x - log(1 + x), x > -1 */
static double less_log(double x)
{
	return fabs(x) < 0x1p-10 ? x * x * (1. / 2 - x * (1. / 3 - x * (1. / 4 - x * (1. / 5 - x / 6)))) : x - log1p(x);
}

/* A block's pairs that are finite on both sides, from x and y on; their number. */
static size_t pairs(double *x, double *y, struct logits a, struct logits b, size_t n)
{
	size_t kept = 0;

	load(x, a, n), load(y, b, n);
	for (size_t i = 0; i < n; i++)
		if (isfinite(x[i]) && isfinite(y[i])) x[kept] = x[i], y[kept++] = y[i];
	return kept;
}

/* However far apart the rows are, nothing overflows and nothing cancels: with t = log q - log p over the pairs that are finite,
 * Σ p (e^t - 1 - t) and Σ q (e^-t - 1 + t). sum: log Σ e^x of each side, over the same. */
static void carefully(struct logit_row *r, struct logits a, struct logits b, size_t V, double sum[2])
{
	struct alone s[2] = { { MASKED, 0 }, { MASKED, 0 } };
	double x[BLOCK], y[BLOCK];

	for (size_t first = 0; first < V; first += BLOCK) {
		size_t n = pairs(x, y, from(a, first), from(b, first), V - first < BLOCK ? V - first : BLOCK);
		for (size_t i = 0; i < n; i++) add_alone(&s[0], x[i]), add_alone(&s[1], y[i]);
	}
	for (int k = 0; k < 2; k++) sum[k] = s[k].max + log(s[k].sum);
	r->kl = r->kl_back = 0;
	for (size_t first = 0; first < V; first += BLOCK) {
		size_t n = pairs(x, y, from(a, first), from(b, first), V - first < BLOCK ? V - first : BLOCK);
		double kl = 0, back = 0;
		for (size_t i = 0; i < n; i++) {
			double p = exp(x[i] - sum[0]), q = exp(y[i] - sum[1]), t = (y[i] - x[i]) - (sum[1] - sum[0]);
			kl += fabs(t) < 1 ? p * less_line(t) : q - p - p * t;
			back += fabs(t) < 1 ? q * less_line(-t) : p - q + q * t;
		}
		r->kl += kl, r->kl_back += back;
	}
}

/* How much of a sum's logarithm the tokens alone are. */
static double with_alone(double log_sum, const struct alone *s)
{
	double rest = s->max + log(s->sum);

	return !(s->sum > 0) ? 0 : rest > log_sum ? rest - log_sum + log1p(exp(log_sum - rest)) : log1p(exp(rest - log_sum));
}

/* The sums' answer, if it is one. */
static bool divergences(struct logit_row *r, const struct work *w, double sum[2])
{
	double all = w->all.w + w->all.we, p = w->all.we / w->all.w, q = -w->all.we / all, less[2] = { less_log(p), less_log(q) };

	r->kl = w->all.wphi / w->all.w - less[0];
	r->kl_back = w->all.wpsi / all - less[1];
	sum[0] = w->m + log(w->all.w), sum[1] = w->m + w->c + log(all);
	return !w->careful && w->all.w > 0x1p-900 && 1 + p > 1. / APART && 1 + p < APART && r->kl * CANCELS >= less[0]
		&& r->kl_back * CANCELS >= less[1];
}

static void finish(struct logit_row *r, const struct work *w, struct logits a, struct logits b, size_t V)
{
	double sum[2] = { MASKED, MASKED }, rest[2];

	if (r->count && !divergences(r, w, sum)) carefully(r, a, b, V, sum);
	for (int k = 0; k < 2; k++) rest[k] = r->count ? with_alone(sum[k], &w->alone[k]) : 0;
	for (int k = 0; k < 2; k++) sum[k] = r->count ? sum[k] + rest[k] : w->alone[k].max + log(w->alone[k].sum);
	r->a.log_sum = sum[0], r->b.log_sum = sum[1];
	bool usable = !r->a.nan && !r->b.nan && !r->a.inf && !r->b.inf && r->count > 0;
	r->kl = !usable ? (double)NAN : r->b.masked ? (double)INFINITY : r->kl + rest[1];
	r->kl_back = !usable ? (double)NAN : r->a.masked ? (double)INFINITY : r->kl_back + rest[0];
}

void logit_row(enum dtype type_a, const void *a, enum dtype type_b, const void *b, size_t V, size_t top, size_t *histogram,
	struct logit_row *r)
{
	struct work w = { .form = kl_best(), .r = r, .alone = { { MASKED, 0 }, { MASKED, 0 } }, .near = true, .top = top,
		.histogram = histogram };
	struct logits all_a = { type_a, a }, all_b = { type_b, b };
	double x[BLOCK], y[BLOCK];

	*r = (struct logit_row){ 0 };
	for (size_t first = 0; first < V; first += BLOCK) {
		size_t n = V - first < BLOCK ? V - first : BLOCK;
		struct logits block_a = from(all_a, first), block_b = from(all_b, first);
		if (type_a != type_b || !kl_has(type_a)) {
			load(x, block_a, n), load(y, block_b, n);
			block_a = (struct logits){ DT_F64, (char *)x }, block_b = (struct logits){ DT_F64, (char *)y };
		}
		block(&w, block_a, block_b, first, n);
	}
	finish(r, &w, all_a, all_b, V);
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
