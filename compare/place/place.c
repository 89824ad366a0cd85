#include "place.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"

bool place_has(const struct place *p, size_t i)
{
	bool listed = false;

	if (p->kind == A_RANGE) return i >= p->first && i <= p->last;
	if (p->kind == A_REMAINDER) return i % p->modulus == p->first;
	for (size_t k = 0; k < p->indices; k++) listed = listed || p->index[k] == i;
	return listed;
}

size_t place_size(const struct place *p)
{
	if (p->kind == A_RANGE) return p->last - p->first + 1;
	if (p->kind == A_REMAINDER) return (p->n - p->first + p->modulus - 1) / p->modulus;
	return p->indices;
}

/* ---- how much speaks for a set ---- */

static double x_log_x(double x) { return x > 0 ? x * log(x) : 0; }

/* The log likelihood of `hit` of `all`, at the share that fits best. */
static double likelihood(double hit, double all)
{
	return x_log_x(hit) + x_log_x(all - hit) - x_log_x(all);
}

/* Fills shares and evidence, and takes the set where that is more than this part of the best
 * one's. Where more than half of the rows there are hit, and next to nothing elsewhere, how hits
 * come together is no matter. */
static void weigh_against(double worse, struct place *best, struct place *p,
	const struct counted *c, double hit, double total, double log_choices)
{
	double all = (double)place_size(p) * c->all, rest = (double)c->n * c->all - all;

	if (!(all > 0) || !(rest > 0)) return;
	p->inside = hit / all;
	p->outside = fmax(0, total - hit) / rest;
	if (!(p->inside >= place_denser * p->outside)) return;
	bool clean = !c->some && p->outside <= place_clean * p->inside
		&& 2 * p->inside * c->row >= c->cluster;
	double cluster = clean ? 1 : fmax(1, c->cluster);
	double ratio = likelihood(hit, all) + likelihood(total - hit, rest)
		- likelihood(total, all + rest);
	p->evidence = ratio / cluster - log_choices;
	if (p->evidence > place_chance && p->evidence > worse * best->evidence) *best = *p;
}

static void weigh(struct place *best, struct place *p, const struct counted *c, double hit,
	double total, double log_choices)
{
	weigh_against(1, best, p, c, hit, total, log_choices);
}

/* lgamma writes signgam, which all threads share. */
static double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

static double log_choose(size_t n, size_t k)
{
	return log_gamma((double)n + 1) - log_gamma((double)k + 1) - log_gamma((double)(n - k) + 1);
}

/* ---- the sets ---- */

