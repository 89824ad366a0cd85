/* One output of a kernel against the truth, in units of its expected error. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "gain_rule.h"
#include "compare/limits/limits.h"
#include "quantile.h"


const char *const rule_name[RULE_COUNT] = { "worst", "excess", "p99", "rms", "bias", "gain" };

double rms_limit(double freedom) { return slack * sqrt(mean_square_bound(freedom, alpha)); }

double worst_limit(int runs, size_t n) { return slack * student_quantile(runs, alpha / fmax(1, (double)n)); }

void figures_limits(double limit[RULE_COUNT], const struct expected *x, int i, int runs)
{
	double rms = rms_limit(x->freedom[i]);

	limit[RULE_WORST] = worst_limit(runs, x->count[i]);
	limit[RULE_EXCESS] = limit[RULE_WORST];
	limit[RULE_P99] = rms * student_quantile(runs, 0.01);
	limit[RULE_RMS] = rms;
	limit[RULE_GAIN] = gain_limit_of_all(x, i);
	limit[RULE_BIAS] = harmless_bias + x->shift[i] + x->bias[i] * student_quantile(FRESH_RUNS, alpha);
}

static double in_ulp(enum dtype d, double got, double hi, double lo)
{
	return got == hi && lo == 0 ? 0 : ((got - hi) - lo) / format_ulp(dtype_info[d].format, hi);
}

/* Is it the truth rounded once? Where float32 holds the truth but for what is far below its last place, by which a tie may be no tie
 * (silu(630) is below 630 by 1e-271), also that of what float32 holds. */
static bool rounded_right(enum dtype d, double got, double hi, double lo, double upstream)
{
	return got == stored_as(d, hi, lo) || (!(upstream > 0) && dtype_info[d].is_float && got == stored_as(d, stored_as(DT_F32, hi, lo), 0));
}

/* |e| beyond what rounding to d can make of a number near the truth, in units of the upstream error. */
static double excess(enum dtype d, double got, double hi, double lo, double upstream)
{
	enum format f = dtype_info[d].format;
	double half = fmax(format_ulp(f, hi), isfinite(got) ? format_ulp(f, got) : 0) / 2;

	if (rounded_right(d, got, hi, lo, upstream)) return 0;
	return upstream > 0 ? fmax(0, fabs((got - hi) - lo) - half) / upstream : INFINITY;
}

/* Of n errors the 99th percentile has this many above it, and the figures keep so many and it. */
static size_t above_p99(size_t n) { return n ? (n - 1) / 100 : 0; }

bool figures_begin(struct figures *f, struct output_verdict *v, const struct call *call, int i, struct error *e)
{
	size_t n = call->out_count[i], most = above_p99(n) + 1;

	*v = (struct output_verdict){ .out = i, .count = n };
	*f = (struct figures){ .v = v, .most = most, .largest = malloc(2 * most * sizeof *f->largest) };
	f->axes = gain_axes_of(call, i);
	f->gain = calloc((size_t)f->axes.groups, sizeof *f->gain);
	return (f->largest && f->gain) || error_set(e, E_MEMORY, call->out[i]->name, NO_OFFSET, "%zu errors", 2 * most);
}

/* Of what is kept the largest stay. */
static void keep(struct figures *f, double size)
{
	if (f->kept == 2 * f->most) {
		select_smallest(f->largest, f->kept, f->most);
		memmove(f->largest, f->largest + f->most, f->most * sizeof *f->largest);
		f->kept = f->most;
	}
	f->largest[f->kept++] = size;
	f->counted++;
}

