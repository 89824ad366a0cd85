/* Indices and conditions: numbers that are known exactly. */
#include "lower.h"

#include <math.h>
#include <string.h>

static struct ix *make(struct lower *l, enum ix_kind kind, const struct node *at)
{
	struct ix *x = low_make(l, sizeof *x);

	if (x) *x = (struct ix){ .kind = kind, .at = at };
	return x;
}

struct ix *ix_number(struct lower *l, double number)
{
	struct ix *x = make(l, IX_NUMBER, NULL);

	if (x) x->number = number;
	return x;
}

bool ix_known(const struct ix *x, double *value)
{
	*value = x->number;
	return x->kind == IX_NUMBER;
}

static double fold(enum node_kind op, double a, double b)
{
	switch (op) {
	case NODE_NEG: return -a;
	case NODE_NOT: return a == 0;
	case NODE_ADD: return a + b;
	case NODE_SUB: return a - b;
	case NODE_CHAIN: case NODE_MUL: return a * b;
	case NODE_DIV: return a / b;
	case NODE_IDIV: return floor(a / b);
	case NODE_MOD: return a - b * floor(a / b);
	case NODE_POW: return pow(a, b);
	case NODE_EQ: return a == b;
	case NODE_NE: return a != b;
	case NODE_LT: return a < b;
	case NODE_LE: return a <= b;
	case NODE_GT: return a > b;
	case NODE_GE: return a >= b;
	case NODE_AND: return a != 0 && b != 0;
	case NODE_OR: return a != 0 || b != 0;
	default: return (double)NAN;
	}
}

static double element(const struct program *p, const struct ix *x, const double *var)
{
	const struct tensor *t = p->call->in[x->tensor];
	double value = (double)NAN;
	size_t at = 0;

	if (!t || !t->data) return 0;
	for (int i = 0; i < x->n; i++) {
		double k = ix_value(x->arg[i], var);
		if (!(k >= 0 && k < (double)t->shape[i] && k == floor(k))) return value;
		at = at * t->shape[i] + (size_t)k;
	}
	dtype_load(t->dtype, (const char *)t->data + at * dtype_info[t->dtype].size, 1, &value);
	return value;
}

static double sequence_of(const struct tensor *t, double at)
{
	double value = (double)NAN;

	for (size_t n = 1; t->data && n < t->count; n++) {
		dtype_load(t->dtype, (const char *)t->data + n * dtype_info[t->dtype].size, 1, &value);
		if (at < value) return (double)n - 1;
	}
	return (double)NAN;
}

enum { MOST_TURNS = 1 << 24 };

static double folded(const struct program *p, const struct ix *x, double *var)
{
	double first = ix_value(x->arg[1], var), last = ix_value(x->arg[2], var);

	var[x->held] = ix_value(x->arg[0], var);
	if (!(last - first < MOST_TURNS)) return last <= first ? var[x->held] : (double)NAN;
	for (double i = 0; i < last - first; i++) {
		var[x->over] = x->down ? last - 1 - i : first + i;
		ix_compute(p, x->body, var);
		var[x->held] = ix_value(x->arg[3], var);
	}
	return var[x->held];
}

static double computed(const struct program *p, const struct ix *x, double *var)
{
	if (x->kind == IX_TENSOR) return element(p, x, var);
	if (x->kind == IX_FOLD) return folded(p, x, var);
	double a = ix_value(x->arg[0], var), b = x->n > 1 ? ix_value(x->arg[1], var) : 0;
	if (x->kind == IX_SEQUENCE) return sequence_of(p->call->in[x->tensor], a);
	return x->op == NODE_IF ? a != 0 ? b : ix_value(x->arg[2], var) : fold(x->op, a, b);
}

void ix_compute(const struct program *p, const struct ix *x, double *var)
{
	for (; x; x = x->next) var[x->var] = computed(p, x, var);
}

/* What it is made of comes before it. */
double ix_again(const struct program *p, const struct ix *x, double *var)
{
	for (int i = 0; i < x->n; i++)
		if (x->arg[i]->each) ix_again(p, x->arg[i], var);
	if (x->n) var[x->var] = computed(p, x, var);
	return ix_value(x, var);
}

static bool same_ix(const struct ix *a, const struct ix *b)
{
	if (a->kind == IX_NUMBER || b->kind == IX_NUMBER) return a->kind == b->kind && !memcmp(&a->number, &b->number, sizeof a->number);
	return a->var == b->var;
}

/* The one number that is computed so: x, or one like it. */
static struct ix *only(struct lower *l, struct ix *x)
{
	for (int i = 0; i < x->n; i++)
		if (x->arg[i]->level > x->level) x->level = x->arg[i]->level;
	for (struct ix *y = *l->first[x->level]; y; y = y->next) {
		bool same = y->kind == x->kind && y->op == x->op && y->tensor == x->tensor && y->n == x->n;
		for (int i = 0; same && i < x->n; i++) same = same_ix(x->arg[i], y->arg[i]);
		if (same) return y;
	}
	if ((x->var = new_var(l, x->at)) < 0) return NULL;
	*l->index[x->level] = x;
	l->index[x->level] = &x->next;
	return x;
}

