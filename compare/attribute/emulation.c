/* The search for the emulation: over the contract's plan, over models, by growth and by descent. */
#include <math.h>

#include "emulation_private.h"

/* Element operations of the reference: of one run of the search; that growing and that descending may spend, some five and some
 * seven seconds of one core. */
static const uint64_t enough_work = UINT64_C(1) << 24, growth = UINT64_C(1) << 35, descent = UINT64_C(1) << 34;

const struct site_rounding site_types[SITE_TYPES] = {
	{ true, FMT_BF16, ROUND_NEAREST_EVEN }, { true, FMT_F16, ROUND_NEAREST_EVEN }, { true, FMT_TF32, ROUND_ZERO },
	{ true, FMT_TF32, ROUND_NEAREST_EVEN }, { true, FMT_BF16, ROUND_ZERO }, { true, FMT_F16, ROUND_ZERO },
	{ true, FMT_E4M3, ROUND_NEAREST_EVEN }, { true, FMT_E5M2, ROUND_NEAREST_EVEN }, { true, FMT_E4M3, ROUND_VIA_BF16 },
};

static const struct model { const struct arith *arith; int form; size_t chunk; } models[] = {
	{ &arith_f64, 0, 0 }, { &arith_f32, 0, 0 }, { &arith_f64, 1, 64 }, { &arith_f64, 1, 32 }, { &arith_f64, 1, 16 }, { &arith_f64, 1, 128 },
	{ &arith_f64, 2, 64 }, { &arith_f64, 2, 128 }, { &arith_f64, 3, 64 }, { &arith_f64, 3, 128 },
	{ &arith_f64, 4, 64 }, { &arith_f64, 4, 128 }, { &arith_f64, 4, 32 }, { &arith_f64, 3, 32 }, { &arith_f64, 2, 32 },
};
enum { MODELS = sizeof models / sizeof *models };

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
	*yes = explains_share(x, share, explained_plenty) && xray_left(x) <= tips;
	return true;
}

bool emulation_may_round(const struct xray *x, int site, int type)
{
	return site_in_form(x->call->op, site, x->emulation.form) && !is_store(x->call, site, site_types[type].format)
		&& (!x->only || contract_allows(x->only, site, &site_types[type]));
}

struct grown { struct plan plan; double score; };

static bool grow_from(struct xray *x, const struct plan *p)
{
	x->emulation = *p;
	return xray_refresh(x) && emulation_forward(x);
}

/* Adds the emulation to the list, the best first. */
static void keep(const struct xray *x, struct grown *list, int *n)
{
	int at = (*n)++;

	for (; at > 0 && list[at - 1].score > x->score; at--) list[at] = list[at - 1];
	list[at] = (struct grown){ x->emulation, x->score };
}

/* What is grown from each way to compute, those of form `first` before the others, until one explains all, or nearly. -1: failed. */
static int grow_models(struct xray *x, int first, struct grown *list, bool *done)
{
	int n = 0;

	*done = false;
	for (int i = 0; i < 2 * MODELS && !*done && (!n || x->work < x->patience); i++) {
		const struct model *m = &models[i % MODELS];
		const struct form *form = &x->call->op->forms[m->form];
		if ((m->form == first) != (i < MODELS) || !form->name || (m->chunk && (m->chunk != DEFAULT_CHUNK || m->form > 1) && !form->chunked)) continue;
		struct plan p = plan_plain(m->arith, m->arith->precision);
		p.form = m->form;
		p.chunk = form->chunked ? m->chunk : 0;
		if (!grow_from(x, &p) || !emulation_explains_plenty(x, done)) return -1;
		keep(x, list, &n);
		*done = *done || emulation_explains(x);
	}
	return n;
}

/* Descends from p; *best keeps the better. */
static bool descend_from(struct xray *x, const struct plan *p, bool faults, struct grown *best)
{
	if (emulation_explains(x)) return true;
	x->emulation = *p;
	if (!xray_refresh(x) || !emulation_descend(x, faults)) return false;
	if (x->score < best->score) *best = (struct grown){ x->emulation, x->score };
	return true;
}

static struct plan bare(const struct plan *p)
{
	struct plan plain = plan_plain(p->arith, p->bits);

	plain.form = p->form;
	plain.chunk = p->chunk;
	return plain;
}

/* From each rounding alone: where the first step of a descent is wrong, it ends beside the bottom. */
static bool descend_singles(struct xray *x, const struct plan *model, struct grown *best)
{
	uint64_t limit = x->work + descent / 8;

	for (int site = 0; x->call->op->sites[site].name; site++)
		for (int t = 0; t < SITE_TYPES && site_in_form(x->call->op, site, model->form); t++) {
			struct plan p = bare(model);
			p.round[site] = site_types[t];
			if (emulation_explains(x) || x->work >= limit) return true;
			if (!is_store(x->call, site, site_types[t].format) && !descend_from(x, &p, false, best)) return false;
		}
	return true;
}

/* From what each model has grown to, and from the bare model. */
static bool descend_all(struct xray *x, const struct grown *list, int n, bool faults, struct grown *best)
{
	for (int i = 0; i < n; i++) {
		struct plan plain = bare(&list[i].plan);
		if (!descend_from(x, &list[i].plan, faults, best) || !descend_from(x, &plain, faults, best)) return false;
	}
	return true;
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

/* Known structure i of the contract. */
static struct plan known(const struct contract *k, int i)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	plan_structure(&p, k, i);
	return p;
}

