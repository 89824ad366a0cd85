/* `use OP as NAME: ...`: the statements of another op in the place of that line. What they define is NAME.name, an output NAME.OUTPUT;
 * its inputs, sizes, parameters and indices are what the line gives. */
#include "use.h"

#include <stdio.h>
#include <string.h>

#include "use_private.h"

#define NEXT(x) ((void *)(x)->d.next)

static bool wrong(struct user *s, const char *what, const char *name)
{
	return formula_error(s->e, s->to->path, s->use->line, s->use->column, "expected %s%s%s", what, name ? " " : "", name ? name : "");
}

void *use_make(struct user *s, size_t n)
{
	void *p = pool_make(&s->to->pool, n);

	if (!p) error_set(s->e, E_MEMORY, s->to->path, NO_OFFSET, "reading a formula");
	return p;
}

const char *use_name(struct user *s, const char *name)
{
	char text[256];
	int n = snprintf(text, sizeof text, "%s.%s", s->use->as, name);

	if (n < 0 || (size_t)n >= sizeof text) return wrong(s, "a shorter name than", name) ? name : NULL;
	return pool_text(&s->to->pool, text, (size_t)n);
}

/* Behind all others of the list. */
static void append(void *list, void *x)
{
	struct declared **end = list;

	while (*end) end = &(*end)->next;
	*end = x;
}

static bool add_let(struct user *s, const struct alias *from)
{
	for (; from; from = NEXT(from)) {
		struct alias *a = use_make(s, sizeof *a);
		if (!a) return false;
		*a = (struct alias){ { NULL, use_name(s, from->d.name), s->use->line, s->use->column, "" }, use_value(s, from->value) };
		if (!a->d.name || !a->value) return false;
		append(&s->to->lets, a);
	}
	return true;
}

static bool add_macros(struct user *s)
{
	for (const struct macro *from = s->of->macros; from; from = NEXT(from)) {
		struct macro *m = use_make(s, sizeof *m);
		if (!m || !(m->param = use_make(s, MAX_BY * sizeof *m->param))) return false;
		m->d = (struct declared){ NULL, use_name(s, from->d.name), s->use->line, s->use->column, "" };
		for (; m->n < from->n; m->n++)
			if (!(m->param[m->n] = use_name(s, from->param[m->n]))) return false;
		s->macro = from;
		m->value = use_value(s, from->value);
		s->macro = NULL;
		if (!m->d.name || !m->value) return false;
		append(&s->to->macros, m);
	}
	return true;
}

static bool add_rules(struct user *s)
{
	for (const struct rule *from = s->of->rules; from; from = NEXT(from)) {
		if (from->range) continue;
		struct rule *r = use_make(s, sizeof *r);
		if (!r) return false;
		r->d = (struct declared){ NULL, "", s->use->line, s->use->column, pool_text(&s->to->pool, from->d.what, strlen(from->d.what)) };
		if (!r->d.what || !(r->value = use_value(s, from->value))) return false;
		append(&s->to->rules, r);
	}
	return true;
}

/* ---- statements ---- */
static struct statement **define(struct user *s, struct statement **end, const char *name, struct node *value)
{
	struct statement *x = *end = use_make(s, sizeof *x);
	struct node *target = x ? use_make(s, sizeof *target) : NULL;

	if (!target || !name || !value) return NULL;
	*target = (struct node){ .kind = NODE_NAME, .line = s->use->line, .column = s->use->column, .name = name };
	x->define = (struct definition){ name, '=', false, target, value, name, s->use->line, s->use->column };
	return &x->next;
}

static struct statement **body(struct user *s, const struct statement *x, struct statement **end);

/* The last that the loop carried is what the output is. */
static struct statement **handed_on(struct user *s, const struct loop *l, struct statement **end)
{
	for (int i = 0; end && i < l->n_carry; i++)
		if (l->carry[i].to) end = define(s, end, use_name(s, l->carry[i].to->name), use_named(s, l->carry[i].name));
	return end;
}

/* A loop of one turn is its body. */
static struct statement **once(struct user *s, const struct statement *x, struct statement **end)
{
	const struct loop *l = x->loop;
	const char *outer = s->once;
	char text[128];

	for (int i = 0; end && i < l->n_carry; i++) {
		snprintf(text, sizeof text, "%s.before", l->carry[i].name);
		struct node *from = use_value(s, l->carry[i].from);
		end = define(s, end, use_name(s, text), from);
		s->before[s->n_before++] = l->carry[i].name;
	}
	s->once = l->var;
	if (end) end = body(s, x->body, end);
	if (end) end = handed_on(s, l, end);
	s->once = outer;
	s->n_before = 0;
	return end;
}

static struct statement **loop(struct user *s, const struct statement *x, struct statement **end)
{
	const struct loop *l = x->loop;
	struct node *range = use_value(s, l->range);

