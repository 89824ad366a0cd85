/* What tells a fault that the emulation makes: its coefficient, elements, what is not finite, or
 * the rules. */
#include <math.h>

#include "earned.h"
#include "fault_value.h"
#include "xray_private.h"

bool is_one(double c, double error)
{
	return fabs(c - 1) <= off_one && fabs(c - 1) <= flips_off_one + errors_off_one * error;
}

struct plan plan_less(const struct plan *p, uint64_t faults)
{
	struct plan q = *p;

	for (int m = 0; m < MAX_FAULT; m++)
		if (q.faults & faults & UINT64_C(1) << m) plan_no_fault(&q, m);
	return q;
}

bool may_be_one(const struct coefficient *without)
{
	return !without->determined
		|| fabs(without->value) <= off_one + errors_off_one * without->error;
}

/* Is fault m of the emulation told? By a coefficient of 1 with an error of at most `most`; of an
 * identified structure by elements too, or closely by them alone; or by what is not finite,
 * which a coefficient must not gainsay. What changes nothing in this call is not. */
static bool tell(struct xray *x, int m, double most, bool identified, struct earned *told)
{
	const uint64_t bit = UINT64_C(1) << m;
	struct plan without = plan_less(&x->emulation, bit);
	struct look look = look_of(&without);
	bool idle, infinite = false;

	if (!emulation_is_idle(x, m, &idle)) return false;
	if (idle) return true;
	if (!xray_look(x, &look, 1, LOOK_FIT | LOOK_VOTES)) return false;
	bool sure = look.fit.error <= most && is_one(1 - look.fit.value, look.fit.error);
	if (identified) sure = sure ? look_told(&look) : look_told_closely(&look);
	if (!sure && may_be_one(&look.fit) && !overflows_with(x, m, &infinite)) return false;
	if (sure || infinite) told->faults |= bit;
	if (infinite) told->not_finite |= bit;
	return true;
}

bool faults_told(struct xray *x, double most, bool identified, struct earned *told)
{
	*told = (struct earned){ 0 };
	for (int m = 0; x->call->op->faults[m].name; m++)
		if (x->emulation.faults >> m & 1 && !tell(x, m, most, identified, told))
			return false;
	return true;
}

bool faults_ungainsaid(struct xray *x, uint64_t faults, bool *yes)
{
	for (int m = 0; x->call->op->faults[m].name && *yes; m++) {
		struct plan without = plan_less(&x->emulation, UINT64_C(1) << m);
		struct look look = look_of(&without);
		if (!(faults & x->emulation.faults & UINT64_C(1) << m)) continue;
		if (!xray_look(x, &look, 1, LOOK_FIT)) return false;
		*yes = may_be_one(&look.fit);
	}
	return true;
}

/* ---- what is not finite ---- */
bool overflows_with(struct xray *x, int m, bool *yes)
{
	struct plan with = x->emulation;

	x->emulation = plan_less(&with, UINT64_C(1) << m);
	if (!xray_rebase(x)) return false;
	*yes = isinf(xray_left(x));
	x->emulation = with;
	return xray_rebase(x);
}

/* Elements of the kernel and of the plan in float32: both are not finite, one is, both are and
 * differ as stored. */
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

static bool alike(const struct agreement *a)
{
	return a->both > 0 && (double)a->one <= else_finite * (double)a->both;
}

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
static struct plan contract_with(const struct xray *x, const struct contract *k, int i,
	uint64_t faults)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	plan_structure(&p, k, i);
	for (int m = 0; x->call->op->faults[m].name; m++)
		if (faults >> m & 1) plan_fault_at(&p, x->call->op, m, x->emulation.value[m]);
	return p;
}

/* Of a kernel that is not finite as faults in float32 are the emulation in float64 tells little,
 * and growth piles one fault on another: the one fault in a known structure of the contract that
 * is not finite where the kernel is, and of such that differs least elsewhere, takes its place. */
static bool overflows_as_one(struct xray *x, const struct contract *k, uint64_t *faults,
	bool *found)
{
	struct agreement least = { .one = SIZE_MAX }, a;
	struct plan best;

	*found = false;
	for (int m = 0; x->call->op->faults[m].name; m++) {
		const struct fault_spec *f = &x->call->op->faults[m];
		if (f->is_rounding || (f->parameter && !(x->emulation.faults >> m & 1))
			|| (f->form >= 0 && f->form != k->form)) continue;
		for (int i = 0; i < contract_structures(k); i++) {
			struct plan p = contract_with(x, k, i, UINT64_C(1) << m);
			if (!agree_in_float32(x, &p, &a)) return false;
			if (alike(&a)
				&& (a.one < least.one
					|| (a.one == least.one && a.differ < least.differ))) least = a,
				best = p, *found = true;
		}
	}
	if (!*found) return true;
	*faults = best.faults;
	x->emulation = best;
	return xray_refresh(x);
}

