/* The best few candidates of a search, and what is made of them at one stage. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam.h"

/* The cost below which stage k is explained, of which each stage up to it is a part. */
double found(int k) { return 1e-2 * (k + 1); }

void log_cost(const struct search *s, const char *what, const struct candidate *c, int k)
{
	if (s->log)
		fprintf(s->log, "  %-8s form %d, %zu tokens, %d turns: %.5f, energy %.5f, %zu tries, %.2f G operations\n", what, c->form, s->stage[k], s->rounded[k], c->energy + c->bits,
			c->energy, s->tries, s->work * 1e-9);
}

/* From now on the search is late after that share of the budget that is left; returns what it had. */
double share_budget(struct search *s, double share)
{
	const double all = s->budget, gone = used(s);

	s->budget = gone + fmax(0, all - gone) * share;
	return all;
}

void all_budget(struct search *s, double all)
{
	s->budget = all;
	s->stopped = false;
	late(s);
}

/* ---- the best few, by energy (mix 0), which tells more where much is missing, and with the bits that are lost (1), which do where little is ---- */

static double worth(const struct beam *b, const struct candidate *c) { return c->energy + b->mix * c->bits; }

bool beam_make(const struct search *s, struct beam *b, double mix)
{
	*b = (struct beam){ 0, s->n_form > WIDTH ? s->n_form : WIDTH, mix, calloc(WIDEST + 1, sizeof *b->at) };
	return b->at;
}

bool beams_make(struct search *s, struct beams *b)
{
	bool energy = beam_make(s, &b->by[0], 0), bits = beam_make(s, &b->by[1], 1);

	b->iterated = s->rounded[0] > 0;
	s->failed = s->failed || !energy || !bits;
	return energy && bits;
}

void beams_free(struct beams *b)
{
	free(b->by[0].at);
	free(b->by[1].at);
}

/* In order; of one form one of those that compute the same. */
void add(struct candidate *t, void *with)
{
	struct beam *b = with;
	double w = worth(b, t);
	int i = b->n;

	for (int j = 0; j < b->n; j++)
		if (b->at[j].form == t->form && fabs(worth(b, &b->at[j]) - w) <= 1e-9 * w) return;
	if (i == b->width && w >= worth(b, &b->at[i - 1])) return;
	if (i == b->width) i--;
	else b->n++;
	for (; i > 0 && worth(b, &b->at[i - 1]) > w; i--) b->at[i] = b->at[i - 1];
	b->at[i] = *t;
}

void add_to_both(struct candidate *t, void *with)
{
	struct beams *b = with;

	add(t, &b->by[0]);
	add(t, &b->by[1]);
}

void add_beams(const struct beams *from, struct beams *to)
{
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < from->by[m].n; i++) add(&from->by[m].at[i], &to->by[m]);
}

/* Where what is left is mostly noise, all else must be explained to a tenth of what is asked otherwise. */
static bool enough(double left, double noise, int k) { return left <= found(k) || (noise > 0 && left - noise <= found(k) / 10); }

bool explained(const struct beams *b, int k)
{
	const struct beam *by = &b->by[!b->iterated];
	const double least = by->n ? worth(by, by->at) : INFINITY, noise = by->n ? by->at[0].noise : 0;

	return b->iterated ? least <= found(0) / 100 : enough(least, noise, k);
}

bool explains(const struct candidate *c, int k) { return enough(c->energy + c->bits, c->noise, k); }

/* What the beams hold, at another stage. */
void move_on(struct search *s, struct beams *b, int k)
{
	for (int m = 0; m < 2; m++) {
		struct candidate was[WIDEST];
		int n = b->by[m].n;
		memcpy(was, b->by[m].at, (size_t)n * sizeof *was);
		b->by[m].n = 0;
		for (int i = 0; i < n; i++) {
			try(s, &was[i], k);
			add(&was[i], &b->by[m]);
		}
	}
}

/* Down by that measure, and if that was energy, by both then. */
void down(struct search *s, struct candidate *t, int k, double mix, bool wide, struct beams *b)
{
	s->mix = mix;
	descend(s, t, k, wide);
	s->mix = 1;
	if (mix < 1) {
		if (b) add_to_both(t, b);
		descend(s, t, k, false);
	}
	if (b) add_to_both(t, b);
}

