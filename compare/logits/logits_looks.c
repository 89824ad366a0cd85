/* What is plain about logits that fail: it is said before any fault is searched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "logits_causes.h"

/* Positions that are looked at. */
enum { LOOKED = 64 };

/* Σ of squares over the positions: of the error, and of what is left of it. cross, square: got with the reference, the reference. */
struct sums { double error, before, behind, normed, cross, square, got; };

static double log_sum(const double *x, size_t n)
{
	double most = x[0], sum = 0;

	for (size_t i = 1; i < n; i++) most = fmax(most, x[i]);
	for (size_t i = 0; i < n; i++) sum += exp(x[i] - most);
	return most + log(sum);
}

static double apart(const double *x, const double *y, double less, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) sum += (x[i] - (y[i] - less)) * (x[i] - (y[i] - less));
	return sum;
}

/* The same positions for all: those with a neighbour on both sides. */
static struct sums add_up(const double *got, const double *ref, size_t rows, size_t V)
{
	struct sums s = { 0 };

	for (size_t t = 1; t + 1 < rows; t++) {
		const double *x = got + t * V, *y = ref + t * V;
		s.error += apart(x, y, 0, V);
		s.before += apart(x, y - V, 0, V);
		s.behind += apart(x, y + V, 0, V);
		s.normed += apart(x, y, log_sum(y, V), V);
		for (size_t i = 0; i < V; i++) s.cross += x[i] * y[i], s.square += y[i] * y[i], s.got += x[i] * x[i];
	}
	return s;
}

static double allowed(const struct logit_report *r, size_t rows)
{
	double sum = 0;

	for (size_t t = 1; t + 1 < rows; t++) sum += r->position[t].sigma * r->position[t].sigma;
	return sum * (double)r->vocabulary * r->rule[LOGIT_RMS].limit * r->rule[LOGIT_RMS].limit;
}

static bool leaves(double left, double error, double most) { return left < plain_leaves * error && left <= most; }

/* The engine's logits and the reference's of the first rows; NULL: out of memory. */
static bool load(const struct model_reference *m, const struct logit_source *got, size_t rows, double **x, struct values *y)
{
	*x = malloc(rows * got->vocabulary * sizeof **x);
	if (!*x || !model_logits(m->truth.model, &m->truth.plan, &m->truth.hidden, m->truth.skip, rows, y, NULL)) return false;
	dtype_load(got->tensor->dtype, got->tensor->data, rows * got->vocabulary, *x);
	return true;
}

/* Logits of the ids one place on or back. */
static bool shifted(const struct model_reference *m, const struct model_question *q, const double *got, size_t rows, int by, double *left)
{
	size_t *ids = malloc(q->n * sizeof *ids), V = q->model->config.vocabulary;
	struct values hidden, y;

	for (size_t t = 0; ids && t < q->n; t++) ids[t] = q->ids[by < 0 ? (t ? t - 1 : 0) : t + 1 < q->n ? t + 1 : t];
	bool ok = ids && model_run_last(q->model, &m->truth.plan, ids, q->n, &hidden, NULL);
	free(ids);
	if (!ok) return false;
	ok = model_logits(q->model, &m->truth.plan, &hidden, 0, rows, &y, NULL);
	values_free(&hidden);
	if (!ok) return false;
	*left = 0;
	for (size_t t = 1; t + 1 < rows; t++) *left += apart(got + t * V, y.hi + t * V, 0, V);
	values_free(&y);
	return true;
}

bool logits_look(const struct model_reference *m, const struct model_question *q, const struct logit_source *got,
	struct logit_report *r, char *text, size_t size)
{
	size_t rows = got->positions < LOOKED ? got->positions : LOOKED;
	double *x = NULL, most = allowed(r, rows), left;
	struct values y = { 0 };

	*text = 0;
	if (rows < 3 || !load(m, got, rows, &x, &y)) return free(x), rows < 3;
	struct sums s = add_up(x, y.hi, rows, got->vocabulary);
	double times = s.cross / s.square, scaled = s.got - s.cross * times;
	if (leaves(s.before, s.error, most)) snprintf(text, size, "each position has the logits of the one before: they are shifted by one");
	else if (leaves(s.behind, s.error, most)) snprintf(text, size, "each position has the logits of the one behind: they are shifted by one");
	else if (leaves(s.normed, s.error, most)) snprintf(text, size, "the logits are log-probabilities: less each row's log of the sum of e^x");
	else if (leaves(scaled, s.error, most)) snprintf(text, size, "the logits are %.4g times as large: a temperature of %.4g", times, 1 / times);
	bool ok = true;
	for (int by = -1; by <= 1 && !*text && ok && q->n == got->positions; by += 2) {
		ok = shifted(m, q, x, rows, by, &left);
		if (ok && leaves(left, s.error, most))
			snprintf(text, size, "the logits are those of the ids one place %s: the ids are shifted by one", by < 0 ? "back" : "on");
	}
	free(x);
	values_free(&y);
	return ok;
}
