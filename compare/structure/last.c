/* When all else is found, what decides near ties: how functions are computed, and how the sums of products are added. */
#include <math.h>

#include "beam.h"

static void of_what(const struct search *s, const struct candidate *c, enum what what, struct list *l)
{
	l->n = 0;
	for (int i = 0; i < c->met.n; i++)
		if (s->keys.at[c->met.key[i]].what == what) l->key[l->n++] = c->met.key[i];
}

int key_about(const struct search *s, const struct candidate *c, enum what what)
{
	struct list l;

	of_what(s, c, what, &l);
	return l.n ? l.key[0] : -1;
}

void last_bits(struct search *s, struct candidate *c, int k)
{
	struct list l;

	of_what(s, c, W_WAY, &l);
	if (key_about(s, c, W_OVER) >= 0) l.key[l.n++] = key_about(s, c, W_OVER);
	steepest(s, c, k, &l);
}

void exponents(struct search *s, struct candidate *c, int k)
{
	int key[8], n = 0, all = 1;

	for (int i = 0; i < c->met.n && n < 8; i++) {
		const struct key *x = &s->keys.at[c->met.key[i]];
		if ((x->what != W_EXP && x->what != W_GIVEN && x->what != W_SCAN) || all * x->n > 64) continue;
		key[n++] = c->met.key[i];
		all *= x->n;
	}
	const struct candidate from = *c;
	for (int i = 1; i < all && n > 1 && !late(s); i++) {
		struct candidate t = from;
		int rest = i;
		for (int j = 0; j < n; rest /= s->keys.at[key[j]].n, j++)
			t.config.value[key[j]] = (unsigned char)((from.config.value[key[j]] + rest) % s->keys.at[key[j]].n);
		try(s, &t, k);
		if (t.cost < c->cost * 0.98) *c = t;
	}
}

/* What pieces of all kinds add up to. */
struct count { int wide, half, on_operands; };
static struct count counted(struct search *s, const struct candidate *c)
{
	struct count sum = { 0 };
	struct lowered l;

	for (struct graph *g = graph_of(s, c); g && !s->failed; g = g->next) {
		s->failed = s->failed || !lower_in(s, g, c, NULL, &l);
		sum.wide += l.wide, sum.half += l.half, sum.on_operands += l.on_operands;
	}
	return sum;
}

int products(struct search *s, const struct candidate *c, bool half)
{
	struct count l = counted(s, c);

	return half ? l.half : l.wide;
}

static int on_operands(struct search *s, const struct candidate *c) { return counted(s, c).on_operands; }

void new_factors_on_results(struct search *s, const struct candidate *old, struct candidate *new)
{
	struct list l;

	of_what(s, new, W_PLACE, &l);
	for (int i = 0; i < l.n; i++) {
		int least = on_operands(s, new);
		for (int v = 0; v < s->keys.at[l.key[i]].n && !is_met(old, l.key[i]); v++) {
			struct candidate t = *new;
			t.config.value[l.key[i]] = (unsigned char)v;
			int n = on_operands(s, &t);
			if (n < least) *new = t, least = n;
		}
	}
}

/* Tensor cores multiply nothing in float32: a factor that makes an operand that stands on the result, where it is about as well there. */
void factors_on_results(struct search *s, struct candidate *c, int k)
{
	struct list l;
	int least = products(s, c, false);

	of_what(s, c, W_PLACE, &l);
	for (int i = 0; i < l.n && least; i++)
		for (int v = 0; v < s->keys.at[l.key[i]].n && !late(s); v++) {
			struct candidate t = *c;
			t.config.value[l.key[i]] = (unsigned char)v;
			int n = products(s, &t, false);
			if (n >= least) continue;
			try(s, &t, k);
			if (t.cost > c->cost * 1.05) continue;
			*c = t;
			least = n;
		}
}

void onto(struct search *s, struct candidate *c, int k)
{
	struct list l;

	of_what(s, c, W_ONTO, &l);
	steepest(s, c, k, &l);
}

/* *c with operations in float32 and its factors on results, where sums are added in one way or another: which choice that is, or -1. */
static int sums_in_float32(struct search *s, struct candidate *c, int k)
{
	const int wide = key_about(s, c, W_WIDE);

	if (wide >= 0) c->config.value[wide] = 0, try(s, c, k);
	factors_on_results(s, c, k);
	return key_about(s, c, W_SUMS);
}

/* *t: *from with its sums added in way v; false: there is none. */
static bool with_sums(struct search *s, const struct candidate *from, int sums, int v, int k, struct candidate *t)
{
	if (sums < 0 || !sums_name(v) || late(s)) return false;
	*t = *from;
	t->config.value[sums] = (unsigned char)v;
	try(s, t, k);
	return true;
}

/* The candidate with sums added in each way, into the beam. */
static void each_sums(struct search *s, const struct candidate *c, int k, struct beam *to)
{
	struct candidate from = *c, t;
	const int sums = sums_in_float32(s, &from, k);

	for (int v = 0; with_sums(s, &from, sums, v, k, &t); v++) {
		add(&t, to);
		s->mix = 0;
		onto(s, &t, k);
		s->mix = 1;
		add(&t, to);
	}
}

