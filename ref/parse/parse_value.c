/* Values: the grammar of docs/formula.md, from the loosest to the tightest. */
#include "parse.h"

static struct node *make(struct parser *s, enum node_kind kind, const struct word *at)
{
	struct node *x = pool_make(s->p, sizeof *x);

	if (!x) {
		no_room(s);
		return NULL;
	}
	*x = (struct node){ .kind = kind, .line = at->line, .column = at->column, .name = at->text };
	return x;
}

/* A node of these; NULL where one of them is. */
static struct node *with(struct parser *s, enum node_kind kind, const struct word *at, struct node *a, struct node *b, struct node *c)
{
	struct node *x = make(s, kind, at);

	if (!x || !a || (c && !b)) return NULL;
	if (!(x->arg = pool_make(s->p, 3 * sizeof *x->arg))) {
		no_room(s);
		return NULL;
	}
	x->arg[x->n++] = a;
	if (b) x->arg[x->n++] = b;
	if (c) x->arg[x->n++] = c;
	return x;
}

static struct node *two(struct parser *s, enum node_kind kind, const struct word *at, struct node *a, struct node *b)
{
	return a && b ? with(s, kind, at, a, b, NULL) : NULL;
}

static bool add(struct parser *s, struct node *x, struct node *arg)
{
	if (!arg) return false;
	if (x->n == MAX_ARGS) return wrong(s, "fewer than 32 parts");
	if (!x->arg && !(x->arg = pool_make(s->p, MAX_ARGS * sizeof *x->arg))) return no_room(s);
	x->arg[x->n++] = arg;
	return true;
}

static struct node *sum(struct parser *s);
static struct node *postfix(struct parser *s);

/* ":", "..", a, a:b or a:b by c */
static struct node *index_part(struct parser *s)
{
	const struct word *at = peek(s);

	if (take(s, ":") || take(s, "..")) return make(s, NODE_ALL, at);
	struct node *a = sum(s);
	if (!a || !take(s, ":")) return a;
	struct node *b = sum(s);
	bool stepped = b && take(s, "by");
	struct node *by = stepped ? sum(s) : NULL;
	return b && (by || !stepped) ? with(s, NODE_RANGE, at, a, b, by) : NULL;
}

/* a value; i in a:b; n from a: what fold, count, first and last take */
static struct node *argument(struct parser *s)
{
	const struct word *at = peek(s), *next = at + (at->kind == WORD_NAME);

	if (next == at || next->kind != WORD_NAME || (strcmp(next->text, "in") && strcmp(next->text, "from"))) return parse_value(s);
	s->at += 2;
	struct node *a = sum(s);
	if (next->text[0] == 'f') return a ? with(s, NODE_RANGE, at, a, NULL, NULL) : NULL;
	return a && need(s, ":") ? two(s, NODE_RANGE, at, a, sum(s)) : NULL;
}

static bool list(struct parser *s, struct node *x, const char *end, struct node *(*part)(struct parser *s))
{
	const struct word *open = peek(s) - 1;

	if (take(s, end)) return true;
	do {
		if (!add(s, x, part(s))) return false;
	} while (take(s, ","));
	return need_end(s, end, open);
}

static struct node *atom(struct parser *s)
{
	const struct word *at = peek(s);
	struct node *x;

	if (take(s, "(")) {
		x = parse_value(s);
		return x && need_end(s, ")", at) ? x : NULL;
	}
	if (at->kind == WORD_NUMBER) {
		s->at++;
		if ((x = make(s, NODE_NUMBER, at))) x->number = at->number;
		return x;
	}
	if (at->kind == WORD_TEXT) {    /* a choice of a parameter */
		s->at++;
		return make(s, NODE_NAME, at);
	}
	if (at->kind != WORD_NAME) {
		bool power = s->at && is(s, "*") && at[-1].kind == WORD_OP && at[-1].text[0] == '*' && !at->spaced;
		wrong(s, power ? "a value, and a power is written x^2" : "a value");
		return NULL;
	}
	s->at++;
	bool call = is(s, "(") && !peek(s)->spaced, index = is(s, "[");
	if (!(x = make(s, call ? NODE_CALL : index ? NODE_INDEX : NODE_NAME, at))) return NULL;
	if (call && (s->at++, !list(s, x, ")", argument))) return NULL;
	if (index && (s->at++, !list(s, x, "]", index_part))) return NULL;
	return x;
}

/* 'a and ^-0.5 */
static struct node *postfix(struct parser *s)
{
	struct node *x = atom(s);
	const struct word *at;

