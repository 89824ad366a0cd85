/* What plans would make of what is left around an emulation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "xray_sums.h"

static void sums_free(struct look *l)
{
	free(l->sums);
	l->sums = NULL;
	stream_end(&l->stream);
}

static bool begin(struct xray *x, struct look *l)
{
	l->sums = calloc(1, sizeof *l->sums);
	l->size = 0;
	l->overflows = 0;
	l->impossible = false;
	l->votes = (struct votes){ 0 };
	return l->sums || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the sums of a direction");
}

static void add(const struct xray *x, struct look *l, unsigned what)
{
	l->impossible = l->impossible || x->impossible;
	look_sums_add(x, l->sums, what);
	if (what & LOOK_VOTES && l->sums->all > 0) look_sums_different(x, &l->votes);
}

static bool end(const struct xray *x, struct look *l, unsigned what)
{
	const struct look_sums *s = l->sums;
	struct coefficient a, b;

	if (what & LOOK_SIZE) l->size = look_sums_size(x, s), l->overflows = l->impossible || s->numbers > 0 ? -1 : s->none > 0;
	if (what & LOOK_VOTES) look_sums_votes(s, &l->votes);
	if (!(what & LOOK_FIT)) return true;
	if (!look_sums_fit(x, s, false, &a) || !look_sums_fit(x, s, true, &b)) return false;
	l->fit = fabs(a.value - 1) / a.error < fabs(b.value - 1) / b.error || a.gain > b.gain ? a : b;
	return true;
}

static bool look_together(struct xray *x, struct look *const *list, size_t n, unsigned what)
{
	const uint64_t before = x->work;
	unsigned want = what & LOOK_FIT ? XRAY_WEIGHTS | XRAY_NOISE : what & LOOK_VOTES ? XRAY_BASE | XRAY_FLOOR | XRAY_NOISE : XRAY_BASE | XRAY_FLOOR;
	bool ok = true;

	for (size_t i = 0; ok && i < n; i++) ok = begin(x, list[i]);
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, want);
		for (size_t i = 0; ok && i < n; i++)
			if ((ok = xray_direction(x, &list[i]->stream))) add(x, list[i], what);
	}
	for (size_t i = 0; i < n; i++) {
		ok = ok && end(x, list[i], what);
		sums_free(list[i]);
		if (ok) xray_tell(x, list[i], what, (x->work - before) / n);
	}
	return ok;
}

static bool most_of(size_t some, size_t n) { return (double)some >= most_votes * (double)n; }

bool votes_tell(const struct votes *v)
{
	bool enough = (double)v->different >= fmin(least_votes, MOST_DIFFERENT) || (v->far > 0 && v->far == v->different);

	return (double)v->all >= least_votes && enough && most_of(v->of_base, v->all);
}

bool look_told(const struct look *l) { return votes_tell(&l->votes); }
bool look_told_closely(const struct look *l) { return look_told(l) && most_of(l->votes.close, l->votes.all); }

bool xray_votes(struct xray *x, const double *d, struct votes *v)
{
	struct look l = { 0 };
	bool ok = begin(x, &l);

	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR | XRAY_NOISE);
		for (int i = 0; ok && i < MAX_OUT; i++)
			for (size_t j = x->first[i]; j < x->first[i + 1]; j++) x->d[j] = d[x->first_element[i] + xray_place(x, i, j)];
		x->impossible = false;
		if (ok) add(x, &l, LOOK_VOTES);
	}
	ok = ok && end(x, &l, LOOK_VOTES);
	*v = l.votes;
	sums_free(&l);
	return ok;
}

static void look_ahead(struct xray *x, struct look *const *list, size_t n)
{
	struct stream *l[LOOKS_AT_ONCE];

	for (size_t i = 0; i < n; i++) l[i] = &list[i]->stream;
	xray_ahead(x, l, n);
}

bool xray_look(struct xray *x, struct look *list, size_t n, unsigned what)
{
	struct look *asked[LOOKS_AT_ONCE];
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		if (!xray_told(x, &list[i], what)) asked[m++] = &list[i];
		if (m < LOOKS_AT_ONCE && i + 1 < n) continue;
		look_ahead(x, asked, m);
		for (size_t k = 0; k < m; k += at_once(x))
			if (!look_together(x, asked + k, x->strips > 1 ? m : 1, what)) return false;
		m = 0;
	}
	return true;
}

bool xray_fit_begin(struct xray *x, struct look *l) { return begin(x, l); }
void xray_fit_add(struct xray *x, struct look *l) { look_sums_add(x, l->sums, LOOK_FIT_STORED); }
bool xray_fit_end(struct xray *x, struct look *l, struct coefficient *c)
{
	bool ok = !c || look_sums_fit(x, l->sums, false, c);

	sums_free(l);
	return ok;
}

/* d [n], [most] of the strip held each. */
static bool directions(struct xray *x, struct stream *stream, int n, double *const *d)
{
	for (int i = 0; i < n; i++) {
		if (!xray_direction(x, &stream[i])) return false;
		xray_copy(d[i], x->d, x->n);
	}
	return true;
}

