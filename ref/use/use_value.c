/* Values of an op that another one uses, in the other one's terms. */
#include <string.h>

#include "use_private.h"

#define NEXT(x) ((void *)(x)->d.next)

const struct definition *use_given(const struct user *s, const char *name, bool indexed)
{
	for (int i = 0; i < s->use->n; i++)
		if (same_name(s->use->given[i].name, name) && s->use->given[i].indexed == indexed) return &s->use->given[i];
	return NULL;
}

bool use_has_size(const char *shape, const char *name)
{
	for (size_t n; *shape; shape += n + strspn(shape + n, "+-0123456789,?"))
		if ((n = strcspn(shape, ",+-?")) == strlen(name) && !strncmp(shape, name, n)) return true;
	return false;
}

static struct node *make(struct user *s, enum node_kind kind, const char *name, int n)
{
	struct node *x = use_make(s, sizeof *x);

	if (!x || !(x->arg = use_make(s, (size_t)n * sizeof *x->arg))) return NULL;
	*x = (struct node){ kind, s->use->line, s->use->column, name, 0, n, x->arg };
	return x;
}

static struct node *number(struct user *s, double value)
{
	struct node *x = make(s, NODE_NUMBER, NULL, 0);

	if (x) x->number = value;
	return x;
}

static struct node *two(struct user *s, enum node_kind kind, struct node *a, struct node *b)
{
	struct node *x = a && b ? make(s, kind, NULL, 2) : NULL;

	if (x) x->arg[0] = a, x->arg[1] = b;
	return x;
}

static bool refused(struct user *s, const struct node *x, const char *what)
{
	return formula_error(s->e, s->to->path, s->use->line, s->use->column, "expected %s for %s, which '%s' reads", what, x->name, s->use->op);
}

/* The number of a word in the choices "a|b", or -1. */
static int word(const char *choices, const char *name)
{
	for (int i = 0; choices && *choices; i++) {
		size_t n = strcspn(choices, "|");
		if (strlen(name) == n && !strncmp(choices, name, n)) return i;
		choices += n + (choices[n] == '|');
	}
	return -1;
}

/* A parameter: what is given, else what it is when absent. */
static struct node *param(struct user *s, const struct node *x, const struct param_decl *p)
{
	const struct definition *d = use_given(s, x->name, false);

	if (use_defines_anew(s, x->name)) return use_named(s, x->name);
	if (!d && p->names && !p->required) return number(s, 0);
	if (!d && p->value) return use_value(s, p->value);
	if (!d) {
		refused(s, x, "a value");
		return NULL;
	}
	if (d->value->kind != NODE_NAME) return d->value;
	if (p->names && word(p->names, d->value->name) >= 0) return number(s, word(p->names, d->value->name));
	if (p->is_bool && !strcmp(d->value->name, "true")) return number(s, 1);
	return p->is_bool && !strcmp(d->value->name, "false") ? number(s, 0) : d->value;
}

static bool is_size(const struct user *s, const char *name)
{
	for (const struct tensor_decl *t = s->of->in; t; t = NEXT(t))
		if (use_has_size(t->shape, name)) return true;
	return false;
}

struct node *use_named(struct user *s, const char *name)
{
	for (int i = 0; i < s->n_before; i++) {
		if (!same_name(s->before[i], name)) continue;
		const char *before = use_name(s, name);
		char text[256];
		int n = before ? snprintf(text, sizeof text, "%s.before", before) : -1;
		if (n < 0 || (size_t)n >= sizeof text) return NULL;
		return make(s, NODE_NAME, pool_text(&s->to->pool, text, (size_t)n), 0);
	}
	const char *own = use_name(s, name);
	return own ? make(s, NODE_NAME, own, 0) : NULL;
}

static struct node *name(struct user *s, const struct node *x)
{
	static const char *const words[] = { "inf", "nan", "I", NULL };
	const struct param_decl *p = declared(s->of->params, x->name);
	const struct definition *d = use_given(s, x->name, false);
	const struct each *each = s->of->forms->each ? s->of->forms->each : s->of->each;

	for (int i = 0; s->macro && i < s->macro->n; i++)
		if (same_name(s->macro->param[i], x->name)) return make(s, NODE_NAME, use_name(s, x->name), 0);
	if (s->once && same_name(s->once, x->name)) return number(s, 0);
	if (p) return param(s, x, p);
	if (d) return d->value;
	if (declared(each, x->name)) return number(s, 0);
	for (p = s->of->params; p; p = NEXT(p))
		if (word(p->names, x->name) >= 0) return number(s, word(p->names, x->name));
	for (int i = 0; words[i]; i++)
		if (same_name(words[i], x->name)) return make(s, NODE_NAME, words[i], 0);
	if (is_size(s, x->name)) return make(s, NODE_NAME, pool_text(&s->to->pool, x->name, strlen(x->name)), 0);
	return use_named(s, x->name);
}

/* ---- inputs ---- */
static bool is_single(const struct node *x) { return x->kind != NODE_ALL && x->kind != NODE_RANGE; }

static int rank_of(const char *shape)
{
	int n = 1;

	for (; *shape; shape++) n += *shape == ',';
	return n;
}

/* x, a value of the caller's, with `with` in the place of that name. */
static struct node *replaced(struct user *s, struct node *x, const char *what, struct node *with)
{
	if (x->kind == NODE_NAME && same_name(x->name, what)) return with;
	struct node *y = make(s, x->kind, x->name, x->n);
	if (!y) return NULL;
	y->number = x->number;
	for (int i = 0; i < x->n; i++)
		if (!(y->arg[i] = replaced(s, x->arg[i], what, with))) return NULL;
	return y;
}

