#include <math.h>
#include <string.h>

#include "replica.h"

const double certain = 6, above_noise = 2;
/* A rounding with a smaller effect is none. */
static const double least_rounding = 1;
/* To be tried, two standard errors are enough: what counts then is that the score falls by this much. */
static const double worth_trying = 2;
const double worth_keeping = 30;
const double saturated = 0.1;
/* While roundings upstream of it are missing, one that is there shows a coefficient below 1. */
static const double half = 0.5;
/* The share of what is left that a mistake must explain to be taken before any rounding is known. */
static const double gross = 0.3;
/* Of what is left, as its mean square in units of float32's noise: sums in order leave that much. */
static const double float32s_size = 16;
/* The share of the error that a replica with roundings inside must explain, and that ends the search where what is left
 * is the size of a few tips: one large rounding may be 99.9 % of the error alone. */
static const double enough = 0.99, plenty = 0.999, tips = 100;
/* Element operations of the reference: of one run of the search, and that replica_descend may spend in all, a
 * quarter of a minute of one core. */
static const uint64_t enough_work = UINT64_C(1) << 24, patience = UINT64_C(1) << 35;

const struct site_rounding site_types[SITE_TYPES] = {
	{ true, FMT_BF16, ROUND_NEAREST_EVEN }, { true, FMT_F16, ROUND_NEAREST_EVEN }, { true, FMT_TF32, ROUND_ZERO },
	{ true, FMT_TF32, ROUND_NEAREST_EVEN }, { true, FMT_BF16, ROUND_ZERO }, { true, FMT_F16, ROUND_ZERO },
	{ true, FMT_E4M3, ROUND_NEAREST_EVEN }, { true, FMT_E5M2, ROUND_NEAREST_EVEN },
};
enum { FIRST_TIER = 1 };        /* types tried at all sites before the others */

static const struct model { const struct arith *arith; int form; size_t chunk; } models[] = {
	{ &arith_f64, 0, 0 }, { &arith_f32, 0, 0 }, { &arith_f64, 1, 64 }, { &arith_f64, 1, 32 }, { &arith_f64, 1, 16 }, { &arith_f64, 1, 128 },
};
enum { MODELS = sizeof models / sizeof *models };

static bool rounds_inside(const struct xray *x)
{
	for (int k = 0; x->call->op->sites[k].name; k++)
		if (x->replica.round[k].on && !site_store(x->call, k)) return true;
	return false;
}

static bool explains_share(const struct xray *x, const double share[MAX_OUT], double least)
{
	for (int o = 0; o < MAX_OUT; o++)
		if (x->call->out_count[o] && !(share[o] >= least)) return false;
	return rounds_inside(x);
}

struct candidate { int site, type, mistake; struct coefficient c; };    /* mistake: -1 for a rounding */

struct search {
	struct xray *x;
	const struct op *op;
	bool refused[MAX_SITE][SITE_TYPES];
	uint64_t refused_mistakes;
	bool nearly;                    /* the replica explains so much that no type is missing */
};

static bool promising(const struct coefficient *c)
{
	return c->determined && c->value > worth_trying * c->error && fabs(c->value - 1) < half && c->gain > 0;
}

static struct plan with(const struct search *s, const struct candidate *k)
{
	struct plan p = s->x->replica;

	if (k->mistake >= 0) plan_mistake(&p, s->op, k->mistake);
	else p.round[k->site] = site_types[k->type];
	return p;
}

static void insert(struct candidate *list, int *n, const struct candidate *k)
{
	int at = (*n)++;

	for (; at > 0 && list[at - 1].c.gain < k->c.gain; at--) list[at] = list[at - 1];
	list[at] = *k;
}

/* All promising roundings of types [first, last), best first; at most one for each site. -1: failed. */
static int roundings(struct search *s, int first, int last, struct candidate *list)
{
	int n = 0;

	for (int site = 0; s->op->sites[site].name; site++) {
		struct candidate best = { .site = -1 };
		if (!site_in_form(s->op, site, s->x->replica.form) || s->x->replica.round[site].on) continue;
		for (int t = first; t < last; t++) {
			struct candidate k = { .site = site, .type = t, .mistake = -1 };
			if (s->refused[site][t] || is_store(s->x->call, site, site_types[t].format)) continue;
			struct plan p = with(s, &k);
			if (!xray_direction(s->x, &p)) return -1;
			k.c = xray_fit(s->x);
			if (promising(&k.c) && (best.site < 0 || k.c.gain > best.c.gain)) best = k;
		}
		if (best.site >= 0) insert(list, &n, &best);
	}
	return n;
}

