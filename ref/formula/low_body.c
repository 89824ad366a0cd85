/* Statements: definitions, what is stored, loops. */
#include "lower.h"

#include <string.h>

static bool is_carried(const struct lower *l, int reg)
{
	for (const struct symbol *s = l->symbols; s; s = s->outer)
		if (s->kind == SYMBOL_REG && s->carried && s->index == reg) return true;
	return false;
}

/* The registers that this loop and those around it carry, at most MAX_BY each. */
static int carried_now(const struct lower *l, int *reg)
{
	int n = 0;

	for (const struct symbol *s = l->symbols; s; s = s->outer)
		if (s->kind == SYMBOL_REG && s->carried) reg[n++] = s->index;
	return n;
}

static bool stays(const struct lower *l, const struct node *x)
{
	const struct symbol *s = x->kind == NODE_NAME ? symbol_find(l, x->name) : NULL;

	return s && s->kind == SYMBOL_REG && !s->carried && !is_carried(l, s->index);
}

static bool is_product(const struct lower *l, const struct node *x)
{
	if (x->kind == NODE_POW) return x->arg[1]->kind == NODE_NUMBER && x->arg[1]->number == 2 && stays(l, x->arg[0]);
	return x->kind == NODE_MUL && stays(l, x->arg[0]) && stays(l, x->arg[1]);
}

bool rounds(const struct lower *l, int site)
{
	const struct site_rounding *r = site >= 0 ? &l->plan->round[site] : NULL;

	return r && r->on && (r->format != FMT_F64 || l->plan->arith->wide);
}

/* name = value: into the register of that name, new unless it is carried. */
static bool define(struct lower *l, const struct definition *d)
{
	const struct definition *other = redefined(l, d->name, NULL, '=');
	struct symbol *s = symbol_find(l, d->name);
	struct node *value = other ? other->value : d->value;
	char text[2][SHAPE_SAID];

	if (s && !(s->kind == SYMBOL_REG && s->carried))
		return low_error(l, d->target, "expected a name of its own, or one that a loop carries ('for ..., %s from ...'); '%s' is defined already", d->name, d->name);
	if (declared(l->t->in, d->name) || declared(l->t->held, d->name) || declared(l->t->params, d->name) || declared(l->t->lets, d->name) || declared(l->t->aliases, d->name))
		return low_error(l, d->target, "expected a name of its own; '%s' is declared above", d->name);
	struct ex *x = low_value(l, value);
	if (!x) return false;
	if (s && x->s.rank == SCALAR && s->s.rank != SCALAR && !(x = ex_filled(l, s->s, x))) return false;
	if (s && !same_shape(s->s, x->s))
		return low_error(l, value, "expected %s for '%s', got %s", shape_said(l->call, s->s, text[0]), d->name, shape_said(l->call, x->s, text[1]));
	int site = formula_site(l->t, l->op, d->name);
	/* another name for the same value; where values stay each site is one of its own */
	bool apart = rounds(l, site) || (l->keep && site >= 0);
	if (!s && x->kind == EX_REG && !apart && !is_carried(l, x->reg)) return symbol_add(l, d->name, SYMBOL_REG, x->reg, x->s) != NULL;
	bool product = !s && !apart && is_product(l, value);
	int reg = s ? s->index : new_reg(l, d->target, x->s);
	struct symbol *y = s || reg < 0 ? s : symbol_add(l, d->name, SYMBOL_REG, reg, x->s);
	if (reg < 0 || !y) return false;
	if (product) y->product = value;
	if (rounds(l, site)) l->site_of[reg] = site + 1;
	struct step *step = add_set(l, d->target, reg, x);
	if (!step) return false;
	step->site = rounds(l, site) ? site : -1;
	step->carried = s != NULL;
	l->index[reg] = !s && ex_index(l, x);
	return true;
}

int low_has_output(struct lower *l, const char *name)
{
	const struct tensor_decl *t = declared(l->t->out, name);
	int with = t && t->with[0] ? declared_index(l->t->in, t->with) : -1;
	double traced = 1;

	if (t && (t->optional || t->trace) && !l->call->out_count[declared_index(l->t->out, name)]) return 0;
	if (t && t->traced && !low_known(l, t->traced, &traced)) return -1;
	return traced != 0 && (with < 0 || l->call->in[with]);
}

