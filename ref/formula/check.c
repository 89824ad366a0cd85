/* What can be known of a formula before there is a call: that shapes fit and names are known, in every form and fault. */
#include "formula_private.h"

#include <math.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "lower.h"

#define NEXT(x) ((void *)(x)->d.next)
enum { SETS = 1024, TRIES = 4000, LARGEST = 32, OTHERS = 100 };

bool formula_number(const struct formula *f, const struct call *call, const struct node *x, double *value, struct error *e)
{
	struct plan plan = plan_plain(&arith_f64, 0);
	struct program p = { .call = call, .path = f->tree.path };
	struct lower l = { .t = &f->tree, .op = &f->op, .call = call, .plan = &plan, .p = &p, .first = { &p.index }, .index = { &p.index }, .e = e };
	struct ix *y = low_ix(&l, x);
	bool ok = y && (ix_known(y, value) || low_error(&l, x, "expected a condition on sizes, parameters and what is given"));

	pool_free(&p.pool);
	return ok;
}

void formula_derive(const struct formula *f, struct call *call)
{
	for (int i = 0; f->op.dims[i]; i++) {
		const struct alias *a = declared(f->tree.lets, f->op.dims[i]);
		double n;
		if (a && formula_number(f, call, a->value, &n, NULL)) call->dim[i] = n >= 1 && n < 1e15 ? (size_t)n : 0;
	}
}

bool formula_has_trace(const struct formula *f, const struct call *call, int out)
{
	const struct tensor_decl *t = f->tree.out;
	double yes = 1;

	while (out-- > 0) t = NEXT(t);
	return t->trace && (!t->traced || (formula_number(f, call, t->traced, &yes, NULL) && yes != 0));
}

bool formula_rules(const struct formula *f, const struct call *call, struct error *e)
{
	bool ok = true;

	for (const struct rule *r = f->tree.rules; ok && r; r = NEXT(r)) {
		double value;
		ok = formula_number(f, call, r->value, &value, e);
		if (ok && value == 0)
			ok = error_set(e, r->d.name[0] ? E_PARAM : E_VALUE, r->d.name[0] ? r->d.name : f->op.name, NO_OFFSET, "%s:%d: expected %s", f->tree.path, r->d.line, r->d.what[0] ? r->d.what : "its 'where' to hold");
	}
	return ok;
}

/* Number `set` of the ways to give optional inputs, switches and choices; false where there are fewer. */
static bool choose(const struct formula *f, struct call *call, size_t set)
{
	static const struct tensor given = { .count = 2 };

	for (int i = 0; f->op.in[i].name; i++) {
		bool optional = f->op.in[i].flags & OPTIONAL;
		call->in[i] = !optional || set % 2 ? &given : NULL;
		if (optional) set /= 2;
	}
	for (int i = 0; f->op.params[i].name; i++) {
		const struct param_spec *p = &f->op.params[i];
		size_t n = p->kind == PARAM_BOOL ? 2 : 1;
		for (const char *s = p->kind == PARAM_CHOICE ? p->choices : ""; *s; s++) n += *s == '|';
		bool list = p->kind == PARAM_LIST && !p->required;
		if (list) n = 2;
		if (n > 1 || !p->required) call->param[i] = list ? set % n ? 2 : p->absent : n > 1 ? (double)(set % n) : p->absent;
		set /= n;
	}
	return set == 0;
}

/* 1, 2, ... */
static void lists(const struct formula *f, struct call *call)
{
	call->list_n = 0;
	for (int i = 0; f->op.params[i].name; i++) {
		if (f->op.params[i].kind != PARAM_LIST) continue;
		call->list_first[i] = call->list_n;
		for (int k = 0; k < 16 && call->list_n < MAX_LIST; k++) call->list[call->list_n++] = k + 1;
	}
}

/* Sizes from 2 on that all differ, where `any`, such as may be 1 or the same as another; whole numbers for parameters that must be
 * given. */
