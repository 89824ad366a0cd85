/* From tree to program: names, steps, loops, faults. */
#include "lower.h"
#include "ref/parse/nearest.h"

#include <stdlib.h>
#include <string.h>

bool low_error(struct lower *l, const struct node *at, const char *what, ...)
{
	va_list more;

	va_start(more, what);
	formula_error_list(l->e, l->t->path, at ? at->line : 1, at ? at->column : 1, what, more);
	va_end(more);
	return false;
}

bool low_turns(struct lower *l, const struct node *at, const struct ix *first, const struct ix *last, double *around)
{
	const double most = 0x1p32;
	double from, to;

	*around = l->turns;
	if (ix_known(first, &from) && ix_known(last, &to) && to > from) l->turns *= to - from;
	return l->call->capture || l->turns <= most || low_error(l, at, "expected loops of fewer than 2^32 turns in all, got %.3g", l->turns);
}

static bool is_room(struct lower *l)
{
	return l->p->pool.total <= MAX_PREPARED
		|| low_error(l, l->called, "expected a shorter formula: with each 'def' and 'let' written out where it stands, it takes more than %d MiB", MAX_PREPARED >> 20);
}

void *low_make(struct lower *l, size_t n)
{
	void *p = is_room(l) ? pool_make(&l->p->pool, n) : NULL;

	if (!p && l->p->pool.total <= MAX_PREPARED) error_set(l->e, E_MEMORY, l->t->path, NO_OFFSET, "preparing a formula");
	return p;
}

static const struct definition *definition_in(const struct definition *all, int n, const char *name, const struct node *target, char kind)
{
	for (const struct definition *d = all; d < all + n; d++)
		if (same_name(d->name, name) && d->kind == kind && d->indexed == (target != NULL) && (!target || same_node(target, d->target))) return d;
	return NULL;
}

static const struct form_decl *form_of(const struct lower *l)
{
	const struct form_decl *f = l->t->forms;

	for (int i = 0; i < l->form && f->d.next; i++) f = (const struct form_decl *)f->d.next;
	return f;
}

/* Does the plan make fault f, number i, in this form? */
static bool is_made(const struct lower *l, const struct fault_decl *f, int i)
{
	return i < MAX_FAULT && l->plan->faults >> i & 1 && (!f->form[0] || declared_index(l->t->forms, f->form) == l->form);
}

const struct definition *redefined(struct lower *l, const char *name, const struct node *target, char kind)
{
	int i = 0, used = 0;

	for (const struct fault_decl *f = l->t->faults; f && i < MAX_FAULT && l->plan->faults >> i; f = (const struct fault_decl *)f->d.next, i++) {
		if (!is_made(l, f, i)) continue;
		const struct definition *d = definition_in(f->define, f->n, name, target, kind);
		if (d && used + (int)(d - f->define) < 64) l->used |= UINT64_C(1) << (used + (int)(d - f->define));
		if (d) return d;
		used += f->n;
	}
	return l->anew ? definition_in(l->anew->define, l->anew->n, name, target, kind) : NULL;
}

struct symbol *symbol_find(const struct lower *l, const char *name)
{
	for (struct symbol *s = l->symbols; s; s = s->outer)
		if (same_name(s->name, name)) return s;
	return NULL;
}

struct symbol *symbol_add(struct lower *l, const char *name, enum symbol_kind kind, int index, struct shape s)
{
	struct symbol *x = low_make(l, sizeof *x);

	if (!x) return NULL;
	*x = (struct symbol){ name, kind, index, l->level, false, s, NULL, l->symbols };
	return l->symbols = x;
}

int new_reg(struct lower *l, const struct node *at, struct shape s)
{
	if (l->p->n_reg < MAX_REG) {
		l->p->is_constant[l->p->n_reg] = l->index[l->p->n_reg] = false;
		l->p->reg[l->p->n_reg] = s;
		return l->p->n_reg++;
	}
	low_error(l, at, "expected a shorter formula, with fewer than %d values", MAX_REG);
	return -1;
}

