/* Indices and conditions: numbers that are known exactly. What they are in a run: run_index.c. */
#include "lower.h"
#include "ref/parse/nearest.h"

#include <math.h>
#include <string.h>

struct ix *ix_make(struct lower *l, enum ix_kind kind, const struct node *at)
{
	struct ix *x = low_make(l, sizeof *x);

	if (x) *x = (struct ix){ .kind = kind, .at = at };
	return x;
}

struct ix *ix_number(struct lower *l, double number)
{
	struct ix *x = ix_make(l, IX_NUMBER, NULL);

	if (x) x->number = number;
	return x;
}

bool ix_known(const struct ix *x, double *value)
{
	*value = x->number;
	return x->kind == IX_NUMBER;
}

static bool same_ix(const struct ix *a, const struct ix *b)
{
	if (a->kind == IX_NUMBER || b->kind == IX_NUMBER) return a->kind == b->kind && !memcmp(&a->number, &b->number, sizeof a->number);
	return a->var == b->var;
}

/* The one number that is computed so: x, or one like it. */
struct ix *ix_only(struct lower *l, struct ix *x)
{
	for (int i = 0; i < x->n; i++)
		if (x->arg[i]->level > x->level) x->level = x->arg[i]->level;
	for (struct ix *y = l->same[x->level]; y; y = y->next) {
		bool same = y->kind == x->kind && y->op == x->op && y->tensor == x->tensor && y->held_tensor == x->held_tensor && y->n == x->n;
		for (int i = 0; same && i < x->n; i++) same = same_ix(x->arg[i], y->arg[i]);
		if (same) return y;
	}
	if ((x->var = new_var(l, x->at)) < 0) return NULL;
	x->next = l->same[x->level];
	return l->same[x->level] = x;
}

static struct ix *operation(struct lower *l, const struct node *x)
{
	struct ix *y = ix_make(l, IX_OP, x);
	bool known = true;
	double value[4] = { 0 };

	if (!y) return NULL;
	y->op = x->kind;
	for (; y->n < x->n; y->n++) {
		if (y->n == (x->kind == NODE_IF ? 3 : 2)) {
			low_error(l, x, "expected two factors in an index");
			return NULL;
		}
		if (!(y->arg[y->n] = low_ix(l, x->arg[y->n]))) return NULL;
		if (y->arg[y->n]->each) y->each = y->arg[y->n]->each;
		known = ix_known(y->arg[y->n], &value[y->n]) && known;
		bool decided = y->n == 0 && known && (value[0] != 0 ? x->kind == NODE_OR : x->kind == NODE_AND);
		if (decided) return ix_number(l, value[0] != 0);
		if (x->kind == NODE_IF && y->n == 0 && known) return low_ix(l, x->arg[value[0] != 0 ? 1 : 2]);
	}
	return known ? ix_number(l, ix_fold(x->kind, value[0], value[1])) : ix_only(l, y);
}

/* One of the file's functions, of indices. */
static struct ix *macro(struct lower *l, const struct node *x, const struct macro *m)
{
	struct binding *outer = l->bindings, *inner = NULL, *b;
	const struct definition *d = redefined(l, m->d.name, NULL, '=');

	if (x->n != m->n) {
		low_error(l, x, "expected %d arguments of %s, got %d", m->n, x->name, x->n);
		return NULL;
	}
	for (int i = 0; i < m->n; i++, inner = b) {
		struct ix *value = low_ix(l, x->arg[i]);
		if (!value || !(b = low_make(l, sizeof *b))) return NULL;
		*b = (struct binding){ m->param[i], NULL, value, inner };
	}
	l->bindings = inner;
	struct ix *y = low_ix(l, d ? d->value : m->value);
	l->bindings = outer;
	return y;
}

/* The number of a word in the choices of some parameter, or -1. */
static int word(const struct tree *t, const char *name)
{
	for (const struct param_decl *p = t->params; p; p = (const struct param_decl *)p->d.next) {
		const char *s = p->names;
		for (int i = 0; s; i++) {
			size_t n = strcspn(s, "|");
			if (strlen(name) == n && !strncmp(s, name, n)) return i;
			s = s[n] ? s + n + 1 : NULL;
		}
	}
	return -1;
}

