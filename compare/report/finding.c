#include "finding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/print/print.h"

/* What comes from a file is a stranger's text. */
static void clean(struct finding *f)
{
	if (f->error.code == E_FORMULA) make_clean(f->error.file);      /* a place in the formula's file */
	else copy_clean(f->error.file, sizeof f->error.file, f->path);
	make_clean(f->error.item);
	make_clean(f->error.detail);
	for (int i = 0; i < f->verdict.n_reason; i++) make_clean(f->verdict.reason[i]);
	make_clean(f->verdict.cause.left_out);
}

/* A call that did not pass says which inputs are not finite, and where: before all else where it is
 * undecided, whose cause they are. */
static void say_inputs(struct verdict *v, const struct capture *c)
{
	for (size_t i = c->tensors.n; i-- > 0 && v->outcome != PASS;) {
		const struct tensor *t = &c->tensors.item[i];
		char where[160], what[RATIO];
		double x = 0;
		size_t at = 0, n = strncmp(t->name, "in.", 3) ? 0 : tensor_not_finite(t, &at, &x);
		if (!n) continue;
		tensor_index_text(t, at, where, sizeof where);
		if (v->n_reason == MAX_REASON) v->n_reason--;
		int to = v->outcome == UNDECIDED ? 0 : v->n_reason;
		memmove(v->reason + to + 1, v->reason + to,
			(size_t)(v->n_reason - to) * sizeof *v->reason);
		snprintf(v->reason[to], sizeof v->reason[to],
			"%s: %zu of %zu elements %s not finite; the first at %s is %s", t->name, n,
			t->count, n == 1 ? "is" : "are", where, number_text(x, what));
		v->n_reason++;
	}
}

/* Calls of which this is equal differ in their numbers only, whatever the order of their tensors. */
static void digest_call(const struct capture *c, char text[SHA256_TEXT])
{
	json_t *call = json_pack("{s:O}", "params", c->params);
	char shape[256];
	struct sha256 h;

	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct tensor *t = &c->tensors.item[i];
		json_object_set_new(call, t->name,
			json_sprintf("%s %s", dtype_info[t->dtype].name,
				shape_text(t, shape, sizeof shape)));
	}
	char *all = json_dumps(call, JSON_COMPACT | JSON_SORT_KEYS);
	sha256_start(&h);
	if (all) sha256_add(&h, all, strlen(all));
	sha256_text(&h, text);
	free(all);
	json_decref(call);
}

void finding_judge(struct finding *f, const char *path, const struct capture *c, const struct judging *how)
{
	*f = (struct finding){ 0 };
	copy_clean(f->path, sizeof f->path, path);
	copy_clean(f->op, sizeof f->op, c->op);
	copy_clean(f->producer, sizeof f->producer, c->producer);
	copy_clean(f->device, sizeof f->device, c->device);
	copy_clean(f->truth, sizeof f->truth, how->truth ? how->truth : "");
	digest_call(c, f->call);
	f->quick = how->quick;
	f->judged = judge(c, how, &f->verdict, &f->error);
	if (f->judged && !how->quick) judge_cause(c, how, &f->verdict);
	if (f->judged) say_inputs(&f->verdict, c);
	clean(f);
}

void finding_unread(struct finding *f, const char *path, const struct error *e)
{
	*f = (struct finding){ .error = *e };
	copy_clean(f->path, sizeof f->path, path);
	clean(f);
}

const char *finding_word(const struct finding *f)
{
	return f->judged ? outcome_name[f->verdict.outcome] : "error";
}

int finding_exit(const struct finding *f)
{
	return f->judged ? outcome_exit(f->verdict.outcome) : error_exit(&f->error);
}

int worse_exit(int a, int b)
{
	static const int weight[] = { [EXIT_PASS] = 0, [EXIT_UNDECIDED] = 1, [EXIT_FAIL] = 2, [EXIT_INPUT] = 3, [EXIT_MACHINE] = 4 };

	return weight[a] >= weight[b] ? a : b;
}

double finding_value(const struct finding *f, int rule)
{
	double worst = 0;

	for (int i = 0; i < f->verdict.n_out; i++) {
		double x = f->verdict.out[i].rule[rule].value;
		if (isnan(x) || x > worst) worst = x;
	}
	return worst;
}
