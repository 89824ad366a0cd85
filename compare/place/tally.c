#include "tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"

enum { LONGEST = 1 << 16 }; /* longer axes are not searched index by index */

bool tally_make(struct tally *t, int rank, const size_t *shape, struct error *e)
{
	size_t inner = 1;

	*t = (struct tally){ .rank = rank, .random = 1, .row = shape[rank - 1] };
	for (int a = rank; a-- > 0; inner *= shape[a]) t->shape[a] = shape[a], t->inner[a] = inner;
	for (int a = 0; a < rank; a++) {
		if (shape[a] > LONGEST) continue;
		double *all = calloc(HIT_COUNTS * shape[a], sizeof *all);
		if (!all)
			return error_set(
				e, E_MEMORY, "", NO_OFFSET, "counts of %zu indices", shape[a]);
		for (int k = 0; k < HIT_COUNTS; k++) t->hit[a][k] = all + (size_t)k * shape[a];
	}
	return true;
}

void tally_free(struct tally *t)
{
	for (int a = 0; a < t->rank; a++) free(t->hit[a][0]);
}

static bool is_in(const struct tally *t, size_t at)
{
	bool in = true;

	for (int a = 0; a < t->rank && in; a++)
		in = !t->fixed[a] || place_has(&t->in[a], tally_index(t, a, at));
	return in;
}

static void count(struct tally *t, int kind, size_t at)
{
	for (int a = 0; a < t->rank; a++)
		if (t->hit[a][kind]) t->hit[a][kind][tally_index(t, a, at)]++;
	t->total[kind]++;
	if (kind < HIT_KINDS) t->in_row[kind]++;
}

/* Draws the element, number n of those that are wrong, with the same chance as each before it. */
static void draw(struct tally *t, size_t at, size_t n)
{
	size_t to = n;

	if (n < TALLY_FEW) t->few[n] = at;
	if (n >= TALLY_SAMPLE) {
		t->random *= UINT64_C(6364136223846793005);
		t->random += UINT64_C(1442695040888963407);
		to = (size_t)(t->random >> 33) % (n + 1);
	}
	if (to < TALLY_SAMPLE) t->sample[to] = at;
}

double tally_share(int kind)
{
	return kind == HIT_GRADE ? 0 : place_share * pow(place_grade, kind - HIT_GRADE - 1);
}

static void count_wrong(struct tally *t, size_t at, double got, double share)
{
	draw(t, at, (size_t)t->total[HIT_GRADE]);
	if (got == 0) count(t, HIT_ZERO, at);
	if (!isfinite(got)) count(t, HIT_NOT_FINITE, at), t->nan += isnan(got) != 0;
	for (int k = HIT_GRADE; k < HIT_KINDS && share >= tally_share(k); k++) count(t, k, at);
}

static void end_row(struct tally *t)
{
	for (int k = 0; k < HIT_KINDS; k++) {
		t->squares[k] += t->in_row[k] * t->in_row[k];
		t->in_row[k] = 0;
	}
}

void tally_begin(struct tally *t)
{
	for (int a = 0; a < t->rank; a++)
		if (t->hit[a][0])
			memset(t->hit[a][0], 0, HIT_COUNTS * t->shape[a] * sizeof(double));
	memset(t->total, 0, sizeof t->total);
	memset(t->squares, 0, sizeof t->squares);
	t->nan = 0;
}

void tally_add(struct tally *t, size_t at, double got, double size, double share)
{
	bool wrong = size > place_wrong;

	if ((wrong || got == 0) && is_in(t, at)) {
		if (wrong) count_wrong(t, at, got, share);
		else count(t, HIT_RIGHT_ZERO, at);
	}
	if ((at + 1) % t->row == 0) end_row(t);
}

/* Elements with one index on the axis; -1: all. */
static double elements(const struct tally *t, int axis)
{
	double n = 1;

	for (int a = 0; a < t->rank; a++)
		if (a != axis) n *= (double)(t->fixed[a] ? place_size(&t->in[a]) : t->shape[a]);
	return n;
}

double tally_elements(const struct tally *t) { return elements(t, -1); }

double tally_cluster(const struct tally *t, int kind)
{
	return t->total[kind] > 0 ? t->squares[kind] / t->total[kind] : 1;
}

/* Hits in a row have one cause, but on the row's own axis. */
bool tally_best(const struct tally *t, int kind, int *axis, struct place *best)
{
	best->kind = NOWHERE;
	for (int a = 0; a < t->rank; a++) {
		struct counted c = { t->shape[a], t->hit[a][kind], elements(t, a), 1, 1,
			kind > HIT_GRADE };
		struct place p;
		if (a + 1 < t->rank) c.cluster = tally_cluster(t, kind), c.row = (double)t->row;
		if (t->fixed[a] || !c.hit || !place_find(&p, &c)) continue;
		if (best->kind == NOWHERE || p.evidence > best->evidence) *best = p, *axis = a;
	}
	return best->kind != NOWHERE;
}
