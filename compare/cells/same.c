/* Cells that compute otherwise and give the same numbers in this call stand for each other: what follows from them is computed once. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"

/* ---- the value of a cell that nothing carried is in ---- */

/* Of the bits of n numbers, in four streams side by side. */
static uint64_t bits_mixed(uint64_t h, const double *x, size_t n)
{
	uint64_t lane[4] = { h, h ^ 1, h ^ 2, h ^ 3 }, w[4];
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		memcpy(w, x + i, sizeof w);
		for (int k = 0; k < 4; k++) lane[k] = random_mix(lane[k] ^ w[k]);
	}
	for (; i < n; i++) {
		memcpy(w, x + i, sizeof *x);
		lane[0] = random_mix(lane[0] ^ w[0]);
	}
	for (int k = 1; k < 4; k++) lane[0] = random_mix(lane[0] ^ lane[k]);
	return lane[0];
}

/* Of all the cell's values: what they are for, and their bits, piece after piece. */
static bool value_hash(struct evaluator *v, int cell, uint64_t *hash)
{
	const struct cell *c = &v->cells->at[cell];
	const struct value *x = kept_find(v, (struct kept_key){ cell, 0 });
	const int pieces = v->turns.n[0];
	uint64_t *of = x ? malloc(((size_t)pieces + 1) * sizeof *of) : NULL;
	const int is[] = { (int)c->rows.n, (int)c->cols.n, c->rows.chunk, c->cols.chunk, c->in };
	uint64_t h = 0;

	if (!of) return false;
	for (size_t i = 0; i < sizeof is / sizeof *is; i++) h = random_mix(h ^ (uint64_t)(unsigned)is[i]);
	#pragma omp parallel for schedule(dynamic, 1) if (x->n * (size_t)v->turns.n[c->in] > WORK_HEAVY)
	for (int p = 0; p < pieces; p++) {
		int first, last;
		of[p] = h;
		turns_in(&v->turns, v->f, c->in, 0, p, &first, &last);
		for (int t = first; t < last; t++) {
			const struct turn *turn = &v->turns.of[c->in][t];
			of[p] = bits_mixed(of[p], x->at + x->n * (size_t)t, len_in(turn, c->rows) * len_in(turn, c->cols));
		}
	}
	for (int p = 0; p < pieces; p++) h = random_mix(h ^ of[p]);
	free(of);
	*hash = h;
	return true;
}

/* ---- which cell stands for it ---- */

static bool room_for(struct same *s, int cells)
{
	if (cells <= s->room) return true;
	int room = 2 * cells + 512;
	struct stand_in *of = realloc(s->of, (size_t)room * sizeof *of);
	if (!of) return false;
	memset(of + s->room, 0, (size_t)(room - s->room) * sizeof *of);
	s->of = of;
	s->room = room;
	return true;
}

/* The first cell with that hash; `cell`, where there is none yet. -1: no memory. */
static int first_with(struct same *s, uint64_t hash, int cell)
{
	if (2 * (s->n + 1) >= s->slots) {
		struct same_value *old = s->slot, *new = calloc((size_t)(s->slots ? 2 * s->slots : 1024), sizeof *new);
		int slots = s->slots;
		if (!new) return -1;
		s->slot = new;
		s->slots = slots ? 2 * slots : 1024;
		s->n = 0;
		for (int i = 0; i < slots; i++)
			if (old[i].cell) first_with(s, old[i].hash, old[i].cell - 1);
		free(old);
	}
	int i = (int)(hash & (uint64_t)(s->slots - 1));
	while (s->slot[i].cell && s->slot[i].hash != hash) i = (i + 1) & (s->slots - 1);
	if (s->slot[i].cell) return s->slot[i].cell - 1;
	s->slot[i] = (struct same_value){ hash, cell + 1 };
	s->n++;
	return cell;
}

static int same_recurrence(struct evaluator *v, int recurrence);

/* The cell with arguments that stand for its own; plain: are they all values that are there without a loop? */
static int with_same(struct evaluator *v, int cell, bool *plain)
{
	struct cell c = v->cells->at[cell];

	*plain = c.op != CELL_CARRY && c.op != CELL_FINAL && !c.carried && !kept_is_transient(v, &c);
	for (int i = 0; i < 3 && c.arg[i] >= 0; i++) {
		if ((c.arg[i] = same_cell(v, c.arg[i])) < 0) return -1;
		*plain = *plain && v->same.of[c.arg[i]].plain;
	}
	if (c.op == CELL_FINAL && (c.p[1] = same_recurrence(v, c.p[1])) < 0) return -1;
	return cell_add(v->cells, &c);
}

/* What has become an output's since is kept as such. */
static int stand_in(struct evaluator *v, int cell)
{
	int other = v->same.of[cell].cell - 1;

	v->cells->at[other].stored = v->cells->at[other].stored || v->cells->at[cell].stored;
	return other;
}

int same_cell(struct evaluator *v, int cell)
{
	struct same *s = &v->same;
	bool plain;
	uint64_t hash;

	if (cell < 0 || !room_for(s, v->cells->n)) return -1;
	if (s->of[cell].cell) return stand_in(v, cell);
	int y = with_same(v, cell, &plain);
	if (y < 0 || !room_for(s, v->cells->n)) return -1;
	if (!s->of[y].cell) {
		int z = y;
		if (plain && (!evaluate_cell(v, y) || !value_hash(v, y, &hash) || (z = first_with(s, hash, y)) < 0)) return -1;
		s->of[y] = (struct stand_in){ z + 1, plain };
	}
	s->of[cell] = s->of[y];
	return stand_in(v, cell);
}

static int same_recurrence(struct evaluator *v, int recurrence)
{
	struct recurrence r = v->cells->recurrence[recurrence];

	for (int i = 0; i < v->f->in[r.loop].n_carry; i++)
		if ((r.first[i] = same_cell(v, r.first[i])) < 0 || (r.next[i] = same_cell(v, r.next[i])) < 0) return -1;
	return cells_recurrence(v->cells, &r);
}

bool same_lowered(struct evaluator *v, struct lowered *l, const bool *wanted)
{
	for (int i = 0; i < v->f->n_put; i++)
		if (wanted[i] && (l->put[i] = same_cell(v, l->put[i])) < 0) return false;
	for (int i = 1; i < v->f->n_in; i++)
		if (l->recurrence[i] >= 0 && (l->recurrence[i] = same_recurrence(v, l->recurrence[i])) < 0) return false;
	return true;
}

void same_free(struct same *s)
{
	free(s->of);
	free(s->slot);
	*s = (struct same){ 0 };
}
