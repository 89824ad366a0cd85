#include <math.h>

#include "compare/limits/limits.h"
#include "gain_rule.h"
#include "quantile.h"

/* Of group g in run r: fresh ones, then others. */
static double gain_in_run(const struct expected *x, int i, int r, int g) { return gain_in_sigma(&x->gains[i][r * x->axes[i].groups + g]); }

static double scatter(const struct expected *x, int i, int g)
{
	double sum = 0;

	for (int r = 0; r < FRESH_RUNS; r++) {
		const double gain = gain_in_run(x, i, r, g);
		sum += gain * gain;
	}
	return sqrt(sum / FRESH_RUNS);
}

/* The rms of that over groups from `from` to `to`. */
static double usual_scatter(const struct expected *x, int i, int from, int to)
{
	double sum = 0;

	for (int g = from; g < to; g++) {
		const double own = scatter(x, i, g);
		sum += own * own;
	}
	return sqrt(sum / (to - from));
}

/* The largest gain that another correct kernel's run has. */
static double shift(const struct expected *x, int i, int g)
{
	double most = 0;

	for (int r = FRESH_RUNS; r < FRESH_RUNS + x->kinds; r++) most = fmax(most, fabs(gain_in_run(x, i, r, g)));
	return most;
}

/* By chance, as fresh runs of the group or of its axis scatter; as other correct kernels have it; and as
 * little as is harmless. Of a group that has a part of the output's elements, all those that are equal to
 * others may lie in it. */
static double limit(const struct expected *x, int i, int g, double usual)
{
	const struct gain_axes *a = &x->axes[i];
	const struct gain_sum *s = &x->gains[i][g];
	const double chance = fmax(usual, scatter(x, i, g));
	const double part = s->n > 0 ? x->gains[i][0].n / s->n : 1, equal = fmin(1, x->equal[i] * part * part);

	return harmless_gain + shift(x, i, g)
		+ student_quantile(FRESH_RUNS, g ? alpha / a->groups : alpha) * sqrt(chance * chance + equal);
}

double gain_limit_of_all(const struct expected *x, int i) { return limit(x, i, 0, 0); }

void gain_judge(struct output_verdict *v, const struct call *call, const struct expected *x, const struct gain_sum *sum)
{
	const struct gain_axes *a = &x->axes[v->out];
	int worst = 0;

	for (int axis = -1; axis < a->n; axis++) {
		const int from = axis < 0 ? 0 : a->axis[axis].group, to = axis + 1 < a->n ? a->axis[axis + 1].group : a->groups;
		const double usual = usual_scatter(x, v->out, from, to);
		for (int g = from; g < to; g++) {
			const struct rule here = { fabs(gain_in_sigma(&sum[g])), limit(x, v->out, g, usual) };
			const struct rule *most = &v->rule[RULE_GAIN];
			if (g && here.value / here.limit <= most->value / most->limit) continue;
			v->rule[RULE_GAIN] = here;
			worst = g;
		}
	}
	v->gain = gain_of(&sum[worst]);
	gain_place(a, call, v->out, worst, v->gain_at, sizeof v->gain_at);
}
