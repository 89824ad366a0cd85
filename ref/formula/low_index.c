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

static double element(const struct program *p, const struct ix *x, const double *var);

double ix_value(const struct program *p, const struct ix *x, const double *var)
{
	switch (x->kind) {
	case IX_NUMBER: return x->number;
	case IX_VAR: return var[x->var];
	case IX_TENSOR: return element(p, x, var);
	case IX_OP: break;
	}
	double a = ix_value(p, x->arg[0], var);
	if (x->op == NODE_IF) return ix_value(p, x->arg[a != 0 ? 1 : 2], var);
	return fold(x->op, a, x->n > 1 ? ix_value(p, x->arg[1], var) : 0);
}

static double element(const struct program *p, const struct ix *x, const double *var)
{
	const struct tensor *t = p->call->in[x->tensor];
	double value = (double)NAN;
	size_t at = 0;

	if (!t || !t->data) return 0;
	for (int i = 0; i < x->n; i++) {
		double k = ix_value(p, x->arg[i], var);
		if (!(k >= 0 && k < (double)t->shape[i] && k == floor(k))) return value;
		at = at * t->shape[i] + (size_t)k;
	}
	dtype_load(t->dtype, (const char *)t->data + at * dtype_info[t->dtype].size, 1, &value);
	return value;
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
		if (x->kind == NODE_IF && y->n == 0 && known) return low_ix(l, x->arg[value[0] != 0 ? 1 : 2]);
	}
	return known ? ix_number(l, x->kind == NODE_IF ? value[value[0] != 0 ? 1 : 2] : fold(x->kind, value[0], value[1])) : y;
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

static struct ix *name(struct lower *l, const struct node *x)
{
	const struct symbol *s = symbol_find(l, x->name);
	const struct definition *d = redefined(l, x->name, NULL, '=');
	struct alias *a = declared(l->t->aliases, x->name);
	int i;

	if (s && s->kind != SYMBOL_REG) {
		struct ix *y = make(l, IX_VAR, x);
		if (y) y->var = s->index, y->each = s->kind == SYMBOL_CHUNK ? 1 + s->s.rows.chunk : 0;
		return y;
	}
	if (!s && d) return low_ix(l, d->value);
	if (a || (a = declared(l->t->lets, x->name))) return low_ix(l, a->value);
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
	return y;
}

/* has(INPUT); first(CHUNK), its first index, and size(CHUNK), how many a full one has */
static struct ix *given(struct lower *l, const struct node *x)
{
	const struct symbol *c = x->n == 1 && x->arg[0]->kind == NODE_NAME ? symbol_find(l, x->arg[0]->name) : NULL;
	bool size = !strcmp(x->name, "size");

	if (c && c->kind == SYMBOL_CHUNK && (size || !strcmp(x->name, "first"))) {
		struct ix *y = size ? ix_number(l, (double)c->s.rows.n) : make(l, IX_VAR, x);
		if (y) y->var = c->index;
		return y;
	}
	int i = x->n == 1 && x->arg[0]->kind == NODE_NAME ? declared_index(l->t->in, x->arg[0]->name) : -1;

	if (!strcmp(x->name, "has") && i >= 0) return ix_number(l, l->call->in[i] != NULL);
	low_error(l, x, !strcmp(x->name, "has") ? "expected an input's name in has" : "expected a number that is known before the call runs");
	return NULL;
}

struct ix *low_ix(struct lower *l, const struct node *x)
{
	struct ix *y = NULL;

	if (++l->depth > 200) low_error(l, x, "expected no definition that leads back to itself");
	else switch (x->kind) {
	case NODE_NUMBER: y = ix_number(l, x->number); break;
	case NODE_NAME: y = name(l, x); break;
	case NODE_INDEX: y = tensor(l, x); break;
	case NODE_CALL:
		y = given(l, x);
		break;
	case NODE_TRANS: case NODE_ALT: case NODE_RANGE: case NODE_ALL:
		low_error(l, x, "expected a number that is known before the call runs");
		break;
	default: y = operation(l, x); break;
	}
	l->depth--;
	return y;
}