/* Given as NAME[i, :] = VALUE */
static struct node *of_indices(struct user *s, const struct node *x, const struct definition *d)
{
	struct node *y = d->value, *at;

	for (int i = 0; y && i < d->target->n; i++) {
		const struct node *index = d->target->arg[i];
		bool kept = i >= x->n || !is_single(x->arg[i]);
		bool fits = kept ? index->kind == NODE_ALL && (i >= x->n || x->arg[i]->kind == NODE_ALL) : index->kind == NODE_NAME;
		if (!fits) {
			refused(s, x, "the same indices, each ':' or a name,");
			return NULL;
		}
		if (kept) continue;
		y = (at = use_value(s, x->arg[i])) ? replaced(s, y, index->name, at) : NULL;
	}
	return y;
}

/* An index within what the caller keeps of an axis: all of it (NULL), or from a range's begin on. */
static struct node *within(struct user *s, const struct node *x, struct node *kept, const struct node *index)
{
	if (index->kind == NODE_ALL) return kept;
	if (!is_single(index)) {
		refused(s, x, "one index or ':'");
		return NULL;
	}
	struct node *i = use_value(s, index);
	return i && kept->kind == NODE_RANGE ? two(s, NODE_ADD, kept->arg[0], i) : i;
}

/* An input of the caller's, or what its pieces hold; or NULL */
static const struct tensor_decl *tensor_of(const struct user *s, const char *name)
{
	const struct tensor_decl *t = declared(s->to->in, name);

	return t ? t : declared(s->to->held, name);
}

/* Given as a part of an input of the caller's: the last axes are those that it keeps. */
static struct node *of_part(struct user *s, const struct node *x, const struct node *part, int rank)
{
	int all = rank_of(tensor_of(s, part->name)->shape), kept = all;
	struct node *y = make(s, NODE_INDEX, part->name, all);

	for (int i = 0; i < part->n; i++) kept -= is_single(part->arg[i]);
	if (!y || kept > rank) {
		if (y) refused(s, x, "no more axes than it has");
		return NULL;
	}
	for (int i = 0, next = rank - kept; i < all; i++) {
		struct node *have = i < part->n ? part->arg[i] : make(s, NODE_ALL, NULL, 0);
		if (have && !is_single(have)) {
			if (next < x->n) have = within(s, x, have, x->arg[next]);
			next++;
		}
		if (!(y->arg[i] = have)) return NULL;
	}
	return y;
}

static struct node *input(struct user *s, const struct node *x, const struct tensor_decl *t)
{
	const struct definition *d = use_given(s, x->name, true);

	if (d) return of_indices(s, x, d);
	if (!(d = use_given(s, x->name, false))) return use_named(s, x->name);  /* nothing has that name: an error where it is needed */
	struct node whole = { .kind = NODE_INDEX, .name = d->value->name };
	const struct node *part = d->value->kind == NODE_INDEX ? d->value : &whole;
	if ((d->value->kind == NODE_INDEX || d->value->kind == NODE_NAME) && tensor_of(s, d->value->name))
		return of_part(s, x, part, rank_of(t->shape));
	for (int i = 0; i < x->n; i++) {
		if (x->arg[i]->kind == NODE_ALL || (is_single(x->arg[i]) && (!i || is_single(x->arg[i - 1])))) continue;
		refused(s, x, "NAME[:, i] = VALUE");
		return NULL;
	}
	return d->value;
}

/* has(INPUT) */
static struct node *has(struct user *s, const char *name)
{
	const struct definition *d = use_given(s, name, true);

	if (!d) d = use_given(s, name, false);
	bool named = d && (d->value->kind == NODE_NAME || d->value->kind == NODE_INDEX);
	const struct tensor_decl *t = named ? declared(s->to->in, d->value->name) : NULL;
	if (!t || !t->optional) return number(s, d != NULL);
	struct node *y = make(s, NODE_CALL, "has", 1);
	if (y) y->arg[0] = make(s, NODE_NAME, d->value->name, 0);
	return y && y->arg[0] ? y : NULL;
}

struct node *use_value(struct user *s, const struct node *x)
{
	const struct tensor_decl *t = x->kind == NODE_INDEX ? declared(s->of->in, x->name) : NULL;
	bool call = x->kind == NODE_CALL, on_input = call && x->n && x->arg[0]->kind == NODE_NAME && declared(s->of->in, x->arg[0]->name);

	if (x->kind == NODE_NAME) return name(s, x);
	if (t) return input(s, x, t);
	if (on_input && same_name(x->name, "has")) return has(s, x->arg[0]->name);
	if (on_input && same_name(x->name, "sequence") && !use_given(s, x->arg[0]->name, false)) return number(s, 0);
	bool own = call && declared(s->of->macros, x->name);
	const char *named = own ? use_name(s, x->name) : x->name ? pool_text(&s->to->pool, x->name, strlen(x->name)) : NULL;
	struct node *y = x->name && !named ? NULL : make(s, x->kind, named, x->n);
	if (!y) return NULL;
	y->number = x->number;
	for (int i = 0; i < x->n; i++) {
		if (!(y->arg[i] = use_value(s, x->arg[i]))) return NULL;
		if (call && x->arg[i]->kind == NODE_RANGE && x->arg[i]->name && !(y->arg[i]->name = use_name(s, x->arg[i]->name))) return NULL;
	}
	return y;
}
