/* Sites and faults of an op that another one uses, which that one takes over: as NAME.site, NAME.fault. */
#include <stdio.h>
#include <string.h>

#include "use_private.h"

#define NEXT(x) ((void *)(x)->d.next)

/* Does it stand in a line of this use? Its place among the line's names, or -1. */
static int place_in(const struct user *s, const struct taken *t)
{
	for (int i = 0; i < t->n_as; i++)
		if (same_name(t->as[i], s->use->as)) return i;
	return -1;
}

static bool defines(const struct fault_decl *f, const char *name)
{
	for (int i = 0; i < f->n; i++)
		if (same_name(f->define[i].name, name)) return true;
	return false;
}

bool use_defines_anew(const struct user *s, const char *param)
{
	for (const struct taken *t = s->to->taken; t; t = NEXT(t))
		for (int i = 0; t->faults && place_in(s, t) >= 0 && i < t->n; i++) {
			const struct fault_decl *f = declared(s->of->faults, t->names[i]);
			if (f && defines(f, param)) return true;
		}
	return false;
}

static const char *joined(struct user *s, const char *a, const char *between, const char *b)
{
	char text[512];
	int n = snprintf(text, sizeof text, "%s%s%s", a, between, b);

	return n < 0 || (size_t)n >= sizeof text ? NULL : pool_text(&s->to->pool, text, (size_t)n);
}

/* What the line's comment calls the part, and what the other op says of its own. */
static const char *said(struct user *s, const struct taken *t, const char *what)
{
	return t->d.what[0] ? joined(s, t->d.what, ": ", what) : joined(s, what, "", "");
}

/* At the end of the list, of the name as the first of the line's has it; *there where an earlier name has made it. */
static void *entry(struct user *s, const struct taken *t, void *list, const char *name, size_t size, const char *what, bool *there)
{
	const char *full = joined(s, t->as[0], ".", name);
	struct declared **end = list, *d = full ? declared(*end, full) : NULL;

	*there = d != NULL;
	if (d || !full) return d;
	while (*end) end = &(*end)->next;
	if (!(d = use_make(s, size))) return NULL;
	*d = (struct declared){ NULL, full, s->use->line, s->use->column, said(s, t, what) };
	return d->what ? *end = d : NULL;
}

enum { MOST_OF = 2 * MAX_BY };

static bool take_site(struct user *s, const struct taken *t, const char *name)
{
	const struct site_decl *from = declared(s->of->sites, name);
	bool there;

	if (!from) return use_wrong(s, "a site that the op lists, not", name);
	struct site_decl *x = entry(s, t, &s->to->sites, name, sizeof *x, from->d.what, &there);
	if (!x || (!there && !(x->of = use_make(s, MOST_OF * sizeof *x->of)))) return false;
	for (int i = 0; i < from->n; i++) {
		if (x->n == MOST_OF) return use_wrong(s, "fewer definitions of", name);
		if (!(x->of[x->n++] = use_name(s, from->of[i]))) return false;
	}
	return true;
}

/* The statement of that name in the op's first form, or NULL; where it stands in a loop of one turn, what that carries and has not
 * defined yet is what it was before. */
static const struct statement *stands(struct user *s, const struct statement *x, const char *name)
{
	const struct statement *y = NULL;

	for (; x && !y; x = x->next) {
		const struct loop *l = x->loop;
		const struct node *range = l ? use_value(s, l->range) : NULL;
		bool once = range && !s->once && use_once(l, range, l->cuts && use_given(s, l->cuts->name, false));
		for (int i = 0; once && i < l->n_carry; i++) s->before[s->n_before++] = l->carry[i].name;
		if (once) s->once = l->var;
		if (x->body ? (y = stands(s, x->body, name)) != NULL : same_name(x->define.name, name)) return y ? y : x;
		if (once) s->once = NULL, s->n_before = 0;
		for (int i = 0; !x->body && i < s->n_before; i++)
			if (same_name(s->before[i], x->define.name)) s->before[i] = "";
	}
	return NULL;
}

/* Is it anything of the first form? */
static bool is_there(struct user *s, const char *name)
{
	const struct tree *t = s->of;

	s->once = NULL;
	s->n_before = 0;
	return declared(t->macros, name) || declared(t->lets, name) || declared(t->aliases, name) || declared(t->params, name)
		|| stands(s, t->forms->body, name);
}

