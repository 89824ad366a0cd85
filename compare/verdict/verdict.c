#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "verdict_private.h"

const char *const outcome_name[] = { "pass", "fail", "undecided" };

int outcome_exit(enum outcome o)
{
	return (const int[]){ EXIT_PASS, EXIT_FAIL, EXIT_UNDECIDED }[o];
}

const char *index_text(const struct call *call, int i, size_t index, char *text, size_t size)
{
	struct tensor shape;

	shape.rank = call_out_shape(call, i, shape.shape);
	return tensor_index_text(&shape, index, text, size);
}

void reason(struct verdict *v, enum outcome o, const char *format, ...)
{
	va_list args;

	if (v->outcome == PASS || o == FAIL) v->outcome = o;
	if (v->n_reason == MAX_REASON) return;
	va_start(args, format);
	vsnprintf(v->reason[v->n_reason++], sizeof v->reason[0], format, args);
	va_end(args);
}

void verdict_fail(struct verdict *v, const char *format, ...)
{
	char text[sizeof v->reason[0]];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	reason(v, FAIL, "%s", text);
}

/* Does the form have all of the faults? */
static bool of_form(const struct op *op, uint64_t faults, int form)
{
	bool all = true;

	for (int m = 0; op->faults[m].name; m++)
		if (faults >> m & 1 && op->faults[m].form >= 0 && op->faults[m].form != form) all = false;
	return all;
}

/* Under contract k. In its form, where that has the faults: sigma is that of the roundings that the form has. */
static bool hold_under(const struct rules_say *r, const struct contract *k, const struct plan *plan, bool *yes, struct error *e)
{
	struct yardstick y;
	struct verdict v;
	struct plan model = *plan;

	if (of_form(r->call->op, plan->faults, k->form)) model.form = k->form;
	bool ok = yardstick_make(&y, r->call, &(struct yardstick_of){ .truth = "f64", .model = &model }, r->tick, e)
		&& judge_under(r->call, k, &y, &v, e);

	yardstick_free(&y);
	*yes = ok && v.outcome == PASS && (r->first == r->last || !verdict_too_loose(&v));
	return ok;
}

/* Under the contract that was nearest, or another one that is called for. */
static bool hold_with(const struct rules_say *r, const struct plan *plan, bool *yes, struct error *e)
{
	bool ok = hold_under(r, r->contract, plan, yes, e);

	for (const struct contract *k = r->first; ok && !*yes && k <= r->last; k++)
		if (k != r->contract && contract_called_for(k, r->call)) ok = hold_under(r, k, plan, yes, e);
	return ok;
}

/* Of the output that has the most. */
static bool is_few(const struct verdict *v)
{
	double most = 0;

	for (int i = 0; i < v->n_out; i++) most = fmax(most, v->out[i].freedom);
	return most < least_votes;
}

/* Does the call ask for an explanation of its own error? Not where an iteration amplifies noise. */
static bool is_required(const struct call *call, const struct judging *how, const struct examination *x)
{
	bool own = !strncmp(call->capture->producer, "etalon ", 7);

	return !x->runs_free && (how->explained == ALL_EXPLAINED || (how->explained == OWN_EXPLAINED && own));
}

/* Has what was seen anything to say of which contract is met, or of the one that is not? */
static bool asks_again(const struct call *call, const struct verdict *v, const struct examination *x, bool choose)
{
	return x->identified && (choose || (v->outcome == FAIL && may_be_correct(call, v->contract, x)));
}

/* Is a fault, or a rounding that the contract does not allow, named? */
static bool is_named(const struct call *call, const struct verdict *v, struct examination *x)
{
	examine_under(x, call, v->contract);
	return x->count[DETECTED] > 0;
}

/* What the x-ray changes of a verdict that the rules reached under the contracts that were tried. */
static bool judge_again(const struct call *call, struct yardstick *y, uint64_t tried, bool choose, struct examination *x, struct verdict *v, struct error *e)
{
	const uint64_t shown = choose ? contracts_shown(call, x, tried) : 0;

	if (asks_again(call, v, x, choose) && !judge_with(call, y, shown ? shown : tried, x, v, e)) return false;
	return !choose || v->outcome != FAIL || is_named(call, v, x) || judge_looser(call, y, contracts_all(call->op), v, e);
}

/* By yardstick y, or where it is NULL by one of its own, which is gone before the x-ray of one contract. Of many contracts those that the types
 * of the call's data call for are tried, and then those that allow what was seen to be rounded. */
