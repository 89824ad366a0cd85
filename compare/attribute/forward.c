/* The emulation by growth: roundings and faults are proposed by their coefficients, and kept by the score. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_private.h"
#include "fault_value.h"

/* To be tried, two standard errors are enough: what counts then is that the score falls by much. */
static const double worth_trying = 2;
/* While roundings upstream of it are missing, one that is there shows a coefficient below 1. */
static const double half = 0.5;
/* The share of what is left that a fault must explain to be taken before any rounding is known. */
static const double gross = 0.3;

/* Types tried at all sites before the others. */
enum { FIRST_TIER = 1 };

/* fault: -1 for a rounding; value: of its parameter; doubtful: its coefficient tells too little of it, and elements must */
struct candidate { double value; struct coefficient c; int site, type, fault; bool doubtful; };

struct search {
	struct xray *x;
	const struct op *op;
	bool refused[MAX_SITE][SITE_TYPES];
	uint64_t refused_faults;
	bool plenty;                    /* the emulation explains so much that no type is missing */
};

static bool near_one(const struct coefficient *c) { return c->determined && fabs(c->value - 1) < half && c->gain > 0; }
static bool promising(const struct coefficient *c) { return near_one(c) && c->value > worth_trying * c->error; }

static struct plan with(const struct search *s, const struct candidate *k)
{
	struct plan p = s->x->emulation;

	if (k->fault >= 0) plan_fault_at(&p, s->op, k->fault, k->value);
	else p.round[k->site] = site_types[k->type];
	return p;
}

static void insert(struct candidate *list, int *n, const struct candidate *k)
{
	int at = (*n)++;

	for (; at > 0 && list[at - 1].c.gain < k->c.gain; at--) list[at] = list[at - 1];
	list[at] = *k;
}

/* Is one look each at so many plans within what is left of patience? */
static bool has_patience_for(const struct xray *x, uint64_t looks) { return x->work < x->patience && looks * x->run_work <= x->patience - x->work; }

/* All roundings of types [first, last) that the emulation has not, site by site. */
static int untried(const struct search *s, int first, int last, struct candidate *all)
{
	int n = 0;

	for (int site = 0; s->op->sites[site].name; site++) {
		if (s->x->emulation.round[site].on) continue;
		for (int t = first; t < last; t++)
			if (!s->refused[site][t] && emulation_may_round(s->x, site, t))
				all[n++] = (struct candidate){ .site = site, .type = t, .fault = -1 };
	}
	return n;
}

/* Looks at the emulation with each of the candidates. The caller frees what it gets; NULL: failed. */
static struct look *look_with(const struct search *s, const struct candidate *k, int n, unsigned what)
{
	struct look *look = calloc((size_t)n + 1, sizeof *look);

	for (int i = 0; look && i < n; i++) {
		struct plan p = with(s, &k[i]);
		look[i] = look_of(&p);
	}
	if (!look) error_set(s->x->e, E_MEMORY, s->op->name, NO_OFFSET, "%d candidates", n);
	if (look && xray_look(s->x, look, (size_t)n, what)) return look;
	free(look);
	return NULL;
}

/* All promising roundings of types [first, last), best first; at most one for each site. -1: failed. */
static int roundings(struct search *s, int first, int last, struct candidate *list)
{
	struct candidate all[MAX_SITE * SITE_TYPES] = { { 0 } };
	int n = 0, tried = untried(s, first, last, all);
	struct look *look = look_with(s, all, tried, LOOK_FIT);

	if (!look) return -1;
	for (int i = 0; i < tried;) {
		struct candidate best = { .site = -1 };
		for (int site = all[i].site; i < tried && all[i].site == site; i++) {
			all[i].c = look[i].fit;
			if (promising(&all[i].c) && (best.site < 0 || all[i].c.gain > best.c.gain)) best = all[i];
		}
		if (best.site >= 0) insert(list, &n, &best);
	}
	free(look);
	return n;
}

/* Infinity has no coefficient: what the plan takes off the score stands for its gain. */
static bool overflow_fit(struct search *s, const struct plan *p, struct coefficient *c)
{
	struct plan before = s->x->emulation;
	double score = s->x->score;

	s->x->emulation = *p;
	if (!xray_rebase(s->x)) return false;
	*c = (struct coefficient){ 1, 0, score - s->x->score, true };
	s->x->emulation = before;
	return xray_rebase(s->x);
}