static int rising(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

/* The indices with the most hits: one, two, ... */
static void try_indices(struct place *best, const struct counted *c, double total)
{
	struct place p = { .kind = SOME_INDICES, .n = c->n };
	double hit = 0;

	while (p.indices < MOST_INDICES && p.indices + 1 < c->n) {
		size_t most = c->n;
		for (size_t i = 0; i < c->n; i++)
			if (!place_has(&p, i) && (most == c->n || c->hit[i] > c->hit[most]))
				most = i;
		if (!(c->hit[most] > 0)) return;
		hit += c->hit[most];
		p.index[p.indices++] = most;
		struct place sorted = p;
		qsort(sorted.index, sorted.indices, sizeof *sorted.index, rising);
		weigh(best, &sorted, c, hit, total, log_choose(c->n, p.indices));
	}
}

/* Of all ranges that may begin and end there the one with the most hits beyond the mean. */
static void try_ranges(
	struct place *best, const struct counted *c, double total, bool from_0, bool to_end)
{
	double mean = total / (double)c->n, sum = 0, most = 0;
	struct place p = { .kind = A_RANGE, .n = c->n, .first = 1 };
	size_t first = 0;

	for (size_t i = 0; i < c->n; i++) {
		size_t at = to_end ? c->n - 1 - i : i;
		if (!from_0 && !to_end && sum < 0) sum = 0, first = i;
		sum += c->hit[at] - mean;
		if (!(sum > most)) continue;
		most = sum;
		p.first = to_end ? at : first;
		p.last = to_end ? c->n - 1 : at;
	}
	if (p.first >= p.last) return;
	double hit = 0;
	for (size_t i = p.first; i <= p.last; i++) hit += c->hit[i];
	/* of no more indices there are so many ranges */
	weigh(best, &p, c, hit, total,
		log((double)c->n * (from_0 || to_end ? 1 : (double)place_size(&p))));
}

/* A half is plainer than a range that is a little better, as where small errors do not show. */
static void try_halves(struct place *best, const struct counted *c, double total)
{
	double hit = 0;

	if (c->n % 2) return;
	for (size_t i = 0; i < c->n / 2; i++) hit += c->hit[i];
	struct place lower = { .kind = A_RANGE, .n = c->n, .last = c->n / 2 - 1 };
	struct place upper = { .kind = A_RANGE, .n = c->n, .first = c->n / 2, .last = c->n - 1 };
	weigh_against(place_plain, best, &lower, c, hit, total, log(2));
	weigh_against(place_plain, best, &upper, c, total - hit, total, log(2));
}

enum { LARGEST_MODULUS = 128, MODULI = 7 };

static void try_remainders(struct place *best, const struct counted *c, double total)
{
	for (size_t m = 2; m <= LARGEST_MODULUS && 2 * m <= c->n; m *= 2)
		for (size_t r = 0; r < m; r++) {
			struct place p = {
				.kind = A_REMAINDER, .n = c->n, .first = r, .modulus = m
			};
			double hit = 0;
			for (size_t i = r; i < c->n; i += m) hit += c->hit[i];
			weigh(best, &p, c, hit, total, log((double)m * MODULI));
		}
}

bool place_find(struct place *p, const struct counted *c)
{
	double total = 0;

	*p = (struct place){ .kind = NOWHERE, .n = c->n };
	for (size_t i = 0; i < c->n; i++) total += c->hit[i];
	if (c->n < 2 || !(total > 0)) return false;
	try_indices(p, c, total);
	try_ranges(p, c, total, true, false);
	try_ranges(p, c, total, false, true);
	try_ranges(p, c, total, false, false);
	try_remainders(p, c, total);
	if (p->kind == A_RANGE) try_halves(p, c, total);
	return p->kind != NOWHERE;
}

/* Is the set exactly what is in, of which there are `count`? */
static bool is_set(const struct place *p, const bool *in, size_t count)
{
	bool all = place_size(p) == count;

	for (size_t i = 0; all && i < p->n; i++) all = !in[i] || place_has(p, i);
	return all;
}

bool place_of(struct place *p, const bool *in, size_t n)
{
	size_t count = 0, first = n, last = 0;

	*p = (struct place){ .kind = SOME_INDICES, .n = n, .inside = 1 };
	for (size_t i = 0; i < n; i++) {
		if (!in[i]) continue;
		if (count < MOST_INDICES) p->index[count] = i;
		if (!count++) first = i;
		last = i;
	}
	p->indices = count < MOST_INDICES ? count : MOST_INDICES;
	if (count < 3) return count > 0;
	struct place listed = *p;
	*p = (struct place){ .kind = A_RANGE, .n = n, .first = first, .last = last, .inside = 1 };
	if (is_set(p, in, count)) return true;
	for (size_t m = 2; m <= LARGEST_MODULUS && 2 * m <= n; m *= 2) {
		*p = (struct place){
			.kind = A_REMAINDER, .n = n, .first = first % m, .modulus = m, .inside = 1
		};
		if (is_set(p, in, count)) return true;
	}
	*p = listed;
	return is_set(p, in, count);
}

/* ---- in words ---- */

static void say_indices(const struct place *p, const char *axis, char *text, size_t size)
{
	size_t n = p->indices, used = (size_t)snprintf(text, size, "%s = ", axis);

	if (n > 2 && p->index[n - 1] - p->index[0] == n - 1) {
		snprintf(text + used, size - used, "%zu to %zu", p->index[0], p->index[n - 1]);
		return;
	}
	for (size_t i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%zu",
			!i                  ? ""
				: i + 1 < n ? ", "
					    : " and ",
			p->index[i]);
}

enum { MOST_SAID = 8 }; /* "the last 8 of D", but "T from 64 on" */
static void say_range(const struct place *p, const char *axis, char *text, size_t size)
{
	size_t half = p->n / 2, in = place_size(p);

	if (p->n <= MOST_SAID)
		snprintf(text, size, "%s = %zu %s %zu", axis, p->first, in == 2 ? "and" : "to",
			p->last);
	else if (p->last + 1 == p->n && p->first == half && p->n % 2 == 0)
		snprintf(text, size, "the upper half of %s", axis);
	else if (p->first == 0 && p->last + 1 == half && p->n % 2 == 0)
		snprintf(text, size, "the lower half of %s", axis);
	else if (p->last + 1 == p->n && in <= MOST_SAID)
		snprintf(text, size, "the last %zu of %s", in, axis);
	else if (p->last + 1 == p->n) snprintf(text, size, "%s from %zu on", axis, p->first);
	else if (p->first == 0 && in <= MOST_SAID)
		snprintf(text, size, "the first %zu of %s", in, axis);
	else if (p->first == 0) snprintf(text, size, "%s up to %zu", axis, p->last);
	else snprintf(text, size, "%s = %zu to %zu", axis, p->first, p->last);
}

const char *place_say(const struct place *p, const char *axis, char *text, size_t size)
{
	if (p->kind == A_RANGE) say_range(p, axis, text, size);
	else if (p->kind == A_REMAINDER)
		snprintf(text, size, "%s = %zu mod %zu", axis, p->first, p->modulus);
	else say_indices(p, axis, text, size);
	return text;
}
