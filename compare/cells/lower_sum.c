/* Sums, products element by element, quotients, exponentials, inverses. */
#include "lower.h"

#include "ref/arith/arith.h"

static struct val negative(struct lowering_run *l, struct val v)
{
	struct cell c = cell_of(CELL_NEG, v.cell, -1, cell_at(l, v)->rows, cell_at(l, v)->cols);

	c.exact = true;
	c.grid = cell_at(l, v)->grid;
	return low_cell(l, &c, said(l, "-%s", in_brackets(l, v)), false);
}

/* The product whose rounding a fused multiply-add leaves out. */
static struct val unrounded(struct lowering_run *l, struct val v)
{
	struct cell c = *cell_at(l, v);

	c.exact = true;
	c.grid = AS_IT_IS;
	return low_cell(l, &c, said(l, "fma[%s]", v.text), true);
}

static bool is_product(const struct lowering_run *l, struct val v)
{
	const struct cell *c = cell_at(l, v);

	return c->op == CELL_ZIP && c->p[0] == OP_MUL && !c->exact;
}

/* A product of matrices whose sum goes on from v. */
static struct val onto(struct lowering_run *l, struct val v, struct val product)
{
	struct cell c = *cell_at(l, product);

	if (v.cell < 0) return v;
	c.arg[2] = v.cell;
	return low_cell(l, &c, said(l, "%s + fma[%s]", v.text, product.text), false);
}

/* Of the terms the product that goes on from the sum of the others, or -1. */
static int last_product(struct lowering_run *l, const struct sym *x, const struct val *t, int n)
{
	int at[16], k = 0;

	for (int i = 0; i < n && n > 1; i++) {
		const struct cell *c = cell_at(l, t[i]);
		if (x->sign[i] > 0 && c->op == CELL_GEMM && c->p[2]) at[k++] = i;
	}
	int taken = k ? choose(l, x->id, W_ONTO, 0, k + 1, CHOOSE_SUMS) : 0;
	return taken ? at[taken - 1] : -1;
}

static bool has_site(const struct sym *x) { return x->kind == SYM_NAME || x->kind == SYM_CARRY || x->kind == SYM_FINAL; }

/* The terms t [n] of the sum x, of which one may be a product that is not rounded, and one of matrices goes on from the others. */
struct val low_added(struct lowering_run *l, const struct sym *x, struct val *t, int n, int about, struct shape s)
{
	int fused[MAX_TERMS], k = 0;
	struct val v = { -1, "", true };

	for (int i = 0; i < n && n > 1; i++)
		if (is_product(l, t[i])) fused[k++] = i;
	int f = k ? choose(l, about, W_FUSED, 0, k + 1, CHOOSE_FORM) : 0, end = about == x->id ? last_product(l, x, t, n) : -1;
	if (f) t[fused[f - 1]] = unrounded(l, t[fused[f - 1]]);
	for (int i = 0, first = 1; i < n && (first || v.cell >= 0); i++) {
		if (i == end) continue;
		if (!first) v = low_zip(l, x->sign[i] > 0 ? OP_ADD : OP_SUB, v, t[i], s, x->sign[i] > 0 ? " + " : " - ");
		else v = x->sign[i] > 0 ? t[i] : negative(l, t[i]);
		first = 0;
	}
	if (end >= 0) v = onto(l, low_single(l, v), t[end]);
	return low_single(l, v);
}

struct val low_sum(struct lowering_run *l, const struct sym *x, bool root)
{
	struct val t[MAX_TERMS];
	int n = x->n < MAX_TERMS ? x->n : MAX_TERMS;

	if (x->n > MAX_TERMS) l->h->f->missing = "a longer sum than is taken apart";
	for (int i = 0; i < n; i++) {
		t[i] = low_sym(l, x->arg[i], true);
		if (t[i].cell >= 0 && !has_site(x->arg[i])) t[i] = low_site(l, t[i], x->id, W_INNER, 1 + i, CHOOSE_INNER, x->arg[i]);
		if (t[i].cell < 0) return t[i];
	}
	struct val v = low_added(l, x, t, n, x->id, x->s);
	return root ? v : low_site(l, v, x->id, W_INNER, 0, CHOOSE_INNER, x);
}

