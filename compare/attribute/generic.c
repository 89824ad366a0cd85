/* Suspects that need no list: an output multiplied by a gain, or shifted by an offset, throughout or at one
 * index of one axis. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "suspects.h"

/* Standard errors from 0, and the share of what is left that it explains. */
static const double far = 8, most = 0.5;

enum { LONGEST = 1 << 16, CHUNK = 64 };
enum { GAIN, OFFSET, KINDS };

/* The indices of an axis, modulo `modulus` where it is not 0; with n 1: all elements. */
struct slices {
	char name[64];
	size_t n, inner, shape, modulus;
};

static size_t slice_of(const struct slices *s, size_t j)
{
	size_t i = s->n > 1 ? j / s->inner % s->shape : 0;

	return s->modulus ? i % s->modulus : i;
}

/* What a gain or an offset adds to element j for each unit of its coefficient: offsets are in units of what is stored. */
static double effect(const struct xray *x, int kind, size_t j) { return kind == GAIN ? x->base[j] : 1; }

/* Σ w r d and Σ w d² of each slice, dr and dd [s->n], and Σ w r² over all outputs, of the strip held. */
static void add_slices(const struct xray *x, int o, int kind, const struct slices *s, double *dr, double *dd, double *all)
{
	for (size_t j = 0; j < x->n; j++) {
		double wr = x->weight[j] > 0 ? x->weight[j] * x->r[j] : 0, d = effect(x, kind, j);
		*all += wr > 0 || wr < 0 ? wr * x->r[j] : 0;
		if (j < x->first[o] || j >= x->first[o + 1] || !(x->weight[j] > 0)) continue;
		size_t i = slice_of(s, xray_place(x, o, j));
		dr[i] += wr * d;
		dd[i] += x->weight[j] * d * d;
	}
}

/* The slice at which the effect explains most of what is left; *share: of Σ w r² over all outputs. */
static bool best_slice(struct xray *x, int o, int kind, const struct slices *s, size_t *best, double *share)
{
	double *dr = calloc(2 * s->n, sizeof *dr), *dd = dr + s->n, all = 0;
	bool ok = dr || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu slices", s->n);

	*best = 0;
	*share = 0;
	for (size_t at = 0; ok && at < x->strips; at++)
		if ((ok = xray_refresh_strip(x, at, XRAY_WEIGHTS))) add_slices(x, o, kind, s, dr, dd, &all);
	for (size_t i = 0; ok && i < s->n; i++) {
		double explained = dd[i] > 0 && all > 0 ? dr[i] * dr[i] / dd[i] / all : 0;
		if (explained > *share) *share = explained, *best = i;
	}
	free(dr);
	return ok;
}

/* Decimals of a factor: as many as its error leaves, but no more than three that tell it from 1. */
static int decimals(double factor, double error)
{
	double known = error > 0 ? ceil(-log10(error)) : 9;
	double telling = 3 + fmax(0, ceil(-log10(fabs(factor - 1))));

	return (int)fmin(9, fmax(0, fmin(known, telling)));
}

static void name_it(
	const struct xray *x, int o, int kind, const struct slices *s, size_t at, struct generic *g)
{
	char place[112];
	size_t n = (size_t)snprintf(place, sizeof place, "%s", x->call->op->out[o].name);

	if (s->n > 1)
		n += (size_t)snprintf(place + n, sizeof place - n, " at %s = %zu", s->name, at);
	if (s->n > 1 && s->modulus) snprintf(place + n, sizeof place - n, " mod %zu", s->modulus);
	if (kind == GAIN && g->error >= 1)
		snprintf(g->name, sizeof g->name, "%s is %.0f ± %.0f times what it should be", place,
			g->value, g->error);
	else if (kind == GAIN)
		snprintf(g->name, sizeof g->name, "%s is %.*f ± %.1g times what it should be", place,
			decimals(g->value, g->error), g->value, g->error);
	else
		snprintf(g->name, sizeof g->name, "%.4g ± %.2g is added to %s", g->value, g->error,
			place);
}

/* How well the effect at slice `at` explains what is left. */
static bool fit_slice(struct xray *x, int o, int kind, const struct slices *s, size_t at, struct coefficient *c)
{
	struct look look = { .size = 0 };

	if (!xray_fit_begin(x, &look)) return false;
	for (size_t i = 0; i < x->strips; i++) {
		if (!xray_refresh_strip(x, i, XRAY_WEIGHTS | XRAY_NOISE)) return xray_fit_end(x, &look, NULL), false;
		for (size_t j = 0; j < x->n; j++) {
			bool in = j >= x->first[o] && j < x->first[o + 1] && slice_of(s, xray_place(x, o, j)) == at;
			x->d[j] = in ? effect(x, kind, j) : 0;
		}
		xray_fit_add(x, &look);
	}
	return xray_fit_end(x, &look, c);
}

/* The best slice, with its coefficient, to g if it explains more than what is there. */
static bool try_slices(struct xray *x, int o, int kind, const struct slices *s, struct generic *g)
{
	struct coefficient c;
	double share;
	size_t at;

	if (!best_slice(x, o, kind, s, &at, &share)) return false;
	if (!(share > g->share)) return true;
	if (!fit_slice(x, o, kind, s, at, &c)) return false;
	if (!c.determined || !(fabs(c.value) > far * c.error)) return true;
	g->share = share;
	g->value = kind == GAIN ? 1 + c.value : c.value;
	g->error = c.error;
	name_it(x, o, kind, s, at, g);
	return true;
}

static bool try_output(struct xray *x, int o, int kind, struct generic *g)
{
	size_t shape[MAX_RANK], inner = x->call->out_count[o];
	int rank = call_out_shape(x->call, o, shape);
	struct slices all = { .n = 1 };

	if (!try_slices(x, o, kind, &all, g)) return false;
	for (int a = 0; a < rank; a++) {
		struct slices s = { "", shape[a], inner /= shape[a], shape[a], 0 };
		call_out_axis(x->call, o, a, s.name, sizeof s.name);
		if (s.n < 2 || s.n > LONGEST) continue;
		if (!try_slices(x, o, kind, &s, g)) return false;
		if (s.n <= CHUNK) continue;
		s.n = s.modulus = CHUNK;
		if (!try_slices(x, o, kind, &s, g)) return false;
	}
	return true;
}

bool generic_suspect(struct xray *x, struct generic *g)
{
	*g = (struct generic){ .share = 0 };
	for (int o = 0; o < MAX_OUT; o++)
		for (int kind = 0; kind < KINDS && x->call->out_count[o]; kind++)
			if (!try_output(x, o, kind, g)) return false;
	if (!(g->share > most)) g->share = 0;
	return true;
}
