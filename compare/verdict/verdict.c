#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "plain_outputs.h"
#include "verdict_private.h"

const char *const outcome_name[] = { "pass", "fail", "undecided" };

int outcome_exit(enum outcome o)
{
	return (const int[]){ EXIT_PASS, EXIT_FAIL, EXIT_UNDECIDED }[o];
}

const char *index_text(const struct call *call, int i, size_t index, char *text, size_t size)
{
	size_t shape[MAX_RANK], at[MAX_RANK], used = 0;
	int rank = call_out_shape(call, i, shape);

	for (int r = rank; r-- > 0; index /= shape[r]) at[r] = index % shape[r];
	for (int r = 0; r < rank && used < size; r++)
		used += (size_t)snprintf(text + used, size - used, "%s%zu%s", r ? "," : "[", at[r], r + 1 < rank ? "" : "]");
	return text;
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

/* "", or the faults that would give the same answer in the place of this one, and those that
 * explain the outputs as well with another answer. */
static void others(const struct verdict *v, const struct suspect *s, char *text, size_t size)
{
	size_t n = 0;
	int same = 0, as_well = 0, said = 0;

	*text = 0;
	for (int i = 0; i < v->x.n && n < size; i++) {
		const struct suspect *other = &v->x.suspect[i];
		as_well += other->as_well && !strcmp(other->as_well, s->name);
		if (!other->alike || strcmp(other->alike, s->name)) continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s",
			same++ ? ", " : "; on these inputs the same as ", other->name);
	}
	if (as_well && n < size)
		n += (size_t)snprintf(text + n, size - n, "; %d name%s explain%s as well: ",
			as_well, as_well > 1 ? "s" : "", as_well > 1 ? "" : "s");
	for (int i = 0; i < v->x.n && n < size; i++) {
		const struct suspect *other = &v->x.suspect[i];
		if (!other->as_well || strcmp(other->as_well, s->name)) continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s", said++ ? ", " : "", other->name);
	}
}

static void detect(struct verdict *v, const struct suspect *s)
{
	char same[256], said[SUSPECT_TEXT], evidence[160];

	others(v, s, same, sizeof same);
	suspect_said(s, said, sizeof said);
	suspect_evidence(s, evidence, sizeof evidence);
	if (s->site >= 0)
		reason(v, FAIL, "rounds %s to %s, which the contract does not allow (%s): %s",
			v->op->sites[s->site].name, rounding_name(s->format, s->rounding), s->name,
			evidence);
	else
		reason(v, FAIL, "has the fault %s: %s; %s%s", said, s->what, evidence, same);
}

/* Where the error is that nothing explains, and how large; a failure only where an explanation is required. */
static void say_unknown(struct verdict *v, bool required)
{
	const struct examination *x = &v->x;

	for (int i = 0; i < v->n_out; i++)
		if (v->out[i].not_finite) return;       /* that is said, and what is left has no size */
	reason(v, FAIL, "%s, %.3g times float32's noise is left: %s", required ? "an explanation is required, and the structure is not identified"
		: v->n_reason ? "besides, the structure is not identified"
		: "the structure is not identified, and no known fault explains the error", sqrt(x->left), x->where);
	if (x->generic.share > 0)
		reason(v, FAIL, "what is left amounts to a %s: %.5g ± %.2g, which explains %.4g %% of it", x->generic.name,
			x->generic.value, x->generic.error, 100 * x->generic.share);
}

/* Faults with which the rules hold, and of which too little tells for a name. */
static void say_possible(struct verdict *v)
{
	char list[192] = "";
	size_t n = 0;
	int all = 0;

	for (int i = 0; i < v->x.n && n < sizeof list; i++)
		if (v->x.suspect[i].would_do)
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", all++ ? ", " : "",
			v->x.suspect[i].name);
	if (all == 1)
		reason(v, FAIL, "the rules hold with the fault %s, but too few elements tell it",
		list);
	else if (all) reason(v, FAIL,
		"%d names explain as well, and too few elements tell which: %s", all, list);
}

/* What the x-ray found goes before the figures that it explains. */
static void add_examination(const struct call *call, bool required, struct verdict *v, const struct examination *x)
{
	struct verdict found = *v;

	found.x = *x;
	found.examined = true;
	found.n_reason = 0;
	examine_under(&found.x, call, v->contract);
	for (int i = 0; i < found.x.n; i++)
		if (found.x.suspect[i].state == DETECTED) detect(&found, &found.x.suspect[i]);
	if (v->outcome == FAIL) say_possible(&found);
	found.required = required && !found.x.identified;
	if (!found.x.identified && (v->outcome == FAIL || required)) say_unknown(&found, required);
	for (int i = 0; i < v->n_reason && found.n_reason < MAX_REASON; i++)
		memcpy(found.reason[found.n_reason++], v->reason[i], sizeof v->reason[i]);
	*v = found;
}

