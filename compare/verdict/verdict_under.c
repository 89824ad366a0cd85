/* A call's outputs against the truth under one contract. */
#include <math.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "compare/print/print.h"
#include "figures.h"
#include "verdict_private.h"

/* Has the kernel recorded what is not finite? An anchored reference takes it over. */
static bool blown_up(const struct call *call)
{
	for (int i = 0; call->anchored && call->op->out[i].name; i++) {
		const struct tensor *t = call->out[i];
		for (size_t j = 0; t && call->op->out[i].flags & TRACE && j < t->count; j++) {
			double got;
			dtype_load(t->dtype, (const char *)t->data + j * dtype_info[t->dtype].size, 1, &got);
			if (!isfinite(got)) return true;
		}
	}
	return false;
}

/* Nothing can be held against a reference that is not finite, unless that is the kernel's own doing: then it fails
 * where it first was not, against a reference that still is. */
static bool finite_truth(const struct call *call, struct yardstick *y, struct verdict *v, struct error *e)
{
	bool told[MAX_OUT] = { false };
	char text[128];

	for (size_t s = 0; s < y->strips && !blown_up(call); s++) {
		struct strip strip = call_strip(call, s, y->strips);
		const struct answer *a = &y->truth.first;
		if (!yardstick_refresh(y, call, s, true, e)) return false;
		for (int i = 0; i < MAX_OUT; i++)
			for (size_t j = 0; j < strip.count[i] && !told[i]; j++) {
				if (isfinite(a->hi[i][j])) continue;
				reason(v, UNDECIDED, "out.%s: the reference is %g at %s", call->op->out[i].name, a->hi[i][j],
					index_text(call, i, strip.first[i] + j, text, sizeof text));
				told[i] = true;
			}
	}
	return true;
}

/* Indices that no correct kernel names. */
static void decide_names(const struct call *call, struct verdict *v, const struct output_verdict *o)
{
	const char *name = call->op->out[o->out].name;
	const struct element *outside = &o->first_outside, *twice = &o->first_repeated, *foreign = &o->first_foreign;
	char text[128];

	if (o->outside)
		reason(v, FAIL, "out.%s: %zu of %zu indices are beyond all sizes and all that the truth or a noisy run names; first, %s is %.9g, expected %.9g", name, o->outside,
			o->count, index_text(call, o->out, outside->index, text, sizeof text), outside->got, outside->expected);
	if (o->repeated)
		reason(v, FAIL, "out.%s: an index stands twice in %zu of %zu rows, as in no noisy run; first, %s is %.9g again, expected %.9g", name, o->repeated,
			o->count / out_row(call, o->out), index_text(call, o->out, twice->index, text, sizeof text), twice->got, twice->expected);
	if (!(o->rule[RULE_WORST].value <= o->rule[RULE_WORST].limit))
		reason(v, FAIL, "out.%s: %zu of %zu indices are none that the truth or a noisy run names there, at most %.0f may be; first, %s is %.9g, expected %.9g", name,
			o->foreign, o->count, o->rule[RULE_WORST].limit, index_text(call, o->out, foreign->index, text, sizeof text), foreign->got, foreign->expected);
}

/* The part of its exact answer that an output may be off by as a whole while every rule holds; 0 where
 * an output of zeros breaks one, or where nothing but zeros is expected. */
static double unseen_part(const struct output_verdict *o)
{
	double part = INFINITY;

	if (o->exact || o->names || o->answer_sure || !(o->answer[RULE_RMS].value > 0)) return 0;
	for (int r = 0; r < RULE_COUNT; r++)
		if (o->answer[r].value > 0) part = fmin(part, o->answer[r].limit / o->answer[r].value);
	return part >= 1 && part < INFINITY ? part : 0;
}