/* Infinity has no coefficient: what the plan takes off the score stands for its gain. */
static bool overflow_fit(struct search *s, const struct plan *p, struct coefficient *c)
{
	struct plan before = s->x->replica;
	double score = s->x->score;

	s->x->replica = *p;
	if (!xray_rebase(s->x)) return false;
	*c = (struct coefficient){ 1, 0, score - s->x->score, true };
	s->x->replica = before;
	return xray_rebase(s->x);
}

/* All promising mistakes, best first, that explain at least this share of what is left. Where what is left
 * is of float32's size, a mistake must be certain to be tried at all. */
static int mistakes(struct search *s, double least, struct candidate *list)
{
	bool small = xray_left(s->x) <= float32s_size;
	int n = 0;

	for (int m = 0; s->op->mistakes[m].name; m++) {
		struct candidate k = { .mistake = m };
		if ((s->x->replica.mistakes | s->refused_mistakes) >> m & 1 || s->op->mistakes[m].is_rounding) continue;
		struct plan p = with(s, &k);
		if (!xray_direction(s->x, &p)) return -1;
		int overflows = xray_overflows(s->x);
		if (overflows < 0 || (!overflows && xray_size(s->x) < above_noise)) continue;
		if (overflows && !overflow_fit(s, &p, &k.c)) return -1;
		if (!overflows) k.c = xray_fit(s->x);
		if (promising(&k.c) && k.c.gain >= least && (!small || k.c.value > certain * k.c.error)) insert(list, &n, &k);
	}
	return n;
}

static void refuse(struct search *s, const struct candidate *k)
{
	if (k->mistake >= 0) s->refused_mistakes |= UINT64_C(1) << k->mistake;
	else s->refused[k->site][k->type] = true;
}

static void forgive(struct search *s)
{
	memset(s->refused, 0, sizeof s->refused);
	s->refused_mistakes = 0;
}

/* Takes the first n candidates if the score falls by enough; else leaves the replica as it was. */
static bool take(struct search *s, const struct candidate *list, int n, bool *taken)
{
	struct plan before = s->x->replica;
	double score = s->x->score;

	for (int i = 0; i < n; i++) s->x->replica = with(s, &list[i]);
	if (!xray_rebase(s->x)) return false;
	*taken = s->x->score < score - worth_keeping;
	if (*taken) return true;
	s->x->replica = before;
	return xray_rebase(s->x);
}

/* The best candidate, and with it, if it is a rounding, all whose coefficient is 1 already. What was
 * refused before the replica grew may fit now. */
static bool accept(struct search *s, struct candidate *list, int n, bool *grew)
{
	bool taken = false;
	int sure = 1;

	for (int i = 1; i < n && list[0].mistake < 0; i++)
		if (fabs(list[i].c.value - 1) < 3 * list[i].c.error) list[sure++] = list[i];
	if (sure > 1 && !take(s, list, sure, &taken)) return false;
	if (!taken && !take(s, list, 1, &taken)) return false;
	if (taken) forgive(s);
	else refuse(s, &list[0]);
	*grew = true;
	return true;
}

static bool grow_roundings(struct search *s, bool *grew)
{
	struct candidate list[MAX_SITE];
	bool more = true;

	while (more) {
		more = false;
		int n = roundings(s, 0, FIRST_TIER, list);
		if (n == 0 && !s->nearly && !replica_explains(s->x)) n = roundings(s, FIRST_TIER, SITE_TYPES, list);
		if (n < 0 || (n > 0 && !accept(s, list, n, &more))) return false;
		*grew = *grew || more;
	}
	return true;
}

static bool grow_mistakes(struct search *s, double least, bool *grew)
{
	struct candidate list[64];
	bool more = true;

	while (more) {
		more = false;
		int n = mistakes(s, least, list);
		if (n < 0 || (n > 0 && !accept(s, list, n, &more))) return false;
		*grew = *grew || more;
	}
	return true;
}

/* Tries the replica with this site rounded otherwise; *best and *score keep the better. */
static bool try_site(struct search *s, int site, struct site_rounding r, double margin, struct site_rounding *best, double *score)
{
	s->x->replica.round[site] = r;
	if (!xray_rebase(s->x)) return false;
	if (s->x->score < *score + margin) *score = s->x->score, *best = r;
	return true;
}

/* Takes a rounding out if the replica does as well without; while something is left unexplained, puts
 * the best of the types in its place. */
