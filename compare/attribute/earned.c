/* Names are earned: what the emulation has is said of the kernel only where nothing legal explains as well. */
#include <math.h>

#include "earned.h"
#include "xray_private.h"

/* The same in one fit with every rounding that the emulation could have or lose: none of them does what the fault does. */
static bool among_roundings(struct xray *x, int m, bool *one)
{
	struct stream stream[MAX_SITE + 1];
	struct coefficient c[MAX_SITE + 1];
	int n = 1;

	stream[0] = (struct stream){ .plan = plan_less(&x->emulation, UINT64_C(1) << m) };
	for (int k = 0; x->call->op->sites[k].name && n < MAX_REGRESSORS; k++) {
		struct plan p = x->emulation;
		p.round[k] = p.round[k].on ? (struct site_rounding){ 0 } : site_types[0];
		if (x->emulation.round[k].on || emulation_may_round(x, k, 0)) stream[n++] = (struct stream){ .plan = p };
	}
	if (!xray_fit_together(x, stream, n, c)) return false;
	*one = c[0].determined && c[0].error <= well_known && is_one(1 - c[0].value, c[0].error);
	return true;
}

/* Does the plan explain as well as the refreshed emulation, to which the call returns? */
static bool as_good(struct xray *x, const struct plan *other, bool *yes)
{
	struct plan emulation = x->emulation;
	double score = x->score;

	x->emulation = *other;
	if (!xray_rebase(x) || !xray_scores(x, score + worth_keeping, yes)) return false;
	x->emulation = emulation;
	return xray_rebase(x);
}

/* Does the plan, its sums made in float32 in one order or another? Then *p becomes that. */
static bool in_order(struct xray *x, struct plan *p, bool *yes)
{
	static const struct arith *const order[] = { &arith_f32, &arith_f32_fma, &arith_f32_tree };

	for (size_t i = 0; i < sizeof order / sizeof *order && !*yes; i++) {
		struct plan q = *p;
		q.arith = order[i], q.bits = q.arith->precision;
		if (!as_good(x, &q, yes)) return false;
		if (*yes) *p = q;
	}
	return true;
}

/* Does what grows from `from` under the bans that x has, exactly or in float32? *grown: what it has grown to. */
static bool another_explains(struct xray *x, const struct plan *from, struct plan *grown, bool *yes)
{
	struct plan emulation = x->emulation;

	if (!emulation_without(x, from, 1)) return false;
	*grown = x->emulation;
	x->emulation = emulation;
	return xray_refresh(x) && as_good(x, grown, yes) && in_order(x, grown, yes);
}

/* Do roundings alone explain as well as with the faults? Then the emulation becomes theirs. */
static bool without_faults(struct xray *x, uint64_t faults, bool *as_well)
{
	struct plan other, without = plan_less(&x->emulation, faults);

	x->no_faults = true;
	bool ok = another_explains(x, &without, &other, as_well);
	x->no_faults = false;
	if (!ok || !*as_well) return ok;
	x->emulation = other;
	return xray_refresh(x);
}

/* The rules hold, and a small fault is thought to be made in a structure that nobody knows: it must be what no rounding is. */
static bool unrivalled(struct xray *x, uint64_t *faults)
{
	bool one = true, as_well = true;

	for (int m = 0; x->call->op->faults[m].name && one; m++)
		if (*faults >> m & 1 && !among_roundings(x, m, &one)) return false;
	if (one && !without_faults(x, *faults, &as_well)) return false;
	if (!one || as_well) *faults = 0;
	return true;
}

/* Sites of the emulation that the contract does not allow; with `without`, the plan that has them not. */
static uint64_t forbidden(const struct xray *x, const struct contract *k, struct plan *without)
{
	uint64_t sites = 0;

	*without = x->emulation;
	for (int s = 0; x->call->op->sites[s].name; s++) {
		const struct site_rounding *r = &x->emulation.round[s];
		if (!r->on || is_legal(x->call, k, s, r)) continue;
		sites |= UINT64_C(1) << s;
		without->round[s] = (struct site_rounding){ 0 };
	}
	return sites;
}

