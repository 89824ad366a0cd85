/* Answers of runs that were made: growing, pruning and the suspects look at the same plans again and again, some three in five. */
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "xray_private.h"

struct kept_run { struct plan plan; uint64_t hash, work; size_t strip, used; double *y; };
/* most: as many as XRAY_KEPT bytes hold. */
struct kept_runs { size_t n, most; struct kept_run of[]; };

enum { MOST = 512 };

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
		if (k->of[i].hash == hash && k->of[i].strip == strip && !memcmp(&k->of[i].plan, key, sizeof *key)) return &k->of[i];
	return NULL;
}

static size_t room_for(const struct xray *x)
{
	size_t most = XRAY_KEPT / (x->most * sizeof(double) + sizeof(struct kept_run));

	return most < MOST ? most : MOST;
}

/* Of a call of many strips the floor's runs alone, which each pass asks for, if there is room for all: of a pass of more none would stay. */
static bool is_kept(const struct xray *x, const struct plan *p)
{
	return x->strips == 1 || (p->arith != &arith_f64 && FLOOR_RUNS * x->strips <= room_for(x));
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

/* Room for one more, or that of the one that was not used for longest: of as many runs as two rounds of all have. NULL: none. */
static struct kept_run *room(struct xray *x)
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
	return x->runs - oldest->used > 2 * k->most ? oldest : NULL;
}

void xray_keep(struct xray *x, const struct plan *p, const double *y, uint64_t work)
{
	struct kept_run *r = x->n && is_kept(x, p) ? room(x) : NULL;

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
