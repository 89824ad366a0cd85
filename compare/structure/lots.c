/* Where nothing leads on: the states at the end alone, the best few at each step, two changes at once, and changes by lot. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam.h"
#include "compare/limits/limits.h"
#include "fixtures/io/random.h"

/* Goes on from the best, by each measure, of two likely changes of *c at once, of these choices. */
static void on_from_two(struct search *s, struct beams *b, const struct candidate *c, int k, const struct list *among)
{
	struct beams next;
	double all = share_budget(s, 0.5);

	if (beams_make(s, &next)) two_at_once(s, c, k, PAIRS_LIKELY, among, add_to_both, &next);
	all_budget(s, all);
	for (int i = 0; i < 2 * CLOSEST && !explained(b, k) && !late(s); i++) {
		struct beam *by = &next.by[i % 2];
		if (i / 2 >= by->n) continue;
		down(s, &by->at[i / 2], k, i % 2, false, b);
		log_cost(s, "two", &by->at[i / 2], k);
	}
	beams_free(&next);
}

/* The best few after one change of *c, of these choices, after two, and so on, while they come nearer; and down from those. */
static void steps_from(struct search *s, struct beams *b, int k, const struct candidate *c, const struct list *among)
{
	struct beam own, next;
	bool ok = beam_make(s, &own, 0), more = ok;

	ok = beam_make(s, &next, 0) && ok;
	s->failed = s->failed || !ok;
	if (ok) add((struct candidate[]){ *c }, &own);
	while (ok && more && !late(s)) {
		next.n = 0;
		for (int i = 0; i < own.n; i++) add(&own.at[i], &next);
		for (int i = 0; i < own.n; i++) one_at_once(s, &own.at[i], k, among, add, &next);
		more = next.at[0].energy < 0.995 * own.at[0].energy;
		own.n = next.n;
		memcpy(own.at, next.at, (size_t)next.n * sizeof *next.at);
	}
	for (int i = 0; i < own.n && ok; i++) {
		if (i < CLOSEST) down(s, &own.at[i], k, i % 2, false, b);
		log_cost(s, "steps", &own.at[i], k);
	}
	free(own.at);
	free(next.at);
}

/* Is the output's error more than float32's noise? */
static bool beyond_noise(const struct search *s, int o)
{
	const size_t n = s->call->out_count[o];
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		double e = ((double)s->recorded[o][i] - s->truth.hi[o][i]) * (double)s->weight[o][i];
		sum += e * e;
	}
	return sum > most_of_noise * s->noise[o] * (double)n;
}

/* What is at the end of all tokens, as a state is, where there are outputs that go along them too; 0: nothing that is off. */
static unsigned at_the_end(const struct search *s)
{
	unsigned ends = 0;
	bool along = false, off = false;

	for (int o = 0; o < MAX_OUT; o++) {
		if (!s->call->out_count[o]) continue;
		along = along || s->along[o];
		if (s->along[o]) continue;
		ends |= 1u << o;
		off = off || beyond_noise(s, o);
	}
	return along && off ? ends : 0;
}

/* Of so many pieces one, that these outputs have enough elements. */
static size_t in_few_pieces(const struct search *s, unsigned only)
{
	size_t pieces = 0, n = 0;

	for (int o = 0; o < MAX_OUT; o++)
		if (only >> o & 1) n = s->call->out_count[o] > n ? s->call->out_count[o] : n;
	for (int f = s->n_form; f-- > 0;)
		if (s->graph[f][0].made) pieces = s->graph[f][0].program->pieces;
	n /= structure_sees_states;
	return n < 1 || pieces < 2 ? 1 : n < pieces / 2 ? n : pieces / 2;
}

/* The choices of *c that show nothing in those outputs at stage `at`. */
static void other_choices(struct search *s, const struct candidate *c, unsigned only, int at, struct list *l)
{
	struct list all;

	choices_of(s, c, &all);
	s->only = only;
	l->n = 0;
	for (int i = 0; i < all.n; i++)
		if (!shows(s, c, all.key[i], at)) l->key[l->n++] = all.key[i];
	s->only = 0;
}