	while (x && (at = peek(s), is(s, "'") || is(s, "^"))) {
		s->at++;
		if (at->text[0] == '\'') {
			x = with(s, NODE_TRANS, at, x, NULL, NULL);
			continue;
		}
		const struct word *minus = peek(s);
		bool negative = take(s, "-");
		struct node *power = atom(s);
		x = two(s, NODE_POW, at, x, negative ? with(s, NODE_NEG, minus, power, NULL, NULL) : power);
	}
	return x;
}

static bool factor_follows(const struct parser *s)
{
	static const char *const words[] = { "if", "else", "div", "mod", "and", "or", "not", "in", "to", "from", "by", "of", "for", NULL };
	const struct word *w = peek(s);

	for (int i = 0; w->kind == WORD_NAME && words[i]; i++)
		if (!strcmp(w->text, words[i])) return false;
	return w->kind == WORD_NAME || w->kind == WORD_NUMBER || is(s, "(");
}

static struct node *chain(struct parser *s)
{
	const struct word *at = peek(s);
	struct node *x = postfix(s), *all;

	if (!x || !factor_follows(s)) return x;
	if (!(all = make(s, NODE_CHAIN, at)) || !add(s, all, x)) return NULL;
	while (factor_follows(s))
		if (!add(s, all, postfix(s))) return NULL;
	return all;
}

static struct node *term(struct parser *s)
{
	struct node *x = chain(s);
	const struct word *at;

	while (x) {
		at = peek(s);
		if (take(s, "*")) x = two(s, NODE_MUL, at, x, chain(s));
		else if (take(s, "/")) x = two(s, NODE_DIV, at, x, chain(s));
		else if (take(s, "div")) x = two(s, NODE_IDIV, at, x, chain(s));
		else if (take(s, "mod")) x = two(s, NODE_MOD, at, x, chain(s));
		else break;
	}
	return x;
}

static struct node *sum(struct parser *s)
{
	const struct word *at = peek(s);
	struct node *x = take(s, "-") ? with(s, NODE_NEG, at, term(s), NULL, NULL) : term(s);

	while (x) {
		at = peek(s);
		if (take(s, "+")) x = two(s, NODE_ADD, at, x, term(s));
		else if (take(s, "-")) x = two(s, NODE_SUB, at, x, term(s));
		else break;
	}
	return x;
}

static struct node *compare(struct parser *s)
{
	static const char *const ops[] = { "==", "!=", "<", "<=", ">", ">=" };
	struct node *x = sum(s);
	const struct word *at = peek(s);

	if (x && take(s, "in")) return two(s, NODE_IN, at, x, sum(s));
	for (int i = 0; x && i < 6; i++)
		if (take(s, ops[i])) return two(s, (enum node_kind)(NODE_EQ + i), at, x, sum(s));
	return x;
}

static struct node *negation(struct parser *s)
{
	const struct word *at = peek(s);

	if (!take(s, "not")) return compare(s);
	if (++s->depth > MAX_DEPTH) {
		wrong(s, "at most 64 levels");
		return NULL;
	}
	struct node *x = with(s, NODE_NOT, at, negation(s), NULL, NULL);
	s->depth--;
	return x;
}

static struct node *both(struct parser *s)
{
	struct node *x = negation(s);
	const struct word *at;

	while (x && (at = peek(s), take(s, "and"))) x = two(s, NODE_AND, at, x, negation(s));
	return x;
}

static struct node *either(struct parser *s)
{
	struct node *x = both(s);
	const struct word *at;

	while (x && (at = peek(s), take(s, "or"))) x = two(s, NODE_OR, at, x, both(s));
	return x;
}

static struct node *alternatives(struct parser *s)
{
	const struct word *at = peek(s);
	struct node *x = either(s), *all;

	if (!x || !is(s, "|")) return x;
	if (!(all = make(s, NODE_ALT, at)) || !add(s, all, x)) return NULL;
	while (take(s, "|"))
		if (!add(s, all, either(s))) return NULL;
	return all;
}

struct node *parse_value(struct parser *s)
{
	struct node *x;

	if (++s->depth > MAX_DEPTH) {
		wrong(s, "at most 64 levels of brackets");
		return NULL;
	}
	x = alternatives(s);
	const struct word *at = peek(s);
	if (x && take(s, "if")) {
		struct node *condition = either(s);
		x = condition && need(s, "else") ? with(s, NODE_IF, at, condition, x, parse_value(s)) : NULL;
		if (x && x->n < 3) x = NULL;
	}
	s->depth--;
	return x;
}

struct node *parse_truth(struct parser *s)
{
	const struct word *at = peek(s);
	struct node *x = parse_value(s);

	return with(s, NODE_NOT, at, with(s, NODE_NOT, at, x, NULL, NULL), NULL, NULL);
}

struct node *parse_target(struct parser *s)
{
	if (peek(s)->kind == WORD_NAME) return atom(s);
	wrong(s, "a name");
	return NULL;
}