/* Each of the best with every other choice of structure, the best of those, and again. */
void widen(struct search *s, struct beams *b, int k, int rounds, double mix)
{
	struct beam own, next;
	bool ok = beam_make(s, &own, mix);
	int idle = 0;

	ok = beam_make(s, &next, mix) && ok;
	s->failed = s->failed || !ok;
	for (int i = 0; i < b->by[mix > 0].n && ok; i++) add(&b->by[mix > 0].at[i], &own);
	for (int r = 0; r < rounds && idle < 2 && ok && !late(s) && !explained(b, k); r++) {
		double best = worth(&own, &own.at[0]);
		next.n = 0;
		while (own.n > 1 && worth(&own, &own.at[own.n - 1]) > 5 * best + 0.02) own.n--;
		for (int i = 0; i < own.n; i++) add(&own.at[i], &next);
		s->mix = mix;
		for (int i = 0; i < own.n && !late(s); i++) {
			try(s, &own.at[i], k);
			expand(s, &own.at[i], k, add, &next);
		}
		for (int i = 0; i < next.n && i < 3 && !explained(b, k); i++) {
			struct candidate t = next.at[i];
			s->mix = mix;
			descend(s, &t, k, false);
			add(&t, &next);
			down(s, &t, k, mix, false, b);
		}
		s->mix = 1;
		own.n = next.n;
		memcpy(own.at, next.at, (size_t)next.n * sizeof *next.at);
		log_cost(s, mix > 0 ? "beam" : "energy", &own.at[0], k);
		idle = worth(&own, &own.at[0]) > best * 0.99 ? idle + 1 : 0;
	}
	s->mix = 1;
	free(own.at);
	free(next.at);
}

/* What all operands, names and parts in between are unless it is said. */
const int every[STARTS][3] = { { IN_F32, IN_F32, IN_F32 }, { IN_BF16, IN_F32, IN_F32 }, { IN_BF16, IN_BF16, IN_BF16 }, { IN_F16, IN_F32, IN_F32 },
	{ IN_TF32, IN_F32, IN_F32 }, { IN_F16, IN_F16, IN_F16 } };

bool shows(struct search *s, const struct candidate *c, int key, int k)
{
	struct candidate t = *c, u = *c;
	bool rounds = is_rounding(&s->keys.at[key]);

	t.config.value[key] = rounds ? IN_F32 : 0;
	u.config.value[key] = rounds ? IN_BF16 : 1;
	try_both(s, &t, &u, k);
	return t.cost != u.cost;
}

void new_at(struct search *s, const struct candidate *c, int k, struct list *l)
{
	struct list all;

	choices_of(s, c, &all);
	l->n = 0;
	for (int i = 0; i < all.n; i++)
		if (!k || !shows(s, c, all.key[i], k - 1)) l->key[l->n++] = all.key[i];
}

/* Down by what is new alone. */
static void down_what_is_new(struct search *s, struct candidate *c, int k, double mix, struct beams *b)
{
	struct list l;

	new_at(s, c, k, &l);
	s->mix = mix;
	try(s, c, k);
	steepest(s, c, k, &l);
	s->mix = 1;
	try(s, c, k);
	add_to_both(c, b);
}