/* name = value, as the caller has it: an output of the op's is a name there. */
static bool redefine(struct user *s, const struct definition *from, struct definition *to)
{
	struct node *target = use_make(s, sizeof *target);

	*to = (struct definition){ use_name(s, from->name), '=', false, target, target ? use_value(s, from->value) : NULL,
		joined(s, from->text, "", ""), s->use->line, s->use->column };
	if (!to->name || !to->value || !to->text) return false;
	*target = (struct node){ .kind = NODE_NAME, .line = s->use->line, .column = s->use->column, .name = to->name };
	return from->kind == '=' || use_wrong(s, "a fault that is no loop's, not that of", from->name);
}

static bool take_fault(struct user *s, const struct taken *t, const struct fault_decl *from)
{
	bool there;
	struct fault_decl *x = entry(s, t, &s->to->faults, from->d.name, sizeof *x, from->d.what, &there);

	if (!x || (!there && !(x->define = use_make(s, MOST_OF * sizeof *x->define)))) return false;
	if (!there) {
		x->form = "";
		x->seen = joined(s, from->seen, "", "");
		x->parameter = from->parameter ? use_name(s, from->parameter) : NULL;
		x->size = from->size ? joined(s, from->size, "", "") : NULL;
		x->list = from->list ? use_make(s, (size_t)from->values * sizeof *x->list) : NULL;
		if (from->list && x->list) memcpy(x->list, from->list, (size_t)from->values * sizeof *x->list);
		x->first = from->first;
		x->values = from->values;
		x->by = from->by;
		x->near = from->near ? use_value(s, from->near) : NULL;
		x->site = from->site ? joined(s, t->as[0], ".", from->site) : NULL;
		x->format = from->site ? joined(s, from->format, "", "") : NULL;
	}
	int n = x->n;
	for (int i = 0; i < from->n; i++) {
		if (x->n == MOST_OF) return use_wrong(s, "fewer definitions of", from->d.name);
		if (is_there(s, from->define[i].name) && !redefine(s, &from->define[i], &x->define[x->n++])) return false;
	}
	s->once = NULL;
	s->n_before = 0;
	return x->site || x->n > n || use_wrong(s, "a fault of the op's first form, not", from->d.name);
}

static bool take(struct user *s, const struct taken *t)
{
	for (int i = 0; i < t->n; i++) {
		const struct fault_decl *f = t->faults ? declared(s->of->faults, t->names[i]) : NULL;
		if (t->faults && (!f || (f->form[0] && !same_name(f->form, s->of->forms->d.name))))
			return use_wrong(s, "a fault of the op's first form, not", t->names[i]);
		if (f ? !take_fault(s, t, f) : !take_site(s, t, t->names[i])) return false;
	}
	return true;
}

bool use_taken(struct user *s)
{
	for (struct taken *t = s->to->taken; t; t = NEXT(t)) {
		int i = place_in(s, t);
		if (i < 0) continue;
		t->met |= 1u << i;
		if (!take(s, t)) return false;
	}
	return true;
}

/* Each name of the parameter of fault i. */
static void number(struct node *x, int i)
{
	if (!x) return;
	if (x->kind == NODE_GIVEN) x->number = i;
	for (int k = 0; k < x->n; k++) number(x->arg[k], i);
}

bool use_taken_all(struct tree *t, struct error *e)
{
	struct fault_decl *round = NULL, **at = &t->faults, **end = &round;

	for (const struct taken *x = t->taken; x; x = NEXT(x))
		for (int i = 0; i < x->n_as; i++)
			if (!(x->met >> i & 1)) return formula_error(e, t->path, x->d.line, x->d.column, "expected the name of a use, not '%s'", x->as[i]);
	while (*at) {
		struct fault_decl *f = *at;
		if (!f->site) {
			at = (struct fault_decl **)&f->d.next;
			continue;
		}
		*at = NEXT(f);
		f->d.next = NULL;
		*end = f;
		end = (struct fault_decl **)&f->d.next;
	}
	*at = round;
	int n = 0;
	for (struct fault_decl *f = t->faults; f; f = NEXT(f), n++)
		for (int k = 0; k < f->n; k++) number(f->define[k].value, n);
	return true;
}
