/* Where a search begins: the formula with all of a kind rounded alike, and what the op's file knows. */
#include <math.h>

#include "beam.h"

void set_defaults(struct search *s, struct candidate *c, const int types[3])
{
	static const int value[] = { [IN_F32] = 0, [IN_BF16] = 1, [IN_F16] = 2, [IN_TF32] = 3 };

	for (int i = 0; i < 3; i++) {
		int kind = CHOOSE_OPERAND + i, k = key_find(&s->keys, key_id(c->form, kind, W_EVERY, 0), CHOOSE_DEFAULT, W_EVERY, i ? 3 : 4, -1);
		if (k >= 0) c->config.value[k] = (unsigned char)value[types[i]];
	}
}

bool by_token(const struct search *s, int form)
{
	const struct program_loop *l = s->graph[form][0].f.loop;

	return l && l->chunk < 0;
}

/* Is the form's best start far behind another form's? */
static bool hopeless(const struct beams *b, int form)
{
	double own = 1e9;

	for (int m = 0; m < 2; m++)
		for (int i = 0; i < b->by[m].n; i++)
			if (b->by[m].at[i].form == form) own = fmin(own, b->by[m].at[i].energy);
	return b->by[0].n && own > 2 * b->by[0].at[0].energy + 1e-4;
}

static struct candidate in_chunk(struct search *s, const struct candidate *c, int v, int k)
{
	struct candidate t = *c;

	t.config.value[s->chunk_key[c->form]] = (unsigned char)v;
	try(s, &t, k);
	return t;
}

void in_chunks(struct search *s, struct candidate *c, int k)
{
	for (int v = 0; v < s->n_chunk[c->form] && s->chunk_key[c->form] >= 0 && !late(s); v++) {
		struct candidate t = in_chunk(s, c, v, k);
		if (t.cost < c->cost) *c = t;
	}
}

/* The same, in each size also with one of its sums in a type of 16 bits, which shows in chunks of the right size alone. */
static void in_chunks_and_sums(struct search *s, struct candidate *c, int k)
{
	const struct candidate from = *c;

	in_chunks(s, c, k);
	for (int v = 0; v < s->n_chunk[c->form] && s->chunk_key[c->form] >= 0; v++) {
		const struct candidate in = in_chunk(s, &from, v, k);
		for (int i = 0; i < in.met.n; i++)
			for (int how = 1; s->keys.at[in.met.key[i]].what == W_NARROW && s->keys.at[in.met.key[i]].def >= 0 && how < NARROW_SUMS && !late(s); how++) {
				struct candidate t = in;
				t.config.value[in.met.key[i]] = (unsigned char)how;
				try(s, &t, k);
				if (t.cost < c->cost) *c = t;
			}
	}
}

/* Where another form explains the stage, this one with its choices: more of the call may tell them apart. */
static void as_explained(struct search *s, struct beams *b, struct candidate *c, int k)
{
	struct candidate t = in_form(s, &b->by[1].at[0], c->form, k);

	add_to_both(t.cost < c->cost ? &t : c, b);
}

void starts_of(struct search *s, struct beams *b, int k, int from, int to, bool slow)
{
	s->push = false;
	for (int i = from; i < to; i++) {
		for (int form = 0; form < s->n_form && !late(s); form++) {
			bool done = explained(b, k);
			if (!s->graph[form][0].made || by_token(s, form) != slow || (i && done)) continue;
			struct candidate c = { .form = form };
			set_defaults(s, &c, every[i]);
			struct candidate t = c;
			try(s, &c, k);
			if (i) in_chunks_and_sums(s, &c, k);
			if (i && hopeless(b, form) && c.energy > b->by[0].at[0].energy) continue;
			double all = share_budget(s, 1.0 / (to - i));
			if (!done) down(s, &c, k, 1, false, b);
			else as_explained(s, b, &c, k);
			if (!done && !explained(b, k)) down(s, &t, k, 0, false, b);
			all_budget(s, all);
			log_cost(s, "start", &c, k);
		}
	}
	s->push = true;
}

/* Forms by token last, which take longest. */
void starts(struct search *s, struct beams *b, int k, int from, int to)
{
	starts_of(s, b, k, from, to, false);
	starts_of(s, b, k, from, to, true);
}

/* Forms by token not before the others lead nowhere. */
void first_tokens(struct search *s, struct beams *b, int k)
{
	starts_of(s, b, k, 0, USUAL, false);
	bool far = !b->by[1].n || b->by[1].at[0].cost > on_its_way;
	if (far) starts_of(s, b, k, 0, USUAL, true);
	through(s, b, k);
	if (far) return;
	bool done = explained(b, k);
	starts_of(s, b, k, 0, USUAL, true);
	if (!done) through(s, b, k);
}

