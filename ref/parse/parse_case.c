/* Cases. */
#include "parse.h"

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
bool parse_case(struct parser *s, bool common)
{
	static const struct word shared = { .text = "" };
	const struct word *w = common ? &shared : peek(s);
	struct case_decl *c;

	if (!common && !name_here(s, "a case's name")) return false;
	if (!(c = declare(s, &s->t->cases, sizeof *c, w))) return false;
	c->common = common;
	return (common || need(s, ":")) && settings(s, c);
}
