/* A formula file: what each of its lines declares. */
#include "parse.h"

#include <stdio.h>
#include <stdlib.h>

bool is(const struct parser *s, const char *op)
{
	const struct word *w = peek(s);

	return (w->kind == WORD_OP || w->kind == WORD_NAME) && !strcmp(w->text, op);
}

bool take(struct parser *s, const char *op)
{
	bool here = is(s, op);

	s->at += here;
	return here;
}

bool wrong(struct parser *s, const char *what)
{
	const struct word *w = peek(s);

	if (w->kind == WORD_END || w->kind == WORD_STOP)
		return formula_error(s->e, s->w.path, w->line, w->column, "expected %s, got the end of the %s", what,
			w->kind == WORD_END ? "line" : "file");
	return formula_error(s->e, s->w.path, w->line, w->column, "expected %s, got '%s'", what, w->text);
}

bool no_room(struct parser *s) { return error_set(s->e, E_MEMORY, s->w.path, NO_OFFSET, "reading a formula"); }

bool need(struct parser *s, const char *op)
{
	char text[32];

	if (take(s, op)) return true;
	snprintf(text, sizeof text, "'%s'", op);
	return wrong(s, text);
}

const char *name_here(struct parser *s, const char *what)
{
	const struct word *w = peek(s);

	if (w->kind != WORD_NAME) {
		wrong(s, what);
		return NULL;
	}
	s->at++;
	return w->text;
}

bool line_end(struct parser *s, const char **comment)
{
	if (peek(s)->kind != WORD_END) return wrong(s, "an operator or the end of the line");
	*comment = peek(s)->text;
	s->at++;
	return true;
}

void *declared(const void *list, const char *name)
{
	for (const struct declared *d = list; d; d = d->next)
		if (!strcmp(d->name, name)) return (void *)(uintptr_t)d;
	return NULL;
}

int declared_index(const void *list, const char *name)
{
	int i = 0;

	for (const struct declared *d = list; d; d = d->next, i++)
		if (!strcmp(d->name, name)) return i;
	return -1;
}

void *declare(struct parser *s, void *list, size_t size, const struct word *name)
{
	struct declared **end = list, *d;

	for (; *end; end = &(*end)->next)
		if (!strcmp((*end)->name, name->text)) {
			formula_error(s->e, s->w.path, name->line, name->column, "expected a name of its own; '%s' stands in line %d",
				name->text, (*end)->line);
			return NULL;
		}
	if (!(d = *end = pool_make(s->p, size))) {
		no_room(s);
		return NULL;
	}
	*d = (struct declared){ NULL, name->text, name->line, name->column, "" };
	return d;
}

/* [T, Hk, N+1]: as "T,Hk,N+1" */
static const char *shape(struct parser *s)
{
	char text[128];
	size_t n = 0;
	int rank = 0;

	if (!need(s, "[")) return NULL;
	do {
		const struct word *w = peek(s);
		const char *name = name_here(s, "the name of a size");
		if (!name) return NULL;
		if (++rank > 6) {
			formula_error(s->e, s->w.path, w->line, w->column, "expected at most 6 sizes");
			return NULL;
		}
		const char *sign = take(s, "+") ? "+" : take(s, "-") ? "-" : "";
		double plus = 0;
		if (*sign) {
			if (peek(s)->kind != WORD_NUMBER || !(peek(s)->number < 100) || peek(s)->number != (double)(int)peek(s)->number) {
				wrong(s, "a whole number below 100");
				return NULL;
			}
			plus = s->w.word[s->at++].number;
		}
		int more = *sign ? snprintf(text + n, sizeof text - n, "%s%s%s%.0f", n ? "," : "", name, sign, plus)
			: snprintf(text + n, sizeof text - n, "%s%s", n ? "," : "", name);
		if (more < 0 || (size_t)more >= sizeof text - n) {
			formula_error(s->e, s->w.path, w->line, w->column, "expected a shorter shape");
			return NULL;
		}
		n += (size_t)more;
	} while (take(s, ","));
	return need(s, "]") ? pool_text(s->p, text, n) : NULL;
}

/* NAME {, NAME} [SIZES] ?, integer, with NAME */
static bool tensors(struct parser *s, struct tensor_decl **list, bool output)
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
			n++;
		} while (take(s, ","));
		const char *text = shape(s);
		if (!text) return false;
		bool integer = !output && take(s, "integer"), optional = !output && take(s, "?"), with_input = output && take(s, "with");
		const char *with = with_input ? name_here(s, "an input's name") : "";
		if (!with) return false;
		for (int i = first; i < n; i++) {
			group[i]->shape = text;
			group[i]->integer = integer;
			group[i]->optional = optional;
			group[i]->with = with;
		}
	} while (peek(s)->kind == WORD_NAME);
	if (!line_end(s, &comment)) return false;
	for (; all < n; all++) group[all]->d.what = comment;
	return true;
}

