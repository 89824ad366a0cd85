/* Figures over all positions, and the verdict. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "logits.h"
#include "compare/limits/limits.h"
#include "compare/verdict/quantile.h"

enum { BLOCKS = 8 };            /* of positions, for the scatter of the noise */

const char *const logit_rule_name[LOGIT_RULES] = { "rms", "row", "spike", "kl" };

static bool is_bad(const struct logit_position *p)
{
	return p->nan || p->inf || p->mask || !isfinite(p->kl) || !isfinite(p->kl_back);
}

static double ratio(double a, double b) { return a == 0 ? 0 : a / b; }

/* ---- over positions ---- */
static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The smallest x that at least a share q of x [n], sorted, is not above. */
static double percentile(const double *x, size_t n, double q)
{
	double k = ceil(q * (double)n - 1e-9 * (double)n);

	return x[k < 1 ? 0 : (size_t)k - 1];
}

typedef double figure(const struct logit_position *p);
static double kl_of(const struct logit_position *p) { return p->kl; }
static double kl_back_of(const struct logit_position *p) { return p->kl_back; }
static double rms_of(const struct logit_position *p) { return p->rms; }
static double max_of(const struct logit_position *p) { return p->max; }
static double in_sigma_of(const struct logit_position *p) { return ratio(p->max, p->sigma); }

/* Of the positions that are not bad; all NaN where there is none. */
static struct spread spread_of(const struct logit_report *r, figure *f, double *work)
{
	struct spread s = { .max = (double)-INFINITY };
	double sum = 0;
	size_t n = 0;

	for (size_t t = 0; t < r->positions; t++) {
		if (is_bad(&r->position[t])) continue;
		double x = work[n++] = f(&r->position[t]);
		sum += x;
		if (!(x <= s.max)) s.max = x, s.at = t;
	}
	if (n == 0) return (struct spread){ (double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN, 0 };
	qsort(work, n, sizeof *work, rising);
	s.mean = sum / (double)n;
	s.p50 = percentile(work, n, 0.5), s.p90 = percentile(work, n, 0.9);
	s.p99 = percentile(work, n, 0.99), s.p999 = percentile(work, n, 0.999);
	return s;
}

/* ---- the noise ---- */

/* Degrees of freedom of the mean of x [runs][T], from the scatter of the means of blocks of positions: errors of neighbours
 * are correlated. 1 where there is nothing to scatter. */
static double freedom_of(const double *x, size_t runs, size_t T)
{
	size_t blocks = T < BLOCKS ? T : BLOCKS, n = runs * blocks;
	double sum = 0, squares = 0;

	for (size_t k = 0; k < runs; k++)
		for (size_t b = 0; b < blocks; b++) {
			size_t from = b * T / blocks, to = (b + 1) * T / blocks;
			double block = 0;
			for (size_t t = from; t < to; t++) block += x[k * T + t];
			block /= (double)(to - from);
			sum += block, squares += block * block;
		}
	double mean = sum / (double)n, variance = (squares - sum * mean) / (double)(n > 1 ? n - 1 : 1);
	if (n < 2 || !(mean > 0) || !(variance > 0)) return 1;
	return fmin(fmax(1, (double)blocks * 2 * mean * mean / variance), 1e6);
}

/* Degrees of freedom of one position's mean square, from its scatter over the runs; 1 where there is one run. */
static double row_freedom_of(const double *x, size_t runs, size_t T)
{
	double sum = 0;

	for (size_t t = 0; t < T && runs > 1; t++) {
		double mean = 0, squares = 0;
		for (size_t k = 0; k < runs; k++) mean += x[k * T + t] / (double)runs;
		for (size_t k = 0; k < runs; k++) squares += (x[k * T + t] - mean) * (x[k * T + t] - mean) / (double)(runs - 1);
		sum += ratio(squares, mean * mean) / (double)T;
	}
	return sum > 0 ? fmin(fmax(1, 2 / sum), 1e4) : 1;
}

static double mean_of(const double *x, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) sum += x[i];
	return sum / (double)n;
}

