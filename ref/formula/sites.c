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

/* ---- which names hold indices, and which are read ---- */

/* Of names that stand for each other. */
enum { DEEPEST_NAME = 16 };

static const struct tensor_decl *stored_in(const struct tree *t, const char *name)
{
	const struct tensor_decl *out = declared(t->out, name);

	return out ? out : declared(t->held, name);
}

static bool holds_index(const struct tree *t, const char *name, int depth);

static bool is_integer(const struct tensor_decl *x) { return x && x->integer; }

/* Is the value made of indices alone, as they are? */
static bool is_index(const struct tree *t, const struct node *x, int depth)
{
	if (x->kind == NODE_NAME) return holds_index(t, x->name, depth - 1);
	if (x->kind == NODE_INDEX) return is_integer(declared(t->in, x->name)) || is_integer(declared(t->held, x->name));
	return x->kind == NODE_CALL && (!strcmp(x->name, "top") || !strcmp(x->name, "iota"));
}

/* Of the definitions of a name: how many there are, how many are of indices, and is one of what is stored as whole numbers that name? */
struct indices { const char *name; int all, whole; bool stored; };

static void count_indices(const struct tree *t, const struct statement *s, int depth, struct indices *n)
{
	for (; s; s = s->next) {
		const struct definition *d = &s->define;
		if (s->body) {
			count_indices(t, s->body, depth, n);
			for (int i = 0; s->loop && i < s->loop->n_carry; i++) n->all += same_name(s->loop->carry[i].name, n->name);
		} else if (d->indexed) {
			n->stored = n->stored || (is_integer(stored_in(t, d->name)) && d->value->kind == NODE_NAME && same_name(d->value->name, n->name));
		} else if (same_name(d->name, n->name)) {
			n->all++;
			n->whole += is_index(t, d->value, depth);
		}
	}
}

static bool holds_index(const struct tree *t, const char *name, int depth)
{
	struct indices n = { .name = name };

	if (is_integer(stored_in(t, name))) return true;
	if (depth <= 0) return false;
	for (const struct form_decl *f = t->forms; f; f = NEXT(f))
		for (const struct form_decl *g = f; g; g = g->more) {
			int all = n.all;
			bool stored = n.stored;
			count_indices(t, g->body, depth, &n);
			if (n.all == all) n.stored = stored;    /* the name is another one's there, an index of pieces */
		}
	return n.stored || (n.all && n.whole == n.all);
}

static bool is_stored_index(const struct tree *t, const char *name, int depth);

/* Was it found as it is: by top or iota, read from an integer input, or from held indices? A count is none, and what a loop carries is not. */
static bool is_found(const struct tree *t, const struct node *x, int depth);

struct found { const char *name; bool all, any, as_store; };
static void find_definitions(const struct tree *t, const struct statement *s, int depth, struct found *n)
{
	for (; s; s = s->next) {
		const struct definition *d = &s->define;
		for (int i = 0; s->body && s->loop && i < s->loop->n_carry; i++) {
			const struct carry *c = &s->loop->carry[i];
			n->all = n->all && !same_name(c->name, n->name) && !(n->as_store && c->to && c->to->name && same_name(c->to->name, n->name));
		}
		if (s->body) find_definitions(t, s->body, depth, n);
		else if (d->indexed == n->as_store && same_name(d->name, n->name)) n->any = true, n->all = n->all && is_found(t, d->value, depth);
	}
}

static bool all_found(const struct tree *t, const char *name, bool as_store, int depth)
{
	struct found n = { name, true, false, as_store };

	for (const struct form_decl *f = t->forms; f; f = NEXT(f))
		for (const struct form_decl *g = f; g; g = g->more) find_definitions(t, g->body, depth, &n);
	return n.any && n.all;
}

static bool is_stored_index(const struct tree *t, const char *name, int depth) { return is_integer(stored_in(t, name)) && all_found(t, name, true, depth); }

static bool is_found(const struct tree *t, const struct node *x, int depth)
{
	if (depth <= 0) return false;
	if (x->kind == NODE_NAME) return all_found(t, x->name, false, depth - 1);
	if (x->kind == NODE_INDEX) return is_integer(declared(t->in, x->name)) || is_stored_index(t, x->name, depth - 1);
	return x->kind == NODE_CALL && (!strcmp(x->name, "top") || !strcmp(x->name, "iota"));
}

bool formula_names(const struct tree *t, const char *out) { return is_stored_index(t, out, DEEPEST_NAME); }

/* Names that what is stored is made of. */
enum { MAX_NAMES = 1024 };
struct reads { const char *name[MAX_NAMES]; int n; bool more; };

static bool is_read(const struct reads *r, const char *name)
{
	for (int i = 0; i < r->n; i++)
		if (same_name(r->name[i], name)) return true;
	return r->n == MAX_NAMES;
}

static void read_in(struct reads *r, const struct node *x)
{
	if (!x) return;
	bool names = (x->kind == NODE_NAME || x->kind == NODE_INDEX || x->kind == NODE_CALL) && x->name;
	if (names && r->n < MAX_NAMES && !is_read(r, x->name)) r->name[r->n++] = x->name, r->more = true;
	for (int i = 0; i < x->n; i++) read_in(r, x->arg[i]);
}

