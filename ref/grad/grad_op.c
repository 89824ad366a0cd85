/* NAME.backward: its tables, from those of NAME. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "grad_private.h"
#include "ref/formula/formula.h"

#define TABLE(b, type, n) ((type *)pool_make(&(b)->pool, ((n) + 1) * sizeof(type)))

static bool has_gradient(const struct tensor_spec *in) { return !(in->flags & INTEGER); }

static const char *named(struct backward *b, const char *before, const char *name, const char *behind)
{
	char text[256];
	int n = snprintf(text, sizeof text, "%s%s%s", before, name, behind);

	return pool_text(&b->pool, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

const char *grad_name(struct backward *b, const char *name) { return named(b, "d", name, ""); }
const char *grad_name_inside(struct backward *b, const char *name) { return named(b, "d", name, "_inside"); }

/* NAME's inputs, then a gradient of each output; all of several may be missing, which is 0. */
static bool inputs(struct backward *b, const struct op *of)
{
	struct tensor_spec *in = TABLE(b, struct tensor_spec, MAX_IN);

	if (!in) return false;
	while (of->in[b->n_in].name) b->n_in++;
	while (of->out[b->n_out].name) b->n_out++;
	memcpy(in, of->in, (size_t)b->n_in * sizeof *in);
	for (int i = 0; i < b->n_out; i++) {
		const struct tensor_spec *out = &of->out[i];
		bool alone = b->n_out == 1 && !out->with;
		in[b->n_in + i] = (struct tensor_spec){ grad_name(b, out->name), out->shape, alone ? 0 : OPTIONAL,
			named(b, "the gradient of ", out->name, alone ? "" : "; 0 where it is missing"), NULL };
	}
	b->op.in = in;
	return true;
}

static bool outputs(struct backward *b, const struct op *of)
{
	struct tensor_spec *out = TABLE(b, struct tensor_spec, MAX_OUT);
	int n = 0;

	for (int i = 0; out && i < b->n_in; i++) {
		b->output_of[i] = -1;
		if (!has_gradient(&of->in[i])) continue;
		out[n] = (struct tensor_spec){ grad_name(b, of->in[i].name), of->in[i].shape, 0, "", of->in[i].flags & OPTIONAL ? of->in[i].name : NULL };
		b->gradient_of[n] = i;
		b->output_of[i] = n++;
	}
	b->op.out = out;
	return n > 0;
}

/* The gradient of an output that the call has not is an error, and so is none at all. */
static bool given(const struct backward *b, const struct call *call, struct error *e)
{
	const struct op *of = &b->of->op;
	bool any = false;

	for (int i = 0; i < b->n_out; i++) {
		const struct tensor *t = call->in[b->n_in + i];
		const char *with = of->out[i].with;
		any = any || t;
		if (t && with && !capture_in(call->capture, with)) return error_set(e, E_EXTRA, t->name, t->offset, "it comes only with in.%s", with);
	}
	return any || error_set(e, E_MISSING, call->op->in[b->n_in].name, NO_OFFSET, "expected the gradient of an output of %s", of->name);
}

static bool check(const struct call *call, struct error *e)
{
	const struct backward *b = backward_of(call->op);

	if (!formula_rules(b->of, call, e) || !formula_cuts_sound(b->of, call, e) || !given(b, call, e)) return false;
	for (int i = 0; i < MAX_FORM && call->op->forms[i].name; i++) {
		struct plan plan = plan_plain(&arith_f64, 0);
		plan.form = i;
		struct program *p = grad_prepare(call, &plan, e);
		if (!p) return false;
		program_free(p);
	}
	return true;
}

static void derive(struct call *call) { formula_derive(backward_of(call->op)->of, call); }

static double right(const struct call *call, int fault)
{
	const struct backward *b = backward_of(call->op);

	return formula_right(b->of, call, b->fault[fault]);
}

static size_t all_at_once(const struct call *call) { (void)call; return 1; }

static bool tables(struct backward *b, const struct op *of)
{
	b->op.name = named(b, "", of->name, ".backward");
	b->op.what = named(b, "the gradients of ", of->name, ", from those of its outputs");
	b->op.file = of->file;
	memcpy(b->op.dims, of->dims, sizeof b->op.dims);
	b->op.params = of->params;
	for (int i = 0; i < MAX_FORM && of->forms[i].name; i++) b->op.forms[i] = (struct form){ of->forms[i].name, grad_pieces, of->forms[i].chunked };
	b->op.check = check;
	b->op.derive = derive;
	b->op.right = right;
	b->op.iterates = of->iterates;
	b->op.pieces = all_at_once;
	b->op.prepare = grad_prepare;
	b->op.finish = grad_finish;
	b->op.sharing = &formula_sharing;
	return inputs(b, of) && outputs(b, of) && grad_sites(b) && grad_faults(b) && grad_contracts(b) && grad_cases(b) && !b->pool.failed;
}

bool grad_lacks(const struct op *op, char *why, size_t size)
{
	int in = 0, out = 0, gradients = 0;
	bool whole = false;

	for (; op->out[out].name; out++) whole = whole || op->out[out].flags & INTEGER;
	for (; op->in[in].name; in++) gradients += has_gradient(&op->in[in]);
	*why = '\0';
	if (!formula_source(op)) snprintf(why, size, "it is no formula");
	else if (whole) snprintf(why, size, "an output holds whole numbers, which have no gradient");
	else if (op->holds) snprintf(why, size, "its pieces hold values for other pieces, and no gradient goes through these yet");
	else if (!gradients) snprintf(why, size, "no input has a gradient");
	else if (in + out > MAX_IN) snprintf(why, size, "it would read %d tensors, and a call has at most %d inputs", in + out, MAX_IN);
	else if (gradients > MAX_OUT) snprintf(why, size, "it would have %d gradients, and a call has at most %d outputs", gradients, MAX_OUT);
	return *why;
}

const struct op *grad_make(const struct op *op)
{
	char why[GRAD_SAID];
	struct backward *b = grad_lacks(op, why, sizeof why) ? NULL : calloc(1, sizeof *b);

	if (!b) return NULL;
	b->of = formula_of(op);
	if (tables(b, op)) return &b->op;
	grad_end(&b->op);
	return NULL;
}

const struct op *grad_of(const struct op *op) { return op->prepare == grad_prepare ? &backward_of(op)->of->op : NULL; }

void grad_end(const struct op *backward)
{
	struct backward *b = backward ? (struct backward *)(uintptr_t)backward_of(backward) : NULL;

	if (b) pool_free(&b->pool);
	free(b);
}
