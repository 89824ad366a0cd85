#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

const char *const reading_name[] = { "not visible", "not rounded", "rounded" };

/* What a site may be rounded to. The first is tried at all sites before the others. */
static const struct site_rounding types[] = {
	{ true, FMT_BF16, ROUND_NEAREST_EVEN }, { true, FMT_F16, ROUND_NEAREST_EVEN }, { true, FMT_TF32, ROUND_ZERO },
	{ true, FMT_TF32, ROUND_NEAREST_EVEN }, { true, FMT_BF16, ROUND_ZERO }, { true, FMT_F16, ROUND_ZERO },
	{ true, FMT_E4M3, ROUND_NEAREST_EVEN }, { true, FMT_E5M2, ROUND_NEAREST_EVEN },
};
enum { TYPES = sizeof types / sizeof *types, FIRST_TIER = 1 };
static const struct model { const struct arith *arith; int form; size_t chunk; } models[] = {
	{ &arith_f64, 0, 0 }, { &arith_f32, 0, 0 }, { &arith_f64, 1, 64 }, { &arith_f64, 1, 32 }, { &arith_f64, 1, 16 }, { &arith_f64, 1, 128 },
};

/* A coefficient this many standard errors from 0 is not 0; one whose error is larger than the
 * reciprocal says nothing. */
static const double certain = 6;
/* To be tried, two are enough: what counts then is that -2 log likelihood falls by this much. */
static const double worth_trying = 2, worth_keeping = 30;
/* While sites upstream of it are missing, a rounding that is there shows a coefficient below 1. */
static const double half = 0.5;

struct candidate { int site, type; struct coefficient c; };

struct search {
	struct xray x;
	const struct op *op;
	struct plan replica;
	double score;
	/* [n]: the replica's answer, not stored; the kernel's distance from it, not stored and stored; the
	 * weights of the one not stored; a direction, not stored */
	double *base, *raw, *r, *raw_weight, *d;
	bool refused[MAX_SITE][TYPES];
	void (*tick)(const char *, size_t, size_t);
	size_t runs;
	struct error *e;
};

/* Rounding an output to the type it is stored in is no choice of the kernel's. */
static bool is_store(const struct call *call, int site, enum format f)
{
	int store = call->op->sites[site].store;

	return store && format_info[f].precision >= format_info[dtype_info[out_dtype(call, store - 1)].format].precision;
}

static bool rebase(struct search *s)
{
	if (!xray_run(&s->x, &s->replica, s->base, s->e)) return false;
	xray_store(&s->x, s->base, s->r);
	for (size_t i = 0; i < s->x.n; i++) s->r[i] = s->x.got[i] - s->r[i];
	s->score = xray_weigh(&s->x, s->r);
	for (int o = 0; o < MAX_OUT; o++)
		for (size_t i = s->x.first[o]; i < s->x.first[o + 1]; i++) {
			double w = s->x.weight[i], ulp = format_ulp(dtype_info[out_dtype(s->x.call, o)].format, s->base[i]);
			s->raw[i] = s->x.got[i] - s->base[i];
			s->raw_weight[i] = w > 0 ? 1 / (1 / w + ulp * ulp / 12) : 0;
		}
	return true;
}

/* d = what the replica would answer with the site rounded so, or not rounded, less what it answers. */
static bool direction(struct search *s, int site, struct site_rounding r)
{
	struct plan p = s->replica;

	p.round[site] = r;
	if (s->tick) s->tick("profile", s->runs, s->runs + 1);
	s->runs++;
	if (!xray_run(&s->x, &p, s->d, s->e)) return false;
	for (size_t i = 0; i < s->x.n; i++) s->d[i] -= s->base[i];
	return true;
}

static bool promising(const struct coefficient *c)
{
	return c->determined && c->value > worth_trying * c->error && fabs(c->value - 1) < half && c->gain > 0;
}

/* How well the direction explains the distance. What is stored is a step function of what is not, so
 * small effects show best in the distance between stored answers, where most elements are equal; but
 * a rounding that leaves the answer on the store's own grid moves nothing there, and shows before. */
static struct coefficient best_fit(const struct search *s)
{
	struct sample stored = xray_sample(&s->x), raw = stored;
	struct coefficient a, b;
	const double *d = s->d;

	raw.weight = s->raw_weight;
	fit(&stored, s->r, &d, 1, &a);
	fit(&raw, s->raw, &d, 1, &b);
	if (promising(&a) && promising(&b)) return a.gain > b.gain ? a : b;
	return promising(&a) ? a : b;
}

/* All promising roundings of types [first, last), best first; at most one for each site. */
static int candidates(struct search *s, int first, int last, struct candidate *list)
{
	int n = 0;

	for (int k = 0; s->op->sites[k].name; k++) {
		struct candidate best = { .site = -1 };
		if (!site_in_form(s->op, k, s->replica.form) || s->replica.round[k].on) continue;
		for (int t = first; t < last; t++) {
			struct coefficient c;
			if (s->refused[k][t] || is_store(s->x.call, k, types[t].format)) continue;
			if (!direction(s, k, types[t])) return -1;
			c = best_fit(s);
			if (promising(&c) && (best.site < 0 || c.gain > best.c.gain)) best = (struct candidate){ k, t, c };
		}
		if (best.site < 0) continue;
		int at = n++;
		for (; at > 0 && list[at - 1].c.gain < best.c.gain; at--) list[at] = list[at - 1];
		list[at] = best;
	}
	return n;
}

