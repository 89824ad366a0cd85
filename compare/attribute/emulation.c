/* The search for the emulation: over the contract's plan, over models, by growth and by descent. */
#include <math.h>

#include "emulation_private.h"
#include "fault_value.h"

const uint64_t growth = UINT64_C(1) << 35;

const struct site_rounding site_types[SITE_TYPES] = {
	{ true, FMT_BF16, ROUND_NEAREST_EVEN }, { true, FMT_F16, ROUND_NEAREST_EVEN }, { true, FMT_TF32, ROUND_ZERO },
	{ true, FMT_TF32, ROUND_NEAREST_EVEN }, { true, FMT_BF16, ROUND_ZERO }, { true, FMT_F16, ROUND_ZERO },
	{ true, FMT_E4M3, ROUND_NEAREST_EVEN }, { true, FMT_E5M2, ROUND_NEAREST_EVEN }, { true, FMT_E4M3, ROUND_VIA_BF16 },
	{ true, FMT_E4M3, ROUND_AWAY }, { true, FMT_E4M3, ROUND_ZERO }, { true, FMT_E5M2, ROUND_AWAY }, { true, FMT_E5M2, ROUND_ZERO },
};

bool emulation_explains(const struct xray *x)
{
	return xray_left(x) <= 2;
}

bool emulation_doubtful(const struct xray *x, double coefficient, double error, double errors)
{
	return xray_left(x) <= float32s_size && coefficient <= errors * error;
}

static bool explains_share(const struct xray *x, const double share[MAX_OUT], double least)
{
	for (int o = 0; o < MAX_OUT; o++)
		if (x->call->out_count[o] && !(share[o] >= least)) return false;
	return xray_rounds_inside(x);
}

bool emulation_explains_plenty(struct xray *x, bool *yes)
{
	double share[MAX_OUT];

	if (!xray_explained(x, share)) return false;
	*yes = explains_share(x, share, explained_plenty) && xray_left(x) <= few_flips;
	return true;
}

/* Another rounding than a store's own is looked for where an output of that FP8 type is stored. */
static bool is_elsewhere(const struct xray *x, int site, const struct site_rounding *r)
{
	const int store = site_store(x->call, site);
	const bool eight = r->format == FMT_E4M3 || r->format == FMT_E5M2;

	return eight && (r->rounding == ROUND_AWAY || r->rounding == ROUND_ZERO)
		&& !(store && dtype_info[out_dtype(x->call, store - 1)].format == r->format);
}

bool emulation_may_round(const struct xray *x, int site, int type)
{
	return !is_elsewhere(x, site, &site_types[type]) && site_in_form(x->call->op, site, x->emulation.form) && !is_store(x->call, site, &site_types[type])
		&& (!x->only || contract_allows(x->only, site, &site_types[type]));
}

static bool grow_from(struct xray *x, const struct plan *p)
{
	x->emulation = *p;
	return xray_refresh(x) && emulation_forward(x);
}

/* Is p an emulation whose own error is largely float32's noise, amplified, and does it explain the call? Then any
 * change of a rounding draws that noise anew and none can be told from another: p stands. */
static bool is_noise(struct xray *x, const struct plan *p, bool *noise)
{
	double share;

	x->emulation = *p;
	*noise = false;
	if (!xray_refresh(x) || !xray_amplified(x, &share)) return false;
	*noise = share > saturated && emulation_explains(x);
	return true;
}

struct plan emulation_known(const struct contract *k, int i)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	plan_structure(&p, k, i);
	return p;
}

bool emulation_explains_evenly(struct xray *x, bool *yes)
{
	*yes = false;
	return !emulation_explains(x) || xray_is_even(x, yes);
}

/* What the contract allows is preferred; without one, what any of the op's does. */
static bool prefer(struct xray *x, const struct contract *only)
{
	for (const struct contract *k = only ? only : x->call->op->contracts; k->name; k++) {
		struct plan p = emulation_known(k, 0);
		if (!emulation_prefer(x, &p)) return false;
		if (only) break;
	}
	return true;
}

/* emulation_forward from start. What start explained must still be explained by what it has grown to. */
static bool grow_still(struct xray *x, const struct plan *start, const struct contract *k)
{
	bool explained, still;

	x->emulation = *start;
	if (!xray_refresh(x) || !emulation_explains_evenly(x, &explained) || !grow_from(x, start) || !prefer(x, k) || !emulation_explains_evenly(x, &still)) return false;
	if (!explained || still) return true;
	x->emulation = *start;
	return xray_refresh(x);
}

static bool grow_start(struct xray *x, const struct plan *start, const struct contract *k)
{
	bool noise;

	return is_noise(x, start, &noise) && (noise || grow_still(x, start, k));
}

bool emulation_identified(struct xray *x, bool *yes)
{
	double share[MAX_OUT];

	if (!xray_explained(x, share) || !emulation_explains_evenly(x, yes)) return false;
	*yes = *yes || explains_share(x, share, explained_enough);
	return true;
}

