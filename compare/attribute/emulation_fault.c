/* Emulations with one fault alone, or two: where growing does not come to them. */
#include <math.h>

#include "emulation_private.h"
#include "fault_value.h"
#include "xray_private.h"

bool emulation_least_fault(struct xray *x, const struct plan *start, struct grown *least)
{
	struct look look[MAX_FAULT];
	size_t n = 0;

	x->emulation = *start;
	if (!xray_refresh(x)) return false;
	for (int m = 0; x->call->op->faults[m].name; m++) {
		const struct fault_spec *f = &x->call->op->faults[m];
		struct plan p = *start;
		double value = NAN;
		bool found = true;
		if (f->is_rounding) continue;
		if (f->parameter && !fault_value_search(x, m, &value, &found)) return false;
		if (!found) continue;
		plan_fault_at(&p, x->call->op, m, value);
		look[n++] = look_of(&p);
	}
	if (!xray_try(x, look, n, least->score, false)) return false;
	for (size_t i = 0; i < n; i++)
		if (look[i].score < least->score) *least = (struct grown){ look[i].stream.plan, look[i].score };
	return true;
}

/* Of roundings and of faults with a parameter no pairs are tried. */
static bool may_be_one_of_two(const struct fault_spec *f) { return !f->is_rounding && !f->parameter; }

bool emulation_two_faults(struct xray *x, const struct contract *k)
{
	const struct grown before = { x->emulation, x->score };
	struct grown least = { .score = before.score - worth_keeping };
	uint64_t others = 0;
	bool found = false;

	for (int m = 0; x->call->op->faults[m].name; m++) others += may_be_one_of_two(&x->call->op->faults[m]);
	if (others * x->run_work > growth / OF_GROWTH) return true;     /* not even one with each other */
	x->patience = x->work + growth / OF_GROWTH;
	for (int i = 0; i < contract_structures(k); i++)
		for (int m = 0; x->call->op->faults[m].name && x->work < x->patience; m++) {
			const struct fault_spec *f = &x->call->op->faults[m];
			struct plan start = emulation_known(k, i);
			if (!may_be_one_of_two(f) || (f->form >= 0 && f->form != start.form)) continue;
			plan_fault(&start, x->call->op, m);
			if (!emulation_least_fault(x, &start, &least)) return false;
		}
	if (least.plan.arith) {
		x->emulation = least.plan;
		if (!xray_refresh(x) || !emulation_identified(x, &found)) return false;
	}
	if (found) return true;
	x->emulation = before.plan;
	return xray_refresh(x);
}

/* What the kernel's sums are off by in their order a number takes up: it is fitted again around
 * such sums. */
static bool number_in_order(struct xray *x)
{
	static const struct arith *const order[] = { &arith_f32, &arith_f32_fma, &arith_f32_tree };
	struct grown best = { x->emulation, x->score - worth_keeping };
	const struct plan before = x->emulation;

	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		x->emulation = before;
		x->emulation.arith = order[i], x->emulation.bits = order[i]->precision;
		if (!xray_rebase(x) || !fault_value_refine(x, __builtin_ctzll(before.faults))) return false;
		if (x->score < best.score) best = (struct grown){ x->emulation, x->score };
	}
	x->emulation = best.plan;
	return xray_refresh(x);
}

/* In the place of fault k, which alone the emulation makes: each other alone, and where k has a
 * number that any gain can hide in, each rounding. */
static size_t exchanges(const struct xray *x, int k, struct look *look)
{
	const struct op *op = x->call->op;
	struct plan p = x->emulation, bare;
	size_t n = 0;

	plan_no_fault(&p, k);
	bare = p;
	for (int m = 0; op->faults[m].name; m++) {
		const struct fault_spec *f = &op->faults[m];
		if (f->is_rounding || f->parameter || m == k || (f->form >= 0 && f->form != p.form)) continue;
		plan_fault(&p, op, m);
		look[n++] = look_of(&p);
		p = bare;
	}
	for (int site = 0; op->faults[k].by > 1 && op->sites[site].name; site++) {
		if (bare.round[site].on || !emulation_may_round(x, site, 0)) continue;
		p.round[site] = site_types[0];
		look[n++] = look_of(&p);
		p = bare;
	}
	return n;
}

bool emulation_exchange_fault(struct xray *x)
{
	const uint64_t made = x->emulation.faults;
	struct look look[MAX_FAULT + MAX_SITE];
	size_t best = 0;

	if (!x->lawless || x->shift || !made || made & (made - 1)) return true;
	const int k = __builtin_ctzll(made);
	const double limit = x->call->op->faults[k].by > 1 ? x->score + worth_keeping : x->score - worth_keeping;
	size_t n = exchanges(x, k, look);
	if (!xray_try(x, look, n, limit, true)) return false;       /* suspects ask for the same plans' sizes */
	for (size_t i = 1; i < n; i++)
		if (look[i].score < look[best].score) best = i;
	if (!n || !(look[best].score < limit)) return x->call->op->faults[k].by > 1 ? number_in_order(x) : true;
	x->emulation = look[best].stream.plan;
	return xray_refresh(x);
}

/* The same numbers, or none in both? */
static bool same_numbers(const double *a, const double *b, size_t n)
{
	bool same = true;

	for (size_t j = 0; j < n && same; j++) same = a[j] == b[j] || (isnan(a[j]) && isnan(b[j]));
	return same;
}

bool emulation_is_idle(struct xray *x, int m, bool *yes)
{
	struct stream bare = { .plan = plan_plain(&arith_f32, arith_f32.precision) }, with = bare;
	bool ok = true;

	plan_fault_at(&with.plan, x->call->op, m, x->emulation.value[m]);
	bare.plan.form = with.plan.form;
	*yes = true;
	for (size_t s = 0; s < x->strips && ok && *yes; s++) {
		ok = xray_refresh_strip(x, s, 0) && xray_run(x, &bare, x->trial)
			&& xray_run(x, &with, x->d);
		*yes = ok && !x->impossible && same_numbers(x->trial, x->d, x->n);
	}
	stream_end(&bare);
	stream_end(&with);
	return ok;
}
