/* Pieces shared out among ranks, and what each stored sent to all. A piece computes the same on whichever rank, so the answer does not
 * depend on how many there are. */
#include "share.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ranks/ranks.h"

/* ---- what was stored ---- */
static bool room_for(struct log *l, size_t n)
{
	if (l->n + n <= l->room) return true;
	size_t room = 2 * (l->n + n) + 64;
	struct written *item = realloc(l->item, room * sizeof *item);
	if (!item) {
		l->no_memory = true;
		return false;
	}
	l->item = item;
	l->room = room;
	return true;
}

/* Behind the last one, or as one more line of it. */
void c_wrote(calc *c, int tensor, size_t at, size_t step, size_t n)
{
	struct log *l = c->log;

	if (!l || !n) return;
	struct written *w = l->n ? &l->item[l->n - 1] : NULL;
	bool same = w && w->tensor == (uint64_t)tensor && at > w->at;
	if (same && w->rows == 1 && step == 1 && w->step == 1 && at == w->at + w->n) {
		w->n += n;
		return;
	}
	if (same && w->n == n && w->step == step && (w->rows == 1 || at - w->at == w->apart * w->rows)) {
		if (w->rows == 1) w->apart = at - w->at;
		w->rows++;
		return;
	}
	if (room_for(l, 1)) l->item[l->n++] = (struct written){ (uint64_t)tensor, at, step, n, 0, 1 };
}

void log_take(struct log *all, struct log *one)
{
	if (one->no_memory || !room_for(all, one->n)) all->no_memory = true;
	else if (one->n) memcpy(all->item + all->n, one->item, one->n * sizeof *one->item), all->n += one->n;
	log_free(one);
}

void log_free(struct log *l)
{
	free(l->item);
	*l = (struct log){ 0 };
}

/* ---- who runs what ---- */
struct loaded { double load; size_t i; };

static int heavier(const void *a, const void *b)
{
	const struct loaded *x = a, *y = b;

	return x->load != y->load ? (x->load < y->load) - (x->load > y->load) : (x->i > y->i) - (x->i < y->i);
}

/* The heaviest first, each to the rank that has least: experts, by how often they are chosen. */
static void by_loads(struct share *s, struct loaded *list, size_t n, double *has)
{
	int ranks = ranks_count();

	qsort(list, n, sizeof *list, heavier);
	for (size_t k = 0; k < n; k++) {
		int least = 0;
		for (int r = 1; r < ranks; r++)
			if (has[r] < has[least]) least = r;
		has[least] += list[k].load;
		s->mine[list[k].i] = least == ranks_me();
	}
}

/* Equal ones in turn, by the number of the piece, so that what one carries from strip to strip stays with its rank. */
static bool choose(struct share *s, size_t stride)
{
	const calc *c = s->first;
	size_t n = s->range.last - s->range.first, k = 0;
	struct loaded *list = calloc(n, sizeof *list);
	double *has = calloc((size_t)ranks_count(), sizeof *has), *load = calloc(n, sizeof *load);
	bool ok = list && has && load, differ = ok && !c->call->op->cut && stride <= 1
		&& c->call->op->sharing->loads(c->program, c, s->range, load);

	for (size_t i = 0; ok && i < n; i++) {
		size_t piece = s->range.first + i;
		if (stride > 1 && piece % stride) continue;
		if (differ) list[k++] = (struct loaded){ load[i], i }, s->digest = random_mix(s->digest ^ (uint64_t)load[i]);
		else s->mine[i] = piece / (stride > 1 ? stride : 1) % (size_t)ranks_count() == (size_t)ranks_me();
	}
	if (differ) by_loads(s, list, k, has);
	free(list);
	free(has);
	free(load);
	return ok;
}

bool share_begin(struct share *s, const calc *first, span range, size_t stride)
{
	*s = (struct share){ .first = first, .range = range };
	if (ranks_count() == 1 || omp_in_parallel() || !first->program || !first->call->op->sharing || first->judged) return true;
	s->together = range.last - range.first == 1;
	if (range.last - range.first < 2) return true;
	if (!(s->mine = calloc(range.last - range.first, sizeof *s->mine)) || !choose(s, stride)) return false;
	first->call->op->sharing->stored(first->program, s->stored);
	return true;
}

