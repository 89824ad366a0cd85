/* Roundings that are not allowed: which are in every structure that explains as well? Each is searched around, with the rest free. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "search.h"

enum { NOWHERE = -2, EVERYWHERE = -1 };

static const struct site_rounding as[TYPES] = { [IN_BF16] = { true, FMT_BF16, ROUND_NEAREST_EVEN }, [IN_F16] = { true, FMT_F16, ROUND_NEAREST_EVEN },
	[IN_TF32] = { true, FMT_TF32, ROUND_ZERO }, [IN_TF32_RN] = { true, FMT_TF32, ROUND_NEAREST_EVEN }, [IN_E4M3] = { true, FMT_E4M3, ROUND_NEAREST_EVEN } };

void round_as(const struct search *s, struct candidate *c, int key, const struct site_rounding *r)
{
	for (int t = 0; t < s->keys.at[key].n && t < TYPES && is_rounding(&s->keys.at[key]) && r->on; t++)
		if (as[t].on && as[t].format == r->format && as[t].rounding == r->rounding) c->config.value[key] = (unsigned char)t;
}

static uint64_t sites_at_products(const struct search *s, const struct met *met)
{
	uint64_t sites = 0;

	for (int i = 0; i < met->n; i++)
		if (met->site[i] >= 0 && s->keys.at[met->key[i]].arranged) sites |= UINT64_C(1) << met->site[i];
	return sites;
}

bool rounding_at(const struct search *s, const struct candidate *c, int key, int value, struct structure_rounding *r)
{
	static const enum type merged[] = { IN_F32, IN_TF32, IN_TF32_RN, IN_F16, IN_BF16 }, stored[] = { IN_F32, IN_F16, IN_BF16 };
	const struct key *k = &s->keys.at[key];
	enum type t = is_rounding(k) ? (enum type)type_of(s, c, key, value) : k->what == W_HIGH ? merged[value] : k->what == W_STORE ? stored[value]
		: k->what == W_NARROW ? narrow_sum(value) : value ? elements_type(k->what) : IN_F32;

	*r = (struct structure_rounding){ .site = met_site(&c->met, key), .arranged = k->arranged && k->what != W_NARROW && elements_type(k->what) == IN_F32, .type = as[t] };
	if (r->site < 0 && r->arranged) r->products = sites_at_products(s, &c->met);
	return as[t].on;
}

static bool forbidden(const struct search *s, const struct candidate *c, int key, int value)
{
	struct structure_rounding r;

	return s->how->allows && is_rounding(&s->keys.at[key]) && rounding_at(s, c, key, value, &r) && !s->how->allows(&r, s->how->with);
}

static bool banned_here(const struct search *s, const struct candidate *c, int key, int value)
{
	return (s->ban == EVERYWHERE || s->ban == met_site(&c->met, key)) && forbidden(s, c, key, value);
}

bool banned(const struct search *s, const struct candidate *c, int key, int value)
{
	return s->ban != NOWHERE && (s->keys.at[key].kind == CHOOSE_DEFAULT || banned_here(s, c, key, value));
}

bool any_banned(const struct search *s, const struct candidate *c)
{
	bool any = false;

	for (int i = 0; i < c->met.n && s->ban != NOWHERE && !any; i++) any = banned_here(s, c, c->met.key[i], c->config.value[c->met.key[i]]);
	return any;
}

/* The best that is found without what is banned; false: the budget was used up before. */
static bool without(struct search *s, const struct candidate *best, int ban, struct candidate *to)
{
	const int last = s->n_stage - 1;
	struct candidate t = *best;

	s->ban = ban;
	for (int i = 0; i < t.met.n; i++) {
		int key = t.met.key[i];
		if (!is_rounding(&s->keys.at[key])) continue;
		bool out = banned(s, best, key, best->config.value[key]);
		t.config.value[key] = (unsigned char)(out ? (int)IN_F32 : type_of(s, best, key, best->config.value[key]));
	}
	*to = t;
	descend(s, to, last, true);
	s->mix = 0;
	descend(s, &t, last, false);
	s->mix = 1;
	descend(s, &t, last, false);
	if (t.cost < to->cost) *to = t;
	s->ban = NOWHERE;
	return !late(s);
}

static bool as_good(struct search *s, const struct candidate *t, const struct errors *base, struct errors *e, double *effect)
{
	struct score score[MAX_OUT];
	double sum = 0, n = 0;

	if (!measured(s, t, score, e->of)) return true;
	struct contrast c = contrast(s, e, base);
	for (int o = 0; o < MAX_OUT; o++)
		for (int k = 0; k < s->n_stage; k++) sum += score[o].left[k], n += score[o].count[k];
	*effect = sqrt(sum / fmax(n, 1)) * 0x1p24;
	return c.worst < sign_test && !c.louder;
}

/* more: what t answers less what the best does. */
static bool apart(struct search *s, const struct candidate *t, const struct candidate *best, double *more[MAX_OUT])
{
	double *of_best[MAX_OUT] = { NULL };
	bool ok = answers_make(s, more) && answers_make(s, of_best) && answered_in(s, graph_of(s, t), t, more) && answered_in(s, graph_of(s, best), best, of_best);

	for (int o = 0; o < MAX_OUT; o++) {
		for (size_t i = 0; i < s->call->out_count[o] && ok; i++) more[o][i] -= of_best[o][i];
		free(of_best[o]);
	}
	return ok;
}

/* Of the rounding at one site. */
static bool needed_at(struct search *s, const struct candidate *best, int site, const struct errors *base, struct errors *e, double *effect,
	double *more[MAX_OUT])
{
	struct candidate t;
	double size;

	if (!without(s, best, site, &t) || as_good(s, &t, base, e, &size)) return true;
	*effect = size;
	return apart(s, &t, best, more);
}

/* Does what is allowed explain as well? Then *best becomes that. */
void needed_roundings(struct search *s, struct candidate *best, double effect[MAX_SITE], double *more[MAX_SITE][MAX_OUT])
{
	struct errors base, other;
	struct score score[MAX_OUT];
	struct candidate t;
	bool at[MAX_SITE] = { false }, any = false, ok = errors_make(s, &base), two = errors_make(s, &other);
	double size;

	memset(effect, 0, MAX_SITE * sizeof *effect);
	for (int i = 0; i < best->met.n; i++) {
		int key = best->met.key[i];
		if (!forbidden(s, best, key, best->config.value[key])) continue;
		any = true;
		if (best->met.site[i] >= 0) at[best->met.site[i]] = true;
	}
	if (any && ok && two && measured(s, best, score, base.of) && without(s, best, EVERYWHERE, &t)) {
		if (as_good(s, &t, &base, &other, &size)) *best = t;
		else
			for (int site = 0; site < MAX_SITE && ok; site++) ok = !at[site] || needed_at(s, best, site, &base, &other, &effect[site], more[site]);
	}
	s->failed = s->failed || !ok;
	errors_free(&base);
	errors_free(&other);
}
