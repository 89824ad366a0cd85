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
struct slices { const char *name; int name_length; size_t n, inner, shape, modulus; };

static size_t slice_of(const struct slices *s, size_t j)
{
	size_t i = s->n > 1 ? j / s->inner % s->shape : 0;

	return s->modulus ? i % s->modulus : i;
}

/* What a gain or an offset adds to element j for each unit of its coefficient: offsets are in units of what is stored. */
static double effect(const struct xray *x, int kind, size_t j) { return kind == GAIN ? x->base[j] : 1; }

/* The slice at which the effect explains most of what is left; *share: of Σ w r² over all outputs. */
static size_t best_slice(const struct xray *x, int o, int kind, const struct slices *s, double *share)
{
	double *dr = calloc(2 * s->n, sizeof *dr), *dd = dr + s->n, all = 0;
	size_t best = 0;

	*share = 0;
	if (!dr) return 0;
	for (size_t j = 0; j < x->n; j++) {
		double wr = x->weight[j] > 0 ? x->weight[j] * x->r[j] : 0, d = effect(x, kind, j);
		all += wr > 0 || wr < 0 ? wr * x->r[j] : 0;
		if (j < x->first[o] || j >= x->first[o + 1] || !(x->weight[j] > 0)) continue;
		size_t i = slice_of(s, j - x->first[o]);
		dr[i] += wr * d;
		dd[i] += x->weight[j] * d * d;
	}
	for (size_t i = 0; i < s->n; i++) {
		double explained = dd[i] > 0 && all > 0 ? dr[i] * dr[i] / dd[i] / all : 0;
		if (explained > *share) *share = explained, best = i;
	}
	free(dr);
	return best;
}

static void name_it(const struct xray *x, int o, int kind, const struct slices *s, size_t at, char *name, size_t size)
{
	size_t n = (size_t)snprintf(name, size, "%s of %s", kind == GAIN ? "gain" : "offset", x->call->op->out[o].name);

	if (s->n > 1) n += (size_t)snprintf(name + n, size - n, " at %.*s = %zu", s->name_length, s->name, at);
	if (s->n > 1 && s->modulus) snprintf(name + n, size - n, " mod %zu", s->modulus);
}

/* The best slice, with its coefficient, to g if it explains more than what is there. */
static void try_slices(struct xray *x, int o, int kind, const struct slices *s, struct generic *g)
{
	double share;
	size_t at = best_slice(x, o, kind, s, &share);

	if (!(share > g->share)) return;
	for (size_t j = 0; j < x->n; j++) {
		bool in = j >= x->first[o] && j < x->first[o + 1] && slice_of(s, j - x->first[o]) == at;
		x->d[j] = in ? effect(x, kind, j) : 0;
	}
	struct coefficient c = xray_fit_stored(x);
	if (!c.determined || !(fabs(c.value) > far * c.error)) return;
	g->share = share;
	g->value = c.value;
	g->error = c.error;
	name_it(x, o, kind, s, at, g->name, sizeof g->name);
}

static void try_output(struct xray *x, int o, int kind, struct generic *g)
{
	size_t shape[MAX_RANK], inner = x->call->out_count[o];
	int rank = call_out_shape(x->call, o, shape);
	const char *names = x->call->op->out[o].shape;
	struct slices all = { .n = 1 };

	try_slices(x, o, kind, &all, g);
	for (int a = 0; a < rank; a++) {
		struct slices s = { names, (int)strcspn(names, ","), shape[a], inner /= shape[a], shape[a], 0 };
		names += s.name_length + (names[s.name_length] == ',');
		if (s.n < 2 || s.n > LONGEST) continue;
		try_slices(x, o, kind, &s, g);
		if (s.n <= CHUNK) continue;
		s.n = s.modulus = CHUNK;
		try_slices(x, o, kind, &s, g);
	}
}

bool generic_suspect(struct xray *x, struct generic *g)
{
	*g = (struct generic){ .share = 0 };
	for (int o = 0; o < MAX_OUT; o++)
		for (int kind = 0; kind < KINDS && x->call->out_count[o]; kind++) try_output(x, o, kind, g);
	return g->share > most;
}
