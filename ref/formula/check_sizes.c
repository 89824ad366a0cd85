/* Sizes and sets of inputs that a formula's `where` lines allow, before there is a call. */
#include <math.h>

#include "formula_private.h"

#include "fixtures/io/random.h"
#include "lower.h"

enum { TRIES = 20000, OTHERS = 1000, AGAIN = 200 };

bool check_set(const struct formula *f, struct call *call, size_t set)
{
	static const struct tensor given = { .count = 2 };

	for (int i = 0; f->op.in[i].name; i++) {
		bool optional = f->op.in[i].flags & OPTIONAL;
		call->in[i] = !optional || set % 2 ? &given : NULL;
		if (optional) set /= 2;
	}
	for (int i = 0; f->op.params[i].name; i++) {
		const struct param_spec *p = &f->op.params[i];
		size_t n = p->kind == PARAM_BOOL ? 2 : 1;
		for (const char *s = p->kind == PARAM_CHOICE ? p->choices : ""; *s; s++) n += *s == '|';
		bool list = p->kind == PARAM_LIST && !p->required;
		if (list) n = 2;
		if (n > 1 || !p->required) call->param[i] = list ? set % n ? 2 : p->absent : n > 1 ? (double)(set % n) : p->absent;
		set /= n;
	}
	return set == 0;
}

/* The value of option `at` of a set; its options are those of check_set, in their order. False behind the last. */
static bool option_of(const struct formula *f, const struct call *call, int at, unsigned *value)
{
	int inputs = 0;

	while (f->op.in[inputs].name) inputs++;
	if (at < inputs) return *value = call->in[at] != NULL, true;
	if (!f->op.params[at - inputs].name) return false;
	const double x = f->op.params[at - inputs].kind == PARAM_REAL ? 0 : call->param[at - inputs];
	*value = x >= 0 && x < OPTION_VALUES ? (unsigned)x : 0;
	return true;
}

bool check_new_pair(const struct formula *f, const struct call *call, struct pairs_seen *seen)
{
	bool new = false;

	for (unsigned a = 0, x; a < OPTIONS && option_of(f, call, (int)a, &x); a++)
		for (unsigned b = 0, y; b <= a && option_of(f, call, (int)b, &y); b++) {
			bool *met = &seen->met[a * OPTION_VALUES + x][b * OPTION_VALUES + y];
			new = new || !*met;
			*met = true;
		}
	return new;
}

/* 1, 2, ... */
static void lists(const struct formula *f, struct call *call)
{
	call->list_n = 0;
	for (int i = 0; f->op.params[i].name; i++) {
		if (f->op.params[i].kind != PARAM_LIST) continue;
		call->list_first[i] = call->list_n;
		for (int k = 0; k < 16 && call->list_n < MAX_LIST; k++) call->list[call->list_n++] = k + 1;
	}
}

/* Is it above 1, and another than all others? */
static bool is_plain(const struct formula *f, const struct call *call, int i)
{
	bool other = call->dim[i] > 1;

	for (int k = 0; f->op.dims[k]; k++) other = other && (k == i || call->dim[k] != call->dim[i]);
	return other;
}

/* Whole numbers that `where` lines say, which a size may have to be: D == 64. */
struct said { int n; size_t at[16]; };
static void numbers_said(const struct node *x, struct said *to)
{
	const bool size = x->kind == NODE_NUMBER && x->number >= LARGEST && x->number <= 1 << 16 && x->number == floor(x->number);

	if (size && to->n < (int)(sizeof to->at / sizeof *to->at)) to->at[to->n++] = (size_t)x->number;
	for (int i = 0; i < x->n; i++) numbers_said(x->arg[i], to);
}

/* Size i, from 2 on and another than all others; where `any`, one that may be 1, the same as another, or a number that a `where` line says. */
static void draw_size(const struct formula *f, struct call *call, int i, bool any, const struct said *said, uint64_t *random)
{
	do call->dim[i] = 2 + random_next(random) % (LARGEST - 2);
	while (!is_plain(f, call, i));
	size_t same = any ? random_next(random) % (size_t)(2 * i + 2) : 2 * MAX_DIM;
	if (same < (size_t)i) call->dim[i] = call->dim[same];
	else if (same == (size_t)i) call->dim[i] = 1;
	else if (any && said->n && random_next(random) % 2) call->dim[i] = said->at[random_next(random) % (size_t)said->n];
}

