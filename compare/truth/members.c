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
	*m = (struct members){ .count = count, .rows = row > LONGEST_ROW ? 0 : count / row, .row = row, .greatest = (double)size - 1, .repeats = row > LONGEST_ROW };
	m->of = calloc(m->rows + 1, sizeof *m->of);
	m->moves = calloc(count + 1, 1);
	return m->of && m->moves;
}

static bool has(const struct member_row *r, double value)
{
	for (int i = 0; i < r->n; i++)
		if (r->at[i] == value) return true;
	return false;
}

static bool add(struct member_row *r, double value)
{
	if (has(r, value)) return true;
	if (r->n == r->room) {
		int room = r->room ? 2 * r->room : 16;
		double *more = realloc(r->at, (size_t)room * sizeof *more);
		if (!more) return false;
		r->at = more, r->room = room;
	}
	r->at[r->n++] = value;
	return true;
}

size_t members_repeat(const double *x, size_t n)
{
	for (size_t j = 1; j < n; j++)
		for (size_t k = 0; k < j; k++)
			if (x[k] == x[j]) return j;
	return n;
}

void members_add(struct members *m, const double *run)
{
	if (!m->first && (m->first = malloc((m->count + 1) * sizeof *m->first))) memcpy(m->first, run, m->count * sizeof *run);
	m->failed = m->failed || !m->first;
	for (size_t i = 0; i < m->count && m->first; i++) m->moves[i] |= run[i] != m->first[i];
	for (size_t i = 0; i < m->count; i++)
		if (isfinite(run[i])) m->least = fmin(m->least, run[i]), m->greatest = fmax(m->greatest, run[i]);
	for (size_t r = 0; r < m->rows; r++) {
		const double *x = run + r * m->row;
		m->repeats = m->repeats || members_repeat(x, m->row) < m->row;
		for (size_t j = 0; j < m->row; j++) m->failed = m->failed || (isfinite(x[j]) && !add(&m->of[r], x[j]));
	}
}

bool members_has(const struct members *m, size_t row, double value) { return !m->rows || has(&m->of[row], value); }
