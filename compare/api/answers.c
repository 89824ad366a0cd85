/* The reference's answer in the place of a call's outputs. */
#include <stdio.h>

#include "api.h"
#include "compare/truth/answered.h"

static bool plan(struct plan *p, const struct op *op, const char *arithmetic, const char *fault, struct error *e)
{
	const struct arith *arith;
	int bits, at;

	if (!arith_by_name(arithmetic, &arith, &bits)) return error_set(e, E_UNKNOWN_NAME, arithmetic, NO_OFFSET, "see `etalon list arithmetics`");
	*p = plan_plain(arith, bits);
	if (!fault) return true;
	if ((at = op_fault(op, fault)) < 0) return op_lacks(e, op, "faults", fault);
	plan_fault(p, op, at);
	return true;
}

struct answering { const struct capture *capture; const char *arithmetic, *fault; struct tensors to; bool ok; struct error *e; };
static void find_answer(void *with)
{
	struct answering *a = with;
	struct answer answer = { 0 };
	struct call bound;
	struct plan p;
	char by[160];

	snprintf(by, sizeof by, "etalon ref %s%s%s", a->arithmetic, a->fault ? " fault " : "", a->fault ? a->fault : "");
	a->ok = call_bind(&bound, a->capture, false, a->e) && plan(&p, bound.op, a->arithmetic, a->fault, a->e) && ref_run(&bound, &p, &answer, a->e)
		&& (answered(&a->to, &bound, &answer, by) || error_set(a->e, E_MEMORY, NULL, NO_OFFSET, "the answer"));
	answer_free(&answer);
}

bool etalon_call_answer(etalon_call *call, const char *arithmetic, const char *fault, struct etalon_error *error)
{
	struct error e;

	if (!call || api_has_failed(call, error)) return false;
	struct answering a = { &call->capture, arithmetic ? arithmetic : "dd", fault, { 0 }, false, &e };
	if (!api_run(find_answer, &a, &e) || !a.ok) {
		tensors_free(&a.to);
		return api_call_error(call, error, &e);
	}
	tensors_free(&call->capture.tensors);
	call->capture.tensors = a.to;
	return capture_bind(&call->capture, &e) || api_call_error(call, error, &e);
}
