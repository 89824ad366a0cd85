/* Where an unexplained error sits: the axis and the set of indices on it that hold most of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "suspects.h"

/* Sets of indices i on an axis of size n: a parameter p runs over 0 .. p_max-1. */
static bool one(size_t i, size_t n, size_t p) { (void)n; return i == p; }
static bool mod64(size_t i, size_t n, size_t p) { (void)n; return i % 64 == p; }
static bool mod16(size_t i, size_t n, size_t p) { (void)n; return i % 16 == p; }
static bool upper_half(size_t i, size_t n, size_t p) { (void)p; return i >= n / 2; }
static bool lower_half(size_t i, size_t n, size_t p) { (void)p; return i < n / 2; }
static bool from_64_on(size_t i, size_t n, size_t p) { (void)n; (void)p; return i >= 64; }

static const struct place { const char *text; size_t choices; bool (*in)(size_t i, size_t n, size_t p); } places[] = {
	{ "%s = %zu", SIZE_MAX, one }, { "%s = %zu mod 64", 64, mod64 }, { "%s = %zu mod 16", 16, mod16 },
	{ "the upper half of %s", 1, upper_half }, { "the lower half of %s", 1, lower_half }, { "%s from 64 on", 1, from_64_on },
};

/* Beyond this many times float32's noise, squared, an element is wrong, and how wrong says nothing of where. */
static const double wrong = 100;
/* An output with less of the error than this is not searched. */
static const double worth_a_look = 0.25;
enum { LONGEST = 1 << 16 };     /* longer axes are not searched index by index */

/* What element j adds to Σ r²/floor2. */
static double weight_of(const struct xray *x, size_t j)
{
	if (!isfinite(x->r[j])) return isnan(x->r[j]) ? 0 : wrong;
	return x->floor2[j] > 0 ? fmin(wrong, x->r[j] * x->r[j] / x->floor2[j]) : 0;
}

/* Output o's Σ r²/floor2. */
static bool sum_up(struct xray *x, int o, double *total)
{
	*total = 0;
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t j = x->first[o]; j < x->first[o + 1]; j++) *total += weight_of(x, j);
	}
	return true;
}

/* share [shape[axis]]: the part of output o's Σ r²/floor2, `total`, that has index i on the axis. */
static bool shares(struct xray *x, int o, int axis, const size_t *shape, int rank, double total, double *share)
{
	size_t inner = 1;

	for (int r = axis + 1; r < rank; r++) inner *= shape[r];
	for (size_t i = 0; i < shape[axis]; i++) share[i] = 0;
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t j = x->first[o]; j < x->first[o + 1]; j++)
			share[xray_place(x, o, j) / inner % shape[axis]] += weight_of(x, j);
	}
	for (size_t i = 0; i < shape[axis]; i++) share[i] = total > 0 ? share[i] / total : 0;
	return true;
}

struct best { double surprise, share, total; char text[96]; };

/* The set with the most of the error for its size: surprise is share · log(share / its part of the axis). */
static void search_axis(const double *share, size_t n, const char *axis, double part_of_all, struct best *best)
{
	for (size_t k = 0; k < sizeof places / sizeof *places; k++)
		for (size_t p = 0; p < places[k].choices && p < n; p++) {
			double sum = 0, part = 0;
			for (size_t i = places[k].choices == SIZE_MAX ? p : 0; i < (places[k].choices == SIZE_MAX ? p + 1 : n); i++)
				if (places[k].in(i, n, p)) sum += share[i], part += 1 / (double)n;
			double surprise = part > 0 && part < 1 && sum > part ? part_of_all * sum * log(sum / part) : 0;
			if (!(surprise > best->surprise)) continue;
			*best = (struct best){ surprise, sum, part_of_all, "" };
			snprintf(best->text, sizeof best->text, places[k].text, axis, p);
		}
}

/* Of output o the axes that are not too long; `at` becomes o where one of them is the best so far. */
static bool search_output(struct xray *x, int o, double part, double all, double *share, struct best *best, int *at)
{
	const char *names = x->call->op->out[o].shape;
	size_t shape[MAX_RANK];
	int rank = call_out_shape(x->call, o, shape);
	char axis[64];

	for (int a = 0; a < rank; a++) {
		size_t n = strcspn(names, ",");
		double before = best->surprise;
		snprintf(axis, sizeof axis, "%.*s", (int)n, names);
		names += n + (names[n] == ',');
		if (shape[a] > LONGEST) continue;
		if (!shares(x, o, a, shape, rank, part, share)) return false;
		search_axis(share, shape[a], axis, part / all, best);
		if (best->surprise > before) *at = o;
	}
	return true;
}

bool where_left(struct xray *x, char *text, size_t size)
{
	double *share = malloc(LONGEST * sizeof *share), part[MAX_OUT] = { 0 }, all = 0;
	bool ok = share || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the shares of %d indices", LONGEST);
	struct best best = { 0 };
	int at = 0;

	for (int o = 0; ok && o < MAX_OUT; o++) {
		if (!x->call->out_count[o]) continue;
		ok = sum_up(x, o, &part[o]);
		all += part[o];
		if (part[o] > part[at]) at = o;
	}
	if (ok) snprintf(text, size, "%.0f %% of it in %s, spread over it", 100 * part[at] / all, x->call->op->out[at].name);
	for (int o = 0; ok && o < MAX_OUT; o++)
		if (x->call->out_count[o] && part[o] >= worth_a_look * all) ok = search_output(x, o, part[o], all, share, &best, &at);
	if (ok && best.surprise > 0)
		snprintf(text, size, "%.0f %% of it in %s, there %.0f %% at %s", 100 * best.total, x->call->op->out[at].name,
			100 * best.share, best.text);
	free(share);
	return ok;
}