/* The contract's known structure by which the score is least. */
static bool nearest_known(struct xray *x, const struct contract *k, struct plan *p)
{
	double least = INFINITY;

	*p = emulation_known(k, 0);
	for (int i = 0, n = contract_structures(k); i < n && n > 1; i++) {
		const struct plan each = emulation_known(k, i);
		double at_least = -INFINITY;
		if (i && !xray_score_at_least(x, &each, &at_least)) return false;
		if (at_least >= least) continue;
		x->emulation = each;
		if (!xray_refresh(x)) return false;
		if (x->score < least) least = x->score, *p = x->emulation;
	}
	return true;
}

static bool refreshed_score(struct xray *x, const struct plan *p, struct grown *least)
{
	x->emulation = *p;
	if (!xray_refresh(x)) return false;
	if (!least->plan.arith || x->score < least->score) *least = (struct grown){ *p, x->score };
	return true;
}

/* From the contract's known structures with each fault alone, the one by which the score is least: where growing went wrong at its first
 * step, as of two faults that do much alike the one that is not made may explain more of what roundings leave. */
static bool grow_from_fault(struct xray *x, const struct contract *k)
{
	const struct grown before = { x->emulation, x->score };
	struct grown least = { .score = before.score - worth_keeping };

	for (int i = 0; i < contract_structures(k); i++) {
		struct plan start = emulation_known(k, i);
		if (!emulation_least_fault(x, &start, &least)) return false;
	}
	if (least.plan.arith) {
		x->patience = x->work + growth / 4;     /* it has grown from other starts before */
		if (!grow_from(x, &least.plan)) return false;
		if (x->score < before.score - worth_keeping) return true;
	}
	x->emulation = before.plan;
	return xray_refresh(x);
}

bool emulation_nearest(struct xray *x, const struct contract *first, const struct contract *last, const struct contract **k)
{
	double least = INFINITY;
	bool found = first == last;
	struct plan p;

	for (const struct contract *each = first; !found && each <= last; each++) {
		double amplified = 0;
		bool here;
		if (!nearest_known(x, each, &p)) return false;
		x->emulation = p;
		if (!xray_refresh(x) || !emulation_identified(x, &here)) return false;
		if (!contract_called_for(each, x->call) && !xray_amplified(x, &amplified)) return false;
		if (amplified > saturated || !(here || x->score < least)) continue;
		least = x->score, *k = each, found = here;
	}
	return true;
}

/* A kernel that keeps the rules is rather another correct one than what is known with a fault: its structure is asked for first. */
static bool search_unknown(struct xray *x, const struct contract *k, bool *found)
{
	bool known = x->lawless || !x->structure;

	*found = false;
	if (!known && !emulation_identified(x, &known)) return false;
	return known || emulation_by_structure(x, k, found);
}

/* From where the contract says: *from. */
static bool search_known(struct xray *x, const struct contract *k, struct plan *from, bool *found)
{
	bool noise;

	x->patience = x->work + growth;
	if (!nearest_known(x, k, from) || !is_noise(x, from, &noise)) return false;
	if (noise) return emulation_identified(x, found);
	if (!search_unknown(x, k, found)) return false;
	return *found || (grow_still(x, from, k) && emulation_identified(x, found));
}

/* From the known structure, of all contracts', by which the score is least; where that does not do, from its form without roundings. */
static bool search_any(struct xray *x)
{
	struct grown nearest = { .score = INFINITY };
	struct plan bare = plan_plain(&arith_f64, arith_f64.precision), p;
	bool found;

	if (!refreshed_score(x, &bare, &nearest)) return false;
	for (const struct contract *k = x->call->op->contracts; k->name; k++)
		if (!nearest_known(x, k, &p) || !refreshed_score(x, &p, &nearest)) return false;
	x->patience = x->work + growth;
	if (!grow_start(x, &nearest.plan, NULL) || !emulation_identified(x, &found)) return false;
	if (found) return true;
	const struct grown first = { x->emulation, x->score };
	bare.form = first.plan.form;
	bare.chunk = first.plan.chunk;
	x->patience = x->work + growth;
	if (!grow_start(x, &bare, NULL)) return false;
	if (x->score <= first.score) return true;
	x->emulation = first.plan;
	return xray_refresh(x);
}

static bool search(struct xray *x, const struct contract *k)
{
	struct plan from;
	bool found = false;

	if (!k) return search_any(x);
	if (!search_known(x, k, &from, &found)) return false;
	if (found) return true;
	if (!x->kept_shift && x->structure && !emulation_by_structure(x, k, &found)) return false;
	if (x->kept_shift) return emulation_by_kept(x);
	if (found || !x->lawless) return true;
	if (!grow_from_fault(x, k) || !emulation_identified(x, &found)) return false;
	return found || emulation_two_faults(x, k);
}

bool emulation_search(struct xray *x, const struct contract *k) { return search(x, k) && emulation_exchange_fault(x); }

bool emulation_without(struct xray *x, const struct plan *without, uint64_t part)
{
	x->emulation = *without;
	x->patience = x->work + growth / part;
	return xray_refresh(x) && emulation_forward(x);
}
