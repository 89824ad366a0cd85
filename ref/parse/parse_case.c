/* Cases. */
#include "parse.h"

enum { MAX_NUMBERS = 256 };

/* [numbers], none too */
static bool numbers_here(struct parser *s, struct setting *v)
{
	if (!need(s, "[")) return false;
	if (!(v->list = pool_make(s->p, MAX_NUMBERS * sizeof *v->list))) return no_room(s);
	if (take(s, "]")) return true;
	do {
		if (v->n_list == MAX_NUMBERS) return wrong(s, "at most 256 numbers");
		if (!number_here(s, &v->list[v->n_list++])) return false;
	} while (take(s, ","));
	return need(s, "]");
}

/* Of the draws that there are: do the two numbers say one? */
static bool is_distribution(struct parser *s, const struct setting *v, const struct word *at)
{
	double a = v->number[0], b = v->number[1];
	const char *what = !strcmp(v->draw, "normal") && !(b >= 0) ? "a deviation of 0 or more"
		: !strcmp(v->draw, "uniform") && !(a < b) ? "a number below another"
		: !strcmp(v->draw, "log_uniform") && !(a > 0 && a < b) ? "a number above 0 and one above that"
		: !strcmp(v->draw, "graded") && !(a > 0 && b >= 0) ? "a factor above 0 and a deviation of 0 or more" : NULL;

	return !what || formula_error(s->e, s->w.path, at->line, at->column, "expected %s in %s(...), got %g, %g", what, v->draw, a, b);
}

/* DRAW(a, b), FUNCTION(DRAW(a, b)) or DRAW [numbers] */
static bool drawn_here(struct parser *s, struct setting *v)
{
	const struct word *at = peek(s);
	const char *name = name_here(s, "normal, uniform, log_uniform, graded or cuts");

	if (!name) return false;
	if (is(s, "(") && peek(s)[1].kind == WORD_NAME) {
		if (v->n_map == MAX_MAPS) return wrong(s, "at most 4 functions of a draw");
		v->map[v->n_map++] = name;
		return need(s, "(") && drawn_here(s, v) && need(s, ")");
	}
	v->draw = name;
	if (is(s, "[")) return numbers_here(s, v);
	return need(s, "(") && number_here(s, &v->number[0]) && need(s, ",") && number_here(s, &v->number[1]) && need(s, ")")
		&& is_distribution(s, v, at);
}

/* That, and a multiple of it: DRAW(a, b) * number */
static bool draw_here(struct parser *s, struct setting *v)
{
	v->times = 1;
	return drawn_here(s, v) && (!take(s, "*") || number_here(s, &v->times));
}

/* A number, true, false, a word, "text", [numbers], or, of a tensor, TYPE and DRAW or [numbers], or one of the two. */
static bool setting_value(struct parser *s, struct setting *v)
{
	const struct word *w = peek(s);

	if (is(s, "[")) return numbers_here(s, v);
	if (w->kind == WORD_TEXT || is(s, "true") || is(s, "false")) {
		v->json = w->text;
		v->is_text = w->kind == WORD_TEXT;
		s->at++;
		return true;
	}
	if (w->kind != WORD_NAME) return number_here(s, &v->number[0]);
	if (w[1].kind == WORD_OP && strchr("([", w[1].text[0])
		&& !(w[1].text[0] == '[' && strcmp(w->text, "cuts"))) return draw_here(s, v);
	v->dtype = w->text;
	s->at++;
	if (is(s, "[")) return numbers_here(s, v);
	return peek(s)->kind != WORD_NAME || draw_here(s, v);
}

static bool settings(struct parser *s, struct case_decl *c)
{
	if (!(c->set = pool_make(s->p, MAX_DEPTH * sizeof *c->set))) return no_room(s);
	do {
		const struct word *w = peek(s);
		if (c->n == MAX_DEPTH) return wrong(s, "at most 64 settings");
		struct setting *v = &c->set[c->n++];
		*v = (struct setting){ .name = name_here(s, "a size, a parameter or a tensor"), .line = w->line, .column = w->column };
		if (!v->name) return false;
		v->bare = !c->common && !is(s, "=");
		if (!v->bare && (!need(s, "=") || !setting_value(s, v))) return false;
	} while (take(s, ","));
	return true;
}

/* as CASE, alike, large, variant N, contract NAME, in any order */
static bool header(struct parser *s, struct case_decl *c)
{
	for (;;) {
		const struct word *w = peek(s), *of = w + (w->kind == WORD_NAME);
		if (take(s, "large")) c->large = true;
		else if (is(s, "alike")) {
			if (!c->base) return wrong(s, "'as' and the name of a case before 'alike'");
			c->alike = take(s, "alike");
		} else if (take(s, "as")) {
			if (!name_here(s, "the name of a case above")) return false;
			c->base = declared(s->t->cases, of->text);
			if (!c->base || c->base == c) return s->at--, wrong(s, "the name of a case above");
		} else if (take(s, "variant")) {
			if (of->kind != WORD_NUMBER) return wrong(s, "the number of a kernel variant");
			c->variant = of->text;
			s->at++;
		} else if (take(s, "contract")) {
			if (!(c->contract = name_here(s, "a contract's name"))) return false;
			c->contract_line = of->line;
			c->contract_column = of->column;
		} else return true;
	}
}

/* case NAME [as CASE] ...: ..., and draw ..., what all cases share */
bool parse_case(struct parser *s, bool common)
{
	static const struct word shared = { .text = "" };
	const struct word *w = common ? &shared : peek(s);
	struct case_decl *c;

	if (!common && !name_here(s, "a case's name")) return false;
	if (!(c = declare(s, &s->t->cases, sizeof *c, w))) return false;
	c->common = common;
	if (common) return settings(s, c) && line_end(s, &c->d.what);
	if (!header(s, c)) return false;
	if (!(c->base && peek(s)->kind == WORD_END) && !(need(s, ":") && settings(s, c))) return false;
	const char *said = as_written(s, w + 1, peek(s));
	return said && line_end(s, &c->d.what) && (c->d.what[0] || (c->d.what = said));
}