/* a|b|c of names; NULL where there is no '|' */
static const char *choices(struct parser *s)
{
	size_t from = s->at, n = 0;
	char text[128] = "";

	while (peek(s)->kind == WORD_NAME && n + strlen(peek(s)->text) + 2 < sizeof text) {
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

/* NAME [= VALUE] {, ...}; NAME [a, b, c]: rows of three */
static bool params(struct parser *s)
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
		if (is(s, "[") ? !(p->rows = shape(s)) : take(s, "=") && !param_value(s, p)) return false;
	} while (take(s, ","));
	if (!line_end(s, &comment)) return false;
	for (int i = 0; i < n; i++) made[i]->d.what = comment;
	return true;
}

/* NAME = VALUE, a whole number */
static bool alias(struct parser *s, struct alias **list)
{
	const struct word *w = peek(s);
	struct alias *a;

	return name_here(s, "a name") && (a = declare(s, list, sizeof *a, w)) && need(s, "=") && (a->value = parse_value(s));
}

static bool each(struct parser *s)
{
	do {
		const struct word *w = peek(s), *after = w + (w->kind == WORD_NAME);
		if (after->kind == WORD_OP && after->text[0] == '=') {
			if (!alias(s, &s->t->aliases)) return false;
			continue;
		}
		struct each *x;
		if (!name_here(s, "a name") || !(x = declare(s, &s->t->each, sizeof *x, w)) || !need(s, "in")
		    || !(x->dim = name_here(s, "the name of a size"))) return false;
	} while (take(s, ","));
	return true;
}

static bool macro(struct parser *s)
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

static bool rule(struct parser *s)
{
	const struct word *w = peek(s);
	struct rule **end = &s->t->rules, *r;

	while (*end) end = (struct rule **)&(*end)->d.next;
	if (!(r = *end = pool_make(s->p, sizeof *r))) return no_room(s);
	r->d = (struct declared){ NULL, "", w->line, w->column, "" };
	return (r->value = parse_value(s)) && line_end(s, &r->d.what);
}

/* The file's only form needs no line of its own. */
static bool form(struct parser *s, const struct word *name)
{
	static const struct word only = { .text = "formula" };
	bool ok = true;
	struct form_decl *f = declare(s, &s->t->forms, sizeof *f, name ? name : &only);

	if (!f) return false;
	if (!name) f->d.line = peek(s)->line, f->d.column = peek(s)->column;
	f->body = parse_body(s, peek(s)->column, &ok);
	if (ok && !f->body) return wrong(s, "NAME = VALUE");
	return ok;
}

/* The part of a comment behind "; seen ", cut off there. */
static const char *seen_in(struct parser *s, const char **comment)
{
	const char *at = strstr(*comment, "; seen ");

	if (!at) return "";
	*comment = pool_text(s->p, *comment, (size_t)(at - *comment));
	return at + strlen("; seen ");
}

static bool fault(struct parser *s)
{
	const struct word *w = peek(s);
	struct fault_decl *f;

	if (!name_here(s, "a fault's name") || !(f = declare(s, &s->t->faults, sizeof *f, w))) return false;
	f->form = f->seen = "";
	if (take(s, "in") && !(f->form = name_here(s, "a form's name"))) return false;
	if (!need(s, ":") || !(f->define = pool_make(s->p, MAX_BY * sizeof *f->define))) return false;
	if (is(s, "round")) {
		s->at++;
		if (!(f->site = name_here(s, "a site's name")) || !need(s, "to") || !(f->format = name_here(s, "a format's name"))) return false;
	} else do {
		if (f->n == MAX_BY) return wrong(s, "at most 8 definitions");
		if (!parse_definition(s, &f->define[f->n++], true)) return false;
	} while (take(s, ";"));
	if (!line_end(s, &f->d.what)) return false;
	f->seen = seen_in(s, &f->d.what);
	return f->d.what && f->seen;
}

/* contract NAME [in FORM] [by 64] [: SITE FORMAT, ...] */
static bool contract(struct parser *s)
{
	const struct word *w = peek(s);
	struct contract_decl *k;

	if (!name_here(s, "a contract's name") || !(k = declare(s, &s->t->contracts, sizeof *k, w))) return false;
	k->form = "";
	if (take(s, "in") && !(k->form = name_here(s, "a form's name"))) return false;
	if (take(s, "by")) {
		double by = peek(s)->number;
		if (peek(s)->kind != WORD_NUMBER || !(by >= 1 && by <= 65536) || by != (double)(int)by) return wrong(s, "a chunk's size, 1 to 65536");
		k->by = (size_t)s->w.word[s->at++].number;
	}
	if (!(k->round = pool_make(s->p, MAX_DEPTH * sizeof *k->round))) return no_room(s);
	if (take(s, ":")) do {
		const struct word *at = peek(s);
		if (k->n == MAX_DEPTH) return wrong(s, "at most 64 roundings");
		struct round_decl *r = &k->round[k->n++];
		*r = (struct round_decl){ name_here(s, "a site's name"), NULL, at->line, at->column };
		if (!r->site || !(r->format = name_here(s, "a format's name"))) return false;
	} while (take(s, ","));
	return line_end(s, &k->d.what);
}