static bool prune_site(struct search *s, int site)
{
	struct site_rounding best = s->x->replica.round[site];
	double score = s->x->score;
	bool explained = s->nearly || replica_explains(s->x);
	struct plan without = s->x->replica;

	without.round[site] = (struct site_rounding){ 0 };
	if (!xray_direction(s->x, &without)) return false;
	if (xray_size(s->x) < least_rounding) score = INFINITY;
	if (!try_site(s, site, (struct site_rounding){ 0 }, worth_keeping, &best, &score)) return false;
	for (int t = 0; t < SITE_TYPES && best.on && !explained; t++)
		if (!is_store(s->x->call, site, site_types[t].format) && !try_site(s, site, site_types[t], -worth_keeping, &best, &score))
			return false;
	s->x->replica.round[site] = best;
	return xray_rebase(s->x);
}

/* Takes a mistake out if the replica does as well without, or if it is not certain. */
static bool prune_mistake(struct search *s, int m)
{
	struct plan before = s->x->replica, without = before;
	double score = s->x->score;

	without.mistakes &= ~(UINT64_C(1) << m);
	if (!xray_direction(s->x, &without)) return false;
	struct coefficient c = xray_fit(s->x);
	bool doubtful = xray_left(s->x) <= float32s_size && !xray_overflows(s->x) && 1 - c.value < certain * c.error;
	s->x->replica = without;
	if (!xray_rebase(s->x)) return false;
	if (doubtful || s->x->score < score + worth_keeping) return true;
	s->x->replica = before;
	return xray_rebase(s->x);
}

/* Stores first: of two sites that are the same number, the one that is no store stays. */
static bool prune(struct search *s)
{
	for (int store = 1; store >= 0; store--)
		for (int k = 0; s->op->sites[k].name; k++)
			if (s->x->replica.round[k].on && (site_store(s->x->call, k) > 0) == store && !prune_site(s, k)) return false;
	for (int m = 0; s->op->mistakes[m].name; m++)
		if (s->x->replica.mistakes >> m & 1 && !prune_mistake(s, m)) return false;
	return true;
}

bool replica_explains(const struct xray *x)
{
	return xray_left(x) <= 2;
}

/* Explains so much that no other form and no other type can be meant. */
static bool explains_plenty(const struct xray *x, const double share[MAX_OUT])
{
	return explains_share(x, share, plenty) && xray_left(x) <= tips;
}

bool replica_nearly_explains(const struct xray *x, const double share[MAX_OUT])
{
	return explains_share(x, share, enough);
}

bool replica_grow(struct xray *x)
{
	struct search s = { .x = x, .op = x->call->op };
	bool grew = false, again = true;

	if (!grow_mistakes(&s, gross, &grew)) return false;
	for (int round = 0; again && round < 4; round++) {
		double share[MAX_OUT];
		again = false;
		if (!xray_explained(x, share)) return false;
		s.nearly = explains_plenty(x, share);
		if (!grow_roundings(&s, &again) || !prune(&s) || !xray_settle(x) || !grow_mistakes(&s, 0, &again)) return false;
	}
	return true;
}

struct grown { struct plan plan; double score; };

static bool grow_from(struct xray *x, const struct plan *p)
{
	x->replica = *p;
	return xray_settle(x) && replica_grow(x);
}

/* What is grown from each model, best first, until one explains all, or nearly. -1: failed. */
static int grow_models(struct xray *x, struct grown *list, bool *done)
{
	int n = 0;

	*done = false;
	for (int i = 0; i < MODELS && !*done; i++) {
		double share[MAX_OUT];
		const struct form *form = &x->call->op->forms[models[i].form];
		if (!form->name || (models[i].chunk && models[i].chunk != DEFAULT_CHUNK && !form->chunked)) continue;
		struct plan p = plan_plain(models[i].arith, models[i].arith->precision);
		p.form = models[i].form;
		p.chunk = form->chunked ? models[i].chunk : 0;
		if (!grow_from(x, &p) || !xray_explained(x, share)) return -1;
		int at = n++;
		for (; at > 0 && list[at - 1].score > x->score; at--) list[at] = list[at - 1];
		list[at] = (struct grown){ x->replica, x->score };
		*done = replica_explains(x) || explains_plenty(x, share);
	}
	return n;
}

/* Descends from p; *best keeps the better. */
static bool descend_from(struct xray *x, const struct plan *p, bool mistakes, struct grown *best)
{
	if (replica_explains(x)) return true;
	x->replica = *p;
	if (!xray_settle(x) || !replica_descend(x, mistakes)) return false;
	if (x->score < best->score) *best = (struct grown){ x->replica, x->score };
	return true;
}

static struct plan bare(const struct plan *p)
{
	struct plan plain = plan_plain(p->arith, p->bits);

	plain.form = p->form;
	plain.chunk = p->chunk;
	return plain;
}

