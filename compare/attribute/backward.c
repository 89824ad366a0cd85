/* The emulation by pruning: what it does as well without is taken out; and by all its sites at once: a step of Gauss and Newton, to the nearest plan. */
#include <math.h>

#include "emulation_private.h"
#include "fault_value.h"
#include "xray_private.h"

/* A rounding with a smaller effect is none. */
static const double least_rounding = 1;

/* Tries the emulation with this site rounded otherwise; *best and *score keep the better. */
static bool try_site(struct xray *x, int site, struct site_rounding r, double margin, struct site_rounding *best, double *score)
{
	bool kept;

	x->emulation.round[site] = r;
	if (!xray_rebase(x) || !xray_scores(x, *score + margin, &kept)) return false;
	if (kept) *score = x->score, *best = r;
	return true;
}

/* The runs of all types that try_site will ask for. */
static void types_ahead(struct xray *x, int site)
{
	struct stream stream[SITE_TYPES], *ahead[SITE_TYPES];
	size_t n = 0;

	for (int t = 0; t < SITE_TYPES; t++) {
		if (!emulation_may_round(x, site, t)) continue;
		stream[n] = (struct stream){ .plan = x->emulation };
		stream[n].plan.round[site] = site_types[t];
		ahead[n] = &stream[n];
		n++;
	}
	xray_ahead(x, ahead, n);
}

/* Takes a rounding out if the emulation does as well without; while something is left unexplained, puts
 * the best of the types in its place, unless plenty is explained. */
static bool backward_site(struct xray *x, int site, bool plenty)
{
	struct site_rounding best = x->emulation.round[site];
	double score = x->score;
	bool explained = plenty || emulation_explains(x);
	struct plan without = x->emulation;

	without.round[site] = (struct site_rounding){ 0 };
	struct look look = look_of(&without);
	if (!xray_look(x, &look, 1, LOOK_SIZE)) return false;
	if (look.size < least_rounding) score = INFINITY;
	if (!try_site(x, site, (struct site_rounding){ 0 }, worth_keeping, &best, &score)) return false;
	if (best.on && !explained) types_ahead(x, site);
	for (int t = 0; t < SITE_TYPES && best.on && !explained; t++)
		if (emulation_may_round(x, site, t) && !try_site(x, site, site_types[t], -worth_keeping, &best, &score))
			return false;
	x->emulation.round[site] = best;
	return xray_rebase(x);
}

/* Takes a fault out if the emulation does as well without, or if it is doubtful and the kernel does not overflow as with it. */
static bool backward_fault(struct xray *x, int m)
{
	if (!fault_value_refine(x, m)) return false;
	struct plan before = x->emulation, without = before;
	double score = x->score;
	bool right = fault_value_is_right(x, m);

	plan_no_fault(&without, m);
	struct look look = look_of(&without);
	if (!xray_look(x, &look, 1, LOOK_FIT | LOOK_VOTES)) return false;
	bool doubtful = emulation_doubtful(x, 1 - look.fit.value, look.fit.error, likely) && !look_told_closely(&look);
	bool as_well;
	x->emulation = without;
	if (!xray_rebase(x) || !xray_scores(x, score + worth_keeping, &as_well)) return false;
	if ((doubtful && isfinite(xray_left(x))) || as_well || right) return true;
	x->emulation = before;
	return xray_rebase(x);
}

/* Stores first: of two sites that are the same number, the one that is no store stays. */
bool emulation_backward(struct xray *x, bool plenty)
{
	for (int store = 1; store >= 0; store--)
		for (int k = 0; x->call->op->sites[k].name; k++)
			if (x->emulation.round[k].on && (site_store(x->call, k) > 0) == store && !backward_site(x, k, plenty)) return false;
	for (int m = 0; x->call->op->faults[m].name; m++)
		if (x->emulation.faults >> m & 1 && !backward_fault(x, m)) return false;
	return true;
}

/* float16 and TF32 have as many bits, and differ where numbers are small: the contract's own type stays, unless the other
 * does better by what is worth keeping. */
