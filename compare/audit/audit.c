#include "audit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const fate_text[] = { "no effect", "caught", "passes" };

static void tick(const struct audit_how *how, const char *stage, size_t done, size_t total)
{
	if (how->tick) how->tick(stage, done, total);
}

/* ---- which faults ---- */

/* Of n values: the ends and what lies between them evenly. */
static size_t value_number(size_t i, size_t n) { return n <= MAX_VALUES ? i : i * (n - 1) / (MAX_VALUES - 1); }

static bool list_faults(struct audit *a, struct error *e)
{
	const struct op *op = a->subject.call.op;
	size_t room = 0;

	while (op->faults[room].name) room++;
	if (!(a->fault = calloc(room * MAX_VALUES + 1, sizeof *a->fault))) return error_set(e, E_MEMORY, op->name, NO_OFFSET, "an audit");
	for (int m = 0; op->faults[m].name; m++) {
		size_t all = fault_values(&a->subject.call, m), n = all > MAX_VALUES ? MAX_VALUES : all;
		for (size_t i = 0; i < (n ? n : 1); i++) {
			struct audited_fault *f = &a->fault[a->n++];
			f->fault = m;
			f->value = n ? fault_value(&a->subject.call, m, value_number(i, all)) : 0;
			fault_said(op, m, f->value, f->name, sizeof f->name);
		}
	}
	return true;
}

/* ---- one kernel with a fault on one call ---- */

/* The kernel's outputs and, by the same plan without the fault, those of the correct one; with a fault that these
 * inputs do not have the correct one's. */
static bool make_faulty(const struct subject *s, const struct contract *k, const struct audited_fault *f, struct answer *got, double *effect,
	struct error *e)
{
	const struct contract *under;
	struct plan bad = faulty_kernel(s->call.op, k, f->fault, f->value, &under), good = bad;
	struct answer clean;

	good.faults = 0;
	if (s->call.op->faults[f->fault].is_rounding) {
		int site = s->call.op->faults[f->fault].site;
		good.round[site] = under == k ? (k->structures ? k->structures[0].site : k->site)[site] : (struct site_rounding){ 0 };
	}
	if (!subject_answer(s, &bad, got, e)) {
		*effect = 0;
		return plan_impossible(&bad, e) && subject_answer(s, &good, got, e);
	}
	if (!subject_answer(s, &good, &clean, e)) {
		answer_free(got);
		return false;
	}
	*effect = answers_apart(&s->call, got, &clean);
	answer_free(&clean);
	return true;
}

static bool judge_fault(struct subject *s, const struct contract *k, const struct audited_fault *f, struct answer *got, bool rules_alone,
	bool *fails, struct error *e)
{
	const struct contract *under;
	enum outcome outcome = PASS;

	faulty_kernel(s->call.op, k, f->fault, f->value, &under);
	if (!subject_judge(s, got, under, rules_alone, &outcome, e)) return false;
	*fails = outcome == FAIL;
	return true;
}

static bool look_here(struct audit *a, const struct audit_how *how, struct audited_fault *f, struct error *e)
{
	struct subject *s = &a->subject;
	struct answer got;

	if (!make_faulty(s, a->contract, f, &got, &f->effect, e)) return false;
	for (size_t r = 0; r < how->n_rule; r++)
		f->fate[r] = f->effect == 0 ? FATE_NONE : tolerance_holds(&how->rule[r], &s->call, got.hi, s->want.hi) ? FATE_PASSED : FATE_CAUGHT;
	bool ok = true;
	f->checked = !how->quick;
	if (f->checked && f->effect != 0) ok = judge_fault(s, a->contract, f, &got, false, &f->fails, e);
	answer_free(&got);
	return ok;
}

/* ---- correct kernels ---- */

