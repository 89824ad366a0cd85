/* A formula file: its lines. */
#include "nearest.h"
#include "parse.h"

#include <stdint.h>
#include <stdio.h>

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

bool need_end(struct parser *s, const char *op, const struct word *open)
{
	const struct word *w = peek(s);

	if (is(s, op) || (w->line == open->line && w->kind != WORD_STOP)) return need(s, op);
	return formula_error(s->e, s->w.path, open->line, open->column, "the '%s' here is not closed; expected '%s' before line %d",
		open->text, op, w->line);
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
		if (same_name(d->name, name)) return (void *)(uintptr_t)d;
	return NULL;
}

int declared_index(const void *list, const char *name)
{
	int i = 0;

	for (const struct declared *d = list; d; d = d->next, i++)
		if (same_name(d->name, name)) return i;
	return -1;
}

bool same_node(const struct node *a, const struct node *b)
{
	if (a->kind != b->kind || a->n != b->n || a->number != b->number) return false;
	if ((a->kind == NODE_NAME || a->kind == NODE_INDEX || a->kind == NODE_CALL) && !same_name(a->name, b->name)) return false;
	for (int i = 0; i < a->n; i++)
		if (!same_node(a->arg[i], b->arg[i])) return false;
	return true;
}

void *append(struct parser *s, void *list, size_t size)
{
	struct declared **end = list;

	while (*end) end = &(*end)->next;
	if (!(*end = pool_make(s->p, size))) no_room(s);
	return *end;
}

void *declare(struct parser *s, void *list, size_t size, const struct word *name)
{
	struct declared *d = declared(*(struct declared **)list, name->text);

	if (d) {
		formula_error(s->e, s->w.path, name->line, name->column, "expected a name of its own; '%s' stands in line %d", name->text, d->line);
		return NULL;
	}
	if (!(d = append(s, list, size))) return NULL;
	*d = (struct declared){ NULL, name->text, name->line, name->column, "" };
	return d;
}

bool number_here(struct parser *s, double *x)
{
	bool negative = take(s, "-");

	if (peek(s)->kind != WORD_NUMBER) return wrong(s, "a number");
	*x = s->w.word[s->at++].number;
	if (negative) *x = -*x;
	return true;
}

bool chunk_size_here(struct parser *s, size_t *n)
{
	const struct word *w = peek(s);

	if (w->kind != WORD_NUMBER || !(w->number >= 1 && w->number <= 65536) || w->number != (double)(int)w->number)
		return wrong(s, "a chunk's size, 1 to 65536");
	*n = (size_t)w->number;
	s->at++;
	return true;
}

const char *as_written(struct parser *s, const struct word *first, const struct word *end)
{
	first += first->kind == WORD_OP;
	size_t n = first < end ? end[-1].at + end[-1].n - first->at : 0, to = 0;
	char *text = pool_make(s->p, n + 1);

	for (size_t i = 0; text && i < n; i++) {
		char c = s->w.source[first->at + i];
		if (c == '#') i += strcspn(s->w.source + first->at + i, "\n"), c = ' ';
		bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
		if (!blank || text[to - 1] != ' ') text[to++] = blank ? ' ' : c;
	}
	return text ? text : (no_room(s), NULL);
}

/* The file's only form needs no line of its own. */
static bool form(struct parser *s, const struct word *name, struct node *when)
{
	static const struct word only = { .text = "formula" };
	bool ok = true, more;
	const struct declared *above = name ? NULL : declared((const struct declared *)s->t->forms, only.text);
	const struct word *here = peek(s);
	if (above)
		return formula_error(s->e, s->w.path, here->line, here->column,
			"expected no second body; the one above begins in line %d, and 'let' stands before it", above->line);
	struct form_decl *f = declare(s, &s->t->forms, sizeof *f, name ? name : &only);

	if (!f) return false;
	f->when = when;
	if (!name) f->d.line = peek(s)->line, f->d.column = peek(s)->column;
	do {
		const char *comment;
		if (parse_is_op(s)) {
			f->d.line = peek(s)->line, f->d.column = peek(s)->column;
			f->of = s->w.word[s->at + 1].text;
			s->at += 2;
			if (!line_end(s, &comment)) return false;
		} else {
			if (!s->t->each && take(s, "each") && !(parse_each(s, &f->each) && line_end(s, &comment))) return false;
			const struct word *w = peek(s);
			if (s->t->each && is(s, "each"))
				return formula_error(s->e, s->w.path, w->line, w->column,
					"expected 'each' above all forms or in each of them; line %d has one above", s->t->each->d.line);
			f->body = parse_body(s, w->column, &ok);
			if (ok && !f->body) return wrong(s, "NAME = VALUE");
		}
		more = ok && !s->t->each && (is(s, "each") || parse_is_op(s));
		if (more && !(f = f->more = pool_make(s->p, sizeof *f))) return no_room(s);
	} while (more);
	return ok;
}

/* NAME as FORM [if CONDITION]: what is defined anew */
static bool form_as(struct parser *s, const struct word *name)
{
	struct form_decl *f = declare(s, &s->t->forms, sizeof *f, name);
	const struct word *at = peek(s);
	const char *comment, *as = f ? name_here(s, "a form's name") : NULL;
	const struct form_decl *other = as ? declared(s->t->forms, as) : NULL;

	if (!as) return false;
	if (!other || other == f || other->define) {
		s->at--;
		return formula_error(s->e, s->w.path, at->line, at->column, "expected a form above that has statements, got '%s'", as);
	}
	f->each = other->each;
	f->body = other->body;
	f->more = other->more;
	if (take(s, "if") && !(f->when = parse_value(s))) return false;
	return need(s, ":") && parse_definitions(s, &f->define, &f->n, false) && line_end(s, &comment);
}

