#include "isolate_values.h"

#include <math.h>
#include <stdlib.h>

#include "figures.h"

/* Noisy runs behind sigma: enough to see the size of an error, few enough to play hundreds of steps. */
enum { NOISY_RUNS = 6 };
enum { OUT_Y };                         /* of mixed_batch: see ref/mixed_batch.c */

struct measured { struct capture capture; struct call call; struct answer truth, second; struct expected expected; };

static void measured_free(struct measured *m)
{
	answer_free(&m->truth);
	answer_free(&m->second);
	expected_free(&m->expected);
	capture_free(&m->capture);
}

static bool run(const struct call *call, const struct arith *a, int mistake, struct answer *to, struct error *e)
{
	struct plan plan = plan_plain(a, a->precision);

	if (mistake >= 0) plan_mistake(&plan, call->op, mistake);
	return ref_run(call, &plan, to, e);
}

/* The truth of a play and its expected error; freed also when false. */
static bool measure(struct measured *m, const struct play *p, struct error *e)
{
	struct plan noisy = plan_plain(&arith_noisy, arith_noisy.precision);

	*m = (struct measured){ 0 };
	if (!play_capture(&m->capture, p, e) || !call_bind(&m->call, &m->capture, true, e)) return false;
	plan_contract(&noisy, &m->call.op->contracts[op_contract(m->call.op, m->capture.contract)]);
	noisy.random = true;
	return run(&m->call, &arith_f64, -1, &m->truth, e) && run(&m->call, &arith_f64up, -1, &m->second, e)
		&& expected_make(&m->expected, &m->call, &noisy, &m->truth, NOISY_RUNS, e);
}

static double got_at(const struct call *call, int out, size_t i)
{
	const struct tensor *t = call->out[out];
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return x;
}

/* Error of element i in sigma; an element that must be exact and is not has an infinite one. */
static double error_at(const struct measured *m, int out, size_t i)
{
	double got = got_at(&m->call, out, i), hi = m->truth.hi[out][i];

	if (!(m->expected.sigma[out][i] > 0)) return got == stored_as(m->call.out[out]->dtype, hi, 0) ? 0 : INFINITY;
	double z = fabs(in_sigma(got, hi, 0, m->expected.sigma[out][i]));
	return isnan(z) ? INFINITY : z;
}

/* The first wrong element of a token's y, or its number of elements. */
static size_t wrong_in_token(const struct measured *m, const struct play *p, size_t token, double limit)
{
	size_t n = setup_y_elements(p->setup), i = 0;

	while (i < n && error_at(m, OUT_Y, token * n + i) <= limit) i++;
	return i;
}

static void say_token(struct values *v, const struct measured *m, const struct play *p, size_t token, size_t element)
{
	const struct play_row *row = &p->row[p->token[token].row];
	size_t n = setup_y_elements(p->setup), layers = (size_t)p->setup->shape.layers, at = token * n + element;
	char text[96];

	v->breach = (struct breach){ "values", row->step, row->request, row->read_slot, (int)(element / (n / layers)), "" };
	snprintf(v->breach.what, sizeof v->breach.what, "y%s of request %d (its token %zu) is %.6g, alone it would be %.6g: %.3g sigma",
		index_text(&m->call, OUT_Y, at, text, sizeof text), row->request, p->token[token].fed, got_at(&m->call, OUT_Y, at),
		m->truth.hi[OUT_Y][at], error_at(m, OUT_Y, at));
}

