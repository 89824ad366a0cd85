/* What a choice changes, element by element: with more elements nearer than farther, by 4 sigma and in no output the other way, it is taken;
 * a rounding that nothing speaks for is dropped; and what cannot be told apart stays open. */

#include "compare/limits/limits.h"
#include "beam.h"

struct polishing { struct search *s; struct candidate *c; struct beside b; struct open_list open; };

static void take(struct polishing *p, const struct candidate *t)
{
	beside_take(&p->b);
	*p->c = *t;
}

/* A product is spread over a sum as it was: factors on what is multiplied, and what is near chosen anew. */
static void spread_over(struct search *s, const struct candidate *old, struct candidate *new, int key)
{
	new_factors_on_results(s, old, new);
	try(s, new, s->n_stage - 1);
	choose_near(s, old, new, key, s->n_stage - 1);
}

/* Is it what is chosen, or what an earlier value means too? */
static bool said_already(const struct search *s, const struct candidate *c, int key, int v)
{
	int was = c->config.value[key];
	bool same = v == was;

	for (int w = 0; w < s->keys.at[key].n && is_rounding(&s->keys.at[key]); w++)
		same = same || ((w < v || w == was) && w != v && type_of(s, c, key, w) == type_of(s, c, key, v));
	return same;
}

/* Takes a better value, or a simpler one that is no worse; else says which are as good. Did anything change? */
static bool settle(struct polishing *p, int key)
{
	struct search *s = p->s;
	const struct key *k = &s->keys.at[key];
	struct score score[MAX_OUT];
	struct open_choice open = { .key = key };
	bool moved = false;

	for (int v = 0; v < k->n && is_met(p->c, key) && !late(s); v++) {
		if (k->what == W_SUMS && sums_of_half(v) && !products(s, p->c, true)) continue;
		if (said_already(s, p->c, key, v)) continue;
		struct candidate t = *p->c;
		t.config.value[key] = (unsigned char)v;
		if (k->kind == CHOOSE_FORM) round_nothing_new(s, p->c, &t, s->n_stage - 1);
		if (k->what == W_DISTRIBUTED) spread_over(s, p->c, &t, key);
		if (k->kind < CHOOSE_LAST && far_off(s, &p->b, p->c, &t)) continue;      /* of near ties too few are seen there */
		if (!measured(s, &t, score, p->b.other.of)) return false;
		struct contrast c = contrast(s, &p->b.other, &p->b.base);
		bool simpler = is_rounding(k) && type_of(s, p->c, key, v) == IN_F32;
		if (nearer(&c, k->kind) || (simpler && c.worst < sign_test && !c.louder)) {
			try(s, &t, s->n_stage - 1);
			take(p, &t);
			moved = true;
			open.n = 0;
		} else if (c.worst < sign_test && !c.louder && open.n < MAX_OPEN) {
			open.same[open.n] = c.changed == 0;
			open.value[open.n++] = (unsigned char)v;
		}
	}
	if (open.n) p->open.at[p->open.n++] = open;
	return moved;
}

/* Each of these choices in turn. */
static bool settle_all(struct polishing *p, const struct list *keys)
{
	bool moved = false;

	p->open.n = 0;
	for (int i = 0; i < keys->n && !p->s->failed; i++) moved = settle(p, keys->key[i]) || moved;
	return moved;
}

/* All that is chosen but how sums of products are added. */
static void chosen(const struct search *s, const struct candidate *c, struct list *l)
{
	l->n = 0;
	for (int i = 0; i < c->met.n; i++) {
		const struct key *k = &s->keys.at[c->met.key[i]];
		if (k->kind != CHOOSE_DEFAULT && k->kind != CHOOSE_SUMS) l->key[l->n++] = c->met.key[i];
	}
}

static void also(struct list *l, int key)
{
	if (!list_has(l, key)) l->key[l->n++] = key;
}

/* The way of adding up products with which most elements come nearer, if any do. */
static bool take_sums(struct polishing *p)
{
	struct search *s = p->s;
	struct candidate from = *p->c, best;
	struct score score[MAX_OUT];
	double least = 0;
	const int key = key_about(s, &from, W_SUMS);

	if (key < 0) return false;
	factors_on_results(s, &from, s->n_stage - 1);
	bool half = products(s, &from, true);
	for (int v = 1; sums_name(v) && !late(s); v++) {
		struct candidate t = from;
		t.config.value[key] = (unsigned char)v;
		if ((sums_of_half(v) && !half) || !measured(s, &t, score, p->b.other.of)) continue;
		struct contrast x = contrast(s, &p->b.other, &p->b.base);
		if (!nearer(&x, CHOOSE_SUMS) || x.all > least) continue;
		best = t;
		least = x.all;
	}
	if (least == 0 || !measured(s, &best, score, p->b.other.of)) return false;
	try(s, &best, s->n_stage - 1);
	take(p, &best);
	return true;
}

static void also_open(struct list *l, const struct open_list *open)
{
	for (int i = 0; i < open->n; i++) also(l, open->at[i].key);
}

/* How sums are added, with what is new then; then what was open may be no longer. */
static void settle_sums(struct polishing *p)
{
	struct search *s = p->s;
	struct candidate before = *p->c;
	struct list open = { 0 }, l = { 0 };
	bool moved = true;

	if (late(s) || !take_sums(p)) return;
	settle_exponents(s, p->c, &p->b);
	also_open(&open, &p->open);
	for (int sweep = 0; sweep < 3 && moved && !s->failed && !late(s); sweep++) {
		l.n = 0;
		for (int i = 0; i < p->c->met.n; i++) {
			const struct key *k = &s->keys.at[p->c->met.key[i]];
			bool new = k->kind != CHOOSE_DEFAULT && !is_met(&before, p->c->met.key[i]);
			if (k->what != W_SUMS && (k->kind >= CHOOSE_LAST || new)) also(&l, p->c->met.key[i]);
		}
		moved = settle_all(p, &l);
	}
	l.n = 0;
	also_open(&l, &p->open);
	for (int i = 0; i < open.n; i++) also(&l, open.key[i]);
	for (int i = 0; i < p->c->met.n; i++)
		if (s->keys.at[p->c->met.key[i]].what == W_SUMS) also(&l, p->c->met.key[i]);
	settle_all(p, &l);
	log_cost(s, "sums", p->c, s->n_stage - 1);
}

void polish(struct search *s, struct candidate *c, struct open_list *open)
{
	struct polishing p = { .s = s, .c = c };
	struct score score[MAX_OUT];
	struct list l;
	bool ok = beside_make(s, &p.b), moved = true;

	try(s, c, s->n_stage - 1);
	ok = ok && measured(s, c, score, p.b.base.of);
	for (int sweep = 0; sweep < 3 && ok && moved && !late(s); sweep++) {
		chosen(s, c, &l);
		moved = settle_all(&p, &l);
		ok = !s->failed;
	}
	log_cost(s, "polished", c, s->n_stage - 1);
	if (ok) settle_sums(&p);
	if (!ok) s->failed = true;
	beside_free(&p.b);
	*open = p.open;
}
