/* The order of the search: starts, the first tokens in several ways, then more and more of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "search.h"

static const double found = 5e-3;       /* the cost below which a stage is explained */

static void set_default(struct search *s, struct candidate *c, enum choice_kind kind, int value)
{
	int k = key_find(&s->keys, key_id(c->form, (int)kind, W_EVERY, 0), CHOOSE_DEFAULT, W_EVERY, kind == CHOOSE_OPERAND ? 4 : 3, -1);

	if (k >= 0) c->config.value[k] = (unsigned char)value;
}

static void log_cost(const struct search *s, const char *what, const struct candidate *c, int k)
{
	if (s->log) fprintf(s->log, "  %-8s form %d, %zu tokens: %.5f, %zu tries, %.1f s\n", what, c->form, s->stage[k], c->cost, s->tries, now() - s->begin);
}

static int cheaper(const void *a, const void *b)
{
	double x = ((const struct candidate *)a)->cost, y = ((const struct candidate *)b)->cost;

	return (x > y) - (x < y);
}

/* Stuck: two or three structural choices by lot, then descent; kept if better. */
static void kicks(struct search *s, struct candidate *c, int k, int n)
{
	uint64_t random = (uint64_t)s->stage[k];

	for (int i = 0; i < n && c->cost > found && !late(s); i++) {
		struct candidate t = *c;
		int forms[MAX_KEY], m = 0;
		for (int j = 0; j < c->met.n; j++) {
			const struct key *x = &s->keys.at[c->met.key[j]];
			if (x->kind == CHOOSE_FORM && x->n > 1) forms[m++] = c->met.key[j];
		}
		for (int j = 0; j < 2 + i % 2 && m; j++) {
			int key = forms[random_next(&random) % (uint64_t)m];
			t.config.value[key] = (unsigned char)((t.config.value[key] + 1 + (int)(random_next(&random) % (uint64_t)(s->keys.at[key].n - 1 + !(s->keys.at[key].n - 1)))) % s->keys.at[key].n);
		}
		s->mix = i / 2 % 2;
		descend(s, &t, k, false);
		s->mix = 1;
		try(s, &t, k);
		if (t.cost < c->cost) *c = t;
	}
}

/* Through one stage: by one measure, and where it is stuck, by the other. */
static void through(struct search *s, struct candidate *c, int k)
{
	try(s, c, k);
	for (int go = 0; go < 3 && c->cost > 1e-4 && !(go > 1 && c->cost < found) && !late(s); go++) {
		struct candidate t = *c;
		s->mix = 1 - go % 2;
		descend(s, &t, k, c->cost > found);
		s->mix = 1;
		try(s, &t, k);
		if (t.cost < c->cost) *c = t;
	}
	kicks(s, c, k, k ? 8 : 30);
	log_cost(s, "leading", c, k);
}

enum { MAX_START = 4 * MAX_FORM };

static int starts(struct search *s, struct candidate *to)
{
	static const int every[][3] = { { 0, 0, 0 }, { 1, 0, 0 }, { 1, 1, 1 } };
	int n = 0;

	s->push = false;
	for (int i = 0; i < 3; i++) {
		for (int f = 0; f < s->n_form; f++) {
			bool done = false;
			for (int j = 0; j < n; j++) done = done || to[j].cost < 1e-3;
			if (i && done) continue;
			struct candidate *c = &to[n++];
			*c = (struct candidate){ .form = f };
			set_default(s, c, CHOOSE_OPERAND, every[i][0]);
			set_default(s, c, CHOOSE_NAME, every[i][1]);
			set_default(s, c, CHOOSE_INNER, every[i][2]);
			descend(s, c, 0, false);
			log_cost(s, "start", c, 0);
		}
	}
	s->push = true;
	qsort(to, (size_t)n, sizeof *to, cheaper);
	return n;
}

/* The first stage is cheap: several ways through it. */
static void first_stage(struct search *s, const struct candidate *from, int n, struct candidate *best)
{
	static const struct { bool push; double mix; } ways[] = { { false, 1 }, { true, 1 }, { false, 0 }, { true, 0 } };

	*best = from[0];
	for (int i = 0; i < (n < 2 ? n : 2) * 4 && from[0].cost > found; i++) {
		struct candidate c = from[i / 4];
		if (best->cost < 0.02 || now() - s->begin > 0.5 * s->seconds) break;
		for (int go = 0; go < 2; go++) {
			s->push = ways[i % 4].push;
			s->mix = ways[i % 4].mix;
			descend(s, &c, 0, true);
			s->push = true;
			s->mix = 1;
			try(s, &c, 0);
			if (c.cost < found) break;
		}
		log_cost(s, "way", &c, 0);
		if (c.cost < best->cost) *best = c;
	}
}

void find_structure(struct search *s, struct candidate *best)
{
	struct candidate *cand = calloc(MAX_START + 1, sizeof *cand), c;
	int last = s->n_stage - 1, n;

	best->cost = 1e9;
	if (!cand) {
		s->failed = true;
		return;
	}
	n = starts(s, cand + 1);
	first_stage(s, cand + 1, n, &cand[0]);
	for (int i = 0; i < 2 && i <= n; i++) {
		c = cand[i];
		for (int k = 0; k < last || (k == 0 && !last); k++) through(s, &c, k);
		if (last) try(s, &c, last);
		log_cost(s, "all", &c, last);
		if (c.cost < best->cost || i == 0) *best = c;
		if (best->cost < 0.05 || now() - s->begin > 0.6 * s->seconds) break;
	}
	descend(s, best, last, false);
	if (best->cost > 0.03 * s->n_stage) descend(s, best, last, true);
	log_cost(s, "whole", best, last);
	free(cand);
}
