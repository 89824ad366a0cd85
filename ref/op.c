#include <string.h>

#include "op.h"

extern const struct op op_gated_delta_rule, op_rmsnorm, op_rope, op_causal_conv1d, op_newton_schulz, op_muon_step,
	op_mixed_batch, op_qk_norm_rope, op_rmsnorm_fp8, op_gated_product;

const struct op *const ops[] = {
	&op_gated_delta_rule, &op_rmsnorm, &op_rope, &op_causal_conv1d, &op_newton_schulz, &op_muon_step, &op_mixed_batch,
	&op_qk_norm_rope, &op_rmsnorm_fp8, &op_gated_product, NULL
};

/* The only state of the program: what the command line added. */
enum { MAX_ADDED = 16 };
static struct { const struct op *op[MAX_ADDED]; size_t n; } added;

void op_add(const struct op *op)
{
	if (added.n < MAX_ADDED) added.op[added.n++] = op;
}

const struct op *op_added(void) { return added.n ? added.op[added.n - 1] : NULL; }

const struct op *op_find(const char *name)
{
	for (size_t i = added.n; i-- > 0;)
		if (!strcmp(added.op[i]->name, name)) return added.op[i];
	for (size_t i = 0; ops[i]; i++)
		if (!strcmp(ops[i]->name, name)) return ops[i];
	return NULL;
}

const struct op *op_of_iteration(void)
{
	size_t i = 0;

	while (!ops[i]->iteration) i++;
	return ops[i];
}

const struct op *op_of_slots(void)
{
	size_t i = 0;

	while (!ops[i]->in_slots) i++;
	return ops[i];
}

/* The tables' entries all begin with their name. */
#define FIND(table, name) \
	for (int i = 0; (table)[i].name; i++) \
		if (!strcmp((table)[i].name, name)) return i; \
	return -1

int op_site(const struct op *op, const char *name) { FIND(op->sites, name); }
int op_mistake(const struct op *op, const char *name) { FIND(op->mistakes, name); }
int op_contract(const struct op *op, const char *name) { FIND(op->contracts, name); }

const struct test_case *op_case(const struct op *op, const char *name)
{
	if (!op->cases) return case_find(op->name, name);
	for (const struct test_case *k = op->cases; k->op; k++)
		if (!strcmp(k->name, name)) return k;
	return NULL;
}
