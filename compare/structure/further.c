/* What is found, on all tokens: further where too little is explained, closer where all but a part in some thousand is. */
#include <math.h>

#include "beam.h"
#include "compare/limits/limits.h"

/* Of an output's error so much must be explained for the search to end there. */
static const double nearly_all = 0.9999;

bool large(const struct search *s)
{
	size_t n = 0;

	for (int o = 0; o < MAX_OUT; o++) n += s->call->out_count[o];
	return n > 1 << 16;
}

void last_effort(struct search *s, struct candidate *best, int last)
{
	const double all = s->budget, gone = used(s);
	struct score score[MAX_OUT];
	bool clean = best->cost < 1e9 && measured(s, best, score, NULL);

	for (int o = 0; o < MAX_OUT && clean; o++) clean = score[o].raw <= 1e-4 * score[o].raw_base;
	if (clean || late(s)) return;
	s->budget = fmin(all, gone + fmin(0.125 * gone + all / 32, all * 3 / 32));
	expand(s, best, last, NULL, NULL);
	descend(s, best, last, false);
	all_budget(s, all);
}

void further(struct search *s, struct beams *b, struct candidate *best, int last)
{
	struct beams own;

	if (s->rounded[0] || left_of(s, best) <= 1 - explained_enough || !beams_make(s, &own)) return;
	double all = share_budget(s, 0.8);
	add_to_both(best, &own);
	if (best->cost > 0.1 * s->n_stage) {
		add_beams(b, &own);
		through(s, &own, last);
	}
	if (!large(s)) from_lots(s, &own, last, found(last));
	all_budget(s, all);
	if (own.by[1].at[0].cost < best->cost) {
		*best = own.by[1].at[0];
		exponents(s, best, last);
		last_bits(s, best, last);
	}
	beams_free(&own);
	log_cost(s, "further", best, last);
}

/* What does better than the best by both measures takes its place. */
static void take_closer(const struct beams *b, struct candidate *best)
{
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < b->by[m].n; i++)
			if (b->by[m].at[i].energy < best->energy && b->by[m].at[i].bits < best->bits) *best = b->by[m].at[i];
}

void closer(struct search *s, struct candidate *best, int last)
{
	struct beams b;

	if (large(s) || s->rounded[0] || left_of(s, best) <= 1 - nearly_all || !beams_make(s, &b)) return;
	double all = share_budget(s, 0.1);
	b.iterated = true;
	two_at_once(s, best, last, PAIRS_LAST, NULL, add_to_both, &b);
	take_closer(&b, best);
	b.by[0].n = b.by[1].n = 0;
	add_to_both(best, &b);
	from_lots(s, &b, last, found(last) / 100);
	take_closer(&b, best);
	all_budget(s, all);
	beams_free(&b);
	log_cost(s, "closer", best, last);
}