static bool noise_of_contracts(struct xray *x, bool *noise)
{
	*noise = false;
	for (const struct contract *k = x->call->op->contracts; k->name && !*noise && x->call->op->iterates; k++) {
		struct plan p = known(k, 0);
		if (!is_noise(x, &p, noise)) return false;
	}
	return true;
}

/* From each way to compute, on what is looked at of the call. */
static bool search(struct xray *x, int first, struct grown *best)
{
	struct grown list[MODELS];
	bool noise, done;

	x->patience = x->work + growth;
	int n = grow_models(x, first, list, &done);
	if (n < 0) return false;
	*best = list[0];
	if (done || isinf(xray_left(x))) return true;        /* where one alone is infinite nothing descends */
	if (!noise_of_contracts(x, &noise)) return false;
	if (noise) {
		*best = (struct grown){ x->emulation, x->score };
		return true;
	}
	x->patience = x->work + descent;
	if (!descend_all(x, list, n, false, best) || !descend_singles(x, &best->plan, best)) return false;
	return x->no_faults || descend_all(x, list, n, true, best);
}

static bool explains_evenly(struct xray *x, bool *yes)
{
	*yes = false;
	return !emulation_explains(x) || xray_is_even(x, yes);
}

/* What the contract allows is preferred; without one, what any of the op's does. */
static bool prefer(struct xray *x, const struct contract *only)
{
	for (const struct contract *k = only ? only : x->call->op->contracts; k->name; k++) {
		struct plan p = known(k, 0);
		if (!emulation_prefer(x, &p)) return false;
		if (only) break;
	}
	return true;
}

/* emulation_forward from start. What start explained must still be explained by what it has grown to. */
static bool grow_start(struct xray *x, const struct plan *start, const struct contract *k)
{
	bool noise, explained, still;

	if (!is_noise(x, start, &noise)) return false;
	if (noise) return true;
	if (!explains_evenly(x, &explained) || !grow_from(x, start) || !prefer(x, k) || !explains_evenly(x, &still)) return false;
	if (!explained || still) return true;
	x->emulation = *start;
	return xray_refresh(x);
}

bool emulation_identified(struct xray *x, bool *yes)
{
	double share[MAX_OUT];

	if (!xray_explained(x, share) || !explains_evenly(x, yes)) return false;
	*yes = *yes || explains_share(x, share, explained_enough);
	return true;
}

/* The contract's known structure by which the score is least. */
static bool nearest_known(struct xray *x, const struct contract *k, struct plan *p)
{
	double least = INFINITY;

	*p = known(k, 0);
	for (int i = 0, n = contract_structures(k); i < n && n > 1; i++) {
		x->emulation = known(k, i);
		if (!xray_refresh(x)) return false;
		if (x->score < least) least = x->score, *p = x->emulation;
	}
	return true;
}

/* A kernel that keeps the rules is rather another correct one than what is known with a fault: its structure is asked for first. */
static bool search_unknown(struct xray *x, const struct contract *k, const struct plan *p, bool *found)
{
	bool known = x->lawless || !x->structure;

	*found = false;
	x->emulation = *p;
	if (!known && (!xray_refresh(x) || !emulation_identified(x, &known))) return false;
	return known || emulation_by_structure(x, k, found);
}

/* From where the contract says. */
static bool search_known(struct xray *x, const struct contract *k, struct grown *best, bool *found)
{
	struct plan p;

	x->patience = x->work + growth;
	if (!nearest_known(x, k, &p) || !search_unknown(x, k, &p, found)) return false;
	if (*found) return true;
	if (!grow_start(x, &p, k) || !emulation_identified(x, found)) return false;
	*best = (struct grown){ x->emulation, x->score };
	return true;
}

/* From nothing. */
static bool search_all(struct xray *x, const struct contract *k, const struct grown *first)
{
	struct grown best;
	bool noise;

	if (!xray_sample_pieces(x, enough_work) || !search(x, k ? k->form : 0, &best)) return false;
	bool sampled = x->stride > 1;
	x->patience = x->work + growth;
	if (!xray_sample_pieces(x, 0) || !is_noise(x, &best.plan, &noise) || (sampled && !noise && !grow_from(x, &best.plan))) return false;
	if (emulation_explains(x) || x->score <= first->score) return prefer(x, k);
	x->emulation = first->plan;
	return xray_refresh(x);
}

bool emulation_search(struct xray *x, const struct contract *k)
{
	struct grown first = { .score = INFINITY };
	bool found = false;

	if (k && !search_known(x, k, &first, &found)) return false;
	if (found) return true;
	if (!x->kept_shift && x->structure && !emulation_by_structure(x, k, &found)) return false;
	const bool alone = x->structure && x->structure->alone;
	if (x->kept_shift && alone) return emulation_by_kept(x);
	if (found || alone) return true;
	if (!search_all(x, k, &first)) return false;
	return !x->kept_shift || (emulation_identified(x, &found) && (found || emulation_by_kept(x)));
}

bool emulation_without(struct xray *x, const struct plan *without)
{
	x->emulation = *without;
	x->patience = x->work + growth;
	return xray_refresh(x) && emulation_forward(x);
}
