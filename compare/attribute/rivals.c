#include <math.h>
#include <string.h>

#include "earned.h"
#include "emulation_private.h"
#include "fault_value.h"

/* *p: the emulation with fault m in the place of k, which it makes; a free number of m is fitted. */
static bool in_place(struct xray *x, int k, int m, struct plan *p)
{
	const struct plan emulation = x->emulation;
	double value;
	bool found = false;

	*p = emulation;
	plan_no_fault(p, k);
	if (x->call->op->faults[m].parameter) {
		x->emulation = *p;
		if (!xray_rebase(x) || !fault_value_search(x, m, &value, &found)) return false;
		x->emulation = emulation;
		if (!xray_rebase(x)) return false;
	}
	if (found) plan_fault_at(p, x->call->op, m, value);
	else plan_fault(p, x->call->op, m);
	return true;
}

/* Does the plan explain as well as the emulation? */
static bool explains_as_well(struct xray *x, const struct plan *other, bool *yes)
{
	struct plan emulation = x->emulation;
	double score = x->score;

	x->emulation = *other;
	if (!xray_rebase(x)) return false;
	*yes = x->score < score + worth_keeping;
	x->emulation = emulation;
	return xray_rebase(x);
}

/* Is the plan's answer the emulation's: the same numbers, and infinite where it is? */
static bool same_answer(struct xray *x, struct plan p, bool *same)
{
	struct look look = look_of(&p);

	if (!xray_look(x, &look, 1, LOOK_SIZE)) return false;
	*same = look.size < above_noise;
	if (*same && !explains_as_well(x, &p, same)) return false;
	/* what overflows there may be finite in float64 */
	p.arith = &arith_f32, p.bits = arith_f32.precision;
	return *same || look.size >= above_noise || explains_as_well(x, &p, same);
}

/* Those that are not made, each in the place of k: their sizes are told, for same_answer. Where
 * the emulation is finite and the kernel is not, or the other way, no score compares what is
 * finite. */
static bool in_place_of(struct xray *x, int k, uint64_t possible, struct rivals *r)
{
	const struct op *op = x->call->op;
	struct look look[MAX_FAULT];
	int of[MAX_FAULT];
	size_t n = 0;

	for (int m = 0; op->faults[m].name; m++) {
		if (!(possible >> m & 1) || x->emulation.faults >> m & 1 || r->same[m]) continue;
		struct plan p;
		if (!in_place(x, k, m, &p)) return false;
		of[n] = m;
		look[n++] = look_of(&p);
	}
	if (!xray_try(x, look, n, x->score + worth_keeping, true)) return false;
	for (size_t i = 0; i < n; i++) {
		bool same, as_well = isfinite(xray_left(x))
			&& look[i].score < x->score + worth_keeping;
		if (!same_answer(x, look[i].stream.plan, &same)
			|| (as_well && !same
				&& !explains_as_well(x, &look[i].stream.plan, &as_well))) return false;
		if (same) r->same[of[i]] = op->faults[k].name;
		else if (as_well && !r->as_well[of[i]]) r->as_well[of[i]] = op->faults[k].name;
	}
	return true;
}

bool rivals_find(struct xray *x, uint64_t possible, struct rivals *r)
{
	memset(r, 0, sizeof *r);
	for (int k = 0; x->call->op->faults[k].name; k++)
		if (x->emulation.faults >> k & 1 && !in_place_of(x, k, possible, r)) return false;
	return true;
}

static void move_bit(uint64_t *bits, int from, int to)
{
	if (*bits >> from & 1) *bits = (*bits & ~(UINT64_C(1) << from)) | UINT64_C(1) << to;
}

/* Those before k in the op's file that may stand in its place, with their scores. One with a
 * free number explains less by what it says: it is told beside k (rivals_find). */
static bool before(struct xray *x, int k, struct look *look, int *of, size_t *n)
{
	const struct op *op = x->call->op;

	*n = 0;
	for (int m = 0; m < k; m++) {
		if (op->faults[m].is_rounding || op->faults[m].parameter
			|| x->emulation.faults >> m & 1) continue;
		struct plan p;
		if (!in_place(x, k, m, &p)) return false;
		of[*n] = m;
		look[(*n)++] = look_of(&p);
	}
	return xray_try(x, look, *n, x->score + worth_keeping, true);
}

/* Does no coefficient gainsay fault m, which the plan makes? Then x->emulation becomes it. */
static bool takes_place(struct xray *x, const struct plan *with, int m, bool *yes)
{
	const struct plan emulation = x->emulation;
	struct look without;

	x->emulation = *with;
	if (!xray_refresh(x)) return false;
	struct plan p = plan_less(&x->emulation, UINT64_C(1) << m);
	without = look_of(&p);
	if (!xray_look(x, &without, 1, LOOK_FIT)) return false;
	*yes = may_be_one(&without.fit);
	if (*yes) return true;
	x->emulation = emulation;
	return xray_refresh(x);
}

static bool commonest_of(struct xray *x, int k, struct earned *names)
{
	struct look look[MAX_FAULT];
	int of[MAX_FAULT];
	size_t n;
	bool yes = false;

	if (!before(x, k, look, of, &n)) return false;
	for (size_t i = 0; i < n && !yes; i++) {
		const int m = of[i];
		bool as_well = isfinite(xray_left(x)) && look[i].score < x->score + worth_keeping;
		const struct plan *with = &look[i].stream.plan;
		if (!same_answer(x, *with, &yes)) return false;
		if (!yes && as_well && !explains_as_well(x, with, &yes)) return false;
		if (yes && !takes_place(x, with, m, &yes)) return false;
		if (!yes) continue;
		move_bit(&names->faults, k, m), move_bit(&names->not_finite, k, m);
		move_bit(&names->by_rules, k, m);
	}
	return true;
}

bool rivals_commonest(struct xray *x, struct earned *names)
{
	for (int k = 0; x->call->op->faults[k].name; k++)
		if (names->faults >> k & 1 && !commonest_of(x, k, names)) return false;
	return true;
}
