/* The emulation by steepest descent of the score. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulation.h"
#include "fault_value.h"

/* One change of the emulation: the site's rounding, or, with site -1, a fault made or no longer made. */
struct change { int site, fault; double value; struct site_rounding to; double score; };

enum { MAX_CHANGE = MAX_SITE * (SITE_TYPES + 1) + 64 };

static struct plan changed(const struct xray *x, const struct change *k)
{
	struct plan p = x->emulation;

	if (k->site >= 0) p.round[k->site] = k->to;
	else if (p.faults >> k->fault & 1) plan_no_fault(&p, k->fault);
	else plan_fault_at(&p, x->call->op, k->fault, k->value);
	return p;
}

static bool same_rounding(const struct site_rounding *a, const struct site_rounding *b)
{
	return a->on == b->on && (!a->on || (a->format == b->format && a->rounding == b->rounding));
}

static void looks(struct look *look, const struct xray *x, const struct change *list, int n)
{
	for (int i = 0; i < n; i++) {
		struct plan p = changed(x, &list[i]);
		look[i] = look_of(&p);
	}
}

/* Leaves of the faults [n] those that can be seen. */
static bool visible(struct xray *x, struct change *list, int *n)
{
	struct look look[MAX_FAULT];
	int kept = 0;

	looks(look, x, list, *n);
	if (!xray_look(x, look, (size_t)*n, LOOK_SIZE)) return false;
	for (int i = 0; i < *n; i++)
		if (look[i].size >= above_noise || look[i].overflows) list[kept++] = list[i];
	*n = kept;
	return true;
}

/* Leaves in the list those that make the score fall by enough. */
static bool weigh(struct xray *x, struct change *list, int *n)
{
	struct look *look = calloc((size_t)*n + 1, sizeof *look);
	int kept = 0;

	if (look) looks(look, x, list, *n);
	bool ok = look ? xray_try(x, look, (size_t)*n) : error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%d changes", *n);
	for (int i = 0; ok && i < *n; i++) {
		list[i].score = look[i].score;
		if (list[i].score < x->score - worth_keeping) list[kept++] = list[i];
	}
	*n = kept;
	free(look);
	return ok;
}

static int by_score(const void *a, const void *b)
{
	double x = ((const struct change *)a)->score, y = ((const struct change *)b)->score;

	return (x > y) - (x < y);
}

/* All changes that make the score fall, best first. -1: failed. */
static int changes(struct xray *x, bool faults, struct change *list)
{
	const struct op *op = x->call->op;
	struct change last[MAX_FAULT];
	int n = 0, wrong = 0;

	for (int m = 0; faults && op->faults[m].name; m++) {
		struct change k = { .site = -1, .fault = m };
		bool found = true, made = x->emulation.faults >> m & 1;
		if (op->faults[m].is_rounding) continue;
		if (op->faults[m].parameter && !made && !fault_value_search(x, m, &k.value, &found)) return -1;
		if (found) list[wrong++] = k;
	}
	if (!visible(x, list, &wrong)) return -1;
	memcpy(last, list, (size_t)wrong * sizeof *last);
	for (int site = 0; op->sites[site].name; site++)
		for (int t = -1; t < SITE_TYPES; t++) {
			struct change k = { .site = site, .to = t < 0 ? (struct site_rounding){ 0 } : site_types[t] };
			if (same_rounding(&k.to, &x->emulation.round[site]) || (t >= 0 && !emulation_may_round(x, site, t))) continue;
			list[n++] = k;
		}
	memcpy(list + n, last, (size_t)wrong * sizeof *last);
	n += wrong;
	if (!weigh(x, list, &n)) return -1;
	qsort(list, (size_t)n, sizeof *list, by_score);
	return n;
}

/* Makes the best change, then each other, at another place, that the score still falls by. */
static bool step(struct xray *x, const struct change *list, int n)
{
	bool done[MAX_SITE] = { false };

	for (int i = 0; i < n; i++) {
		struct plan before = x->emulation;
		double score = x->score;
		if (list[i].site < 0 ? i > 0 : done[list[i].site]) continue;
		x->emulation = changed(x, &list[i]);
		if (!xray_rebase(x)) return false;
		if (x->score < score - worth_keeping) {
			if (list[i].site < 0) return true;
			done[list[i].site] = true;
		} else {
			x->emulation = before;
			if (!xray_rebase(x)) return false;
		}
	}
	return true;
}

bool emulation_descend(struct xray *x, bool faults)
{
	struct change list[MAX_CHANGE];
	int n = 1;

	while (n > 0 && x->work < x->patience && !emulation_explains(x)) {
		n = changes(x, faults, list);
		if (n < 0 || !step(x, list, n) || !xray_refresh(x)) return false;
	}
	return true;
}
