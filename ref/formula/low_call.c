/* Functions: those of the language, and the file's own. */
#include "lower.h"
#include "ref/parse/nearest.h"

#include <math.h>
#include <string.h>

#include "ref/approx/approx.h"

static const struct { const char *name; enum fn f; } maps[] = {
	{ "exp", FN_EXP }, { "exp2", FN_EXP2 }, { "per_ln2", FN_PER_LN2 }, { "log", FN_LOG }, { "sqrt", FN_SQRT }, { "rsqrt", FN_RSQRT }, { "sigmoid", FN_SIGMOID },
	{ "softplus", FN_SOFTPLUS }, { "silu", FN_SILU }, { "sin", FN_SIN }, { "cos", FN_COS }, { "tanh", FN_TANH }, { "erf", FN_ERF },
	{ "abs", FN_ABS },
	{ "ex2_approx", FN_APPROX(APPROX_EX2) }, { "lg2_approx", FN_APPROX(APPROX_LG2) }, { "rcp_approx", FN_APPROX(APPROX_RCP) },
	{ "rsqrt_approx", FN_APPROX(APPROX_RSQRT) }, { "sqrt_approx", FN_APPROX(APPROX_SQRT) }, { "sin_approx", FN_APPROX(APPROX_SIN) },
	{ "cos_approx", FN_APPROX(APPROX_COS) }, { "tanh_approx", FN_APPROX(APPROX_TANH) }, { NULL, FN_ID }
};

struct ex *low_wrong(struct lower *l, const struct node *x, const char *what)
{
	low_error(l, x, "expected %s of %s", what, x->name);
	return NULL;
}

bool low_known(struct lower *l, const struct node *x, double *value)
{
	struct ix *i = low_ix(l, x);

	return i && (ix_known(i, value) || low_error(l, x, "expected a number that is known before the call runs"));
}

/* Σ over each row; Σ ab of a product. A row or a column is one vector. */
static struct ex *sum(struct lower *l, const struct node *x)
{
	const struct node *of = x->arg[0];
	const struct symbol *product = of->kind == NODE_NAME ? symbol_find(l, of->name) : NULL;
	struct len one = { 1, -1 };
	struct ex *a, *b = NULL;

	if (product && product->product) of = product->product;
	if (of->kind == NODE_POW && of->arg[1]->kind == NODE_NUMBER && of->arg[1]->number == 2) a = b = ex_hold(l, of, low_value(l, of->arg[0]));
	else if (of->kind == NODE_MUL && (a = low_value(l, of->arg[0]))) {
		if (!(b = low_value(l, of->arg[1]))) return NULL;
		if (!same_shape(a->s, b->s)) a = ex_zip(l, of, OP_MUL, a, b), b = NULL;
	} else a = low_value(l, of);
	if (!a) return NULL;
	if (a->s.rank == SCALAR) return low_wrong(l, x, "a vector or a matrix as the argument");
	struct shape s = a->s.rank == MATRIX ? (struct shape){ COLUMN, a->s.rows, one } : scalar;
	return ex_make(l, b ? EX_DOT : EX_SUM, s, a, b);
}

static struct ex *mean(struct lower *l, const struct node *x)
{
	struct ex *s = sum(l, x);

	if (!s) return NULL;
	struct shape a = s->a->s;
	struct len n = a.rank == COLUMN ? a.rows : a.cols;
	if (n.chunk >= 0) return low_wrong(l, x, "an axis of a known length as the argument");
	return ex_zip(l, x, OP_DIV, s, ex_number(l, (double)n.n));
}

static struct ex *reduce(struct lower *l, const struct node *x, enum ex_kind kind)
{
	struct ex *a = low_value(l, x->arg[0]);
	struct len one = { 1, -1 };

	if (!a) return NULL;
	if (a->s.rank == SCALAR) return low_wrong(l, x, "a vector or a matrix as the argument");
	struct shape s = a->s.rank != MATRIX ? scalar : kind == EX_LAST ? (struct shape){ ROW, one, a->s.cols } : (struct shape){ COLUMN, a->s.rows, one };
	return ex_make(l, kind, s, a, NULL);
}

static struct ex *largest(struct lower *l, const struct node *x) { return reduce(l, x, EX_MAX); }
static struct ex *last(struct lower *l, const struct node *x) { return reduce(l, x, EX_LAST); }

static struct ex *maximum(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);

	return ex_zip(l, x, OP_MAX, a, a ? low_value(l, x->arg[1]) : NULL);
}

static struct ex *cumsum(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);

	return !a ? NULL : a->s.rank == SCALAR ? low_wrong(l, x, "a vector or a matrix as the argument") : ex_make(l, EX_SCAN, a->s, a, NULL);
}

static struct ex *each_of(struct lower *l, const struct node *x, enum ex_kind kind)
{
	struct ex *a = low_value(l, x->arg[0]);

	return a ? ex_make(l, kind, a->s, a, NULL) : NULL;
}