static void read_by(struct reads *r, const struct statement *s)
{
	for (; s; s = s->next) {
		if (!s->body) {
			if (s->define.indexed) read_in(r, s->define.target);
			if (s->define.indexed || is_read(r, s->define.name)) read_in(r, s->define.value);
			continue;
		}
		read_in(r, s->condition);
		for (int i = 0; s->loop && i < s->loop->n_carry; i++) {
			const struct carry *c = &s->loop->carry[i];
			const struct node name = { .kind = NODE_NAME, .name = c->name };
			read_in(r, &name), read_in(r, c->from), read_in(r, c->to);
		}
		if (s->loop) read_in(r, s->loop->range), read_in(r, s->loop->cuts);
		read_by(r, s->body);
	}
}

/* By any form, the file's functions and indices, and what a form defines anew. */
static void find_reads(const struct tree *t, struct reads *r)
{
	for (const struct macro *m = t->macros; m; m = NEXT(m)) read_in(r, m->value);
	for (const struct alias *a = t->lets; a; a = NEXT(a)) read_in(r, a->value);
	for (const struct alias *a = t->aliases; a; a = NEXT(a)) read_in(r, a->value);
	for (r->more = true; r->more;) {
		r->more = false;
		for (const struct form_decl *f = t->forms; f; f = NEXT(f)) {
			for (int i = 0; i < f->n; i++) read_in(r, f->define[i].value);
			for (const struct form_decl *g = f; g; g = g->more) read_by(r, g->body);
		}
	}
}

/* May a kernel round what this defines? Not an index, and not what is not computed. */
static bool may_round(const struct tree *t, const struct reads *r, const char *name)
{
	return !holds_index(t, name, DEEPEST_NAME) && (stored_in(t, name) || is_read(r, name));
}

/* Each name that a form defines and reads, and that is no index, is a site, unless the file lists its sites; an output's is where it is
 * stored, and so is one that has an output's name. */
static bool site(struct formula *f, const struct reads *r, struct site_spec *sites, size_t *n, const char *name,
	const char *what, int form, struct error *e)
{
	int out = declared_index(f->tree.out, name), i = formula_site(&f->tree, &f->op, name), listed;
	const struct site_decl *says;

	if (i >= 0) {
		struct site_spec *s = &sites[i];
		s->forms |= 1u << form;
		if (out >= 0) s->store = out + 1;
	}
	says = out >= 0 && i < 0 ? declared(f->tree.sites, name) : NULL;
	listed = says && !says->stores ? declared_index(f->tree.sites, name) : -1;
	if (listed >= 0) sites[listed].store = out + 1;
	if (i >= 0 || f->tree.sites || !may_round(&f->tree, r, name)) return true;
	if (*n == MAX_SITE) return wrong(f, &f->tree.forms->d, e, "at most 64 names in all forms");
	sites[(*n)++] = (struct site_spec){ name, what, 1u << form, out + 1 };
	return true;
}

bool formula_listed_sites(struct formula *f, struct site_spec *sites, struct error *e)
{
	int i = 0;

	for (const struct site_decl *x = f->tree.sites; x; x = NEXT(x), i++) {
		if (i == MAX_SITE) return wrong(f, &x->d, e, "at most 64 sites");
		int out = x->stores ? declared_index(f->tree.out, x->stores) : -1;
		if (x->stores && out < 0 && strcmp(x->stores, "nothing")) return wrong(f, &x->d, e, "an output's name, or nothing, after 'stores'");
		sites[i] = (struct site_spec){ x->d.name, x->d.what, 0, out + 1 };
	}
	return true;
}

/* Are all that the file lists somewhere? */
bool formula_sites_stand(struct formula *f, const struct site_spec *sites, struct error *e)
{
	for (const struct site_decl *x = f->tree.sites; x; x = NEXT(x), sites++)
		if (!sites->forms) return wrong(f, &x->d, e, "a site of what a form defines");
	return true;
}

/* inverse(A, n, NAME) */
static const char *inner_site(const struct node *x)
{
	const char *name = x->kind == NODE_CALL && !strcmp(x->name, "inverse") && x->n == 3 ? x->arg[2]->name : NULL;

	for (int i = 0; !name && i < x->n; i++) name = inner_site(x->arg[i]);
	return name;
}

static bool sites_of(struct formula *f, const struct reads *r, struct site_spec *sites, size_t *n,
	const struct statement *s, int form, struct error *e)
{
	for (; s; s = s->next) {
		if (s->condition && !sites_of(f, r, sites, n, s->body, form, e)) return false;
		if (s->condition) continue;
		if (!s->loop) {
			if (s->define.indexed && !declared(f->tree.out, s->define.name) && !declared(f->tree.held, s->define.name))
				return formula_error(e, f->tree.path, s->define.line, s->define.column, "expected an output; nothing is named '%s'", s->define.name);
			const char *inner = inner_site(s->define.value);
			if (inner && !site(f, r, sites, n, inner, "operands within", form, e)) return false;
			if (!site(f, r, sites, n, s->define.name, s->define.text, form, e)) return false;
			continue;
		}
		if (!sites_of(f, r, sites, n, s->body, form, e)) return false;
		for (int i = 0; i < s->loop->n_carry; i++) {
			const struct carry *c = &s->loop->carry[i];
			if (c->to && !declared(f->tree.out, c->to->name))
				return formula_error(e, f->tree.path, c->to->line, c->to->column, "expected an output; nothing is named '%s'", c->to->name);
			if (c->to && !site(f, r, sites, n, c->to->name, "what the loop carried, at its end", form, e)) return false;
		}
	}
	return true;
}

bool formula_sites_of(struct formula *f, struct site_spec *sites, size_t *n, const struct statement *s, int form, struct error *e)
{
	struct reads r = { .n = 0 };

	if (!f->tree.sites) find_reads(&f->tree, &r);
	return sites_of(f, &r, sites, n, s, form, e);
}