static bool judge_all(const struct call *call, const struct judging *how, uint64_t tried, bool choose, struct yardstick *y,
	struct verdict *v, struct error *e)
{
	const struct yardstick_of of = { .truth = how->truth };
	struct yardstick own = { .tick = NULL }, *by = y ? y : &own;
	struct plain_outputs plain = { .any = false };
	const struct contract *k = call->op->contracts;
	struct examination *x = calloc(1, sizeof *x);

	bool ok = (x || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "an examination"))
		&& (y || yardstick_make(&own, call, &of, how->tick, e)) && judge_with(call, by, tried, NULL, v, e);
	if (ok && how->quick && choose && v->outcome == FAIL) ok = judge_looser(call, by, contracts_all(call->op), v, e);
	if (!choose) yardstick_free(&own);
	if (ok && !how->quick && v->outcome != PASS) ok = plain_outputs_find(&plain, call, v->contract, e);
	if (ok && !how->quick && (v->outcome != UNDECIDED || v->says_nothing) && !plain.ends) {
		const struct contract *last = v->contract;
		while (choose && last[1].name) last++;
		struct rules_say rules = { v->outcome != FAIL, hold_with, call, v->contract, choose ? k : v->contract, last, how->tick, is_few(v) };
		ok = examine(x, &rules, e);
		if (ok && (choose || asks_again(call, v, x, choose)))
			ok = (y || choose || yardstick_make(&own, call, &of, how->tick, e)) && judge_again(call, by, tried, choose, x, v, e);
		examine_free(x);
		if (ok) verdict_add_examination(call, is_required(call, how, x), v, x), verdict_need_coverage(v);
	}
	if (ok && plain.ends) examine_nothing(&v->x, call);
	if (ok && plain.any) verdict_say_plain(call, v, &plain);
	yardstick_free(&own);
	free(x);
	return ok;
}

/* The contracts to be tried under this name, or NULL; *choose: the call says which. */
static bool contracts_for(const struct call *call, const char *name, uint64_t *tried, bool *choose, struct error *e)
{
	int k = 0;

	*choose = name && !strcmp(name, "auto") && call->op->contracts[1].name;
	if (name && strcmp(name, "auto") && (k = op_contract(call->op, name)) < 0) return op_lacks(e, call->op, "contracts", name);
	*tried = *choose ? contracts_called_for(call) : UINT64_C(1) << k;
	return true;
}

/* The op's tightest contract was taken, as none is named, and nothing is named that excuses no contract. Does another one
 * hold that is called for? */
static bool find_instead(const struct call *call, const struct judging *how, struct verdict *v, struct error *e)
{
	const uint64_t others = contracts_called_for(call) & ~UINT64_C(1);
	struct yardstick y = { .tick = NULL };
	struct verdict w = { .outcome = FAIL };

	if (v->outcome != FAIL || !others || (v->examined && v->x.count[DETECTED])) return true;
	bool ok = yardstick_make(&y, call, &(struct yardstick_of){ .truth = how->truth }, how->tick, e) && judge_with(call, &y, others, NULL, &w, e);
	yardstick_free(&y);
	if (w.outcome == PASS && !verdict_too_loose(&w)) v->instead = w.contract;
	return ok;
}

bool judge_by(struct yardstick *y, const struct capture *c, const struct judging *how, struct verdict *v, struct error *e)
{
	struct call call;
	uint64_t tried = 0;
	bool choose = false;
	const char *name = NULL;

	if (!call_bind(&call, c, true, e)) return false;
	call.at_hand = how->at_hand;
	if (how->contract && !contract_said(how->contract, call.op, &name, e)) return false;
	if (!name) name = c->contract;
	if (!contracts_for(&call, name, &tried, &choose, e) || !judge_all(&call, how, tried, choose, y, v, e)) return false;
	v->unnamed = !name && call.op->contracts[1].name;
	return !v->unnamed || find_instead(&call, how, v, e);
}

bool judge(const struct capture *c, const struct judging *how, struct verdict *v, struct error *e)
{
	return judge_by(NULL, c, how, v, e);
}

void judge_cause(const struct capture *c, const struct judging *how, struct verdict *v)
{
	const struct op *op = op_find(c->op);

	if (op && op_is_iteration(op)) eigen_cause_of(&v->cause, c, how->tick);
}

void judge_stale(const struct capture *c, const char *today, struct verdict *v)
{
	if (!c->sha256 || strncmp(c->producer, "etalon ", 7) || (today && !strcmp(today, c->sha256))) return;
	reason(v, FAIL, "stale: recorded from sources %.12s..., the kernel is now %.12s...; record it again", c->sha256, today ? today : "gone");
}