/* Does the form have all of the faults? */
static bool of_form(const struct op *op, uint64_t faults, int form)
{
	bool all = true;

	for (int m = 0; op->faults[m].name; m++)
		if (faults >> m & 1 && op->faults[m].form >= 0 && op->faults[m].form != form) all = false;
	return all;
}

/* In the contract's form, where that has the faults: sigma is that of the roundings that the form has. */
static bool hold_with(const struct rules_say *r, const struct plan *plan, bool *yes, struct error *e)
{
	struct yardstick y;
	struct verdict v;
	struct plan model = *plan;

	if (of_form(r->call->op, plan->faults, r->contract->form)) model.form = r->contract->form;
	bool ok = yardstick_make(&y, r->call, &(struct yardstick_of){ .truth = "f64", .model = &model }, r->tick, e)
		&& judge_under(r->call, r->contract, &y, &v, e);

	yardstick_free(&y);
	*yes = ok && v.outcome == PASS;
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

/* What the outputs are at sight goes behind the names that were found, and before all else. */
static void say_plain(const struct call *call, struct verdict *v, const struct plain_outputs *plain)
{
	const int names = v->examined ? v->x.count[DETECTED] : 0;
	struct verdict said = *v;

	said.n_reason = names < v->n_reason ? names : v->n_reason;
	for (int i = 0; i < MAX_OUT; i++) {
		char text[sizeof v->reason[0]];
		if (plain->of[i].is != NOT_PLAIN)
			reason(&said, v->outcome, "%s",
			plain_output_said(plain, call, i, text, sizeof text));
	}
	for (int i = names; i < v->n_reason && said.n_reason < MAX_REASON; i++)
		memcpy(said.reason[said.n_reason++], v->reason[i], sizeof v->reason[i]);
	*v = said;
}

/* By yardstick y, or where it is NULL by one of its own, which is gone before the x-ray of one contract. Of many contracts the rules
 * choose, and then, of those whose rules hold, what was seen to be rounded. */
static bool judge_all(const struct call *call, const struct judging *how, int first, int last, struct yardstick *y,
	struct verdict *v, struct error *e)
{
	static _Thread_local struct examination x;
	struct yardstick own = { .tick = NULL };
	struct plain_outputs plain = { .any = false };
	bool choose = first < last;

	bool ok = (y || yardstick_make(&own, call, &(struct yardstick_of){ .truth = how->truth }, how->tick, e))
		&& judge_with(call, y ? y : &own, first, last, NULL, v, e);
	if (!choose) yardstick_free(&own);
	if (ok && !how->quick && v->outcome != PASS)
		ok = plain_outputs_find(&plain, call, v->contract, e);
	if (ok && !how->quick && v->outcome != UNDECIDED && !plain.ends) {
		struct rules_say rules = { v->outcome == PASS, hold_with, call, v->contract, &call->op->contracts[first], &call->op->contracts[last], how->tick, is_few(v) };
		ok = examine(&x, &rules, e);
		if (ok && asks_again(call, v, &x, choose))
			ok = (y || choose || yardstick_make(&own, call, &(struct yardstick_of){ .truth = how->truth }, how->tick, e))
				&& judge_with(call, y ? y : &own, first, last, &x, v, e);
		examine_free(&x);
		if (ok) add_examination(call, is_required(call, how, &x), v, &x);
	}
	if (ok && plain.ends) examine_nothing(&v->x, call);
	if (ok && plain.any) say_plain(call, v, &plain);
	yardstick_free(&own);
	return ok;
}

/* The contracts to be tried, first .. last. */
static bool contracts_for(const struct call *call, const struct judging *how, int *first, int *last, struct error *e)
{
	const char *name = how->contract ? how->contract : call->capture->contract;

	*first = *last = 0;
	if (name && !strcmp(name, "auto")) {
		while (call->op->contracts[*last + 1].name) (*last)++;
	} else if (name) {
		*first = *last = op_contract(call->op, name);
		if (*first < 0) return op_lacks(e, call->op, "contracts", name);
	}
	return true;
}

bool judge_by(struct yardstick *y, const struct capture *c, const struct judging *how, struct verdict *v, struct error *e)
{
	struct call call;
	int first, last;

	if (!call_bind(&call, c, true, e)) return false;
	call.at_hand = how->at_hand;
	if (!contracts_for(&call, how, &first, &last, e) || !judge_all(&call, how, first, last, y, v, e)) return false;
	v->unnamed = !how->contract && !c->contract && call.op->contracts[1].name;
	return true;
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