/* Element j of the strip, number `at` of the output, where the kernel has `got`. */
static void add_element(struct figures *f, enum dtype d, size_t j, size_t at, double got, const struct answer *truth,
	const struct answer *second, const struct expected *x)
{
	struct output_verdict *v = f->v;
	int i = v->out;
	double hi = truth->hi[i][j], lo = truth->lo[i] ? truth->lo[i][j] : 0;
	bool equal = rounded_right(d, got, hi, lo, x->upstream[i][j]), noisy = x->sigma[i][j] > 0;
	double s = equal && (isinf(got) || !noisy) ? 0 : in_sigma(got, hi, lo, noisy ? x->sigma[i][j] : x->upstream[i][j]);
	struct element here = { at, hi, got, s, in_ulp(d, got, hi, lo), !noisy };
	double apart = fabs(in_sigma(second->hi[i][j], hi, lo, x->sigma[i][j]));

	f->moved = f->moved || noisy || x->upstream[i][j] > 0;
	if (noisy && !(apart <= v->truth_error)) v->truth_error = apart;
	if (!isfinite(got) && !equal && !v->not_finite++) v->first_not_finite = here;
	v->bit_equal += equal;
	double beyond = isnan(got) ? INFINITY : excess(d, got, hi, lo, x->upstream[i][j]);
	if (beyond > v->rule[RULE_EXCESS].value) v->beyond = here, v->rule[RULE_EXCESS].value = beyond;
	v->unscaled += !noisy;
	v->unscaled_wrong += !noisy && beyond > f->limit;
	double size_of = isnan(s) ? INFINITY : noisy || !(x->upstream[i][j] > 0) ? fabs(s) : 0;        /* of what is widened excess decides */
	if (at == 0 || size_of > v->rule[RULE_WORST].value) v->worst = here, v->rule[RULE_WORST].value = size_of;
	const double t = hi / x->sigma[i][j];
	gain_add(&f->pass, noisy && isfinite(s) && isfinite(t) && !isinf(x->sigma[i][j]), s, t);
	if (!noisy) v->answer_sure = v->answer_sure || hi != 0;
	if (!noisy) return;
	v->answer[RULE_RMS].value += t * t;
	v->answer[RULE_WORST].value = fmax(v->answer[RULE_WORST].value, fabs(t));
	/* of no interest once zeros break the rule worst */
	if (v->answer[RULE_WORST].value <= f->limit) v->answer[RULE_EXCESS].value = fmax(v->answer[RULE_EXCESS].value, excess(d, 0, hi, lo, x->upstream[i][j]));
	keep(f, size_of);
	f->sum += s;
	f->sum2 += s * s;
}

/* Indices of the strip, a row at a time, against those that correct kernels name. In a row in which nothing moves none may differ. */
static bool add_names(struct output_verdict *v, const struct call *call, const struct strip *s, const struct members *m)
{
	const struct tensor *t = call->out[v->out];
	const size_t size = dtype_info[t->dtype].size, row = m->row, first = s->first[v->out];
	double *got = malloc((row + 1) * sizeof *got);

	for (size_t r = 0; got && r < s->count[v->out] / row; r++) {
		size_t moving = 0;
		dtype_load(t->dtype, (const char *)t->data + (first + r * row) * size, row, got);
		for (size_t j = 0; j < row; j++) moving += m->moves[r * row + j];
		for (size_t j = 0; j < row; j++) {
			const size_t i = r * row + j;
			const struct element here = { first + i, m->first[i], got[j], 0, 0, false };
			const bool inside = got[j] >= m->least && got[j] <= m->greatest;
			if (!inside && !v->outside++) v->first_outside = here;
			if (!inside || got[j] == m->first[i] || (m->moves[i] && members_has(m, r, got[j]))) continue;
			if (!v->foreign++) v->first_foreign = here;
			v->unmoved += !moving;
		}
		const size_t twice = m->repeats ? row : members_repeat(got, row);
		if (twice < row && !v->repeated++)
			v->first_repeated = (struct element){ first + r * row + twice,
				m->first[r * row + twice], got[twice], 0, 0, false };
		v->moving += moving;
	}
	v->missed += members_missed(m);
	free(got);
	return got && !m->failed;
}

/* In place of sigma, which a name has not: of an output some of whose indices roundings may move. */
static void end_names(struct output_verdict *v)
{
	const double n = (double)v->moving, share = fmin(foreign_least, floor(foreign_few * n)) + floor(foreign_share * n);
	const double missed = floor(v->missed + foreign_deviations * sqrt(v->missed));

	for (int r = 0; r < RULE_COUNT; r++) v->rule[r] = (struct rule){ 0, INFINITY };
	v->rule[RULE_WORST] = (struct rule){ (double)v->foreign, v->unmoved ? 0 : share + missed };
}