/* An index made of a chunk's: one element for each of them. */
static bool gathered(struct lower *l, struct slice *s, int i, const struct node *x, bool out)
{
	int chunk = s->axis[i].first->each - 1;

	if (out || s->n_kept) return low_error(l, x, "expected a chunk's own name%s", out ? " where something is stored" : ", or this on the first axis that is kept");
	s->gather = 1 + l->p->chunk_var[chunk];
	s->kept[s->n_kept++] = i;
	s->axis[i].len = (struct len){ l->p->chunk_size[chunk], chunk };
	return true;
}

static bool axis(struct lower *l, struct slice *s, int i, const struct node *x, bool out)
{
	const struct symbol *c = x->kind == NODE_NAME ? symbol_find(l, x->name) : NULL;
	double first, last;

	if (x->kind == NODE_ALL || (c && c->kind == SYMBOL_CHUNK) || x->kind == NODE_RANGE) {
		if (s->n_kept == 2) return low_error(l, x, "expected at most two axes that are kept, a matrix");
		s->kept[s->n_kept++] = i;
		s->axis[i].len = x->kind == NODE_ALL ? (struct len){ s->axis[i].size, -1 } : c ? c->s.rows : (struct len){ 0, -1 };
	}
	if (x->kind == NODE_ALL) return true;
	if (x->kind != NODE_RANGE && !(s->axis[i].first = low_ix(l, x))) return false;
	if (x->kind != NODE_RANGE) return (c && c->kind == SYMBOL_CHUNK) || !s->axis[i].first->each || gathered(l, s, i, x, out);
	struct ix *end = low_ix(l, x->arg[1]);
	if (!end || !(s->axis[i].first = low_ix(l, x->arg[0]))) return false;
	if (!ix_known(s->axis[i].first, &first) || !ix_known(end, &last))
		return low_error(l, x, "expected a range whose ends are known before the call runs");
	if (!(first >= 0 && last >= first && last <= (double)s->axis[i].size))
		return low_error(l, x, "expected a range within 0:%zu, got %g:%g", s->axis[i].size, first, last);
	s->axis[i].len.n = (size_t)(last - first);
	return true;
}

struct slice *low_slice(struct lower *l, const struct node *x, bool out, struct shape *shape)
{
	const struct tensor_decl *t = declared(out ? l->t->out : l->t->in, x->name);
	struct slice *s = low_make(l, sizeof *s);
	size_t size[MAX_RANK], stride = 1;

	if (!s) return NULL;
	if (!t) {
		low_error(l, x, "expected an %s; nothing is named '%s'", out ? "output" : "input", x->name);
		return NULL;
	}
	*s = (struct slice){ .tensor = declared_index(out ? l->t->out : l->t->in, x->name), .at = x };
	s->rank = call_shape(l->call, t->shape, size);
	if (x->n > s->rank) {
		low_error(l, x, "expected at most %d indices of %s [%s], got %d", s->rank, x->name, t->shape, x->n);
		return NULL;
	}
	if (!out && !l->call->in[s->tensor]) {
		low_error(l, x, "expected that this is not read where %s is missing", x->name);
		return NULL;
	}
	for (int i = s->rank; i-- > 0; stride *= size[i]) s->axis[i].size = size[i], s->axis[i].stride = stride;
	const struct node all = { NODE_ALL, x->line, x->column, NULL, 0, 0, NULL };
	for (int i = 0; i < s->rank; i++)
		if (!axis(l, s, i, i < x->n ? x->arg[i] : &all, out)) return NULL;
	struct len one = { 1, -1 }, k0 = s->n_kept ? s->axis[s->kept[0]].len : one;
	*shape = s->n_kept == 2 ? (struct shape){ MATRIX, k0, s->axis[s->kept[1]].len }
		: s->n_kept ? (struct shape){ COLUMN, k0, one } : scalar;
	return s;
}
