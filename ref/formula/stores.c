/* What the pieces of a form store, as it is written: is there something for each output, and does each index of pieces tell them apart? */
#include "formula_private.h"
#include "lower.h"

#include <stdio.h>
#include <string.h>

#define NEXT(x) ((void *)(x)->d.next)
/* Of names of the file's own that read each other again and again no more than so many are followed; then the answer is yes. */
enum { MOST = 1 << 16 };
struct sought { const struct tree *t; const char *name; int n; };

/* Does x read this name, or one of the file's own that does? */
static bool leads(struct sought *w, const struct node *x)
{
	bool named = x && (x->kind == NODE_NAME || x->kind == NODE_INDEX || x->kind == NODE_CALL);
	const struct alias *a = named ? declared(w->t->aliases, x->name) : NULL, *let = named ? declared(w->t->lets, x->name) : NULL;
	const struct macro *m = named ? declared(w->t->macros, x->name) : NULL;
	bool yes = x && ++w->n > MOST;

	if (!x || yes) return yes;
	yes = named && same_name(x->name, w->name);
	if (!yes && (a || let)) yes = leads(w, a ? a->value : let->value);
	if (!yes && m) yes = leads(w, m->value);
	for (int i = 0; i < x->n && !yes; i++) yes = leads(w, x->arg[i]);
	return yes;
}

/* An output, or what pieces hold */
static const struct tensor_decl *kept(const struct tree *t, const char *name)
{
	const struct tensor_decl *of = declared(t->out, name);

	return of ? of : declared(t->held, name);
}

/* A walk over what is stored: each place once, with its output and whether it stands under a condition. False: no further. */
struct stored { const struct node *target; const struct tensor_decl *of; bool condition; };
typedef bool visit(const struct stored *s, void *with);

static bool walk(const struct tree *t, const struct statement *s, bool condition, visit *each, void *with)
{
	for (; s; s = s->next) {
		const struct tensor_decl *of = s->loop || s->condition ? NULL : kept(t, s->define.name);
		if (s->loop || s->condition) {
			if (!walk(t, s->body, condition || s->condition, each, with)) return false;
		} else if (of && s->define.indexed && !each(&(struct stored){ s->define.target, of, condition }, with)) return false;
		for (int i = 0; s->loop && i < s->loop->n_carry; i++) {
			const struct node *to = s->loop->carry[i].to;
			of = to ? kept(t, to->name) : NULL;
			if (of && !each(&(struct stored){ to, of, condition }, with)) return false;
		}
	}
	return true;
}

static bool count(const struct stored *s, void *with)
{
	struct sought *w = with;

	w->n += same_name(s->of->d.name, w->name);
	return true;
}

/* How often this form, all of its pieces, stores the output. */
static int times_stored(const struct tree *t, const struct form_decl *f, const char *name)
{
	struct sought w = { .name = name };

	for (; f; f = f->more) walk(t, f->body, false, count, &w);
	return w.n;
}

/* Where the name is defined as a value of its own, or NULL. */
static const struct definition *defined_whole(const struct statement *s, const char *name)
{
	const struct definition *d = NULL;

	for (; s && !d; s = s->next)
		if (s->loop || s->condition) d = defined_whole(s->body, name);
		else if (!s->define.indexed && same_name(s->define.name, name)) d = &s->define;
	return d;
}

/* "y[r]", as `y[r] = ...` stores it: the element, or the part, of a piece with these indices. */
static void element_said(const struct tensor_decl *of, const struct each *all, char *text, size_t room)
{
	size_t n = (size_t)snprintf(text, room, "%s[", of->d.name), last = 0;

	for (const char *s = of->shape; *s && n < room; s += strcspn(s, ","), s += *s == ',') {
		size_t wide = strcspn(s, ",");
		const struct each *x = all;
		while (x && !(x->dim && strlen(x->dim) == wide && !strncmp(x->dim, s, wide))) x = NEXT(x);
		n += (size_t)snprintf(text + n, room - n, "%s%s", s > of->shape ? ", " : "", x ? x->d.name : ":");
		if (x) last = n;
	}
	if (last) n = last;     /* axes behind are kept */
	if (n < room) snprintf(text + n, room - n, "]");
}

/* Is there something for each output? */
static bool all_stored(const struct tree *t, const struct form_decl *f, struct error *e)
{
	const struct each *index = f->each ? f->each : t->each;
	char element[128];

	for (const struct tensor_decl *x = t->out; x; x = NEXT(x)) {
		if (times_stored(t, f, x->d.name)) continue;
		const struct definition *d = NULL;
		for (const struct form_decl *y = f; y && !d; y = y->more) d = defined_whole(y->body, x->d.name);
		element_said(x, index, element, sizeof element);
		if (d) return formula_error(e, t->path, d->line, d->column, "expected '%s = ...': %s is an output, and a piece stores its part of it",
			element, x->d.name);
		return formula_error(e, t->path, x->d.line, x->d.column, "expected '%s = ...' in the form '%s': nothing there stores %s", element,
			f->d.name, x->d.name);
	}
	return true;
}

