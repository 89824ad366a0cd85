/* for, if, definitions, and lines that forms share. */
#include "nearest.h"
#include "parse.h"

bool parse_definition(struct parser *s, struct definition *d, bool may_carry)
{
	const struct word *at = peek(s);
	struct node *target = parse_target(s);

	if (!target) return false;
	if (target->kind == NODE_CALL)
		return formula_error(s->e, s->w.path, at->line, at->column, "expected NAME = or NAME[...] =");
	*d = (struct definition){ target->name, '=', target->kind == NODE_INDEX, target, NULL, "", at->line, at->column };
	if (may_carry && is(s, "from")) d->kind = 'f', s->at++;
	else if (may_carry && is(s, "to")) d->kind = 't', s->at++;
	else if (!need(s, "=")) return false;
	d->value = d->kind == 't' ? parse_target(s) : parse_value(s);
	if (d->value) d->text = pool_text(s->p, s->w.source + at->at, s->w.word[s->at - 1].at + s->w.word[s->at - 1].n - at->at);
	return d->value && d->text;
}

/* name from VALUE [to OUTPUT[...]] */
static bool carried(struct parser *s, struct loop *l)
{
	const struct word *at = peek(s);
	const char *name = name_here(s, "the name of a value that is carried");

	if (!name) return false;
	if (l->n_carry == MAX_BY)
		return formula_error(s->e, s->w.path, at->line, at->column, "expected at most %d values that are carried", MAX_BY);
	struct carry *c = &l->carry[l->n_carry++];
	c->name = name;
	if (!need(s, "from") || !(c->from = parse_value(s))) return false;
	return !take(s, "to") || (c->to = parse_target(s)) != NULL;
}

static bool sizes(struct parser *s, struct loop *l)
{
	do {
		if (l->n_by == MAX_BY) return wrong(s, "at most 8 sizes");
		if (!chunk_size_here(s, &l->by[l->n_by++])) return false;
	} while (take(s, "|"));
	return true;
}

/* for NAME in RANGE [of CUTS[n]] {, CARRIED}, or in chunks of RANGE [of CUTS[n]] by SIZE | ... [backwards] {, CARRIED} */
static struct loop *head(struct parser *s)
{
	struct loop *l = pool_make(s->p, sizeof *l);

	if (!l || !(l->carry = pool_make(s->p, MAX_BY * sizeof *l->carry))) {
		no_room(s);
		return NULL;
	}
	if (!(l->var = name_here(s, "the name of a token or chunk")) || !need(s, "in")) return NULL;
	if (take(s, "chunks")) {
		l->chunks = true;
		if (!need(s, "of")) return NULL;
	} else if (take(s, "tokens") && !need(s, "of")) {
		return NULL;
	}
	const struct word *at = peek(s);
	if (!(l->range = parse_value(s))) return NULL;
	if (take(s, ":")) {
		struct node *r = pool_make(s->p, sizeof *r);
		if (!r || !(r->arg = pool_make(s->p, 2 * sizeof *r->arg))) {
			no_room(s);
			return NULL;
		}
		*r = (struct node){ NODE_RANGE, at->line, at->column, NULL, 0, 2, r->arg };
		r->arg[0] = l->range;
		if (!(r->arg[1] = parse_value(s))) return NULL;
		l->range = r;
	}
	if (take(s, "of") && !(l->cuts = parse_target(s))) return NULL;
	if (l->chunks && (!need(s, "by") || !sizes(s, l))) return NULL;
	l->backwards = l->chunks && take(s, "backwards");
	while (take(s, ","))
		if (!carried(s, l)) return NULL;
	return l;
}

/* use OP as NAME: TARGET = VALUE, ... */
static bool use(struct parser *s, struct statement *x)
{
	const struct word *at = peek(s);
	struct use *u = x->use = pool_make(s->p, sizeof *u);

	if (!u) return no_room(s);
	u->line = at->line;
	u->column = at->column;
	if (!(u->op = name_here(s, "an op's name")) || !need(s, "as") || !(u->as = name_here(s, "a name")) || !need(s, ":")) return false;
	do {
		if (u->n == MAX_GIVEN) return wrong(s, "at most 32 of what the op is given");
		if (!parse_definition(s, &u->given[u->n++], false)) return false;
	} while (take(s, ","));
	return true;
}

/* A `for` or an `if`, and the statements below it. */
static bool inner_body(struct parser *s, struct statement *x, int column)
{
	bool ok = true, loop = is(s, "for");
	const char *comment;

	s->at++;
	if (loop ? !(x->loop = head(s)) : !(x->condition = parse_truth(s))) return false;
	if (!line_end(s, &comment)) return false;
	if (peek(s)->column <= column) return wrong(s, loop ? "a body, further in than its 'for'" : "statements, further in than their 'if'");
	x->body = parse_body(s, peek(s)->column, &ok);
	return ok && (x->body || wrong(s, "NAME = VALUE"));
}