/* In turn, or another pair first. */
struct val low_times(struct lowering_run *l, const struct sym *x)
{
	enum { MOST = 8 };
	static const struct sym partial = { .kind = SYM_TIMES, .site = -1 };    /* of some of the factors: no value that has a name */
	struct val t[MOST], v;
	int n = 0, first = 0, second = 1, pair = 0;

	for (int i = 0; i < x->n && n < MOST; i++) {
		if (x->arg[i] == l->skip) continue;
		t[n] = low_single(l, low_sym(l, x->arg[i], false));
		if (t[n++].cell < 0) return t[n - 1];
	}
	if (n > 2) pair = choose(l, x->id, W_PAIR, 0, n * (n - 1) / 2, CHOOSE_FORM);
	while (pair--) {
		if (++second < n) continue;
		first++;
		second = first + 1;
	}
	if (n == 1) return t[0];
	v = low_zip(l, OP_MUL, t[first], t[second], x->s, " * ");
	for (int i = 0, k = 0; i < n && v.cell >= 0; i++) {
		if (i == first || i == second) continue;
		v = low_single(l, low_site(l, v, x->id, W_INNER, 1 + k++, CHOOSE_INNER, &partial));
		v = low_zip(l, OP_MUL, v, t[i], x->s, " * ");
	}
	return v;
}

/* a / b, rounded right, or a times 1 / b, that rounded right or approximated, as PTX's div.full.f32 has it: all quotients alike. In an iteration
 * a near tie is amplified, so that it is no last bit there. */
struct val low_quotient(struct lowering_run *l, const struct sym *x, struct val a, struct val b)
{
	const struct form_symbols *f = l->h->f;
	const bool iterates = f->iterated && !over_tokens(f->loop);
	const int how = l->wide ? 0 : choose(l, 0, W_OVER, 0, 3, iterates ? CHOOSE_FORM : CHOOSE_LAST);

	if (!how) return low_zip(l, OP_DIV, a, b, x->s, " / ");
	struct cell over = cell_of(CELL_OP, b.cell, -1, cell_at(l, b)->rows, cell_at(l, b)->cols);
	over.p[0] = (int)EX_MAP;
	over.p[1] = FN_RECIP;
	over.p[2] = how == 2;
	over.grid = IN_F32;
	struct val y = low_cell(l, &over, how == 2 ? said(l, "%s(%s)", way_name(FN_RECIP, 1), b.text) : said(l, "1 / %s", in_brackets(l, b)), how == 2);
	return y.cell < 0 ? y : low_zip(l, OP_MUL, a, y, x->s, " * ");
}

/* ---- e^x: of x, or of two, x log2 e: at the last, in each sum, in each term of a running sum ---- */

static const struct len scalar_len = { 1, -1 };
enum { NATURAL, LATE, EACH_SUM, EACH_TERM };

/* Times a float, or (log2) exactly. */
static struct val per_ln2(struct lowering_run *l, struct val v, bool log2)
{
	struct cell c = cell_of(CELL_PER_LN2, v.cell, -1, cell_at(l, v)->rows, cell_at(l, v)->cols);

	c.p[0] = log2;
	c.grid = IN_F32;
	return low_cell(l, &c, said(l, "log2(e) * %s", in_brackets(l, v)), false);
}

struct val low_given(struct lowering_run *l, const struct sym *x, struct val v, bool in_2)
{
	int how = cell_at(l, v)->grid == IN_F32 ? choose(l, x->id, W_GIVEN, 0, 3, CHOOSE_FORM) : 0;
	const struct cell *of = cell_at(l, v);
	struct cell e = cell_of(CELL_OP, v.cell, -1, of->rows, of->cols), log = e, small = cell_of(CELL_NUMBER, -1, -1, scalar_len, scalar_len);

	if (!how) return in_2 ? per_ln2(l, v, false) : v;
	e.p[0] = log.p[0] = (int)EX_MAP;
	e.p[1] = FN_EXP;
	e.grid = small.grid = IN_F32;
	small.number = 1e-10;
	struct val y = low_cell(l, &e, said(l, "exp(%s)", v.text), true);
	if (how == 2) y = low_zip(l, OP_ADD, y, low_cell(l, &small, "1e-10", true), x->s, " + ");
	if (y.cell < 0) return y;
	log.arg[0] = y.cell;
	log.p[1] = FN_LOG;
	log.exact = in_2;
	log.grid = in_2 ? AS_IT_IS : IN_F32;
	y = low_cell(l, &log, said(l, "log%s(%s)", in_2 ? "2" : "", y.text), true);
	if (!in_2 || y.cell < 0) return y;
	const char *text = y.text;
	y = per_ln2(l, y, true);
	y.text = text;
	y.whole = true;
	return y;
}