static struct ex *power_of_two(struct lower *l, const struct node *x) { return each_of(l, x, EX_POWER); }
static struct ex *fast_angle(struct lower *l, const struct node *x) { return each_of(l, x, EX_ANGLE); }
/* top(x, k) */
static struct ex *top(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);
	double k;

	if (!a || !low_known(l, x->arg[1], &k)) return NULL;
	if (a->s.rank != COLUMN) return low_wrong(l, x, "a column as the first argument");
	if (!(k >= 0 && k == floor(k) && (a->s.rows.chunk >= 0 || k <= (double)a->s.rows.n))) return low_wrong(l, x, "at most as many as there are, as the second argument");
	return ex_make(l, EX_TOP, (struct shape){ COLUMN, { (size_t)k, -1 }, { 1, -1 } }, a, NULL);
}

static struct ex *tril(struct lower *l, const struct node *x)
{
	struct ex *a = low_value(l, x->arg[0]);
	double k = 0;

	if (!a || (x->n == 2 && !low_known(l, x->arg[1], &k))) return NULL;
	if (a->s.rank != MATRIX) return low_wrong(l, x, "a matrix as the argument");
	struct ex *e = ex_make(l, EX_TRIL, a->s, a, NULL);
	if (e) e->op = k < -1e6 ? -1000000 : k > 1e6 ? 1000000 : (int)k;
	return e;
}

/* inverse(I + A); inverse(I + A, 16, NAME): in blocks of 16, merged by operands that pass the site of that name */
static struct ex *inverse(struct lower *l, const struct node *x)
{
	const struct node *of = x->arg[0];
	bool unit = of->kind == NODE_ADD && of->arg[0]->kind == NODE_NAME && same_name(of->arg[0]->name, "I");
	double block = 0;
	struct ex *a;

	if (x->n > 1 && !low_known(l, x->arg[1], &block)) return NULL;
	if (x->n > 1 && !(block >= 1 && block <= 1024 && block == (double)(int)block)) return low_wrong(l, x, "blocks of 1 to 1024 as the second argument");
	if (x->n > 2 && x->arg[2]->kind != NODE_NAME) return low_wrong(l, x, "a name as the third argument");
	if (!unit) return low_wrong(l, x, "I + A, with A strictly lower triangular, as the argument");
	if (!(a = low_value(l, of->arg[1]))) return NULL;
	if (a->s.rank != MATRIX || !same_len(a->s.rows, a->s.cols)) return low_wrong(l, x, "I + A of a square A as the argument");
	struct ex *e = ex_make(l, EX_INVERSE, a->s, a, NULL);
	if (!e) return NULL;
	e->op = (int)block;
	e->site = x->n > 2 ? formula_site(l->t, l->op, x->arg[2]->name) : -1;
	return e;
}

static struct ex *zeros(struct lower *l, const struct node *x)
{
	const struct symbol *c = x->n == 1 && x->arg[0]->kind == NODE_NAME ? symbol_find(l, x->arg[0]->name) : NULL;
	double n[2] = { 1, 1 };

	if (c && c->kind == SYMBOL_CHUNK) return ex_filled(l, c->s, ex_number(l, 0));
	for (int i = 0; i < x->n; i++)
		if (!low_known(l, x->arg[i], &n[i])) return NULL;
	for (int i = 0; i < 2; i++)
		if (!(n[i] >= 0 && n[i] < 1e9)) return low_wrong(l, x, "sizes from 0 to 1e9 as the arguments");
	struct shape s = { x->n == 2 ? MATRIX : COLUMN, { (size_t)n[0], -1 }, { (size_t)n[1], -1 } };
	return ex_filled(l, s, ex_number(l, 0));
}

/* Elements of an input as they lie in memory */
static struct ex *memory(struct lower *l, const struct node *x)
{
	struct shape s = { COLUMN, { 0, -1 }, { 1, -1 } };
	int in = x->arg[0]->kind == NODE_NAME ? declared_index(l->t->in, x->arg[0]->name) : -1;
	double n, by = 1;

	if (in < 0 || !l->call->in[in]) return low_wrong(l, x, "an input that is given as the first argument");
	struct ix *first = low_ix(l, x->arg[1]);
	if (!first || !low_known(l, x->arg[2], &n) || (x->n > 3 && !low_known(l, x->arg[3], &by))) return NULL;
	if (!(n >= 0 && n < 1e9)) return low_wrong(l, x, "a number from 0 to 1e9 as the third argument");
	if (!(by >= 1 && by < 1e9 && by == floor(by))) return low_wrong(l, x, "a step from 1 to 1e9 as the fourth argument");
	s.rows.n = (size_t)n;
	if (first->each) {
		const int chunk = first->each - 1;
		s = (struct shape){ MATRIX, { l->p->chunk_size[chunk], chunk }, s.rows };
	}
	struct ex *e = ex_make(l, EX_MEMORY, s, NULL, NULL);
	if (!e) return NULL;
	e->ix = first;
	e->op = in;
	e->by = (size_t)by;
	return e;
}

static struct ix *if_index(struct lower *l, const struct node *x)
{
	struct error *e = l->e;

