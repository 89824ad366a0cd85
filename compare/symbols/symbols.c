/* From a program to symbols: each step once, in order. */
#include "symbols_read.h"

#include <stdlib.h>
#include <string.h>

#include "ref/arith/arith.h"

struct sym *sym_make(struct form_symbols *f, enum sym_kind kind, struct shape s, int n)
{
	struct sym *x = pool_make(&f->pool, sizeof *x);

	if (!x) return NULL;
	*x = (struct sym){ .kind = kind, .index = f->n_sym++, .in = f->now_in, .id = f->line << 10 | (f->in_line[f->line]++ & 0x3ff), .s = s, .n = n, .reg = -1, .def = -1, .site = -1, .operand = -1 };
	x->arg = pool_make(&f->pool, (size_t)(n ? n : 1) * sizeof *x->arg);
	x->sign = pool_make(&f->pool, (size_t)(n ? n : 1));
	x->role = pool_make(&f->pool, (size_t)(n ? n : 1) * sizeof *x->role);
	return f->pool.failed ? NULL : x;
}

const struct ex *op_like(struct form_symbols *f, enum ex_kind kind, struct shape s, int op)
{
	struct ex *x = pool_make(&f->pool, sizeof *x);

	if (x) *x = (struct ex){ .kind = kind, .s = s, .op = op, .reg = -1, .site = -1 };
	return x;
}

bool is_ex(const struct sym *x, enum ex_kind kind) { return x->kind == SYM_OP && x->ex->kind == kind; }

struct sym *sym_op(struct form_symbols *f, const struct ex *like, struct shape s, struct sym *a, struct sym *b, struct sym *c)
{
	struct sym *x = like ? sym_make(f, SYM_OP, s, c ? 3 : b ? 2 : a ? 1 : 0) : NULL;

	if (!x) return NULL;
	x->ex = like;
	if (a) x->arg[0] = a;
	if (b) x->arg[1] = b;
	if (c) x->arg[2] = c;
	return x;
}

static void count(const struct ex *x, int *uses)
{
	if (!x) return;
	if (x->kind == EX_REG) uses[x->reg]++;
	count(x->a, uses);
	if (x->b != x->a) count(x->b, uses);
	count(x->c, uses);
}

static void count_all(const struct step *s, int *uses)
{
	for (; s; s = s->next) {
		count(s->value, uses);
		if (s->kind == STEP_LOOP) count_all(s->loop->body, uses);
	}
}

/* Registers that hold what a loop begins with. */
static void begins(const struct step *s, bool *is)
{
	for (; s; s = s->next) {
		if (s->kind != STEP_LOOP) continue;
		for (int i = 0; i < s->loop->n_carry; i++) is[s->loop->carry[i]] = true;
		begins(s->loop->body, is);
	}
}

static struct sym *read(struct reader *r, const struct ex *x);

static struct sym *zip(struct reader *r, const struct ex *x)
{
	struct form_symbols *f = r->f;
	struct sym *a = read(r, x->a), *b = a ? read(r, x->b) : NULL;

	if (!b) return NULL;
	if (x->op == OP_ADD || x->op == OP_SUB) return sym_add(f, x->s, a, b, x->op == OP_ADD ? 1 : -1);
	if (x->op == OP_MUL) return sym_times(f, x->s, a, b);
	return sym_op(f, x, x->s, a, b, NULL);
}

static struct sym *product(struct reader *r, const struct ex *x)
{
	struct form_symbols *f = r->f;
	struct sym *a = read(r, x->a), *b = a ? read(r, x->b) : NULL, *c = x->c && b ? read(r, x->c) : NULL;

	if (!b || (x->c && !c)) return NULL;
	if (x->kind == EX_DOT) {
		struct sym *p = sym_times(f, a->s, a, b);
		return p ? sym_op(f, op_like(f, EX_SUM, x->s, 0), x->s, p, NULL, NULL) : NULL;
	}
	if (x->kind == EX_GEMV_T || (x->kind == EX_GEMM && x->op == 2)) a = sym_trans(f, a);
	if (x->kind == EX_OUTER || (x->kind == EX_GEMM && x->op == 1)) b = sym_trans(f, b);
	struct sym *p = a && b ? sym_chain(f, x->s, a, b) : NULL;
	return p && c ? sym_add(f, x->s, c, p, 1) : p;
}