static bool prefer_types(struct xray *x, const struct plan *contract)
{
	for (int k = 0; x->call->op->sites[k].name; k++) {
		struct site_rounding was = x->emulation.round[k], own = contract->round[k];
		double score = x->score;
		if (!was.on || !own.on || was.format == own.format) continue;
		if (format_info[was.format].precision != format_info[own.format].precision || was.rounding != own.rounding) continue;
		x->emulation.round[k] = own;
		struct look look = look_of(&x->emulation);
		if (!xray_look(x, &look, 1, LOOK_SIZE)) return false;
		bool alike = look.size < above_noise;
		if (!xray_rebase(x)) return false;
		if (alike || x->score < score + worth_keeping) continue;
		x->emulation.round[k] = was;
		if (!xray_rebase(x)) return false;
	}
	return true;
}

/* A fault that the contract's roundings do as well as is none that can be told. */
static bool excuse_fault(struct xray *x, const struct plan *contract, int m)
{
	struct plan before = x->emulation;
	double score = x->score;

	plan_no_fault(&x->emulation, m);
	for (int k = 0; x->call->op->sites[k].name; k++)
		if (site_in_form(x->call->op, k, before.form) && !before.round[k].on) x->emulation.round[k] = contract->round[k];
	bool as_well;
	if (!xray_rebase(x) || !xray_scores(x, score + worth_keeping, &as_well)) return false;
	if (as_well) return emulation_backward(x, false);
	x->emulation = before;
	return xray_rebase(x);
}

bool emulation_prefer(struct xray *x, const struct plan *contract)
{
	if (!prefer_types(x, contract)) return false;
	for (int m = 0; x->call->op->faults[m].name; m++)
		if (x->emulation.faults >> m & 1 && !excuse_fault(x, contract, m)) return false;
	return true;
}

/* ---- all sites at once ---- */

/* A change that is there shows a coefficient of 1, in a joint fit none that another change explains; less than half where
 * another that is missing makes what is rounded another number. */
static const double least[] = { 0.25, 0.5 }, worth_trying = 2;

/* The site as it is not in x->emulation: not rounded, or to the commonest type. False: it is stored in that one. */
static bool turned(const struct xray *x, int site, struct site_rounding *to)
{
	bool on = x->emulation.round[site].on;

	*to = on ? (struct site_rounding){ 0 } : site_types[0];
	return on || emulation_may_round(x, site, 0);
}

/* One fit; c [MAX_SITE], by site. */
static bool fit_sites(struct xray *x, struct coefficient *c)
{
	struct stream stream[MAX_SITE];
	struct coefficient of[MAX_SITE];
	int site[MAX_SITE], n = 0;

	for (int k = 0; x->call->op->sites[k].name; k++) {
		struct plan p = x->emulation;
		c[k] = (struct coefficient){ 0 };
		if (turned(x, k, &p.round[k])) stream[n] = (struct stream){ .plan = p }, site[n++] = k;
	}
	if (!xray_fit_together(x, stream, n, of)) return false;
	for (int i = 0; i < n; i++) c[site[i]] = of[i];
	return true;
}

/* Turns all sites, or all that are rounded, whose coefficients are above this, if the score falls by enough; of what is put
 * in, whose type is not known, no less is asked than that it explains the call. */
static bool turn(struct xray *x, const struct coefficient *c, double above, bool only_out, bool *taken)
{
	struct plan before = x->emulation;
	double score = x->score;
	int n = 0;

	for (int k = 0; x->call->op->sites[k].name; k++)
		if (c[k].determined && c[k].value > above && c[k].value > worth_trying * c[k].error && (before.round[k].on || !only_out)) {
			turned(x, k, &x->emulation.round[k]);
			n++;
		}
	if (!n) return true;
	if (!xray_rebase(x)) return false;
	*taken = x->score < score - worth_keeping && (only_out || emulation_explains(x));
	if (*taken) return true;
	x->emulation = before;
	return xray_rebase(x);
}

bool emulation_turn(struct xray *x, bool *taken)
{
	struct coefficient c[MAX_SITE];

	*taken = false;
	if (!fit_sites(x, c)) return false;
	for (int i = 0; i < 4 && !*taken; i++)
		if (!turn(x, c, least[i % 2], i / 2, taken)) return false;
	return true;
}
