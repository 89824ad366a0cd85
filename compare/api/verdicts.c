/* Verdicts on calls in memory, and their reports. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "compare/report/report.h"
#include "fixtures/io/surroundings.h"

struct etalon_verdict { struct finding finding; char *text, *json; };

struct errand { etalon_verdict *v; const etalon_call *call; const struct judging *how; };
static void find_verdict(void *with)
{
	const struct errand *x = with;

	finding_judge(&x->v->finding, "", &x->call->capture, x->how);
}

etalon_verdict *etalon_judge(const etalon_call *call, const struct etalon_how *how, struct etalon_error *error)
{
	struct judging j = { .contract = how ? how->contract : NULL, .quick = how && how->quick,
		.explained = how && how->require_explained ? ALL_EXPLAINED : NONE_EXPLAINED };
	struct error e;

	if (!call || api_has_failed(call, error)) return NULL;
	etalon_verdict *v = calloc(1, sizeof *v);
	if (!v) return error_set(&e, E_MEMORY, NULL, NO_OFFSET, "a verdict"), api_error(error, &e), NULL;
	struct errand errand = { v, call, &j };
	const bool ran = api_run(find_verdict, &errand, &e);
	if (ran && v->finding.judged) return v;
	api_error(error, ran ? &v->finding.error : &e);
	free(v);
	return NULL;
}

enum etalon_outcome etalon_outcome(const etalon_verdict *v)
{
	static const enum etalon_outcome of[] = { [PASS] = ETALON_PASS, [FAIL] = ETALON_FAIL, [UNDECIDED] = ETALON_UNDECIDED };

	return v ? of[v->finding.verdict.outcome] : ETALON_FAIL;
}

const char *etalon_reason(const etalon_verdict *v, size_t i)
{
	return v && i < (size_t)v->finding.verdict.n_reason ? v->finding.verdict.reason[i] : NULL;
}

const char *etalon_fault(const etalon_verdict *v)
{
	const struct examination *x = v && v->finding.verdict.examined ? &v->finding.verdict.x : NULL;

	for (int i = 0; x && i < x->n; i++)
		if (x->suspect[i].site < 0 && x->suspect[i].state == DETECTED) return x->suspect[i].name;
	return NULL;
}

static char *text_of(const struct finding *f)
{
	char *text = NULL;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (!to) return NULL;
	report_text(to, f, false);
	if (fclose(to) == 0) return text;
	free(text);
	return NULL;
}

static char *json_of(const struct finding *f)
{
	json_t *j = report_json(f);
	char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;

	json_decref(j);
	return text;
}

const char *etalon_report(etalon_verdict *v, const char *format, struct etalon_error *error)
{
	struct surroundings host;
	struct error e;

	if (!v) return NULL;
	if (api_is_null(format, "the format", &e)) return api_error(error, &e), NULL;
	const bool json = !strcmp(format, "json");
	if (!json && strcmp(format, "text")) return error_set(&e, E_UNKNOWN_NAME, format, NO_OFFSET, "expected text or json"), api_error(error, &e), NULL;
	char **made = json ? &v->json : &v->text;
	surroundings_begin(&host);
	if (!*made) *made = json ? json_of(&v->finding) : text_of(&v->finding);
	surroundings_end(&host);
	if (!*made) error_set(&e, E_MEMORY, NULL, NO_OFFSET, "a report"), api_error(error, &e);
	return *made;
}

void etalon_verdict_free(etalon_verdict *v)
{
	if (!v) return;
	free(v->text);
	free(v->json);
	free(v);
}
