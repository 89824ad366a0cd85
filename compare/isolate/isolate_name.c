/* Which fault's answers are those of a capture or a play, and which would have shown. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isolate_values_private.h"

/* The answer of h, a fault or -1 the truth, and its expected error; of every stride-th piece, where above 1. */
static bool suppose(const struct measured *m, struct hypothesis *h, int fault, size_t stride, struct error *e)
{
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision), p = measured_kernel(m, fault);

	*h = (struct hypothesis){ 0 };
	if (fault >= 0) plan_fault(&exact, m->call.op, fault);
	exact.stride = p.stride = stride;
	return ref_run(&m->call, &exact, &h->a, e) && expected_sigma(&h->expected, &m->call, &p, &h->a, NOISY_RUNS, e);
}

/* Elements i .. i+n-1 of y: what a kernel of this hypothesis may store? */
static bool fits(const struct measured *m, const struct hypothesis *h, size_t i, size_t n)
{
	while (n && error_at(m, h, OUT_Y, i) <= m->limit) i++, n--;
	return !n;
}

/* Where a fault has the truth's answer, to the bit, the answer says nothing of the fault. */
static bool touches(const struct measured *m, const struct hypothesis *h, size_t i, size_t n)
{
	return memcmp(h->a.hi[OUT_Y] + i, m->truth.a.hi[OUT_Y] + i, n * sizeof(double));
}

/* Of the tokens that are wrong, those that the fault would have so; and of the right ones those that it would spoil. What is
 * looked at is the first n elements of each. */
struct score { size_t explained, spoilt; };
static struct score score(const struct measured *m, const struct hypothesis *h, const bool *wrong, size_t n)
{
	struct score s = { 0 };

	for (size_t t = 0; t < m->tokens; t++) {
		if (m->padding[m->row[t]] || (!wrong[t] && !touches(m, h, t * m->n, n))) continue;
		bool fit = fits(m, h, t * m->n, n);
		s.explained += wrong[t] && fit;
		s.spoilt += !wrong[t] && !fit;
	}
	return s;
}

/* Faults in the order in which they are looked at: those first that have the most wrong tokens nearer to what the kernel has. */
struct candidate { int fault; size_t nearer, untouched; };

static int by_promise(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->nearer != y->nearer ? (x->nearer < y->nearer) - (x->nearer > y->nearer) : x->fault - y->fault;
}

static double distance(const struct measured *m, const struct answer *a, size_t i, size_t n)
{
	double sum = 0;

	for (; n; i++, n--) sum += fmin(DBL_MAX, pow(got_at(&m->call, OUT_Y, i) - a->hi[OUT_Y][i], 2));
	return sum;
}

/* Of the first piece, which has the first elements of each token. Those that are wrong there and the fault does not touch it does
 * not explain. */
static bool look(const struct measured *m, struct candidate *k, const bool *wrong, struct error *e)
{
	size_t n = out_row(&m->call, OUT_Y);
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);
	struct hypothesis h = { 0 };

	plan_fault(&p, m->call.op, k->fault);
	p.stride = m->call.op->pieces(&m->call);
	if (!ref_run(&m->call, &p, &h.a, e)) return false;
	for (size_t t = 0; t < m->tokens; t++) {
		if (!wrong[t]) continue;
		k->nearer += distance(m, &h.a, t * m->n, n) < distance(m, &m->truth.a, t * m->n, n);
		k->untouched += !touches(m, &h, t * m->n, n) && !fits(m, &m->truth, t * m->n, n);
	}
	hypothesis_free(&h);
	return true;
}

/* A fault's score, if it is `best` at least. Most need not be followed beyond the first piece: what does not fit there does
 * not fit. */
static bool score_fault(const struct measured *m, int i, const bool *wrong, size_t best, struct score *s, struct error *e)
{
	size_t pieces = m->call.op->pieces(&m->call);
	struct hypothesis h;
	bool ok = suppose(m, &h, i, pieces, e);

	if (ok) *s = score(m, &h, wrong, out_row(&m->call, OUT_Y));
	if (ok && pieces > 1 && s->explained && s->explained >= s->spoilt + best) {
		hypothesis_free(&h);
		if ((ok = suppose(m, &h, i, 0, e))) *s = score(m, &h, wrong, m->n);
	}
	hypothesis_free(&h);
	return ok;
}

static bool name_wrong(struct named *n, const struct measured *m, const bool *wrong, struct error *e)
{
	struct candidate all[MAX_FAULT];
	const struct fault_spec *list = m->call.op->faults;
	size_t best = 0, count = 0;

	for (; list[count].name; count++) {
		all[count] = (struct candidate){ .fault = (int)count };
		if (!look(m, &all[count], wrong, e)) return false;
	}
	qsort(all, count, sizeof *all, by_promise);
	for (size_t k = 0; k < count; k++) {
		const struct fault_spec *fault = &list[all[k].fault];
		struct score s;
		if (n->wrong - all[k].untouched < best || all[k].untouched == n->wrong) continue;
		if (!score_fault(m, all[k].fault, wrong, best, &s, e)) return false;
		size_t points = s.explained > s.spoilt ? s.explained - s.spoilt : 0;
		if (!points || points < best) continue;
		bool tie = points == best;
		if (!tie || fault < n->fault) n->fault = fault, n->explained = s.explained;
		n->alone = !tie;
		best = points;
	}
	if (2 * n->explained < n->wrong) n->fault = NULL;
	return true;
}

bool values_name(struct named *n, const struct capture *c, struct error *e)
{
	struct measured m;
	bool ok = measure(&m, c, e) && suppose(&m, &m.truth, -1, 0, e), *wrong = ok ? calloc(m.tokens, sizeof *wrong) : NULL;

	*n = (struct named){ 0 };
	if (ok && !wrong) ok = error_set(e, E_MEMORY, "isolate", NO_OFFSET, "%zu tokens", m.tokens);
	for (size_t t = 0; ok && t < m.tokens; t++) n->wrong += wrong[t] = !m.padding[m.row[t]] && !fits(&m, &m.truth, t * m.n, m.n);
	ok = ok && (!n->wrong || name_wrong(n, &m, wrong, e));
	free(wrong);
	measured_free(&m);
	return ok;
}

/* Would the kernel have been seen to make fault i? In every stride-th piece; elements of the others are 0. */
static bool would_show(const struct measured *m, int i, size_t stride, bool *visible, struct error *e)
{
	size_t n = stride > 1 ? out_row(&m->call, OUT_Y) : m->n;
	struct hypothesis h;
	bool ok = suppose(m, &h, i, stride, e);

	for (size_t t = 0; ok && t < m->tokens && !*visible; t++)
		*visible = !m->padding[m->row[t]] && touches(m, &h, t * m->n, n) && !fits(m, &h, t * m->n, n);
	hypothesis_free(&h);
	return ok;
}

bool values_coverage(bool *visible, const struct capture *c, struct error *e)
{
	const struct plan exact = plan_plain(&arith_f64, arith_f64.precision);
	struct measured m;
	bool ok = measure(&m, c, e) && ref_run(&m.call, &exact, &m.truth.a, e);

	for (int i = 0; ok && m.call.op->faults[i].name; i++) {
		if (!visible[i]) ok = would_show(&m, i, m.call.op->pieces(&m.call), &visible[i], e);
		if (ok && !visible[i]) ok = would_show(&m, i, 0, &visible[i], e);
	}
	measured_free(&m);
	return ok;
}