int new_var(struct lower *l, const struct node *at)
{
	if (l->p->n_var < MAX_VAR) return l->p->n_var++;
	low_error(l, at, "expected fewer than %d indices", MAX_VAR);
	return -1;
}

struct step *add_step(struct lower *l, enum step_kind kind, const struct node *at)
{
	struct step *s = low_make(l, sizeof *s);

	if (!s) return NULL;
	*s = (struct step){ .kind = kind, .at = at, .reg = -1, .site = -1, .swap = -1 };
	*l->end = s;
	l->end = &s->next;
	return s;
}

struct ex *ex_reg(struct lower *l, int reg)
{
	struct ex *x = ex_make(l, EX_REG, l->p->reg[reg], NULL, NULL);

	if (x) x->reg = reg;
	return x;
}

struct step *add_set(struct lower *l, const struct node *at, int reg, struct ex *value)
{
	struct step *s = add_step(l, STEP_SET, at);

	if (!s) return NULL;
	s->reg = reg;
	s->value = value;
	return s;
}

struct ex *ex_hold(struct lower *l, const struct node *at, struct ex *x)
{
	int reg;

	if (!x || x->kind == EX_REG || x->kind == EX_NUMBER || (x->kind == EX_FLIP && x->a->kind == EX_REG)) return x;
	if ((reg = new_reg(l, at, x->s)) < 0 || !add_set(l, at, reg, x)) return NULL;
	l->index[reg] = ex_index(l, x);
	return ex_reg(l, reg);
}

/* Two faults may define the same thing. */
static bool only_one(uint64_t faults) { return faults && !(faults & (faults - 1)); }

static bool stands_in(const struct statement *s, const struct definition *d)
{
	for (; s; s = s->next) {
		for (int i = 0; s->loop && i < s->loop->n_carry; i++)
			if (d->kind != '=' && !strcmp(s->loop->carry[i].name, d->name)) return true;
		if (s->loop || s->condition ? stands_in(s->body, d) : d->kind == '=' && (d->indexed ? same_node(s->define.target, d->target) : !strcmp(s->define.name, d->name)))
			return true;
	}
	return false;
}

/* Does it stand in statements under a condition? */
static bool under_condition(const struct statement *s, const struct definition *d)
{
	for (; s; s = s->next)
		if (s->condition ? stands_in(s->body, d) : s->loop && under_condition(s->body, d)) return true;
	return false;
}

/* Is it of a function, a number or a statement that this call does without, or, as a fault may say for each form what it is there, of
 * another form? */
static bool elsewhere(const struct lower *l, const struct fault_decl *f, const struct definition *d)
{
	const struct tree *t = l->t;
	int i = 0;

	if (declared(t->macros, d->name) || declared(t->lets, d->name) || declared(t->aliases, d->name) || declared(t->params, d->name)) return true;
	for (const struct form_decl *x = form_of(l); x; x = x->more)
		if (under_condition(x->body, d)) return true;
	for (const struct form_decl *x = t->forms; x && f->n > 1 && !f->form[0]; x = (const struct form_decl *)x->d.next, i++)
		if (i != l->form && stands_in(x->body, d)) return true;
	return false;
}

/* What a form has under that name, an element of an output too, or NULL. */
static const struct definition *namesake(const struct statement *s, const char *name)
{
	const struct definition *d = NULL;

	for (; s && !d; s = s->next)
		if (s->loop || s->condition) d = namesake(s->body, name);
		else if (!s->use && same_name(s->define.name, name)) d = &s->define;
	return d;
}

static void near_names(struct nearest *near, const struct statement *s)
{
	for (; s; s = s->next) {
		if (s->loop || s->condition) near_names(near, s->body);
		else if (!s->use) nearest_try(near, s->define.name);
	}
}

