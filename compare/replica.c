/* The search for the replica: over the contract's plan, over models, by growth and by descent. */
#include <math.h>

#include "replica_private.h"

const double certain = 6, likely = 3, above_noise = 2, worth_keeping = 30, saturated = 0.1;
/* Of what is left, as its mean square in units of float32's noise: sums in order leave that much. */
static const double float32s_size = 16;
/* The share of the error that a replica with roundings inside must explain, and that ends the search where what is left
 * is the size of a few tips: one large rounding may be 99.9 % of the error alone. */
static const double enough = 0.99, plenty = 0.999, tips = 100;
/* Element operations of the reference: of one run of the search, and that replica_descend may spend in all, some
 * seven seconds of one core. */
static const uint64_t enough_work = UINT64_C(1) << 24, patience = UINT64_C(1) << 34;

const struct site_rounding site_types[SITE_TYPES] = {
	{ true, FMT_BF16, ROUND_NEAREST_EVEN }, { true, FMT_F16, ROUND_NEAREST_EVEN }, { true, FMT_TF32, ROUND_ZERO },
	{ true, FMT_TF32, ROUND_NEAREST_EVEN }, { true, FMT_BF16, ROUND_ZERO }, { true, FMT_F16, ROUND_ZERO },
	{ true, FMT_E4M3, ROUND_NEAREST_EVEN }, { true, FMT_E5M2, ROUND_NEAREST_EVEN }, { true, FMT_E4M3, ROUND_VIA_BF16 },
};

static const struct model { const struct arith *arith; int form; size_t chunk; } models[] = {
	{ &arith_f64, 0, 0 }, { &arith_f32, 0, 0 }, { &arith_f64, 1, 64 }, { &arith_f64, 1, 32 }, { &arith_f64, 1, 16 }, { &arith_f64, 1, 128 },
};
enum { MODELS = sizeof models / sizeof *models };

bool replica_explains(const struct xray *x)
{
	return xray_left(x) <= 2;
}

bool replica_doubtful(const struct xray *x, double coefficient, double error, double errors)
{
	return xray_left(x) <= float32s_size && coefficient <= errors * error;
}

static bool explains_share(const struct xray *x, const double share[MAX_OUT], double least)
{
	for (int o = 0; o < MAX_OUT; o++)
		if (x->call->out_count[o] && !(share[o] >= least)) return false;
	return xray_rounds_inside(x);
}

bool replica_nearly_explains(const struct xray *x, const double share[MAX_OUT])
{
	return explains_share(x, share, enough);
}

bool replica_explains_plenty(struct xray *x, bool *yes)
{
	double share[MAX_OUT];

	if (!xray_explained(x, share)) return false;
	*yes = explains_share(x, share, plenty) && xray_left(x) <= tips;
	return true;
}

struct grown { struct plan plan; double score; };

static bool grow_from(struct xray *x, const struct plan *p)
{
	x->replica = *p;
	return xray_settle(x) && replica_grow(x);
}

/* What is grown from each model, best first, until one explains all, or nearly. -1: failed. */
static int grow_models(struct xray *x, struct grown *list, bool *done)
{
	int n = 0;

	*done = false;
	for (int i = 0; i < MODELS && !*done; i++) {
		const struct form *form = &x->call->op->forms[models[i].form];
		if (!form->name || (models[i].chunk && models[i].chunk != DEFAULT_CHUNK && !form->chunked)) continue;
		struct plan p = plan_plain(models[i].arith, models[i].arith->precision);
		p.form = models[i].form;
		p.chunk = form->chunked ? models[i].chunk : 0;
		if (!grow_from(x, &p) || !replica_explains_plenty(x, done)) return -1;
		int at = n++;
		for (; at > 0 && list[at - 1].score > x->score; at--) list[at] = list[at - 1];
		list[at] = (struct grown){ x->replica, x->score };
		*done = *done || replica_explains(x);
	}
	return n;
}