static bool put(struct lower *l, const struct node *target, struct ex *x)
{
	struct shape s;
	char text[2][SHAPE_SAID];

	int asked = x ? low_has_output(l, target->name) : -1;
	if (asked < 1) return asked == 0;
	struct slice *slice = low_slice(l, target, true, &s);
	if (!slice) return false;
	if (x->s.rank == ROW && s.rank == COLUMN && !(x = ex_flip(l, x))) return false;
	if (x->s.rank == SCALAR && s.rank != SCALAR && !(x = ex_filled(l, s, x))) return false;
	if (!same_shape(x->s, s))
		return low_error(l, target, "expected %s for %s, got %s", shape_said(l->call, s, text[0]), target->name, shape_said(l->call, x->s, text[1]));
	if (!s.rows.n || !s.cols.n) return true;
	const struct tensor_decl *out = declared(l->t->out, target->name);
	int site = out && out->trace ? -1 : formula_site(l->t, l->op, target->name), reg = x->kind == EX_REG && !rounds(l, site) ? x->reg : new_reg(l, target, s);
	struct step *step = reg < 0 ? NULL : add_step(l, STEP_PUT, target);
	if (!step) return false;
	step->reg = reg;
	step->value = x;
	step->slice = slice;
	step->site = rounds(l, site) ? site : -1;
	return true;
}

/* output[index] = NAME of a trace: where it is recorded, what is made of the name has errors of its own. */
static bool recorded(struct lower *l, const struct definition *d)
{
	const struct tensor_decl *t = declared(l->t->out, d->name);
	struct symbol *y = t && t->trace && l->call->anchored && d->value->kind == NODE_NAME ? symbol_find(l, d->value->name) : NULL;
	struct shape s;

	if (!y || y->kind != SYMBOL_REG || low_has_output(l, d->name) < 1) return true;
	struct slice *slice = low_slice(l, d->target, true, &s);
	struct ex *x = slice ? ex_make(l, EX_LOAD, y->s, NULL, NULL) : NULL;
	int reg = !x ? -1 : y->carried ? y->index : new_reg(l, d->target, y->s);
	struct step *step = reg < 0 ? NULL : add_set(l, d->target, reg, x);

	if (!step) return false;
	slice->trace = true;
	if (l->outermost) l->p->anchored = l->outermost, l->outermost->anchored = true;
	x->slice = slice;
	step->carried = y->carried;
	return y->carried || symbol_add(l, d->value->name, SYMBOL_REG, reg, y->s);
}

static bool bounds(struct lower *l, const struct loop *t, struct program_loop *p)
{
	bool range = t->range->kind == NODE_RANGE;

	p->first = range ? low_ix(l, t->range->arg[0]) : ix_number(l, 0);
	p->last = p->first ? low_ix(l, range ? t->range->arg[1] : t->range) : NULL;
	if (!p->last) return false;
	p->cuts = -1;
	if (!t->cuts) return true;
	if (t->cuts->kind != NODE_INDEX || t->cuts->n != 1) return low_error(l, t->cuts, "expected NAME[sequence] of an integer input");
	if ((p->cuts = declared_index(l->t->in, t->cuts->name)) < 0) return low_error(l, t->cuts, "expected an input; nothing is named '%s'", t->cuts->name);
	if (!(p->sequence = low_ix(l, t->cuts->arg[0]))) return false;
	if (!l->call->in[p->cuts]) p->cuts = -1;
	return true;
}

/* What is carried gets its register and its first value before the loop. */
static bool begin(struct lower *l, const struct carry *c, int *reg)
{
	const struct definition *d = redefined(l, c->name, NULL, 'f');
	struct ex *x = low_value(l, d ? d->value : c->from);
	struct shape s = x ? x->s : scalar;

	if (!x) return false;
	if (x->s.rank == SCALAR && c->to) {
		if (!low_slice(l, c->to, true, &s)) return false;
		if (s.rank != SCALAR && !(x = ex_filled(l, s, x))) return false;
	}
	*reg = new_reg(l, c->from, s);
	struct symbol *y = *reg >= 0 && add_set(l, c->from, *reg, x) ? symbol_add(l, c->name, SYMBOL_REG, *reg, s) : NULL;
	if (y) y->carried = true;
	return y != NULL;
}