/* The form has no such definition; another one may, of a fault that is all forms'. */
static bool none_such(struct lower *l, const struct fault_decl *f, const struct definition *d)
{
	const char *form = form_of(l)->d.name;
	const struct definition *has = NULL;
	struct nearest near = nearest_to(d->name);
	char meant[NEAREST_SAID], alone[128] = "";

	for (const struct form_decl *x = l->t->forms; x && !f->form[0] && !*alone; x = (const struct form_decl *)x->d.next)
		if (stands_in(x->body, d)) snprintf(alone, sizeof alone, ", or '%.30s in %.30s': a fault of that form alone", f->d.name, x->d.name);
	for (const struct form_decl *x = form_of(l); x && !has; x = x->more) has = namesake(x->body, d->name), near_names(&near, x->body);
	return has ? low_error(l, d->target, "expected a definition that the form '%s' has%s; of '%s' it has '%s'", form, alone, d->name, has->text)
		: low_error(l, d->target, "expected a definition that the form '%s' has%s; nothing there is named '%s'%s", form, alone, d->name, nearest_said(&near, meant));
}

/* Does the form have all that the plan's fault defines anew? */
static bool all_used(struct lower *l)
{
	int i = 0, used = 0;

	for (const struct fault_decl *f = l->t->faults; f; f = (const struct fault_decl *)f->d.next, i++) {
		if (!is_made(l, f, i)) continue;
		for (int k = 0; k < f->n; k++, used++)
			if (used < 64 && !(l->used >> used & 1) && !elsewhere(l, f, &f->define[k]))
				return none_such(l, f, &f->define[k]);
	}
	return true;
}

static void chain_free(struct program *p)
{
	for (struct program *next; p; p = next) {
		next = p->next;
		pool_free(&p->pool);
		free(p->folded);
		free(p);
	}
}

/* The program of these pieces of a form; *used: see struct lower */
static struct program *make(const struct lower *with, const struct form_decl *f, uint64_t *used)
{
	struct program *p = malloc(sizeof *p);
	struct lower l = *with;

	if (!p) {
		error_set(l.e, E_MEMORY, l.t->path, NO_OFFSET, "preparing a formula");
		return NULL;
	}
	memset(p, 0, offsetof(struct program, reg));
	p->path = l.t->path;
	p->call = l.call;
	p->keep = l.keep;
	p->held = l.of_held;
	p->n_held = l.n_held;
	l.p = p;
	l.end = &p->step;
	if (low_each(&l, f) && low_body(&l, f->body)) {
		reuse(p, &p->step, NULL, 0);
		places(p);
		*used |= l.used;
		return p;
	}
	chain_free(p);
	return NULL;
}

static struct program *all_made(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, bool keep,
	struct error *e)
{
	struct lower l = { .t = t, .op = op, .call = call, .plan = plan, .form = plan->form, .keep = keep, .e = e, .turns = 1 };
	struct program *p = NULL, **end = &p;

	if (form_of(&l)->define) l.anew = form_of(&l);
	if (!held_make(&l)) return NULL;
	for (const struct form_decl *f = form_of(&l); f; f = f->more) {
		size_t parts = 0;
		uint32_t held = 0;
		bool ok = program_parts(t, op, call, plan, f, &parts, e);
		l.parts = parts > MAX_PART ? parts : 0;
		if (l.parts) parts = 1;
		for (l.part = 0; ok && l.part < parts; l.part++) {
			if (!(ok = (*end = make(&l, f, &l.used)) != NULL)) break;
			held |= (*end)->writes;
			if ((*end)->step || parts == 1) end = &(*end)->next;
			else chain_free(*end), *end = NULL;   /* a part of no elements */
		}
		l.held |= held;
		if (ok) continue;
		chain_free(p);
		held_free(l.of_held, l.n_held);
		return NULL;
	}
	if (!only_one(plan->faults) || all_used(&l)) return p;
	chain_free(p);
	held_free(l.of_held, l.n_held);
	return NULL;
}

struct program *program_make(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, struct error *e)
{
	return all_made(t, op, call, plan, false, e);
}

struct program *program_make_kept(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, struct error *e)
{
	return all_made(t, op, call, plan, true, e);
}

void program_free(struct program *p)
{
	if (p) held_free(p->held, p->n_held);
	chain_free(p);
}
