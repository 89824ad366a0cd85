/* What can be known of a formula before there is a call: that shapes fit and names are known, in every form and fault. */
#include "formula_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lower.h"

#define NEXT(x) ((void *)(x)->d.next)

static struct lower lower_of(const struct formula *f, const struct call *call, const struct plan *plan, struct program *p, struct error *e)
{
	return (struct lower){ .t = &f->tree, .op = &f->op, .call = call, .plan = plan, .p = p, .e = e, .turns = 1 };
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

double formula_right(const struct formula *f, const struct call *call, int fault)
{
	const struct fault_decl *x = f->tree.faults;
	double right;

	while (x && fault-- > 0) x = NEXT(x);
	return x && x->near && formula_number(f, call, x->near, &right, NULL) ? right : (double)NAN;
}

void formula_derive(const struct formula *f, struct call *call)
{
	for (int i = 0; f->op.dims[i]; i++) {
		const struct alias *a = declared(f->tree.lets, f->op.dims[i]);
		double n;
		if (a && formula_number(f, call, a->value, &n, NULL)) call->dim[i] = n >= 1 && n < 1e15 ? (size_t)n : 0;
	}
}

/* NULL holds. */
static bool condition_holds(const struct formula *f, const struct call *call, const struct node *x)
{
	double yes;

	return !x || (formula_number(f, call, x, &yes, NULL) && yes != 0);
}

bool formula_has_trace(const struct formula *f, const struct call *call, int out)
{
	const struct tensor_decl *t = f->tree.out;

	while (out-- > 0) t = NEXT(t);
	return t->trace && condition_holds(f, call, t->traced);
}

bool formula_has_form(const struct formula *f, const struct call *call, const struct form_decl *d) { return condition_holds(f, call, d->when); }

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

int rules_kept(const struct formula *f, const struct call *call, bool all, struct error *e)
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

int rules_of(const struct formula *f)
{
	int n = 0;

	for (const struct rule *r = f->tree.rules; r; r = NEXT(r)) n++;
	return n;
}

bool formula_rules(const struct formula *f, const struct call *call, struct error *e)
{
	return rules_kept(f, call, false, e) == rules_of(f);
}

static bool fits(const struct formula *f, const struct call *call, const struct plan *plan, struct error *e)
{
	struct program *p = program_make(&f->tree, &f->op, call, plan, e);

	program_free(p);
	return p != NULL;
}

/* Of a fault with a free number: is what it stands near a number before there are values? */
static bool near_a_number(const struct formula *f, const struct call *call, struct error *e)
{
	double right;

	for (const struct fault_decl *x = f->tree.faults; x; x = NEXT(x))
		if (x->near && !formula_number(f, call, x->near, &right, e)) return false;
	return true;
}

static bool all_fit(const struct formula *f, const struct call *call, bool faults, struct error *e)
{
	const struct form_decl *d = f->tree.forms;

	if (!near_a_number(f, call, e)) return false;
	for (int form = 0; form < MAX_FORM && f->op.forms[form].name; form++, d = NEXT(d)) {
		struct plan plan = plan_plain(&arith_f64, 0);
		double when;
		if (d->when && !formula_number(f, call, d->when, &when, e)) return false;
		plan.form = form;
		if (!fits(f, call, &plan, e)) return false;
		for (int i = 0; faults && f->op.faults[i].name; i++) {
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

static bool all_sets_fit(const struct formula *f, struct pairs_seen *seen, struct error *e)
{
	struct call call = { .op = &f->op };
	struct error first = { 0 };
	bool any = false;

	if (!formula_stores(f, e)) return false;
	/* a rule that cannot be read is an error of its own; one that does not hold is not */
	for (int i = 0; f->op.dims[i]; i++) call.dim[i] = (size_t)i + 2;
	for (int i = 0; f->op.out[i].name; i++) call.out_count[i] = 1;
	check_set(f, &call, 0);
	if (!formula_rules(f, &call, &first) && first.code == E_FORMULA) {
		if (e) *e = first;
		return false;
	}
	if (!check_sizes(f, &call))
		return formula_error(e, f->tree.path, f->tree.rules ? f->tree.rules->d.line : 1, 1, "expected sizes from 1 to %d, or that a line says, that 'where' allows", LARGEST - 1);
	if (!formula_stores_fit(f, &call, e)) return false;
	size_t sets = 0;
	while (sets < SETS && check_set(f, &call, sets)) sets++;
	for (size_t i = 0; i < sets; i++) {
		struct call other = call;
		check_set(f, &other, i * SCATTER % sets);       /* neighbours differ in one option and bring few new pairs */
		if (!check_allowed(f, &other)) continue;
		any = true;
		if (!all_fit(f, &other, check_new_pair(f, &other, seen), e)) return false;
	}
	return any;
}

bool formula_check(const struct formula *f, struct error *e)
{
	struct pairs_seen *seen = calloc(1, sizeof *seen);
	bool ok = seen ? all_sets_fit(f, seen, e) : error_set(e, E_MEMORY, f->tree.path, NO_OFFSET, "reading a formula");

	free(seen);
	return ok;
}
