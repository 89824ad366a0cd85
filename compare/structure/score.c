/* A candidate's values beside what the kernel wrote. */
#include <math.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "search.h"

static void stored(enum dtype d, double *y, const double *x, size_t n)
{
	round_into(y, x, n, d == DT_BF16 ? IN_BF16 : IN_F32);   /* to a float first */
	if (d != DT_BF16 && d != DT_F32 && d != DT_F64 && dtype_info[d].is_float) format_round_all(dtype_info[d].format, ROUND_NEAREST_EVEN, y, n);
}

void store_type(enum dtype d, double *x, size_t n) { stored(d, x, x, n); }

/* The next elements [*first, *end) of one stage, of those before `last`; false: there are none. */
static bool next_of_stage(const struct put_view *p, size_t last, size_t *first, size_t *end)
{
	*first = *end;
	while (*end < last && p->stage[*end] == p->stage[*first]) ++*end;
	return *first < last;
}

/* x is what stands at `from` and behind. unit: what no bit is lost below; of[st]: a product of factors whose logarithm is still to be
 * added, at most 2^53 each */
static void compare_block(const struct put_view *p, size_t from, const double *x, size_t n, struct score *s, float *errors, double unit,
	double of[MAX_STAGE])
{
	for (size_t first, end = from; next_of_stage(p, from + n, &first, &end);) {
		const int st = p->stage[first];
		double left = s->left[st], raw = s->raw, product = of[st];
		double equal = s->equal[st];
		for (size_t k = first; k < end; k++) {
			double w = (double)p->weight[k], y = (double)p->y[k], d = fabs(y - x[k - from]) * w;
			if (y == x[k - from]) d = 0;
			equal += d == 0;
			if (d != 0) {
				if (!(d < 1e6)) d = 1e6;
				left += d * d;
				raw += (d / w) * (d / w);
				product *= 1 + d * unit;
				if (product > 0x1p900) s->bits[st] += log2(product), product = 1;
			}
			if (errors) errors[k] = (float)d;
		}
		s->left[st] = left, s->raw = raw, of[st] = product, s->equal[st] = equal;
	}
}

static void moved_block(const struct put_view *p, size_t from, const double *x, size_t n, struct score *s)
{
	for (size_t first, end = from; next_of_stage(p, from + n, &first, &end);) {
		double moved = s->moved[p->stage[first]];
		for (size_t k = first; k < end; k++) {
			double d = fmin(fabs(x[k - from] - (double)p->truth[k]) * (double)p->weight[k], 1e6);
			moved += d * d;
		}
		s->moved[p->stage[first]] = moved;
	}
}

enum { PARTS = 16, WORTH = 1 << 13 };

static void add_part(struct score *to, const struct score *from)
{
	to->raw += from->raw, to->raw_base += from->raw_base;
	for (int k = 0; k < MAX_STAGE; k++) {
		to->left[k] += from->left[k], to->base[k] += from->base[k], to->bits[k] += from->bits[k], to->count[k] += from->count[k];
		to->equal[k] += from->equal[k], to->moved[k] += from->moved[k];
	}
}

/* In parts that are the same whatever the number of threads is. */
bool compare_put(const struct search *s, const struct view *v, const struct put_view *p, const struct value *x, const struct sym_put *put,
	struct score *to, float *errors)
{
	const double unit = fmin(0x1p22, 1 / (sums_in_order * sqrt(s->noise[p->out]) + 1e-30));
	const size_t turns = (size_t)v->v.turns.n[put->in];
	struct score sum[PARTS] = { 0 };
	bool ok = true;

	#pragma omp parallel for schedule(static, 1) reduction(&&: ok) if (turns > 1 && p->n > WORTH)
	for (size_t part = 0; part < PARTS; part++) {
		double *room = malloc((x->n + 1) * sizeof *room), of[MAX_STAGE];
		ok = room != NULL;
		for (int k = 0; k < MAX_STAGE; k++) of[k] = 1;
		for (size_t i = turns * part / PARTS; i < turns * (part + 1) / PARTS && ok; i++) {
			size_t n = p->start[i + 1] - p->start[i];
			stored(s->call->out[p->out]->dtype, room, value_in(&v->v, x, put->in, (int)i), n);
			compare_block(p, p->start[i], room, n, &sum[part], errors, unit, of);
			if (s->rounded[0]) moved_block(p, p->start[i], room, n, &sum[part]);
		}
		for (int k = 0; k < MAX_STAGE; k++) sum[part].bits[k] += log2(of[k]);
		free(room);
	}
	add_part(to, &p->base);
	for (int part = 0; part < PARTS; part++) add_part(to, &sum[part]);
	return ok;
}

/* What of the error e does not go along what the candidate does: |e|² (1 - ρ²), or all where ρ < 0. Of an iteration, in which a rounding that
 * is missing makes of each after it another, a candidate goes the kernel's way long before it comes near. moved: |candidate's own error|² */
static double across(double left, double base, double moved)
{
	const double along = (base + moved - left) / 2;

	return along > 0 && moved > 0 ? fmax(base - along * along / moved, 0) : base;
}

bool counts(const struct search *s, int out) { return !s->only || (s->only >> out & 1); }

void cost_of(const struct search *s, const struct score score[MAX_OUT], int k, struct candidate *c)
{
	bool told = false;      /* has an output errors that are not noise? */

	c->energy = c->bits = c->noise = 0;
	for (int o = 0; o < MAX_OUT; o++) {
		double left = 0, base = 0, moved = 0, bits = 0, count = 0, before = c->energy + c->bits;
		for (int i = 0; i <= k && counts(s, o); i++) {
			left += score[o].left[i], moved += score[o].moved[i], base += score[o].base[i], bits += score[o].bits[i], count += score[o].count[i];
			if (count == 0 || ((!s->along[o] || s->rounded[0]) && i < k)) continue;
			c->energy += (s->rounded[0] ? across(left, base, moved) : left) / fmax(base, fmax(0x1p-44, most_of_noise * s->noise[o]) * count);
			c->bits += bits / count / 26;
		}
		if (base > most_of_noise * s->noise[o] * count) told = true;
		else if (left <= sums_in_order * s->noise[o] * count) c->noise += c->energy + c->bits - before;
	}
	if (!told) c->noise = 0;
	c->energy = c->energy < 1e9 ? c->energy : 1e9;
}