/* All promising faults, best first, that explain at least this share of what is left, and that the coefficient or elements could tell. */
static int faults(struct search *s, double least, struct candidate *list)
{
	struct candidate all[MAX_FAULT] = { { 0 } };
	int n = 0, tried = 0;

	for (int m = 0; s->op->faults[m].name; m++) {
		struct candidate k = { .fault = m };
		bool found = true;
		const bool free_number = s->x->only && s->op->faults[m].by > 1;      /* any gain can hide in it: it excuses no rounding */
		if ((s->x->emulation.faults | s->refused_faults) >> m & 1 || s->op->faults[m].is_rounding || free_number) continue;
		if (s->op->faults[m].parameter && !fault_value_search(s->x, m, &k.value, &found)) return -1;
		if (found) all[tried++] = k;
	}
	struct look *look = look_with(s, all, tried, LOOK_SIZE | LOOK_FIT | LOOK_VOTES);
	if (!look) return -1;
	for (int i = 0; n >= 0 && i < tried; i++) {
		struct candidate k = { .fault = all[i].fault, .value = all[i].value, .c = look[i].fit };
		if (look[i].overflows < 0 || (!look[i].overflows && look[i].size < above_noise)) continue;
		if (look[i].overflows && !overflow_fit(s, &look[i].stream.plan, &k.c)) n = -1;
		k.doubtful = !promising(&k.c) || emulation_doubtful(s->x, k.c.value, k.c.error, certain);
		const double share = s->op->faults[k.fault].by > 1 ? most_of_left : least;
		if (n >= 0 && near_one(&k.c) && k.c.gain >= share && (!k.doubtful || (double)look[i].votes.all >= least_votes)) insert(list, &n, &k);
	}
	free(look);
	return n;
}

static void refuse(struct search *s, const struct candidate *k)
{
	if (k->fault >= 0) s->refused_faults |= UINT64_C(1) << k->fault;
	else s->refused[k->site][k->type] = true;
}

static void forgive(struct search *s)
{
	memset(s->refused, 0, sizeof s->refused);
	s->refused_faults = 0;
}

/* Do elements tell closely that the emulation is nearer the kernel than the plan? */
static bool told_closely(struct xray *x, const struct plan *other, bool *yes)
{
	struct look look = look_of(other);
	bool ok = xray_look(x, &look, 1, LOOK_VOTES);

	*yes = ok && look_told_closely(&look);
	return ok;
}

/* Takes the first n candidates if the score falls by enough, and no fault is doubtful then; else leaves the emulation as it was. */
static bool take(struct search *s, const struct candidate *list, int n, bool *taken)
{
	struct plan before = s->x->emulation;
	double score = s->x->score;

	for (int i = 0; i < n; i++) s->x->emulation = with(s, &list[i]);
	if (!xray_rebase(s->x)) return false;
	bool doubtful = list[0].fault >= 0 && (list[0].doubtful || emulation_doubtful(s->x, list[0].c.value, list[0].c.error, likely));
	double price = list[0].fault >= 0 ? fault_value_price(s->x->call, list[0].fault) : 0;
	*taken = s->x->score < score - worth_keeping - price;
	if (*taken && doubtful && !told_closely(s->x, &before, taken)) return false;
	if (*taken) return true;
	s->x->emulation = before;
	return xray_rebase(s->x);
}

/* The best candidate, and with it, if it is a rounding, all whose coefficient is 1 already. What was
 * refused before the emulation grew may fit now. */
static bool accept(struct search *s, struct candidate *list, int n, bool *grew)
{
	bool taken = false;
	int sure = 1;

	for (int i = 1; i < n && list[0].fault < 0; i++)
		if (fabs(list[i].c.value - 1) < 3 * list[i].c.error) list[sure++] = list[i];
	if (sure > 1 && !take(s, list, sure, &taken)) return false;
	if (!taken && !take(s, list, 1, &taken)) return false;
	if (taken) forgive(s);
	else refuse(s, &list[0]);
	*grew = true;
	return true;
}

/* Of a kernel that breaks the rules other types are looked at only where there is patience for all of them. */
static bool may_look_at_types(const struct search *s)
{
	struct candidate all[MAX_SITE * SITE_TYPES];

	return !s->plenty && !emulation_explains(s->x) && (!s->x->lawless || has_patience_for(s->x, (uint64_t)untried(s, FIRST_TIER, SITE_TYPES, all)));
}

