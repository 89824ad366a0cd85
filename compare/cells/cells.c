/* Cells: each there once, found by what it computes; roundings. */
#include "cells.h"

#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "fixtures/io/wide.h"

const char *const type_names[TYPES] = { "as it is", "f32", "bf16", "f16", "tf32_rz", "tf32", "e4m3" };

/* the fields that say what is computed; none: that there is no padding */
struct identity { int op, arg[3], p[6], exact, none; double number; const struct ex *ex; size_t rows, cols; int chunks[2]; };

static struct identity identity(const struct cell *x)
{
	struct identity i;

	memset(&i, 0, sizeof i);
	i.op = (int)x->op;
	memcpy(i.arg, x->arg, sizeof i.arg);
	memcpy(i.p, x->p, sizeof i.p);
	i.exact = x->exact;
	i.number = x->number;
	i.ex = x->ex;
	i.rows = x->rows.n, i.cols = x->cols.n;
	i.chunks[0] = x->rows.chunk, i.chunks[1] = x->cols.chunk;
	return i;
}

static uint64_t hash(const void *of, size_t bytes)
{
	const unsigned char *b = of;
	uint64_t h = 0, w;

	for (size_t k = 0; k + 4 <= bytes; k += 8) {
		w = 0;
		memcpy(&w, b + k, bytes - k < 8 ? 4 : 8);
		h += w * (random_at(k + 8) | 1);
	}
	return random_mix(h);
}

/* The first slot from where the hash says on that holds its tag or nothing. */
static int slot_of(const struct cell_table *t, uint64_t h, int from)
{
	int s = from < 0 ? (int)(h & (uint64_t)(t->slots - 1)) : (from + 1) & (t->slots - 1);

	while (t->slot[s].at >= 0 && t->slot[s].tag != (uint32_t)(h >> 32)) s = (s + 1) & (t->slots - 1);
	return s;
}

/* Room for one more than n; of: the hash of each that is there. */
static bool table_room(struct cell_table *t, int n, uint64_t (*of)(const struct cells *c, int i), const struct cells *c)
{
	struct cell_table new = { .slots = t->slots ? 2 * t->slots : 1024 };

	if (2 * n < t->slots) return true;
	if (!(new.slot = malloc((size_t)new.slots * sizeof *new.slot))) return false;
	for (int i = 0; i < new.slots; i++) new.slot[i].at = -1;
	for (int i = 0; i < n; i++) {
		uint64_t h = of(c, i);
		int s = (int)(h & (uint64_t)(new.slots - 1));
		while (new.slot[s].at >= 0) s = (s + 1) & (new.slots - 1);
		new.slot[s] = (struct cell_slot){ (uint32_t)(h >> 32), i };
	}
	free(t->slot);
	*t = new;
	return true;
}

static uint64_t cell_hash(const struct cells *c, int i) { return c->at[i].hash; }
static uint64_t recurrence_hash(const struct cells *c, int i) { return hash(&c->recurrence[i], sizeof *c->recurrence); }

/* at, with room for twice as many; NULL: no memory, and at stays */
static void *more_room(void *at, int *room, size_t size)
{
	int n = *room ? 2 * *room : 512;
	void *more = realloc(at, (size_t)n * size);

	if (more) *room = n;
	return more;
}

static bool cell_room(struct cells *c)
{
	struct cell *at = c->n < c->room ? c->at : more_room(c->at, &c->room, sizeof *at);

	if (at) c->at = at;
	return at && table_room(&c->by_cell, c->n, cell_hash, c);
}

static bool recurrence_room(struct cells *c)
{
	struct recurrence *at = c->n_recurrence < c->room_recurrence ? c->recurrence : more_room(c->recurrence, &c->room_recurrence, sizeof *at);

	if (at) c->recurrence = at;
	return at && table_room(&c->by_recurrence, c->n_recurrence, recurrence_hash, c);
}

int cell_add(struct cells *c, const struct cell *x)
{
	struct identity id = identity(x), other;
	bool bad = c->failed || (x->arg[0] < -1 || x->arg[1] < -1 || x->arg[2] < -1);
	struct cell_table *t = &c->by_cell;

	if (bad || !cell_room(c)) {
		c->failed = true;
		return -1;
	}
	const uint64_t h = hash(&id, sizeof id);
	int s = slot_of(t, h, -1);
	for (; t->slot[s].at >= 0; s = slot_of(t, h, s)) {
		other = identity(&c->at[t->slot[s].at]);
		if (!memcmp(&id, &other, sizeof id)) return t->slot[s].at;
	}
	struct cell *y = &c->at[c->n];
	*y = *x;
	y->hash = h;
	for (int i = 0; i < 3; i++) {
		if (y->arg[i] < 0) continue;
		const struct cell *a = &c->at[y->arg[i]];
		if (a->in > y->in) y->in = a->in;       /* loops around each other: the inner one has the higher number */
		y->carried |= a->carried;
	}
	t->slot[s] = (struct cell_slot){ (uint32_t)(h >> 32), c->n };
	return c->n++;
}

