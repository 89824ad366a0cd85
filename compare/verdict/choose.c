/* Which of several contracts is met. */
#include <math.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "compare/print/print.h"
#include "verdict_private.h"

/* How far the outputs are beyond their limits: the mean over outputs of the logarithm of the rule that
 * is furthest broken. An output that no contract could excuse tells none from another. */
static double excess(const struct verdict *v)
{
	static const double most = 700; /* of what is infinite or NaN: the logarithm of the largest double */
	double sum = 0;

	for (int i = 0; i < v->n_out; i++) {
		double worst = 0;
		for (int r = 0; r < RULE_COUNT; r++) {
			const struct rule *x = &v->out[i].rule[r];
			if (x->value <= x->limit) continue;
			const double far = log(x->value / x->limit);
			worst = far < most ? fmax(worst, far) : most;
		}
		sum += worst;
	}
	return sum / (v->n_out ? v->n_out : 1);
}

/* 0: the contract does not allow what the kernel was seen to round at sites; 1: it does, but not all that was seen elsewhere, of which no
 * contract says anything; 2: all; 3: all, in the form that was seen. */
enum { AT_SITES = 1, ALL };
static int suits(const struct examination *x, const struct call *call, const struct contract *k)
{
	const bool read = x && x->structure.taken;

	if (read ? structure_within(&x->structure, call, k, false) : x && profile_within(&x->profile, call, k)) return ALL + (x->profile.emulation.form == k->form);
	return read && structure_within(&x->structure, call, k, true) ? AT_SITES : 0;
}

/* A better truth bounds no error that the contract leaves without a bound. */
static bool boundless(const struct verdict *v)
{
	bool any = false;

	for (int i = 0; i < v->n_out; i++) any = any || v->out[i].boundless;
	return any;
}

static bool judge_climbing(const struct call *call, const struct contract *k, struct yardstick *y, struct verdict *v, struct error *e)
{
	bool again = true;

	while (again) {
		if (!judge_under(call, k, y, v, e)) return false;
		again = false;
		if (v->outcome == UNDECIDED && v->n_out && !boundless(v) && !v->says_nothing && !yardstick_climb(y, &again, e)) return false;
	}
	return true;
}

bool may_be_correct(const struct call *call, const struct contract *k, const struct examination *x)
{
	bool read = false;

	for (int i = 0; i < MAX_OUT && x; i++) read = read || x->answer[i];
	return read && suits(x, call, k) >= ALL;
}

/* Where it breaks rules that know of no such kernel: again, with what it answers. Whether that is poor is asked of all rows at once. */
static bool judge_as_read(const struct call *call, const struct contract *k, struct yardstick *y, const struct examination *x, struct verdict *v, struct error *e)
{
	if (v->outcome != FAIL || y->strips > 1 || !may_be_correct(call, k, x)) return true;
	yardstick_read(y, x->answer);
	bool ok = judge_climbing(call, k, y, v, e);
	yardstick_read(y, NULL);
	v->as_read = true;
	return ok;
}

/* Bit i: contract i. */
static bool has(uint64_t contracts, int i) { return contracts >> i & 1; }

uint64_t contracts_all(const struct op *op)
{
	uint64_t all = 0;

	for (int i = 0; op->contracts[i].name; i++) all |= UINT64_C(1) << i;
	return all;
}

uint64_t contracts_called_for(const struct call *call)
{
	uint64_t called = 1;

	for (int i = 0; call->op->contracts[i].name; i++)
		if (contract_called_for(&call->op->contracts[i], call)) called |= UINT64_C(1) << i;
	return called;
}

/* Do elements tell a rounding that none of the contracts allows? Of a structure that was read each
 * choice passed a sign test; a rounding of a known one has its votes. */
static bool tells_rounding(const struct examination *x, const struct call *call, uint64_t contracts)
{
	bool told = x->structure.taken;

	for (int i = 0; i < x->n && !told; i++) {
		const struct suspect *s = &x->suspect[i];
		const struct site_rounding r = { true, s->format, s->rounding };
		if (s->site < 0 || !s->told || (s->state != DETECTED && s->state != ALLOWED)) continue;
		told = true;
		for (int k = 0; call->op->contracts[k].name; k++)
			told = told && !(has(contracts, k) && is_legal(call, &call->op->contracts[k], s->site, &r));
	}
	return told;
}

uint64_t contracts_shown(const struct call *call, const struct examination *x, uint64_t called)
{
	uint64_t shown = 0;

	for (int i = 0; call->op->contracts[i].name; i++)
		if (suits(x, call, &call->op->contracts[i]) >= (x->structure.as_named ? AT_SITES : ALL)) shown |= UINT64_C(1) << i;
	return x->identified && !(shown & called) && tells_rounding(x, call, called) ? shown : 0;
}

static bool rounds(const struct contract *k)
{
	bool any = false;

	for (int s = 0; s < MAX_SITE; s++) any = any || k->site[s].on;
	return any;
}

