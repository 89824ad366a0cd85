/* The sites of a formula: where a kernel may round. */
#include "formula_private.h"

#include <string.h>

#define NEXT(x) ((void *)(x)->d.next)

static bool wrong(const struct formula *f, const struct declared *d, struct error *e, const char *what)
{
	return formula_error(e, f->tree.path, d->line, d->column, "expected %s", what);
}

int formula_site(const struct tree *t, const struct op *op, const char *name)
{
	int i = 0;

	if (!t->sites) return op_site(op, name);
	for (const struct site_decl *x = t->sites; x; x = NEXT(x), i++)
		for (int k = 0; k < x->n; k++)
			if (same_name(x->of[k], name)) return i;
	return -1;
}

/* In no form as yet. */
enum { NOWHERE = -2 };

/* Each name that a form defines is a site, unless the file lists its sites; an output's is where it is stored, and so
 * is one that has an output's name. */
static bool site(struct formula *f, struct site_spec *sites, size_t *n, const char *name, const char *what, int form, struct error *e)
{
	int out = declared_index(f->tree.out, name), i = formula_site(&f->tree, &f->op, name), listed;
	const struct site_decl *says;

	if (i >= 0) {
		struct site_spec *s = &sites[i];
		s->form = s->form == NOWHERE || s->form == form ? form : -1;
		if (out >= 0) s->store = out + 1;
	}
	says = out >= 0 && i < 0 ? declared(f->tree.sites, name) : NULL;
	listed = says && !says->stores ? declared_index(f->tree.sites, name) : -1;
	if (listed >= 0) sites[listed].store = out + 1;
	if (i >= 0 || f->tree.sites) return true;
	if (*n == MAX_SITE) return wrong(f, &f->tree.forms->d, e, "at most 64 names in all forms");
	sites[(*n)++] = (struct site_spec){ name, what, form, out + 1 };
	return true;
}

bool formula_listed_sites(struct formula *f, struct site_spec *sites, struct error *e)
{
	int i = 0;

	for (const struct site_decl *x = f->tree.sites; x; x = NEXT(x), i++) {
		if (i == MAX_SITE) return wrong(f, &x->d, e, "at most 64 sites");
		int out = x->stores ? declared_index(f->tree.out, x->stores) : -1;
		if (x->stores && out < 0 && strcmp(x->stores, "nothing")) return wrong(f, &x->d, e, "an output's name, or nothing, after 'stores'");
		sites[i] = (struct site_spec){ x->d.name, x->d.what, NOWHERE, out + 1 };
	}
	return true;
}

/* Are all that the file lists somewhere? */
bool formula_sites_stand(struct formula *f, const struct site_spec *sites, struct error *e)
{
	for (const struct site_decl *x = f->tree.sites; x; x = NEXT(x), sites++)
		if (sites->form == NOWHERE) return wrong(f, &x->d, e, "a site of what a form defines");
	return true;
}

/* inverse(A, n, NAME) */
static const char *inner_site(const struct node *x)
{
	const char *name = x->kind == NODE_CALL && !strcmp(x->name, "inverse") && x->n == 3 ? x->arg[2]->name : NULL;

	for (int i = 0; !name && i < x->n; i++) name = inner_site(x->arg[i]);
	return name;
}

bool formula_sites_of(struct formula *f, struct site_spec *sites, size_t *n, const struct statement *s, int form, struct error *e)
{
	for (; s; s = s->next) {
		if (s->condition && !formula_sites_of(f, sites, n, s->body, form, e)) return false;
		if (s->condition) continue;
		if (!s->loop) {
			if (s->define.indexed && !declared(f->tree.out, s->define.name) && !declared(f->tree.held, s->define.name))
				return formula_error(e, f->tree.path, s->define.line, s->define.column, "expected an output; nothing is named '%s'", s->define.name);
			const char *inner = inner_site(s->define.value);
			if (inner && !site(f, sites, n, inner, "operands within", form, e)) return false;
			if (!site(f, sites, n, s->define.name, s->define.text, form, e)) return false;
			continue;
		}
		if (!formula_sites_of(f, sites, n, s->body, form, e)) return false;
		for (int i = 0; i < s->loop->n_carry; i++) {
			const struct carry *c = &s->loop->carry[i];
			if (c->to && !declared(f->tree.out, c->to->name))
				return formula_error(e, f->tree.path, c->to->line, c->to->column, "expected an output; nothing is named '%s'", c->to->name);
			if (c->to && !site(f, sites, n, c->to->name, "what the loop carried, at its end", form, e)) return false;
		}
	}
	return true;
}