/* From each rounding alone: where the first step of a descent is wrong, it ends beside the bottom. */
static bool descend_singles(struct xray *x, const struct plan *model, struct grown *best)
{
	uint64_t limit = x->work + patience / 8;

	for (int site = 0; x->call->op->sites[site].name; site++)
		for (int t = 0; t < SITE_TYPES && site_in_form(x->call->op, site, model->form); t++) {
			struct plan p = bare(model);
			p.round[site] = site_types[t];
			if (replica_explains(x) || x->work >= limit) return true;
			if (!is_store(x->call, site, site_types[t].format) && !descend_from(x, &p, false, best)) return false;
		}
	return true;
}

/* From what each model has grown to, and from the bare model. */
static bool descend_all(struct xray *x, const struct grown *list, int n, bool mistakes, struct grown *best)
{
	for (int i = 0; i < n; i++) {
		struct plan plain = bare(&list[i].plan);
		if (!descend_from(x, &list[i].plan, mistakes, best) || !descend_from(x, &plain, mistakes, best)) return false;
	}
	return true;
}

/* Is p a replica whose own error is largely float32's noise, amplified, and does it explain the call? Then any
 * change of a rounding draws that noise anew and none can be told from another: p stands. */
static bool is_noise(struct xray *x, const struct plan *p, bool *noise)
{
	x->replica = *p;
	if (!xray_settle(x)) return false;
	double share = xray_amplified(x);
	*noise = share > saturated && replica_explains(x);
	return share >= 0;
}

static bool noise_of_contracts(struct xray *x, bool *noise)
{
	*noise = false;
	for (const struct contract *k = x->call->op->contracts; k->name && !*noise; k++) {
		struct plan p = plan_plain(&arith_f64, arith_f64.precision);
		plan_contract(&p, k);
		if (!is_noise(x, &p, noise)) return false;
	}
	return true;
}

static bool search(struct xray *x)
{
	struct grown list[MODELS], best;
	bool noise, done;
	int n = grow_models(x, list, &done);

	if (n < 0) return false;
	if (done) return true;
	if (!noise_of_contracts(x, &noise) || noise) return noise;
	best = list[0];
	x->patience = x->work + patience;
	if (!descend_all(x, list, n, false, &best) || !descend_singles(x, &best.plan, &best) || !descend_all(x, list, n, true, &best)) return false;
	if (!replica_explains(x)) x->replica = best.plan;
	return true;
}

static bool explains_evenly(struct xray *x) { return replica_explains(x) && xray_is_even(x); }

/* float16 and TF32 have as many bits, and differ where numbers are small: start's own type stays, unless the other
 * does better by what is worth keeping. */
static bool prefer_types(struct xray *x, const struct plan *start)
{
	for (int k = 0; x->call->op->sites[k].name; k++) {
		struct site_rounding was = x->replica.round[k], own = start->round[k];
		double score = x->score;
		if (!was.on || !own.on || was.format == own.format) continue;
		if (format_info[was.format].precision != format_info[own.format].precision || was.rounding != own.rounding) continue;
		x->replica.round[k] = own;
		if (!xray_direction(x, &x->replica)) return false;
		bool alike = xray_size(x) < above_noise;
		if (!xray_rebase(x)) return false;
		if (alike || x->score < score + worth_keeping) continue;
		x->replica.round[k] = was;
		if (!xray_rebase(x)) return false;
	}
	return true;
}

/* replica_grow from start. What start explained must still be explained by what it has grown to. */
static bool grow_start(struct xray *x, const struct plan *start)
{
	bool noise;

	if (!is_noise(x, start, &noise)) return false;
	if (noise) return true;
	bool explained = explains_evenly(x);
	if (!grow_from(x, start) || !prefer_types(x, start)) return false;
	if (!explained || explains_evenly(x)) return true;
	x->replica = *start;
	return xray_settle(x);
}

bool replica_search(struct xray *x, const struct plan *start)
{
	struct grown first = { .score = INFINITY };
	double share[MAX_OUT];

	if (start) {
		if (!grow_start(x, start) || !xray_explained(x, share)) return false;
		if (replica_explains(x) || replica_nearly_explains(x, share)) return true;
		first = (struct grown){ x->replica, x->score };
	}
	if (!xray_sample_pieces(x, enough_work) || !search(x)) return false;
	bool sampled = x->stride > 1;
	struct plan found = x->replica;
	bool noise;
	if (!xray_sample_pieces(x, 0) || !is_noise(x, &found, &noise) || (sampled && !noise && !grow_from(x, &found))) return false;
	if (replica_explains(x) || x->score <= first.score) return !start || prefer_types(x, start);
	x->replica = first.plan;
	return xray_settle(x);
}
