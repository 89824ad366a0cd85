/* The order of the search: starts, the first tokens in several ways, then more and more of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "search.h"

/* The cost below which stage k is explained, of which each stage up to it is a part. */
static double found(int k) { return 1e-2 * (k + 1); }

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

/* ---- a beam: the best few, each with every other choice of structure, the best few of those ---- */

enum { MAX_BEAM = 12 };
struct beam { int n, width; struct candidate *at; struct search *s; };

/* In order of cost; of one form one of those that compute the same. */
static void add(struct candidate *t, void *with)
{
	struct beam *b = with;
	int i = b->n;

	for (int j = 0; j < b->n; j++)
		if (b->at[j].form == t->form && fabs(b->at[j].cost - t->cost) <= 1e-9 * t->cost) return;
	if (i == b->width && t->cost >= b->at[i - 1].cost) return;
	if (i == b->width) i--;
	else b->n++;
	for (; i > 0 && b->at[i - 1].cost > t->cost; i--) b->at[i] = b->at[i - 1];
	b->at[i] = *t;
}

static void widen(struct search *s, struct beam *b, int k, int rounds)
{
	struct beam next = { .width = b->width, .s = s, .at = calloc((size_t)b->width + 1, sizeof *next.at) };
	int idle = 0;

	if (!next.at) s->failed = true;
	for (int r = 0; r < rounds && idle < 2 && next.at && !late(s) && b->at[0].cost > found(k); r++) {
		double best = b->at[0].cost;
		next.n = 0;
		while (b->n > 1 && b->at[b->n - 1].cost > 5 * best + 0.02) b->n--;
		for (int i = 0; i < b->n; i++) add(&b->at[i], &next);
		for (int i = 0; i < b->n && !late(s); i++) expand(s, &b->at[i], k, add, &next);
		for (int i = 0; i < next.n && i < 3; i++) {
			struct candidate t = next.at[i];
			descend(s, &t, k, false);
			add(&t, &next);
		}
		b->n = next.n;
		memcpy(b->at, next.at, (size_t)next.n * sizeof *next.at);
		log_cost(s, "beam", &b->at[0], k);
		idle = b->at[0].cost > best * 0.99 ? idle + 1 : 0;
	}
	free(next.at);
}

/* What other stages keep is not asked for again. */
static void forget_others(struct search *s, int stage)
{
	for (int f = 0; f < MAX_FORM; f++)
		for (int c = 0; c < MAX_BY; c++)
			for (int k = 0; k < s->n_stage; k++)
				if (k != stage && s->graph[f][c].view[k].made) evaluator_clear(&s->graph[f][c].view[k].v);
}

/* Through one stage: by one measure, and where it is stuck, by the other; then more widely. */
static void through(struct search *s, struct beam *b, int k)
{
	forget_others(s, k);
	for (int i = 0; i < b->n; i++) try(s, &b->at[i], k);
	qsort(b->at, (size_t)b->n, sizeof *b->at, cheaper);
	for (int go = 0; go < 2 && b->at[0].cost > found(k) / 10 && !late(s); go++) {
		struct candidate t = b->at[0];
		s->mix = 1 - go % 2;
		descend(s, &t, k, t.cost > found(k) && k);
		s->mix = 1;
		try(s, &t, k);
		add(&t, b);
	}
	if (b->at[0].cost > found(k)) widen(s, b, k, k ? 2 : 12);
	log_cost(s, "leading", &b->at[0], k);
}

enum { MAX_START = 4 * MAX_FORM };

/* Is the form's best start far behind another form's? */
static bool hopeless(const struct candidate *to, int n, int form)
{
	double own = 1e9, other = 1e9;

	for (int i = 0; i < n; i++) {
		double *x = to[i].form == form ? &own : &other;
		*x = fmin(*x, to[i].cost);
	}
	return own > 1.5 * other;
}

