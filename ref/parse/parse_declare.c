/* Tensors, parameters, sizes, indices and functions. */
#include "parse.h"

#include <stdio.h>

/* [T, Hk, N+1]: as "T,Hk,N+1"; [B?, N]: the first may be missing */
static const char *shape(struct parser *s)
{
	char text[128];
	size_t n = 0;
	int rank = 0;

	const struct word *open = peek(s);

	if (!need(s, "[")) return NULL;
	do {
		const struct word *w = peek(s);
		const char *name = name_here(s, w->kind == WORD_NUMBER ? "the name of a size, which may be a number: 'let K = 2', then K"
			: "the name of a size");
		if (!name) return NULL;
		if (++rank > 6) {
			formula_error(s->e, s->w.path, w->line, w->column, "expected at most 6 sizes");
			return NULL;
		}
		const char *sign = take(s, "+") ? "+" : take(s, "-") ? "-" : "", *missing = rank == 1 && !*sign && take(s, "?") ? "?" : "";
		double plus = 0;
		if (*sign) {
			if (peek(s)->kind != WORD_NUMBER || !(peek(s)->number < 100) || peek(s)->number != (double)(int)peek(s)->number) {
				wrong(s, "a whole number below 100");
				return NULL;
			}
			plus = s->w.word[s->at++].number;
		}
		int more = *sign ? snprintf(text + n, sizeof text - n, "%s%s%s%.0f", n ? "," : "", name, sign, plus)
			: snprintf(text + n, sizeof text - n, "%s%s%s", n ? "," : "", name, missing);
		if (more < 0 || (size_t)more >= sizeof text - n) {
			formula_error(s->e, s->w.path, w->line, w->column, "expected a shorter shape");
			return NULL;
		}
		n += (size_t)more;
	} while (take(s, ","));
	return need_end(s, "]", open) ? pool_text(s->p, text, n) : NULL;
}

/* NAME {, NAME} [SIZES] integer ? with NAME trace [if CONDITION] */
bool parse_tensors(struct parser *s, struct tensor_decl **list, bool output)
{
	struct tensor_decl *group[MAX_ARGS];
	const char *comment = "";
	int all = 0, n = 0;

	do {
		int first = n;
		do {
			const struct word *w = peek(s);
			if (!name_here(s, "a tensor's name")) return false;
			if (n == MAX_ARGS) return wrong(s, "at most 32 tensors");
			if (!(group[n] = declare(s, list, sizeof **list, w))) return false;
			if (declared(s->t->in, w->text) && declared(s->t->out, w->text) && !output)
				return formula_error(s->e, s->w.path, w->line, w->column, "expected a name that no output has");
			if (!!declared(s->t->in, w->text) + !!declared(s->t->out, w->text) > 0 && declared(s->t->held, w->text))
				return formula_error(s->e, s->w.path, w->line, w->column, "expected a name of its own for what is held");
			n++;
		} while (take(s, ","));
		const char *text = shape(s);
		if (!text) return false;
		bool integer = take(s, "integer"), optional = take(s, "?"), with_input = output && take(s, "with");
		const char *with = with_input ? name_here(s, "an input's name") : "";
		bool trace = output && !integer && take(s, "trace"), sometimes = trace && take(s, "if");
		struct node *traced = sometimes ? parse_value(s) : NULL;
		if (!with || (sometimes && !traced)) return false;
		for (int i = first; i < n; i++) {
			group[i]->shape = text;
			group[i]->integer = integer;
			group[i]->optional = optional;
			group[i]->with = with;
			group[i]->trace = trace;
			group[i]->traced = traced;
		}
	} while (peek(s)->kind == WORD_NAME);
	if (!line_end(s, &comment)) return false;
	for (; all < n; all++) group[all]->d.what = comment;
	return true;
}

/* a|b|c of names or texts; NULL where there is no '|' */
static const char *choices(struct parser *s)
{
	size_t from = s->at, n = 0;
	char text[128] = "";

	while ((peek(s)->kind == WORD_NAME || peek(s)->kind == WORD_TEXT) && n + strlen(peek(s)->text) + 2 < sizeof text) {
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "|" : "", peek(s)->text);
		s->at++;
		if (!take(s, "|")) break;
	}
	if (strchr(text, '|') && (peek(s)->kind == WORD_END || is(s, ","))) return pool_text(s->p, text, n);
	s->at = from;
	return NULL;
}

static bool param_value(struct parser *s, struct param_decl *p)
{
	if (is(s, "true") || is(s, "false")) {
		struct node *x = p->value = pool_make(s->p, sizeof *x);
		if (!x) return no_room(s);
		*x = (struct node){ .kind = NODE_NUMBER, .line = peek(s)->line, .column = peek(s)->column, .number = is(s, "true") };
		p->is_bool = true;
		s->at++;
		return true;
	}
	if ((p->names = choices(s))) return true;
	return (p->value = parse_value(s)) != NULL;
}

