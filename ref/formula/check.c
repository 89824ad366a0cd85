/* What can be known of a formula before there is a call: that shapes fit and names are known, in every form and fault. */
#include "formula_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "lower.h"

#define NEXT(x) ((void *)(x)->d.next)
enum { SETS = 1024, TRIES = 20000, LARGEST = 32, OTHERS = 1000, AGAIN = 200 };

static struct lower lower_of(const struct formula *f, const struct call *call, const struct plan *plan, struct program *p, struct error *e)
{
	return (struct lower){ .t = &f->tree, .op = &f->op, .call = call, .plan = plan, .p = p, .e = e };
}

static void end(struct program *p)
{
	pool_free(&p->pool);
	free(p->folded);
}

static bool number(struct lower *l, const struct node *x, double *value)
{
	struct ix *y = low_ix(l, x);

	return y && (ix_known(y, value) || low_error(l, x, "expected a condition on sizes, parameters and what is given"));
}

bool formula_number(const struct formula *f, const struct call *call, const struct node *x, double *value, struct error *e)
{
	struct plan plan = plan_plain(&arith_f64, 0);
	struct program p = { .call = call, .path = f->tree.path };
	struct lower l = lower_of(f, call, &plan, &p, e);
	bool ok = number(&l, x, value);

	end(&p);
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

/* The first element of an integer input that a condition reads, or NULL. */
static const struct node *element_in(const struct tree *t, const struct node *x)
{
	const struct tensor_decl *in = x->kind == NODE_INDEX && x->n == 1 ? declared(t->in, x->name) : NULL;
	const struct node *found = in && in->integer ? x : NULL;

	for (int i = 0; !found && i < x->n; i++) found = element_in(t, x->arg[i]);
	return found;
}

/* fold(at from -1, VAR in 0:RANGE, that element's index if at < 0 and not VALUE else at) */
static struct ix *first_wrong(struct lower *l, const struct rule *r, const struct node *element)
{
	struct node none = { .kind = NODE_NUMBER, .number = -1 }, zero = { .kind = NODE_NUMBER }, at = { .kind = NODE_NAME, .name = "(at)" };
	struct node *below[] = { &at, &zero }, *rule[] = { r->value };
	struct node less = { .kind = NODE_LT, .n = 2, .arg = below }, no = { .kind = NODE_NOT, .n = 1, .arg = rule };
	struct node *and[] = { &less, &no };
	struct node both = { .kind = NODE_AND, .n = 2, .arg = and };
	struct node *chosen[] = { &both, element->arg[0], &at }, *to[] = { &zero, r->range }, *first[] = { &none };
	struct node choice = { .kind = NODE_IF, .n = 3, .arg = chosen }, over = { .kind = NODE_RANGE, .name = r->var, .n = 2, .arg = to };
	struct node from = { .kind = NODE_RANGE, .name = "(at)", .n = 1, .arg = first }, *all[] = { &from, &over, &choice };
	const struct node fold = { .kind = NODE_CALL, .name = "fold", .line = r->d.line, .column = r->d.column, .n = 3, .arg = all };

	return low_ix(l, &fold);
}

/* Element `at` of t is not what the rule expects. */
static bool wrong_element(const struct rule *r, const struct tensor *t, double at, struct error *e)
{
	size_t i = (size_t)at, size = dtype_info[t->dtype].size;
	double x;

	if (!(at < (double)t->count)) return error_set(e, E_VALUE, t->name, NO_OFFSET, "expected %s", r->d.what);
	dtype_load(t->dtype, (const char *)t->data + i * size, 1, &x);
	return error_set(e, E_VALUE, t->name, t->offset == NO_OFFSET ? NO_OFFSET : t->offset + i * size,
		"expected %s; element %zu is %.0f", r->d.what, i, x);
}

/* A rule for each element of a range: does it hold for all? Asked of a call that has its numbers. */
static bool rule_holds(const struct formula *f, const struct call *call, struct lower *l, const struct rule *r, struct error *e)
{
	const struct node *element = element_in(&f->tree, r->value);
	uint64_t room[2 * MAX_VAR] = { 0 };
	struct numbers s;

	if (!element) return low_error(l, r->value, "expected a condition on an element of an integer input");
	struct ix *x = first_wrong(l, r, element);
	if (!x || !call->capture) return x != NULL;
	numbers_begin(&s, l->p, room);
	double at = ix_value(x, &s);
	return at == -1 || wrong_element(r, call->in[declared_index(f->tree.in, element->name)], at, e);
}

/* One `where` line. */
static bool rule(const struct formula *f, const struct call *call, struct lower *l, const struct rule *r, struct error *e)
{
	bool of_param = r->d.name[0];
	double value;

	if (r->range) return rule_holds(f, call, l, r, e);
	return number(l, r->value, &value) && (value != 0 || error_set(e, of_param ? E_PARAM : E_VALUE, of_param ? r->d.name : f->op.name,
		NO_OFFSET, "%s:%d: expected %s", f->tree.path, r->d.line, r->d.what));
}

/* How many of them the call keeps: all, or up to the first that it does not. */
static int rules_kept(const struct formula *f, const struct call *call, bool all, struct error *e)
{
	struct plan plan = plan_plain(&arith_f64, 0);
	struct program p = { .call = call, .path = f->tree.path };
	struct lower l = lower_of(f, call, &plan, &p, e);
	int n = 0;

	for (const struct rule *r = f->tree.rules; r; r = NEXT(r)) {
		bool kept = rule(f, call, &l, r, e);
		n += kept;
		if (!kept && !all) break;
	}
	end(&p);
	return n;
}

static int rules_of(const struct formula *f)
{
	int n = 0;

	for (const struct rule *r = f->tree.rules; r; r = NEXT(r)) n++;
	return n;
}

bool formula_rules(const struct formula *f, const struct call *call, struct error *e)
{
	return rules_kept(f, call, false, e) == rules_of(f);
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

/* Size i, from 2 on and another than all others; where `any`, one that may be 1 or the same as another. */
static void draw_size(const struct formula *f, struct call *call, int i, bool any, uint64_t *random)
{
	bool other = false;

	while (!other) {
		call->dim[i] = 2 + random_next(random) % (LARGEST - 2);
		other = true;
		for (int k = 0; f->op.dims[k]; k++) other = other && (k == i || call->dim[k] != call->dim[i]);
	}
	size_t same = any ? random_next(random) % (size_t)(2 * i + 2) : 2 * MAX_DIM;
	if (same < (size_t)i) call->dim[i] = call->dim[same];
	else if (same == (size_t)i) call->dim[i] = 1;
}

/* Whole numbers for parameters that must be given, and the sizes that follow from others. */
static void draw_params(const struct formula *f, struct call *call, uint64_t *random)
{
	for (int i = 0; f->op.params[i].name; i++)
		if (f->op.params[i].required && f->op.params[i].kind != PARAM_CHOICE && f->op.params[i].kind != PARAM_BOOL) call->param[i] = f->op.params[i].kind == PARAM_LIST ? 4 : (double)(random_next(random) % LARGEST);
	lists(f, call);
	formula_derive(f, call);
}

/* Sizes that `where` allows, found by changing one after the other, where no fewer lines hold then; with other sets of inputs too, of
 * so many ways, if there are more than one. */
static bool search(const struct formula *f, struct call *call, bool any, size_t ways, int tries)
{
	uint64_t random = 1;
	int n = 0, all = rules_of(f), best = -1;

	while (f->op.dims[n]) n++;
	for (int t = 0; t < tries * 16 / (16 + all); t++) {
		struct call before = *call;
		if (t % AGAIN == 0) {
			for (int i = 0; i < n; i++) draw_size(f, call, i, any, &random);
			best = -1;
		} else draw_size(f, call, (int)(random_next(&random) % (size_t)n), any, &random);
		while (ways > 1 && !choose(f, call, random_next(&random) % ways)) ;
		draw_params(f, call, &random);
		int kept = rules_kept(f, call, true, NULL);
		if (kept == all) return true;
		if (kept < best) *call = before;
		else best = kept;
	}
	return false;
}

/* Sizes that all differ and that `where` allows, for some set of inputs. */
static bool sizes(const struct formula *f, struct call *call)
{
	size_t ways = 1;

	while (ways < SETS && choose(f, call, ways)) ways++;
	return search(f, call, false, ways, TRIES);
}

/* Does `where` allow this set of inputs in these sizes, or in others, which *call then has? */
static bool allowed(const struct formula *f, struct call *call)
{
	formula_derive(f, call);
	return formula_rules(f, call, NULL) || search(f, call, true, 1, OTHERS);
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

	if (!formula_stores(f, e)) return false;
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
	if (!formula_stores_fit(f, &call, e)) return false;
	for (size_t set = 0; set < SETS && choose(f, &call, set); set++) {
		struct call other = call;
		if (!allowed(f, &other)) continue;
		any = true;
		if (!all_fit(f, &other, e)) return false;
	}
	return any;
}