/* Of an identified structure. Where the rules do not hold nothing that is legal can explain as
 * well, and a fault must. */
static bool of_known(struct xray *x, const struct rules_say *rules, struct earned *n,
	struct error *e)
{
	struct plan without;
	bool as_well = false;

	if (!faults_told(x, 1 / likely, true, n)) return false;
	if (!rules->hold) {
		if (!forbidden(x, rules->contract, &without) && !faults_needed(x, rules, n, e))
			return false;
		n->faults |= n->by_rules;
		return true;
	}
	if (n->faults && !without_faults(x, n->faults, &as_well)) return false;
	if (as_well) n->faults = 0;
	return true;
}

/* Those with a free number: beside a structure that nobody knows they would take up whatever gain
 * it has. */
static uint64_t free_numbers(const struct op *op)
{
	uint64_t all = 0;

	for (int m = 0; op->faults[m].name; m++)
		if (op->faults[m].by > 1) all |= UINT64_C(1) << m;
	return all;
}

/* Of a structure that is not identified. */
static bool of_unknown(struct xray *x, const struct rules_say *rules, struct earned *n,
	struct error *e)
{
	bool hold = true;

	if (!faults_told(x, well_known, false, n)) return false;
	n->faults &= ~free_numbers(x->call->op);
	if (!n->faults && (rules->hold || !isinf(xray_left(x)))) return true;
	if (rules->hold) return unrivalled(x, &n->faults);
	struct plan with = plan_less(&x->emulation, ~n->faults);
	if (!isinf(xray_left(x)) && !rules->hold_with(rules, &with, &hold, e)) return false;
	if (isinf(xray_left(x)) || !hold) {
		if (!overflows_as(x, rules->contract, &with, &n->faults, &hold)
			|| (hold && !faults_ungainsaid(x, n->faults, &hold))) return false;
		n->not_finite = n->faults;
	}
	if (!hold) n->faults = 0;
	return true;
}

/* Does what contract k allows explain as well as the emulation? Then the emulation becomes that. */
static bool legal_under(struct xray *x, const struct contract *k, bool *as_well)
{
	struct plan without, legal;

	forbidden(x, k, &without);
	x->only = k;
	bool ok = another_explains(x, &without, &legal, as_well);
	x->only = NULL;
	if (!ok || !*as_well) return ok;
	x->emulation = legal;
	return xray_refresh(x);
}

/* Does another site, rounded in the place of this one to its type or to the commonest, explain as well with another answer? Then neither
 * is told. Of two whose answers are the same either name is right. */
static bool stands_for(struct xray *x, int site, bool *yes)
{
	struct look look[2 * MAX_SITE];
	double score = x->score;
	size_t n = 0;

	*yes = false;
	for (int k = 0; x->call->op->sites[k].name; k++)
		for (int t = 0; t < 2 && !x->emulation.round[k].on && emulation_may_round(x, k, 0); t++) {
			struct plan p = x->emulation;
			p.round[k] = t ? site_types[0] : p.round[site];
			p.round[site] = (struct site_rounding){ 0 };
			look[n++] = look_of(&p);
		}
	if (!xray_try(x, look, n, score + worth_keeping, false)) return false;
	for (size_t i = 0; i < n && !*yes; i++) {
		struct look other = look_of(&look[i].stream.plan);
		if (!(look[i].score < score + worth_keeping)) continue;
		if (!as_good(x, &other.stream.plan, yes) || !xray_look(x, &other, 1, LOOK_SIZE)) return false;
		*yes = *yes && other.size >= above_noise;
	}
	return true;
}

/* Are these sites all rounded to one type? */
static bool of_one_type(const struct xray *x, uint64_t sites, struct site_rounding *type)
{
	*type = x->emulation.round[__builtin_ctzll(sites)];
	for (int k = 0; k < MAX_SITE; k++)
		if ((sites >> k & 1) && (x->emulation.round[k].format != type->format || x->emulation.round[k].rounding != type->rounding)) return false;
	return true;
}