/* ---- what goes round: pairs of doubles where the arithmetic is wide ---- */
enum { AT_ONCE = 1 << 20 };             /* numbers of a rank */

/* Where one stands in a rank's list: element i of line `row` of an item. */
struct place { const struct written *item, *end; size_t row, i; };

/* width: doubles of a number on its way, 2 where any of these has low parts. */
struct tensors_of { double *hi[MAX_OUT + MAX_HELD], *lo[MAX_OUT + MAX_HELD]; size_t width; };

/* Up to `most` numbers from their places into, or out of, data: how many. */
static size_t move(struct place *p, const struct tensors_of *to, double *data, size_t most, bool out)
{
	size_t n = 0;

	while (p->item < p->end && n < most) {
		const struct written *w = p->item;
		double *hi = to->hi[w->tensor], *lo = to->lo[w->tensor];
		size_t k = w->n - p->i < most - n ? w->n - p->i : most - n, at = w->at + p->row * w->apart + p->i * w->step;
		for (size_t i = 0; i < k; i++, at += w->step) {
			double *x = data + (n + i) * to->width;
			if (out) hi[at] = x[0];
			else x[0] = hi[at];
			if (lo && out) lo[at] = x[1];
			else if (to->width == 2) x[1] = lo ? lo[at] : 0;
		}
		n += k;
		if ((p->i += k) == w->n) p->i = 0, p->row++;
		if (p->row == w->rows) p->row = 0, p->item++;
	}
	return n;
}

static size_t numbers(const struct written *w, size_t n)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++) all += w[i].n * w[i].rows;
	return all;
}

/* lists: of all ranks, one behind the other, n[r] items of each. */
static bool values_round(const struct tensors_of *to, const struct written *lists, const size_t *n)
{
	int ranks = ranks_count(), me = ranks_me();
	size_t left[ranks], now[ranks], most = 0, width = to->width;
	struct place place[ranks];

	for (int r = 0; r < ranks; lists += n[r++]) {
		place[r] = (struct place){ lists, lists + n[r], 0, 0 };
		left[r] = numbers(lists, n[r]);
		most = left[r] > most ? left[r] : most;
	}
	if (most > AT_ONCE) most = AT_ONCE;
	double *mine = malloc((most * width + 1) * sizeof *mine), *all = malloc(((size_t)ranks * most * width + 1) * sizeof *all);
	bool ok = mine && all;
	for (bool more = ok && most; more;) {
		more = false;
		for (int r = 0; r < ranks; r++) {
			size_t k = left[r] < AT_ONCE ? left[r] : AT_ONCE;
			now[r] = k * width;
			left[r] -= k;
			more = more || left[r];
		}
		move(&place[me], to, mine, now[me] / width, false);
		ranks_gather(mine, now, all);
		for (size_t r = 0, at = 0; r < (size_t)ranks; at += now[r++])
			if ((int)r != me) move(&place[r], to, all + at, now[r] / width, true);
	}
	free(mine);
	free(all);
	return ok;
}

static bool go_round(struct share *s, uint64_t (*all)[RANK_WORDS], int items)
{
	int ranks = ranks_count();
	size_t n[ranks], words[ranks], total = 0, each = sizeof(struct written) / sizeof(double);
	struct tensors_of to = { .width = 1 };

	for (int r = 0; r < ranks; r++) n[r] = all[r][items], words[r] = n[r] * each, total += n[r];
	struct written *lists = malloc((total + 1) * sizeof *lists);
	if (!lists) return false;
	for (int o = 0; o < MAX_OUT; o++) to.hi[o] = s->first->answer->hi[o], to.lo[o] = s->first->answer->lo[o];
	s->first->call->op->sharing->held(s->first->program, to.hi + MAX_OUT, to.lo + MAX_OUT);
	for (int i = 0; i < MAX_OUT + MAX_HELD; i++)
		if (to.lo[i]) to.width = 2;
	ranks_gather((const double *)(const void *)s->log.item, words, (double *)(void *)lists);
	bool ok = values_round(&to, lists, n);
	free(lists);
	return ok;
}