static struct ix *operation(struct lower *l, const struct node *x)
{
	struct ix *y = make(l, IX_OP, x);
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
		if (known && y->n == 0 && ((x->kind == NODE_AND && value[0] == 0) || (x->kind == NODE_OR && value[0] != 0))) return ix_number(l, value[0] != 0);
		if (x->kind == NODE_IF && y->n == 0 && known) return low_ix(l, x->arg[value[0] != 0 ? 1 : 2]);
	}
	return known ? ix_number(l, fold(x->kind, value[0], value[1])) : only(l, y);
}

/* A number that is computed there, within the loops around. */
static struct ix *added(struct lower *l, struct ix *x, int level)
{
	x->level = level;
	if ((x->var = new_var(l, x->at)) < 0) return NULL;
	*l->index[level] = x;
	l->index[level] = &x->next;
	return x;
}

/* The body of a fold in a level of its own: what does not read the index or what is held is computed outside of it. */
static bool fold_body(struct lower *l, struct ix *y, const char *held, const char *over, const struct node *value)
{
	struct symbol *outer = l->symbols;
	bool ok = l->level + 1 < MAX_LEVEL || low_error(l, value, "expected fewer than %d loops in each other", MAX_LEVEL);

	l->level++;
	if (ok) l->first[l->level] = l->index[l->level] = &y->body;
	ok = ok && (y->held = new_var(l, value)) >= 0 && (y->over = new_var(l, value)) >= 0 && symbol_add(l, held, SYMBOL_VAR, y->held, scalar)
		&& symbol_add(l, over, SYMBOL_VAR, y->over, scalar) && (y->arg[3] = low_ix(l, value));
	l->level--;
	l->symbols = outer;
	return ok;
}

static struct ix *fold_of(struct lower *l, const struct node *x, const struct node *from, const char *held, const struct node *range, const struct node *value)
{
	struct ix *y = make(l, IX_FOLD, x);

	if (!y || !(y->arg[0] = low_ix(l, from)) || !(y->arg[1] = low_ix(l, range->arg[0])) || !(y->arg[2] = low_ix(l, range->arg[1]))) return NULL;
	if (!fold_body(l, y, held, range->name, value)) return NULL;
	y->n = 4;
	for (int i = 0; i < 4; i++)
		if (y->arg[i]->each && !low_error(l, x, "expected no chunk's index in %s", x->name)) return NULL;
	y->down = x->name[0] == 'f' && x->name[1] == 'i';
	return added(l, y, l->level);
}

static bool is_range(const struct node *x, int n) { return x->kind == NODE_RANGE && x->name && x->n == n; }

bool low_folds(const struct node *x)
{
	return x->kind == NODE_CALL && x->n > 1 && (is_range(x->arg[0], 2) || is_range(x->arg[0], 1));
}

static struct node *made(struct lower *l, const struct node *at, enum node_kind kind, const char *name, int n)
{
	struct node *x = low_make(l, sizeof *x);

	if (!x || !(x->arg = low_make(l, (size_t)n * sizeof *x->arg))) return NULL;
	*x = (struct node){ .kind = kind, .line = at->line, .column = at->column, .name = name, .n = n, .arg = x->arg };
	return x;
}

/* What count, first and last hold: one more, or the index, where the condition is true. */
static struct node *held_value(struct lower *l, const struct node *x, bool counts)
{
	struct node *chosen = made(l, x, NODE_IF, NULL, 3), *held = made(l, x, NODE_NAME, "(held)", 0), *one = made(l, x, NODE_NUMBER, NULL, 0);
	struct node *sum = made(l, x, NODE_ADD, NULL, 2), *index = made(l, x, NODE_NAME, x->arg[0]->name, 0);

	if (!chosen || !held || !one || !sum || !index) return NULL;
	one->number = 1;
	sum->arg[0] = held, sum->arg[1] = one;
	chosen->arg[0] = x->arg[1], chosen->arg[1] = counts ? sum : index, chosen->arg[2] = held;
	return chosen;
}

/* fold(n from a, i in b:c, VALUE); count(i in b:c, CONDITION); last(i in b:c, CONDITION, else), and from the end, first */
static struct ix *folded_call(struct lower *l, const struct node *x)
{
	const struct node *range = x->arg[0];
	bool counts = same_name(x->name, "count");

	if (same_name(x->name, "fold") && x->n == 3 && is_range(range, 1) && is_range(x->arg[1], 2))
		return fold_of(l, x, range->arg[0], range->name, x->arg[1], x->arg[2]);
	if (!is_range(range, 2) || !(counts ? x->n == 2 : x->n == 3 && (same_name(x->name, "first") || same_name(x->name, "last")))) {
		low_error(l, x, "expected fold(n from A, i in B:C, VALUE), count(i in B:C, CONDITION), or first or last(i in B:C, CONDITION, ELSE)");
		return NULL;
	}
	struct node *zero = made(l, x, NODE_NUMBER, NULL, 0), *value = held_value(l, x, counts);
	return zero && value ? fold_of(l, x, counts ? zero : x->arg[2], "(held)", range, value) : NULL;
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

static struct ix *name(struct lower *l, const struct node *x)
{
	const struct symbol *s = symbol_find(l, x->name);
	const struct definition *d = redefined(l, x->name, NULL, '=');
	struct alias *a = declared(l->t->aliases, x->name);
	int i;