/* Takes the first candidate, and with it those whose coefficient is 1 already; keeps what lowers the
 * score. *grew says whether anything was kept. */
static bool accept(struct search *s, const struct candidate *list, int n, bool *grew)
{
	struct plan before = s->replica;
	double score = s->score;

	for (int i = 0; i < n; i++)
		if (i == 0 || fabs(list[i].c.value - 1) < 3 * list[i].c.error) s->replica.round[list[i].site] = types[list[i].type];
	if (!rebase(s)) return false;
	if ((*grew = s->score < score - worth_keeping)) return true;
	s->replica = before;
	s->replica.round[list[0].site] = types[list[0].type];
	if (!rebase(s)) return false;
	if ((*grew = s->score < score - worth_keeping)) return true;
	s->replica = before;
	s->refused[list[0].site][list[0].type] = *grew = true;
	return rebase(s);
}

static bool grow(struct search *s)
{
	struct candidate list[MAX_SITE];
	bool grew = true;

	while (grew) {
		int n = candidates(s, 0, FIRST_TIER, list);
		if (n == 0) n = candidates(s, FIRST_TIER, TYPES, list);
		if (n < 0 || (n > 0 && !accept(s, list, n, &grew))) return false;
		if (n == 0) grew = false;
	}
	return true;
}

/* Drops what the replica does as well without, or better with another type at the same site. */
static bool prune(struct search *s)
{
	for (int k = 0; s->op->sites[k].name; k++) {
		struct site_rounding best = s->replica.round[k];
		double score = s->score;
		if (!best.on) continue;
		for (int t = -1; t < TYPES; t++) {
			if (t >= 0 && is_store(s->x.call, k, types[t].format)) continue;
			s->replica.round[k] = t < 0 ? (struct site_rounding){ 0 } : types[t];
			if (!rebase(s)) return false;
			if (s->score < score - (t < 0 ? -worth_keeping : worth_keeping)) score = s->score, best = s->replica.round[k];
		}
		s->replica.round[k] = best;
		if (!rebase(s)) return false;
	}
	return true;
}

/* Floor and shape around the replica as it stands. */
static bool settle(struct search *s)
{
	return xray_run(&s->x, &s->replica, s->base, s->e) && xray_shape(&s->x, &s->replica, s->base, s->e)
		&& xray_floor(&s->x, &s->replica, s->base, s->e) && rebase(s);
}

static bool search_form(struct search *s, const struct arith *a, int form, size_t chunk)
{
	s->replica = plan_plain(a, a->precision);
	s->replica.form = form;
	s->replica.chunk = chunk;
	memset(s->refused, 0, sizeof s->refused);
	return settle(s) && grow(s) && prune(s) && grow(s);
}

/* Is what is left no more than the replica's own noise? */
static bool all_explained(struct search *s)
{
	double sum = 0, n = 0;

	for (size_t i = 0; i < s->x.n; i++) {
		if (!(s->x.floor2[i] > 0)) continue;
		sum += s->r[i] * s->r[i] / s->x.floor2[i];
		n++;
	}
	return sum <= 2 * n;
}

/* Token by token with exact sums, then in float32, then in chunks: the first that explains all, else
 * the one that explains most. */
static bool search_forms(struct search *s)
{
	struct plan best = { 0 };
	double score = INFINITY;

	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		const struct model *m = &models[i];
		if (!s->op->forms[m->form].name) continue;
		if (!search_form(s, m->arith, m->form, m->chunk)) return false;
		if (s->score < score) score = s->score, best = s->replica;
		if (all_explained(s)) break;
	}
	s->replica = best;
	return settle(s);
}

/* All sites at once around the replica: a rounded one with the direction that takes it out, so that
 * its coefficient is 1 plus what the fit says; the others with the type that explains most. */
static bool read_sites(struct search *s, struct profile *p)
{
	struct sample sample = xray_sample(&s->x);
	double *all = malloc(MAX_SITE * s->x.n * sizeof *all);
	const double *d[MAX_SITE];
	struct coefficient c[MAX_SITE];
	bool ok = all != NULL || error_set(s->e, E_MEMORY, s->op->name, NO_OFFSET, "%zu outputs at each site", s->x.n);

	p->n = 0;
	if (ok) memset(c, 0, sizeof c);
	for (int k = 0; ok && s->op->sites[k].name; k++) {
		struct site_rounding on = s->replica.round[k];
		if (!site_in_form(s->op, k, s->replica.form)) continue;
		double *to = all + (size_t)p->n * s->x.n;
		ok = direction(s, k, on.on ? (struct site_rounding){ 0 } : types[0]);
		for (size_t i = 0; ok && i < s->x.n; i++) to[i] = on.on ? -s->d[i] : s->d[i];
		d[p->n] = to;
		p->reading[p->n++] = (struct reading){ .site = k, .format = on.on ? on.format : types[0].format, .rounding = on.rounding,
			.state = on.on ? ROUNDED : NOT_ROUNDED };
	}
	if (ok) fit(&sample, s->r, d, p->n, c);
	for (int j = 0; ok && j < p->n; j++) {
		struct reading *r = &p->reading[j];
		r->coefficient = c[j].value + (r->state == ROUNDED);
		r->error = c[j].error;
		if (!(r->error < 1 / certain)) r->state = NOT_VISIBLE;
	}
	free(all);
	return ok;
}