static bool look_honest(struct audit *a, const struct audit_how *how, struct audited_contract *h, struct error *e)
{
	struct subject *s = &a->subject;

	for (int run = 0; run < HONEST_RUNS; run++) {
		struct plan p = plan_plain(&arith_noisy, arith_noisy.precision);
		struct answer got;
		plan_contract(&p, h->contract);
		plan_draw(&p, h->contract, (uint64_t)run);
		p.seed = (uint64_t)run + 1;
		if (!subject_answer(s, &p, &got, e)) return false;
		for (size_t r = 0; r < how->n_rule; r++) h->passed[r] += tolerance_holds(&how->rule[r], &s->call, got.hi, s->want.hi);
		enum outcome outcome = PASS;
		bool ok = run || how->quick || subject_judge(s, &got, h->contract, h->contract != a->contract, &outcome, e);
		h->fails = h->fails || outcome == FAIL;
		answer_free(&got);
		if (!ok) return false;
	}
	return true;
}

static bool all_honest(struct audit *a, const struct audit_how *how, struct error *e)
{
	const struct op *op = a->subject.call.op;
	size_t n = 0;

	while (op->contracts[n].name) n++;
	if (!(a->honest = calloc(n, sizeof *a->honest))) return error_set(e, E_MEMORY, op->name, NO_OFFSET, "an audit");
	for (; a->n_honest < n; a->n_honest++) {
		tick(how, "correct kernels", a->n_honest, n);
		a->honest[a->n_honest].contract = &op->contracts[a->n_honest];
		if (!look_honest(a, how, &a->honest[a->n_honest], e)) return false;
	}
	tick(how, "correct kernels", n, n);
	return true;
}

/* ---- changes ---- */

static bool wants_change(const struct audited_fault *f, const struct audit_how *how)
{
	for (size_t r = 0; r < how->n_rule; r++)
		if (f->fate[r] != FATE_CAUGHT && !f->change[r]) return true;
	return false;
}

/* A value that this call has not is not made on it. */
static bool has_value(const struct call *call, const struct audited_fault *f)
{
	return !call->op->faults[f->fault].size || f->value < (double)fault_values(call, f->fault);
}

/* A look at a change: hold: the rules pass the correct kernel on its inputs; else that they fail one with the fault says nothing. all:
 * by all that a check does; else by its contract's rules alone, which are far quicker and fail most. */
struct glance { const struct change *c; bool hold, all; };

static bool look_changed(struct subject *s, const struct audit *a, const struct audit_how *how, const struct glance *l, struct audited_fault *f,
	struct error *e)
{
	const struct change *c = l->c;
	double effect;
	struct answer got;
	bool wanted = l->hold && !l->all && wants_change(f, how), ok = true, fails = false;

	if (f > a->fault && !f->own && f[-1].fault == f->fault) f->own = f[-1].own;

	if ((!wanted && (f->own || !c->whole)) || !has_value(&s->call, f)) return true;
	if (!make_faulty(s, a->contract, f, &got, &effect, e)) return false;
	for (size_t r = 0; effect != 0 && wanted && r < how->n_rule; r++)
		if (f->fate[r] != FATE_CAUGHT && !f->change[r] && !tolerance_holds(&how->rule[r], &s->call, got.hi, s->want.hi)) f->change[r] = c->said;
	if (effect != 0 && c->whole && !f->own) ok = judge_fault(s, a->contract, f, &got, !l->all, &fails, e);
	if (fails) f->own = c->k.name;
	answer_free(&got);
	return ok;
}

static bool rules_hold(const struct subject *s, const struct audit *a, const struct audit_how *how, bool *hold, struct error *e)
{
	const struct contract *under;
	struct plan p = faulty_kernel(s->call.op, a->contract, -1, 0, &under);
	struct answer got;

	if (!subject_answer(s, &p, &got, e)) return false;
	*hold = true;
	for (size_t r = 0; r < how->n_rule; r++) *hold = *hold && tolerance_holds(&how->rule[r], &s->call, got.hi, s->want.hi);
	answer_free(&got);
	return true;
}