/* A rule that is broken, of numbers, with the element or the group that breaks it. */
static void say_broken(struct verdict *v, const struct output_verdict *o, int r)
{
	const struct element *at = r == RULE_EXCESS ? &o->beyond : &o->worst;
	const char *name = v->op->out[o->out].name;
	char sigma[RATIO], ulp[RATIO], value[RATIO], factor[RATIO];

	if ((r == RULE_WORST || r == RULE_EXCESS) && at->unscaled)
		reason(v, FAIL,
			"out.%s: %s is %.9g, expected %.9g: %s ulp, where float32 is "
			"exact; %zu of %zu elements are wrong there",
			name, r == RULE_EXCESS ? o->beyond_at : o->worst_at, at->got,
			at->expected, ratio_text(at->ulp, 4, ulp), o->unscaled_wrong,
			o->unscaled);
	else if (r == RULE_WORST || r == RULE_EXCESS)
		reason(v, FAIL,
			"out.%s: %s is %.9g, expected %.9g: %s sigma, %s ulp; %s %s, at "
			"most %.3g",
			name, r == RULE_EXCESS ? o->beyond_at : o->worst_at, at->got,
			at->expected, ratio_text(at->sigma, 4, sigma),
			ratio_text(at->ulp, 4, ulp), rule_name[r],
			ratio_text(o->rule[r].value, 4, value), o->rule[r].limit);
	else if (r == RULE_GAIN)
		reason(v, FAIL,
			"out.%s: %s times the exact answer%s%s: gain %s sigma, at most %.3g", name,
			ratio_text(1 + o->gain, 6, factor), *o->gain_at ? " at " : " as a whole", o->gain_at,
			ratio_text(o->rule[r].value, 4, value), o->rule[r].limit);
	else
		reason(v, FAIL, "out.%s: %s error %s sigma, at most %.3g", name,
			rule_name[r], ratio_text(o->rule[r].value, 4, value),
			o->rule[r].limit);
}

static void decide(const struct call *call, struct verdict *v, struct output_verdict *o)
{
	const char *name = call->op->out[o->out].name;
	size_t none = 0;
	char no_number[64], text[128], got[RATIO];

	index_text(call, o->out, o->worst.index, o->worst_at, sizeof o->worst_at);
	if (o->not_finite)
		reason(v, FAIL,
			"out.%s: %zu of %zu elements are not finite; the first at %s is %s, "
			"expected %.9g",
			name, o->not_finite, o->count,
			index_text(call, o->out, o->first_not_finite.index, text, sizeof text),
			number_text(o->first_not_finite.got, got), o->first_not_finite.expected);
	index_text(call, o->out, o->beyond.index, o->beyond_at, sizeof o->beyond_at);
	if (o->names) decide_names(call, v, o);
	for (int r = 0; r < RULE_COUNT && !o->names; r++) {
		if (o->rule[r].value <= o->rule[r].limit) continue;
		if (o->not_finite && !isfinite(o->rule[r].value)) {
			none += (size_t)snprintf(no_number + none, sizeof no_number - none, "%s%s",
				none ? ", " : "", rule_name[r]);
			continue;
		}
		if (o->exact) {
			reason(v, FAIL, "out.%s: %zu of %zu elements differ, where nothing that is rounded could move them; %s is %.9g, expected %.9g", name,
				o->count - o->bit_equal, o->count, o->worst_at, o->worst.got, o->worst.expected);
			break;
		}
		say_broken(v, o, r);
	}
	if (none) reason(v, FAIL, "out.%s: no figure with them is a number: %s", name, no_number);
	if (o->boundless)
		reason(v, UNDECIDED, "out.%s: what the contract rounds may alone make %zu of %zu elements infinite or NaN, and nothing is held against them", name,
			o->boundless, o->count);
	if (unseen_part(o) > 0) {
		v->says_nothing = true;
		reason(v, UNDECIDED, "out.%s: an output of zeros, or of twice the exact answer, would keep every rule: no error below %.3g times the answer can be seen",
			name, unseen_part(o));
	}
	if (!(o->truth_error <= truth_share))
		reason(v, UNDECIDED, "out.%s: the truth is only known to %.3g sigma (%s against %s)", name, o->truth_error, v->truth, v->second);
	if (!(o->sample.sigma <= sample_share))
		reason(v, UNDECIDED, "out.%s: %s and %s are %.3g sigma apart on the sample, at most %g", name, v->truth, sample_judge,
			o->sample.sigma, sample_share);
}