bool overflows_as(struct xray *x, const struct contract *k, const struct plan *with,
	uint64_t *faults, bool *yes)
{
	struct agreement a;
	bool one;

	if (!agree_in_float32(x, with, &a) || !overflows_as_one(x, k, faults, &one)) return false;
	*yes = one || alike(&a);
	return !*yes || rest_agrees(x, yes);
}

/* ---- what the rules ask for: the structure is identified, what it rounds is allowed, and yet a
 * rule is broken ---- */
/* Those of the emulation that are not told, change something, and have no coefficient that
 * gainsays them. */
static bool possible(struct xray *x, uint64_t told, uint64_t *faults)
{
	*faults = 0;
	for (int m = 0; x->call->op->faults[m].name; m++) {
		const uint64_t bit = UINT64_C(1) << m;
		struct plan without = plan_less(&x->emulation, bit);
		struct look look = look_of(&without);
		bool idle;
		if (!(x->emulation.faults & ~told & bit)) continue;
		if (!emulation_is_idle(x, m, &idle) || !xray_look(x, &look, 1, LOOK_FIT))
			return false;
		if (!idle && may_be_one(&look.fit)) *faults |= bit;
	}
	return true;
}

/* Do the rules hold for the reference with the told and these, and not with the told alone? */
static bool asked_for(struct xray *x, const struct rules_say *rules, uint64_t told, uint64_t these,
	bool *yes, struct error *e)
{
	struct plan with = plan_less(&x->emulation, ~(told | these)),
		less = plan_less(&x->emulation, ~told);
	bool enough = false;

	*yes = false;
	if (told && !rules->hold_with(rules, &less, &enough, e)) return false;
	return enough || rules->hold_with(rules, &with, yes, e);
}

/* What the emulation would be with one fault more; least score first. */
struct more { struct look look[MAX_FAULT]; int of[MAX_FAULT]; size_t n; };

static bool with_each(struct xray *x, struct more *more)
{
	more->n = 0;
	for (int m = 0; x->call->op->faults[m].name; m++) {
		const struct fault_spec *f = &x->call->op->faults[m];
		struct plan p = x->emulation;
		double value = NAN;
		bool found = true;
		if (f->is_rounding || (f->form >= 0 && f->form != p.form)) continue;
		if (f->parameter && !fault_value_search(x, m, &value, &found)) return false;
		if (!found) continue;
		plan_fault_at(&p, x->call->op, m, value);
		more->of[more->n] = m;
		more->look[more->n++] = look_of(&p);
	}
	if (!xray_try(x, more->look, more->n, x->score, false)) return false;
	for (size_t i = 1; i < more->n; i++)
		for (size_t j = i; j > 0 && more->look[j].score < more->look[j - 1].score; j--) {
			const struct look l = more->look[j];
			const int of = more->of[j];
			more->look[j] = more->look[j - 1], more->of[j] = more->of[j - 1];
			more->look[j - 1] = l, more->of[j - 1] = of;
		}
	return true;
}

/* So many of them are asked about, a verdict each. */
enum { ASKED = 4 };

/* The emulation makes none. Of those with one fault more by which the score falls, the best with
 * which the rules hold: its fault is needed, where the score falls by what is worth keeping, and
 * else possible, as others are. */
static bool one_more(struct xray *x, const struct rules_say *rules, struct earned *n,
	struct error *e)
{
	const struct plan before = x->emulation;
	const double score = x->score;
	struct more more;

	if (!with_each(x, &more)) return false;
	for (size_t i = 0; i < more.n && i < ASKED && more.look[i].score < score
		&& !n->by_rules; i++) {
		uint64_t one;
		bool yes = false;
		x->emulation = more.look[i].stream.plan;
		if (!xray_rebase(x) || !possible(x, 0, &one)) return false;
		if (one && !asked_for(x, rules, 0, one, &yes, e)) return false;
		if (yes && !n->possible && more.look[i].score < score - worth_keeping)
			n->by_rules = one;
		else if (yes) n->possible |= one;
	}
	if (!n->by_rules) x->emulation = before;
	return xray_refresh(x);
}

bool faults_needed(struct xray *x, const struct rules_say *rules, struct earned *n, struct error *e)
{
	uint64_t rest;
	bool yes = false;

	if (!x->emulation.faults) return one_more(x, rules, n, e);
	if (!possible(x, n->faults, &rest)) return false;
	if (rest && !asked_for(x, rules, n->faults, rest, &yes, e)) return false;
	if (yes) n->by_rules = rest;
	return true;
}