/* The type at a site: at a store that it would be cut off to, the store's own, which may have another name for as many bits. */
static struct site_rounding at_site(const struct call *call, int site, const struct site_rounding *type)
{
	const int store = site_store(call, site);
	const enum format f = store ? dtype_info[out_dtype(call, store - 1)].format : type->format;

	return (struct site_rounding){ true, format_info[f].precision == format_info[type->format].precision ? f : type->format, type->rounding };
}

/* From no state w S is 0 and v_new is u: u rounded once answers as v_new and v_update both rounded. Of several sites of one type, does one other
 * alone explain as well? Then the emulation rounds that one in their place. *sites: that one, or none where the contract allows it. */
static bool one_for_all(struct xray *x, const struct contract *k, uint64_t *sites)
{
	const struct op *op = x->call->op;
	struct site_rounding type;
	struct plan without;
	const bool several = *sites & (*sites - 1);
	bool yes = false;

	if (!several || !of_one_type(x, *sites, &type)) return true;
	forbidden(x, k, &without);
	for (int i = 0; op->sites[i].name && !yes; i++) {
		const struct site_rounding here = at_site(x->call, i, &type);
		struct plan one = without;
		if (x->emulation.round[i].on || !site_in_form(op, i, x->emulation.form) || is_store(x->call, i, &here)) continue;
		one.round[i] = here;
		if (!as_good(x, &one, &yes)) return false;
		if (yes) x->emulation = one, *sites = contract_allows(k, i, &here) ? 0 : UINT64_C(1) << i;
	}
	return !yes || xray_refresh(x);
}

static bool alone(struct xray *x, uint64_t *sites)
{
	bool other;

	for (int k = 0; x->call->op->sites[k].name; k++) {
		if (!(*sites >> k & 1)) continue;
		if (!stands_for(x, k, &other)) return false;
		if (other) *sites &= ~(UINT64_C(1) << k);
	}
	return true;
}

/* Of an identified structure: the forbidden roundings, unless what the contract allows explains as well, or what another of those to
 * be tried does, where none of them allows the emulation as it is. */
static bool needed(struct xray *x, const struct rules_say *rules, uint64_t *sites)
{
	struct plan without;
	bool avoidable;

	if (!(*sites = forbidden(x, rules->contract, &without))) return true;
	if (!legal_under(x, rules->contract, &avoidable)) return false;
	for (const struct contract *k = rules->first; !avoidable && k <= rules->last; k++)
		if (k->form == x->emulation.form && !forbidden(x, k, &without)) return true;
	for (const struct contract *k = rules->first; !avoidable && k <= rules->last; k++)
		if (k != rules->contract && k->form == x->emulation.form && !legal_under(x, k, &avoidable)) return false;
	if (avoidable) *sites = 0;
	return one_for_all(x, rules->contract, sites) && alone(x, sites);
}

/* Roundings alone, besides these faults, and exact sums. */
static bool regrow(struct xray *x, uint64_t faults)
{
	struct plan kept = plan_less(&x->emulation, ~faults);

	if (x->emulation.faults == faults) return true;
	kept.arith = &arith_f64, kept.bits = arith_f64.precision;
	x->no_faults = true;
	bool ok = emulation_without(x, &kept, x->lawless ? OF_GROWTH : 1);
	x->no_faults = false;
	return ok;
}

bool earned_by_chance(const struct xray *x, const struct rules_say *rules) { return rules->few && rules->hold && !emulation_explains(x); }

bool earned_names(struct earned *n, struct xray *x, const struct rules_say *rules, struct error *e)
{
	bool identified;

	*n = (struct earned){ 0 };
	if (!emulation_identified(x, &identified)) return false;
	bool by_chance = earned_by_chance(x, rules), ok = true;
	if (identified) {
		if (!of_known(x, rules, n, e) || !emulation_identified(x, &identified))
			return false;
	} else if ((!by_chance && !of_unknown(x, rules, n, e)) || !regrow(x, n->faults)
		|| !emulation_identified(x, &identified)) {
		return false;
	}
	if (identified) ok = needed(x, rules, &n->sites);
	if (by_chance) *n = (struct earned){ 0 };
	return ok;
}