/* of A | B, which must be given; [a, b, c], rows of three, with '?' such as need not be */
static bool param_of(struct parser *s, struct param_decl *p)
{
	if (take(s, "of")) {
		p->required = true;
		return (p->names = choices(s)) || wrong(s, "A | B");
	}
	if (!(p->rows = shape(s))) return false;
	p->required = !take(s, "?");
	return true;
}

/* NAME [= VALUE] {, ...}, or what param_of reads */
bool parse_params(struct parser *s)
{
	struct param_decl *made[MAX_ARGS];
	const char *comment = "";
	int n = 0;

	do {
		const struct word *w = peek(s);
		if (!name_here(s, "a parameter's name")) return false;
		if (n == MAX_ARGS) return wrong(s, "at most 32 parameters in a line");
		struct param_decl *p = made[n++] = declare(s, &s->t->params, sizeof *p, w);
		if (!p) return false;
		if (is(s, "[") || is(s, "of") ? !param_of(s, p) : take(s, "=") && !param_value(s, p)) return false;
	} while (take(s, ","));
	if (!line_end(s, &comment)) return false;
	for (int i = 0; i < n; i++) made[i]->d.what = comment;
	return true;
}

/* NAME = VALUE, a whole number */
bool parse_alias(struct parser *s, struct alias **list)
{
	const struct word *w = peek(s);
	struct alias *a;

	return name_here(s, "a name") && (a = declare(s, list, sizeof *a, w)) && need(s, "=") && (a->value = parse_value(s));
}

/* SIZE, chunks of SIZE by NUMBER, or 0:END */
static bool range_of(struct parser *s, struct each *x)
{
	if (take(s, "chunks")) {
		if (!need(s, "of") || !(x->dim = name_here(s, "the name of a size")) || !need(s, "by")) return false;
		double by = peek(s)->number;
		if (peek(s)->kind != WORD_NUMBER || !(by >= 1 && by <= 65536) || by != (double)(int)by) return wrong(s, "a chunk's size, 1 to 65536");
		x->by = (size_t)s->w.word[s->at++].number;
		return true;
	}
	if (peek(s)->kind == WORD_NAME) return (x->dim = name_here(s, "the name of a size")) != NULL;
	if (peek(s)->kind != WORD_NUMBER || peek(s)->number != 0) return wrong(s, "the name of a size, or 0:END");
	s->at++;
	return need(s, ":") && (x->last = parse_value(s));
}

/* An index that follows from others, in an `each` that begins at `from`; that of another form may have the same. */
static bool index_alias(struct parser *s, const struct word *from)
{
	const struct word *w = peek(s);
	const struct alias *there = declared(s->t->aliases, w->text);
	const struct node *value;

	if (!there || there->d.line > from->line || (there->d.line == from->line && there->d.column > from->column)) return parse_alias(s, &s->t->aliases);
	s->at++;
	if (!need(s, "=") || !(value = parse_value(s))) return false;
	return same_node(value, there->value) || formula_error(s->e, s->w.path, w->line, w->column, "expected '%s' to be what it is in line %d, or another name", w->text, there->d.line);
}

bool parse_each(struct parser *s, struct each **list)
{
	const struct word *from = peek(s);

	do {
		const struct word *w = peek(s), *after = w + (w->kind == WORD_NAME);
		if (after->kind == WORD_OP && after->text[0] == '=') {
			if (!index_alias(s, from)) return false;
			continue;
		}
		struct each *x;
		if (!name_here(s, "a name") || !(x = declare(s, list, sizeof *x, w)) || !need(s, "in")
			|| !range_of(s, x)) return false;
	} while (take(s, ","));
	return true;
}

bool parse_macro(struct parser *s)
{
	const struct word *w = peek(s);
	struct macro *m;

	if (!name_here(s, "a name") || !(m = declare(s, &s->t->macros, sizeof *m, w)) || !need(s, "(")) return false;
	if (!(m->param = pool_make(s->p, MAX_BY * sizeof *m->param))) return no_room(s);
	do {
		if (m->n == MAX_BY) return wrong(s, "at most 8 arguments");
		if (!(m->param[m->n++] = name_here(s, "an argument's name"))) return false;
	} while (take(s, ","));
	return need(s, ")") && need(s, "=") && (m->value = parse_value(s));
}

/* [PARAMETER:] CONDITION */
bool parse_rule(struct parser *s)
{
	const struct word *w = peek(s);
	bool of_param = w->kind == WORD_NAME && declared(s->t->params, w->text) && w[1].kind == WORD_OP && w[1].text[0] == ':';
	struct rule *r = append(s, &s->t->rules, sizeof *r);

	if (!r) return false;
	r->d = (struct declared){ NULL, of_param ? w->text : "", w->line, w->column, "" };
	s->at += of_param ? 2 : 0;
	if (!(r->value = parse_value(s))) return false;
	if (take(s, "for") && (!(r->var = name_here(s, "the name of an index")) || !need(s, "in") || !(r->range = parse_value(s)))) return false;
	const char *said = as_written(s, w + (of_param ? 2 : 0), peek(s));
	return said && line_end(s, &r->d.what) && (r->d.what[0] || (r->d.what = said));
}