static void draw_sizes(const struct formula *f, struct call *call, bool any, uint64_t *random)
{
	for (int i = 0; f->op.dims[i]; i++) {
		bool other = false;
		while (!other) {
			call->dim[i] = 2 + random_next(random) % (LARGEST - 2);
			other = true;
			for (int k = 0; k < i; k++) other = other && call->dim[k] != call->dim[i];
		}
		size_t same = any && i ? random_next(random) % (size_t)(2 * i + 2) : 2 * MAX_DIM;
		if (same < (size_t)i) call->dim[i] = call->dim[same];
		else if (same == (size_t)i) call->dim[i] = 1;
	}
	for (int i = 0; f->op.params[i].name; i++)
		if (f->op.params[i].required) call->param[i] = f->op.params[i].kind == PARAM_LIST ? 4 : (double)(random_next(random) % LARGEST);
	lists(f, call);
	formula_derive(f, call);
}

/* Sizes that all differ and that `where` allows, for some set of inputs. */
static bool sizes(const struct formula *f, struct call *call)
{
	uint64_t random = 1;
	size_t ways = 1;

	while (ways < SETS && choose(f, call, ways)) ways++;
	for (int t = 0; t < TRIES; t++) {
		draw_sizes(f, call, false, &random);
		for (int i = 0; i < 64; i++)
			if (choose(f, call, random_next(&random) % ways) && formula_rules(f, call, NULL)) return true;
	}
	return false;
}

/* Does `where` allow this set of inputs in these sizes, or in others, which *call then has? */
static bool allowed(const struct formula *f, struct call *call)
{
	uint64_t random = 1;
	bool ok = formula_rules(f, call, NULL);

	for (int i = 0; !ok && i < OTHERS; i++) {
		draw_sizes(f, call, i % 2, &random);
		ok = formula_rules(f, call, NULL);
	}
	return ok;
}

static bool fits(const struct formula *f, const struct call *call, const struct plan *plan, struct error *e)
{
	struct program *p = program_make(&f->tree, &f->op, call, plan, e);

	program_free(p);
	return p != NULL;
}

static bool all_fit(const struct formula *f, const struct call *call, struct error *e)
{
	for (int form = 0; form < MAX_FORM && f->op.forms[form].name; form++) {
		struct plan plan = plan_plain(&arith_f64, 0);
		plan.form = form;
		if (!fits(f, call, &plan, e)) return false;
		for (int i = 0; f->op.faults[i].name; i++) {
			const struct fault_spec *m = &f->op.faults[i];
			if (m->is_rounding || (m->form >= 0 && m->form != form)) continue;
			plan.faults = 0;
			plan_fault(&plan, &f->op, i);
			plan.form = form;
			if (!fits(f, call, &plan, e)) return false;
		}
	}
	return true;
}

bool formula_check(const struct formula *f, struct error *e)
{
	struct call call = { .op = &f->op };
	struct error first = { 0 };
	bool any = false;

	/* a rule that cannot be read is an error of its own; one that does not hold is not */
	for (int i = 0; f->op.dims[i]; i++) call.dim[i] = (size_t)i + 2;
	for (int i = 0; f->op.out[i].name; i++) call.out_count[i] = 1;
	choose(f, &call, 0);
	if (!formula_rules(f, &call, &first) && first.code == E_FORMULA) {
		if (e) *e = first;
		return false;
	}
	if (!sizes(f, &call))
		return formula_error(e, f->tree.path, f->tree.rules ? f->tree.rules->d.line : 1, 1, "expected sizes from 2 to %d that 'where' allows", LARGEST - 1);
	for (size_t set = 0; set < SETS && choose(f, &call, set); set++) {
		struct call other = call;
		if (!allowed(f, &other)) continue;
		any = true;
		if (!all_fit(f, &other, e)) return false;
	}
	return any;
}
