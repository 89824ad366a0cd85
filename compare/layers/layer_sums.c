/* What a layer's reading does on its first tokens alone where it is large: kinds of sums, and how good f64 is. */
#include <math.h>

#include "layer_private.h"

/* Sums that are tried, exact ones first; the nearest explains an engine's flips. */
static const struct arith *const sums[] = { &arith_f64, &arith_f32_tree, &arith_mma[MMA_HOPPER], &arith_mma[MMA_AMPERE] };
enum { SUMS = sizeof sums / sizeof *sums };

struct layer_work layer_work = { UINT64_C(1) << 31, UINT64_C(1) << 31, UINT64_C(1) << 35, UINT64_C(1) << 28,
	UINT64_C(1) << 29 };

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
	/* Other sums flip what float32's noise flips: they take no layer to its limit that is farther from it than that. */
	double far = (r->limit + r->limit / LAYER_BEYOND) * (double)few.n / (double)d->n;
	for (int i = 1; i < SUMS && nearest.equal < 1 && nearest.score <= far; i++) {
		struct plan p = r->emulation;
		p.arith = sums[i];
		p.bits = sums[i]->precision;
		if (!layer_answer(&few, &p, d->other)) return false;
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
	/* The emulation with those sums is a correct layer too, and r->left is from the one without: it may be as far. */
	r->limit = fmax(r->limit, LAYER_BEYOND * apart.score * (double)d->n / (double)few.n);
	r->worst_limit = fmax(r->worst_limit, LAYER_BEYOND_WORST * apart.worst);
	double error = layer_distance(&few, d->got, d->plain).square;
	r->few_explained = error > 0 ? 1 - nearest.square / error : nearest.square == 0;
	return true;
}

/* The largest distance of the first n elements of a from those of b, in units. */
static double farthest(const struct reader *d, const struct answer *a, const struct answer *b, size_t n)
{
	double most = 0;

	for (size_t i = 0; i < n; i++) {
		double x = a->hi[0][i], y = b->hi[0][i], apart = fabs((x - y) - (b->lo[0] ? b->lo[0][i] : 0)) / d->unit[i];
		bool same = x == y || (isnan(x) && isnan(y));
		if (!same && !(apart <= most)) most = isnan(apart) ? INFINITY : apart;
	}
	return most;
}

static bool seen_from(const struct reader *d, const struct answer *exact, const struct arith *by, double *most)
{
	struct plan p = plan_plain(by, by->precision);
	struct answer a;

	if (!ref_run(d->call, &p, &a, NULL)) return false;
	*most = farthest(d, exact, &a, d->n);
	answer_free(&a);
	return true;
}

/* What a sequence adds up, the first tokens do not show. Rows of the head have nothing to do with each other. */
bool layer_truth(const struct reader *d, const struct answer *exact, struct layer_reading *r)
{
	struct first_tokens part;
	struct reader few = layer_first(d, layer_tokens(d, layer_work.slow), &part);

	r->truth_tokens = few.n / few.row;
	r->truth_upwards = 0;
	if (!seen_from(&few, exact, &arith_dd, &r->truth_error)) return false;
	return few.n == d->n || d->call->op == model_op(PART_HEAD) || seen_from(d, exact, &arith_f64up, &r->truth_upwards);
}
