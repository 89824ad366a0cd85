/* What a change does, element by element: sign tests over those that come nearer or farther. */
#include <math.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "search.h"

bool errors_make(const struct search *s, struct errors *e)
{
	bool ok = true;

	*e = (struct errors){ 0 };
	for (int o = 0; o < MAX_OUT; o++)
		if (s->call->out_count[o]) ok = (e->of[o] = calloc(s->call->out_count[o], sizeof **e->of)) && ok;
	return ok;
}

void errors_free(struct errors *e)
{
	for (int o = 0; o < MAX_OUT; o++) free(e->of[o]);
}

bool beside_make(const struct search *s, struct beside *b)
{
	struct errors *e[] = { &b->base, &b->other, &b->glance, &b->glanced };
	bool ok = true;

	for (int i = 0; i < 4; i++) ok = errors_make(s, e[i]) && ok;
	b->seen = false;
	return ok;
}

void beside_free(struct beside *b)
{
	errors_free(&b->base);
	errors_free(&b->other);
	errors_free(&b->glance);
	errors_free(&b->glanced);
}

void beside_take(struct beside *b)
{
	struct errors e = b->base;

	b->base = b->other;
	b->other = e;
	b->seen = false;
}

bool far_off(struct search *s, struct beside *b, const struct candidate *c, const struct candidate *t)
{
	const int k = glance(s);
	struct score score[MAX_OUT];

	if (k < s->n_stage || (!b->seen && !measured_at(s, c, k, score, b->glance.of))) return false;
	b->seen = true;
	return measured_at(s, t, k, score, b->glanced.of) && contrast(s, &b->glanced, &b->glance).worst > far_at_a_glance;
}

struct contrast contrast(const struct search *s, const struct errors *a, const struct errors *base)
{
	struct contrast c = { .worst = -INFINITY };
	double up = 0, down = 0, after = 0, whole = 0;

	for (int o = 0; o < MAX_OUT; o++) {
		double u = 0, d = 0, energy = 0, before = 0;
		for (size_t i = 0; i < s->call->out_count[o]; i++) {
			double x = (double)a->of[o][i], y = (double)base->of[o][i];
			u += x > y, d += x < y;
			energy += x * x, before += y * y;
		}
		if (!s->call->out_count[o]) continue;
		c.worst = fmax(c.worst, (u - d) / sqrt(fmax(u + d, 1)));
		c.louder = c.louder || energy > much_louder * before + 1e-12;
		up += u, down += d;
		after += energy, whole += before;
	}
	c.all = (up - down) / sqrt(fmax(up + down, 1));
	c.changed = up + down;
	c.energy = after / fmax(whole, 1e-300);
	return c;
}

/* Last bits decide near ties, of which one that flips may be loud in its output. */
bool nearer(const struct contrast *c, enum choice_kind kind)
{
	bool loud = kind < CHOOSE_LAST ? c->louder : c->energy > much_louder;

	return c->all < -sign_test && c->worst < no_worse && !loud;
}

bool better(const struct contrast *c) { return nearer(c, CHOOSE_FORM); }
