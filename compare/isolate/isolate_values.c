/* The law of values: each token's y, and the pools, against the reference. */
#include <math.h>
#include <stdlib.h>

#include "compare/print/print.h"
#include "compare/verdict/figures.h"
#include "isolate_values_private.h"

void hypothesis_free(struct hypothesis *h)
{
	answer_free(&h->a);
	expected_free(&h->expected);
}

void measured_free(struct measured *m)
{
	hypothesis_free(&m->truth);
	answer_free(&m->second);
	free(m->row);
	free(m->step);
	free(m->padding);
	free(m->written);
}

static bool run(const struct call *call, const struct arith *a, struct answer *to, struct error *e)
{
	struct plan plan = plan_plain(a, a->precision);

	return ref_run(call, &plan, to, e);
}

static int32_t integer(const struct capture *c, const char *name, size_t i)
{
	const struct tensor *t = capture_in(c, name);
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return (int32_t)x;
}

/* Which row a token is in, which step a row. */
static bool read_tables(struct measured *m, const struct capture *c, struct error *e)
{
	size_t rows = capture_in(c, "kinds")->count, steps = capture_in(c, "steps")->count - 1;

	m->tokens = capture_in(c, "write_slot")->count;
	m->n = m->call.out_count[OUT_Y] / m->tokens;
	m->row = calloc(m->tokens, sizeof *m->row);
	m->step = calloc(rows, sizeof *m->step);
	m->padding = calloc(rows, sizeof *m->padding);
	m->written = calloc(capture_in(c, "state_pool")->shape[0], sizeof *m->written);
	if (!m->row || !m->step || !m->padding || !m->written) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "%zu rows", rows);
	for (size_t r = 0; r < rows; r++) {
		m->padding[r] = integer(c, "kinds", r) == ROW_PADDING;
		for (int32_t t = integer(c, "cu_seqlens", r); t < integer(c, "cu_seqlens", r + 1); t++) m->row[t] = (int32_t)r;
	}
	for (size_t t = 0; t < m->tokens; t++)
		if (integer(c, "write_slot", t) >= 0) m->written[integer(c, "write_slot", t)] = true;
	for (size_t k = 0; k < steps; k++)
		for (int32_t r = integer(c, "steps", k); r < integer(c, "steps", k + 1); r++) m->step[r] = (int32_t)k;
	return true;
}

bool measure(struct measured *m, const struct capture *c, struct error *e)
{
	const char *name = c->contract ? c->contract : "f32";

	*m = (struct measured){ 0 };
	if (!call_bind(&m->call, c, true, e)) return false;
	int contract = op_contract(m->call.op, name);
	if (contract < 0) return error_set(e, E_UNKNOWN_NAME, name, NO_OFFSET, "expected a contract of %s", c->op);
	m->contract = &m->call.op->contracts[contract];
	m->limit = worst_limit(NOISY_RUNS, m->call.out_count[OUT_Y]);
	return read_tables(m, c, e);
}

struct plan measured_kernel(const struct measured *m, int fault)
{
	struct plan p = plan_plain(&arith_noisy, arith_noisy.precision);

	plan_contract(&p, m->contract);
	p.random = true;
	if (fault >= 0) plan_fault(&p, m->call.op, fault);
	return p;
}

/* The truth, and its expected error with all that the rules take from it. */
static bool expect(struct measured *m, struct error *e)
{
	struct plan right = measured_kernel(m, -1);

	return run(&m->call, &arith_f64, &m->truth.a, e) && run(&m->call, &arith_f64up, &m->second, e)
		&& expected_make(&m->truth.expected, &m->call, &right, &m->truth.a, NOISY_RUNS, e);
}

double got_at(const struct call *call, int out, size_t i)
{
	const struct tensor *t = call->out[out];
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return x;
}

double error_at(const struct measured *m, const struct hypothesis *h, int out, size_t i)
{
	double got = got_at(&m->call, out, i), hi = h->a.hi[out][i];

	if (!(h->expected.sigma[out][i] > 0)) return got == stored_as(m->call.out[out]->dtype, hi, 0) ? 0 : INFINITY;
	double z = fabs(in_sigma(got, hi, 0, h->expected.sigma[out][i]));
	return isnan(z) ? INFINITY : z;
}

/* The first wrong element of a token's y, or its number of elements. */
static size_t wrong_in_token(const struct measured *m, const struct hypothesis *h, size_t token, double limit)
{
	size_t i = 0;

	while (i < m->n && error_at(m, h, OUT_Y, token * m->n + i) <= limit) i++;
	return i;
}

/* The error of n elements from i on, as a share of their size: root mean squares. */
static double share_of(const struct measured *m, int out, size_t i, size_t n)
{
	double error = 0, size = 0;

	for (; n; i++, n--) {
		double exact = m->truth.a.hi[out][i], off = got_at(&m->call, out, i) - exact;
		error += off * off;
		size += exact * exact;
	}
	return isnan(error) || !(size > 0) ? INFINITY : sqrt(error / size);
}

