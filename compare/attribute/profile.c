#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

const char *const reading_name[] = { "not identifiable", "not rounded", "rounded" };

/* The sites of the emulation's form: a rounded one with the plan that takes it out, the others with the first type. */
static int site_streams(const struct xray *x, struct profile *p, struct stream *stream)
{
	int n = 0;

	for (int k = 0; x->call->op->sites[k].name; k++) {
		struct site_rounding on = x->emulation.round[k];
		struct plan without = x->emulation;
		if (!site_in_form(x->call->op, k, x->emulation.form)) continue;
		without.round[k] = on.on ? (struct site_rounding){ 0 } : site_types[0];
		stream[n] = (struct stream){ .plan = without };
		p->reading[n++] = (struct reading){ .site = k, .format = on.on ? on.format : site_types[0].format, .rounding = on.rounding,
			.state = on.on ? ROUNDED : NOT_ROUNDED };
	}
	return n;
}

static bool read_sites(struct xray *x, struct profile *p)
{
	struct stream stream[MAX_SITE];
	struct coefficient c[MAX_SITE];

	p->n = site_streams(x, p, stream);
	bool ok = xray_fit_together(x, stream, p->n, c);
	for (int j = 0; ok && j < p->n; j++) {
		struct reading *r = &p->reading[j];
		r->coefficient = r->state == ROUNDED ? 1 - c[j].value : c[j].value;
		r->error = c[j].error;
		if (fabs(c[j].value) >= 0.5 || (r->state == NOT_ROUNDED && !(r->error < 1 / certain))) r->state = UNIDENTIFIABLE;
	}
	return ok;
}

/* Of output o, in the strip held: y = raw on d, the store's rounding of the emulation's own answer, with weights of its own. */
static void add_store(struct xray *x, struct fitting *f, int o)
{
	enum dtype t = out_dtype(x->call, o);
	size_t from = x->first[o], n = x->first[o + 1] - from;
	double *d = x->trial + from, *weight = x->d + from;
	const double *only = d;

	#pragma omp parallel for if (n > 1 << 13)
	for (size_t i = 0; i < n; i++) {
		double base = x->base[from + i], ulp = format_ulp(dtype_info[t].format, base);
		d[i] = x->stored[from + i] - base;
		weight[i] = x->floor2[from + i] > 0 ? 1 / (ulp * ulp) : 0;
	}
	fit_add(f, &(struct sample){ n, x->blocks, x->block + from, weight }, x->raw + from, &only);
}

/* The store of output o, where its type is narrower than float32: around the emulation's own answer, as
 * the rounding that it is. */
static bool read_store(struct xray *x, struct profile *p, int o)
{
	enum dtype t = out_dtype(x->call, o);
	struct fitting *f = fit_begin(x->blocks, 1);
	struct coefficient c;
	bool ok = f || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the sums of a store");

	for (size_t s = 0; ok && s < x->strips; s++)
		if ((ok = xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR))) add_store(x, f, o);
	if (ok) fit_end(f, &c);
	else fit_free(f);
	for (int j = 0; ok && j < p->n; j++) {
		struct reading *r = &p->reading[j];
		const struct site_rounding *on = &x->emulation.round[r->site];
		if (site_store(x->call, r->site) != 1 + o || (on->on && !is_store(x->call, r->site, on))) continue;     /* else it is cut off before */
		*r = (struct reading){ r->site, dtype_info[t].format, ROUND_NEAREST_EVEN, c.value, c.error,
			c.error < 1 / certain ? (fabs(c.value - 1) < 0.5 ? ROUNDED : NOT_ROUNDED) : UNIDENTIFIABLE };
	}
	return ok;
}

static bool read_stores(struct xray *x, struct profile *p)
{
	for (int o = 0; o < MAX_OUT; o++)
		if (x->call->out_count[o] && format_info[dtype_info[out_dtype(x->call, o)].format].precision < 24 && !read_store(x, p, o)) return false;
	return true;
}

/* Around an emulation that is largely noise a fit reads noise: each direction holds the emulation's own. Around one that is not the
 * kernel's it reads what is missing. */
static void blind(struct profile *p)
{
	for (int j = 0; j < p->n && (p->amplified > saturated || !p->identified); j++) p->reading[j].state = UNIDENTIFIABLE;
}

static bool measure(struct xray *x, struct profile *p, const double share[MAX_OUT])
{
	size_t equal[MAX_OUT] = { 0 }, counted[MAX_OUT] = { 0 };
	double chi[MAX_OUT] = { 0 };

	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (int o = 0; o < MAX_OUT; o++)
			for (size_t i = x->first[o]; i < x->first[o + 1]; i++) {
				equal[o] += x->r[i] == 0;
				if (x->floor2[i] > 0) chi[o] += x->r[i] * x->r[i] / x->floor2[i], counted[o]++;
			}
	}
	for (int o = 0; o < MAX_OUT; o++) {
		if (!x->call->out_count[o]) continue;
		p->out[o].explained = share[o];
		p->out[o].bit_equal = (double)equal[o] / (double)x->call->out_count[o];
		p->out[o].rms = counted[o] ? sqrt(chi[o] / (double)counted[o]) : 0;
	}
	return true;
}

bool profile_read(struct profile *p, struct xray *x)
{
	double share[MAX_OUT];

	*p = (struct profile){ .emulation = x->emulation };
	if (!emulation_identified(x, &p->identified) || !xray_amplified(x, &p->amplified) || (!x->shift && !read_sites(x, p)) || !xray_explained(x, share) || !measure(x, p, share)
		|| !read_stores(x, p)) return false;
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
		const struct site_rounding *r = &p->emulation.round[i];
		if (r->on && !is_legal(call, k, i, r)) return false;
	}
	return true;
}