/* What rounding to got's own type adds to a noise that is kept in a finer one, at the size of the row's largest logit. */
static double store_variance(const struct logit_comparison *c, const struct logit_position *p)
{
	enum format got = dtype_info[c->got->type].format, noise = dtype_info[c->noise[0]->type].format;

	if (format_info[got].precision >= format_info[noise].precision || !isfinite(p->top_reference[0].value)) return 0;
	double ulp = format_ulp(got, p->top_reference[0].value);
	return ulp * ulp / 12;
}

static bool sigmas(struct logit_report *r, const struct logit_comparison *c, const struct noise_figures *n, struct error *e)
{
	size_t T = r->positions, runs = c->n_noise;

	for (size_t i = 0; i < runs * T; i++)
		if (!isfinite(n->squares[i]) || !isfinite(n->kl[i]))
			return error_set(e, E_VALUE, c->noise[i / T]->name, NO_OFFSET,
				"position %zu is not finite, or masks other tokens: no yardstick", i % T);
	double overall = mean_of(n->squares, runs * T);
	for (size_t t = 0; t < T; t++) {
		double row = 0;
		for (size_t k = 0; k < runs; k++) row += n->squares[k * T + t] / (double)runs;
		r->position[t].sigma = sqrt(fmax(row, overall) + store_variance(c, &r->position[t]));
	}
	r->freedom = freedom_of(n->squares, runs, T);
	r->row_freedom = row_freedom_of(n->squares, runs, T);
	r->kl_freedom = freedom_of(n->kl, runs, T);
	return true;
}

/* ---- rules ---- */

/* Both the kernel's mean square and the yardstick's scatter. */
static double both(double freedom, size_t runs)
{
	return mean_square_bound(freedom, alpha) * mean_square_bound(freedom * (double)runs, alpha);
}

static double larger(double a, double b) { return b <= a ? a : b; }     /* a NaN stays */

static void rules(struct logit_report *r, const struct noise_figures *n)
{
	size_t T = r->positions, runs = r->noise_runs;
	double squares = 0, kl = 0, row = 0, spike = 0, noise_spike = 0;

	for (size_t t = 0; t < T; t++) {
		const struct logit_position *p = &r->position[t];
		double x = ratio(p->rms, p->sigma);
		squares += x * x;
		kl += p->kl;
		row = larger(row, x);
		spike = larger(spike, ratio(p->max, fmax(p->rms, p->sigma)));
		for (size_t k = 0; k < runs; k++) noise_spike = fmax(noise_spike, ratio(n->max[k * T + t], sqrt(n->squares[k * T + t])));
	}
	double alone = student_quantile(1e6, alpha / ((double)T * (double)r->vocabulary));
	r->rule[LOGIT_RMS] = (struct rule){ sqrt(squares / (double)T), slack * sqrt(both(r->freedom, runs)) };
	r->rule[LOGIT_ROW] = (struct rule){ row, runs < 2 ? (double)INFINITY : slack * student_quantile((double)runs * r->row_freedom,
		alpha / (double)T) };
	r->rule[LOGIT_SPIKE] = (struct rule){ spike, slack * fmax(alone, noise_spike) };
	r->rule[LOGIT_KL] = (struct rule){ ratio(kl / (double)T, mean_of(n->kl, runs * T)), slack * slack * both(r->kl_freedom, runs) };
}

/* The difference of two logits of a position has sqrt 2 of their sigma. */
static void sort_flips(struct logit_report *r)
{
	double times = M_SQRT2 * r->rule[r->noise_runs < 2 ? LOGIT_SPIKE : LOGIT_ROW].limit;

	for (size_t t = 0; t < r->positions; t++) {
		struct logit_position *p = &r->position[t];
		if (p->flip != NO_FLIP && r->has_sigma) {
			p->noise = fmax(p->noise, times * p->sigma);
			if (p->flip == FLIP_UNKNOWN) p->flip = p->margin_reference <= p->noise ? FLIP_NOISE : FLIP_BEYOND;
		}
		r->flips[p->flip]++;
	}
}

void logits_reason(struct logit_report *r, enum outcome outcome, const char *format, ...)
{
	va_list arguments;

	if (r->outcome == PASS || outcome == FAIL) r->outcome = outcome;
	if (r->n_reason == MAX_REASON) return;
	va_start(arguments, format);
	vsnprintf(r->reason[r->n_reason++], sizeof *r->reason, format, arguments);
	va_end(arguments);
}

