/* What a choice changes, element by element: with more elements nearer than farther, by 4 sigma and in no output the other way, it is taken;
 * a rounding that nothing speaks for is dropped; and what cannot be told apart is said. */
#include <math.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "beam.h"

static const char *const what_text[] = { [W_CHUNK] = "chunks", [W_EVERY] = "every", [W_OPERAND] = "operand", [W_NAME] = "value",
	[W_INNER] = "part", [W_DISTRIBUTED] = "product spread over the sum", [W_ORDER] = "order of products", [W_PLACE] = "place of a factor",
	[W_FUSED] = "fused multiply-add", [W_CONJUGATED] = "decay behind the inverse", [W_UNDECAYED] = "an inverse without decay", [W_EXP] = "base of exponentials", [W_SCAN] = "order of running sums",
	[W_BASE] = "blocks inverted alone", [W_STORE] = "inverse stored", [W_COLUMNS] = "order of merges", [W_HIGH] = "operands of merges",
	[W_LOW] = "operands of lower merges", [W_HALVES] = "last merge in halves", [W_PAIR] = "order of factors", [W_NARROW] = "type of a sum",
	[W_WARPS] = "warps of a sum", [W_GIVEN] = "exponent as given", [W_WIDE] = "operations more precise than float32", [W_WAY] = "last bits of a function",
	[W_SUMS] = "sums of products", [W_ONTO] = "sum goes on from the others", [W_ALONE] = "fused multiply-adds of blocks inverted alone", [W_UNSCALED] = "a product before its factor",
	[W_OVER] = "quotients", [W_ELEMENTS_F16] = "product by elements", [W_ELEMENTS_BF16] = "product by elements",
	[W_THREADS] = "threads of a sum" };

static void say_value(const struct search *s, const struct candidate *c, const struct key *k, int key, int v, FILE *to)
{
	static const char *const base[] = { "16", "8", "32", "64", "128" }, *const store[] = { "f32", "f16", "bf16" };
	static const char *const merge[] = { "f32", "tf32_rz", "tf32", "f16", "bf16" }, *const exps[] = { "e", "2, late", "2, each sum", "2, each term" };
	static const char *const elements[] = { "no", "added in float32", "by rows", "by rows in pairs", "by columns" };
	static const char *const over[] = { "a / b", "a * (1 / b)", "a * rcp_approx(b)" };

	if (is_rounding(k)) fputs(type_names[type_of(s, c, key, v)], to);
	else if (k->what == W_CHUNK) fprintf(to, "%zu", s->chunk[c->form][v]);
	else if (k->what == W_BASE) fputs(base[v], to);
	else if (k->what == W_STORE) fputs(store[v], to);
	else if (k->what == W_HIGH || k->what == W_LOW) fputs(merge[v], to);
	else if (k->what == W_EXP) fputs(exps[v], to);
	else if (k->what == W_COLUMNS) fputs(v ? "columns" : "doubling", to);
	else if (k->what == W_WAY) fputs(v ? way_name((enum fn)(k->id >> 16 & 0xffffffff), v) : "rounded right", to);
	else if (k->what == W_NARROW && v) fprintf(to, "%s, threads of %d", type_names[narrow_sum(v)], narrow_elements(v));
	else if (k->what == W_NARROW) fputs(type_names[IN_F32], to);
	else if (k->what == W_THREADS) fputs(element_threads_said(threads_by(k), v, (char[THREADS_ROOM]){ 0 }), to);
	else if (elements_type(k->what) != IN_F32) fprintf(to, v >= BY_ROWS ? "%s, added in %s" : "%s", elements[v], type_names[elements_type(k->what)]);
	else if (k->what == W_OVER) fputs(over[v], to);
	else if (k->what == W_SUMS) fputs(sums_name(v), to);
	else if (k->what == W_SCAN) fputs(v ? "in turn" : "warps", to);
	else if (k->n == 2) fputs(v ? "yes" : "no", to);
	else fprintf(to, "way %d", v + 1);
}

