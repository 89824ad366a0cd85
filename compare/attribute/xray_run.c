/* Runs of a plan in the strip held, made or kept. */
#include <string.h>

#include "xray_private.h"

/* What is done around a run, in element operations of the reference for each output element. */
static const uint64_t overhead = 64;

/* In the place of an answer that there is not. */
static bool no_answer(struct xray *x, const struct plan *p, const struct error *e, double *y)
{
	x->impossible = plan_impossible(p, e);
	if (!x->impossible) {
		if (x->e) *x->e = *e;
		return false;
	}
	if (y == x->base || !(x->have & XRAY_BASE)) memset(y, 0, x->n * sizeof *y);
	else memcpy(y, x->base, x->n * sizeof *y);
	return true;
}

/* A stream whose strips before this one were kept has to make them all the same, as this one goes on from them. */
static bool catch_up(struct xray *x, struct stream *l, struct error *e)
{
	struct answer passed = { 0 };
	size_t room[MAX_OUT] = { 0 };

	if (l->next > x->at) stream_end(l);
	if (l->next == x->at) return true;
	for (size_t s = l->next; s < x->at; s++) {
		struct strip strip = call_strip(x->call, s, x->strips);
		for (int i = 0; i < MAX_OUT; i++) room[i] = strip.count[i] > room[i] ? strip.count[i] : room[i];
	}
	bool ok = answer_make(&passed, room, false) || error_set(e, E_MEMORY, x->call->op->name, NO_OFFSET, "strips that are passed over");
	ok = ok && ref_strip(x->call, l, x->at - 1, x->strips, &passed, e);
	answer_free(&passed);
	return ok;
}

/* *at: where it is, before any shift: kept, or in y [n]. */
static bool answer_of(struct xray *x, struct stream *l, double *y, const double **at)
{
	struct answer a = { 0 };
	struct error e = { 0 };

	if (x->tick) x->tick("x-ray", x->runs, x->runs + 1);
	x->runs++;
	for (int i = 0; i < MAX_OUT; i++) a.hi[i] = x->call->out_count[i] ? y + x->first[i] : NULL;
	x->impossible = false;
	if (!(*at = xray_kept(x, &l->plan, &a.work))) {
		*at = y;
		if (!catch_up(x, l, &e) || !ref_strip(x->call, l, x->at, x->strips, &a, &e)) return no_answer(x, &l->plan, &e, y);
		xray_keep(x, &l->plan, y, a.work);
	}
	x->work += a.work + overhead * x->n;            /* whether it was made now or before: what is given up must not depend on it */
	return true;
}

bool xray_run(struct xray *x, struct stream *l, double *y)
{
	const double *at;

	if (!answer_of(x, l, y, &at)) return false;
	if (at != y) xray_copy(y, at, x->n);
	for (int i = 0; x->shift && !x->impossible && i < MAX_OUT; i++) {
		const double *shift = x->shift + x->first_element[i] + x->offset[i];
		#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++) y[j] += shift[j - x->first[i]];
	}
	return true;
}

void stream_begin(struct stream *l, const struct plan *p)
{
	stream_end(l);
	l->plan = *p;
}

bool xray_direction(struct xray *x, struct stream *l)
{
	const double *y = x->d;

	if (x->shift ? !xray_run(x, l, x->d) : !answer_of(x, l, x->d, &y)) return false;
	#pragma omp parallel for if (x->n > WORTH)
	for (size_t j = 0; j < x->n; j++) x->d[j] = y[j] - x->base[j];
	return true;
}
