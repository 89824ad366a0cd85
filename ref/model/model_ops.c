/* The ops that a model is made of: ref/ops/layers. */
#include "model_private.h"
#include "ref/formula/formula.h"

#include <stdlib.h>
#include <string.h>
#include <threads.h>

static const char *const names[MODEL_PARTS] = { [LINEAR_ATTENTION] = "linear_attention", [FULL_ATTENTION] = "full_attention", [PART_HEAD] = "head" };

static const struct op *made[MODEL_PARTS];

/* All at once, when the first is asked for: from then on they are as they are. */
static void make(void)
{
	for (int part = 0; part < MODEL_PARTS; part++) {
		struct error e;
		struct formula *f = formula_layer(names[part], &e);
		if (!f) {
			fputs("etalon: ", stderr);
			error_print(stderr, &e);
			putc('\n', stderr);
			exit(error_exit(&e));
		}
		made[part] = formula_op(f);
	}
}

const struct op *model_op(int part)
{
	static once_flag once = ONCE_FLAG_INIT;

	call_once(&once, make);
	return made[part];
}

bool model_call_bytes(const struct call *call, const struct plan *plan, struct call_bytes *b, struct error *e)
{
	size_t held, piece;

	if (!formula_sizes(call, plan, &held, &piece, e)) return false;
	size_t each = plan->arith->wide ? 2 * sizeof(double) : sizeof(double);
	*b = (struct call_bytes){ held * each, piece * each };
	return true;
}

int model_in(const struct op *op, const char *name)
{
	int i = 0;

	while (op->in[i].name && strcmp(op->in[i].name, name)) i++;
	return op->in[i].name ? i : -1;
}

int model_memory_of(const struct op *op, int out) { return op->out[out].name ? model_in(op, op->out[out].name) : -1; }

bool model_is_weight(const struct op *op, int in)
{
	const char *name = op->in[in].name;

	for (int i = 0; op->out[i].name; i++)
		if (!strcmp(op->out[i].name, name)) return false;
	return strcmp(name, "x") && strcmp(name, "x_low");
}

static void set(struct call *call, const char *dim, size_t n)
{
	for (int i = 0; call->op->dims[i]; i++)
		if (!strcmp(call->op->dims[i], dim)) call->dim[i] = n;
}

void model_dims(const struct model_config *c, struct call *call, size_t tokens, size_t before)
{
	const struct { const char *name; size_t n; } all[] = {
		{ "T", tokens }, { "S", before }, { "E", c->hidden }, { "V", c->vocabulary }, { "I", c->intermediate }, { "One", 1 },
		{ "X", c->experts }, { "J", c->expert_intermediate }, { "JJ", 2 * c->expert_intermediate }, { "U", c->experts ? 1 : 0 },
		{ "C", 2 * c->key_heads * c->key_dim + c->value_heads * c->value_dim }, { "W", c->taps }, { "Hv", c->value_heads },
		{ "Dk", c->key_dim }, { "Dv", c->value_dim }, { "Z", c->value_heads * c->value_dim },
		{ "D", c->head_dim }, { "QG", 2 * c->heads * c->head_dim }, { "HD", c->heads * c->head_dim }, { "GD", c->kv_heads * c->head_dim }
	};
	const struct { const char *name; double value; } params[] = {
		{ "eps", c->eps }, { "top_k", (double)c->top_k }, { "theta", c->theta }, { "rotary_dim", (double)c->rotary_dim }
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) set(call, all[i].name, all[i].n);
	for (size_t i = 0; i < sizeof params / sizeof *params; i++)
		for (int p = 0; call->op->params[p].name; p++)
			if (!strcmp(call->op->params[p].name, params[i].name)) call->param[p] = params[i].value;
	call->op->derive(call);
}