/* Within the same loops it is the same; arguments of a function around it are not seen. */
static struct ix *alias(struct lower *l, const struct alias *a)
{
	struct binding *around = l->bindings;
	const struct symbol *scope = l->symbols;

	while (scope && scope->kind == SYMBOL_REG) scope = scope->outer;
	for (const struct known *k = l->known; k; k = k->next)
		if (k->of == a && k->scope == scope) return k->value;
	l->bindings = NULL;
	struct ix *x = low_ix(l, a->value);
	l->bindings = around;
	struct known *k = x ? low_make(l, sizeof *k) : NULL;
	if (k) {
		*k = (struct known){ a, scope, x, l->known };
		l->known = k;
	}
	return x;
}

static void no_name(struct lower *l, const struct node *x)
{
	struct nearest near = nearest_to(x->name);
	const void *const lists[] = { l->t->in, l->t->params, l->t->lets, l->t->aliases };
	char meant[NEAREST_SAID];

	for (const struct symbol *s = l->symbols; s; s = s->outer) nearest_try(&near, s->name);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) nearest_declared(&near, lists[i]);
	for (int i = 0; l->op->dims[i]; i++) nearest_try(&near, l->op->dims[i]);
	low_error(l, x, "expected a name that is defined above; nothing is named '%s'%s", x->name, nearest_said(&near, meant));
}

static struct ix *name(struct lower *l, const struct node *x)
{
	const struct symbol *s = symbol_find(l, x->name);
	const struct definition *d = redefined(l, x->name, NULL, '=');
	struct alias *a = declared(l->t->aliases, x->name);
	int i;

	for (const struct binding *b = l->bindings; b; b = b->next)
		if (same_name(b->name, x->name) && b->ix) return b->ix;
	if (s && s->kind == SYMBOL_NUMBER) return ix_number(l, s->index);
	if (s && s->kind != SYMBOL_REG) {
		struct ix *y = ix_make(l, IX_VAR, x);
		if (y) y->var = s->index, y->level = s->level, y->each = s->kind == SYMBOL_CHUNK ? 1 + s->s.rows.chunk : 0;
		return y;
	}
	if (!s && d) return low_ix(l, d->value);
	if (a || (a = declared(l->t->lets, x->name))) return alias(l, a);
	if ((i = declared_index(l->t->params, x->name)) >= 0) {
		struct param_decl *p = declared(l->t->params, x->name);
		if (isnan(l->call->param[i]) && p->value) return low_ix(l, p->value);
		return ix_number(l, l->call->param[i]);
	}
	if ((i = op_size(l->op, x->name)) >= 0) return ix_number(l, (double)l->call->dim[i]);
	if ((i = word(l->t, x->name)) >= 0) return ix_number(l, i);
	if (same_name(x->name, "inf")) return ix_number(l, (double)INFINITY);
	if (declared(l->t->in, x->name)) low_error(l, x, "expected an integer input in an index; has(%s) says whether it is given", x->name);
	else if (s) low_error(l, x, "expected an index, which each, let and loops name; '%s' is a value", x->name);
	else no_name(l, x);
	return NULL;
}

static struct ix *tensor(struct lower *l, const struct node *x)
{
	const struct tensor_decl *in = declared(l->t->in, x->name), *t = in ? in : declared(l->t->held, x->name);
	struct ix *y = ix_make(l, IX_TENSOR, x);
	int rank = 1, list = declared_index(l->t->params, x->name);

	if (!y) return NULL;
	if (list >= 0 && l->op->params[list].kind == PARAM_LIST) return low_list(l, x, list);
	if (!t || !t->integer) {
		low_error(l, x, "expected an integer input in an index or a condition, not '%s'; of values where(a > b, c, d) chooses", x->name);
		return NULL;
	}
	for (const char *s = t->shape; *s; s++) rank += *s == ',';
	if (x->n != rank || rank > 4) {
		low_error(l, x, "expected %d indices of %s [%s], got %d", rank, x->name, t->shape, x->n);
		return NULL;
	}
	y->tensor = declared_index(in ? l->t->in : l->t->held, x->name);
	y->held_tensor = !in;
	if (!in && !low_held(l, x, y->tensor, false)) return NULL;
	for (; y->n < rank; y->n++) {
		if (!(y->arg[y->n] = low_ix(l, x->arg[y->n]))) return NULL;
		if (y->arg[y->n]->each) y->each = y->arg[y->n]->each;
	}
	return ix_only(l, y);
}

