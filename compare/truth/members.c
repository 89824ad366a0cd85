/* Indices that runs name: see members.h. */
#include "members.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void members_free(struct members *m)
{
	for (size_t r = 0; m->of && r < m->rows; r++) free(m->of[r].at);
	free(m->of);
	free(m->first);
	free(m->moves);
	*m = (struct members){ 0 };
}

bool members_begin(struct members *m, size_t count, size_t row, size_t size)
{
	members_free(m);
	*m = (struct members){ .count = count, .rows = row > LONGEST_ROW ? 0 : count / row, .row = row, .greatest = (double)size - 1 };
	m->of = calloc(m->rows + 1, sizeof *m->of);
	m->first = malloc((count + 1) * sizeof *m->first);
	m->moves = calloc(count + 1, 1);
	return m->of && m->first && m->moves;
}

static struct member *find(const struct member_row *r, double value)
{
	for (int i = 0; i < r->n; i++)
		if (r->at[i].value == value) return &r->at[i];
	return NULL;
}

static bool add(struct member_row *r, double value)
{
	struct member *there = find(r, value);

	if (!there && r->n == r->room) {
		int room = r->room ? 2 * r->room : 16;
		struct member *more = realloc(r->at, (size_t)room * sizeof *more);
		if (!more) return false;
		r->at = more, r->room = room;
	}
	if (!there) *(there = &r->at[r->n++]) = (struct member){ value, 0 };
	there->times++;
	return true;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Does a value stand twice? -1: no memory. */
static int any_twice(const double *x, size_t n)
{
	double *sorted = malloc((n + 1) * sizeof *sorted);
	int twice = sorted ? 0 : -1;

	if (sorted) memcpy(sorted, x, n * sizeof *x), qsort(sorted, n, sizeof *sorted, by_value);
	for (size_t i = 1; i < n && !twice; i++) twice = sorted[i] == sorted[i - 1];
	free(sorted);
	return twice;
}

size_t members_repeat(const double *x, size_t n)
{
	if (any_twice(x, n) == 0) return n;
	for (size_t j = 1; j < n; j++)
		for (size_t k = 0; k < j; k++)
			if (x[k] == x[j]) return j;
	return n;
}

void members_add(struct members *m, const double *run)
{
	if (!m->runs++) memcpy(m->first, run, m->count * sizeof *run);
	for (size_t i = 0; i < m->count; i++) {
		m->moves[i] |= run[i] != m->first[i];
		if (isfinite(run[i])) m->least = fmin(m->least, run[i]), m->greatest = fmax(m->greatest, run[i]);
	}
	for (size_t r = 0; r < m->count / m->row && !m->repeats; r++) m->repeats = any_twice(run + r * m->row, m->row) != 0;
	for (size_t i = 0; i < m->rows * m->row; i++) m->failed = m->failed || (isfinite(run[i]) && !add(&m->of[i / m->row], run[i]));
}

bool members_has(const struct members *m, size_t row, double value) { return !m->rows || find(&m->of[row], value); }

double members_missed(const struct members *m)
{
	double once = 0;

	for (size_t r = 0; r < m->rows; r++)
		for (int i = 0; i < m->of[r].n; i++) once += m->of[r].at[i].times == 1;
	return once / fmax(1, m->runs);
}
