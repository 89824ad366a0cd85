/* One output of a kernel against the truth, in units of its expected error. */
#include <math.h>
#include <stdlib.h>

#include "figures.h"
#include "quantile.h"

/* A mean error below this share of sigma is never a fault: kernels that truncate have one. */
static const double harmless_bias = 0.1;

const char *const rule_name[RULE_COUNT] = { "worst", "excess", "p99", "rms", "bias" };

double rms_limit(double freedom) { return slack * sqrt(mean_square_bound(freedom, alpha)); }

static void limits(struct output_verdict *v, const struct expected *x, int i)
{
	double n = fmax(1, (double)x->count[i]), rms = rms_limit(x->freedom[i]);

	v->rule[RULE_WORST].limit = slack * student_quantile(x->runs, alpha / n);
	v->rule[RULE_EXCESS].limit = v->rule[RULE_WORST].limit;
	v->rule[RULE_P99].limit = rms * student_quantile(x->runs, 0.01);
	v->rule[RULE_RMS].limit = rms;
	v->rule[RULE_BIAS].limit = harmless_bias + x->bias[i] * student_quantile(FRESH_RUNS, alpha);
}

static double in_ulp(enum dtype d, double got, double hi, double lo)
{
	return got == hi && lo == 0 ? 0 : ((got - hi) - lo) / format_ulp(dtype_info[d].format, hi);
}

/* |e| beyond what rounding to d can make of a number near the truth, in units of the upstream error. */
static double excess(enum dtype d, double got, double hi, double lo, double upstream)
{
	enum format f = dtype_info[d].format;
	double half = fmax(format_ulp(f, hi), isfinite(got) ? format_ulp(f, got) : 0) / 2;

	if (got == stored_as(d, hi, lo)) return 0;
	return upstream > 0 ? fmax(0, fabs((got - hi) - lo) - half) / upstream : INFINITY;
}

bool figures(struct output_verdict *v, const struct call *call, int i, const struct answer *truth,
	const struct answer *second, const struct expected *x, struct error *e)
{
	const struct tensor *t = call->out[i];
	size_t n = call->out_count[i], size = dtype_info[t->dtype].size;
	double *z = malloc(n * sizeof *z), sum = 0, sum2 = 0;
	size_t counted = 0;

	*v = (struct output_verdict){ .out = i, .count = n, .freedom = x->freedom[i] };
	if (!z) return error_set(e, E_MEMORY, t->name, NO_OFFSET, "%zu errors", n);
	for (size_t j = 0; j < n; j++) {
		double hi = truth->hi[i][j], lo = truth->lo[i] ? truth->lo[i][j] : 0, want = stored_as(t->dtype, hi, lo), got;
		dtype_load(t->dtype, (const char *)t->data + j * size, 1, &got);
		bool equal = got == want;
		bool noisy = x->sigma[i][j] > 0;
		double s = equal && (isinf(want) || !noisy) ? 0 : in_sigma(got, hi, lo, x->sigma[i][j]);
		struct element here = { j, hi, got, s, in_ulp(t->dtype, got, hi, lo) };
		double apart = fabs(in_sigma(second->hi[i][j], hi, lo, x->sigma[i][j]));
		if (noisy && !(apart <= v->truth_error)) v->truth_error = apart;
		if (!isfinite(got) && !equal && !v->not_finite++) v->first_not_finite = here;
		v->bit_equal += equal;
		double beyond = isnan(got) ? INFINITY : excess(t->dtype, got, hi, lo, x->upstream[i][j]);
		if (beyond > v->rule[RULE_EXCESS].value) v->beyond = here, v->rule[RULE_EXCESS].value = beyond;
		double size_of = isnan(s) ? INFINITY : fabs(s);
		if (j == 0 || size_of > v->rule[RULE_WORST].value) v->worst = here, v->rule[RULE_WORST].value = size_of;
		if (!noisy) continue;
		z[counted++] = size_of;
		sum += s / (double)x->count[i];
		sum2 += s * s / (double)x->count[i];
	}
	v->rule[RULE_RMS].value = sqrt(sum2);
	v->rule[RULE_BIAS].value = fabs(sum);
	v->rule[RULE_P99].value = counted ? select_smallest(z, counted, counted - 1 - (counted - 1) / 100) : 0;
	limits(v, x, i);
	free(z);
	return true;
}
