/* The replica by steepest descent of the score. */
#include <math.h>
#include <stdlib.h>

#include "replica.h"

/* One change of the replica: the site's rounding, or, with site -1, a mistake made or no longer made. */
struct change { int site, mistake; struct site_rounding to; double score; };

enum { MAX_CHANGE = MAX_SITE * (SITE_TYPES + 1) + 64 };

static struct plan changed(const struct xray *x, const struct change *k)
{
	struct plan p = x->replica;

	if (k->site >= 0) p.round[k->site] = k->to;
	else if (p.mistakes >> k->mistake & 1) p.mistakes &= ~(UINT64_C(1) << k->mistake);
	else plan_mistake(&p, x->call->op, k->mistake);
	return p;
}

static bool same_rounding(const struct site_rounding *a, const struct site_rounding *b)
{
	return a->on == b->on && (!a->on || (a->format == b->format && a->rounding == b->rounding));
}

/* Adds the change to the list if it makes the score fall by enough. */
static bool weigh(struct xray *x, struct change k, struct change *list, int *n)
{
	struct plan p = changed(x, &k);

	if (!xray_direction(x, &p)) return false;
	if (k.site < 0 && xray_size(x) < above_noise && !xray_overflows(x)) return true;
	k.score = xray_try(x);
	if (k.score < x->score - worth_keeping) list[(*n)++] = k;
	return true;
}

static int by_score(const void *a, const void *b)
{
	double x = ((const struct change *)a)->score, y = ((const struct change *)b)->score;

	return (x > y) - (x < y);
}

/* All changes that make the score fall, best first. -1: failed. */
static int changes(struct xray *x, bool mistakes, struct change *list)
{
	const struct op *op = x->call->op;
	int n = 0;

	for (int site = 0; op->sites[site].name; site++)
		for (int t = -1; t < SITE_TYPES; t++) {
			struct change k = { .site = site, .to = t < 0 ? (struct site_rounding){ 0 } : site_types[t] };
			if (!site_in_form(op, site, x->replica.form) || same_rounding(&k.to, &x->replica.round[site])) continue;
			if (t >= 0 && is_store(x->call, site, k.to.format)) continue;
			if (!weigh(x, k, list, &n)) return -1;
		}
	for (int m = 0; mistakes && op->mistakes[m].name; m++)
		if (!op->mistakes[m].is_rounding && !weigh(x, (struct change){ .site = -1, .mistake = m }, list, &n)) return -1;
	qsort(list, (size_t)n, sizeof *list, by_score);
	return n;
}

/* Makes the best change, then each other, at another place, that the score still falls by. */
static bool step(struct xray *x, const struct change *list, int n)
{
	bool done[MAX_SITE] = { false };

	for (int i = 0; i < n; i++) {
		struct plan before = x->replica;
		double score = x->score;
		if (list[i].site < 0 ? i > 0 : done[list[i].site]) continue;
		x->replica = changed(x, &list[i]);
		if (!xray_rebase(x)) return false;
		if (x->score < score - worth_keeping) {
			if (list[i].site < 0) return true;
			done[list[i].site] = true;
		} else {
			x->replica = before;
			if (!xray_rebase(x)) return false;
		}
	}
	return true;
}

bool replica_descend(struct xray *x, bool mistakes)
{
	struct change list[MAX_CHANGE];
	int n = 1;

	while (n > 0 && x->work < x->patience && !replica_explains(x)) {
		n = changes(x, mistakes, list);
		if (n < 0 || !step(x, list, n) || !xray_settle(x)) return false;
	}
	return true;
}
