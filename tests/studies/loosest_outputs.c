/* A right kernel's outputs, multiplied, moved and made noisy: what passes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "loosest.h"

enum change { GAIN, OFFSET, ROW, COLUMN, ELEMENT, NOISE };
static const char *const change_name[] = { "gain", "offset", "row", "column", "element", "noise" };

/* Bisection of what passes, on a logarithmic scale: to a factor of 1.02. */
static const double least = 1e-7, greatest = 10;
enum { HALVINGS = 10 };

/* A right kernel's numbers before they are stored, and a typical element of the first output: the
 * one whose magnitude is nearest the output's rms. */
struct outputs {
	struct setting s;
	struct answer right;
	int first;
	size_t typical, row;
};

static bool is_changed(const struct call *call, int i)
{
	return call->out_count[i] && !(call->op->out[i].flags & (INTEGER | TRACE | NAMES))
		&& dtype_info[call->out[i]->dtype].is_float;
}

static double rms_of(const double *x, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
	return n ? sqrt(sum / (double)n) : 0;
}

static size_t nearest(const double *x, size_t n, double to)
{
	size_t best = 0;

	for (size_t i = 0; i < n; i++)
		if (fabs(fabs(x[i]) - to) < fabs(fabs(x[best]) - to)) best = i;
	return best;
}

static bool outputs_make(
	struct outputs *o, const struct kernel *k, const struct test_case *t, struct error *e)
{
	struct plan p = model_plan(&k->model, NULL);
	struct call free_running;

	*o = (struct outputs){ .first = 0 };
	if (!setting_make(&o->s, k, t, e) || !call_bind(&free_running, &o->s.capture, false, e)
		|| !ref_run(&free_running, &p, &o->right, e))
		return false;
	while (o->first < MAX_OUT - 1 && !is_changed(&o->s.call, o->first)) o->first++;
	const struct tensor *out = o->s.call.out[o->first];
	if (!is_changed(&o->s.call, o->first))
		return error_set(
			e, E_UNKNOWN_NAME, k->model.op->name, NO_OFFSET, "no output to change");
	o->typical = nearest(
		o->right.hi[o->first], out->count, rms_of(o->right.hi[o->first], out->count));
	o->row = out->shape[out->rank - 1];
	return true;
}

static void outputs_free(struct outputs *o)
{
	setting_free(&o->s);
	answer_free(&o->right);
}

static double normal(size_t i)
{
	double u = ((double)(random_at(2 * i + 1) >> 11) + 0.5) * 0x1p-53,
	       v = (double)(random_at(2 * i + 2) >> 11) * 0x1p-53;

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static double changed(
	const struct outputs *o, enum change c, double by, double rms, double x, size_t i)
{
	switch (c) {
	case GAIN: return x * (1 + by);
	case OFFSET: return x + by * rms;
	case ROW: return i / o->row == o->typical / o->row ? x * (1 + by) : x;
	case COLUMN: return i % o->row == o->typical % o->row ? x * (1 + by) : x;
	case ELEMENT: return i == o->typical ? x * (1 + by) : x;
	case NOISE: return x * (1 + by * normal(i));
	}
	return x;
}

/* Stores the first output changed, or all, the others as they are. */
static bool store(const struct outputs *o, enum change c, double by, bool all)
{
	for (int i = 0; i < MAX_OUT; i++) {
		const struct call *call = &o->s.call;
		size_t n = call->out_count[i];
		if (!n) continue;
		double *x = malloc(n * sizeof *x), rms = rms_of(o->right.hi[i], n);
		if (!x) return false;
		bool change = is_changed(call, i) && (all || i == o->first);
		for (size_t j = 0; j < n; j++)
			x[j] = change ? changed(o, c, by, rms, o->right.hi[i][j], j)
				      : o->right.hi[i][j];
		dtype_store(call->out[i]->dtype, x, n, call->out[i]->data);
		free(x);
	}
	return true;
}

static bool judged(struct outputs *o, enum change c, double by, bool all, bool choose,
	struct verdict *v, struct error *e)
{
	if (!store(o, c, by, all))
		return error_set(e, E_MEMORY, o->s.call.op->name, NO_OFFSET, "an output");
	return setting_judge(
		&o->s, choose ? "auto" : o->s.kernel->model.contract->name, !choose, v, e);
}

static bool one_gain(struct rows *r, struct outputs *o, enum change c, double by, bool with_auto,
	struct error *e)
{
	char what[MAX_NAME], kernel[MAX_NAME];
	struct verdict v;
	double start = processor_seconds();

	snprintf(what, sizeof what, "%s %g %%", change_name[c], 100 * by);
	snprintf(kernel, sizeof kernel, "%s%s", with_auto ? "auto, " : "", o->s.kernel->name);
	struct row row = row_named(GAINS, o->s.call.op->name, kernel, what, o->s.kase->name);
	if (row_is_done(r, &row)) return true;
	if (!judged(o, c, by, true, with_auto, &v, e)) return false;
	if (with_auto) {
		row.chosen_outcome = (int)v.outcome;
		snprintf(row.chosen, sizeof row.chosen, "%s", v.contract->name);
	} else {
		row.own_outcome = (int)v.outcome;
	}
	return row_add(r, &row, start, e);
}

/* The dearest of the cheapest few: a call of one token has little to say. */
static const struct test_case *usual_case(const struct kernel *k)
{
	enum { FEW = 3 };
	const struct test_case *kase[FEW + 1];
	int n = cases_for(k, kase, FEW);

	return n ? kase[n - 1] : NULL;
}

bool fill_gains(struct rows *r, const struct kernel *k, bool with_auto, struct error *e)
{
	static const double by[] = { 0.001, 0.003, 0.01, 0.03 };
	const struct test_case *t = usual_case(k);
	struct outputs o;

	if (!t) return true;
	bool ok = outputs_make(&o, k, t, e);
	for (size_t i = 0; ok && i < 2 * sizeof by / sizeof *by; i++)
		ok = one_gain(r, &o, i % 2 ? OFFSET : GAIN, by[i / 2], with_auto, e);
	outputs_free(&o);
	return ok;
}

/* The largest change that passes: 0 where the least fails, infinite where the greatest passes. */
static bool bisect(struct outputs *o, enum change c, double *most, struct error *e)
{
	double low = least, high = greatest;
	struct verdict v;

	*most = 0;
	if (!judged(o, c, low, false, false, &v, e)) return false;
	if (v.outcome != PASS) return true;
	if (!judged(o, c, high, false, false, &v, e)) return false;
	for (int i = 0; i < HALVINGS && v.outcome != PASS; i++) {
		double middle = sqrt(low * high);
		struct verdict w;
		if (!judged(o, c, middle, false, false, &w, e)) return false;
		if (w.outcome == PASS) low = middle;
		else high = middle;
	}
	*most = v.outcome == PASS ? (double)INFINITY : low;
	return true;
}

bool fill_largest(struct rows *r, const struct kernel *k, struct error *e)
{
	static const enum change changes[] = { GAIN, ROW, COLUMN, ELEMENT, NOISE };
	const struct test_case *t = usual_case(k);
	struct outputs o;

	if (!t) return true;
	bool ok = outputs_make(&o, k, t, e);
	for (size_t i = 0; ok && i < sizeof changes / sizeof *changes; i++) {
		struct row row = row_named(
			LARGEST, k->model.op->name, k->name, change_name[changes[i]], t->name);
		double start = processor_seconds();
		if (!row_is_done(r, &row))
			ok = bisect(&o, changes[i], &row.value, e) && row_add(r, &row, start, e);
	}
	outputs_free(&o);
	return ok;
}
