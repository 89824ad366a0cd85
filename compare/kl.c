#include "kl.h"

#include <math.h>
#include <string.h>

#include "kl_sums.h"

enum { BLOCK = 1024, PART = 64 };       /* logits of each that stay in the first cache; that are looked at together */

/* only_a: some logit of b alone is -inf; only_b: of a alone. */
struct row { enum dtype ta, tb; const char *a, *b; size_t width; bool only_a, only_b; };
static const char *at(enum dtype t, const char *x, size_t i) { return x + i * dtype_info[t].size; }
static double value(enum dtype t, const char *x, size_t i)
{
	double y;

	dtype_load(t, at(t, x, i), 1, &y);
	return y;
}

/* ---- the largest ---- */
struct top { double value[MAX_TOP]; uint32_t *index; size_t n, k; };

static void enter(struct top *t, double x, size_t i)
{
	size_t at = t->n < t->k ? t->n++ : t->n - 1;

	for (; at > 0 && t->value[at - 1] < x; at--) t->value[at] = t->value[at - 1], t->index[at] = t->index[at - 1];
	t->value[at] = x, t->index[at] = (uint32_t)i;
}

/* A block; of it, only the parts that hold a new one are looked at. */
static void top_block(struct top *t, const struct kl_form *form, enum dtype d, const char *x, size_t first, size_t n)
{
	double y[PART];

	for (size_t end = first + n; first < end; first += PART) {
		size_t part = end - first < PART ? end - first : PART;
		if (t->n == t->k && !(form->most(d, at(d, x, first), part) > t->value[t->k - 1])) continue;
		dtype_load(d, at(d, x, first), part, y);
		for (size_t i = 0; i < part; i++)
			if (t->n < t->k ? !isnan(y[i]) : y[i] > t->value[t->k - 1]) enter(t, y[i], first + i);
	}
}

static bool holds_new(const struct top *t, double most) { return t->n < t->k || most > t->value[t->k - 1]; }

/* ---- the sums ---- */

/* The same where some logit is not finite or some |t| is above KL_FAR. A logit of -inf in both has no part in it. */
static struct kl_sums with_care(struct row *r, size_t first, size_t n, double m, double c, size_t *nan)
{
	struct kl_sums s = { 0 };

	for (size_t i = first; i < first + n; i++) {
		double a = value(r->ta, r->a, i), b = value(r->tb, r->b, i), t = (b - a) - c, w = exp(a - m), v = exp(b - c - m);
		double e = fabs(t) < 1 ? w * expm1(t) : v - w;
		bool bad_a = isnan(a) || a == (double)INFINITY, bad_b = isnan(b) || b == (double)INFINITY;
		*nan += (size_t)bad_a + (size_t)bad_b;
		r->only_a |= !bad_a && isfinite(a) && isinf(b);
		r->only_b |= !bad_b && isfinite(b) && isinf(a);
		if (!isfinite(a) || !isfinite(b)) continue;
		s.w += w, s.we += e, s.wphi += e - w * t, s.wpsi += v * t - e;
	}
	return s;
}

static void add(struct kl_sums *s, const struct kl_sums *x, double scale)
{
	s->w = s->w * scale + x->w, s->we = s->we * scale + x->we;
	s->wphi = s->wphi * scale + x->wphi, s->wpsi = s->wpsi * scale + x->wpsi;
}

/* b - a where a is the largest of the first block: near the mean of b - a under p. */
static double centre(const struct row *r, size_t n)
{
	double x[BLOCK];
	size_t best = 0;

	dtype_load(r->ta, r->a, n, x);
	for (size_t i = 1; i < n; i++) best = x[i] > x[best] ? i : best;
	double c = value(r->tb, r->b, best) - x[best];
	return isfinite(c) ? c : 0;
}

/* Divergences are not negative; NaN stays. */
static double least_0(double x) { return x < 0 ? 0 : x; }

static void one_row(const struct kl_form *form, struct row *r, size_t k, struct kl_row *out)
{
	struct top ta = { .index = out->top_a, .k = k }, tb = { .index = out->top_b, .k = k };
	struct kl_sums all = { 0 };
	double m = -INFINITY, c = centre(r, r->width < BLOCK ? r->width : BLOCK);

	for (size_t i = 0; i < r->width; i += BLOCK) {
		size_t n = r->width - i < BLOCK ? r->width - i : BLOCK;
		struct kl_sums s;
		double most_a = form->most(r->ta, at(r->ta, r->a, i), n), most_b = form->most(r->tb, at(r->tb, r->b, i), n);
		double before = m;
		if (holds_new(&ta, most_a)) top_block(&ta, form, r->ta, r->a, i, n);
		if (holds_new(&tb, most_b)) top_block(&tb, form, r->tb, r->b, i, n);
		if (most_a > m && most_a < (double)INFINITY) m = most_a;
		form->sums(&s, r->ta, at(r->ta, r->a, i), r->tb, at(r->tb, r->b, i), n, isfinite(m) ? m : 0, c);
		if (!(s.far <= KL_FAR) || !isfinite(s.w + s.we + s.wphi + s.wpsi))
			s = with_care(r, i, n, isfinite(m) ? m : 0, c, &out->nan);
		add(&all, &s, m > before && isfinite(before) ? exp(before - m) : 1);
	}
	double sum_q = all.w + all.we, p = all.we / all.w, q = -all.we / sum_q;
	bool none = out->nan || !(all.w > 0) || !(sum_q > 0);
	out->kl_pq = none ? (double)NAN : r->only_a ? (double)INFINITY : least_0(all.wphi / all.w - (p - log1p(p)));
	out->kl_qp = none ? (double)NAN : r->only_b ? (double)INFINITY : least_0(all.wpsi / sum_q - (q - log1p(q)));
	out->top = ta.n < tb.n ? ta.n : tb.n;
	for (size_t i = 0; i < out->top; i++)
		for (size_t j = 0; j < out->top; j++) out->common += out->top_a[i] == out->top_b[j];
}

static bool known(enum dtype t) { return t == DT_F64 || t == DT_F32 || t == DT_BF16 || t == DT_F16; }

bool kl_rows(const struct tensor *a, const struct tensor *b, size_t width, size_t k, struct kl_row *r, struct error *e)
{
	const struct kl_form *form = kl_best();
	size_t rows = width ? a->count / width : 0;

	if (!rows) return error_set(e, E_EMPTY, a->name, NO_OFFSET, "no row of logits");
	if (!known(a->dtype) || !known(b->dtype))
		return error_set(e, E_KIND, known(a->dtype) ? b->name : a->name, NO_OFFSET, "logits are F64, F32, BF16 or F16");
	#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < rows; i++) {
		struct row row = { .ta = a->dtype, .tb = b->dtype, .width = width };
		row.a = at(a->dtype, a->data, i * width);
		row.b = at(b->dtype, b->data, i * width);
		r[i] = (struct kl_row){ 0 };
		one_row(form, &row, k < MAX_TOP ? k : MAX_TOP, &r[i]);
	}
	return true;
}