/* The store of output o, where its type is narrower than float32: around the replica's own answer, as
 * the rounding that it is. */
static void read_store(const struct search *s, struct profile *p, int o)
{
	struct sample sample = { s->x.n, s->x.blocks, s->x.block, s->d };
	enum dtype t = out_dtype(s->x.call, o);
	double *y = calloc(2 * s->x.n, sizeof *y), *d = y + s->x.n;
	const double *only = d;
	struct coefficient c;

	for (size_t i = 0; i < s->x.n; i++) s->d[i] = 0;
	for (size_t i = s->x.first[o]; y && i < s->x.first[o + 1]; i++) {
		double ulp = format_ulp(dtype_info[t].format, s->base[i]);
		y[i] = s->x.got[i] - s->base[i];
		d[i] = stored_as(t, s->base[i], 0) - s->base[i];
		s->d[i] = s->x.floor2[i] > 0 ? 1 / (ulp * ulp) : 0;
	}
	if (y) fit(&sample, y, &only, 1, &c);
	for (int j = 0; y && j < p->n; j++) {
		struct reading *r = &p->reading[j];
		if (s->op->sites[r->site].store != 1 + o || format_info[dtype_info[t].format].precision >= 24) continue;
		*r = (struct reading){ r->site, dtype_info[t].format, ROUND_NEAREST_EVEN, c.value, c.error,
			c.error < 1 / certain ? (fabs(c.value - 1) < half ? ROUNDED : NOT_ROUNDED) : NOT_VISIBLE };
	}
	free(y);
}

static void measure(const struct search *s, struct profile *p, const double *truth)
{
	for (int o = 0; o < MAX_OUT; o++) {
		double before = 0, after = 0, chi = 0;
		size_t n = s->x.call->out_count[o], equal = 0, counted = 0;
		for (size_t i = s->x.first[o]; i < s->x.first[o + 1]; i++) {
			double e = s->x.got[i] - truth[i];
			before += e * e;
			after += s->r[i] * s->r[i];
			equal += s->r[i] == 0;
			if (s->x.floor2[i] > 0) chi += s->r[i] * s->r[i] / s->x.floor2[i], counted++;
		}
		if (!n) continue;
		p->out[o].explained = before > 0 ? 1 - after / before : 1;
		p->out[o].bit_equal = (double)equal / (double)n;
		p->out[o].rms = counted ? sqrt(chi / (double)counted) : 0;
	}
}

static bool profile_search(struct search *s, struct profile *p)
{
	struct plan plain = plan_plain(&arith_f64, arith_f64.precision);

	if (!search_forms(s) || !read_sites(s, p) || !xray_run(&s->x, &plain, s->d, s->e)) return false;
	p->form = s->replica.form;
	p->chunk = s->replica.chunk;
	memcpy(p->round, s->replica.round, sizeof p->round);
	measure(s, p, s->d);
	for (int o = 0; o < MAX_OUT; o++)
		if (s->x.call->out_count[o]) read_store(s, p, o);
	return true;
}

bool profile_make(struct profile *p, const struct call *call, void (*tick)(const char *, size_t, size_t), struct error *e)
{
	struct search s = { .op = call->op, .tick = tick, .e = e };

	*p = (struct profile){ 0 };
	if (!xray_make(&s.x, call, e)) return false;
	s.base = malloc(5 * s.x.n * sizeof *s.base);
	s.raw = s.base + s.x.n;
	s.r = s.raw + s.x.n;
	s.raw_weight = s.r + s.x.n;
	s.d = s.raw_weight + s.x.n;
	bool ok = s.base ? profile_search(&s, p) : error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu outputs", s.x.n);
	if (tick) tick("profile", 1, 1);
	free(s.base);
	xray_free(&s.x);
	return ok;
}

struct plan profile_plan(const struct profile *p)
{
	struct plan plan = plan_plain(&arith_f64, arith_f64.precision);

	plan.form = p->form;
	plan.chunk = p->chunk;
	memcpy(plan.round, p->round, sizeof plan.round);
	return plan;
}

bool profile_within(const struct profile *p, const struct call *call, const struct contract *k)
{
	for (int i = 0; call->op->sites[i].name; i++) {
		const struct site_rounding *r = &p->round[i], *allowed = &k->site[i];
		bool same = allowed->on && allowed->format == r->format && allowed->rounding == r->rounding;
		if (r->on && !same && !is_store(call, i, r->format)) return false;
	}
	return true;
}