/* Whole numbers for parameters that must be given, and the sizes that follow from others. */
static void draw_params(const struct formula *f, struct call *call, uint64_t *random)
{
	for (int i = 0; f->op.params[i].name; i++)
		if (f->op.params[i].required && f->op.params[i].kind != PARAM_CHOICE && f->op.params[i].kind != PARAM_BOOL) call->param[i] = f->op.params[i].kind == PARAM_LIST ? 4 : (double)(random_next(random) % LARGEST);
	lists(f, call);
	formula_derive(f, call);
}

/* Sizes that `where` allows, found by changing one after the other, where no fewer lines hold then; with other sets of inputs too, of
 * so many ways, if there are more than one. */
static bool search(const struct formula *f, struct call *call, bool any, size_t ways, int tries)
{
	uint64_t random = 1;
	struct said said = { 0 };
	int n = 0, all = rules_of(f), best = -1;

	for (const struct rule *r = f->tree.rules; r; r = (const struct rule *)r->d.next) numbers_said(r->value, &said);
	while (f->op.dims[n]) n++;
	for (int t = 0; t < tries * 16 / (16 + all); t++) {
		struct call before = *call;
		if (t % AGAIN == 0) {
			for (int i = 0; i < n; i++) draw_size(f, call, i, any, &said, &random);
			best = -1;
		} else draw_size(f, call, (int)(random_next(&random) % (size_t)n), any, &said, &random);
		while (ways > 1 && !check_set(f, call, random_next(&random) % ways)) ;
		draw_params(f, call, &random);
		int kept = rules_kept(f, call, true, NULL);
		if (kept == all) return true;
		if (kept < best) *call = before;
		else best = kept;
	}
	return false;
}

/* A size that is 1, or the same as another, becomes one that is not where `where` allows that too: a mistake may show in no others. */
static void apart(const struct formula *f, struct call *call)
{
	uint64_t random = 1;

	for (int i = 0; f->op.dims[i]; i++)
		for (int t = 0; t < AGAIN && !is_plain(f, call, i); t++) {
			const struct call before = *call;
			draw_size(f, call, i, false, NULL, &random);
			formula_derive(f, call);
			if (formula_rules(f, call, NULL)) break;
			*call = before;
		}
}

bool check_sizes(const struct formula *f, struct call *call)
{
	size_t ways = 1;

	while (ways < SETS && check_set(f, call, ways)) ways++;
	if (search(f, call, false, ways, TRIES)) return true;
	if (!search(f, call, true, ways, TRIES)) return false;
	apart(f, call);
	return true;
}

/* Does x change with what is drawn: sizes, and parameters that must be given? */
static bool is_drawn(const struct formula *f, const struct node *x, int depth)
{
	const struct param_decl *p = x->kind == NODE_NAME ? declared(f->tree.params, x->name) : NULL;
	const struct alias *a = x->kind == NODE_NAME ? declared(f->tree.lets, x->name) : NULL;
	const struct macro *m = x->kind == NODE_CALL ? declared(f->tree.macros, x->name) : NULL;
	bool drawn = depth > 100 || x->kind == NODE_INDEX || (x->kind == NODE_NAME && op_size(&f->op, x->name) >= 0);

	if (p) drawn = drawn || f->op.params[declared_index(f->tree.params, x->name)].required || (p->value && is_drawn(f, p->value, depth + 1));
	if (a) drawn = drawn || is_drawn(f, a->value, depth + 1);
	if (m) drawn = drawn || is_drawn(f, m->value, depth + 1);
	for (int i = 0; i < x->n && !drawn; i++) drawn = is_drawn(f, x->arg[i], depth + 1);
	return drawn;
}

/* Is there a line that no sizes can keep: one that is about the set of inputs alone? */
static bool is_hopeless(const struct formula *f, const struct call *call)
{
	double value;

	for (const struct rule *r = f->tree.rules; r; r = (const struct rule *)r->d.next)
		if (!r->range && !is_drawn(f, r->value, 0) && formula_number(f, call, r->value, &value, NULL) && value == 0) return true;
	return false;
}

bool check_allowed(const struct formula *f, struct call *call)
{
	formula_derive(f, call);
	return formula_rules(f, call, NULL) || (!is_hopeless(f, call) && search(f, call, true, 1, OTHERS));
}