/* A rule of the verdict that an output breaks: the worst element stands for it. */
static void say_output(struct values *v, const struct measured *m, const struct play *p, const struct output_verdict *o)
{
	const char *name = m->call.op->out[o->out].name;
	size_t row = 1, layers = (size_t)p->setup->shape.layers;
	char text[96];

	for (int i = 0; i < RULE_COUNT && !v->breach.law; i++) {
		if (o->rule[i].value <= o->rule[i].limit && !o->not_finite) continue;
		for (size_t d = 1; d < (size_t)m->call.out[o->out]->rank; d++) row *= m->call.out[o->out]->shape[d];
		size_t slot = o->worst.index / row, layer = o->worst.index % row / (row / layers);
		v->breach = (struct breach){ "values", -1, -1, o->out == OUT_Y ? -1 : (int)slot, (int)layer, "" };
		snprintf(v->breach.what, sizeof v->breach.what, "%s%s is %.6g, expected %.6g: %s error %.3g sigma, at most %.3g", name,
			index_text(&m->call, o->out, o->worst.index, text, sizeof text), o->worst.got, o->worst.expected, rule_name[i],
			o->rule[i].value, o->rule[i].limit);
	}
}

bool values_judge(struct values *v, const struct play *p, struct error *e)
{
	struct measured m;
	struct output_verdict o[MAX_OUT];
	bool ok = measure(&m, p, e);

	*v = (struct values){ .tokens = p->fed };
	for (int i = 0; ok && i < MAX_OUT; i++)
		if (m.call.out_count[i]) ok = figures(&o[i], &m.call, i, &m.truth, &m.second, &m.expected, e);
	if (ok) {
		double limit = o[OUT_Y].rule[RULE_WORST].limit;
		v->worst = o[OUT_Y].rule[RULE_WORST].value;
		for (size_t t = 0; t < p->tokens; t++) {
			size_t at = p->row[p->token[t].row].request < 0 ? setup_y_elements(p->setup) : wrong_in_token(&m, p, t, limit);
			if (at == setup_y_elements(p->setup)) continue;
			if (!v->wrong++) say_token(v, &m, p, t, at);
		}
		for (int i = 0; i < MAX_OUT; i++)
			if (m.call.out_count[i]) say_output(v, &m, p, &o[i]);
	}
	measured_free(&m);
	return ok;
}

/* Is a token's y what the mistake makes of it, up to the error expected and float32's of larger numbers? */
static bool fits(const struct measured *m, const struct play *p, const struct answer *a, size_t token, double limit)
{
	size_t n = setup_y_elements(p->setup);

	for (size_t i = token * n; i < (token + 1) * n; i++) {
		double want = a->hi[OUT_Y][i], got = got_at(&m->call, OUT_Y, i);
		if (!(fabs(got - want) <= limit * m->expected.sigma[OUT_Y][i] + 1e-3 * fabs(want))) return false;
	}
	return true;
}

bool values_name(struct named *n, const struct play *p, struct error *e)
{
	struct measured m;
	bool ok = measure(&m, p, e), *wrong = calloc(p->tokens + 1, sizeof *wrong);
	double limit = 20;
	size_t best = 0;

	*n = (struct named){ 0 };
	if (ok && !wrong) ok = error_set(e, E_MEMORY, "isolate", NO_OFFSET, "%zu tokens", p->tokens);
	for (size_t t = 0; ok && t < p->tokens; t++)
		n->wrong += wrong[t] = p->row[p->token[t].row].request >= 0 && !fits(&m, p, &m.truth, t, limit);
	for (int i = 0; ok && n->wrong && m.call.op->mistakes[i].name; i++) {
		struct answer a;
		size_t explained = 0, spoilt = 0;
		if (!(ok = run(&m.call, &arith_f64, i, &a, e))) break;
		for (size_t t = 0; t < p->tokens; t++) {
			if (p->row[p->token[t].row].request < 0) continue;
			bool fit = fits(&m, p, &a, t, limit);
			explained += wrong[t] && fit;
			spoilt += !wrong[t] && !fit;
		}
		answer_free(&a);
		size_t score = explained > spoilt ? explained - spoilt : 0;
		if (score == best) n->alone = n->alone && score == 0;
		if (score <= best) continue;
		best = score;
		*n = (struct named){ &m.call.op->mistakes[i], n->wrong, explained, true };
	}
	if (2 * n->explained < n->wrong) n->mistake = NULL;
	free(wrong);
	measured_free(&m);
	return ok;
}