bool figures_add(struct figures *f, const struct call *call, const struct strip *s, const struct answer *truth,
	const struct answer *second, const struct expected *x)
{
	int i = f->v->out;
	const struct tensor *t = call->out[i];
	size_t size = dtype_info[t->dtype].size;

	f->pass = gain_begin(&f->axes, f->gain, s->first[i]);
	f->limit = worst_limit(x->runs, f->v->count);
	for (size_t j = 0; j < s->count[i]; j++) {
		double got;
		dtype_load(t->dtype, (const char *)t->data + (s->first[i] + j) * size, 1, &got);
		add_element(f, t->dtype, j, s->first[i] + j, got, truth, second, x);
	}
	gain_end(&f->pass);
	return !(call->op->out[i].flags & NAMES) || !s->count[i] || !x->names[i].runs || add_names(f->v, call, s, &x->names[i]);
}

bool figures_beyond(const struct call *call, int i, const struct strip *s, const struct answer *truth, const struct expected *x)
{
	const struct tensor *t = call->out[i];
	double limit = worst_limit(x->runs, call->out_count[i]), sum = 0, largest = 0, most = 0;
	bool beyond = false;

	for (size_t j = 0; j < s->count[i]; j++) {
		double got;
		dtype_load(t->dtype, (const char *)t->data + (s->first[i] + j) * dtype_info[t->dtype].size, 1, &got);
		double size = excess(t->dtype, got, truth->hi[i][j], truth->lo[i] ? truth->lo[i][j] : 0, x->upstream[i][j]);
		if (!isfinite(got) && !x->nearly[i][j]) return false;
		beyond = beyond || size > limit;
		sum += size * size;
		largest = fmax(largest, fabs(truth->hi[i][j]));
		if (!x->nearly[i][j] && size > limit) most = fmax(most, size * x->upstream[i][j]);
	}
	if (most > algebra_reach * largest) return false;
	return beyond || sum > (double)s->count[i];
}

void figures_end(struct figures *f, const struct call *call, const struct expected *x)
{
	struct output_verdict *v = f->v;
	double n = fmax(1, (double)f->counted), limit[RULE_COUNT];

	v->exact = !f->moved;
	v->boundless = x->boundless[v->out];
	v->freedom = x->freedom[v->out];
	v->rule[RULE_RMS].value = sqrt(f->sum2 / n);
	v->rule[RULE_BIAS].value = fabs(f->sum / n);
	v->rule[RULE_P99].value = f->kept ? select_smallest(f->largest, f->kept, f->kept - 1 - above_p99(f->counted)) : 0;
	figures_limits(limit, x, v->out, x->runs);
	for (int r = 0; r < RULE_COUNT; r++) v->rule[r].limit = limit[r];
	v->answer[RULE_GAIN].value = v->answer[RULE_RMS].value = sqrt(v->answer[RULE_RMS].value / n);
	for (int r = 0; r < RULE_COUNT; r++) v->answer[r].limit = limit[r];
	gain_judge(v, call, x, f->gain);
	if (v->beyond.unscaled && v->unscaled_wrong
		&& v->rule[RULE_WORST].value <= limit[RULE_WORST])
		v->worst = v->beyond;
	if ((v->names = v->moving > 0)) end_names(v);
	v->exact = v->exact && !v->names;
	figures_free(f);
}

void figures_free(struct figures *f)
{
	free(f->largest);
	free(f->gain);
	*f = (struct figures){ 0 };
}

bool figures(struct output_verdict *v, const struct call *call, int i, const struct answer *truth,
	const struct answer *second, const struct expected *x, struct error *e)
{
	struct strip whole = call_strip(call, 0, 1);
	struct figures f;

	if (!figures_begin(&f, v, call, i, e)) return false;
	bool ok = figures_add(&f, call, &whole, truth, second, x);
	figures_end(&f, call, x);
	return ok || error_set(e, E_MEMORY, call->out[i]->name, NO_OFFSET, "indices");
}