/* A statement that stores the same place as one before it in its block, or NULL. */
static const struct definition *stored_again(const struct statement *s)
{
	const struct definition *d = NULL;

	for (; s && !d; s = s->next) {
		if (s->loop || s->condition) d = stored_again(s->body);
		else if (s->define.indexed)
			for (const struct statement *x = s->next; x && !d; x = x->next)
				if (!x->loop && !x->condition && x->define.indexed && same_node(s->define.target, x->define.target)) d = &x->define;
	}
	return d;
}

static bool stored_once(const struct tree *t, const struct form_decl *f, struct error *e)
{
	const struct definition *d = NULL;

	for (; f && !d; f = f->more) d = stored_again(f->body);
	return !d || formula_error(e, t->path, d->line, d->column, "expected that each element of %s is stored once: a line above stores these", d->name);
}

static bool holds_store(const struct stored *s, void *with) { (void)s; (void)with; return false; }

static bool of_index(const struct stored *s, void *with)
{
	return !leads(with, s->target);
}

/* Does what is stored, or whether and how often, depend on the index? */
static bool tells_apart(struct sought *w, const struct statement *s)
{
	for (const struct statement *x = s; x; x = x->next) {
		bool block = x->loop || x->condition, stores = block && !walk(w->t, x->body, false, holds_store, NULL);
		if (stores && x->loop && (leads(w, x->loop->range) || leads(w, x->loop->cuts))) return true;
		if (stores && leads(w, x->condition)) return true;
		if (block && tells_apart(w, x->body)) return true;
	}
	return !walk(w->t, s, false, of_index, w);
}

static bool first_stored(const struct stored *s, void *with) { *(struct stored *)with = *s; return false; }

static bool pieces_apart(const struct formula *f, const struct form_decl *y, struct error *e)
{
	const struct tree *t = &f->tree;

	for (const struct each *x = y->each ? y->each : t->each; x; x = NEXT(x)) {
		struct sought w = { .t = t, .name = x->d.name };
		if ((x->dim && op_size(&f->op, x->dim) < 0) || tells_apart(&w, y->body)) continue;
		struct stored first = { NULL, NULL, false };
		walk(t, y->body, false, first_stored, &first);
		if (!first.of)
			return formula_error(e, t->path, x->d.line, x->d.column, "expected that the pieces for each %s store something", x->d.name);
		return formula_error(e, t->path, first.target->line, first.target->column,
			"expected the index '%s' in an index of %s: the pieces for each %s in"
			" %s would all store the same elements", x->d.name, first.of->d.name, x->d.name, x->dim ? x->dim : "0:...");
	}
	return true;
}

bool formula_stores(const struct formula *f, struct error *e)
{
	for (const struct form_decl *x = f->tree.forms; x; x = NEXT(x)) {
		if (!all_stored(&f->tree, x, e) || !stored_once(&f->tree, x, e)) return false;
		for (const struct form_decl *y = x; y; y = y->more)
			if (!pieces_apart(f, y, e)) return false;
	}
	return true;
}

/* ---- in sizes that all differ ---- */

/* Number i of a shape's symbols is this one, alone. */
static bool is_axis(const char *shape, int i, const char *symbol, char *is, size_t room)
{
	for (; i-- > 0 && *shape; shape += *shape == ',') shape += strcspn(shape, ",");
	size_t n = strcspn(shape, ",");
	snprintf(is, room, "%.*s", (int)n, shape);
	return !strcmp(is, symbol);
}

struct counted { const struct formula *f; const struct form_decl *form; const struct each *index; const struct call *call; struct error *e; };

static bool counts_axis(const struct stored *s, void *with)
{
	const struct counted *w = with;
	char axis[64];

	for (int i = 0; i < s->target->n && !s->condition; i++) {
		const struct node *k = s->target->arg[i];
		const struct each *x = k->kind == NODE_NAME ? declared(w->index, k->name) : NULL;
		if (!x || !x->dim || is_axis(s->of->shape, i, x->dim, axis, sizeof axis)) continue;
		int counted = op_size(&w->f->op, x->dim), size = op_size(&w->f->op, axis);
		if (counted < 0 || size < 0 || w->call->dim[counted] == w->call->dim[size]) continue;
		if (w->call->dim[counted] < w->call->dim[size] && times_stored(&w->f->tree, w->form, s->of->d.name) > 1) continue;
		return formula_error(w->e, w->f->tree.path, k->line, k->column, "expected an index of %s in %s [%s]; '%s' counts %s", axis, s->of->d.name,
			s->of->shape, k->name, x->dim);
	}
	return true;
}

bool formula_stores_fit(const struct formula *f, const struct call *call, struct error *e)
{
	for (const struct form_decl *x = f->tree.forms; x; x = NEXT(x))
		for (const struct form_decl *y = x; y; y = y->more) {
			struct counted w = { f, x, y->each ? y->each : f->tree.each, call, e };
			if (!walk(&f->tree, y->body, false, counts_axis, &w)) return false;
		}
	return true;
}
