/* How good a model's reference is, on its first tokens. */
#include <math.h>

#include "logits_model.h"

enum { MOST_WORK = 34 };

/* Logits of the first n tokens, freed with values_free. */
static bool run(const struct model_question *q, const struct arith *a, int bits, size_t n, struct values *logits, struct error *e)
{
	struct model_plan p = model_plan_plain(a, bits);
	struct values hidden;

	if (!model_run_last(q->model, &p, q->ids, n, &hidden, e)) return false;
	bool ok = model_logits(q->model, &p, &hidden, 0, n, logits, e);
	values_free(&hidden);
	return ok;
}

/* Infinities and NaN in both are equal. */
static double row_rms(const struct values *a, const struct values *b, size_t row)
{
	double square = 0;

	for (size_t i = row * a->cols; i < (row + 1) * a->cols; i++) {
		bool same = a->hi[i] == b->hi[i] || (isnan(a->hi[i]) && isnan(b->hi[i]));
		double low = (a->lo ? a->lo[i] : 0) - (b->lo ? b->lo[i] : 0), apart = same ? low : (a->hi[i] - b->hi[i]) + low;
		square += apart * apart;
	}
	return sqrt(square / (double)a->cols);
}

bool model_truth_error(const struct model_question *q, struct truth_error *t, struct error *e)
{
	size_t n = ((uint64_t)1 << MOST_WORK) / model_work(q->model);
	struct values a = { 0 }, b = { 0 };

	*t = (struct truth_error){ .by = q->truth->wide ? &arith_f64 : &arith_dd, .tokens = n < 1 ? 1 : n < q->n ? n : q->n };
	bool ok = run(q, q->truth, q->bits, t->tokens, &a, e) && run(q, t->by, t->by->precision, t->tokens, &b, e);
	for (size_t i = 0; ok && i < t->tokens; i++) {
		double rms = row_rms(&a, &b, i);
		if (!(rms <= t->rms)) t->rms = rms;
	}
	values_free(&a);
	values_free(&b);
	return ok;
}