static void judge_values(struct logit_report *r)
{
	for (size_t t = 0; t < r->positions; t++) {
		const struct logit_position *p = &r->position[t];
		if (!is_bad(p)) continue;
		r->bad++;
		if (r->n_reason < MAX_REASON / 2)
			logits_reason(r, FAIL, "position %zu: %zu NaN, %zu infinite, %zu masked in one of the two only", t, p->nan, p->inf, p->mask);
	}
	if (r->bad) logits_reason(r, FAIL, "%zu of %zu positions are no rows of numbers where the reference is", r->bad, r->positions);
}

static void judge_errors(struct logit_report *r)
{
	static const char *const of[] = { "the error's rms is %.4g sigma, at most %.4g",
		"the worst position's rms is %.4g sigma, at most %.4g", "the largest error is %.4g of its position's rms, at most %.4g",
		"the mean KL is %.4g of the noise's, at most %.4g" };

	for (int i = 0; i < LOGIT_RULES; i++) {
		const struct rule *x = &r->rule[i];
		if (!(x->value <= x->limit)) logits_reason(r, FAIL, of[i], x->value, x->limit);
	}
	if (r->flips[FLIP_BEYOND])
		logits_reason(r, FAIL, "%zu first tokens differ by more than the reference's margin is uncertain", r->flips[FLIP_BEYOND]);
}

/* ---- totals ---- */
static void totals(struct logit_report *r)
{
	double squares = 0, left = 0, difference = 0, difference2 = 0;

	for (size_t t = 0; t < r->positions; t++) {
		const struct logit_position *p = &r->position[t];
		double n = (double)(r->vocabulary - p->masked), d = p->nll_got - p->nll_reference;
		squares += p->rms * p->rms * n, left += p->rms_left * p->rms_left * n;
		r->masked += p->masked;
		r->agree += p->flip == NO_FLIP && p->n_top > 0;
		r->same_set += p->n_top == r->top && p->common == r->top;
		r->common += (double)p->common / (double)r->positions;
		if (!isfinite(d)) continue;
		r->targets++;
		r->nll_reference += p->nll_reference, r->nll_got += p->nll_got;
		difference += d, difference2 += d * d;
	}
	double n = (double)r->targets;
	r->rms_all = sqrt(squares / ((double)r->vocabulary * (double)r->positions - (double)r->masked));
	r->explained = 1 - ratio(left, squares);
	r->nll_reference /= n, r->nll_got /= n, r->nll_difference = difference / n;
	r->nll_error = sqrt(fmax(0, difference2 / n - r->nll_difference * r->nll_difference) / (n - 1));
}

bool logits_summarise(struct logit_report *r, const struct logit_comparison *c, const struct noise_figures *n, struct error *e)
{
	double *work = malloc(r->positions * sizeof *work);

	if (!work) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu positions", r->positions);
	bool ok = !r->has_sigma || sigmas(r, c, n, e);
	if (ok) {
		if (r->has_sigma) rules(r, n);
		sort_flips(r);
		totals(r);
		r->kl = spread_of(r, kl_of, work), r->kl_back = spread_of(r, kl_back_of, work);
		r->rms = spread_of(r, rms_of, work), r->max = spread_of(r, max_of, work);
		r->in_sigma = spread_of(r, in_sigma_of, work);
		r->max_all = r->max.max;
		judge_values(r);
		if (r->has_sigma) judge_errors(r);
		else if (!(r->max_all == 0))
			logits_reason(r, UNDECIDED,
			"nothing says how large an error may be: give a model and a contract, or a correct answer as --noise");
	}
	free(work);
	return ok;
}

/* The reference's error may be this share of sigma. */
static const double negligible = 0.01;

void logits_truth(struct logit_report *r, const char *truth, const char *by, size_t tokens, double rms)
{
	double sigma = INFINITY;

	for (size_t t = 0; t < r->positions; t++)
		if (!isnan(sigma) && !(r->position[t].sigma >= sigma)) sigma = r->position[t].sigma;
	r->truth = truth, r->truth_by = by, r->truth_tokens = tokens;
	r->truth_error = rms / sigma;
	if (!(r->truth_error <= negligible))
		logits_reason(r, UNDECIDED, "the reference is no better than %.2g sigma in %s, seen from %s: see --truth", r->truth_error, truth, by);
}
