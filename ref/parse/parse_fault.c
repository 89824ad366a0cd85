/* Sites, faults and contracts. */
#include "parse.h"

static bool definitions_of(struct parser *s, struct site_decl *x)
{
	do {
		if (x->n == MAX_BY) return wrong(s, "at most 8 definitions");
		if (!(x->of[x->n++] = name_here(s, "the name of a definition"))) return false;
	} while (take(s, ","));
	return true;
}

/* NAME [of DEFINITION, ...] [stores OUTPUT] */
bool parse_site(struct parser *s)
{
	const struct word *w = peek(s);
	struct site_decl *x;

	if (!name_here(s, "a site's name") || !(x = declare(s, &s->t->sites, sizeof *x, w))) return false;
	if (!(x->of = pool_make(s->p, MAX_BY * sizeof *x->of))) return no_room(s);
	if (!take(s, "of")) x->of[x->n++] = w->text;
	else if (!definitions_of(s, x)) return false;
	if (take(s, "stores") && !(x->stores = name_here(s, "an output's name"))) return false;
	return line_end(s, &x->d.what);
}

/* DEFINITION; ...: of a fault also what a loop carries. */
bool parse_definitions(struct parser *s, struct definition **define, int *n, bool may_carry)
{
	if (!(*define = pool_make(s->p, MAX_BY * sizeof **define))) return no_room(s);
	do {
		if (*n == MAX_BY) return wrong(s, "at most 8 definitions");
		if (!parse_definition(s, &(*define)[(*n)++], may_carry)) return false;
	} while (take(s, ";"));
	return true;
}

/* The part of a comment behind "; seen ", cut off there. */
static const char *seen_in(struct parser *s, const char **comment)
{
	const char *at = strstr(*comment, "; seen ");

	if (!at) return "";
	*comment = pool_text(s->p, *comment, (size_t)(at - *comment));
	return at + strlen("; seen ");
}

/* SIZE, a:b or a, b, ... */
static bool values(struct parser *s, struct fault_decl *f)
{
	double last;

	if (peek(s)->kind == WORD_NAME) return (f->size = name_here(s, "the name of a size")) != NULL;
	if (!(f->list = pool_make(s->p, MAX_VALUES * sizeof *f->list))) return no_room(s);
	if (!number_here(s, &f->list[f->values++])) return false;
	if (is(s, ":")) {
		f->first = f->list[0];
		f->list = NULL;
		s->at++;
		const struct word *w = peek(s);
		if (!number_here(s, &last)) return false;
		if (!(last - f->first >= 1 && last - f->first <= MAX_RANGE) || last != (double)(long)last || f->first != (double)(long)f->first)
			return formula_error(s->e, s->w.path, w->line, w->column, "expected whole numbers, 1 to %d of them", MAX_RANGE);
		f->values = (int)(last - f->first);
		return true;
	}
	while (take(s, ",")) {
		if (f->values == MAX_VALUES) return wrong(s, "at most 32 values");
		if (!number_here(s, &f->list[f->values++])) return false;
	}
	return true;
}

/* VALUE by FACTOR */
static bool numbers_near(struct parser *s, struct fault_decl *f)
{
	if (!(f->near = parse_value(s)) || !need(s, "by")) return false;
	const struct word *w = peek(s);
	if (!number_here(s, &f->by)) return false;
	return f->by > 1 || formula_error(s->e, s->w.path, w->line, w->column, "expected a factor above 1");
}

/* (NAME in VALUES), (NAME near VALUE by FACTOR) */
static bool parameter(struct parser *s, struct fault_decl *f)
{
	if (!take(s, "(")) return true;
	if (!(f->parameter = name_here(s, "a parameter's name"))) return false;
	bool near = take(s, "near");
	return (near || need(s, "in")) && (near ? numbers_near(s, f) : values(s, f)) && need(s, ")");
}

/* Each name of the fault's parameter stands for its value. */
static void give(struct node *x, const char *parameter, int fault)
{
	if (!x) return;
	if (x->kind == NODE_NAME && same_name(x->name, parameter)) x->kind = NODE_GIVEN, x->number = fault;
	for (int i = 0; i < x->n; i++) give(x->arg[i], parameter, fault);
}

