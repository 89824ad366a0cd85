#include "subject.h"

#include <math.h>
#include <string.h>

#include "compare/truth/answered.h"

static void store(const struct call *call, struct answer *a)
{
	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; a->hi[i] && j < call->out_count[i]; j++)
			a->hi[i][j] = stored_as(out_dtype(call, i), a->hi[i][j], a->lo[i] ? a->lo[i][j] : 0);
}

bool subject_make(struct subject *s, struct capture *c, const struct reference *r, struct error *e)
{
	struct plan p = plan_plain(r->arith, r->bits);

	*s = (struct subject){ .capture = *c };
	memset(c, 0, sizeof *c);
	if (!call_bind(&s->call, &s->capture, false, e)) return false;
	if (s->call.op->forms[0].chunked) p.chunk = DEFAULT_CHUNK;
	if (!ref_run(&s->call, &p, &s->want, e)) return false;
	s->made = true;
	if (!r->wide) store(&s->call, &s->want);
	return true;
}

void subject_free(struct subject *s)
{
	if (s->has_yardstick) yardstick_free(&s->yardstick);
	if (s->made) answer_free(&s->want);
	capture_free(&s->capture);
	*s = (struct subject){ 0 };
}

bool subject_answer(const struct subject *s, const struct plan *kernel, struct answer *got, struct error *e)
{
	if (!ref_run(&s->call, kernel, got, e)) return false;
	store(&s->call, got);
	return true;
}

static bool judged(struct subject *s, const struct capture *c, const struct judging *how, enum outcome *outcome, struct error *e)
{
	struct verdict v;

	if (!judge_by(&s->yardstick, c, how, &v, e)) return false;
	*outcome = v.outcome;
	return true;
}

bool subject_judge(struct subject *s, struct answer *got, const struct contract *k, bool rules_alone, enum outcome *outcome, struct error *e)
{
	struct judging how = { .contract = k->name, .quick = true };
	struct capture c = { 0 };

	if (!s->has_yardstick) {
		s->has_yardstick = true;
		if (!yardstick_make(&s->yardstick, &s->call, &(struct yardstick_of){ 0 }, NULL, e)) return false;
	}
	bool ok = answered(&c.tensors, &s->call, got, "etalon audit") || error_set(e, E_MEMORY, s->call.op->name, NO_OFFSET, "an answer");
	ok = ok && capture_bind(&c, e) && judged(s, &c, &how, outcome, e);
	how.quick = false;
	if (ok && *outcome != FAIL && !rules_alone) ok = judged(s, &c, &how, outcome, e);
	capture_free(&c);
	return ok;
}

struct plan faulty_kernel(const struct op *op, const struct contract *k, int m, double value, const struct contract **under)
{
	struct plan p = plan_plain(&arith_f32, 24);
	int form = m < 0 ? -1 : op->faults[m].form;

	*under = k;
	if (form >= 0 && form != k->form) {
		for (*under = op->contracts; (*under)->name && (*under)->form != form;) ++*under;
		p.form = form;
		p.chunk = op->forms[form].chunked ? DEFAULT_CHUNK : 0;
		if (!(*under)->name) *under = k;
	} else plan_contract(&p, k);
	if (m >= 0) plan_fault_at(&p, op, m, value);
	return p;
}

double answers_apart(const struct call *call, const struct answer *a, const struct answer *b)
{
	double most = 0;

	for (int i = 0; i < MAX_OUT; i++) {
		double square = 0, all = 0;
		for (size_t j = 0; a->hi[i] && j < call->out_count[i]; j++) {
			double x = a->hi[i][j], y = b->hi[i][j];
			if (x == y || (isnan(x) && isnan(y))) continue;
			square += (x - y) * (x - y);
		}
		for (size_t j = 0; square != 0 && j < call->out_count[i]; j++) all += b->hi[i][j] * b->hi[i][j];
		double share = square != 0 ? sqrt(square / all) : 0;
		most = isfinite(share) ? fmax(most, share) : (double)INFINITY;
	}
	return most;
}
