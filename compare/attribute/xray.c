#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

const double xray_agree = -20, xray_disagree = 200;

int site_store(const struct call *call, int site)
{
	int store = call->op->sites[site].store;

	return store && call->out_count[store - 1] ? store : 0;
}

bool is_store(const struct call *call, int site, const struct site_rounding *r)
{
	const int store = site_store(call, site);
	const enum format f = store ? dtype_info[out_dtype(call, store - 1)].format : 0;

	return store && format_info[r->format].precision >= format_info[f].precision && (r->format != f || (r->rounding != ROUND_ZERO && r->rounding != ROUND_AWAY));
}

bool is_legal(const struct call *call, const struct contract *k, int site, const struct site_rounding *r)
{
	return is_store(call, site, r) || contract_allows(k, site, r);
}

/* Of output `out`. Its square is a number, where float64's at 0 is none. */
double xray_ulp(const struct xray *x, int out, double y)
{
	const struct dtype_info *d = &dtype_info[out_dtype(x->call, out)];

	return d->is_float ? fmax(format_ulp(d->format, y), 0x1p-500) : 1;
}

bool xray_takes_part(const struct xray *x, size_t j, double r)
{
	return x->floor2[j] > 0 && isfinite(r);
}

/* ---- the shape ---- */

int xray_shape_streams(const struct xray *x, const struct plan *around, struct stream *stream)
{
	struct plan bare = *around;
	int n = 0;

	for (int k = 0; x->call->op->sites[k].name; k++) {
		struct plan p = *around;
		if (!site_in_form(x->call->op, k, p.form) || site_store(x->call, k)) continue;
		p.round[k] = p.round[k].on ? (struct site_rounding){ 0 } : (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		stream[n++] = (struct stream){ .plan = p };
	}
	memset(bare.round, 0, sizeof bare.round);
	stream[n] = (struct stream){ .plan = bare };
	return n;
}

/* shape2 of the strip held, element by element. One may be reached although no single rounding moves it, where the last one
 * has a coarse grid: all of them together do. */
static bool shape_of_strip(struct xray *x, struct stream *stream, int n)
{
	memset(x->shape2, 0, x->n * sizeof *x->shape2);
	for (int k = 0; k < n; k++) {
		if (!xray_direction(x, &stream[k])) return false;
		#pragma omp parallel for if (x->n > WORTH)
		for (size_t j = 0; j < x->n; j++)
			if (isfinite(x->d[j])) x->shape2[j] += x->d[j] * x->d[j];
	}
	if (!xray_direction(x, &stream[n])) return false;
	for (size_t j = 0; j < x->n; j++)
		if (x->shape2[j] == 0 && x->d[j] != 0) x->shape2[j] = DBL_MIN;
	return true;
}

/* Each of shape2, output i, becomes the mean over those of its row that are not 0; 0 stays. */
static void pool_rows(struct xray *x, int i)
{
	size_t row = x->row[i];

	#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
	for (size_t at = x->first[i]; at < x->first[i + 1]; at += row) {
		double sum = 0;
		size_t n = 0;
		for (size_t j = at; j < at + row; j++) {
			bool reached = x->shape2[j] > 0;
			sum += x->shape2[j], n += reached;
			x->reach[x->first_element[i] + xray_place(x, i, j)] = reached ? BY_ROW : UNREACHED;
		}
		double mean = x->row_shape[xray_row(x, i, at)] = n ? sum / (double)n : 0;
		for (size_t j = at; j < at + row; j++)
			if (x->shape2[j] > 0) x->shape2[j] = mean;
	}
}

static bool find_shape(struct xray *x)
{
	struct stream stream[MAX_SITE + 1], *ahead[MAX_SITE + 2];
	int n = xray_shape_streams(x, &x->emulation, stream);
	bool ok = true;

	for (int k = 0; k <= n; k++) ahead[k] = &stream[k];
	ahead[n + 1] = &x->of_centre;
	xray_ahead(x, ahead, (size_t)n + 2);
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, XRAY_CENTRE) && shape_of_strip(x, stream, n);
		for (int i = 0; ok && i < MAX_OUT; i++)
			if (x->call->out_count[i]) pool_rows(x, i);
		x->have |= XRAY_SHAPE;
	}
	for (int k = 0; k <= n; k++) stream_end(&stream[k]);
	return ok;
}