static struct val exponent(struct lowering_run *l, const struct sym *x, int how)
{
	bool linear = is_ex(x, EX_TRANS) || is_ex(x, EX_FLIP) || is_ex(x, EX_LAST) || is_ex(x, EX_SHIFTED) || is_ex(x, EX_ELEMENT)
		|| (how == EACH_TERM && is_ex(x, EX_SCAN));
	struct val v = { -1, "", true };

	if (x->kind == SYM_SUM) {
		for (int i = 0; i < x->n; i++) {
			struct val t = exponent(l, x->arg[i], how);
			if (t.cell < 0) return t;
			v = i ? low_zip(l, x->sign[i] > 0 ? OP_ADD : OP_SUB, v, t, x->s, x->sign[i] > 0 ? " + " : " - ") : x->sign[0] > 0 ? t : negative(l, t);
		}
		return v;
	}
	if (x->kind == SYM_NAME && how == EACH_TERM) {
		if (l->done[x->index]) return l->memo[x->index];
		v = exponent(l, x->arg[0], how);
		if (l->h->text && v.cell >= 0) fprintf(l->h->text, "%s = %s\n", x->name, v.text);
		l->done[x->index] = true;
		return l->memo[x->index] = (struct val){ v.cell, x->name, true };
	}
	if (x->exponent && how == EACH_TERM) return low_given(l, x, low_load(l, x), true);
	if (!linear) return per_ln2(l, low_single(l, low_sym(l, x, true)), false);
	struct val a = exponent(l, x->arg[0], how);
	if (a.cell < 0) return a;
	struct cell c = cell_of(CELL_OP, a.cell, -1, x->s.rows, x->s.cols);
	c.grid = IN_F32;
	if (is_ex(x, EX_SCAN)) c.op = CELL_SCAN, c.p[0] = choose(l, 0, W_SCAN, 0, 2, CHOOSE_FORM);
	else if (is_ex(x, EX_SHIFTED) || is_ex(x, EX_ELEMENT)) c.ex = x->ex, low_by_ix(l, &c, x->ex->ix, x->in);
	else c.p[0] = (int)x->ex->kind, c.p[1] = x->ex->op;
	c.exact = c.op != CELL_SCAN;
	return low_cell(l, &c, low_text(l, x, &a), true);
}

struct val low_exp(struct lowering_run *l, const struct sym *x)
{
	/* an input's own exponential has nothing to be scaled before: that of 2, late, is a way to compute it */
	bool apart = is_ex(x->arg[0], EX_LOAD);
	int how = apart ? NATURAL : choose(l, 0, W_EXP, 0, 4, CHOOSE_FORM);
	struct val a = how < EACH_SUM ? low_single(l, low_sym(l, x->arg[0], false)) : exponent(l, x->arg[0], how);

	if (a.cell < 0) return a;
	if (how == LATE) a = per_ln2(l, a, false);
	struct cell c = cell_of(CELL_OP, a.cell, -1, x->s.rows, x->s.cols);
	c.p[0] = (int)EX_MAP;
	c.p[1] = how == NATURAL ? FN_EXP : FN_EXP2;
	c.p[2] = choose_way(l, (enum fn)c.p[1], a, apart);
	c.grid = IN_F32;
	return low_cell(l, &c, said(l, "%s(%s)", c.p[2] ? way_name((enum fn)c.p[1], c.p[2]) : how == NATURAL ? "exp" : "exp2", a.text), true);
}

/* ---- (I + A)^-1 ---- */