bool parse_fault(struct parser *s)
{
	const struct word *w = peek(s);
	struct fault_decl *f;

	if (!name_here(s, "a fault's name") || !(f = declare(s, &s->t->faults, sizeof *f, w))) return false;
	f->form = f->seen = "";
	if (!parameter(s, f)) return false;
	if (take(s, "in") && !(f->form = name_here(s, "a form's name"))) return false;
	if (!need(s, ":")) return false;
	if (is(s, "round")) {
		s->at++;
		if (!(f->site = name_here(s, "a site's name")) || !need(s, "to") || !(f->format = name_here(s, "a format's name"))) return false;
	} else if (!parse_definitions(s, &f->define, &f->n, true)) return false;
	for (int i = 0; i < f->n && f->parameter; i++) give(f->define[i].value, f->parameter, declared_index(s->t->faults, f->d.name));
	if (!line_end(s, &f->d.what)) return false;
	f->seen = seen_in(s, &f->d.what);
	return f->d.what && f->seen;
}

static bool names(struct parser *s, const char ***list, int *n, int most, const char *what)
{
	if (!(*list = pool_make(s->p, (size_t)most * sizeof **list))) return no_room(s);
	do {
		if (*n == most) return wrong(s, "fewer names");
		if (!((*list)[(*n)++] = name_here(s, what))) return false;
	} while (take(s, ","));
	return true;
}

/* of NAME, ...: SITE, ... */
bool parse_taken(struct parser *s, bool faults)
{
	const struct word *w = peek(s);
	struct taken **end = &s->t->taken, *x;

	while (*end) end = (struct taken **)&(*end)->d.next;
	if (!(x = *end = pool_make(s->p, sizeof *x))) return no_room(s);
	x->d = (struct declared){ NULL, "", w->line, w->column, "" };
	x->faults = faults;
	return need(s, "of") && names(s, &x->as, &x->n_as, MAX_BY, "a name behind 'as'") && need(s, ":")
		&& names(s, &x->names, &x->n, MAX_DEPTH, faults ? "a fault's name" : "a site's name") && line_end(s, &x->d.what);
}

/* SITE FORMAT, ... */
static bool roundings(struct parser *s, struct round_decl **round, int *n)
{
	if (!(*round = pool_make(s->p, MAX_DEPTH * sizeof **round))) return no_room(s);
	do {
		const struct word *at = peek(s);
		if (*n == MAX_DEPTH) return wrong(s, "at most 64 roundings");
		struct round_decl *r = &(*round)[(*n)++];
		*r = (struct round_decl){ name_here(s, "a site's name"), NULL, at->line, at->column };
		if (!r->site || !(r->format = name_here(s, "a format's name"))) return false;
	} while (take(s, ","));
	return true;
}

/* structure NAME of CONTRACT, ...: SITE FORMAT, ... */
bool parse_structure(struct parser *s)
{
	const struct word *w = peek(s);
	struct structure_decl *k;

	if (!name_here(s, "a structure's name") || !need(s, "of")) return false;
	if (!(k = append(s, &s->t->structures, sizeof *k)) || !(k->of = pool_make(s->p, MAX_BY * sizeof *k->of))) return no_room(s);
	k->d = (struct declared){ NULL, w->text, w->line, w->column, "" };
	k->of_line = peek(s)->line;
	k->of_column = peek(s)->column;
	do {
		if (k->n_of == MAX_BY) return wrong(s, "at most 8 contracts");
		if (!(k->of[k->n_of++] = name_here(s, "a contract's name"))) return false;
	} while (take(s, ","));
	return need(s, ":") && roundings(s, &k->round, &k->n) && line_end(s, &k->d.what);
}

/* contract NAME [in FORM] [by 64] [as TENSOR, ...] [: SITE FORMAT, ...] */
bool parse_contract(struct parser *s)
{
	const struct word *w = peek(s);
	struct contract_decl *k;

	if (!name_here(s, "a contract's name") || !(k = declare(s, &s->t->contracts, sizeof *k, w))) return false;
	k->form = "";
	if (take(s, "in") && !(k->form = name_here(s, "a form's name"))) return false;
	if (take(s, "by") && !chunk_size_here(s, &k->by)) return false;
	if (take(s, "as") && !names(s, &k->as, &k->n_as, MAX_BY, "a tensor's name, or operands, after 'as'")) return false;
	const struct word *first = peek(s);
	if (take(s, ":") && !roundings(s, &k->round, &k->n)) return false;
	const char *said = k->n ? as_written(s, first, peek(s)) : "all in float32";
	return said && line_end(s, &k->d.what) && (k->d.what[0] || (k->d.what = said));
}
