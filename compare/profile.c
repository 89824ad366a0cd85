#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

const char *const reading_name[] = { "not visible", "not rounded", "rounded" };

/* All sites at once around the replica: a rounded one with the direction that takes it out, so that
 * its coefficient is 1 plus what the fit says; the others with the first type. */
static bool read_sites(struct xray *x, struct profile *p)
{
	struct sample sample = xray_sample(x);
	size_t sites = 1;
	for (int k = 0; x->call->op->sites[k].name; k++) sites += site_in_form(x->call->op, k, x->replica.form);
	double *all = malloc(sites * x->n * sizeof *all);
	const double *d[MAX_SITE];
	struct coefficient c[MAX_SITE];
	bool ok = all != NULL || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs at each site", x->n);

	p->n = 0;
	if (ok) memset(c, 0, sizeof c);
	for (int k = 0; ok && x->call->op->sites[k].name; k++) {
		struct site_rounding on = x->replica.round[k];
		if (!site_in_form(x->call->op, k, x->replica.form)) continue;
		double *to = all + (size_t)p->n * x->n;
		struct plan without = x->replica;
		without.round[k] = on.on ? (struct site_rounding){ 0 } : site_types[0];
		ok = xray_direction(x, &without);
		for (size_t i = 0; ok && i < x->n; i++) to[i] = on.on ? -x->d[i] : x->d[i];
		d[p->n] = to;
		p->reading[p->n++] = (struct reading){ .site = k, .format = on.on ? on.format : site_types[0].format, .rounding = on.rounding,
			.state = on.on ? ROUNDED : NOT_ROUNDED };
	}
	if (ok) fit(&sample, x->r, d, p->n, c);
	for (int j = 0; ok && j < p->n; j++) {
		struct reading *r = &p->reading[j];
		r->coefficient = c[j].value + (r->state == ROUNDED);
		r->error = c[j].error;
		if (fabs(c[j].value) >= 0.5 || (r->state == NOT_ROUNDED && !(r->error < 1 / certain))) r->state = NOT_VISIBLE;
	}
	free(all);
	return ok;
}

/* The store of output o, where its type is narrower than float32: around the replica's own answer, as
 * the rounding that it is. */
static void read_store(const struct xray *x, struct profile *p, int o)
{
	struct sample sample = { x->n, x->blocks, x->block, x->d };
	enum dtype t = out_dtype(x->call, o);
	double *y = calloc(2 * x->n, sizeof *y), *d = y + x->n;
	const double *only = d;
	struct coefficient c;

	for (size_t i = 0; i < x->n; i++) x->d[i] = 0;
	for (size_t i = x->first[o]; y && i < x->first[o + 1]; i++) {
		double ulp = format_ulp(dtype_info[t].format, x->base[i]);
		y[i] = x->got[i] - x->base[i];
		d[i] = stored_as(t, x->base[i], 0) - x->base[i];
		x->d[i] = x->floor2[i] > 0 ? 1 / (ulp * ulp) : 0;
	}
	if (y) fit(&sample, y, &only, 1, &c);
	for (int j = 0; y && j < p->n; j++) {
		struct reading *r = &p->reading[j];
		if (site_store(x->call, r->site) != 1 + o || format_info[dtype_info[t].format].precision >= 24) continue;
		*r = (struct reading){ r->site, dtype_info[t].format, ROUND_NEAREST_EVEN, c.value, c.error,
			c.error < 1 / certain ? (fabs(c.value - 1) < 0.5 ? ROUNDED : NOT_ROUNDED) : NOT_VISIBLE };
	}
	free(y);
}

/* Around a replica that is largely noise a fit reads noise: each direction holds the replica's own. */
static void blind(struct profile *p)
{
	for (int j = 0; j < p->n && p->amplified > saturated; j++) p->reading[j].state = NOT_VISIBLE;
}

static void measure(const struct xray *x, struct profile *p, const double share[MAX_OUT])
{
	for (int o = 0; o < MAX_OUT; o++) {
		double chi = 0;
		size_t n = x->call->out_count[o], equal = 0, counted = 0;
		for (size_t i = x->first[o]; i < x->first[o + 1]; i++) {
			equal += x->r[i] == 0;
			if (x->floor2[i] > 0) chi += x->r[i] * x->r[i] / x->floor2[i], counted++;
		}
		if (!n) continue;
		p->out[o].explained = share[o];
		p->out[o].bit_equal = (double)equal / (double)n;
		p->out[o].rms = counted ? sqrt(chi / (double)counted) : 0;
	}
}

bool profile_read(struct profile *p, struct xray *x)
{
	double share[MAX_OUT];

	*p = (struct profile){ .replica = x->replica };
	p->amplified = xray_amplified(x);
	if (p->amplified < 0 || !read_sites(x, p) || !xray_explained(x, share)) return false;
	measure(x, p, share);
	for (int o = 0; o < MAX_OUT; o++)
		if (x->call->out_count[o]) read_store(x, p, o);
	blind(p);
	return true;
}

bool profile_sums(struct profile *p, struct xray *x)
{
	if (!accumulators_read(&p->sums, x)) return false;
	for (int o = 0; o < MAX_OUT; o++) p->out[o].bit_equal = p->sums.output[p->sums.best][o];
	return true;
}

bool profile_within(const struct profile *p, const struct call *call, const struct contract *k)
{
	for (int i = 0; call->op->sites[i].name; i++) {
		const struct site_rounding *r = &p->replica.round[i], *allowed = &k->site[i];
		bool same = allowed->on && allowed->format == r->format && allowed->rounding == r->rounding;
		if (r->on && !same && !is_store(call, i, r->format)) return false;
	}
	return true;
}