/* Was a structure read that has no fault and that rounds what the op's tightest contract does not allow? */
static bool reads_rounding(const struct examination *x, const struct call *call)
{
	return x && x->identified && !x->profile.emulation.faults && suits(x, call, call->op->contracts) < ALL;
}

/* Was one read that rounds nothing? */
static bool reads_none(const struct examination *x, const struct call *call)
{
	return x && x->identified && suits(x, call, call->op->contracts) >= ALL;
}

bool verdict_too_loose(const struct verdict *v)
{
	bool any = false;

	for (int i = 0; i < v->n_out; i++) {
		const struct output_verdict *o = &v->out[i];
		if (!o->exact && !o->names && o->rule[RULE_RMS].value >= least_error) return false;
		any = any || (!o->exact && !o->names);
	}
	return any && rounds(v->contract);
}

/* How good an answer a verdict is: 0 the best. A contract that is too loose says nothing, unless its
 * roundings were read. */
static int worth(const struct verdict *v, bool read)
{
	return v->outcome == PASS && (read || !verdict_too_loose(v)) ? 0 : v->outcome == UNDECIDED ? 1 : 2;
}

/* read: roundings were; none: it was read that there are none, so that a failure is shown without. */
static bool is_better(const struct verdict *w, const struct verdict *v, bool read, bool none)
{
	const int a = worth(w, read), b = worth(v, read);

	if (a != b) return a < b;
	if (w->outcome != v->outcome) return w->outcome == FAIL;
	if (none && rounds(w->contract) != rounds(v->contract)) return rounds(v->contract);
	return excess(w) + log(slack) < excess(v);
}

bool judge_with(const struct call *call, struct yardstick *y, uint64_t tried, const struct examination *x,
	struct verdict *v, struct error *e)
{
	const struct contract *k = call->op->contracts;
	bool any = false;
	int most = 0;

	for (int i = 0; k[i].name; i++)
		if (has(tried, i) && suits(x, call, &k[i]) > most) most = suits(x, call, &k[i]);
	const bool read = reads_rounding(x, call), none = reads_none(x, call);
	for (int suit = most; suit >= (most >= ALL ? ALL : 0); suit--)
		for (int i = 0; k[i].name && !(any && worth(v, read) == 0); i++) {
			struct verdict w;
			if (!has(tried, i) || suits(x, call, &k[i]) != suit) continue;
			if (!judge_climbing(call, &k[i], y, &w, e) || !judge_as_read(call, &k[i], y, x, &w, e)) return false;
			if (!any || is_better(&w, v, read, none)) *v = w;
			any = true;
		}
	return true;
}

/* " by 8169 sigma (rms of weight, at most 2.05)": of the rules in sigma the one that is furthest broken; or "". */
static const char *broken_text(const struct verdict *v, char *text, size_t size)
{
	double most = 0;
	char value[RATIO];

	*text = 0;
	for (int i = 0; i < v->n_out; i++)
		for (int r = 0; r < RULE_COUNT; r++) {
			const struct rule *x = &v->out[i].rule[r];
			if (v->out[i].names || r == RULE_EXCESS || !(x->value / x->limit > fmax(1, most))) continue;
			most = x->value / x->limit;
			snprintf(text, size, " by %s sigma (%s of %s, at most %.3g)", ratio_text(x->value, 4, value), rule_name[r],
				v->op->out[v->out[i].out].name, x->limit);
		}
	return text;
}

/* The rules of a contract that nothing calls for hold: that is neither a pass nor a failure. */
static void leave_open(struct verdict *v, const struct verdict *looser)
{
	char broken[128];
	struct verdict open = *v;

	broken_text(v, broken, sizeof broken);
	open.n_reason = 0;
	open.outcome = PASS;
	if (verdict_too_loose(looser))
		reason(&open, UNDECIDED, "fails %s%s; holds under %s, but its errors are below %g of what a kernel with these roundings makes: no sign of them",
			v->contract->name, broken, looser->contract->name, least_error);
	else
		reason(&open, UNDECIDED, "fails %s%s; would hold under %s, which nothing in the outputs calls for; say --contract %s if this kernel computes so",
			v->contract->name, broken, looser->contract->name, looser->contract->name);
	for (int i = 0; i < v->n_reason && open.n_reason < MAX_REASON; i++)
		memcpy(open.reason[open.n_reason++], v->reason[i], sizeof v->reason[i]);
	*v = open;
}

bool judge_looser(const struct call *call, struct yardstick *y, uint64_t tried, struct verdict *v, struct error *e)
{
	const struct contract *k = call->op->contracts;
	struct verdict looser = { .outcome = FAIL };
	bool fits = false;

	for (int i = 0; k[i].name && !fits; i++) {
		struct verdict w;
		if (!has(tried, i) || !rounds(&k[i])) continue;
		if (!judge_climbing(call, &k[i], y, &w, e)) return false;
		fits = w.outcome == PASS && !verdict_too_loose(&w);
		if (fits || (w.outcome == PASS && looser.outcome != PASS)) looser = w;
	}
	if (looser.outcome == PASS) leave_open(v, &looser);
	return true;
}
