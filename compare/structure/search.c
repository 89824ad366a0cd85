/* The order of the search: starts, the first tokens in several ways, then more and more of them. */
#include <math.h>
#include <stdlib.h>

#include "beam.h"
#include "compare/limits/limits.h"

/* What is left of the error's energy where a stage of an iteration shows something. */
static const double shows_much = 0.9;
/* What begins by so much worse than what another form ended with gets little of the budget. */
static const double far_behind = 10;
/* Where no more than so many times what explains the first tokens is left of them, the next tokens are asked. */
static const double told_later = 5;
/* A form is hardly dearer than another at no more than that many times the cost. */
static const double hardly_dearer = 1.1;
/* What is left, of each stage, where what is missing may be no more than what decides near ties. */
static const double nearly = 0.1;
const double on_its_way = 0.3;

/* The best of each form in its best chunks, best first; how many. */
static int by_forms(struct search *s, const struct beam *b, int last, struct candidate to[MAX_FORM])
{
	int n = 0;

	for (int form = 0; form < s->n_form; form++) {
		int i = 0;
		while (i < b->n && b->at[i].form != form) i++;
		if (i == b->n) continue;
		struct candidate c = b->at[i];
		in_chunks(s, &c, last);
		for (i = n++; i > 0 && to[i - 1].cost > c.cost; i--) to[i] = to[i - 1];
		to[i] = c;
	}
	return n;
}

/* Does t, whose errors are x beside those of c, do as well? It costs no more; or it is not louder by much, and in no output farther by a sign test or
 * hardly dearer. */
static bool does_as_well(const struct candidate *t, const struct candidate *c, const struct contrast *x)
{
	return t->cost <= c->cost || (x->energy <= much_louder && (x->worst <= sign_test || t->cost <= hardly_dearer * c->cost));
}

/* Its last bits are found, and where it is louder but not farther, a step or two that may be missing. False: no memory. */
static bool beside_best(struct search *s, struct candidate *t, const struct errors *best, struct errors *own, struct contrast *x, int last)
{
	struct score score[MAX_OUT];

	last_bits(s, t, last);
	for (bool more = true;; more = false) {
		if (!measured(s, t, score, own->of)) return false;
		*x = contrast(s, own, best);
		if (!more || x->energy <= much_louder || x->all > sign_test) return true;
		down(s, t, last, 1, false, NULL);
	}
}

/* Of forms that explain the kernel and do as well the one that asks for the fewest choices: of one token a chunk's algebra is the recurrence itself. at[n]: each
 * form as it was left, some twice, once of each beam. */
static void simplest(struct search *s, struct candidate *best, const struct candidate *at, int n, int last)
{
	const struct candidate from = *best;
	struct errors of_best = { { 0 } }, own = { { 0 } };
	struct score score[MAX_OUT];
	struct contrast x = { 0 };
	bool ok = true, made = false;
	double all = share_budget(s, 0.3);

	for (int i = 0; i < n && ok && !late(s); i++) {
		struct candidate t = at[i];
		if (t.form == from.form || t.met.n >= best->met.n || !explains(&t, last)) continue;
		if (!made) ok = made = errors_make(s, &of_best) && errors_make(s, &own) && measured(s, &from, score, of_best.of);
		ok = ok && beside_best(s, &t, &of_best, &own, &x, last);
		if (!ok || late(s)) continue;
		if (t.met.n < best->met.n && does_as_well(&t, &from, &x)) {
			log_cost(s, "simpler", &t, last);
			s->rival = x.all < -sign_test ? -1 : from.form;
			*best = t;
		} else if (x.all > sign_test && s->rival == t.form) {
			s->rival = -1;
		}
	}
	s->failed = s->failed || !ok;
	all_budget(s, all);
	errors_free(&of_best);
	errors_free(&own);
}