/* Of x the factor e^(g_i - g_j), which a conjugation moves out: (I + A e^(g_i - g_j))^-1 = (I + A)^-1 e^(g_i - g_j) for each element. */
const struct sym *low_conjugating(const struct sym *x)
{
	const struct sym *y;

	if (is_ex(x, EX_TRIL) || x->kind == SYM_SUM) return x->n == 1 ? low_conjugating(x->arg[0]) : NULL;
	if (x->kind == SYM_PRODUCT) {
		for (int i = 0; i < x->n; i++)
			if (x->role[i] == DENSE) return low_conjugating(x->arg[i]);
		return NULL;
	}
	for (int i = 0; i < x->n && x->kind == SYM_TIMES; i++) {
		const struct sym *e = x->arg[i]->kind == SYM_NAME ? x->arg[i]->arg[0] : x->arg[i];
		if (e->kind != SYM_EXP || (y = e->arg[0])->kind != SYM_SUM || y->n != 2) continue;
		bool turned = is_ex(y->arg[1], EX_FLIP) && y->arg[1]->arg[0] == y->arg[0];
		if (turned && y->sign[0] > 0 && y->sign[1] < 0) return x->arg[i];
	}
	return NULL;
}

static struct val inverted(struct lowering_run *l, const struct sym *x, struct val a)
{
	static const int bases[] = { 16, 8, 32, 64, 128 };
	static const char *const types[] = { "f32", "tf32_rz", "tf32", "f16", "bf16" }, *const stores[] = { "f32", "f16", "bf16" };
	struct cell c = cell_of(CELL_INVERSE, a.cell, -1, x->s.rows, x->s.cols);
	struct shape s = x->s;
	int base = bases[choose(l, x->id, W_BASE, 0, 5, CHOOSE_FORM)], store = choose(l, x->id, W_STORE, 0, 3, CHOOSE_FORM);
	bool merged = (size_t)base < s.rows.n;
	int columns = merged ? choose(l, x->id, W_COLUMNS, 0, 2, CHOOSE_FORM) : 0, high = merged ? choose(l, x->id, W_HIGH, 0, 5, CHOOSE_FORM) : 0;
	bool levels = merged && !columns && 2 * (size_t)base < s.rows.n;
	int low = levels ? choose(l, x->id, W_LOW, 0, 5, CHOOSE_FORM) : high, halves = merged && !columns ? choose(l, x->id, W_HALVES, 0, 2, CHOOSE_FORM) : 0;
	int sums = choose_sums(l), fused = sums ? choose(l, x->id, W_ALONE, 0, 2, CHOOSE_SUMS) : 0;

	c.p[0] = base, c.p[1] = store, c.p[2] = columns, c.p[3] = sums * 2 + fused, c.p[4] = high, c.p[5] = low * 2 + halves;
	c.grid = store == 2 ? IN_BF16 : store == 1 ? IN_F16 : IN_F32;
	const char *merge = !merged ? "" : said(l, ", merged by %s%s, operands %s%s%s", columns ? "columns" : "doubling", halves ? ", halves" : "", types[high],
		low != high ? ", below " : "", low != high ? types[low] : "");
	return low_cell(l, &c, said(l, "inverse[blocks of %d%s, stored %s%s](I + %s)", base, merge, stores[store], fused ? ", fma" : "", a.text), true);
}

static struct val inverted_without(struct lowering_run *l, const struct sym *x, const struct sym *e)
{
	const struct sym *outer = l->skip;

	l->skip = e;
	struct val a = low_single(l, low_sym(l, x->arg[0], false));
	l->skip = outer;
	return a.cell < 0 ? a : inverted(l, x, a);
}

struct val low_undecayed(struct lowering_run *l, const struct sym *x)
{
	return inverted_without(l, x->arg[0], low_conjugating(x->arg[0]->arg[0]));
}

struct val low_inverse(struct lowering_run *l, const struct sym *x)
{
	const struct sym *e = low_conjugating(x->arg[0]), *outer = l->skip;
	bool apart = e && choose(l, x->id, W_CONJUGATED, 0, 2, CHOOSE_FORM);

	struct val t = inverted_without(l, x, apart ? e : outer);
	if (!apart || t.cell < 0) return t;
	t = low_single(l, low_site(l, t, x->id, W_INNER, 0, CHOOSE_INNER, x));
	struct val f = low_sym(l, e, false), y = low_zip(l, OP_MUL, t, f, x->s, " * ");
	if (y.cell < 0) return y;
	struct cell c = cell_of(CELL_OP, y.cell, -1, x->s.rows, x->s.cols);
	c.p[0] = (int)EX_TRIL;
	c.exact = true;
	c.grid = IN_F32;
	return low_cell(l, &c, y.text, false);
}