int cells_recurrence(struct cells *c, const struct recurrence *r)
{
	struct cell_table *t = &c->by_recurrence;

	if (!recurrence_room(c)) {
		c->failed = true;
		return -1;
	}
	const uint64_t h = hash(r, sizeof *r);
	int s = slot_of(t, h, -1);
	for (; t->slot[s].at >= 0; s = slot_of(t, h, s))
		if (!memcmp(&c->recurrence[t->slot[s].at], r, sizeof *r)) return t->slot[s].at;
	c->recurrence[c->n_recurrence] = *r;
	t->slot[s] = (struct cell_slot){ (uint32_t)(h >> 32), c->n_recurrence };
	return c->n_recurrence++;
}

void cells_free(struct cells *c)
{
	free(c->recurrence);
	free(c->at);
	free(c->by_cell.slot);
	free(c->by_recurrence.slot);
	*c = (struct cells){ 0 };
}

/* Is every number of type a one of type t? */
static bool within(enum type a, enum type t)
{
	if (t == IN_E4M3) return false;
	return a == t || t == IN_F32 ? a != AS_IT_IS : a == IN_BF16 ? t == IN_TF32 || t == IN_TF32_RN : a == IN_F16 && (t == IN_TF32 || t == IN_TF32_RN);
}

int cell_round(struct cells *c, int x, enum type t)
{
	if (c->failed || x < 0 || t == AS_IT_IS) return x;
	const struct cell *a = &c->at[x];
	if (within(a->grid, t)) return x;
	struct cell r = cell_of(CELL_ROUND, x, -1, a->rows, a->cols);
	r.p[0] = (int)t;
	r.grid = t == IN_E4M3 ? IN_BF16 : t == IN_BF16 || t == IN_F16 ? t : IN_F32;
	return cell_add(c, &r);
}

static inline float as_bits(uint32_t b)
{
	float y;

	memcpy(&y, &b, sizeof y);
	return y;
}

/* x is finite or not: NaN stays one, as its quiet bit is kept. */
static inline double to_grid(double x, uint32_t add, uint32_t keep, uint32_t even)
{
	float y = (float)x;
	uint32_t b, rounded;

	memcpy(&b, &y, sizeof b);
	rounded = (b + add + (b >> 16 & even)) & keep;
	return (double)as_bits((b & 0x7f800000) == 0x7f800000 ? b : rounded);
}

double round_one(double x, enum type t)
{
	switch (t) {
	case IN_F32: return (double)(float)x;
	case IN_BF16: return to_grid(x, 0x7fff, 0xffff0000, 1);
	case IN_TF32: return to_grid(x, 0, 0xffffe000, 0);
	case IN_TF32_RN: return to_grid(x, 0x1000, 0xffffe000, 0);
	case IN_F16: return format_round(FMT_F16, ROUND_NEAREST_EVEN, (double)(float)x, 0);
	case IN_E4M3: return format_round(FMT_E4M3, ROUND_NEAREST_EVEN, (double)(float)x, 0);
	default: return x;
	}
}

WIDE_LOOP void round_into(double *y, const double *x, size_t n, enum type t)
{
	switch (t) {
	case IN_F32: for (size_t i = 0; i < n; i++) y[i] = (double)(float)x[i]; break;
	case IN_BF16: for (size_t i = 0; i < n; i++) y[i] = to_grid(x[i], 0x7fff, 0xffff0000, 1); break;
	case IN_TF32: for (size_t i = 0; i < n; i++) y[i] = to_grid(x[i], 0, 0xffffe000, 0); break;
	case IN_TF32_RN: for (size_t i = 0; i < n; i++) y[i] = to_grid(x[i], 0x1000, 0xffffe000, 0); break;
	case IN_F16: case IN_E4M3:
		for (size_t i = 0; i < n; i++) y[i] = (double)(float)x[i];
		format_round_all(t == IN_F16 ? FMT_F16 : FMT_E4M3, ROUND_NEAREST_EVEN, y, n);
		break;
	default: if (y != x) memcpy(y, x, n * sizeof *y);
	}
}

void round_cells(double *x, size_t n, enum type t) { round_into(x, x, n, t); }
