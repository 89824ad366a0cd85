/* Which of several contracts is met. */
#include <math.h>

#include "verdict_private.h"

/* How far the worst-kept rule is from its limit. */
static double excess(const struct verdict *v)
{
	double worst = 0;

	for (int i = 0; i < v->n_out; i++)
		for (int r = 0; r < RULE_COUNT; r++) {
			double x = v->out[i].rule[r].value / v->out[i].rule[r].limit;
			if (!(x <= worst)) worst = isnan(x) ? INFINITY : x;
		}
	return worst;
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
		if (v->outcome == UNDECIDED && v->n_out && !boundless(v) && !yardstick_climb(y, &again, e)) return false;
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

bool judge_with(const struct call *call, struct yardstick *y, int first, int last, const struct examination *x,
	struct verdict *v, struct error *e)
{
	const struct contract *k = call->op->contracts;
	bool any = false;
	int most = 0;

	for (int i = first; i <= last; i++) most = suits(x, call, &k[i]) > most ? suits(x, call, &k[i]) : most;
	for (int suit = most; suit >= (most >= ALL ? ALL : 0); suit--)
		for (int i = first; i <= last && !(any && v->outcome == PASS); i++) {
			struct verdict w;
			if (suits(x, call, &k[i]) != suit) continue;
			if (!judge_climbing(call, &k[i], y, &w, e) || !judge_as_read(call, &k[i], y, x, &w, e)) return false;
			if (!any || w.outcome < v->outcome || (w.outcome == v->outcome && excess(&w) < excess(v))) *v = w;
			any = true;
		}
	return true;
}
