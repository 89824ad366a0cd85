/* What looks around an emulation told, for the next ones that ask the same. */
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

/* base, centre: around which emulation, refreshed on which; what: was asked; work: its share of what it took. */
struct told { struct plan base, centre; struct look look; unsigned what; uint64_t work; };
/* The newest, in a ring. */
enum { MOST = 256 };
struct told_looks { size_t n, next; struct told of[MOST]; };

static bool same_plan(const struct plan *a, const struct plan *b) { return !memcmp(a, b, sizeof *a); }

/* Around another emulation than the one that was rebased plans do not say what is asked. */
static bool is_kept(const struct xray *x) { return x->refreshed && same_plan(&x->emulation, &x->of_base.plan); }

bool xray_told(struct xray *x, struct look *l, unsigned what)
{
	for (size_t i = 0; x->told && is_kept(x) && i < x->told->n; i++) {
		const struct told *t = &x->told->of[i];
		if (what & ~t->what || !same_plan(&t->look.stream.plan, &l->stream.plan)) continue;
		if (!same_plan(&t->base, &x->of_base.plan) || !same_plan(&t->centre, &x->of_centre.plan)) continue;
		*l = t->look;
		x->work += t->work;     /* as in xray_kept.c */
		return true;
	}
	return false;
}

/* Where there is no room it is made again. */
void xray_tell(struct xray *x, const struct look *l, unsigned what, uint64_t work)
{
	struct told_looks *all = x->told;

	if (!is_kept(x)) return;
	if (!all && (all = x->told = malloc(sizeof *all))) all->n = all->next = 0;
	if (!all) return;
	all->of[all->next] = (struct told){ x->of_base.plan, x->of_centre.plan, *l, what, work };
	all->next = (all->next + 1) % MOST;
	all->n += all->n < MOST;
}

void xray_untell(struct xray *x)
{
	free(x->told);
	x->told = NULL;
}
