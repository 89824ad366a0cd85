/* `use OP` alone in a line: the pieces of that op behind those above. Its tensors are those of the same names; all else keeps its own. */
#include "use_private.h"

#define NEXT(x) ((void *)(x)->d.next)

static bool wrong(const struct tree *to, const struct form_decl *at, const char *what, const char *name, struct error *e)
{
	return formula_error(e, to->path, at->d.line, at->d.column, "expected %s '%s', which '%s' has", what, name, at->of);
}

/* All of `from` behind *list, if none of them has a name that stands there. */
static bool append(const struct tree *to, const struct form_decl *at, void *list, void *from, struct error *e)
{
	struct declared **end = list;

	for (const struct declared *d = from; d; d = d->next)
		if (d->name[0] && declared(*end, d->name)) return wrong(to, at, "a name of its own, not", d->name, e);
	while (*end) end = &(*end)->next;
	*end = from;
	return true;
}

/* Inputs that are none of the caller's, and what it does not hold either, become inputs. */
static void add_inputs(struct tree *to, struct tensor_decl *t)
{
	struct tensor_decl **end = &to->in;

	while (*end) end = (struct tensor_decl **)&(*end)->d.next;
	for (struct tensor_decl *next; t; t = next) {
		next = NEXT(t);
		t->d.next = NULL;
		if (declared(to->in, t->d.name) || declared(to->held, t->d.name)) continue;
		*end = t;
		end = (struct tensor_decl **)&t->d.next;
	}
}

static bool params_known(const struct tree *to, const struct form_decl *at, const struct tree *of, struct error *e)
{
	for (const struct param_decl *p = of->params; p; p = NEXT(p))
		if (!declared(to->params, p->d.name)) return wrong(to, at, "the parameter", p->d.name, e);
	for (const struct tensor_decl *t = of->out; t; t = NEXT(t))
		if (!declared(to->out, t->d.name) && !declared(to->held, t->d.name)) return wrong(to, at, "the output", t->d.name, e);
	return true;
}

static void at_line(struct node *x, int line, int column)
{
	if (!x) return;
	x->line = line;
	x->column = column;
	for (int i = 0; i < x->n; i++) at_line(x->arg[i], line, column);
}

/* An error in a statement of it stands in the caller's line. */
static void statements_at(struct statement *s, int line, int column)
{
	for (; s; s = s->next) {
		if (s->use) s->use->line = line, s->use->column = column;
		for (int i = 0; s->use && i < s->use->n; i++) at_line(s->use->given[i].target, line, column), at_line(s->use->given[i].value, line, column);
		at_line(s->define.target, line, column);
		at_line(s->define.value, line, column);
		at_line(s->condition, line, column);
		if (s->loop) {
			at_line(s->loop->range, line, column);
			for (int i = 0; i < s->loop->n_carry; i++) at_line(s->loop->carry[i].from, line, column);
		}
		statements_at(s->body, line, column);
	}
}

bool use_pieces(struct tree *to, struct form_decl *at, struct tree *of, struct error *e)
{
	struct form_decl *first = of->forms, *last = first;

	bool plain = !first->d.next && !of->each;
	for (struct form_decl *f = first; f; f = f->more) plain = plain && !f->of;
	if (!plain) return wrong(to, at, "pieces of the op's own in its only form, not", of->name, e);
	if (!params_known(to, at, of, e)) return false;
	for (struct form_decl *f = first; f; f = f->more) {
		statements_at(f->body, at->d.line, at->d.column);
		last = f;
	}
	add_inputs(to, of->in);
	bool ok = append(to, at, &to->held, of->held, e) && append(to, at, &to->lets, of->lets, e) && append(to, at, &to->aliases, of->aliases, e)
		&& append(to, at, &to->macros, of->macros, e) && append(to, at, &to->rules, of->rules, e) && append(to, at, &to->sites, of->sites, e)
		&& append(to, at, &to->faults, of->faults, e) && append(to, at, &to->taken, of->taken, e);
	at->of = NULL;
	at->each = first->each;
	at->body = first->body;
	last->more = at->more;
	at->more = first->more;
	pool_join(&to->pool, &of->pool);         /* its memory is the caller's from here on */
	return ok;
}