/* Descends from p; *best keeps the better. */
static bool descend_from(struct xray *x, const struct plan *p, bool mistakes, struct grown *best)
{
	if (replica_explains(x)) return true;
	x->replica = *p;
	if (!xray_settle(x) || !replica_descend(x, mistakes)) return false;
	if (x->score < best->score) *best = (struct grown){ x->replica, x->score };
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
	uint64_t limit = x->work + patience / 8;

	for (int site = 0; x->call->op->sites[site].name; site++)
		for (int t = 0; t < SITE_TYPES && site_in_form(x->call->op, site, model->form); t++) {
			struct plan p = bare(model);
			p.round[site] = site_types[t];
			if (replica_explains(x) || x->work >= limit) return true;
			if (!is_store(x->call, site, site_types[t].format) && !descend_from(x, &p, false, best)) return false;
		}
	return true;
}

/* From what each model has grown to, and from the bare model. */
static bool descend_all(struct xray *x, const struct grown *list, int n, bool mistakes, struct grown *best)
{
	for (int i = 0; i < n; i++) {
		struct plan plain = bare(&list[i].plan);
		if (!descend_from(x, &list[i].plan, mistakes, best) || !descend_from(x, &plain, mistakes, best)) return false;
	}
	return true;
}

/* Is p a replica whose own error is largely float32's noise, amplified, and does it explain the call? Then any
 * change of a rounding draws that noise anew and none can be told from another: p stands. */
static bool is_noise(struct xray *x, const struct plan *p, bool *noise)
{
	x->replica = *p;
	if (!xray_settle(x)) return false;
	double share;
	if (!xray_amplified(x, &share)) return false;
	*noise = share > saturated && replica_explains(x);
	return true;
}

static bool noise_of_contracts(struct xray *x, bool *noise)
{
	*noise = false;
	for (const struct contract *k = x->call->op->contracts; k->name && !*noise; k++) {
		struct plan p = plan_plain(&arith_f64, arith_f64.precision);
		plan_contract(&p, k);
		if (!is_noise(x, &p, noise)) return false;
	}
	return true;
}

static bool search(struct xray *x)
{
	struct grown list[MODELS], best;
	bool noise, done;
	int n = grow_models(x, list, &done);

	if (n < 0) return false;
	if (done) return true;
	if (!noise_of_contracts(x, &noise) || noise) return noise;
	best = list[0];
	x->patience = x->work + patience;
	if (!descend_all(x, list, n, false, &best) || !descend_singles(x, &best.plan, &best)
			|| !descend_all(x, list, n, true, &best)) return false;
	if (!replica_explains(x)) x->replica = best.plan;
	return true;
}

static bool explains_evenly(struct xray *x, bool *yes)
{
	*yes = false;
	return !replica_explains(x) || xray_is_even(x, yes);
}

/* What the contract allows is preferred; without one, what any of the op's does. */
static bool prefer(struct xray *x, const struct plan *start)
{
	if (start) return replica_prefer(x, start);
	for (const struct contract *k = x->call->op->contracts; k->name; k++) {
		struct plan p = plan_plain(&arith_f64, arith_f64.precision);
		plan_contract(&p, k);
		if (!replica_prefer(x, &p)) return false;
	}
	return true;
}

/* replica_grow from start. What start explained must still be explained by what it has grown to. */
static bool grow_start(struct xray *x, const struct plan *start)
{
	bool noise, explained, still;

	if (!is_noise(x, start, &noise)) return false;
	if (noise) return true;
	if (!explains_evenly(x, &explained) || !grow_from(x, start) || !prefer(x, start) || !explains_evenly(x, &still)) return false;
	if (!explained || still) return true;
	x->replica = *start;
	return xray_settle(x);
}

bool replica_search(struct xray *x, const struct plan *start)
{
	struct grown first = { .score = INFINITY };
	double share[MAX_OUT];

	if (start) {
		if (!grow_start(x, start) || !xray_explained(x, share)) return false;
		if (replica_explains(x) || replica_nearly_explains(x, share)) return true;
		first = (struct grown){ x->replica, x->score };
	}
	if (!xray_sample_pieces(x, enough_work) || !search(x)) return false;
	bool sampled = x->stride > 1;
	struct plan found = x->replica;
	bool noise;
	if (!xray_sample_pieces(x, 0) || !is_noise(x, &found, &noise) || (sampled && !noise && !grow_from(x, &found))) return false;
	if (replica_explains(x) || x->score <= first.score) return prefer(x, start);
	x->replica = first.plan;
	return xray_settle(x);
}