/* What the stage shows for the first time may be much at once: each chunk size, and all that is new of one kind of type. */
static void all_that_is_new(struct search *s, struct beams *b, int k)
{
	struct beam next;
	bool new[MAX_KEY];

	if (!beam_make(s, &next, 1)) s->failed = true;
	for (int i = 0, done = 0; i < b->by[1].n && next.at && !late(s); i++) {
		struct candidate c = b->by[1].at[i];
		int chunk = s->chunk_key[c.form], n = chunk < 0 ? 1 : s->n_chunk[c.form];
		if (done >> c.form & 1) continue;
		done |= 1 << c.form;
		for (int j = 0; j < c.met.n; j++) new[c.met.key[j]] = is_rounding(&s->keys.at[c.met.key[j]]) && !shows(s, &c, c.met.key[j], k - 1);
		for (int v = 0; v < n * STARTS && !late(s); v++) {
			struct candidate t = c;
			if (chunk >= 0) t.config.value[chunk] = (unsigned char)(v / STARTS);
			for (int j = 0; j < c.met.n; j++)
				if (new[c.met.key[j]]) t.config.value[c.met.key[j]] = (unsigned char)every[v % STARTS][s->keys.at[c.met.key[j]].kind - CHOOSE_OPERAND];
			try(s, &t, k);
			add(&t, &next);
		}
	}
	for (int i = 0; i < next.n && i < 4 && !s->rounded[0] && !late(s) && !explained(b, k); i++) {
		down_what_is_new(s, &next.at[i], k, i % 2, b);
		log_cost(s, "shown", &next.at[i], k);
	}
	for (int i = 0; i < next.n && i < 4 && !late(s) && !explained(b, k); i++) {
		down(s, &next.at[i], k, i % 2, false, b);
		log_cost(s, "new", &next.at[i], k);
	}
	free(next.at);
}

/* What other stages keep is not asked for again. */
void forget_others(struct search *s, int stage)
{
	for (int f = 0; f < MAX_FORM; f++)
		for (int c = 0; c < MAX_BY; c++)
			for (int k = 0; k <= s->n_stage; k++)
				for (struct graph *g = &s->graph[f][c]; g && k != stage; g = g->next)
					for (int i = 0; i < LANES; i++)
						if (g->view[i][k].made) evaluator_clear(&g->view[i][k].v);
}

/* Is it the same choice of another form: about the same definition, of the same kind, and as many of those stand before it? */
static bool alike(const struct search *s, const struct candidate *a, int i, const struct candidate *b, int j)
{
	const struct key *x = &s->keys.at[a->met.key[i]], *y = &s->keys.at[b->met.key[j]];
	const char *const *of_a = s->graph[a->form][0].f.def_name, *const *of_b = s->graph[b->form][0].f.def_name;

	return x->what == y->what && x->kind == y->kind && x->n == y->n && (x->id & 0xffff) == (y->id & 0xffff) && (x->def < 0) == (y->def < 0)
		&& (x->def < 0 || !strcmp(of_a[x->def], of_b[y->def]));
}

static int before(const struct search *s, const struct candidate *c, int i)
{
	int n = 0;

	for (int j = 0; j < i; j++) n += alike(s, c, j, c, i);
	return n;
}

/* One choice may ask for others; so many deep they are not. */
enum { DEEPEST = 16 };
struct candidate in_form(struct search *s, const struct candidate *c, int form, int k)
{
	struct candidate t = { .form = form };
	bool more = true;

	for (int go = 0; go < DEEPEST && more && !late(s); go++) {
		try(s, &t, k);
		more = false;
		for (int i = 0; i < t.met.n; i++)
			for (int j = 0; j < c->met.n; j++) {
				if (!alike(s, &t, i, c, j) || before(s, &t, i) != before(s, c, j)) continue;
				unsigned char *to = &t.config.value[t.met.key[i]], value = c->config.value[c->met.key[j]];
				more = more || *to != value;
				*to = value;
			}
	}
	try(s, &t, k);
	return t;
}

/* Through one stage: by one measure, and where it is stuck, by the other; then what is new in it; then more widely. */
void through(struct search *s, struct beams *b, int k)
{
	forget_others(s, k);
	move_on(s, b, k);
	for (int m = 1; m >= 0 && k && !s->rounded[0] && b->by[1].at[0].cost > found(k) / 10 && !late(s); m--) {
		struct candidate t = b->by[m].at[0];
		down_what_is_new(s, &t, k, m, b);
		log_cost(s, "shown", &t, k);
	}
	if (k && !explained(b, k)) all_that_is_new(s, b, k);
	for (int m = 1; m >= 0 && b->by[1].at[0].cost > found(k) / 10 && !late(s); m--) {
		struct candidate t = b->by[m].at[0];
		down(s, &t, k, m, !k || !explained(b, k), b);
	}
	for (int mix = 0; mix < 2; mix++)
		if (!explained(b, k)) widen(s, b, k, k ? 2 : 12, mix);
	log_cost(s, "leading", &b->by[1].at[0], k);
}
