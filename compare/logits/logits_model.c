/* A model's runs as sources of logits. */
#include "logits_model.h"

enum { AT_ONCE = 128 };         /* each time the whole head is read */

static const void *model_rows(struct logit_source *s, size_t first, size_t n, struct error *e)
{
	struct model_answer *a = (struct model_answer *)s;

	values_free(&a->block);
	return model_logits(a->model, &a->plan, &a->hidden, a->skip + first, n, &a->block, e) ? a->block.hi : NULL;
}

/* Without a hidden state, but for known's, which it takes over; NULL: none. */
static struct model_answer answer_of(const struct model_question *q, const struct model_plan *p, const char *name,
	struct values *known)
{
	struct model_answer a = { .model = q->model, .plan = *p, .skip = q->n - q->positions, .source = {
		.name = name, .positions = q->positions, .vocabulary = q->model->config.vocabulary, .type = DT_F64, .rows = model_rows,
		.at_once = AT_ONCE } };

	if (!known) return a;
	a.hidden = *known;
	*known = (struct values){ 0 };
	return a;
}

bool model_answer_make(struct model_answer *a, const struct model_question *q, const struct model_plan *p, const char *name,
	struct error *e)
{
	*a = answer_of(q, p, name, NULL);
	return model_run_last(q->model, p, q->ids, q->n, &a->hidden, e);
}

void model_answer_free(struct model_answer *a)
{
	values_free(&a->hidden);
	values_free(&a->block);
	*a = (struct model_answer){ 0 };
}

/* The plan that rounds where the contract allows; false where there is none of that name. */
static bool plan_under(struct model_plan *p, const struct arith *a, int bits, const char *contract, struct error *e)
{
	*p = model_plan_plain(a, bits);
	return model_plan_contract(p, contract, e);
}

static bool rounds(const struct model_plan *p)
{
	for (int part = 0; part < MODEL_PARTS; part++)
		for (int i = 0; i < MAX_SITE; i++)
			if (p->part[part].round[i].on) return true;
	return false;
}

static bool noisy_run(struct model_answer *a, const struct model_question *q, size_t k, struct error *e)
{
	struct model_plan p;

	if (!plan_under(&p, &arith_noisy, arith_noisy.precision, q->contract, e)) return false;
	for (int part = 0; part < MODEL_PARTS; part++) {
		p.part[part].random = true;
		p.part[part].seed = k + 1;
	}
	return model_answer_make(a, q, &p, "a noisy run", e);
}

static bool take_or_make(struct model_answer *a, const struct model_question *q, const struct model_plan *p, const char *name,
	struct values *known, struct error *e)
{
	if (!known || !known->hi || q->truth != &arith_f64) return model_answer_make(a, q, p, name, e);
	*a = answer_of(q, p, name, known);
	return true;
}

static bool make(struct model_reference *r, const struct model_question *q, struct error *e)
{
	struct model_plan exact = model_plan_plain(q->truth, q->bits), emulation;

	if (!plan_under(&emulation, q->truth, q->bits, q->contract, e)) return false;
	for (int part = 0; part < MODEL_PARTS; part++)
		if (q->sums[part]) emulation.part[part].arith = q->sums[part], emulation.part[part].bits = q->sums[part]->precision;
	if (!take_or_make(&r->truth, q, &exact, "the reference", q->exact, e)) return false;
	r->has_emulation = rounds(&emulation);
	if (r->has_emulation && !take_or_make(&r->emulation, q, &emulation, "the emulation", q->emulation, e)) return false;
	for (; r->n_noise < q->runs; r->n_noise++) {
		watch_tick(q->watch, "noisy runs", r->n_noise, q->runs);
		if (!noisy_run(&r->noise[r->n_noise], q, r->n_noise, e)) return false;
	}
	watch_tick(q->watch, "noisy runs", q->runs, q->runs);
	return true;
}

bool model_reference_make(struct model_reference *r, const struct model_question *q, struct error *e)
{
	*r = (struct model_reference){ 0 };
	if (make(r, q, e)) return true;
	model_reference_free(r);
	return false;
}

void model_reference_free(struct model_reference *r)
{
	model_answer_free(&r->truth);
	model_answer_free(&r->emulation);
	for (size_t k = 0; k < MAX_NOISE; k++) model_answer_free(&r->noise[k]);
	*r = (struct model_reference){ 0 };
}
