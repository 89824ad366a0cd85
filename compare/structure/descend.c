/* One choice after the other; a choice of structure takes what is near along. */
#include <math.h>

#include "search.h"

static const double tolerance = 5e-3;   /* an improvement is more than this part of the cost */

bool is_rounding(const struct key *k) { return k->what == W_OPERAND || k->what == W_NAME || k->what == W_INNER; }

static int value_of_default(const struct search *s, const struct candidate *c, enum choice_kind kind)
{
	uint64_t id = key_id(c->form, (int)kind, W_EVERY, 0);

	for (int i = 0; i < s->keys.n; i++)
		if (s->keys.at[i].id == id) return c->config.value[i];
	return 0;
}

int type_of(const struct search *s, const struct candidate *c, int key, int value)
{
	static const int of_default[] = { IN_F32, IN_BF16, IN_F16, IN_TF32 };
	const struct key *k = &s->keys.at[key];

	return !is_rounding(k) || value ? value : of_default[value_of_default(s, c, k->kind)];
}

static bool met(const struct candidate *c, int key)
{
	for (int i = 0; i < c->met.n; i++)
		if (c->met.key[i] == key) return true;
	return false;
}

static bool same_effect(const struct search *s, const struct candidate *c, int key, int value)
{
	int was = c->config.value[key];

	return value == was || (is_rounding(&s->keys.at[key]) && type_of(s, c, key, value) == type_of(s, c, key, was));
}

/* Chunks that are longer than the stage compute alike. */
static bool matters(const struct search *s, const struct candidate *c, int k, int key, int value)
{
	size_t tokens = s->stage[k];

	const struct graph *g = &s->graph[c->form][0];
	if (s->keys.at[key].what != W_CHUNK || !over_tokens(g->program, g->f.loop)) return true;
	return s->chunk[c->form][value] < tokens || s->chunk[c->form][c->config.value[key]] < tokens;
}

struct list { int n, key[MAX_KEY]; };

static void coordinate(struct search *s, struct candidate *c, int k, const struct list *keys)
{
	for (int i = 0; i < keys->n; i++) {
		int key = keys->key[i];
		for (int v = 0; v < s->keys.at[key].n && met(c, key); v++) {
			if (same_effect(s, c, key, v) || !matters(s, c, k, key, v) || late(s)) continue;
			struct candidate t = *c;
			t.config.value[key] = (unsigned char)v;
			try(s, &t, k);
			if (t.cost < c->cost * (1 - tolerance)) *c = t;
		}
	}
}

/* defaults first, then structure, then sites, from the operands to the innermost */
static void in_order(const struct search *s, const struct candidate *c, struct list *l)
{
	l->n = 0;
	for (int kind = 0; kind < CHOICE_KINDS; kind++)
		for (int i = 0; i < c->met.n; i++)
			if ((int)s->keys.at[c->met.key[i]].kind == kind) l->key[l->n++] = c->met.key[i];
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
		if (j != key && (!met(old, j) || d == def || named)) l->key[l->n++] = j;
	}
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
	struct list forms = { 0 }, l;

	for (int i = 0; i < c->met.n; i++)
		if (s->keys.at[c->met.key[i]].kind == CHOOSE_FORM) forms.key[forms.n++] = c->met.key[i];
	for (int i = 0; i < forms.n; i++) {
		int key = forms.key[i];
		for (int v = 0; v < s->keys.at[key].n && met(c, key); v++) {
			if (v == c->config.value[key] || !matters(s, c, k, key, v) || late(s)) continue;
			struct candidate t = *c;
			t.config.value[key] = (unsigned char)v;
			try(s, &t, k);
			if (t.cost > c->cost * 50 + 1 || (to && t.cost == c->cost)) continue;
			neighbours(s, c, &t, key, &l);
			coordinate(s, &t, k, &l);
			if (to) to(&t, with);
			else if (t.cost < c->cost * (1 - tolerance)) *c = t;
		}
	}
}

void descend(struct search *s, struct candidate *c, int k, bool wide)
{
	struct list l;

	try(s, c, k);
	for (int sweep = 0; sweep < 4 && !late(s); sweep++) {
		double before = c->cost;
		struct candidate was = *c;
		in_order(s, c, &l);
		coordinate(s, c, k, &l);
		l.n = 0;
		for (int i = 0; i < c->met.n; i++)
			if (!met(&was, c->met.key[i])) l.key[l.n++] = c->met.key[i];
		coordinate(s, c, k, &l);
		if (s->push) push(s, c, k);
		if (c->cost > before * 0.98) break;
	}
	if (wide) expand(s, c, k, NULL, NULL);
}
