/* Indices and conditions in a run: numbers that are known exactly. */
#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double ix_fold(enum node_kind op, double a, double b)
{
	switch (op) {
	case NODE_NEG: return -a;
	case NODE_NOT: return a == 0;
	case NODE_ADD: return a + b;
	case NODE_SUB: return a - b;
	case NODE_CHAIN: case NODE_MUL: return a * b;
	case NODE_DIV: return a / b;
	case NODE_IDIV: return floor(a / b);
	case NODE_MOD: return a - b * floor(a / b);
	case NODE_POW: return pow(a, b);
	case NODE_EQ: return a == b;
	case NODE_NE: return a != b;
	case NODE_LT: return a < b;
	case NODE_LE: return a <= b;
	case NODE_GT: return a > b;
	case NODE_GE: return a >= b;
	case NODE_AND: return a != 0 && b != 0;
	case NODE_OR: return a != 0 || b != 0;
	default: return (double)NAN;
	}
}

/* Of a whole number's type. */
static inline double whole(const struct tensor *t, size_t at)
{
	const char *from = (const char *)t->data + at * dtype_info[t->dtype].size;
	double value = (double)NAN;
	int32_t narrow;

	if (t->dtype != DT_I32) {
		dtype_load(t->dtype, from, 1, &value);
		return value;
	}
	memcpy(&narrow, from, sizeof narrow);
	return narrow;
}

static double element(struct numbers *s, const struct ix *x)
{
	const struct tensor *t = x->held_tensor ? NULL : s->p->call->in[x->tensor];
	const struct held *h = x->held_tensor ? &s->p->held[x->tensor] : NULL;
	const size_t *shape = h ? h->shape : t ? t->shape : NULL;
	size_t at = 0;

	if (h ? !h->values.hi : !t || !t->data) return 0;
	for (int i = 0; i < x->n; i++) {
		double k = ix_value(x->arg[i], s);
		if (!(k >= 0 && k < (double)shape[i] && k == (double)(size_t)k)) return (double)NAN;
		at = at * shape[i] + (size_t)k;
	}
	return h ? h->values.hi[at] : whole(t, at);
}

/* Cut points never fall. */
static double sequence_of(const struct tensor *t, double at)
{
	size_t first = 1, last = t->data && t->count ? t->count : 1;

	while (first < last) {
		size_t n = first + (last - first) / 2;
		if (at < whole(t, n)) last = n;
		else first = n + 1;
	}
	return t->data && first < t->count ? (double)first - 1 : (double)NAN;
}

enum { MOST_TURNS = 1 << 24 };

/* What folds were for which numbers, of all pieces: a place that was written stays so. */
enum { MOST_PLACES = 1 << 17, NEAR = 8 };
enum { PLACE_EMPTY, PLACE_TAKEN, PLACE_WRITTEN };
struct place { int state; const struct ix *of; double free[MAX_FREE], value; };
struct folded { size_t places; struct place place[]; };

/* Room for some numbers of each element of an integer input. */
struct folded *folded_make(const struct call *call)
{
	size_t elements = 0, places = 256;
	struct folded *all;

	for (int i = 0; i < MAX_IN; i++)
		if (call->in[i] && call->op->in[i].flags & INTEGER) elements += call->in[i]->count;
	while (places < 8 * elements && places < MOST_PLACES) places *= 2;
	if ((all = calloc(1, sizeof *all + places * sizeof all->place[0]))) all->places = places;
	return all;
}

static size_t hash(const struct ix *x, const double *free)
{
	uint64_t h = (uint64_t)(uintptr_t)x, bits;

	for (int i = 0; i < x->n_free; i++) {
		memcpy(&bits, &free[i], sizeof bits);
		h = (h ^ bits ^ h >> 29) * UINT64_C(0x9E3779B97F4A7C15);
	}
	return (size_t)(h >> 40);
}

/* The place of these numbers, which are `there`, or one for them; NULL where there is none near. */
static struct place *place_of(struct folded *all, const struct ix *x, const double *free, bool *there)
{
	size_t at = hash(x, free);

