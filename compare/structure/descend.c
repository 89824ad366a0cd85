/* One choice after the other; a choice of structure takes what is near along. */
#include <math.h>
#include <stdlib.h>

#include "fixtures/io/random.h"
#include "search.h"

/* An improvement is more than this part of the cost; on all of the call, where near ties are many, than a tenth of that. */
static const double tolerance = 5e-3;

static double least_gain(const struct search *s, const struct candidate *c, int k)
{
	return c->cost * (k >= s->n_stage - 1 ? tolerance / 10 : tolerance);
}

bool is_rounding(const struct key *k) { return k->what == W_OPERAND || k->what == W_NAME || k->what == W_INNER; }

int value_of_default(const struct search *s, const struct candidate *c, enum choice_kind kind)
{
	const int key = key_there(&s->keys, key_id(c->form, (int)kind, W_EVERY, 0));

	return key < 0 ? 0 : c->config.value[key];
}

int type_of(const struct search *s, const struct candidate *c, int key, int value)
{
	static const int of_default[] = { IN_F32, IN_BF16, IN_F16, IN_TF32 };
	const struct key *k = &s->keys.at[key];

	return !is_rounding(k) || value ? value : of_default[value_of_default(s, c, k->kind)];
}

bool is_met(const struct candidate *c, int key)
{
	for (int i = 0; i < c->met.n; i++)
		if (c->met.key[i] == key) return true;
	return false;
}

/* Is there nothing to try? */
static bool idle(const struct search *s, const struct candidate *c, int key, int value)
{
	int was = c->config.value[key];

	return value == was || banned(s, c, key, value) || (is_rounding(&s->keys.at[key]) && type_of(s, c, key, value) == type_of(s, c, key, was));
}

/* Chunks that are longer than the stage compute alike. */
static bool matters(const struct search *s, const struct candidate *c, int k, int key, int value)
{
	size_t tokens = s->stage[k];

	const struct graph *g = &s->graph[c->form][0];
	if (s->keys.at[key].what != W_CHUNK || !over_tokens(g->f.loop)) return true;
	return s->chunk[c->form][value] < tokens || s->chunk[c->form][c->config.value[key]] < tokens;
}

/* Where the i-th of n goes that are put in another order, one after the other. */
static int place(struct search *s, int i) { return s->order ? (int)(random_next(&s->order) % (uint64_t)(i + 1)) : i; }

int steps_of(struct search *s, const struct candidate *c, int k, const struct list *keys, struct change *to)
{
	int n = 0;

	for (int i = 0; i < keys->n; i++)
		for (int v = 0; v < s->keys.at[keys->key[i]].n && n < MAX_STEPS; v++)
			if (is_met(c, keys->key[i]) && !idle(s, c, keys->key[i], v) && matters(s, c, k, keys->key[i], v)) {
				int at = place(s, n);
				to[n] = to[at];
				to[at] = (struct change){ keys->key[i], v, -1, INFINITY };
				n++;
			}
	return n;
}

/* On all of the call: is t, with what is near the choice `key` chosen anew where there is one, clearly worse than c already at a glance? */
static bool clearly_worse(struct search *s, const struct candidate *c, const struct candidate *t, int key, int k)
{
	const int at = glance(s);
	struct candidate x = *c, y = *t;

	if (k != s->n_stage - 1 || at == k) return false;
	try(s, &x, at);
	try(s, &y, at);
	const double most = 2 * x.cost + 1e-3;
	if (y.cost > most && key >= 0) choose_near(s, &x, &y, key, at);
	return y.cost > most;
}

/* Of the changes that may gain enough the one that may gain most, but for `but`; -1: none. */
static int most_likely(const struct search *s, const struct candidate *c, int k, struct change *step, int n, int but)
{
	int best = -1;

	for (int i = 0; i < n; i++) {
		if (i == but || step[i].gain <= fmax(least_gain(s, c, k), best < 0 ? 0 : step[best].gain)) continue;
		if (is_met(c, step[i].key) && !idle(s, c, step[i].key, step[i].value)) best = i;
		else step[i].gain = 0;
	}
	return best;
}

struct candidate with_change(const struct candidate *c, const struct change *x)
{
	struct candidate t = *c;

	t.config.value[x->key] = (unsigned char)x->value;
	return t;
}

/* The step by which the cost falls most, again and again: roundings add up, so that each that is there makes the error less by its own,
 * whatever else is missing, and the largest hide the least. What fell by less before is not tried again until it is the best of what is left. */
void steepest(struct search *s, struct candidate *c, int k, const struct list *keys)
{
	struct change *step = malloc(MAX_STEPS * sizeof *step);
	int n = step ? steps_of(s, c, k, keys, step) : 0, now = 0;

	s->failed = s->failed || !step;
	for (int best; !late(s) && (best = most_likely(s, c, k, step, n, -1)) >= 0;) {
		struct change *x = &step[best], *y = x;
		struct candidate t = with_change(c, x), u;
		if (clearly_worse(s, c, &t, -1, k)) {
			x->gain = 0;
			continue;
		}
		int next = x->when == now ? -1 : most_likely(s, c, k, step, n, best);
		if (next >= 0 && step[next].when != now) y = &step[next], u = with_change(c, y);
		if (y == x) try(s, &t, k);
		else if (try_two(s, &t, &u, k)) y->gain = c->cost - u.cost, y->when = now;
		if (x->when == now || (late(s) && c->cost - t.cost > least_gain(s, c, k))) *c = t, now++, x->gain = 0;
		else x->gain = c->cost - t.cost, x->when = now;
	}
	free(step);
}

