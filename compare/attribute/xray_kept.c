/* Runs of plans in the strip held, and answers that are kept of them: growing, pruning and the suspects look at the same plans again and again, some
 * three in five. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "compare/truth/beside.h"
#include "fixtures/io/random.h"
#include "ref/ranks/ranks.h"
#include "xray_private.h"

/* What is done around a run, in element operations of the reference for each output element. */
static const uint64_t overhead = 64;

struct kept_run { struct plan plan; uint64_t hash, work; size_t strip, used; double *y; };
/* most: as there is room for. */
struct kept_runs { size_t n, most; struct kept_run of[]; };

enum { MOST = 512, FEW = 32, SOME = 2 * FLOOR_RUNS };

/* What an answer depends on. */
static struct plan key_of(const struct plan *p)
{
	struct plan key = *p;

	if (key.arith != &arith_noisy && !key.random) key.seed = 0;
	return key;
}

static uint64_t hash_of(const struct plan *key)
{
	uint64_t word[sizeof *key / sizeof(uint64_t)], h = 0;

	memcpy(word, key, sizeof word);
	for (size_t i = 0; i < sizeof word / sizeof *word; i++) h = random_mix((h + RANDOM_STEP) ^ word[i]);
	return h;
}

static struct kept_run *find(struct kept_runs *k, size_t strip, const struct plan *key, uint64_t hash)
{
	for (size_t i = 0; k && i < k->n; i++)
		if (k->of[i].hash == hash && k->of[i].strip == strip && same_plan(&k->of[i].plan, key)) return &k->of[i];
	return NULL;
}

static size_t room_for(const struct xray *x)
{
	size_t bytes = x->most * sizeof(double) + sizeof(struct kept_run), few = FEW * x->strips * bytes;
	size_t most = (few < XRAY_KEPT ? XRAY_KEPT : few < XRAY_KEPT_OF_FEW ? few : XRAY_KEPT_OF_FEW) / bytes;

	return most < MOST ? most : MOST;
}

/* Of a call of many strips, if there is room for few plans, the floor's runs alone, which each pass asks for: of a pass of more none would stay. */
static bool is_kept(const struct xray *x, const struct plan *p)
{
	size_t plans = room_for(x) / x->strips;

	return x->strips == 1 || plans >= SOME || (p->arith != &arith_f64 && plans >= FLOOR_RUNS);
}

const double *xray_kept(struct xray *x, const struct plan *p, uint64_t *work)
{
	struct plan key = key_of(p);
	struct kept_run *r = is_kept(x, p) ? find(x->kept, x->at, &key, hash_of(&key)) : NULL;

	if (!r) return NULL;
	r->used = x->runs;
	*work = r->work;
	return r->y;
}

/* A free slot, or the one that was not used for longest, if for more runs than so many rounds of all slots. NULL: none. */
static struct kept_run *room(struct xray *x, size_t rounds)
{
	struct kept_runs *k = x->kept;
	struct kept_run *oldest;

	if (!k) {
		size_t most = room_for(x);
		if (!most || !(k = x->kept = malloc(sizeof *k + most * sizeof *k->of))) return NULL;
		k->n = 0;
		k->most = most;
	}
	if (k->n < k->most) {
		double *y = malloc(x->most * sizeof *y);
		if (!y) return NULL;
		k->of[k->n].y = y;
		return &k->of[k->n++];
	}
	oldest = k->of;
	for (size_t i = 1; i < k->n; i++)
		if (k->of[i].used < oldest->used) oldest = &k->of[i];
	return x->runs - oldest->used > rounds * k->most ? oldest : NULL;
}

void xray_keep(struct xray *x, const struct plan *p, const double *y, uint64_t work)
{
	struct kept_run *r = x->n && is_kept(x, p) ? room(x, 2) : NULL;

	if (!r) return;
	r->plan = key_of(p);
	r->hash = hash_of(&r->plan);
	r->work = work;
	r->strip = x->at;
	r->used = x->runs;
	xray_copy(r->y, y, x->n);
}

void xray_forget(struct xray *x)
{
	for (size_t i = 0; x->kept && i < x->kept->n; i++) free(x->kept->of[i].y);
	free(x->kept);
	x->kept = NULL;
}

/* Room for the plan's answer, for which no other will ask; NULL: it is there, or there is none. */
static struct kept_run *reserve(struct xray *x, const struct plan *p)
{
	const struct plan key = key_of(p);
	const uint64_t hash = hash_of(&key);
	struct kept_run *is = find(x->kept, x->at, &key, hash), *r = is ? NULL : room(x, 0);