bool xray_refresh(struct xray *x)
{
	if (x->refreshed && same_plan(&x->refreshed_on, &x->emulation))
		return (!x->moved && same_plan(&x->of_base.plan, &x->emulation)) || xray_rebase(x);
	if (!x->refreshed) xray_untell(x);
	x->refreshed = false;
	stream_begin(&x->of_base, &x->emulation);
	stream_begin(&x->of_centre, &x->emulation);
	x->moved = false;
	x->have = 0;
	if (!find_shape(x) || !xray_find_floor(x) || !xray_rebase(x)) return false;
	x->refreshed_on = x->emulation;
	return x->refreshed = true;
}

/* ---- the score ---- */

/* What passes add up: of each block, and behind those of all a weight. */
struct pass { const struct scoring *s; const double *r; };
enum { PASS_SUMS = 2 * MAX_BLOCKS };

/* Of the mean over each block of what is beyond the floor. */
static void add_mean(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	const double *r = ((const struct pass *)with)->r;

	(void)i;
	for (size_t j = from; j < to; j++) {
		if (!xray_takes_part(x, j, r[j])) continue;
		sum[x->block[j]] += fmax(0, r[j] * r[j] - x->floor2[j]) / (x->shape2[j] + x->floor2[j]);
		sum[MAX_BLOCKS + x->block[j]]++;
	}
}

/* Of one step of Fisher's scoring towards the scales under which the residuals are likeliest, if they are Cauchy's. */
static void add_step(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	const struct pass *p = with;

	(void)i;
	for (size_t at = from, n; at < to; at += n) {
		int b = x->block[at];
		n = xray_in_block(x, at, to);
		sums_of_step(p->r + at, x->shape2 + at, x->floor2 + at, p->s->a[b], n, &sum[b], &sum[MAX_BLOCKS + b]);
	}
}

/* Logarithms are taken of products, a few numbers at a time. */
struct product { double of, sum; int n; };
static void multiply(struct product *p, double y)
{
	enum { AT_ONCE = 8 };
	bool fits = y > 0x1p-100 && y < 0x1p100;

	if (!fits) p->sum += log(y);
	else p->of *= y, p->n++;
	if (p->n < AT_ONCE) return;
	p->sum += log(p->of);
	p->of = 1, p->n = 0;
}

static void add_score(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	const struct pass *p = with;
	struct product terms = { 1, 0, 0 };

	for (size_t j = from; j < to; j++) {
		double r = p->r[j], v = x->floor2[j] + x->shape2[j] * p->s->a[x->block[j]], ulp = xray_ulp(x, i, x->got[j]), w = v + r * r;
		if (xray_takes_part(x, j, r)) multiply(&terms, w / v * (w / (ulp * ulp)));
		else sum[0] += isfinite(r) ? 0 : isnan(r) ? xray_agree : xray_disagree;
	}
	sum[0] += terms.sum + log(terms.of);
}

/* An element's term is least where its variance is r², if its block's scale, which is at most 1, can make it that. */
static void add_bound(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	const double *residual = ((const struct pass *)with)->r;
	struct product terms = { 1, 0, 0 };

	for (size_t j = from; j < to; j++) {
		double r = residual[j], ulp = xray_ulp(x, i, x->got[j]), v = fmax(x->floor2[j], fmin(r * r, x->floor2[j] + x->shape2[j])), w = v + r * r;
		if (xray_takes_part(x, j, r)) multiply(&terms, w / v * (w / (ulp * ulp)));
		else sum[0] += isfinite(r) ? 0 : isnan(r) ? xray_agree : xray_disagree;
	}
	sum[0] += terms.sum + log(terms.of);
}

