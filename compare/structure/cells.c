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

static uint64_t hash(const struct identity *i)
{
	const unsigned char *b = (const unsigned char *)i;
	uint64_t h = 0, w;

	for (size_t k = 0; k + 8 <= sizeof *i; k += 8) {
		memcpy(&w, b + k, 8);
		h = random_mix(h ^ w);
	}
	return h;
}

static bool more_slots(struct cells *c)
{
	int slots = c->slots ? 2 * c->slots : 1024, *table = malloc((size_t)slots * sizeof *table);

	if (!table) return false;
	for (int i = 0; i < slots; i++) table[i] = -1;
	for (int i = 0; i < c->n; i++) {
		int s = (int)(c->at[i].hash & (uint64_t)(slots - 1));
		while (table[s] >= 0) s = (s + 1) & (slots - 1);
		table[s] = i;
	}
	free(c->table);
	c->table = table;
	c->slots = slots;
	return true;
}

static bool more_room(struct cells *c)
{
	int room = c->room ? 2 * c->room : 512;
	struct cell *at = realloc(c->at, (size_t)room * sizeof *at);

	if (!at) return false;
	c->at = at;
	c->room = room;
	return true;
}

int cell_add(struct cells *c, const struct cell *x)
{
	struct identity id = identity(x), other;
	bool bad = c->failed || (x->arg[0] < -1 || x->arg[1] < -1 || x->arg[2] < -1);

	if (bad || (c->n == c->room && !more_room(c)) || (2 * c->n >= c->slots && !more_slots(c))) {
		c->failed = true;
		return -1;
	}
	const uint64_t h = hash(&id);
	int s = (int)(h & (uint64_t)(c->slots - 1));
	for (; c->table[s] >= 0; s = (s + 1) & (c->slots - 1)) {
		if (c->at[c->table[s]].hash != h) continue;
		other = identity(&c->at[c->table[s]]);
		if (!memcmp(&id, &other, sizeof id)) return c->table[s];
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
	return c->table[s] = c->n++;
}

int cells_recurrence(struct cells *c, const struct recurrence *r)
{
	for (int i = 0; i < c->n_recurrence; i++)
		if (!memcmp(&c->recurrence[i], r, sizeof *r)) return i;
	struct recurrence *more = realloc(c->recurrence, (size_t)(c->n_recurrence + 1) * sizeof *more);
	if (!more) {
		c->failed = true;
		return -1;
	}
	c->recurrence = more;
	c->recurrence[c->n_recurrence] = *r;
	return c->n_recurrence++;
}

void cells_free(struct cells *c)
{
	free(c->recurrence);
	free(c->at);
	free(c->table);
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
