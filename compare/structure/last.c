/* When all else is found, what decides near ties: how functions are computed, and how the sums of products are added. */
#include "search.h"

static void of_what(const struct search *s, const struct candidate *c, enum what what, struct list *l)
{
	l->n = 0;
	for (int i = 0; i < c->met.n; i++)
		if (s->keys.at[c->met.key[i]].what == what) l->key[l->n++] = c->met.key[i];
}

void last_bits(struct search *s, struct candidate *c, int k)
{
	struct list l;

	of_what(s, c, W_WAY, &l);
	steepest(s, c, k, &l);
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