/* Best first, but forms by token last, which take longest: another form only where it may do better than what is found. */
static void finish(struct search *s, struct beams *b, struct candidate *best, int last)
{
	struct candidate *at = calloc(2 * MAX_FORM, sizeof *at);

	if (!at) {
		s->failed = true;
		return;
	}
	forget_others(s, last);
	move_on(s, b, last);
	int first = by_forms(s, &b->by[1], last, at), n = first + by_forms(s, &b->by[0], last, at + first);
	for (int slow = 0; slow < 2; slow++) {
		for (int i = 0; i < n; i++) {
			struct candidate c = at[i];
			if (by_token(s, c.form) != slow) continue;
			if (i >= first && (explained(b, last) || c.cost > 3 * b->by[1].at[0].cost + 0.01)) continue;
			log_cost(s, "all", &c, last);
			if (best->cost < 1e9 && best->form != c.form && c.cost < 3 * best->cost + 0.05) s->rival = c.form;
			bool far = c.cost > far_behind * best->cost;       /* then not for the sake of noise either */
			/* what began worse may end better, but a form by token takes long */
			if (c.cost > best->cost && best->cost - (far ? best->noise : 0) <= found(last) / (slow ? 1 : 10)) continue;
			double all = share_budget(s, far ? 0.1 : slow ? 1 : 0.6);
			if (!large(s) || c.cost > found(last) / 2.5) down(s, &c, last, 1, false, NULL);      /* else sign tests do as well: polish.c */
			if (c.cost > found(last)) down(s, &c, last, 0, true, NULL);
			all_budget(s, all);
			if (c.cost < nearly * s->n_stage) exponents(s, &c, last);
			last_bits(s, &c, last);
			at[i] = c;
			if (c.cost >= best->cost) continue;
			if (best->cost < 3 * c.cost + 0.05 && best->form != c.form) s->rival = best->form;
			*best = c;
		}
	}
	simplest(s, best, at, n, last);
	free(at);
}

/* Where the first tokens are not explained too little may be seen in them: from 32 and from all; else more starts at the first. The stage at
 * which the beams then stand. */
static int other_ways(struct search *s, struct beams *b)
{
	const int last = s->n_stage - 1, at[] = { last < 2 ? last : 2, last };

	double share = share_budget(s, 0.5);
	if (!explained(b, 0)) starts(s, b, 0, USUAL, STARTS);
	all_budget(s, share);
	share = share_budget(s, 0.35);
	from_lots(s, b, 0, found(0));
	all_budget(s, share);
	if (explained(b, 0)) return 0;

	struct beams later;
	bool ok = beams_make(s, &later);
	int found_at = 0;

	for (int i = 0; i < 2 && ok && !found_at && at[i] > 0 && !late(s); i++) {
		double all = share_budget(s, i ? 0.4 : 0.2);
		forget_others(s, at[i]);
		later.by[0].n = later.by[1].n = 0;
		starts(s, &later, at[i], 0, USUAL);
		if (!explained(&later, at[i])) starts(s, &later, at[i], USUAL, STARTS);
		all_budget(s, all);
		if (!explained(&later, at[i])) continue;
		found_at = at[i];
		b->by[0].n = b->by[1].n = 0;
		add_beams(&later, b);
	}
	beams_free(&later);
	if (found_at || late(s)) return found_at;
	forget_others(s, 0);
	double all = share_budget(s, 0.5);
	for (int mix = 0; mix < 2; mix++)
		if (!explained(b, 0)) widen(s, b, 0, 6, mix);
	all_budget(s, all);
	return 0;
}

/* Does the best do much better than the formula without a rounding? */
static bool shows_much_of(struct search *s, const struct beams *b, int k)
{
	struct candidate none = { .form = b->by[0].at[0].form };

	if (!b->by[0].n) return false;
	try(s, &none, k);
	return b->by[0].at[0].energy < shows_much * none.energy;
}

/* From the stage `from` on, in which so many turns are rounded, to the last; what shows nothing is forgotten, and the next stage begins anew. */
static void turns_from(struct search *s, struct beams *b, int from, int last)
{
	for (int k = from; k <= last && !late(s); k++) {
		double left = share_budget(s, 1.0 / (last - k + 1));
		if (k == from && k == last) known_starts(s, b, k);
		if (k == from && from) starts(s, b, k, 0, STARTS);
		if (b->by[0].n) through(s, b, k);
		else first_tokens(s, b, k);
		all_budget(s, left);
		forms_and_sums(s, b, k);
		if (k < last && !shows_much_of(s, b, k)) b->by[0].n = b->by[1].n = 0;
	}
}

/* Of an iteration: from where one of its turns is rounded, which shows least at a time; where that leads nowhere, from where all are, and
 * from where fewer are. */
static void iterated(struct search *s, struct beams *b, int last)
{
	struct beams own;
	bool far = beams_make(s, &own);

	for (int i = 0; i <= last && far && !late(s); i++) {
		double all = share_budget(s, 0.6);
		own.by[0].n = own.by[1].n = 0;
		turns_from(s, &own, i ? last + 1 - i : 0, last);
		all_budget(s, all);
		forget_others(s, last);
		move_on(s, &own, last);
		add_beams(&own, b);
		far = !b->by[0].n || b->by[0].at[0].energy > on_its_way;
	}
	beams_free(&own);
	double all = share_budget(s, 0.75);
	if (!explained(b, last)) forms_and_sums(s, b, last);
	for (int mix = 0; mix < 2; mix++)
		if (!explained(b, last)) widen(s, b, last, 6, mix);
	for (double before = 2; b->by[0].n && b->by[0].at[0].energy < before && !explained(b, last) && !late(s);) {
		before = 0.5 * b->by[0].at[0].energy;
		from_lots(s, b, last, before);
		forms_and_sums(s, b, last);
	}
	all_budget(s, all);
}