/* "NAME, operand: bf16, or f32 (to the bit), ..." */
static void say_open(const struct search *s, const struct candidate *c, int key, int v, bool same, bool first, FILE *to)
{
	const struct key *k = &s->keys.at[key];
	const struct form_symbols *f = &s->graph[c->form][0].f;

	if (first) {
		fprintf(to, "%s%s%s: ", k->def >= 0 ? f->def_name[k->def] : "", k->def >= 0 ? ", " : "", what_text[k->what]);
		say_value(s, c, k, key, c->config.value[key], to);
	}
	fputs(" or ", to);
	say_value(s, c, k, key, v, to);
	fputs(same ? " (the same to the bit)" : "", to);
}

/* left: the choices that stay open */
struct polishing { struct search *s; struct candidate *c; struct beside b; FILE *open; struct list left; };

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
	bool first = true, moved = false;

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
			first = true;
		} else if (c.worst < sign_test && !c.louder) {
			say_open(s, p->c, key, v, c.changed == 0, first, p->open);
			first = false;
		}
	}
	if (first) return moved;
	fputc('\n', p->open);
	p->left.key[p->left.n++] = key;
	return moved;
}

/* Each of these choices in turn; *text: what stays open. */
static bool settle_all(struct polishing *p, const struct list *keys, char **text)
{
	struct search *s = p->s;
	size_t size = 0;
	bool moved = false;

	free(*text);
	*text = NULL;
	p->open = open_memstream(text, &size);
	p->left.n = 0;
	if (p->open && s->rival >= 0) fprintf(p->open, "form: %s or %s\n", s->call->op->forms[p->c->form].name, s->call->op->forms[s->rival].name);
	for (int i = 0; i < keys->n && p->open && !s->failed; i++) moved = settle(p, keys->key[i]) || moved;
	if (!p->open || fclose(p->open) != 0) s->failed = true;
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

/* How sums are added, with what is new then; then what was open may be no longer. */
static void settle_sums(struct polishing *p, char **text)
{
	struct search *s = p->s;
	struct candidate before = *p->c;
	struct list open = p->left, l = { 0 };
	bool moved = true;

	if (late(s) || !take_sums(p)) return;
	settle_exponents(s, p->c, &p->b);
	for (int sweep = 0; sweep < 3 && moved && !s->failed && !late(s); sweep++) {
		l.n = 0;
		for (int i = 0; i < p->c->met.n; i++) {
			const struct key *k = &s->keys.at[p->c->met.key[i]];
			bool new = k->kind != CHOOSE_DEFAULT && !is_met(&before, p->c->met.key[i]);
			if (k->what != W_SUMS && (k->kind >= CHOOSE_LAST || new)) also(&l, p->c->met.key[i]);
		}
		moved = settle_all(p, &l, text);
	}
	for (int i = 0; i < open.n; i++) also(&p->left, open.key[i]);
	for (int i = 0; i < p->c->met.n; i++)
		if (s->keys.at[p->c->met.key[i]].what == W_SUMS) also(&p->left, p->c->met.key[i]);
	l = p->left;
	settle_all(p, &l, text);
	log_cost(s, "sums", p->c, s->n_stage - 1);
}

char *polish(struct search *s, struct candidate *c, struct list *open)
{
	struct polishing p = { .s = s, .c = c };
	struct score score[MAX_OUT];
	struct list l;
	char *text = NULL;
	bool ok = beside_make(s, &p.b), moved = true;

	try(s, c, s->n_stage - 1);
	ok = ok && measured(s, c, score, p.b.base.of);
	for (int sweep = 0; sweep < 3 && ok && moved && !late(s); sweep++) {
		chosen(s, c, &l);
		moved = settle_all(&p, &l, &text);
		ok = !s->failed;
	}
	log_cost(s, "polished", c, s->n_stage - 1);
	if (ok) settle_sums(&p, &text);
	if (!ok) s->failed = true;
	beside_free(&p.b);
	*open = p.left;
	return text;
}