static struct sym *map(struct reader *r, const struct ex *x)
{
	struct sym *a = read(r, x->a), *y;

	if (!a) return NULL;
	if (x->op == FN_ID) return a;
	if (x->op == FN_NEG) {
		if (!(y = sym_make(r->f, SYM_SUM, x->s, 1))) return NULL;
		y->arg[0] = a;
		y->sign[0] = -1;
		return y;
	}
	if ((x->op == FN_EXP || x->op == FN_EXP2) && (y = sym_exp(r->f, a, x->op == FN_EXP2))) return y;
	return sym_op(r->f, x, x->s, a, NULL, NULL);
}

static struct sym *read(struct reader *r, const struct ex *x)
{
	struct form_symbols *f = r->f;
	struct sym *a, *b, *c;

	if (f->pool.failed) return NULL;
	switch (x->kind) {
	case EX_REG:
		if (!r->reg[x->reg]) f->missing = "a value that is used before it is made";
		return r->reg[x->reg];
	case EX_ZIP: return zip(r, x);
	case EX_MAP: return map(r, x);
	case EX_DOT: case EX_GEMV: case EX_GEMV_T: case EX_OUTER: case EX_GEMM: return product(r, x);
	case EX_TRANS: return (a = read(r, x->a)) ? sym_trans(f, a) : NULL;
	case EX_FLIP:
		if (!(a = read(r, x->a))) return NULL;
		return a->s.rank != MATRIX && x->s.rank != MATRIX ? sym_trans(f, a) : sym_op(f, x, x->s, a, NULL, NULL);
	case EX_IF:
		a = read(r, x->a);
		b = !a ? NULL : x->b == x->a ? a : read(r, x->b);
		return b ? sym_op(f, x, x->s, a, b, NULL) : NULL;
	case EX_NUMBER: case EX_IX: case EX_LOAD: case EX_MEMORY: case EX_IOTA: return sym_op(f, x, x->s, NULL, NULL, NULL);
	case EX_AXPY:   /* a + b c */
		a = read(r, x->a);
		b = a ? read(r, x->b) : NULL;
		c = b ? read(r, x->c) : NULL;
		b = c ? sym_times(f, x->s, b, c) : NULL;
		return b ? sym_add(f, x->s, a, b, 1) : NULL;
	default:
		a = x->a ? read(r, x->a) : NULL;
		b = x->b && a ? read(r, x->b) : NULL;
		c = x->c && b ? read(r, x->c) : NULL;
		return (x->a && !a) || (x->b && !b) || (x->c && !c) ? NULL : sym_op(f, x, x->s, a, b, c);
	}
}

/* Another name for a name is none, nor is one for what lies in memory in few bits. */
static bool is_plain(const struct form_symbols *f, const struct sym *x)
{
	const struct tensor *t = is_ex(x, EX_LOAD) ? f->program->call->in[x->ex->slice->tensor] : NULL;

	if (x->kind == SYM_NAME || x->kind == SYM_CARRY || x->kind == SYM_FINAL) return true;
	if (is_ex(x, EX_TRANS) || is_ex(x, EX_FLIP)) return is_plain(f, x->arg[0]);
	return is_ex(x, EX_NUMBER) || is_ex(x, EX_IX) || is_ex(x, EX_IOTA) || (is_ex(x, EX_IF) && is_ex(x->arg[0], EX_NUMBER))
		|| (t && t->dtype != DT_F32 && t->dtype != DT_F64);
}

static struct sym *named(struct reader *r, const char *name, struct sym *value)
{
	struct form_symbols *f = r->f;
	struct sym *x = f->n_def < MAX_DEF ? sym_make(f, SYM_NAME, value->s, 1) : NULL;

	if (f->n_def == MAX_DEF) f->missing = "more names than are told apart";
	if (!x) return NULL;
	x->arg[0] = value;
	x->site = value->site;
	x->operand = value->operand;
	x->name = name;
	x->def = f->n_def;
	f->def_name[f->n_def++] = name;
	return x;
}

