/* Every change at once with every other, and every change alone. */
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "search.h"

static bool in_pairs(const struct search *s, const struct candidate *c, enum pairs of, int key, int value)
{
	const struct key *x = &s->keys.at[key];
	const bool last = x->kind >= CHOOSE_LAST;
	const int narrow = value_of_default(s, c, CHOOSE_OPERAND) == 2 ? IN_F16 : IN_BF16;

	if (of == PAIRS_LAST) return last;
	return !last && (!is_rounding(x) || value == narrow || value == IN_F32);
}

/* n: at most two */
static void try_each(struct search *s, struct candidate *t, int n, int k)
{
	if (n == 2) try_both(s, &t[0], &t[1], k);
	else if (n) try(s, t, k);
}

/* Does it add a sum otherwise than c? */
static bool sums_changed(const struct search *s, const struct candidate *c, const struct candidate *t)
{
	for (int i = 0; i < t->met.n; i++) {
		const int key = t->met.key[i];
		if (s->keys.at[key].what == W_SUMS && t->config.value[key] != c->config.value[key]) return true;
	}
	return false;
}

void two_at_once(struct search *s, const struct candidate *c, int k, enum pairs of, const struct list *among, void (*to)(struct candidate *t, void *with), void *with)
{
	struct change *step = malloc(MAX_STEPS * sizeof *step);
	const uint64_t order = s->order;
	struct list l = { .n = c->met.n };
	int n = 0;

	s->failed = s->failed || !step;
	memcpy(l.key, c->met.key, (size_t)l.n * sizeof *l.key);
	if (among) l = *among;
	s->order = random_mix(1);
	const int all = step ? steps_of(s, c, k, &l, step) : 0;
	s->order = order;
	for (int i = 0; i < all; i++)
		if (in_pairs(s, c, of, step[i].key, step[i].value)) step[n++] = step[i];
	for (int apart = 1; apart < n; apart++)
		for (int i = 0; i + apart < n && !late(s); i += 2) {
			const struct change *x[] = { &step[i], &step[i + 1] }, *y[] = { x[0] + apart, x[1] + apart };
			struct candidate t[2];
			int m = 0;
			for (int j = 0; j < 2 && i + j + apart < n; j++) {
				if (x[j]->key == y[j]->key) continue;
				t[m] = with_change(c, x[j]);
				t[m++].config.value[y[j]->key] = (unsigned char)y[j]->value;
			}
			try_each(s, t, m, k);
			for (int j = 0; j < m; j++) {
				if (sums_changed(s, c, &t[j])) onto(s, &t[j], k);
				to(&t[j], with);
			}
		}
	free(step);
}

void one_at_once(struct search *s, const struct candidate *c, int k, const struct list *among, void (*to)(struct candidate *t, void *with), void *with)
{
	struct change *step = malloc(MAX_STEPS * sizeof *step);
	const int n = step ? steps_of(s, c, k, among, step) : 0;

	s->failed = s->failed || !step;
	for (int i = 0; i < n && !late(s); i += 2) {
		struct candidate t[2] = { with_change(c, &step[i]) };
		const int m = i + 1 < n ? 2 : 1;
		if (m > 1) t[1] = with_change(c, &step[i + 1]);
		try_each(s, t, m, k);
		for (int j = 0; j < m; j++) to(&t[j], with);
	}
	free(step);
}
