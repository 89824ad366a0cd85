/* What was told of an emulation, for who asks the same again: by looks around it, and by passes over all that it leaves. */
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

/* base, centre: around which emulation, refreshed on which; what: was asked; work, spent: its share of what it took. */
struct told { struct plan base, centre; struct look look; unsigned what; uint64_t work; };
struct told_left { struct plan base, centre; bool even; double share[MAX_OUT]; unsigned what; uint64_t spent; };
/* The newest, in rings. */
enum { MOST_TOLD = 256, MOST_LEFT = 8 };
struct told_all { size_t n, next, room, n_left, next_left; struct told *of; struct told_left left[MOST_LEFT]; };

/* Around another emulation than the one that was rebased plans do not say what is asked. */
static bool is_told(const struct xray *x) { return x->refreshed && same_plan(&x->emulation, &x->of_base.plan); }

static bool is_around(const struct xray *x, const struct plan *base, const struct plan *centre)
{
	return same_plan(base, &x->of_base.plan) && same_plan(centre, &x->of_centre.plan);
}

bool xray_told(struct xray *x, struct look *l, unsigned what)
{
	for (size_t i = 0; x->told && is_told(x) && i < x->told->n; i++) {
		const struct told *t = &x->told->of[i];
		if (what & ~t->what || !same_plan(&t->look.stream.plan, &l->stream.plan) || !is_around(x, &t->base, &t->centre)) continue;
		*l = t->look;
		x->work += t->work;     /* as of a run that is kept */
		return true;
	}
	return false;
}

/* NULL: where there is no room all is made again. */
static struct told_all *room_to_tell(struct xray *x)
{
	if (!is_told(x)) return NULL;
	if (!x->told) x->told = calloc(1, sizeof *x->told);
	return x->told;
}

/* For one more, but no more than MOST_TOLD. */
static bool grown(struct told_all *all)
{
	if (all->n < all->room || all->n == MOST_TOLD) return true;
	size_t room = all->room ? 2 * all->room : 16;
	struct told *of = realloc(all->of, room * sizeof *of);
	if (of) all->of = of, all->room = room;
	return of;
}

void xray_tell(struct xray *x, const struct look *l, unsigned what, uint64_t work)
{
	struct told_all *all = room_to_tell(x);

	if (!all || !grown(all)) return;
	all->of[all->next] = (struct told){ x->of_base.plan, x->of_centre.plan, *l, what, work };
	all->next = (all->next + 1) % MOST_TOLD;
	all->n += all->n < MOST_TOLD;
}

bool xray_told_left(struct xray *x, unsigned what, bool *even, double *share)
{
	for (size_t i = 0; x->told && is_told(x) && i < x->told->n_left; i++) {
		const struct told_left *t = &x->told->left[i];
		if (what != t->what || !is_around(x, &t->base, &t->centre)) continue;
		if (even) *even = t->even;
		if (share) memcpy(share, t->share, sizeof t->share);
		x->work += t->spent;
		return true;
	}
	return false;
}

void xray_tell_left(struct xray *x, unsigned what, bool even, const double *share, uint64_t work)
{
	struct told_all *all = room_to_tell(x);

	if (!all) return;
	struct told_left *t = &all->left[all->next_left];
	*t = (struct told_left){ .base = x->of_base.plan, .centre = x->of_centre.plan, .even = even, .what = what, .spent = work };
	if (share) memcpy(t->share, share, sizeof t->share);
	all->next_left = (all->next_left + 1) % MOST_LEFT;
	all->n_left += all->n_left < MOST_LEFT;
}

void xray_untell(struct xray *x)
{
	if (x->told) free(x->told->of);
	free(x->told);
	x->told = NULL;
}
