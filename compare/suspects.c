#include <math.h>
#include <string.h>

#include "suspects.h"

const char *const suspect_name[] = { "ruled out", "convicted", "allowed", "not visible" };

/* Is m, in the place of a mistake that the replica makes, the same answer? */
static bool in_its_place(struct xray *x, int m, bool *same)
{
	*same = false;
	for (int k = 0; x->call->op->mistakes[k].name && !*same; k++) {
		struct plan p = x->replica;
		if (!(p.mistakes >> k & 1)) continue;
		p.mistakes &= ~(UINT64_C(1) << k);
		plan_mistake(&p, x->call->op, m);
		if (!xray_direction(x, &p)) return false;
		*same = xray_size(x) < above_noise;
	}
	return true;
}

/* What the outputs say of a mistake that the replica makes or does not make. Where the replica does not explain them,
 * a mistake that it makes may stand for one that nobody knows: then it must be certain. */
static bool try_mistake(struct xray *x, int m, bool explained, struct suspect *s)
{
	const struct mistake_spec *spec = &x->call->op->mistakes[m];
	bool made = x->replica.mistakes >> m & 1;
	struct plan p = x->replica;

	*s = (struct suspect){ .name = spec->name, .what = spec->what, .site = -1 };
	if (made) p.mistakes &= ~(UINT64_C(1) << m);
	else plan_mistake(&p, x->call->op, m);
	if (!xray_direction(x, &p)) return false;
	s->size = xray_size(x);
	struct coefficient c = xray_fit(x);
	s->coefficient = made ? 1 - c.value : c.value;
	s->error = c.error;
	if (made) s->state = explained || (c.error < 1 / certain && fabs(c.value) < 0.1) ? CONVICTED : INVISIBLE;
	else if (xray_overflows(x) < 0) s->state = RULED_OUT, s->coefficient = s->error = 0;
	else s->state = s->size >= above_noise && c.error < 1 / certain && c.value + certain * c.error < 1 ? RULED_OUT : INVISIBLE;
	bool same = false;
	if (s->state == RULED_OUT && !in_its_place(x, m, &same)) return false;
	if (same) s->state = INVISIBLE;
	return true;
}

static const char *rounding_mistake(const struct op *op, const struct reading *r)
{
	for (const struct mistake_spec *m = op->mistakes; m->name; m++)
		if (m->is_rounding && m->site == r->site && m->format == r->format) return m->name;
	return op->sites[r->site].name;
}

static bool read_site(struct xray *x, const struct reading *r, struct suspect *s)
{
	const struct op *op = x->call->op;
	struct plan p = x->replica;

	p.round[r->site] = p.round[r->site].on ? (struct site_rounding){ 0 } : (struct site_rounding){ true, r->format, r->rounding };
	if (!xray_direction(x, &p)) return false;
	*s = (struct suspect){ rounding_mistake(op, r), op->sites[r->site].what, r->site, r->format, r->rounding, r->coefficient, r->error,
		xray_size(x), INVISIBLE };
	if (r->state == ROUNDED) s->state = CONVICTED;
	if (r->state == NOT_ROUNDED) s->state = RULED_OUT;
	return true;
}

/* Where an iteration that runs free amplifies what tips over inside, nothing decides here: the contract's rules, whose
 * noisy runs amplify too, have the last word. */
static bool runs_free(const struct xray *x)
{
	return xray_rounds_inside(x) && x->call->op->iterates && !x->call->anchored;
}

/* What is made comes first, the largest effect before the others; the rest stays in the order of the tables. */
static void sort(struct suspect *list, int n)
{
	for (int i = 1; i < n; i++) {
		struct suspect s = list[i];
		int at = i;
		for (; s.state == CONVICTED && at > 0 && !(list[at - 1].state == CONVICTED && list[at - 1].size >= s.size); at--) list[at] = list[at - 1];
		list[at] = s;
	}
}

static bool examine_all(struct examination *ex, struct xray *x)
{
	const struct op *op = x->call->op;

	double share[MAX_OUT];

	if (!profile_read(&ex->profile, x)) return false;
	for (int o = 0; o < MAX_OUT; o++) share[o] = ex->profile.out[o].explained;
	for (int j = 0; j < ex->profile.n; j++)
		if (!read_site(x, &ex->profile.reading[j], &ex->suspect[ex->n++])) return false;
	ex->left = xray_left(x);
	ex->explained = (replica_explains(x) && xray_is_even(x)) || replica_nearly_explains(x, share) || runs_free(x);
	for (int m = 0; op->mistakes[m].name; m++)
		if (!op->mistakes[m].is_rounding && !try_mistake(x, m, ex->explained, &ex->suspect[ex->n++])) return false;
	sort(ex->suspect, ex->n);
	if (ex->explained) return true;
	where_left(x, ex->where, sizeof ex->where);
	if (!generic_suspect(x, &ex->generic)) ex->generic.share = 0;
	return true;
}

void examine_under(struct examination *ex, const struct call *call, const struct contract *k)
{
	memset(ex->count, 0, sizeof ex->count);
	for (int i = 0; i < ex->n; i++) {
		struct suspect *s = &ex->suspect[i];
		const struct site_rounding *a = s->site >= 0 ? &k->site[s->site] : NULL;
		bool made = s->state == CONVICTED || s->state == ALLOWED;
		bool same = a && a->on && a->format == s->format && a->rounding == s->rounding;
		if (made) s->state = same || (a && is_store(call, s->site, s->format)) ? ALLOWED : CONVICTED;
		ex->count[s->state]++;
	}
}

bool examine(struct examination *ex, const struct call *call, const struct contract *k,
	void (*tick)(const char *, size_t, size_t), struct error *e)
{
	struct plan start = plan_plain(&arith_f64, arith_f64.precision);
	struct xray x;

	*ex = (struct examination){ .n = 0 };
	if (!xray_make(&x, call, tick, e)) return false;
	if (k) plan_contract(&start, k);
	bool ok = replica_search(&x, k ? &start : NULL) && examine_all(ex, &x);
	if (tick) tick("x-ray", 1, 1);
	xray_free(&x);
	return ok;
}