static void say_token(struct values *v, const struct measured *m, size_t token, size_t element)
{
	const struct capture *c = m->call.capture;
	int32_t row = m->row[token], read = integer(c, "read_slot", (size_t)row);
	int32_t slot = read >= 0 ? read : integer(c, "write_slot", (size_t)integer(c, "cu_seqlens", (size_t)row + 1) - 1);
	size_t at = token * m->n + element;
	char text[96], sigma[RATIO];

	v->first_wrong = token;
	v->breach = (struct breach){ "values", m->step[row], -1, slot, (int)(element / (m->n / m->call.out[OUT_Y]->shape[1])), "", false };
	snprintf(v->breach.what, sizeof v->breach.what,
		"y%s of row %d is %.6g, alone it would be %.6g: %s sigma",
		index_text(&m->call, OUT_Y, at, text, sizeof text), row,
		got_at(&m->call, OUT_Y, at), m->truth.a.hi[OUT_Y][at],
		ratio_text(error_at(m, &m->truth, OUT_Y, at), 3, sigma));
}

/* A rule of the verdict that y breaks as a whole: its worst element stands for it. */
static void say_rule(struct values *v, const struct measured *m, const struct output_verdict *o)
{
	char text[96];

	for (int i = 0; i < RULE_COUNT && !v->breach.law; i++) {
		if (o->rule[i].value <= o->rule[i].limit && !o->not_finite) continue;
		v->breach = (struct breach){ "values", -1, -1, -1, -1, "", false };
		snprintf(v->breach.what, sizeof v->breach.what, "y%s is %.6g, expected %.6g: %s error %.3g sigma, at most %.3g",
			index_text(&m->call, OUT_Y, o->worst.index, text, sizeof text), o->worst.got, o->worst.expected, rule_name[i],
			o->rule[i].value, o->rule[i].limit);
	}
}

/* The first wrong element of a pool in a slot that a token writes; other slots are the law untouched's. */
static void say_pool(struct values *v, const struct measured *m, const struct output_verdict *o)
{
	const struct tensor *t = m->call.out[o->out];
	size_t slots = t->shape[0], outer = t->count / slots;
	char text[96], sigma[RATIO];

	for (size_t i = 0; i < t->count && !v->breach.law; i++) {
		if (!m->written[i / outer]) {
			i += outer - 1;
			continue;
		}
		if (error_at(m, &m->truth, o->out, i) <= o->rule[RULE_WORST].limit) continue;
		v->share = fmax(v->share, share_of(m, o->out, i / outer * outer, outer));
		v->breach = (struct breach){ "values", -1, -1, (int)(i / outer), (int)(i % outer / (outer / t->shape[1])), "", false };
		snprintf(v->breach.what, sizeof v->breach.what,
			"%s%s is %.6g, alone it would be %.6g: %s sigma",
			m->call.op->out[o->out].name,
			index_text(&m->call, o->out, i, text, sizeof text),
			got_at(&m->call, o->out, i), m->truth.a.hi[o->out][i],
			ratio_text(error_at(m, &m->truth, o->out, i), 3, sigma));
	}
}

bool values_of(struct values *v, const struct capture *c, struct error *e)
{
	struct measured m;
	struct output_verdict o[MAX_OUT];
	bool ok = measure(&m, c, e) && expect(&m, e);

	*v = (struct values){ 0 };
	for (int i = 0; ok && i < MAX_OUT; i++)
		if (m.call.out_count[i]) ok = figures(&o[i], &m.call, i, &m.truth.a, &m.second, &m.truth.expected, e);
	for (size_t t = 0; ok && t < m.tokens; t++) {
		if (m.padding[m.row[t]]) continue;
		size_t at = wrong_in_token(&m, &m.truth, t, o[OUT_Y].rule[RULE_WORST].limit);
		v->tokens++;
		if (at == m.n) continue;
		v->share = fmax(v->share, share_of(&m, OUT_Y, t * m.n, m.n));
		if (!v->wrong++) say_token(v, &m, t, at);
	}
	if (ok) say_rule(v, &m, &o[OUT_Y]);
	for (int i = OUT_Y + 1; ok && i < MAX_OUT; i++)
		if (m.call.out_count[i]) say_pool(v, &m, &o[i]);
	if (ok) v->worst = o[OUT_Y].rule[RULE_WORST].value;
	measured_free(&m);
	return ok;
}

bool values_judge(struct values *v, const struct play *p, struct error *e)
{
	struct capture c;

	if (!play_capture(&c, p, e)) return false;
	bool ok = values_of(v, &c, e);
	capture_free(&c);
	if (ok && v->wrong) {
		const struct play_token *t = &p->token[v->first_wrong];
		v->breach.request = p->row[t->row].request;
		v->breach.step = p->row[t->row].step;
	}
	return ok;
}