	if (is) is->used = x->runs;
	if (r) r->plan = key, r->hash = hash, r->strip = x->at, r->used = x->runs;
	return r;
}

/* Of the only strip. */
static void run_ahead(const struct xray *x, struct kept_run *r)
{
	struct stream l = { .plan = r->plan };
	struct answer a = { 0 };
	struct error e = { 0 };

	for (int i = 0; i < MAX_OUT; i++) a.hi[i] = x->call->out_count[i] ? r->y + x->first[i] : NULL;
	if (!ref_strip(x->call, &l, 0, 1, &a, &e)) r->strip = SIZE_MAX, r->used = 0;  /* who asks for it will be told */
	r->work = a.work;
	stream_end(&l);
}

void xray_ahead(struct xray *x, struct stream *const *l, size_t n)
{
	struct kept_run *run[LOOKS_AT_ONCE];
	size_t m = 0;

	if (x->strips > 1 || !x->n || ranks_count() > 1) return;
	for (size_t i = 0; i < n; i++) {
		struct kept_run *r = reserve(x, &l[i]->plan);
		if (r) run[m++] = r;
		if (m < LOOKS_AT_ONCE && i + 1 < n) continue;
		#pragma omp parallel for schedule(dynamic) if (m >= (size_t)omp_get_max_threads() || has_few_pieces(x->call))
		for (size_t k = 0; k < m; k++) run_ahead(x, run[k]);
		m = 0;
	}
}

/* ---- runs ---- */
/* In the place of an answer that there is not. */
static bool no_answer(struct xray *x, const struct plan *p, const struct error *e, double *y)
{
	x->impossible = plan_impossible(p, e);
	if (!x->impossible) {
		if (x->e) *x->e = *e;
		return false;
	}
	if (y == x->base || !(x->have & XRAY_BASE)) memset(y, 0, x->n * sizeof *y);
	else memcpy(y, x->base, x->n * sizeof *y);
	return true;
}

/* A stream whose strips before this one were kept has to make them all the same, as this one goes on from them. */
static bool catch_up(struct xray *x, struct stream *l, struct error *e)
{
	struct answer passed = { 0 };
	size_t room[MAX_OUT];

	if (l->next > x->at) stream_end(l);
	if (l->next == x->at) return true;
	call_room(x->call, l->next, x->at, x->strips, room);
	bool ok = answer_make(&passed, room, false) || error_set(e, E_MEMORY, x->call->op->name, NO_OFFSET, "strips that are passed over");
	ok = ok && ref_strip(x->call, l, x->at - 1, x->strips, &passed, e);
	answer_free(&passed);
	return ok;
}

/* *at: where it is, before any shift: kept, or in y [n]. */
static bool answer_of(struct xray *x, struct stream *l, double *y, const double **at)
{
	struct answer a = { 0 };
	struct error e = { 0 };

	if (x->tick) x->tick("x-ray", x->runs, x->runs + 1);
	x->runs++;
	for (int i = 0; i < MAX_OUT; i++) a.hi[i] = x->call->out_count[i] ? y + x->first[i] : NULL;
	x->impossible = false;
	if (!(*at = xray_kept(x, &l->plan, &a.work))) {
		*at = y;
		if (!catch_up(x, l, &e) || !ref_strip(x->call, l, x->at, x->strips, &a, &e)) return no_answer(x, &l->plan, &e, y);
		xray_keep(x, &l->plan, y, a.work);
	}
	x->work += a.work + overhead * x->n;            /* whether it was made now or before: what is given up must not depend on it */
	return true;
}

bool xray_run(struct xray *x, struct stream *l, double *y)
{
	const double *at;

	if (!answer_of(x, l, y, &at)) return false;
	if (at != y) xray_copy(y, at, x->n);
	for (int i = 0; x->shift && !x->impossible && i < MAX_OUT; i++) {
		const double *shift = x->shift + x->first_element[i] + x->offset[i];
		#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++) y[j] += shift[j - x->first[i]];
	}
	return true;
}

void stream_begin(struct stream *l, const struct plan *p)
{
	stream_end(l);
	l->plan = *p;
}

bool xray_direction(struct xray *x, struct stream *l)
{
	const double *y = x->d;

	if (x->shift ? !xray_run(x, l, x->d) : !answer_of(x, l, x->d, &y)) return false;
	#pragma omp parallel for if (x->n > WORTH)
	for (size_t j = 0; j < x->n; j++) x->d[j] = y[j] - x->base[j];
	return true;
}