/* Each recorded iteration on its own, in the rms rule. */
static bool judge_traces(const struct call *call, const struct answer *truth, const struct expected *x, struct verdict *v, struct error *e)
{
	struct answer unanchored = { 0 };

	if (!call->anchored) return true;
	if (!trace_free_running(call, &unanchored, e)) return false;
	for (int i = 0; call->op->out[i].name; i++) {
		struct trace_entries *t = &v->trace[v->n_trace];
		if (!(call->op->out[i].flags & TRACE) || !call->out_count[i]) continue;
		trace_figures(t, call, i, truth, &unanchored, x);
		for (size_t k = 0; k < t->n; k++)
			if (!(t->entry[k].sigma <= t->limit))
				reason(v, FAIL, "out.%s: entry %zu: rms error %.4g sigma, at most %.3g", call->op->out[i].name, k, t->entry[k].sigma, t->limit);
		v->n_trace++;
	}
	answer_free(&unanchored);
	return true;
}

/* The outputs' figures under contract k, strip by strip, those of `widened` against noise in other algebra; *x: what is expected, of the last. */
static bool add_strips(const struct call *call, const struct contract *k, struct yardstick *y, bool all, unsigned widened, struct verdict *v,
	struct figures *f, const struct expected **x, struct error *e)
{
	const struct truth *t = &y->truth;

	for (size_t s = 0; s < y->strips; s++) {
		struct strip strip = call_strip(call, s, y->strips);
		if (!yardstick_refresh(y, call, s, false, e) || !(*x = yardstick_under(y, call, k, all, e))) return false;
		unsigned beyond = widened;
		#pragma omp parallel for schedule(dynamic) reduction(|: beyond)
		for (int o = 0; o < v->n_out; o++) beyond |= (unsigned)figures_beyond(call, v->out[o].out, &strip, &t->first, *x) << v->out[o].out;
		if (beyond && !yardstick_widen(y, call, k, all, beyond, e)) return false;
		if (!sample_wait(&y->truth.sample, e)) return false;
		bool ok = true;
		#pragma omp parallel for schedule(dynamic) reduction(&&: ok)
		for (int o = 0; o < v->n_out; o++) {
			int i = v->out[o].out;
			ok = figures_add(&f[o], call, &strip, &t->first, &t->second, *x) && ok;
			if (!v->operations) sample_add(&v->out[o].sample, &t->sample, call, i, strip.count[i], *x);
		}
		if (!ok) return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "the indices of a strip");
	}
	return true;
}

static bool measure_with(const struct call *call, const struct contract *k, struct yardstick *y, bool all, unsigned widened, struct verdict *v,
	const struct expected **x, struct error *e)
{
	struct figures f[MAX_OUT] = { { 0 } };
	bool ok = true;

	v->n_out = 0;
	for (int i = 0; ok && i < MAX_OUT; i++)
		if (call->out_count[i]) ok = figures_begin(&f[v->n_out], &v->out[v->n_out], call, i, e), v->n_out++;
	ok = ok && add_strips(call, k, y, all, widened, v, f, x, e);
	for (int o = 0; o < v->n_out; o++) {
		if (ok) figures_end(&f[o], call, *x);
		else figures_free(&f[o]);
		if (ok && v->operations) v->out[o].sample = sample_operations(&y->truth.sample, v->out[o].truth_error);
	}
	return ok;
}

/* Outputs that break a rule, but neither that of single elements (figures_beyond), of which what longer sums add may be in too few, nor the bias or the gain, which are
 * no noise. */
