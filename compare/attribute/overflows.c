/* A kernel whose outputs are not all finite: which fault, in float32, is not finite just there? */
#include <math.h>

#include "earned.h"
#include "xray_private.h"

bool overflows_with(struct xray *x, int m, bool *yes)
{
	struct plan with = x->emulation;

	x->emulation = plan_less(&with, UINT64_C(1) << m);
	if (!xray_rebase(x)) return false;
	*yes = isinf(xray_left(x));
	x->emulation = with;
	return xray_rebase(x);
}

/* Elements of the kernel and of the plan in float32: both are not finite, one is, both are and differ as stored. */
struct agreement { size_t both, one, differ; };

static bool agree_in_float32(struct xray *x, const struct plan *plan, struct agreement *a)
{
	struct stream stream = { .plan = *plan };
	bool ok = true;

	*a = (struct agreement){ 0 };
	stream.plan.arith = &arith_f32;
	stream.plan.bits = arith_f32.precision;
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, XRAY_BASE) && xray_run(x, &stream, x->d);
		if (ok) xray_store(x, x->d, x->d);
		for (size_t j = 0; ok && j < x->n; j++) {
			bool overflows = !isfinite((float)x->d[j]);
			a->both += overflows && !isfinite(x->got[j]);
			a->one += overflows != !isfinite(x->got[j]);
			a->differ += !overflows && isfinite(x->got[j]) && x->d[j] != x->got[j];
		}
	}
	stream_end(&stream);
	return ok;
}

static bool alike(const struct agreement *a) { return a->both > 0 && (double)a->one <= else_finite * (double)a->both; }

/* Is what is finite float32's noise away from the emulation, refreshed, but for as few elements
 * as need not be finite alike? */
static bool rest_agrees(struct xray *x, bool *yes)
{
	double off = 0, none = 0;

	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t j = 0; j < x->n; j++) {
			none += !isfinite(x->got[j]);
			off += xray_takes_part(x, j, x->r[j])
				&& x->r[j] * x->r[j] > float32s_size * x->floor2[j];
		}
	}
	*yes = off <= else_finite * none;
	return true;
}

/* Known structure i of the contract, with these faults. */
static struct plan contract_with(const struct xray *x, const struct contract *k, int i, uint64_t faults)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	plan_structure(&p, k, i);
	for (int m = 0; x->call->op->faults[m].name; m++)
		if (faults >> m & 1) plan_fault_at(&p, x->call->op, m, x->emulation.value[m]);
	return p;
}

/* Of a kernel that is not finite as faults in float32 are the emulation in float64 tells little, and growth piles one fault on another: the one
 * fault in a known structure of the contract that is not finite where the kernel is, and of such that differs least elsewhere, takes its place. */
static bool overflows_as_one(struct xray *x, const struct contract *k, uint64_t *faults, bool *found)
{
	struct agreement least = { .one = SIZE_MAX }, a;
	struct plan best;

	*found = false;
	for (int m = 0; x->call->op->faults[m].name; m++) {
		const struct fault_spec *f = &x->call->op->faults[m];
		if (f->is_rounding || (f->parameter && !(x->emulation.faults >> m & 1)) || (f->form >= 0 && f->form != k->form)) continue;
		for (int i = 0; i < contract_structures(k); i++) {
			struct plan p = contract_with(x, k, i, UINT64_C(1) << m);
			if (!agree_in_float32(x, &p, &a)) return false;
			if (alike(&a) && (a.one < least.one || (a.one == least.one && a.differ < least.differ))) least = a, best = p, *found = true;
		}
	}
	if (!*found) return true;
	*faults = best.faults;
	x->emulation = best;
	return xray_refresh(x);
}

bool overflows_as(struct xray *x, const struct contract *k, const struct plan *with, uint64_t *faults, bool *yes)
{
	struct agreement a;
	bool one;

	if (!agree_in_float32(x, with, &a) || !overflows_as_one(x, k, faults, &one)) return false;
	*yes = one || alike(&a);
	return !*yes || rest_agrees(x, yes);
}
