/* Kernels of the study, the cases that they run, and their calls. */
#include <string.h>

#include "loosest.h"

/* In the units of case_cost: dearer cases are left out. No iteration that rounds is cheap. */
static const double most_cost = 3e5, most_of_iteration = 4e6;

static bool has_case(const struct op *op, int contract)
{
	const struct test_case *list[2];
	const struct kernel k = { "", { op, &op->contracts[contract], 0, true }, false };

	return contract >= 0 && cases_for(&k, list, 1) > 0;
}

/* The contract of a bf16 kernel: bf16 operands of products; iterates in bf16, or in float16 where
 * no case asks for bf16; else all in float32 but the store. */
static int bf16_contract(const struct op *op)
{
	int operands = op_contract(op, "bf16_operands"), iterates = op_contract(op, "bf16");

	if (operands >= 0 || !op->iterates) return operands >= 0 ? operands : 0;
	return has_case(op, iterates) ? iterates : op_contract(op, "f16");
}

int kernels_of(const struct op *op, struct kernel *list)
{
	const struct contract *k = op->contracts;
	int n = 0, chunk = op_contract(op, "chunk_f32");

	list[n++] = (struct kernel){ "float32", { op, k, 0, false }, true };
	list[n++] = (struct kernel){ "bf16", { op, &k[bf16_contract(op)], 0, true }, false };
	if (chunk >= 0) list[n++] = (struct kernel){ "chunked", { op, &k[chunk], 0, false }, true };
	return n;
}

static bool rounds(const struct contract *k)
{
	for (int s = 0; s < MAX_SITE; s++)
		if (k->site[s].on) return true;
	return false;
}

int kernels_of_contracts(const struct op *op, struct kernel *list)
{
	int n = 0;

	for (const struct contract *k = op->contracts; k->name; k++) {
		bool narrow = rounds(k), again = k == op->contracts && !op->iterates;
		list[n++] = (struct kernel){ k->name, { op, k, 0, narrow }, !narrow };
		if (!again) continue;
		list[n++] = (struct kernel){ "f32, stored in bf16", { op, k, 0, true }, false };
	}
	return n;
}

static bool has_bf16(const struct test_case *t)
{
	for (const struct case_tensor *in = t->in; in->name; in++)
		if (in->dtype == DT_BF16) return true;
	return false;
}

/* A bf16 kernel runs cases with bf16 inputs first. */
static double rank(const struct kernel *k, const struct test_case *t)
{
	return case_cost(t) + (!k->wide && !has_bf16(t) ? most_cost : 0);
}

int cases_for(const struct kernel *k, const struct test_case **list, int most)
{
	const struct op *op = k->model.op;
	int n = 0;

	for (const struct test_case *t = op->cases ? op->cases : test_cases; t->op; t++) {
		int at = n;
		bool dear = case_cost(t) > (op->iterates ? most_of_iteration : most_cost);
		if (strcmp(t->op, op->name) || t->large || dear) continue;
		if (!model_fits(&k->model, t)) continue;
		while (at > 0 && rank(k, t) < rank(k, list[at - 1])) at--;
		if (at == most) continue;
		n += n < most;
		memmove(&list[at + 1], &list[at], (size_t)(n - 1 - at) * sizeof *list);
		list[at] = t;
	}
	return n;
}

static enum dtype in_type(const struct kernel *k, enum dtype d)
{
	return k->wide && (d == DT_BF16 || d == DT_F16) ? DT_F32 : d;
}

/* FP8 and whole numbers keep their type. */
static enum dtype out_type(const struct kernel *k, const struct case_tensor *t)
{
	bool keeps =
		t->dtype == DT_F8_E4M3 || t->dtype == DT_F8_E5M2 || !dtype_info[t->dtype].is_float;

	return keeps ? t->dtype : model_out_type(&k->model, t);
}

bool setting_make(
	struct setting *s, const struct kernel *k, const struct test_case *t, struct error *e)
{
	struct case_tensor in[MAX_IN + 1] = { 0 }, out[MAX_OUT + 1] = { 0 };
	struct test_case typed = *t;
	struct plan p = model_plan(&k->model, NULL);

	*s = (struct setting){ .kernel = k, .kase = t };
	for (int i = 0; t->in[i].name; i++)
		in[i] = t->in[i], in[i].dtype = in_type(k, t->in[i].dtype);
	for (int i = 0; t->out[i].name; i++)
		out[i] = t->out[i], out[i].dtype = out_type(k, &t->out[i]);
	typed.in = in;
	typed.out = out;
	return case_make(&s->capture, &typed, 1, true, e)
		&& call_bind(&s->call, &s->capture, true, e) && model_answer(&s->call, &p, e)
		&& yardstick_make(
			&s->y, &s->call, &(struct yardstick_of){ .truth = NULL }, NULL, e);
}

void setting_free(struct setting *s)
{
	yardstick_free(&s->y);
	capture_free(&s->capture);
}

bool setting_judge(
	struct setting *s, const char *contract, bool quick, struct verdict *v, struct error *e)
{
	const struct judging how = { .contract = contract, .quick = quick };

	/* An anchored call has a truth of its own for each output. */
	return s->call.anchored ? judge(&s->capture, &how, v, e)
				: judge_by(&s->y, &s->capture, &how, v, e);
}