/* What the candidate has a name for is rounded as the plan says; how many sites of the plan's it has. */
static int try_as(struct search *s, struct candidate *c, const struct plan *p, int k)
{
	uint64_t sites = 0;

	try(s, c, k);
	for (int j = 0; j < c->met.n; j++) {
		if (c->met.site[j] < 0 || !p->round[c->met.site[j]].on) continue;
		round_as(s, c, c->met.key[j], &p->round[c->met.site[j]]);
		sites |= UINT64_C(1) << c->met.site[j];
	}
	try(s, c, k);
	return __builtin_popcountll(sites);
}

/* Which values there are to round hangs on where factors stand: each choice of structure by which there are more of the plan's sites, or the
 * cost is less, twice. */
static void arrange_as(struct search *s, struct candidate *c, const struct plan *p, int k)
{
	int sites = try_as(s, c, p, k);

	for (int i = 0; i < 2 * c->met.n && !late(s); i++) {
		int key = c->met.key[i % c->met.n];
		for (int v = 0; v < s->keys.at[key].n && s->keys.at[key].kind == CHOOSE_FORM; v++) {
			struct candidate t = *c;
			t.config.value[key] = (unsigned char)v;
			int n = try_as(s, &t, p, k);
			if (n > sites || (n == sites && t.cost < c->cost)) *c = t, sites = n;
		}
	}
}

/* Of what the op's file knows: each structure of its contracts. */
void known_starts(struct search *s, struct beams *b, int k)
{
	s->push = false;
	for (const struct contract *known = s->call->op->contracts; known->name && !explained(b, k); known++)
		for (int i = 0; i < contract_structures(known) && !late(s); i++) {
			struct candidate c = { .form = known->form };
			struct plan p = plan_plain(&arith_f64, arith_f64.precision);
			if (!s->graph[c.form][0].made) continue;
			plan_structure(&p, known, i);
			set_defaults(s, &c, every[0]);
			arrange_as(s, &c, &p, k);
			log_cost(s, "known", &c, k);
			down(s, &c, k, 1, false, b);
			log_cost(s, "known", &c, k);
		}
	s->push = true;
}

/* As the other call told, what it has more of as it is; the choices that are new are listed. */
static void as_known(struct search *s, struct candidate *c, const struct structure_choices *known, int k, struct list *new)
{
	for (bool more = true; more && !late(s);) {
		more = false;
		new->n = 0;
		try(s, c, k);
		for (int i = 0; i < c->met.n; i++) {
			int key = c->met.key[i], j = 0;
			while (j < known->n && known->at[j].id != s->keys.at[key].id) j++;
			if (j == known->n) new->key[new->n++] = key;
			else if (c->config.value[key] != known->at[j].value) c->config.value[key] = known->at[j].value, more = true;
		}
	}
}

/* Forms that the other call could not tell from the one it was read in. */
static void as_known_in_others(struct search *s, struct beams *b, const struct candidate *told, int k)
{
	for (int form = 0; form < s->n_form && !explained(b, k) && !late(s); form++) {
		if (form == told->form || !s->graph[form][0].made) continue;
		struct candidate t = in_form(s, told, form, k);
		down(s, &t, k, 1, false, b);
		log_cost(s, "known kernel", &t, k);
	}
}

void from_known(struct search *s, struct beams *b, int k)
{
	const struct structure_choices *known = s->how->known;
	struct list new;

	for (int i = 0; i < STARTS && s->graph[known->form][0].made && !explained(b, k) && !late(s); i++) {
		struct candidate c = { .form = known->form };
		for (int j = 0; j < known->n; j++)
			if (s->chunk_key[c.form] >= 0 && s->keys.at[s->chunk_key[c.form]].id == known->at[j].id) c.config.value[s->chunk_key[c.form]] = known->at[j].value;
		set_defaults(s, &c, every[i]);
		as_known(s, &c, known, k, &new);
		log_cost(s, "known kernel", &c, k);
		const struct candidate as_told = c;
		add_to_both(&c, b);
		steepest(s, &c, k, &new);
		log_cost(s, "what is new", &c, k);
		down(s, &c, k, 1, false, b);
		log_cost(s, "known kernel", &c, k);
		if (!i) as_known_in_others(s, b, &as_told, k);
	}
}