bool look_at_all(struct search *s, struct candidate *best)
{
	const int last = s->n_stage - 1;
	double seen = best->cost;
	size_t step = look_at(s, 1);

	if (step == 1 || s->failed) return false;
	try(s, best, last);
	log_cost(s, "in all", best, last);
	if (best->cost <= 3 * seen + found(last) / 10) {
		look_at(s, step);
		return false;
	}
	down(s, best, last, 1, false, NULL);
	if (best->cost > found(last)) down(s, best, last, 0, true, NULL);
	last_bits(s, best, last);
	last_effort(s, best, last);
	log_cost(s, "in all", best, last);
	return true;
}

/* Forms by token, which were looked at bare where another form explained the first tokens. */
static void tokens_after_all(struct search *s, struct beams *b, int k)
{
	struct beams own;

	if (beams_make(s, &own)) {
		starts_of(s, &own, 0, 0, USUAL, true);
		if (own.by[1].n) through(s, &own, k);
		add_beams(&own, b);
	}
	beams_free(&own);
}

/* What is left of the first tokens may be near ties. */
static void nearly_explained(struct search *s, struct beams *b, int k)
{
	if (!b->by[1].n || explained(b, k) || b->by[1].at[0].cost > nearly) return;
	struct candidate c = b->by[1].at[0];
	double all = share_budget(s, 0.2);
	near_ties(s, &c, k);
	down(s, &c, k, 1, false, b);
	log_cost(s, "ties", &c, k);
	all_budget(s, all);
}

/* Little is left of the first 8 tokens: are 16 explained? Then *b is what explains them. */
static bool told_by_later(struct search *s, struct beams *b)
{
	struct beams own;
	bool told = false;

	if (s->n_stage < 3 || !b->by[1].n || b->by[1].at[0].cost > told_later * found(0) || late(s)) return false;
	if (beams_make(s, &own)) {
		add_beams(b, &own);
		double all = share_budget(s, 0.1);
		through(s, &own, 1);
		all_budget(s, all);
		if ((told = explained(&own, 1))) b->by[0].n = b->by[1].n = 0, add_beams(&own, b);
		else forget_others(s, 0);
	}
	beams_free(&own);
	return told;
}

/* The first tokens are not explained, nor are they by the next: what the op's file knows, states at the end, other starts, other tokens. The stage at which the
 * beams then stand. */
static int from_elsewhere(struct search *s, struct beams *b)
{
	double all = share_budget(s, 0.5);
	known_starts(s, b, 0);
	if (!explained(b, 0)) from_states(s, b, 0);
	all_budget(s, all);
	if (explained(b, 0)) return 0;
	all = share_budget(s, b->by[1].n && b->by[1].at[0].cost <= told_later * found(0) ? 0.25 : 1);     /* tokens behind the next may tell */
	int k = other_ways(s, b);
	all_budget(s, all);
	return k;
}

static void by_tokens(struct search *s, struct beams *b, int last)
{
	double all = share_budget(s, 0.5);
	first_tokens(s, b, 0);
	all_budget(s, all);
	nearly_explained(s, b, 0);
	int k = explained(b, 0) ? 0 : told_by_later(s, b) ? 2 : from_elsewhere(s, b);
	for (bool asked = false; (k = k ? k : 1) < last; k++) {
		through(s, b, k);
		if (b->by[1].at[0].cost > on_its_way && !asked) asked = true, tokens_after_all(s, b, k);
		all = share_budget(s, 0.2);
		from_lots(s, b, k, found(k));
		all_budget(s, all);
	}
}

void find_structure(struct search *s, struct candidate *best)
{
	struct beams b;
	const int last = s->n_stage - 1;

	best->cost = 1e9;
	if (beams_make(s, &b)) {
		double all = share_budget(s, 0.3);
		if (s->how->known) from_known(s, &b, last);
		all_budget(s, all);
		bool known = explained(&b, last);
		if (!known && s->rounded[0]) iterated(s, &b, last);
		else if (!known) by_tokens(s, &b, last);
		finish(s, &b, best, last);
		further(s, &b, best, last);
		last_effort(s, best, last);
		closer(s, best, last);
		log_cost(s, "whole", best, last);
	}
	beams_free(&b);
}