static bool number_here(struct parser *s, double *x)
{
	bool negative = take(s, "-");

	if (peek(s)->kind != WORD_NUMBER) return wrong(s, "a number");
	*x = s->w.word[s->at++].number;
	if (negative) *x = -*x;
	return true;
}

/* A number, true, false, a word, "text", [numbers], or TYPE [DRAW(a, b)] of a tensor. */
static bool setting_value(struct parser *s, struct setting *v)
{
	const struct word *w = peek(s);

	if (is(s, "[")) {
		s->at++;
		if (!(v->list = pool_make(s->p, 256 * sizeof *v->list))) return no_room(s);
		do {
			if (v->n_list == 256) return wrong(s, "at most 256 numbers");
			if (!number_here(s, &v->list[v->n_list++])) return false;
		} while (take(s, ","));
		return need(s, "]");
	}
	if (w->kind == WORD_TEXT || is(s, "true") || is(s, "false")) {
		v->json = w->text;
		v->is_text = w->kind == WORD_TEXT;
		s->at++;
		return true;
	}
	if (w->kind != WORD_NAME) return number_here(s, &v->number[0]);
	v->dtype = w->text;
	s->at++;
	if (peek(s)->kind != WORD_NAME) return true;
	v->draw = name_here(s, "normal, uniform, log_uniform, graded, cuts or list");
	if (!take(s, "(")) return true;
	return number_here(s, &v->number[0]) && (!take(s, ",") || number_here(s, &v->number[1])) && need(s, ")");
}

static bool settings(struct parser *s, struct case_decl *c)
{
	if (!(c->set = pool_make(s->p, MAX_DEPTH * sizeof *c->set))) return no_room(s);
	do {
		const struct word *w = peek(s);
		if (c->n == MAX_DEPTH) return wrong(s, "at most 64 settings");
		struct setting *v = &c->set[c->n++];
		*v = (struct setting){ .name = name_here(s, "a size, a parameter or a tensor"), .line = w->line, .column = w->column };
		if (!v->name || !need(s, "=") || !setting_value(s, v)) return false;
	} while (take(s, ","));
	return line_end(s, &c->d.what);
}

/* case NAME: ... and draw ..., what all cases share */
static bool kase(struct parser *s, bool common)
{
	static const struct word shared = { .text = "" };
	const struct word *w = common ? &shared : peek(s);
	struct case_decl *c;

	if (!common && !name_here(s, "a case's name")) return false;
	if (!(c = declare(s, &s->t->cases, sizeof *c, w))) return false;
	c->common = common;
	return (common || need(s, ":")) && settings(s, c);
}

static bool line(struct parser *s)
{
	const struct word *w = peek(s);
	const char *comment = "";

	if (w->kind != WORD_NAME) return wrong(s, "a line of a formula");
	if (w->column != 1) return formula_error(s->e, s->w.path, w->line, w->column, "expected a line that begins in column 1");
	if (w[1].kind == WORD_OP && (w[1].text[0] == '=' || w[1].text[0] == '[')) return form(s, NULL);
	if (is(s, "for")) return form(s, NULL);
	s->at++;
	if (!strcmp(w->text, "in")) return tensors(s, &s->t->in, false);
	if (!strcmp(w->text, "out")) return tensors(s, &s->t->out, true);
	if (!strcmp(w->text, "param")) return params(s);
	if (!strcmp(w->text, "let")) return alias(s, &s->t->lets) && line_end(s, &comment);
	if (!strcmp(w->text, "each")) return each(s) && line_end(s, &comment);
	if (!strcmp(w->text, "def")) return macro(s) && line_end(s, &comment);
	if (!strcmp(w->text, "where")) return rule(s);
	if (!strcmp(w->text, "fault")) return fault(s);
	if (!strcmp(w->text, "contract")) return contract(s);
	if (!strcmp(w->text, "case")) return kase(s, false);
	if (!strcmp(w->text, "draw")) return kase(s, true);
	if (!strcmp(w->text, "form")) return peek(s)->kind == WORD_NAME ? (s->at++, line_end(s, &comment) && form(s, w + 1)) : wrong(s, "a form's name");
	s->at--;
	return wrong(s, "in, out, param, let, each, def, where, form, for, NAME =, fault, contract, draw or case");
}

bool formula_parse(struct tree *t, const char *path, const char *text, size_t n, struct error *e)
{
	struct parser s = { .t = t, .p = &t->pool, .e = e };

	*t = (struct tree){ 0 };
	if (!formula_words(&s.w, &t->pool, path, text, n, e)) return false;
	t->path = s.w.path;
	if (!need(&s, "op") || !(t->name = name_here(&s, "the op's name")) || !line_end(&s, &t->what)) return false;
	while (peek(&s)->kind != WORD_STOP)
		if (!line(&s)) return false;
	if (!t->in || !t->out || !t->forms)
		return wrong(&s, !t->in ? "a line 'in ...'" : !t->out ? "a line 'out ...'" : "a definition of an output");
	return true;
}

void formula_free(struct tree *t)
{
	pool_free(&t->pool);
	*t = (struct tree){ 0 };
}