	for (const struct binding *b = l->bindings; b; b = b->next)
		if (same_name(b->name, x->name) && b->ix) return b->ix;
	if (s && s->kind != SYMBOL_REG) {
		struct ix *y = make(l, IX_VAR, x);
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
	for (i = 0; l->op->dims[i]; i++)
		if (same_name(l->op->dims[i], x->name)) return ix_number(l, (double)l->call->dim[i]);
	if ((i = word(l->t, x->name)) >= 0) return ix_number(l, i);
	if (declared(l->t->in, x->name)) low_error(l, x, "expected an integer input in an index; has(%s) says whether it is given", x->name);
	else low_error(l, x, s ? "expected an index; '%s' is a value" : "expected an index, a size or a parameter; nothing is named '%s'", x->name);
	return NULL;
}

static struct ix *tensor(struct lower *l, const struct node *x)
{
	struct tensor_decl *t = declared(l->t->in, x->name);
	struct ix *y = make(l, IX_TENSOR, x);
	int rank = 1;

	if (!y) return NULL;
	if (!t || !t->integer) {
		low_error(l, x, "expected an integer input in an index, not '%s'", x->name);
		return NULL;
	}
	for (const char *s = t->shape; *s; s++) rank += *s == ',';
	if (x->n != rank || rank > 4) {
		low_error(l, x, "expected %d indices of %s [%s], got %d", rank, x->name, t->shape, x->n);
		return NULL;
	}
	y->tensor = declared_index(l->t->in, x->name);
	for (; y->n < rank; y->n++) {
		if (!(y->arg[y->n] = low_ix(l, x->arg[y->n]))) return NULL;
		if (y->arg[y->n]->each) y->each = y->arg[y->n]->each;
	}
	return only(l, y);
}

/* sequence(CUTS, t): the first that ends behind index t; 0 where the cut points are not given */
static struct ix *sequence(struct lower *l, const struct node *x)
{
	int in = x->n == 2 && x->arg[0]->kind == NODE_NAME ? declared_index(l->t->in, x->arg[0]->name) : -1;
	struct ix *t = in < 0 ? NULL : low_ix(l, x->arg[1]), *y = t ? make(l, IX_SEQUENCE, x) : NULL;

	if (in < 0) low_error(l, x, "expected an integer input and an index in sequence");
	if (!y || !l->call->in[in]) return y ? ix_number(l, 0) : NULL;
	y->tensor = in;
	y->arg[y->n++] = t;
	return only(l, y);
}

/* has(INPUT); first(CHUNK), its first index, and size(CHUNK), how many a full one has */
static struct ix *given(struct lower *l, const struct node *x)
{
	const struct symbol *c = x->n == 1 && x->arg[0]->kind == NODE_NAME ? symbol_find(l, x->arg[0]->name) : NULL;
	bool size = !strcmp(x->name, "size");

	if (c && c->kind == SYMBOL_CHUNK && (size || !strcmp(x->name, "first"))) {
		struct ix *y = size ? ix_number(l, (double)c->s.rows.n) : make(l, IX_VAR, x);
		if (y && !size) y->var = c->index, y->level = c->level;
		return y;
	}
	if (same_name(x->name, "sequence")) return sequence(l, x);
	int i = x->n == 1 && x->arg[0]->kind == NODE_NAME ? declared_index(l->t->in, x->arg[0]->name) : -1;

	if (same_name(x->name, "has") && i >= 0) return ix_number(l, l->call->in[i] != NULL);
	low_error(l, x, same_name(x->name, "has") ? "expected an input's name in has" : "expected a number that is known before the call runs");
	return NULL;
}

struct ix *low_ix(struct lower *l, const struct node *x)
{
	const struct macro *m;
	struct ix *y = NULL;

	if (++l->depth > 200) low_error(l, x, "expected no definition that leads back to itself");
	else switch (x->kind) {
	case NODE_NUMBER: y = ix_number(l, x->number); break;
	case NODE_NAME: y = name(l, x); break;
	case NODE_INDEX: y = tensor(l, x); break;
	case NODE_CALL:
		m = declared(l->t->macros, x->name);
		y = m ? macro(l, x, m) : low_folds(x) ? folded_call(l, x) : given(l, x);
		break;
	case NODE_TRANS: case NODE_ALT: case NODE_RANGE: case NODE_ALL:
		low_error(l, x, "expected a number that is known before the call runs");
		break;
	default: y = operation(l, x); break;
	}
	l->depth--;
	return y;
}
