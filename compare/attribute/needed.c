/* Faults that the rules ask for: the structure is identified, what it rounds is allowed, and yet
 * a rule is broken. */
#include <math.h>

#include "earned.h"
#include "fault_value.h"
#include "xray_private.h"

/* Those of the emulation that are not told, change something, and have no coefficient that
 * gainsays them. */
static bool possible(struct xray *x, uint64_t told, uint64_t *faults)
{
	*faults = 0;
	for (int m = 0; x->call->op->faults[m].name; m++) {
		const uint64_t bit = UINT64_C(1) << m;
		struct plan without = plan_less(&x->emulation, bit);
		struct look look = look_of(&without);
		bool idle;
		if (!(x->emulation.faults & ~told & bit)) continue;
		if (!emulation_is_idle(x, m, &idle) || !xray_look(x, &look, 1, LOOK_FIT))
			return false;
		if (!idle && may_be_one(&look.fit)) *faults |= bit;
	}
	return true;
}

/* Do the rules hold for the reference with the told and these, and not with the told alone? */
static bool asked_for(struct xray *x, const struct rules_say *rules, uint64_t told, uint64_t these,
	bool *yes, struct error *e)
{
	struct plan with = plan_less(&x->emulation, ~(told | these)),
		less = plan_less(&x->emulation, ~told);
	bool enough = false;

	*yes = false;
	if (told && !rules->hold_with(rules, &less, &enough, e)) return false;
	return enough || rules->hold_with(rules, &with, yes, e);
}

/* What the emulation would be with one fault more; least score first. */
struct more { struct look look[MAX_FAULT]; int of[MAX_FAULT]; size_t n; };

static bool with_each(struct xray *x, struct more *more)
{
	more->n = 0;
	for (int m = 0; x->call->op->faults[m].name; m++) {
		const struct fault_spec *f = &x->call->op->faults[m];
		struct plan p = x->emulation;
		double value = NAN;
		bool found = true;
		if (f->is_rounding || (f->form >= 0 && f->form != p.form)) continue;
		if (f->parameter && !fault_value_search(x, m, &value, &found)) return false;
		if (!found) continue;
		plan_fault_at(&p, x->call->op, m, value);
		more->of[more->n] = m;
		more->look[more->n++] = look_of(&p);
	}
	if (!xray_try(x, more->look, more->n, x->score, false)) return false;
	for (size_t i = 1; i < more->n; i++)
		for (size_t j = i; j > 0 && more->look[j].score < more->look[j - 1].score; j--) {
			const struct look l = more->look[j];
			const int of = more->of[j];
			more->look[j] = more->look[j - 1], more->of[j] = more->of[j - 1];
			more->look[j - 1] = l, more->of[j - 1] = of;
		}
	return true;
}

/* So many of them are asked about, a verdict each. */
enum { ASKED = 4 };

/* The emulation makes none. Of those with one fault more by which the score falls, the best with
 * which the rules hold: its fault is needed, where the score falls by what is worth keeping, and
 * else possible, as others are. */
static bool one_more(struct xray *x, const struct rules_say *rules, struct earned *n,
	struct error *e)
{
	const struct plan before = x->emulation;
	const double score = x->score;
	struct more more;

	if (!with_each(x, &more)) return false;
	for (size_t i = 0; i < more.n && i < ASKED && more.look[i].score < score
		&& !n->by_rules; i++) {
		uint64_t one;
		bool yes = false;
		x->emulation = more.look[i].stream.plan;
		if (!xray_rebase(x) || !possible(x, 0, &one)) return false;
		if (one && !asked_for(x, rules, 0, one, &yes, e)) return false;
		if (yes && !n->possible && more.look[i].score < score - worth_keeping)
			n->by_rules = one;
		else if (yes) n->possible |= one;
	}
	if (!n->by_rules) x->emulation = before;
	return xray_refresh(x);
}

bool faults_needed(struct xray *x, const struct rules_say *rules, struct earned *n, struct error *e)
{
	uint64_t rest;
	bool yes = false;

	if (!x->emulation.faults) return one_more(x, rules, n, e);
	if (!possible(x, n->faults, &rest)) return false;
	if (rest && !asked_for(x, rules, n->faults, rest, &yes, e)) return false;
	if (yes) n->by_rules = rest;
	return true;
}