/* ---- a meeting ---- */
enum { OK = MAX_OUT + MAX_HELD, FAILED, WORK, ITEMS, USED };
_Static_assert((int)USED <= (int)RANK_WORDS, "a meeting has room for what is said");

/* The same on all ranks where all do the same: what they run, and how often they met. */
static uint64_t where(const calc *c, span range, uint64_t digest)
{
	static uint64_t times;
	uint64_t h = random_at(++times);

	for (const char *n = c->call->op->name; *n; n++) h = random_mix(h ^ (unsigned char)*n);
	for (const char *n = c->arith->name; *n; n++) h = random_mix(h ^ (unsigned char)*n);
	return random_mix(random_mix(h ^ range.first ^ digest) ^ range.last) ^ c->plan->seed;
}

/* The first failing rank's error becomes that of all. */
static void one_error(const calc *c, uint64_t (*all)[RANK_WORDS])
{
	const struct sharing *f = c->call->op->sharing;
	struct error e = { 0 };
	int r = 0;

	while (r < ranks_count() && !all[r][FAILED]) r++;
	if (r == ranks_count()) return;
	f->failed(c->program, &e);
	ranks_send(r, &e, sizeof e);
	f->fail(c->program, &e);
}

bool share_end(struct share *s, bool ok, uint64_t made, uint64_t *operations)
{
	const struct sharing *f = s->first->call->op->sharing;
	uint64_t mine[RANK_WORDS] = { 0 }, all[ranks_count()][RANK_WORDS];
	size_t now[MAX_OUT + MAX_HELD] = { 0 };
	struct error e;

	*operations += made;
	if (!s->mine) return ok;
	f->stored(s->first->program, now);
	for (int i = 0; i < MAX_OUT + MAX_HELD; i++) mine[i] = now[i] - s->stored[i];
	mine[OK] = ok && !s->log.no_memory;
	mine[FAILED] = f->failed(s->first->program, &e);
	mine[WORK] = made;
	mine[ITEMS] = s->log.n;
	ranks_meet(where(s->first, s->range, s->digest), mine, all);
	ok = true;
	memset(now, 0, sizeof now);
	for (int r = 0; r < ranks_count(); r++) {
		ok = ok && all[r][OK];
		if (r == ranks_me()) continue;
		*operations += all[r][WORK];
		for (int i = 0; i < MAX_OUT + MAX_HELD; i++) now[i] += all[r][i];
	}
	f->add_stored(s->first->program, now);
	one_error(s->first, all);
	ok = ok && go_round(s, all, ITEMS);
	free(s->mine);
	log_free(&s->log);
	return ok;
}

/* ---- parts of a piece ---- */
bool share_parts(const calc *c) { return c->together && ranks_count() > 1 && !omp_in_parallel(); }
bool share_part(size_t i) { return i % (size_t)ranks_count() == (size_t)ranks_me(); }

void share_parts_end(calc *c, const field *f, size_t n, uint64_t before)
{
	uint64_t mine[RANK_WORDS] = { 0 }, all[ranks_count()][RANK_WORDS];
	struct error e;

	mine[FAILED] = c->call->op->sharing->failed(c->program, &e);
	mine[WORK] = c->work - before;
	ranks_meet(where(c, (span){ c->piece, c->piece + n }, before), mine, all);
	for (int r = 0; r < ranks_count(); r++)
		if (r != ranks_me()) c->work += all[r][WORK];
	one_error(c, all);
	for (size_t i = 0; i < n; i++) {
		ranks_union(f[i].hi, f[i].rows * f[i].cols);
		if (f[i].lo) ranks_union(f[i].lo, f[i].rows * f[i].cols);
	}
}
