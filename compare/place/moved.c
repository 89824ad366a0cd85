#include "moved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "place.h"

enum { RIGHT = -1, UNKNOWN = -2 };
enum { EVERY = 512, NEAR = 64 };        /* indices up to which all are compared; else, how far off */

/* How far what stands at i is from what belongs at j, in squares, on the lines where i is wrong. */
static double apart(const struct lines *a, size_t i, size_t j, double *own)
{
	double sum = 0;

	*own = 0;
	for (size_t l = 0; l < a->lines; l++) {
		double e = a->expected[j * a->lines + l], d = a->got[i * a->lines + l] - e;
		if (!a->wrong[i * a->lines + l]) continue;
		sum += d * d;
		*own += e * e;
	}
	return sum;
}

/* Where what stands at i belongs: RIGHT, an index, or UNKNOWN. */
static long source_of(const struct lines *a, size_t i)
{
	size_t wrong = 0;
	double own, here = apart(a, i, i, &own), least = INFINITY;
	long best = UNKNOWN;

	for (size_t l = 0; l < a->lines; l++) wrong += a->wrong[i * a->lines + l];
	if (!wrong) return RIGHT;
	if (wrong < FEWEST_LINES || !isfinite(here)) return UNKNOWN;
	for (size_t j = 0; j < a->n; j++) {
		bool near = (j > i ? j - i : i - j) <= NEAR || j + i + 1 == a->n
			|| (j + a->n / 2) % a->n == i;
		if (j == i || (a->n > EVERY && !near)) continue;
		double d = apart(a, i, j, &own);
		if (!(d < least) || !(d <= moved_share * own) || !(d <= moved_share * here)
			|| !(own > 0))
			continue;
		least = d;
		best = (long)j;
	}
	return best;
}

struct map {
	size_t n;
	const long *from;
};
typedef bool relation(const struct map *m, size_t i, long with);

static bool same_source(const struct map *m, size_t i, long j) { return m->from[i] == j; }
static bool shifted(const struct map *m, size_t i, long s) { return m->from[i] == (long)i + s; }
static bool backwards(const struct map *m, size_t i, long s)
{
	return (void)s, m->from[i] == (long)(m->n - 1 - i);
}
static bool neighbours(const struct map *m, size_t i, long s)
{
	return (void)s, m->from[i] == (long)(i ^ 1);
}
static bool half_apart(const struct map *m, size_t i, long s)
{
	return (void)s, m->n % 2 == 0 && m->from[i] == (long)((i + m->n / 2) % m->n);
}
static bool pair(const struct map *m, size_t i, long s)
{
	return (void)s, m->from[m->from[i]] == (long)i;
}

/* Do nine in ten of those that are wrong, at least two, have the relation? in [n]: those that
 * do. */
static bool holds(const struct map *m, relation *r, long with, bool *in, size_t *count)
{
	size_t wrong = 0;

	*count = 0;
	for (size_t i = 0; i < m->n; i++) {
		in[i] = m->from[i] >= 0 && r(m, i, with);
		wrong += m->from[i] != RIGHT;
		*count += in[i];
	}
	return *count && 10 * *count >= 9 * wrong;
}

/* The indices that are in, or how many they are. */
static void say_set(
	const bool *in, size_t n, size_t count, const char *axis, char *text, size_t size)
{
	struct place p;

	if (place_of(&p, in, n)) place_say(&p, axis, text, size);
	else snprintf(text, size, "%zu indices of %s", count, axis);
}

static bool say(char *text, size_t size, const char *axis, const struct map *m, bool *in)
{
	size_t count, first = 0;
	char set[128];

	while (first < m->n && m->from[first] < 0) first++;
	if (first == m->n) return false;
	if (holds(m, backwards, 0, in, &count) && count > 2)
		snprintf(text, size, "%s runs backwards", axis);
	else if (holds(m, neighbours, 0, in, &count) && count > 2)
		snprintf(text, size, "neighbours along %s are swapped", axis);
	else if (holds(m, half_apart, 0, in, &count) && count > 2)
		snprintf(text, size, "the halves of %s are swapped", axis);
	else if (holds(m, pair, 0, in, &count) && count == 2) {
		say_set(in, m->n, count, axis, set, sizeof set);
		snprintf(text, size, "%s are swapped", set);
	} else if (holds(m, same_source, m->from[first], in, &count)) {
		say_set(in, m->n, count, axis, set, sizeof set);
		snprintf(text, size, "%s %s what belongs at %s = %ld", set,
			count > 1 ? "hold" : "holds", axis, m->from[first]);
	} else if (holds(m, shifted, m->from[first] - (long)first, in, &count)) {
		long s = m->from[first] - (long)first;
		say_set(in, m->n, count, axis, set, sizeof set);
		snprintf(text, size, "%s hold what belongs at %s %c %ld", set, axis,
			s < 0 ? '-' : '+', labs(s));
	} else return false;
	return true;
}

bool moved_find(char *text, size_t size, const char *axis, const struct lines *a)
{
	long *from = malloc(a->n * sizeof *from);
	bool *in = malloc(a->n * sizeof *in), found = from && in;

	for (size_t i = 0; found && i < a->n; i++) from[i] = source_of(a, i);
	found = found && say(text, size, axis, &(struct map){ a->n, from }, in);
	free(from);
	free(in);
	return found;
}