void scoring_bound(const struct xray *x, struct scoring *s, const double *r)
{
	for (int i = 0; i < MAX_OUT; i++) xray_add_up(x, i, add_bound, &(struct pass){ s, r }, &s->least, 1);
}

double scoring_least(const struct xray *x, const struct scoring *s) { return s->least - xray_rounding * ((double)x->all + fabs(s->least)); }

void scoring_add(const struct xray *x, struct scoring *s, const double *r)
{
	double part[PASS_SUMS] = { 0 }, sum = s->score;
	bool scores = s->pass == SCORE_PASSES - 1;

	for (int i = 0; i < MAX_OUT && s->pass < SCORE_PASSES; i++)
		xray_add_up(x, i, scores ? add_score : s->pass ? add_step : add_mean, &(struct pass){ s, r }, scores ? &sum : part, scores ? 1 : PASS_SUMS);
	for (int b = 0; b < x->blocks; b++) s->sum[b] += part[b], s->weight[b] += part[MAX_BLOCKS + b];
	s->score = sum;
}

/* Scales that a step has left as they were stay. */
void scoring_pass(const struct xray *x, struct scoring *s)
{
	double before[MAX_BLOCKS];

	memcpy(before, s->a, sizeof before);
	for (int b = 0; b < x->blocks && s->pass <= SCORE_STEPS; b++) {
		s->a[b] = s->weight[b] > 0 ? fmax(0, fmin(1, s->sum[b] / s->weight[b])) : 0;
		s->sum[b] = s->weight[b] = 0;
	}
	if (s->pass == 0) memcpy(s->start, s->a, sizeof s->a);
	bool stay = s->pass > 0 && !memcmp(before, s->a, sizeof before);
	s->pass = stay && s->pass < SCORE_STEPS ? SCORE_PASSES - 1 : s->pass < SCORE_PASSES ? s->pass + 1 : SCORE_PASSES;
}

/* What is left around the emulation: Σ r²/floor2 and the number in it. */
static void add_left(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	(void)i, (void)with;
	for (size_t j = from; j < to; j++) {
		double v = x->floor2[j] + x->shape2[j] * x->scale[x->block[j]];
		if (xray_takes_part(x, j, x->r[j]) && 1 / v > 0) sum[0] += x->r[j] * x->r[j] / x->floor2[j], sum[1] += 1;
		else if (isinf(x->r[j])) sum[0] = INFINITY;
	}
}

bool xray_rebase(struct xray *x)
{
	struct scoring s = { 0 };
	double left[2] = { 0 };
	bool impossible = false;

	if (!same_plan(&x->of_base.plan, &x->emulation)) {
		stream_begin(&x->of_base, &x->emulation);
		x->have &= ~(unsigned)XRAY_BASE;
	}
	x->moved = !same_plan(&x->of_centre.plan, &x->emulation);
	x->have &= ~(unsigned)XRAY_WEIGHTS;
	while (s.pass < SCORE_PASSES) {
		memcpy(x->scale, s.start, sizeof x->scale);
		for (size_t at = 0; at < x->strips; at++) {
			if (!xray_refresh_strip(x, at, XRAY_BASE | XRAY_FLOOR)) return false;
			impossible = impossible || x->base_impossible;
			scoring_add(x, &s, x->r);
			for (int i = 0; i < MAX_OUT && s.pass == SCORE_PASSES - 1; i++) xray_add_up(x, i, add_left, NULL, left, 2);
		}
		scoring_pass(x, &s);
	}
	x->score = impossible ? INFINITY : s.score;
	x->left = impossible ? DBL_MAX : isinf(left[0]) ? INFINITY : left[1] > 0 ? left[0] / left[1] : 0;
	return true;
}

double xray_left(const struct xray *x) { return x->left; }