/* *c goes on by what its states do not show, change after change, then two at once. */
static void on_from_states(struct search *s, struct beams *b, const struct candidate *c, int k, int at, unsigned only)
{
	struct candidate t = *c;
	struct beams own;
	struct list l;

	other_choices(s, c, only, at, &l);
	try(s, &t, k);
	if (beams_make(s, &own)) steps_from(s, &own, k, &t, &l);
	if (!s->failed && !explained(&own, k)) on_from_two(s, &own, &t, k, &l);
	add_beams(&own, b);
	beams_free(&own);
}

void from_states(struct search *s, struct beams *b, int k)
{
	const int at = glance(s);
	const unsigned only = at_the_end(s);
	struct beams own;

	if (!only) return;
	const size_t step = s->step[at];
	double all = share_budget(s, 0.4);
	s->only = only;
	if (at != k) s->step[at] = in_few_pieces(s, only);
	forget_others(s, at);
	if (beams_make(s, &own)) starts(s, &own, at, 0, USUAL);
	s->only = 0;
	all_budget(s, all);
	const int ways = !own.by[1].n ? 0 : own.by[0].at[0].cost > own.by[1].at[0].cost ? 2 : 1;
	for (int i = 0; i < ways && !s->failed && !explained(b, k) && !late(s); i++) {
		all = share_budget(s, 1.0 / (ways - i));
		on_from_states(s, b, &own.by[!i].at[0], k, at, only);
		all_budget(s, all);
	}
	beams_free(&own);
	s->step[at] = step;
}

static size_t by_lot(uint64_t *random, size_t n) { return (size_t)(random_next(random) % n); }

static void draw(const struct search *s, struct candidate *c, int key, uint64_t *random)
{
	c->config.value[key] = (unsigned char)by_lot(random, (size_t)s->keys.at[key].n);
}

static bool is_form(const struct search *s, int key) { return s->keys.at[key].kind == CHOOSE_FORM; }

/* Some of the choices of structure of one definition anew by lot, and of those that are new then, and what is near chosen again. */
static bool rearranged(struct search *s, struct candidate *c, int k, const struct list *among, uint64_t *random)
{
	const struct candidate from = *c;
	int key = -1;

	for (int i = 0, n = 0; i < among->n; i++)
		if (is_form(s, among->key[i]) && is_met(c, among->key[i]) && !by_lot(random, (size_t)++n)) key = among->key[i];
	if (key < 0) return false;
	for (int i = 0; i < from.met.n; i++) {
		const int j = from.met.key[i];
		if (is_form(s, j) && s->keys.at[j].def == s->keys.at[key].def && (j == key || by_lot(random, 2))) draw(s, c, j, random);
	}
	try(s, c, k);
	for (int i = 0; i < c->met.n; i++)
		if (is_form(s, c->met.key[i]) && !is_met(&from, c->met.key[i])) draw(s, c, c->met.key[i], random);
	try(s, c, k);
	if (out_of_reach(&from, c)) return false;
	choose_near(s, &from, c, key, k);
	return c->cost <= 1.3 * from.cost;
}

/* Two to five choices anew by lot. */
static bool changed(struct search *s, struct candidate *c, int k, const struct list *among, uint64_t *random)
{
	for (size_t i = 2 + by_lot(random, 4); i && among->n; i--) draw(s, c, among->key[by_lot(random, (size_t)among->n)], random);
	try(s, c, k);
	return among->n;
}

static double left(const struct beams *b) { return b->iterated ? b->by[0].at[0].energy : b->by[1].at[0].cost; }

void from_lots(struct search *s, struct beams *b, int k, double enough)
{
	uint64_t random = random_mix(2);
	double least = INFINITY;
	struct list all, new;

	for (bool any = true; any && b->by[0].n && b->by[1].n && left(b) > enough && !late(s);) {
		const struct beam *by = &b->by[by_lot(&random, 2)];
		struct candidate c = by->at[by_lot(&random, (size_t)(by->n < CLOSEST ? by->n : CLOSEST))];
		choices_of(s, &c, &all);
		if (!s->rounded[0] && k) new_at(s, &c, k, &new);
		const struct list *among = !s->rounded[0] && k && new.n && by_lot(&random, 2) ? &new : &all;
		any = all.n;
		if (by_lot(&random, s->rounded[0] ? 2 : 4) ? rearranged(s, &c, k, among, &random) : changed(s, &c, k, among, &random)) down(s, &c, k, 0, false, b);
		if (b->by[0].at[0].energy >= least) continue;
		least = b->by[0].at[0].energy;
		log_cost(s, "lot", &b->by[0].at[0], k);
	}
}