static unsigned short_of(const struct verdict *v)
{
	unsigned outputs = 0;

	for (int i = 0; i < v->n_out; i++) {
		const struct output_verdict *o = &v->out[i];
		bool within = true;
		for (int r = 0; r < RULE_COUNT; r++) within = within && (r == RULE_BIAS || r == RULE_GAIN || o->rule[r].value <= o->rule[r].limit);
		if (!within && !o->not_finite && o->rule[RULE_EXCESS].value <= o->rule[RULE_EXCESS].limit) outputs |= 1u << o->out;
	}
	return outputs;
}

static bool measure(const struct call *call, const struct contract *k, struct yardstick *y, bool all, struct verdict *v,
	const struct expected **x, struct error *e)
{
	if (!measure_with(call, k, y, all, 0, v, x, e)) return false;
	unsigned again = k->chunk ? short_of(v) : 0;
	return !again || measure_with(call, k, y, all, again, v, x, e);
}

/* *clear: with all the noisy runs that the work allows it would say the same. What fails does so by a margin; what passes, too, of the
 * limits of those runs, which are the lower and then its own. */
static void see_clear(struct verdict *v, const struct expected *x, int runs, bool *clear)
{
	bool within = true, beyond = false;

	for (int i = 0; i < v->n_out; i++) {
		struct output_verdict *o = &v->out[i];
		double limit[RULE_COUNT];
		figures_limits(limit, x, o->out, runs);
		limit[RULE_GAIN] = o->rule[RULE_GAIN].limit;    /* of its group, and of fresh runs alone */
		for (int r = 0; r < RULE_COUNT; r++) {
			beyond = beyond || clear_share * o->rule[r].value > o->rule[r].limit;
			if (o->names) limit[r] = o->rule[r].limit;
			if (v->outcome == PASS) o->rule[r].limit = limit[r];
			within = within && o->rule[r].value <= clear_share * limit[r];
		}
		within = within && o->truth_error <= clear_share * truth_share && o->sample.sigma <= clear_share * sample_share;
		beyond = beyond || o->not_finite || o->outside;
	}
	for (int i = 0; i < v->n_trace; i++)
		for (size_t k = 0; k < v->trace[i].n; k++) within = within && v->trace[i].entry[k].sigma <= clear_share * v->trace[i].limit;
	*clear = v->outcome == PASS ? within : v->outcome == FAIL && beyond;
}

static bool judge_from(const struct call *call, const struct contract *k, struct yardstick *y, bool all, struct verdict *v, bool *clear,
	struct error *e)
{
	const struct truth *t = &y->truth;
	const struct expected *x = NULL;
	int narrow = trace_too_narrow(call, k);

	*v = (struct verdict){ .op = call->op, .contract = k, .runs = yardstick_runs(y, all), .sampled = t->sample.stride > 0,
		.operations = t->sample.judged.elements };
	snprintf(v->truth, sizeof v->truth, "%s", t->name);
	snprintf(v->second, sizeof v->second, "%s", t->other);
	if (!strcmp(v->truth, "dd") && !v->sampled && !v->operations) reason(v, UNDECIDED, "the truth was not judged by MPFR");
	if (!finite_truth(call, y, v, e)) return false;
	*clear = v->outcome != PASS;
	if (*clear) return true;
	if (narrow >= 0)
		reason(v, FAIL, "out.%s: recorded in %s, which does not hold what the contract %s iterates on", call->op->out[narrow].name,
			dtype_info[out_dtype(call, narrow)].name, k->name);
	if (!measure(call, k, y, all, v, &x, e)) return false;
	for (int i = 0; i < v->n_out; i++) decide(call, v, &v->out[i]);
	if (!judge_traces(call, &t->first, x, v, e)) return false;
	if (!v->n_out) reason(v, UNDECIDED, "nothing was compared");
	else see_clear(v, x, yardstick_runs(y, true), clear);
	return true;
}

bool judge_under(const struct call *call, const struct contract *k, struct yardstick *y, struct verdict *v, struct error *e)
{
	bool clear = true, more = yardstick_runs(y, true) > yardstick_runs(y, false);

	return judge_from(call, k, y, false, v, &clear, e) && (clear || !more || judge_from(call, k, y, true, v, &clear, e));
}
