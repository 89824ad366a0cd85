/* The emulation by all its sites at once: a step of Gauss and Newton, to the nearest plan. */
#include "emulation_private.h"

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