static int starts(struct search *s, struct candidate *to)
{
	static const int every[][3] = { { 0, 0, 0 }, { 1, 0, 0 }, { 1, 1, 1 } };
	int n = 0;

	s->push = false;
	for (int i = 0; i < 3; i++) {
		for (int f = 0; f < s->n_form; f++) {
			bool done = false;
			for (int j = 0; j < n; j++) done = done || to[j].cost < 1e-3;
			if (!s->graph[f][0].made || (i && (done || hopeless(to, n, f)))) continue;
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

/* How exponents are made is one choice of several parts, each of which is lost in near ties alone. */
static void exponents(struct search *s, struct candidate *c, int k)
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

/* Of a form whose chunks are no tokens the first pieces may all lie in one: the size that does best on all of them. */
static void in_chunks(struct search *s, struct candidate *c, int k)
{
	for (int v = 0; v < s->n_chunk[c->form] && s->chunk_key[c->form] >= 0 && !late(s); v++) {
		struct candidate t = *c;
		t.config.value[s->chunk_key[c->form]] = (unsigned char)v;
		try(s, &t, k);
		if (t.cost < c->cost) *c = t;
	}
}

/* Best first, but forms by token last, which take longest: another form only where it may do better than what is found. */
static void finish(struct search *s, const struct beam *b, struct candidate *best, int last)
{
	forget_others(s, last);
	for (int by_token = 0; by_token < 2; by_token++) {
		for (int f = 0; f < s->n_form; f++) {
			int i = 0;
			const struct program_loop *l = s->graph[f][0].f.loop;
			while (i < b->n && b->at[i].form != f) i++;
			if (i == b->n || (l && l->chunk < 0) != by_token) continue;
			struct candidate c = b->at[i];
			log_cost(s, "all", &c, last);
			if (best->cost < 1e9 && c.cost < 3 * best->cost + 0.05) s->rival = f;
			if (c.cost > best->cost) continue;
			descend(s, &c, last, false);
			if (c.cost > found(last)) descend(s, &c, last, true);
			if (c.cost < 0.1 * s->n_stage) exponents(s, &c, last);
			if (c.cost >= best->cost) continue;
			if (best->cost < 3 * c.cost + 0.05) s->rival = best->form;
			*best = c;
		}
	}
}

/* Where the first tokens are not explained: from other defaults, each with its own neighbours. */
static void start_anew(struct search *s, struct beam *b)
{
	static const int every[][3] = { { 1, 0, 1 }, { 1, 1, 0 }, { 0, 1, 0 }, { 0, 0, 1 }, { 2, 0, 0 } };

	for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
		struct candidate c = { .form = b->at[0].form };
		if (late(s)) return;
		set_default(s, &c, CHOOSE_OPERAND, every[i][0]);
		set_default(s, &c, CHOOSE_NAME, every[i][1]);
		set_default(s, &c, CHOOSE_INNER, every[i][2]);
		descend(s, &c, 0, true);
		log_cost(s, "anew", &c, 0);
		add(&c, b);
	}
	through(s, b, 0);
}

void find_structure(struct search *s, struct candidate *best)
{
	struct candidate *cand = calloc(MAX_START + 1, sizeof *cand);
	struct beam b = { .width = 6, .s = s, .at = calloc(MAX_BEAM, sizeof *b.at) };
	int last = s->n_stage - 1, n;

	best->cost = 1e9;
	if (!cand || !b.at) {
		s->failed = true;
		free(cand);
		free(b.at);
		return;
	}
	n = starts(s, cand);
	for (int i = 0; i < n; i++) add(&cand[i], &b);
	for (int k = 0; k < last || (k == 0 && !last); k++) {
		through(s, &b, k);
		if (k == 0 && b.at[0].cost > found(0)) start_anew(s, &b);
	}
	for (; b.n > 1 && b.at[b.n - 1].cost > 3 * b.at[0].cost + 0.01; b.n--) {}
	for (int i = 0; i < b.n; i++) try(s, &b.at[i], last), in_chunks(s, &b.at[i], last);
	qsort(b.at, (size_t)b.n, sizeof *b.at, cheaper);
	finish(s, &b, best, last);
	log_cost(s, "whole", best, last);
	free(cand);
	free(b.at);
}