/* What a change of `key` may ask for anew: what is new, what stands in the same definition, the names that it uses. */
static void neighbours(const struct search *s, const struct candidate *old, const struct candidate *new, int key, struct list *l)
{
	int def = s->keys.at[key].def;
	const struct form_symbols *f = &s->graph[new->form][0].f;
	uint64_t uses = def >= 0 ? f->def_uses[def] : 0;

	l->n = 0;
	for (int i = 0; i < new->met.n; i++) {
		int j = new->met.key[i], d = s->keys.at[j].def;
		bool named = s->keys.at[j].what == W_NAME && d >= 0 && (uses >> d & 1);
		if (j != key && s->keys.at[j].kind != CHOOSE_SUMS && (!is_met(old, j) || d == def || named)) l->key[l->n++] = j;
	}
}

void round_nothing_new(struct search *s, const struct candidate *old, struct candidate *new, int k)
{
	bool any = false;

	try(s, new, k);
	for (int i = 0; i < new->met.n; i++) {
		int key = new->met.key[i];
		if (!is_rounding(&s->keys.at[key]) || is_met(old, key) || type_of(s, new, key, new->config.value[key]) == IN_F32) continue;
		new->config.value[key] = IN_F32;
		any = true;
	}
	if (any) try(s, new, k);
}

void choose_near(struct search *s, const struct candidate *old, struct candidate *new, int key, int k)
{
	struct list l;

	neighbours(s, old, new, key, &l);
	steepest(s, new, k, &l);
}

/* A rounded name: round where it is used instead, and each use may choose. */
static void push(struct search *s, struct candidate *c, int k)
{
	for (int i = 0; i < c->met.n; i++) {
		int key = c->met.key[i], type = type_of(s, c, key, c->config.value[key]);
		const struct key *x = &s->keys.at[key];
		if (x->what != W_NAME || x->def < 0 || (type != IN_BF16 && type != IN_F16)) continue;
		struct candidate t = *c;
		bool any = false;
		if (s->ban != -2) continue;
		t.config.value[key] = IN_F32;
		for (int j = 0; j < s->keys.n; j++) {
			if (s->keys.at[j].what != W_OPERAND || !(s->keys.at[j].reads >> x->def & 1) || s->keys.at[j].id >> 56 != (uint64_t)(unsigned)c->form) continue;
			t.config.value[j] = (unsigned char)type;
			any = true;
		}
		if (!any) continue;
		try(s, &t, k);
		if (t.cost <= c->cost * (1 + 1e-9)) *c = t;
	}
}

/* Every other choice of structure, with what is near it chosen anew: `to` is shown each; NULL: *c becomes the best of them. */
void expand(struct search *s, struct candidate *c, int k, void (*to)(struct candidate *t, void *with), void *with)
{
	struct list forms = { 0 };

	for (int i = 0; i < c->met.n; i++) {
		if (s->keys.at[c->met.key[i]].kind != CHOOSE_FORM) continue;
		int at = place(s, forms.n);
		forms.key[forms.n] = forms.key[at];
		forms.key[at] = c->met.key[i];
		forms.n++;
	}
	for (int i = 0; i < forms.n; i++) {
		int key = forms.key[i];
		for (int v = 0; v < s->keys.at[key].n && is_met(c, key); v++) {
			if (idle(s, c, key, v) || !matters(s, c, k, key, v) || late(s)) continue;
			struct candidate t = *c;
			t.config.value[key] = (unsigned char)v;
			if (clearly_worse(s, c, &t, key, k)) continue;
			try(s, &t, k);
			if (out_of_reach(c, &t) || (to && t.cost == c->cost && k)) continue;
			choose_near(s, c, &t, key, k);
			if (to) to(&t, with);
			else if (t.cost < c->cost - least_gain(s, c, k)) *c = t;
		}
	}
}

void choices_of(const struct search *s, const struct candidate *c, struct list *l)
{
	l->n = 0;
	for (int i = 0; i < c->met.n; i++)
		if (s->keys.at[c->met.key[i]].kind < CHOOSE_LAST) l->key[l->n++] = c->met.key[i];
}

void descend(struct search *s, struct candidate *c, int k, bool wide)
{
	struct list l;

	try(s, c, k);
	for (int sweep = 0; sweep < 6 && !late(s); sweep++) {
		double before = c->cost;
		choices_of(s, c, &l);
		steepest(s, c, k, &l);
		if (s->push) push(s, c, k);
		if (c->cost > before * 0.995) break;
	}
	if (wide) expand(s, c, k, NULL, NULL);
}