static bool loop(struct lower *l, const struct statement *x)
{
	const struct loop *t = x->loop;
	struct program_loop *p = low_make(l, sizeof *p);
	struct symbol *outer = l->symbols;
	int reg[MAX_BY];

	if (!p) return false;
	*p = (struct program_loop){ .chunk = -1, .by = 1, .backwards = t->backwards, .along = loop_along(t, l->op) };
	if (l->level + 1 == MAX_LEVEL) return low_error(l, t->range, "expected fewer than %d loops in each other", MAX_LEVEL);
	double around;
	if (!bounds(l, t, p) || !low_turns(l, t->range, p->first, p->last, &around) || (p->var = new_var(l, t->range)) < 0) return false;
	if (t->chunks && new_var(l, t->range) != first_of(p->var)) return false;
	for (int i = 0; i < t->n_carry; i++)
		if (!begin(l, &t->carry[i], &reg[i])) return false;
	p->strips = !l->level && formula_cut_in_loop(l->op);
	for (int i = 0; i < t->n_carry; i++) p->carry[p->n_carry++] = reg[i];
	struct len len = { 1, -1 };
	if (t->chunks) {
		if (l->p->n_chunk == MAX_PROGRAM_CHUNK) return low_error(l, t->range, "expected fewer loops over chunks");
		p->by = l->plan->chunk ? l->plan->chunk : t->by[0];
		if (l->plan->first_chunk && l->plan->first_chunk < p->by && !p->backwards) p->shift = p->by - l->plan->first_chunk;
		l->p->chunk_var[l->p->n_chunk] = p->var;
		double first, last;
		bool known = ix_known(p->first, &first) && ix_known(p->last, &last) && first >= 0 && last >= first;
		l->p->chunk_size[l->p->n_chunk] = p->by;
		l->p->chunk_most[l->p->n_chunk] = known && last - first < (double)p->by ? (size_t)(last - first) : p->by;
		p->chunk = l->p->n_chunk++;
		len = (struct len){ p->by, p->chunk };
	}
	if (!l->level++) l->outermost = p;
	l->same[p->level = l->level] = NULL;
	if (!symbol_add(l, t->var, t->chunks ? SYMBOL_CHUNK : SYMBOL_VAR, p->var, (struct shape){ COLUMN, len, { 1, -1 } })) return false;
	struct step *s = add_step(l, STEP_LOOP, t->range), **end = l->end;
	if (!s) return false;
	s->loop = p;
	l->end = &p->body;
	if (!low_body(l, x->body)) return false;
	l->turns = around;
	l->end = end;
	if (!--l->level) l->outermost = NULL;
	int carried[MAX_LEVEL * MAX_BY], n = carried_now(l, carried);
	reuse(l->p, &p->body, carried, n);
	for (int i = 0; i < t->n_carry; i++) {
		const struct definition *d = redefined(l, t->carry[i].name, NULL, 't');
		if (t->carry[i].to && !put(l, d ? d->value : t->carry[i].to, ex_reg(l, reg[i]))) return false;
	}
	/* what is carried is read after the loop, what its body defines is not */
	struct symbol *after = outer;
	for (int i = 0; i < t->n_carry; i++) {
		l->symbols = after;
		if (!(after = symbol_add(l, t->carry[i].name, SYMBOL_REG, reg[i], l->p->reg[reg[i]]))) return false;
	}
	l->symbols = after;
	return true;
}

/* Statements under a condition: a loop of one turn or none, unless it is known which. What they define is theirs. */
static bool when(struct lower *l, const struct statement *x)
{
	struct ix *condition = low_ix(l, x->condition);
	struct symbol *outer = l->symbols;
	int carried[MAX_LEVEL * MAX_BY];
	double known;

	if (!condition) return false;
	if (ix_known(condition, &known)) {
		bool ok = known == 0 || low_body(l, x->body);
		l->symbols = outer;
		return ok;
	}
	struct program_loop *p = low_make(l, sizeof *p);
	if (!p || (p->var = new_var(l, x->condition)) < 0) return false;
	*p = (struct program_loop){ .var = p->var, .chunk = -1, .cuts = -1, .by = 1, .first = ix_number(l, 0), .last = condition };
	if (l->level + 1 == MAX_LEVEL) return low_error(l, x->condition, "expected fewer than %d loops in each other", MAX_LEVEL);
	l->level++;
	l->same[p->level = l->level] = NULL;
	struct step *s = add_step(l, STEP_LOOP, x->condition), **end = l->end;
	if (!s || !p->first) return false;
	s->loop = p;
	l->end = &p->body;
	if (!low_body(l, x->body)) return false;
	l->end = end;
	l->level--;
	l->symbols = outer;
	reuse(l->p, &p->body, carried, carried_now(l, carried));
	return true;
}

bool low_body(struct lower *l, const struct statement *body)
{
	for (const struct statement *x = body; x; x = x->next) {
		if (x->condition) {
			if (!when(l, x)) return false;
		} else if (x->loop) {
			if (!loop(l, x)) return false;
		} else if (x->define.indexed) {
			const struct definition *d = redefined(l, x->define.name, x->define.target, '=');
			int asked = low_has_output(l, x->define.name);
			if (asked == 0) continue;
			if (asked < 0 || !put(l, x->define.target, low_value(l, d ? d->value : x->define.value)) || !recorded(l, &x->define)) return false;
		} else if (!define(l, &x->define)) return false;
	}
	return true;
}