/* sequence(CUTS, t): the first that ends behind index t; 0 where the cut points are not given */
static struct ix *sequence(struct lower *l, const struct node *x)
{
	int in = x->n == 2 && x->arg[0]->kind == NODE_NAME ? declared_index(l->t->in, x->arg[0]->name) : -1;
	struct ix *t = in < 0 ? NULL : low_ix(l, x->arg[1]), *y = t ? ix_make(l, IX_SEQUENCE, x) : NULL;

	if (in < 0) low_error(l, x, "expected an integer input and an index in sequence");
	if (!y || !l->call->in[in]) return y ? ix_number(l, 0) : NULL;
	y->tensor = in;
	y->arg[y->n++] = y->free[y->n_free++] = t;
	return ix_only(l, y);
}

static struct ix *has_output(struct lower *l, const char *name)
{
	int asked = low_has_output(l, name);

	return asked < 0 ? NULL : ix_number(l, asked);
}

/* has(INPUT), has(OUTPUT), has(LIST); first(CHUNK), its first index, and size(CHUNK), how many a full one has */
static struct ix *given(struct lower *l, const struct node *x)
{
	const struct symbol *c = x->n == 1 && x->arg[0]->kind == NODE_NAME ? symbol_find(l, x->arg[0]->name) : NULL;
	bool size = !strcmp(x->name, "size");

	if (c && c->kind == SYMBOL_CHUNK && (size || !strcmp(x->name, "first"))) {
		struct ix *y = size ? ix_number(l, (double)c->s.rows.n) : ix_make(l, IX_VAR, x);
		if (y && !size) y->var = first_of(c->index), y->level = c->level;
		return y;
	}
	if (same_name(x->name, "sequence")) return sequence(l, x);
	struct ix *of_list = low_of_list(l, x);
	if (of_list) return of_list;
	int i = x->n == 1 && x->arg[0]->kind == NODE_NAME ? declared_index(l->t->in, x->arg[0]->name) : -1;

	if (same_name(x->name, "has") && i >= 0) return ix_number(l, l->call->in[i] != NULL);
	if (same_name(x->name, "has") && x->n == 1 && x->arg[0]->kind == NODE_NAME && declared(l->t->out, x->arg[0]->name))
		return has_output(l, x->arg[0]->name);
	if (same_name(x->name, "has")) low_error(l, x, "expected the name of an input, an output or a list in has");
	else low_error(l, x, "expected a function of indices and sizes; '%s' is none", x->name);
	return NULL;
}

static struct ix *of_kind(struct lower *l, const struct node *x)
{
	const struct macro *m;

	switch (x->kind) {
	case NODE_NUMBER: return ix_number(l, x->number);
	case NODE_NAME: return name(l, x);
	case NODE_GIVEN: return ix_number(l, fault_value_in(l->call, (int)x->number, l->plan->value[(int)x->number]));
	case NODE_INDEX: return tensor(l, x);
	case NODE_CALL:
		m = declared(l->t->macros, x->name);
		return m ? macro(l, x, m) : low_folds(x) ? low_fold(l, x) : given(l, x);
	case NODE_IN: return low_in_list(l, x);
	case NODE_CHAIN:
		low_error(l, x, "expected '*' between factors here, or a comma");
		break;
	case NODE_TRANS: case NODE_ALT: case NODE_RANGE: case NODE_ALL:
		low_error(l, x, "expected a number that is known before the call runs");
		break;
	default: return operation(l, x);
	}
	return NULL;
}

struct ix *low_ix(struct lower *l, const struct node *x)
{
	struct ix *y = NULL;

	if (++l->depth > 200) low_error(l, x, "expected no definition that leads back to itself");
	else y = of_kind(l, x);
	l->depth--;
	return y;
}