/* NAME [if CONDITION], and its statements in the lines below, or NAME as FORM: DEFINITION; ... */
static bool named_form(struct parser *s)
{
	const struct word *name = peek(s);
	struct node *when = NULL;
	const char *comment;

	if (!name_here(s, "a form's name")) return false;
	if (take(s, "as")) return form_as(s, name);
	if (take(s, "if") && !(when = parse_value(s))) return false;
	return line_end(s, &comment) && form(s, name, when);
}

static bool iterates(struct parser *s)
{
	const char *comment;

	s->t->iterates = true;
	return line_end(s, &comment);
}

static const char *const begins[] = { "in", "out", "held", "param", "let", "each", "def", "where", "iterates", "form", "site", "sites", "fault",
	"faults", "contract", "structure", "draw", "case", NULL };

bool parse_begins_line(const char *name)
{
	size_t i = 0;

	while (begins[i] && !same_name(begins[i], name)) i++;
	return begins[i];
}

static bool line(struct parser *s)
{
	const struct word *w = peek(s);
	const char *comment = "";

	if (w->kind != WORD_NAME) return wrong(s, "a line of a formula");
	if (w->column != 1) return formula_error(s->e, s->w.path, w->line, w->column, "expected a line that begins in column 1");
	if (parse_is_statement(s)) return form(s, NULL, NULL);
	if (!strcmp(w->text, "iterates")) return s->at++, iterates(s);
	s->at++;
	if (!strcmp(w->text, "in")) return parse_tensors(s, &s->t->in, false);
	if (!strcmp(w->text, "out")) return parse_tensors(s, &s->t->out, true);
	if (!strcmp(w->text, "held")) return parse_tensors(s, &s->t->held, false);
	if (!strcmp(w->text, "param")) return parse_params(s);
	if (!strcmp(w->text, "let")) return parse_alias(s, &s->t->lets) && line_end(s, &comment);
	if (!strcmp(w->text, "each") && s->t->forms) {
		s->at--;
		return formula_error(s->e, s->w.path, w->line, w->column,
			"expected 'each' above all statements; other pieces behind them need 'form NAME' above the first 'each'");
	}
	if (!strcmp(w->text, "each")) return parse_each(s, &s->t->each) && line_end(s, &comment);
	if (!strcmp(w->text, "def")) return s->w.word[s->at + 1].kind == WORD_END ? parse_lines(s) : parse_macro(s) && line_end(s, &comment);
	if (!strcmp(w->text, "where")) return parse_rule(s);
	if (!strcmp(w->text, "site")) return parse_site(s);
	if (!strcmp(w->text, "fault")) return parse_fault(s);
	if (!strcmp(w->text, "sites")) return parse_taken(s, false);
	if (!strcmp(w->text, "faults")) return parse_taken(s, true);
	if (!strcmp(w->text, "contract")) return parse_contract(s);
	if (!strcmp(w->text, "structure")) return parse_structure(s);
	if (!strcmp(w->text, "case")) return parse_case(s, false);
	if (!strcmp(w->text, "draw")) return parse_case(s, true);
	if (!strcmp(w->text, "form")) return named_form(s);
	struct nearest near = nearest_to(w->text);
	char meant[NEAREST_SAID];
	for (size_t i = 0; begins[i]; i++) nearest_try(&near, begins[i]);
	nearest_declared(&near, s->t->lines);
	s->at--;
	return formula_error(s->e, s->w.path, w->line, w->column, "expected %s, got '%s'%s",
		"in, out, held, param, let, each, def, where, iterates, form, for, if, use, NAME =, site, fault, contract, structure, draw or case",
		w->text, nearest_said(&near, meant));
}

/* The words, and the first line, which `kind` begins. */
static bool begin(struct parser *s, const char *kind, const char *path, const char *text, size_t n)
{
	struct tree *t = s->t;

	*t = (struct tree){ 0 };
	if (!formula_words(&s->w, &t->pool, path, text, n, s->e)) return false;
	t->path = s->w.path;
	t->source = s->w.source;
	return need(s, kind) && (t->name = name_here(s, "the op's name")) && line_end(s, &t->what);
}

bool formula_parse_cases(struct tree *t, const char *path, const char *text, size_t n, struct error *e)
{
	struct parser s = { .t = t, .p = &t->pool, .e = e };

	if (!begin(&s, "cases", path, text, n)) return false;
	while (peek(&s)->kind != WORD_STOP) {
		bool common = is(&s, "draw");
		if (peek(&s)->column != 1 || !(take(&s, "draw") || take(&s, "case"))) return wrong(&s, "draw or case, in column 1");
		if (!parse_case(&s, common)) return false;
	}
	return true;
}

bool formula_parse(struct tree *t, const char *path, const char *text, size_t n, struct error *e)
{
	struct parser s = { .t = t, .p = &t->pool, .e = e };

	if (!begin(&s, "op", path, text, n)) return false;
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
