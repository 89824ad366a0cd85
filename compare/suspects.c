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
		struct look look = look_of(&p);
		if (!xray_look(x, &look, 1, LOOK_SIZE)) return false;
		*same = look.size < above_noise;
	}
	return true;
}

/* Would something infinite be left without the mistake? Then the kernel overflows as with it. */
static bool overflows_with(struct xray *x, int m, bool *yes)
{
	struct plan with = x->replica;

	x->replica.mistakes &= ~(UINT64_C(1) << m);
	if (!xray_rebase(x)) return false;
	*yes = isinf(xray_left(x));
	x->replica = with;
	return xray_rebase(x);
}

/* What the outputs say of a mistake that the replica makes or does not make. One that it makes must be likely; and where the
 * replica does not explain the outputs, it may stand for one that nobody knows: then it must be certain. */
static bool try_mistake(struct xray *x, int m, const struct look *look, bool explained, struct suspect *s)
{
	const struct mistake_spec *spec = &x->call->op->mistakes[m];
	bool made = x->replica.mistakes >> m & 1;
	struct coefficient c = look->fit;

	*s = (struct suspect){ .name = spec->name, .what = spec->what, .site = -1, .size = look->size };
	s->coefficient = made ? 1 - c.value : c.value;
	s->error = c.error;
	bool sure = explained ? c.error < 1 / likely : c.error < 1 / certain && fabs(c.value) < 0.1;
	if (made && explained && !sure && !overflows_with(x, m, &sure)) return false;
	if (made) s->state = sure ? CONVICTED : INVISIBLE;
	else if (look->overflows < 0) s->state = RULED_OUT, s->coefficient = s->error = 0;
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

static struct suspect read_site(const struct op *op, const struct reading *r, const struct look *look)
{
	return (struct suspect){ rounding_mistake(op, r), op->sites[r->site].what, r->site, r->format, r->rounding, r->coefficient, r->error,
		look->size, r->state == ROUNDED ? CONVICTED : r->state == NOT_ROUNDED ? RULED_OUT : INVISIBLE };
}

/* The replica with or without the rounding that was read, or the mistake. */
static struct look of_site(const struct xray *x, const struct reading *r)
{
	struct plan p = x->replica;

	p.round[r->site] = p.round[r->site].on ? (struct site_rounding){ 0 } : (struct site_rounding){ true, r->format, r->rounding };
	return look_of(&p);
}

static struct look of_mistake(const struct xray *x, int m)
{
	struct plan p = x->replica;

	if (p.mistakes >> m & 1) p.mistakes &= ~(UINT64_C(1) << m);
	else plan_mistake(&p, x->call->op, m);
	return look_of(&p);
}

static bool read_suspects(struct examination *ex, struct xray *x)
{
	const struct op *op = x->call->op;
	struct look look[MAX_MISTAKE];
	int sites = ex->profile.n, n = 0, of[MAX_MISTAKE];

	for (int j = 0; j < sites; j++) look[j] = of_site(x, &ex->profile.reading[j]);
	if (!xray_look(x, look, (size_t)sites, LOOK_SIZE)) return false;
	for (int j = 0; j < sites; j++) ex->suspect[ex->n++] = read_site(op, &ex->profile.reading[j], &look[j]);
	for (int m = 0; op->mistakes[m].name; m++)
		if (!op->mistakes[m].is_rounding) of[n] = m, look[n++] = of_mistake(x, m);
	if (!xray_look(x, look, (size_t)n, LOOK_SIZE | LOOK_FIT)) return false;
	for (int i = 0; i < n; i++)
		if (!try_mistake(x, of[i], &look[i], ex->explained, &ex->suspect[ex->n++])) return false;
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
	double share[MAX_OUT];
	bool even = false;

	if (!profile_read(&ex->profile, x)) return false;
	for (int o = 0; o < MAX_OUT; o++) share[o] = ex->profile.out[o].explained;
	ex->left = xray_left(x);
	if (replica_explains(x) && !xray_is_even(x, &even)) return false;
	ex->explained = even || replica_nearly_explains(x, share) || runs_free(x);
	if (!read_suspects(ex, x)) return false;
	sort(ex->suspect, ex->n);
	return ex->explained || (where_left(x, ex->where, sizeof ex->where) && generic_suspect(x, &ex->generic));
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
