/* Symbols to cells: what every kind of value has in common. */
#include "lower.h"

#include <stdlib.h>
#include <string.h>

#include "ref/approx/approx.h"
#include "ref/arith/arith.h"

const char *said(struct lowering_run *l, const char *form, ...)
{
	char text[4096];
	va_list more;

	if (!l->h->text) return "";
	va_start(more, form);
	int n = vsnprintf(text, sizeof text, form, more);
	va_end(more);
	const char *t = pool_text(&l->pool, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
	return t ? t : "";
}

const char *in_brackets(struct lowering_run *l, struct val v) { return v.whole ? v.text : said(l, "(%s)", v.text); }
const struct cell *cell_at(const struct lowering_run *l, struct val v) { return &l->h->cells->at[v.cell < 0 ? 0 : v.cell]; }

static void within(struct cell *c, int in) { c->in = in > c->in ? in : c->in; }

/* What has a chunk's length changes with that chunk's turns; a piece's own chunk is the piece's. */
static void in_chunk(const struct lowering_run *l, struct cell *c, int chunk)
{
	const struct form_symbols *f = l->h->f;

	for (int i = 1; i < f->n_in && chunk >= 0; i++)
		if (f->in[i].of->chunk == chunk) within(c, i);
}

struct val low_cell(struct lowering_run *l, const struct cell *x, const char *text, bool whole)
{
	struct cell y = *x;

	y.exact = y.exact || l->h->exact || l->wide;
	if (y.exact && y.grid == IN_F32) y.grid = AS_IT_IS;
	in_chunk(l, &y, y.rows.chunk);
	in_chunk(l, &y, y.cols.chunk);
	return (struct val){ cell_add(l->h->cells, &y), text, whole };
}

/* ---- operations ---- */

struct val low_zip(struct lowering_run *l, enum binary op, struct val a, struct val b, struct shape s, const char *sign)
{
	struct cell z = cell_of(CELL_ZIP, a.cell, b.cell, s.rows, s.cols);
	bool sum = op == OP_ADD || op == OP_SUB;

	if (a.cell < 0 || b.cell < 0) return (struct val){ -1, "", true };
	z.p[0] = (int)op;
	z.exact = sum && (cell_at(l, a)->grid == AS_IT_IS || cell_at(l, b)->grid == AS_IT_IS);
	z.grid = z.exact ? AS_IT_IS : IN_F32;
	return low_cell(l, &z, said(l, "%s%s%s", sum ? a.text : in_brackets(l, a), sign, sum && op == OP_ADD ? b.text : in_brackets(l, b)), false);
}

/* A number that is read in loop `in` changes with the turns of one around it, or of that loop. */
void low_by_ix(const struct lowering_run *l, struct cell *c, const struct ix *x, int in)
{
	if (x && x->kind != IX_NUMBER) within(c, in_level(l->h->f, in, x->level));
}

static void by_slice(const struct lowering_run *l, struct cell *c, const struct slice *s, int in)
{
	for (int i = 0; i < s->rank; i++) low_by_ix(l, c, s->axis[i].first, in), in_chunk(l, c, s->axis[i].len.chunk);
	for (int i = 1; i < l->h->f->n_in && s->gather; i++)
		if (l->h->f->in[i].of->var == s->gather - 1) within(c, i);
}

static enum type grid_of(enum dtype d) { return d == DT_BF16 || d == DT_F8_E4M3 || d == DT_F8_E5M2 ? IN_BF16 : d == DT_F16 ? IN_F16 : IN_F32; }

static const char *const fn_names[] = { [FN_EXP] = "exp", [FN_EXP2] = "exp2", [FN_PER_LN2] = "per_ln2", [FN_SIGMOID] = "sigmoid", [FN_SOFTPLUS] = "softplus",
	[FN_SILU] = "silu", [FN_SQRT] = "sqrt", [FN_RSQRT] = "rsqrt", [FN_SIN] = "sin", [FN_COS] = "cos", [FN_TANH] = "tanh", [FN_LOG] = "log",
	[FN_ERF] = "erf", [FN_ABS] = "abs", [FN_COUNT] = NULL };

static const char *const signs[NODE_IN + 1] = { [NODE_ADD] = "+", [NODE_SUB] = "-", [NODE_MUL] = "*", [NODE_DIV] = "/", [NODE_IDIV] = "div", [NODE_MOD] = "mod",
	[NODE_EQ] = "==", [NODE_NE] = "!=", [NODE_LT] = "<", [NODE_LE] = "<=", [NODE_GT] = ">", [NODE_GE] = ">=", [NODE_AND] = "and", [NODE_OR] = "or" };

/* As the formula's file has it, what is no name, number, call or sum of them left out. */
static const char *index_text(struct lowering_run *l, const struct node *x)
{
	const char *a[2] = { "", "" };

	for (int i = 0; i < x->n && i < 2; i++) {
		bool sum = (x->arg[i]->kind == NODE_ADD || x->arg[i]->kind == NODE_SUB) && x->kind != NODE_CALL;
		a[i] = said(l, sum ? "(%s)" : "%s", index_text(l, x->arg[i]));
	}
	if (x->kind == NODE_NAME) return x->name;
	if (x->kind == NODE_NUMBER) return said(l, "%g", x->number);
	if (x->kind == NODE_CALL && x->n == 1) return said(l, "%s(%s)", x->name, a[0]);
	return signs[x->kind] && x->n == 2 ? said(l, "%s %s %s", a[0], signs[x->kind], a[1]) : "...";
}

static const char *ix_text(struct lowering_run *l, const struct ix *x)
{
	return l->h->text && x->at ? index_text(l, x->at) : said(l, "%g", x->number);
}

const char *low_text(struct lowering_run *l, const struct sym *x, const struct val *a)
{
	const struct ex *e = x->ex;
	const struct call *call = l->h->f->program->call;

	switch (e->kind) {
	case EX_NUMBER: return said(l, "%g", e->number);
	case EX_LOAD: return e->slice->trace ? call->op->out[e->slice->tensor].name : call->op->in[e->slice->tensor].name;
	case EX_MEMORY: return call->op->in[e->op].name;
	case EX_MAP:
		if (e->op == FN_RECIP) return said(l, "1 / %s", in_brackets(l, a[0]));
		if (e->op > FN_COUNT) return said(l, "%s_approx(%s)", approx_names[e->op - (int)FN_APPROX(0)], a[0].text);
		return fn_names[e->op] ? said(l, "%s(%s)", fn_names[e->op], a[0].text) : a[0].text;
	case EX_ZIP:
		return e->op == OP_POW ? said(l, "%s^%s", in_brackets(l, a[0]), in_brackets(l, a[1])) : said(l, "maximum(%s, %s)", a[0].text, a[1].text);
	case EX_TRANS: case EX_FLIP: return said(l, "%s'", in_brackets(l, a[0]));
	case EX_SUM: return said(l, "sum(%s)", a[0].text);
	case EX_MAX: return said(l, "max(%s)", a[0].text);
	case EX_SCAN: return said(l, "cumsum(%s)", a[0].text);
	case EX_PART: return said(l, "part(%s, %zu, ...)", a[0].text, e->first);
	case EX_SHIFTED: return said(l, "shifted(%s, %s)", a[0].text, ix_text(l, e->ix));
	case EX_LAST: return said(l, "last(%s)", a[0].text);
	case EX_ELEMENT: return said(l, "element(%s, %s)", a[0].text, ix_text(l, e->ix));
	case EX_TRIL: return e->op ? said(l, "tril(%s, %d)", a[0].text, e->op) : said(l, "tril(%s)", a[0].text);
	case EX_IOTA: return "iota";
	case EX_MIRRORED: return said(l, "mirrored(%s)", a[0].text);
	case EX_REPLACED: return said(l, "replaced(%s, ..., %s)", a[0].text, a[1].text);
	case EX_FLOOR: return said(l, "floor(%s)", a[0].text);
	case EX_TOP: return said(l, "top(%s)", a[0].text);
	case EX_IX: return ix_text(l, e->ix);
	case EX_IF: return x->arg[0] == x->arg[1] ? a[0].text : said(l, "(%s if %s else %s)", a[0].text, ix_text(l, e->ix), a[1].text);
	case EX_WHERE: return said(l, "where(%s, %s, %s)", a[2].text, a[0].text, a[1].text);
	case EX_CMP: return said(l, "%s %s %s", a[0].text, signs[e->op], a[1].text);
	default: return said(l, "f(%s)", a[0].text);
	}
}

/* e is a leaf, an elementwise operation, or moves numbers about: what is known of its values, and of what they depend on */
static void leaf(struct lowering_run *l, const struct ex *e, int in, struct cell *c, struct val a)
{
	const struct call *call = l->h->f->program->call;

	c->grid = IN_F32;
	if (e->kind == EX_LOAD) {
		c->grid = grid_of((e->slice->trace ? call->out : call->in)[e->slice->tensor]->dtype);
		by_slice(l, c, e->slice, in);
	} else low_by_ix(l, c, e->ix, in);
	if (e->kind == EX_MEMORY) c->grid = grid_of(call->in[e->op]->dtype);
	if (e->kind == EX_NUMBER) c->grid = round_one(e->number, IN_BF16) == e->number ? IN_BF16 : IN_F32;
	bool moved = e->kind == EX_TRANS || e->kind == EX_FLIP || e->kind == EX_LAST || e->kind == EX_PART || e->kind == EX_SHIFTED || e->kind == EX_ELEMENT
		|| e->kind == EX_TRIL || e->kind == EX_MAX || e->kind == EX_MIRRORED || e->kind == EX_ROUNDED;
	if (moved && a.cell >= 0) c->grid = cell_at(l, a)->grid;
	if (e->kind == EX_IF && e->a == e->b && a.cell >= 0) c->grid = cell_at(l, a)->grid;
	c->exact = moved || e->kind == EX_LOAD || e->kind == EX_IOTA || e->kind == EX_IF || e->kind == EX_WHERE || e->kind == EX_REPLACED;
	if (e->kind == EX_SUM) c->exact = true, c->grid = AS_IT_IS;
}

struct val low_load(struct lowering_run *l, const struct sym *x)
{
	struct cell c = cell_of(CELL_OP, -1, -1, x->s.rows, x->s.cols);

	c.ex = x->ex;
	leaf(l, x->ex, x->in, &c, (struct val){ -1, "", true });
	return low_cell(l, &c, low_text(l, x, NULL), true);
}

static struct val operation(struct lowering_run *l, const struct sym *x, bool root)
{
	const struct ex *e = x->ex;
	struct val a[3] = { { -1, "", true }, { -1, "", true }, { -1, "", true } };
	bool root_within = e->kind == EX_TRANS || e->kind == EX_FLIP || e->kind == EX_LAST || e->kind == EX_TRIL;

	if (e->kind == EX_INVERSE) return low_inverse(l, x);
	const bool outer = l->bare;
	l->bare = outer || (e->kind == EX_CMP && e->index);
	for (int i = 0; i < x->n; i++) {
		if (i && x->arg[i] == x->arg[0]) a[i] = a[0];
		else a[i] = low_single(l, low_sym(l, x->arg[i], root_within));
		if (a[i].cell < 0) return a[i];
	}
	l->bare = outer;
	int how = e->kind == EX_SUM && x->arg[0]->s.rank != MATRIX && !l->wide ? choose(l, x->id, W_NARROW, 0, NARROW_SUMS, CHOOSE_FORM) : 0;
	if (how) return low_narrow(l, x, a[0], how);
	struct cell c = cell_of(CELL_OP, a[0].cell, a[1].cell, x->s.rows, x->s.cols);
	c.arg[2] = a[2].cell;
	c.ex = e;
	if (e->kind == EX_TRANS || e->kind == EX_FLIP || e->kind == EX_TRIL || e->kind == EX_LAST || e->kind == EX_SUM || e->kind == EX_MAX)
		c.ex = NULL, c.p[0] = (int)e->kind, c.p[1] = e->op;
	if (e->kind == EX_NUMBER) c.ex = NULL, c.op = CELL_NUMBER, c.number = e->number;
	if (e->kind == EX_MAP) c.ex = NULL, c.p[0] = (int)EX_MAP, c.p[1] = e->op, c.p[2] = choose_way(l, (enum fn)e->op, a[0], false);
	if (e->kind == EX_ZIP) c.ex = NULL, c.op = CELL_ZIP, c.p[0] = e->op;
	if (e->kind == EX_SCAN) c.ex = NULL, c.op = CELL_SCAN, c.p[0] = choose(l, 0, W_SCAN, 0, 2, CHOOSE_FORM);
	leaf(l, e, x->in, &c, a[0]);
	bool whole = e->kind != EX_ZIP && !(e->kind == EX_MAP && e->op == FN_RECIP) && e->kind != EX_CMP;
	const char *way = e->kind == EX_MAP ? way_name((enum fn)e->op, c.p[2]) : NULL;
	struct val v = e->kind == EX_ZIP && e->op == OP_DIV ? low_quotient(l, x, a[0], a[1])
		: low_cell(l, &c, way ? said(l, "%s(%s)", way, a[0].text) : low_text(l, x, a), whole || way);
	if (v.cell < 0) return v;
	if (x->exponent) v = low_given(l, x, v, false);
	bool made = e->kind == EX_MAP || e->kind == EX_ZIP || e->kind == EX_SUM || e->kind == EX_SCAN || e->kind == EX_POWER || e->kind == EX_WHERE
		|| (e->kind == EX_LOAD && x->site >= 0);
	return made && !root ? low_site(l, v, x->id, W_INNER, 0, CHOOSE_INNER, x) : v;
}

static struct val name(struct lowering_run *l, const struct sym *x)
{
	if (l->done[x->index]) return l->memo[x->index];
	int outer = l->def;
	l->def = x->def;
	struct val v = low_single(l, low_sym(l, x->arg[0], true));
	v = low_site(l, v, x->id, W_NAME, 0, CHOOSE_NAME, x->arg[0]);
	if (l->h->text && v.cell >= 0) fprintf(l->h->text, "%s = %s\n", x->name, v.text);
	l->def = outer;
	v.text = x->name;
	v.whole = true;
	l->done[x->index] = true;
	return l->memo[x->index] = v;
}

struct val low_sym(struct lowering_run *l, const struct sym *x, bool root)
{
	struct entry e[MAX_FACTORS];
	struct val v;

	switch (x->kind) {
	case SYM_NAME: return name(l, x);
	case SYM_CARRY: case SYM_FINAL: return low_carried(l, x);
	case SYM_OP: return operation(l, x, root);
	case SYM_SUM: return low_sum(l, x, root);
	case SYM_TIMES: v = low_times(l, x); break;
	case SYM_EXP: v = low_exp(l, x); break;
	case SYM_UNDECAYED: v = low_undecayed(l, x); break;
	default:
		if (x->n > MAX_FACTORS) return (struct val){ -1, "", true };
		for (int i = 0; i < x->n; i++) e[i] = (struct entry){ x->arg[i], x->role[i] };
		v = low_product(l, e, x->n, x->id * 16, x->s);
	}
	return root ? v : low_site(l, v, x->id, W_INNER, 0, CHOOSE_INNER, x);
}

struct val low_stored(struct lowering_run *l, const struct sym *x)
{
	struct val v = low_single(l, low_sym(l, x, true));

	return x->kind != SYM_NAME && x->kind != SYM_CARRY && x->kind != SYM_FINAL && !is_ex(x, EX_LOAD) ? low_site(l, v, x->id, W_NAME, 1, CHOOSE_NAME, x) : v;
}

static void target(const struct slice *s, FILE *to)
{
	fputs(s->at->name, to);
}

bool lower(const struct lowering *how, struct lowered *to)
{
	struct form_symbols *f = how->f;
	struct lowering_run l = { .h = how, .to = to, .def = -1 };      /* of loops: LOOP_NEW */

	to->met.n = to->wide = to->half = to->on_operands = 0;
	l.memo = calloc((size_t)f->n_sym, sizeof *l.memo);
	l.done = calloc((size_t)f->n_sym, sizeof *l.done);
	bool ok = l.memo && l.done;
	/* what a recurrence carries is float32's; there a first guess of more would hide what is rounded */
	l.wide = !over_tokens(f->loop) && choose(&l, 0, W_WIDE, 0, 2, CHOOSE_FORM);
	if (how->text && l.wide) fputs("# operations are more precise than float32\n", how->text);
	for (int i = 0; i < f->n_in; i++) to->recurrence[i] = -1;
	for (int i = 1; i < f->n_in && ok; i++) ok = low_loop(&l, i);
	for (int i = 0; i < f->n_put && ok; i++) {
		struct sym *x = f->put[i].value;
		l.def = -1;
		struct val v = low_stored(&l, x);
		to->put[i] = v.cell;
		if (v.cell >= 0) how->cells->at[v.cell].stored = true;
		if (!how->text) continue;
		target(f->put[i].slice, how->text);
		fprintf(how->text, " = %s\n", v.text);
	}
	if (how->text && l.sums) fprintf(how->text, "# A @ B: sums as %s\n", sums_name(l.sums));
	free(l.memo);
	free(l.done);
	pool_free(&l.pool);
	for (int i = 0; i < f->n_put; i++) ok = ok && to->put[i] >= 0;
	return ok && !l.failed && !how->cells->failed && !f->pool.failed && !f->missing;
}