void near_ties(struct search *s, struct candidate *c, int k)
{
	struct candidate from = *c, t;
	const int sums = sums_in_float32(s, &from, k);

	for (int v = 0; with_sums(s, &from, sums, v, k, &t); v++) {
		last_bits(s, &t, k);
		exponents(s, &t, k);
		log_cost(s, sums_name(v), &t, k);
		if (t.cost < c->cost) *c = t;
	}
}

/* Of an iteration, each of the best in each form and with sums added in each way: a rounding that flips is amplified, so that what decides
 * near ties shows early, but one alone may show nothing. */
void forms_and_sums(struct search *s, struct beams *b, int k)
{
	struct beam next;

	if (!beam_make(s, &next, 0)) s->failed = true;
	for (int i = 0; i < 2 * CLOSEST && next.at && !explained(b, k); i++) {
		const struct beam *by = &b->by[i % 2];
		for (int form = 0; form < s->n_form && i / 2 < by->n && !late(s); form++) {
			if (!s->graph[form][0].made) continue;
			struct candidate t = by->at[i / 2].form == form ? by->at[i / 2] : in_form(s, &by->at[i / 2], form, k);
			try(s, &t, k);
			add(&t, &next);
			each_sums(s, &t, k, &next);
		}
	}
	for (int i = 0; i < next.n && i < CLOSEST && !explained(b, k) && !late(s); i++) {
		down(s, &next.at[i], k, 0, false, b);
		log_cost(s, "ways", &next.at[i], k);
	}
	free(next.at);
}

/* ---- how exponents are made: their base, the order of their running sums, the functions in them. One that is wrong hides the others, as each
 * shifts all elements by about as much, so that single changes end where two wrong ones make up for each other. ---- */

static enum fn function_of(const struct key *k) { return (enum fn)(k->id >> 16 & 0xffffffff); }

/* outer: bases and orders of sums; inner: how the functions in them are computed */
static void exponents_of(const struct search *s, const struct candidate *c, struct list *outer, struct list *inner)
{
	uint64_t functions = s->graph[c->form][0].f.in_exponents;

	outer->n = inner->n = 0;
	for (int i = 0; i < c->met.n; i++) {
		const struct key *k = &s->keys.at[c->met.key[i]];
		bool way = k->what == W_WAY && function_of(k) < FN_COUNT && (functions >> function_of(k) & 1);
		if (k->what == W_EXP || k->what == W_SCAN) outer->key[outer->n++] = c->met.key[i];
		else if (way) inner->key[inner->n++] = c->met.key[i];
	}
}

/* c: whose errors stand in `beside` */
struct exponents { struct search *s; struct beside *beside; struct candidate c, best; struct contrast least; bool any; };

/* How far is *t from what was there? Kept where it is the nearest so far. */
static struct contrast weigh(struct exponents *x, struct candidate *t)
{
	struct score score[MAX_OUT];

	if (far_off(x->s, x->beside, &x->c, t) || !measured(x->s, t, score, x->beside->other.of)) return (struct contrast){ .all = INFINITY, .louder = true };
	struct contrast c = contrast(x->s, &x->beside->other, &x->beside->base);
	if (nearer(&c, CHOOSE_SUMS) && (!x->any || c.all < x->least.all)) x->best = *t, x->least = c, x->any = true;
	return c;
}

/* Its functions one after the other, each as it brings most elements nearer. */
static void functions(struct exponents *x, struct candidate *t, const struct list *inner)
{
	struct contrast now = weigh(x, t);

	for (int i = 0; i < inner->n; i++) {
		int key = inner->key[i], was = t->config.value[key], best = was;

		for (int v = 0; v < x->s->keys.at[key].n && !late(x->s); v++) {
			if (v == was) continue;
			t->config.value[key] = (unsigned char)v;
			struct contrast c = weigh(x, t);
			if (c.all < now.all) now = c, best = v;
		}
		t->config.value[key] = (unsigned char)best;
	}
}

void settle_exponents(struct search *s, struct candidate *c, struct beside *b)
{
	struct exponents x = { .s = s, .beside = b, .c = *c };
	struct list outer, inner;
	struct score score[MAX_OUT];
	int all = 1;

	exponents_of(s, c, &outer, &inner);
	for (int i = 0; i < outer.n; i++) all *= s->keys.at[outer.key[i]].n;
	for (int i = 0; i < all && outer.n + inner.n > 1 && !late(s); i++) {
		struct candidate t = *c;
		for (int j = 0, rest = i; j < outer.n; rest /= s->keys.at[outer.key[j]].n, j++)
			t.config.value[outer.key[j]] = (unsigned char)((c->config.value[outer.key[j]] + rest) % s->keys.at[outer.key[j]].n);
		round_nothing_new(s, c, &t, s->n_stage - 1);
		exponents_of(s, &t, &(struct list){ 0 }, &inner);
		functions(&x, &t, &inner);
	}
	if (!x.any || !measured(s, &x.best, score, b->other.of)) return;
	try(s, &x.best, s->n_stage - 1);
	*c = x.best;
	beside_take(b);
}