	l->e = NULL;
	struct ix *y = low_ix(l, x);
	l->e = e;
	return y;
}

static struct ex *macro(struct lower *l, const struct node *x, const struct macro *m)
{
	struct binding *outer = l->bindings, *inner = NULL, *b;
	const struct definition *d = redefined(l, m->d.name, NULL, '=');

	if (x->n != m->n) {
		low_error(l, x, "expected %d arguments of %s, got %d", m->n, x->name, x->n);
		return NULL;
	}
	l->called = x;
	for (int i = 0; i < m->n; i++, inner = b) {
		struct ex *value = ex_hold(l, x, low_value(l, x->arg[i]));
		if (!value || !(b = low_make(l, sizeof *b))) return NULL;
		*b = (struct binding){ m->param[i], value, if_index(l, x->arg[i]), inner };
	}
	l->bindings = inner;
	struct ex *e = low_value(l, d ? d->value : m->value);
	l->bindings = outer;
	return e;
}

/* What other languages have as a function, written out. */
static const char *recipe(const char *name)
{
	static const struct { const char *name, *said; } all[] = {
		{ "softmax", "e = exp(s - max(s)), then e / sum(e)" }, { "relu", "maximum(x, 0)" }, { "pow", "x ^ n" }, { "min", "-max(-x)" },
		{ "minimum", "-maximum(-a, -b)" }, { "sign", "where(x > 0, 1, where(x < 0, -1, 0))" }, { "round", "floor(x + 0.5)" }, { "clamp", "maximum(low, -maximum(-x, -high))" },
		{ "clip", "maximum(low, -maximum(-x, -high))" }, { "log1p", "log(1 + x)" }, { "expm1", "exp(x) - 1" }, { "std", "sqrt(mean((x - mean(x))^2))" }, { "norm", "sqrt(sum(x^2))" },
		{ "argmax", "top(x, 1), of one row" }, { "var", "mean((x - mean(x))^2)" }, { "dot", "x' y" }, { "matmul", "A B" }, { "transpose", "A'" },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (same_name(all[i].name, name)) return all[i].said;
	return NULL;
}

static struct ex *no_function(struct lower *l, const struct node *x, struct nearest *near)
{
	const char *said = recipe(x->name);
	char meant[NEAREST_SAID];

	for (int i = 0; maps[i].name; i++) nearest_try(near, maps[i].name);
	nearest_declared(near, l->t->macros);
	if (said) low_error(l, x, "expected a function; nothing is named '%s': write %s", x->name, said);
	else low_error(l, x, "expected a function; nothing is named '%s'%s", x->name, nearest_said(near, meant));
	return NULL;
}

struct ex *low_call(struct lower *l, const struct node *x)
{
	static const enum format rounded[] = { FMT_BF16, FMT_F16, FMT_F32 };
	const struct macro *m = declared(l->t->macros, x->name);
	static const struct { const char *name; int least, most; struct ex *(*make)(struct lower *l, const struct node *x); } known[] = {
		{ "sum", 1, 1, sum }, { "mean", 1, 1, mean }, { "max", 1, 1, largest }, { "maximum", 2, 2, maximum }, { "cumsum", 1, 1, cumsum },
		{ "last", 1, 1, last }, { "tril", 1, 2, tril }, { "inverse", 1, 3, inverse }, { "iota", 1, 1, low_iota }, { "where", 3, 3, low_where },
		{ "memory", 3, 4, memory }, { "top", 2, 2, top }, { "power_of_two", 1, 1, power_of_two }, { "fast_angle", 1, 1, fast_angle }, { "zeros", 1, 2, zeros },
		{ "reshape", 3, 3, low_reshape }, { "shifted", 1, 2, low_shifted }, { "element", 2, 2, low_element }, { "part", 3, 4, low_part },
		{ "replaced", 3, 4, low_replaced }, { "axpy", 3, 3, low_axpy }, { "mirrored", 1, 2, low_mirrored }, { "floor", 1, 1, low_floor },
		{ "with_row", 3, 3, low_with_row }, { "joined", 1, MAX_GIVEN, low_joined }, { NULL, 0, 0, NULL }
	};

	if (m) return macro(l, x, m);
	for (int i = 0; maps[i].name; i++)
		if (same_name(maps[i].name, x->name))
			return x->n == 1 ? ex_map(l, maps[i].f, low_value(l, x->arg[0])) : low_wrong(l, x, "one argument");
	for (int i = 0; i < (int)(sizeof rounded / sizeof *rounded); i++)
		if (same_name(format_info[rounded[i]].name, x->name)) return low_rounded(l, x, rounded[i]);
	int k = 0;
	while (known[k].name && !same_name(known[k].name, x->name)) k++;
	if (!known[k].name) {
		struct nearest near = nearest_to(x->name);
		for (int i = 0; known[i].name; i++) nearest_try(&near, known[i].name);
		return no_function(l, x, &near);
	}
	if (x->n < known[k].least || x->n > known[k].most) return low_wrong(l, x, known[k].least == 1 ? "one argument" : "more arguments");
	return known[k].make(l, x);
}