	if (!range) return NULL;
	const struct definition *cuts = l->cuts ? use_given(s, l->cuts->name, false) : NULL;
	if (!l->chunks && !cuts && !s->once && range->kind == NODE_NUMBER && range->number == 1) return once(s, x, end);
	struct statement *y = *end = use_make(s, sizeof *y);
	struct loop *m = y ? y->loop = use_make(s, sizeof *m) : NULL;
	if (!m || !(m->carry = use_make(s, MAX_BY * sizeof *m->carry))) return NULL;
	struct carry *carry = m->carry;
	*m = (struct loop){ .var = use_name(s, l->var), .range = range, .chunks = l->chunks, .backwards = l->backwards, .n_by = l->n_by,
		.carry = carry, .n_carry = l->n_carry };
	if (!m->var) return NULL;
	memcpy(m->by, l->by, sizeof m->by);
	if (cuts && !(m->cuts = use_value(s, l->cuts))) return NULL;
	for (int i = 0; i < l->n_carry; i++) {
		m->carry[i] = (struct carry){ use_name(s, l->carry[i].name), use_value(s, l->carry[i].from), NULL };
		if (!m->carry[i].name || !m->carry[i].from) return NULL;
	}
	if (!body(s, x->body, &y->body)) return NULL;
	return handed_on(s, l, &y->next);
}

static struct statement **conditional(struct user *s, const struct statement *x, struct statement **end)
{
	struct statement *y = *end = use_make(s, sizeof *y);

	return y && (y->condition = use_value(s, x->condition)) && body(s, x->body, &y->body) ? &y->next : NULL;
}

static struct statement **body(struct user *s, const struct statement *x, struct statement **end)
{
	for (; x && end; x = x->next) {
		if (x->loop || x->condition) {
			end = x->loop ? loop(s, x, end) : conditional(s, x, end);
			continue;
		}
		struct node *value = use_value(s, x->define.value);
		for (int i = 0; i < s->n_before; i++)
			if (same_name(s->before[i], x->define.name)) s->before[i] = "";
		end = value ? define(s, end, use_name(s, x->define.name), value) : NULL;
	}
	return end;
}

/* What the line gives must be something of the op. */
static bool all_known(struct user *s)
{
	for (int i = 0; i < s->use->n; i++) {
		const char *name = s->use->given[i].name;
		const struct each *each = s->of->forms->each ? s->of->forms->each : s->of->each;
		bool known = declared(s->of->in, name) || declared(s->of->params, name) || declared(each, name);
		for (const struct tensor_decl *t = s->of->in; t && !known; t = NEXT(t)) known = use_has_size(t->shape, name);
		if (!known) return wrong(s, "an input, a size, a parameter or an index of the op, not", name);
	}
	return true;
}

/* The statements of s->use in the place of *at; what follows it follows them. */
static bool put(struct user *s, struct statement **at)
{
	struct statement *rest = (*at)->next, **end = at;

	if (!all_known(s) || !add_let(s, s->of->lets) || !add_let(s, s->of->aliases) || !add_macros(s) || !add_rules(s)) return false;
	if (!(end = body(s, s->of->forms->body, end))) return false;
	*end = rest;
	return true;
}

enum { DEEPEST = 4 };
static bool all(struct tree *t, use_text *text_of, struct statement **at, int depth, struct error *e);

static bool replace(struct tree *t, use_text *text_of, struct statement **at, int depth, struct error *e)
{
	struct user s = { .to = t, .use = (*at)->use, .e = e };
	const char *text = text_of(s.use->op);
	struct tree of = { 0 };

	if (!text) return wrong(&s, "an op of etalon's own; nothing is named", s.use->op);
	if (depth == DEEPEST) return wrong(&s, "fewer ops within each other; this is too deep:", s.use->op);
	bool ok = formula_parse(&of, s.use->op, text, strlen(text), e);
	for (struct form_decl *f = of.forms; ok && f; f = NEXT(f)) ok = all(&of, text_of, &f->body, depth + 1, e);
	s.of = &of;
	ok = ok && put(&s, at);
	formula_free(&of);
	return ok;
}

static bool all(struct tree *t, use_text *text_of, struct statement **at, int depth, struct error *e)
{
	while (*at) {
		if ((*at)->use) {
			if (!replace(t, text_of, at, depth, e)) return false;
			continue;
		}
		if (!all(t, text_of, &(*at)->body, depth, e)) return false;
		at = &(*at)->next;
	}
	return true;
}

bool formula_use(struct tree *t, use_text *text_of, struct error *e)
{
	for (struct form_decl *x = t->forms; x; x = NEXT(x))
		for (struct form_decl *f = x; f; f = f->more)
			if (!all(t, text_of, &f->body, 0, e)) return false;
	return !t->pool.failed;
}
