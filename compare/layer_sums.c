/* What a layer's reading does on its first tokens alone where it is large: kinds of sums, and how good f64 is. */
#include <math.h>

#include "layer_private.h"

/* Sums that are tried, exact ones first; the nearest explains an engine's tips. */
static const struct arith *const sums[] = { &arith_f64, &arith_f32_tree, &arith_mma[MMA_HOPPER], &arith_mma[MMA_AMPERE] };
enum { SUMS = sizeof sums / sizeof *sums };

struct layer_work layer_work = { UINT64_C(1) << 31, UINT64_C(1) << 31, UINT64_C(1) << 35, UINT64_C(1) << 32 };

size_t layer_tokens(const struct reader *d, uint64_t work)
{
	size_t all = d->n / d->row;
	double n = floor((double)work * (double)all / (double)(d->work + 1));

	return n >= (double)all ? all : n > 2 ? (size_t)n : all < 2 ? all : 2;
}

struct reader layer_first(const struct reader *d, size_t n, struct first_tokens *part)
{
	struct reader few = *d;

	model_first_tokens(d->call, n, part);
	few.call = &part->call;
	few.n = n * d->row;
	return few;
}

bool layer_sums(struct reader *d, struct layer_reading *r)
{
	struct first_tokens part;
	size_t n = d->large ? layer_tokens(d, layer_work.slow) : d->n / d->row;
	struct reader few = layer_first(d, n, &part);
	struct distance nearest = layer_distance(&few, d->got, d->now), apart = { 0 };

	r->sums = sums[0];
	for (int i = 1; i < SUMS && nearest.equal < 1; i++) {
		struct plan p = r->replica;
		p.arith = sums[i];
		p.bits = sums[i]->precision;
		if (!layer_answer(&few, &p, d->other, NULL)) return false;
		struct distance s = layer_distance(&few, d->got, d->other);
		if (!(s.score < nearest.score)) continue;
		nearest = s;
		apart = layer_distance(&few, d->other, d->now);
		r->sums = sums[i];
	}
	r->few = few.n < d->n ? n : 0;
	if (!r->few) {
		r->left = nearest;
		return true;
	}
	/* The replica with those sums is a correct layer too, and r->left is from the one without: it may be as far. */
	r->limit = fmax(r->limit, LAYER_BEYOND * apart.score * (double)d->n / (double)few.n);
	r->worst_limit = fmax(r->worst_limit, LAYER_BEYOND_WORST * apart.worst);
	double error = layer_distance(&few, d->got, d->plain).square;
	r->few_explained = error > 0 ? 1 - nearest.square / error : nearest.square == 0;
	return true;
}

bool layer_truth(const struct reader *d, struct layer_reading *r)
{
	struct first_tokens part;
	struct reader few = layer_first(d, layer_tokens(d, layer_work.slow), &part);
	struct plan f64 = plan_plain(&arith_f64, arith_f64.precision), dd = plan_plain(&arith_dd, arith_dd.precision);
	struct answer a = { 0 }, b = { 0 };
	bool ok = ref_run(few.call, &f64, &a, NULL) && ref_run(few.call, &dd, &b, NULL);

	r->truth_error = 0;
	r->truth_tokens = few.n / few.row;
	for (size_t i = 0; ok && i < few.n; i++) {
		double apart = fabs((a.hi[0][i] - b.hi[0][i]) - b.lo[0][i]) / d->unit[i];
		bool same = a.hi[0][i] == b.hi[0][i] || (isnan(a.hi[0][i]) && isnan(b.hi[0][i]));
		if (!same && !(apart <= r->truth_error)) r->truth_error = apart;
	}
	answer_free(&a);
	answer_free(&b);
	return ok;
}