static bool forward_roundings(struct search *s, bool *grew)
{
	struct candidate list[MAX_SITE];
	bool more = true;

	while (more && s->x->work < s->x->patience) {
		more = false;
		int n = roundings(s, 0, FIRST_TIER, list);
		if (n == 0 && !emulation_explains(s->x) && !emulation_turn(s->x, &more)) return false;
		if (more) {
			forgive(s);
			*grew = true;
			continue;
		}
		if (n == 0 && may_look_at_types(s)) n = roundings(s, FIRST_TIER, SITE_TYPES, list);
		if (n < 0 || (n > 0 && !accept(s, list, n, &more))) return false;
		*grew = *grew || more;
	}
	return true;
}

static bool forward_faults(struct search *s, double least, bool *grew)
{
	struct candidate list[64];
	bool more = !s->x->no_faults;

	while (more && s->x->work < s->x->patience) {
		more = false;
		int n = faults(s, least, list);
		if (n < 0 || (n > 0 && !accept(s, list, n, &more))) return false;
		*grew = *grew || more;
	}
	return true;
}

/* Would an output be cut off there to its own type? */
static bool cuts_store(const struct search *s, int site, int type)
{
	const int store = site_store(s->x->call, site);
	const struct site_rounding *r = &site_types[type];

	return store && r->rounding == ROUND_ZERO && dtype_info[out_dtype(s->x->call, store - 1)].format == r->format;
}

/* All stores that cut off, beside roundings as they are and beside none: a contract's, of the
 * same type right before a store, leave a cut nothing to do. Taken first where that explains
 * much, before faults that do a part of it. */
static bool forward_cuts(struct search *s)
{
	struct xray *x = s->x;
	const struct plan before = x->emulation;
	const double score = x->score;
	struct plan p[2] = { before, before };
	int best = 0;

	if (x->shift) return true;
	memset(p[1].round, 0, sizeof p[1].round);
	for (int i = 0; i < 2; i++)
		for (int site = 0; s->op->sites[site].name; site++)
			for (int t = 0; t < SITE_TYPES; t++)
				if (cuts_store(s, site, t) && emulation_may_round(x, site, t)) p[i].round[site] = site_types[t], best = -1;
	struct look look[2] = { look_of(&p[0]), look_of(&p[1]) };
	if (!best) return true;
	if (!xray_look(x, look, 2, LOOK_FIT)) return false;
	for (int i = 0; i < 2; i++)
		if (promising(&look[i].fit) && look[i].fit.gain >= gross && (best < 0 || look[i].fit.gain > look[best].fit.gain)) best = i;
	if (best < 0) return true;
	x->emulation = p[best];
	if (!xray_rebase(x)) return false;
	if (x->score < score - worth_keeping) return true;
	x->emulation = before;
	return xray_rebase(x);
}

/* Patience ends at once where the call keeps the rules, the emulation explains it, and one look at each rounding and fault that it has not would take
 * more than is left: they are looked at together, and none would be given up. */
static bool begin_only_what_ends(const struct search *s)
{
	struct xray *x = s->x;
	struct candidate all[MAX_SITE * SITE_TYPES];
	uint64_t looks = (uint64_t)untried(s, 0, FIRST_TIER, all);
	bool explained;

	for (int m = 0; s->op->faults[m].name; m++) looks += !x->no_faults && !(x->emulation.faults >> m & 1) && !s->op->faults[m].is_rounding;
	if (x->lawless || x->shift || x->work >= x->patience || has_patience_for(x, looks)) return true;
	if (!emulation_explains_evenly(x, &explained)) return false;
	if (explained) x->patience = x->work;
	return true;
}

/* Around a structure that was read only faults are sought. */
bool emulation_forward(struct xray *x)
{
	struct search s = { .x = x, .op = x->call->op };
	bool grew = false, again = true;

	if (!begin_only_what_ends(&s) || !forward_cuts(&s) || !forward_faults(&s, gross, &grew)) return false;
	for (int round = 0; again && round < 4; round++) {
		again = false;
		if (!emulation_explains_plenty(x, &s.plenty)) return false;
		if ((!x->shift && !forward_roundings(&s, &again)) || !emulation_backward(x, s.plenty) || !xray_refresh(x) || !forward_faults(&s, 0, &again)) return false;
	}
	return true;
}