/* Of several names for one value the first that is a site. */
static void mark_site(struct form_symbols *f, struct sym *x, const char *name)
{
	int dense = 0, site = formula_site(f->tree, f->program->call->op, name);

	if (x->site >= 0) {
		if (site >= 0) x->operand = site;
		return;
	}
	x->site = site;
	for (int i = 0; i < x->n && x->kind == SYM_PRODUCT; i++) dense += x->role[i] == DENSE;
	if (x->site >= 0 && dense == 1 && f->n_scaled < MAX_DEF) f->scaled[f->n_scaled++] = x;
	if (x->site >= 0 && dense > 1 && dense == x->n && f->n_product < MAX_DEF) f->product[f->n_product++] = x;
}

static bool set(struct reader *r, const struct step *s)
{
	struct sym *x = read(r, s->value);
	const char *name = s->at && (s->at->kind == NODE_NAME || s->at->kind == NODE_INDEX || s->at->kind == NODE_CALL) ? s->at->name : "x";

	if (!x) return false;
	mark_site(r->f, x, name);
	bool carried = r->carry_of[s->reg] >= 0;
	if (carried || (!r->begins[s->reg] && r->uses[s->reg] > 1 && !is_plain(r->f, x))) x = named(r, name, x);
	r->reg[s->reg] = x;
	return x != NULL;
}

static bool put(struct reader *r, const struct step *s)
{
	struct form_symbols *f = r->f;
	struct sym *x = read(r, s->value);

	if (!x) return false;
	if (f->n_put == MAX_PUT) {
		f->missing = "more statements that store than are told apart";
		return false;
	}
	/* a value that is stored is a definition of its own */
	mark_site(f, x, s->slice->at->name);
	f->put[f->n_put++] = (struct sym_put){ x, s->slice, f->now_in };
	return true;
}

bool read_steps(struct reader *r, const struct step *s)
{
	struct form_symbols *f = r->f;
	bool ok = true;

	for (; s && ok; s = s->next) {
		f->line = s->at ? s->at->line % MAX_LINE : 0;
		ok = s->kind == STEP_LOOP ? read_loop(r, s) : s->kind == STEP_PUT ? put(r, s) : set(r, s);
	}
	return ok;
}

/* Which definitions does x read? */
static uint64_t used_by(const struct sym *x, int depth)
{
	uint64_t u = 0;

	if (x->kind == SYM_NAME) return UINT64_C(1) << x->def;
	for (int i = 0; i < x->n && depth < 100; i++) u |= used_by(x->arg[i], depth + 1);
	return u;
}

static void uses_of(struct form_symbols *f, const struct sym *x)
{
	if (x->kind == SYM_NAME && !f->def_uses[x->def]) f->def_uses[x->def] = used_by(x->arg[0], 0) | UINT64_C(1) << x->def;
	for (int i = 0; i < x->n; i++) uses_of(f, x->arg[i]);
}

void symbols_make(struct form_symbols *f, const struct tree *tree, struct program *p)
{
	struct reader *r = calloc(1, sizeof *r);

	*f = (struct form_symbols){ .program = p, .tree = tree, .n_in = 1, .failed = !r };
	if (!r) return;
	r->f = f;
	for (int i = 0; i < MAX_REG; i++) r->carry_of[i] = -1;
	count_all(p->step, r->uses);
	begins(p->step, r->begins);
	for (int i = 0; i < p->n_reg; i++) {
		if (!p->is_constant[i]) continue;
		struct ex *x = pool_make(&f->pool, sizeof *x);
		if (!x) break;
		*x = (struct ex){ .kind = EX_NUMBER, .number = p->constant[i], .s = p->reg[i], .reg = i };
		r->reg[i] = sym_op(f, x, x->s, NULL, NULL, NULL);
	}
	bool ok = read_steps(r, p->step);
	for (int i = 0; i < f->n_put && ok; i++) uses_of(f, f->put[i].value);
	for (int i = 0; i < f->n_carry && ok; i++) uses_of(f, f->carry[i].next);
	f->failed = f->pool.failed || (!ok && !f->missing);
	free(r);
}

void symbols_free(struct form_symbols *f) { pool_free(&f->pool); }