static bool is_block(const struct parser *s)
{
	const struct word *after = &s->w.word[s->at + 1];

	return (is(s, "for") && after->kind == WORD_NAME) || (is(s, "if") && !(after->kind == WORD_OP && after->text[0] == '='));
}

static bool is_use(const struct parser *s)
{
	return is(s, "use") && s->w.word[s->at + 1].kind == WORD_NAME && s->w.word[s->at + 2].kind != WORD_END;
}

bool parse_is_op(const struct parser *s)
{
	return is(s, "use") && s->w.word[s->at + 1].kind == WORD_NAME && s->w.word[s->at + 2].kind == WORD_END;
}

/* Those that stand here by their name, or NULL; their own name does not among themselves. */
static const struct lines *shared_lines(const struct parser *s)
{
	const struct word *w = peek(s);
	const struct lines *d = w->kind == WORD_NAME && w[1].kind == WORD_END ? declared(s->t->lines, w->text) : NULL;

	return d && d->body ? d : NULL;
}

bool parse_is_statement(const struct parser *s)
{
	const struct word *after = &s->w.word[s->at + 1];

	if (peek(s)->kind != WORD_NAME) return false;
	return is_block(s) || is_use(s) || shared_lines(s) || (after->kind == WORD_OP && (after->text[0] == '=' || after->text[0] == '['));
}

/* A name alone, further in than a line of the file may stand, that is none of shared lines. */
static bool no_lines(struct parser *s)
{
	const struct word *w = peek(s);
	struct nearest near = nearest_to(w->text);
	char meant[NEAREST_SAID];

	if (w->kind != WORD_NAME || w->column == 1 || w[1].kind != WORD_END || shared_lines(s)) return false;
	nearest_declared(&near, s->t->lines);
	formula_error(s->e, s->w.path, w->line, w->column, "expected NAME = VALUE or the name of a 'def' of lines above, got '%s'%s", w->text,
		nearest_said(&near, meant));
	return true;
}

/* Copies of the statements from *end on; *end becomes where the next one goes. */
static bool copied(struct parser *s, const struct lines *lines, struct statement ***end)
{
	if ((s->copied += lines->n) > MAX_COPIED) return wrong(s, "at most 4096 statements by 'def', in all");
	for (const struct statement *from = lines->body; from; from = from->next, *end = &(**end)->next) {
		struct statement *x = **end = pool_make(s->p, sizeof *x);
		if (!x) return no_room(s);
		*x = *from;
		x->next = NULL;
	}
	return true;
}

struct statement *parse_body(struct parser *s, int column, bool *ok)
{
	struct statement *first = NULL, **end = &first;
	const char *comment;

	if (++s->depth > MAX_DEPTH) *ok = wrong(s, "at most 64 levels");
	while (*ok && parse_is_statement(s) && peek(s)->column == column) {
		const struct lines *shared = shared_lines(s);
		if (shared) {
			*ok = copied(s, shared, &end) && (s->at++, line_end(s, &comment));
			continue;
		}
		struct statement *x = *end = pool_make(s->p, sizeof *x);
		if (!x) *ok = no_room(s);
		else if (is_block(s)) *ok = inner_body(s, x, column);
		else if (is_use(s)) *ok = (s->at++, use(s, x)) && line_end(s, &comment);
		else *ok = parse_definition(s, &x->define, false) && line_end(s, &comment);
		if (x) end = &x->next;
	}
	if (*ok && no_lines(s)) *ok = false;
	s->depth--;
	return first;
}

/* How many there are, nested ones too; *use: a `use` among them, or NULL. */
static int counted(const struct statement *x, const struct use **use)
{
	int n = 0;

	for (; x; x = x->next) {
		if (x->use) *use = x->use;
		n += 1 + counted(x->body, use);
	}
	return n;
}

bool parse_lines(struct parser *s)
{
	const char *comment;
	bool ok = true;

	if (parse_begins_line(peek(s)->text)) return wrong(s, "a name that no line begins with");
	struct lines *shared = declare(s, &s->t->lines, sizeof *shared, peek(s));

	if (!shared || !name_here(s, "a name") || !line_end(s, &comment)) return false;
	if (peek(s)->column == 1) return wrong(s, "statements, further in than their 'def'");
	shared->body = parse_body(s, peek(s)->column, &ok);
	if (!ok) return false;
	const struct use *u = NULL;
	shared->n = counted(shared->body, &u);
	if (u) return formula_error(s->e, s->w.path, u->line, u->column, "expected 'use' in a form, not in lines that forms share");
	return shared->body || wrong(s, "NAME = VALUE");
}