bool xray_fit_together(struct xray *x, struct stream *stream, int n, struct coefficient *c)
{
	double *all = malloc((size_t)(n + 1) * x->most * sizeof *all), *d[MAX_REGRESSORS];
	struct stream *ahead[MAX_REGRESSORS];
	struct fitting *f = fit_begin(x->blocks, n);
	bool ok = (all && f) || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs in %d directions", x->most, n);

	for (int i = 0; i < n; i++) d[i] = all + (size_t)i * x->most, ahead[i] = &stream[i];
	xray_ahead(x, ahead, (size_t)n);
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, XRAY_WEIGHTS) && directions(x, stream, n, d);
		struct sample sample = xray_sample(x);
		if (ok) fit_add(f, &sample, x->r, (const double *const *)d);
	}
	if (ok) fit_end(f, c);
	else fit_free(f);
	free(all);
	for (int i = 0; i < n; i++) stream_end(&stream[i]);
	return ok;
}

/* ---- scores ---- */

/* trial: what is left, stored, with the look's direction; of as many looks as there is room for, of the whole call. below, tells: as xray_try has
 * them. */
struct trials { double *of_call; size_t most; double below; bool tells; };

static bool is_bounded(const struct trials *t, const struct scoring *s) { return s->pass == 0 && isfinite(t->below); }

/* One pass more; none, where no scales would make the score as little as is asked. */
static void pass_over(const struct xray *x, const struct trials *t, struct scoring *s)
{
	bool hopeless = is_bounded(t, s) && scoring_least(x, s) >= t->below;

	scoring_pass(x, s);
	if (hopeless) s->pass = SCORE_PASSES, s->score = INFINITY;
}

static bool try_of_strip(struct xray *x, struct look *l, double *trial)
{
	if (!xray_direction(x, &l->stream)) return false;
	l->impossible = l->impossible || x->impossible;
	#pragma omp parallel for if (x->n > WORTH)
	for (size_t j = 0; j < x->n; j++) trial[j] = x->base[j] + x->d[j];
	xray_store(x, trial, trial);
	#pragma omp parallel for if (x->n > WORTH)
	for (size_t j = 0; j < x->n; j++) trial[j] = xray_residual(x, j, trial[j]);
	return true;
}

/* One pass of the scores of n looks; a trial that is there is not made again. */
static bool try_pass(struct xray *x, struct look *list, struct scoring *s, size_t n, const struct trials *t)
{
	const bool first_of_all = s->pass == 0, made = t->most && !first_of_all;
	const uint64_t before = x->work;

	for (size_t i = 0; i < n && first_of_all && t->tells; i++)
		if (!begin(x, &list[i])) return false;
	for (size_t at = 0, first = 0; at < x->strips; at++, first += x->n) {
		if (!xray_refresh_strip(x, at, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t i = 0; i < n; i++) {
			if (s[i].pass == SCORE_PASSES) continue;
			double *trial = t->most ? t->of_call + i * x->all + first : x->trial;
			if (!made && !try_of_strip(x, &list[i], trial)) return false;
			if (first_of_all && t->tells) add(x, &list[i], LOOK_SIZE);
			if (is_bounded(t, &s[i])) scoring_bound(x, &s[i], trial);
			scoring_add(x, &s[i], trial);
		}
	}
	for (size_t i = 0; i < n; i++) {
		pass_over(x, t, &s[i]);
		if (!first_of_all || !t->tells) continue;
		if (!end(x, &list[i], LOOK_SIZE)) return false;
		sums_free(&list[i]);
		xray_tell(x, &list[i], LOOK_SIZE, (x->work - before) / n);
	}
	return true;
}

static bool all_scored(const struct scoring *s, size_t n)
{
	bool all = true;

	for (size_t i = 0; i < n; i++) all = all && s[i].pass == SCORE_PASSES;
	return all;
}

enum { TRIALS = 256 << 20 };
static struct trials trials_of(const struct xray *x, size_t n, double below, bool tells)
{
	size_t most = x->all ? TRIALS / sizeof(double) / x->all : 0;

	if (most > n) most = n;
	if (most > at_once(x)) most = at_once(x);
	double *room = most ? malloc(most * x->all * sizeof *room) : NULL;
	return (struct trials){ room, room ? most : 0, below, tells };
}

/* As many as there is room for. */
static void try_ahead(struct xray *x, struct look *list, size_t n)
{
	struct look *next[LOOKS_AT_ONCE];
	size_t m = n < LOOKS_AT_ONCE ? n : LOOKS_AT_ONCE;

	for (size_t i = 0; i < m; i++) next[i] = list + i;
	look_ahead(x, next, m);
}

bool xray_try(struct xray *x, struct look *list, size_t n, double below, bool tells)
{
	struct trials t = trials_of(x, n, below, tells);
	size_t most = t.most ? t.most : at_once(x);
	struct scoring *s = malloc(most * sizeof *s);
	bool ok = s || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu scores", n);

	for (size_t from = 0, m; ok && from < n; from += m) {
		m = n - from < most ? n - from : most;
		if (from % LOOKS_AT_ONCE == 0) try_ahead(x, list + from, n - from);
		memset(s, 0, m * sizeof *s);
		while (ok && !all_scored(s, m)) ok = try_pass(x, list + from, s, m, &t);
		for (size_t i = 0; i < m; i++) list[from + i].score = list[from + i].impossible ? INFINITY : s[i].score, sums_free(&list[from + i]);
	}
	free(s);
	free(t.of_call);
	return ok;
}