static bool look_change(struct audit *a, const struct audit_how *how, struct glance *l, struct error *e)
{
	const struct change *c = l->c;
	struct subject s = { 0 };
	struct capture inputs;
	struct error not_a_call;
	bool any = false, ok = true;

	for (size_t i = 0; i < a->n; i++) any = any || (!l->all && wants_change(&a->fault[i], how)) || (c->whole && !a->fault[i].own);
	if (!any || !case_make(&inputs, &c->k, 1, true, &not_a_call)) return true;
	if (!subject_make(&s, &inputs, &how->reference, &not_a_call)) {
		subject_free(&s);
		return not_a_call.code != E_MEMORY || (*e = not_a_call, false);
	}
	ok = rules_hold(&s, a, how, &l->hold, e);
	for (size_t i = 0; ok && (l->hold || c->whole) && i < a->n; i++) ok = look_changed(&s, a, how, l, &a->fault[i], e);
	subject_free(&s);
	return ok;
}

static bool all_changes(struct audit *a, const struct audit_how *how, struct error *e)
{
	if (!(a->change = changes_of(a->subject.call.op, how->from, &a->n_change)))
		return error_set(e, E_MEMORY, a->subject.call.op->name, NO_OFFSET, "changes of a case");
	for (size_t i = 0; i < 2 * a->n_change; i++) {
		struct glance l = { .c = &a->change[i % a->n_change], .all = i >= a->n_change };
		tick(how, "changed inputs", i, 2 * a->n_change);
		if ((!l.all || l.c->whole) && !look_change(a, how, &l, e)) return false;
	}
	tick(how, "changed inputs", 2 * a->n_change, 2 * a->n_change);
	return true;
}

bool audit_make(struct audit *a, struct capture *c, const struct audit_how *how, struct error *e)
{
	*a = (struct audit){ 0 };
	if (!subject_make(&a->subject, c, &how->reference, e)) return false;
	const struct op *op = a->subject.call.op;
	int k = how->contract ? op_contract(op, how->contract) : 0;
	if (k < 0) return error_set(e, E_UNKNOWN_NAME, how->contract, NO_OFFSET, "see `etalon list contracts %s`", op->name);
	a->contract = &op->contracts[k];
	if (!list_faults(a, e)) return false;
	for (size_t i = 0; i < a->n; i++) {
		tick(how, "faults", i, a->n);
		if (!look_here(a, how, &a->fault[i], e)) return false;
	}
	tick(how, "faults", a->n, a->n);
	return all_honest(a, how, e) && (how->quick || how->here || all_changes(a, how, e));
}

void audit_free(struct audit *a)
{
	subject_free(&a->subject);
	changes_free(a->change, a->n_change);
	free(a->fault);
	free(a->honest);
	*a = (struct audit){ 0 };
}

struct audit_count audit_count(const struct audit *a, const struct audit_how *how)
{
	struct audit_count c = { 0 };

	for (size_t i = 0; i < a->n;) {
		bool effect = false, passed[MAX_RULES] = { false }, missed[MAX_RULES] = { false }, here = false, own = false;
		int fault = a->fault[i].fault;
		for (; i < a->n && a->fault[i].fault == fault; i++) {
			const struct audited_fault *f = &a->fault[i];
			effect = effect || f->effect != 0;
			here = here || f->fails;
			own = own || f->own;
			for (size_t r = 0; r < how->n_rule; r++) {
				passed[r] = passed[r] || f->fate[r] == FATE_PASSED;
				missed[r] = missed[r] || (f->fate[r] == FATE_PASSED && f->fails);
			}
		}
		c.faults++;
		c.effect += effect;
		c.here += here;
		c.own += own;
		for (size_t r = 0; r < how->n_rule; r++) c.passed[r] += passed[r], c.missed[r] += missed[r];
	}
	return c;
}

int audit_exit(const struct audit *a, const struct audit_how *how)
{
	struct audit_count c = audit_count(a, how);

	for (size_t r = 0; r < how->n_rule; r++)
		if (c.passed[r]) return EXIT_FAIL;
	for (size_t i = 0; i < a->n_honest; i++)
		for (size_t r = 0; r < how->n_rule; r++)
			if (a->honest[i].contract == a->contract && a->honest[i].passed[r] < HONEST_RUNS) return EXIT_FAIL;
	return c.effect ? EXIT_PASS : EXIT_UNDECIDED;
}
