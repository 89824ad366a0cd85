/* etalon logits --plan: nothing is computed but a short measurement. */
#include "logits_planned.h"

#include "compare/logits/logits_plan.h"

int logits_planned(const char *model, size_t tokens, const char *truth, size_t runs, bool json)
{
	struct model m = { 0 };
	struct model_question q = { .model = &m, .n = tokens, .positions = tokens, .runs = runs };
	struct logits_plan p = { 0 };
	struct error e;

	bool ok = arith_by_name(truth, &q.truth, &q.bits) || error_set(&e, E_UNKNOWN_NAME, truth, NO_OFFSET, "see `etalon list arithmetics`");
	ok = ok && model_load(&m, model, &e) && plan_make(&p, &q, &e);
	int status = !ok ? print_failure(&e) : json ? json_print(plan_json(&p)) : EXIT_PASS;
	if (ok && !json) plan_print(stdout, &p, &m);
	if (status == EXIT_PASS && !p.fits) status = EXIT_MACHINE;
	plan_free(&p);
	model_unload(&m);
	return status;
}