	for (size_t i = at; i < at + NEAR; i++) {
		struct place *y = &all->place[i % all->places];
		int state = __atomic_load_n(&y->state, __ATOMIC_ACQUIRE);
		*there = state == PLACE_WRITTEN && y->of == x && !memcmp(y->free, free, (size_t)x->n_free * sizeof *free);
		if (*there || state == PLACE_EMPTY) return y;
	}
	return NULL;
}

static void keep(struct place *y, const struct ix *x, const double *free, double value)
{
	int empty = PLACE_EMPTY;

	if (!y || !__atomic_compare_exchange_n(&y->state, &empty, PLACE_TAKEN, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
	y->of = x;
	memcpy(y->free, free, (size_t)x->n_free * sizeof *free);
	y->value = value;
	__atomic_store_n(&y->state, PLACE_WRITTEN, __ATOMIC_RELEASE);
}

static double turns(struct numbers *s, const struct ix *x)
{
	double from = ix_value(x->arg[0], s), first = ix_value(x->arg[1], s), last = ix_value(x->arg[2], s);
	uint64_t turn = s->turn[x->inner];

	if (!(last - first < MOST_TURNS)) return last <= first ? from : (double)NAN;
	s->var[x->held] = x->finds ? (double)NAN : from;
	for (double i = 0; i < last - first && !(x->finds && !isnan(s->var[x->held])); i++) {
		s->var[x->over] = x->down ? last - 1 - i : first + i;
		numbers_turn(s, x->inner);
		if (x->stays && ix_value(x->stays, s) != 0) break;
		s->var[x->held] = ix_value(x->arg[3], s);
	}
	s->turn[x->inner] = turn;
	return x->finds && isnan(s->var[x->held]) ? from : s->var[x->held];
}

static double searched(struct numbers *s, const struct ix *x)
{
	return x->kind == IX_FOLD ? turns(s, x) : sequence_of(s->p->call->in[x->tensor], ix_value(x->arg[0], s));
}

/* A fold, or the sequence of an index. */
static double found(struct numbers *s, const struct ix *x)
{
	double free[MAX_FREE];

	if (x->n_free > MAX_FREE || !s->p->folded) return searched(s, x);
	for (int i = 0; i < x->n_free; i++) free[i] = ix_value(x->free[i], s);
	bool there = false;
	struct place *y = place_of(s->p->folded, x, free, &there);
	if (there) return y->value;
	double value = searched(s, x);
	keep(y, x, free, value);
	return value;
}

/* What decides is looked at first, the rest only where it matters. */
static double operation(struct numbers *s, const struct ix *x)
{
	double a = ix_value(x->arg[0], s);

	if (x->op == NODE_IF) return ix_value(x->arg[a != 0 ? 1 : 2], s);
	if (x->op == NODE_AND && a == 0) return 0;
	if (x->op == NODE_OR && a != 0) return 1;
	return ix_fold(x->op, a, x->n > 1 ? ix_value(x->arg[1], s) : 0);
}

double ix_computed(struct numbers *s, const struct ix *x)
{
	bool list = x->kind == IX_LIST || x->kind == IX_IN;
	double y = x->kind == IX_TENSOR ? element(s, x) : x->kind == IX_OP ? operation(s, x) : list ? list_computed(s, x) : found(s, x);

	s->computed[x->var] = s->turn[x->level];
	return s->var[x->var] = y;
}

void numbers_begin(struct numbers *s, const struct program *p, void *room)
{
	*s = (struct numbers){ .p = p, .var = room, .computed = (uint64_t *)room + p->n_var };
	for (int i = 0; i < MAX_LEVEL; i++) numbers_turn(s, i);
}

void ix_settle(struct numbers *s, const struct ix *x)
{
	if (!x->each) ix_value(x, s);
	for (int i = 0; x->each && i < x->n; i++) ix_settle(s, x->arg[i]);
}

double ix_again(struct numbers *s, const struct ix *x)
{
	for (int i = 0; i < x->n; i++)
		if (x->arg[i]->each) ix_again(s, x->arg[i]);
	return x->n ? ix_computed(s, x) : ix_value(x, s);
}
