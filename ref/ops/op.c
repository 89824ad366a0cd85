#include <string.h>

#include "ref/call/op.h"

extern const struct op op_gated_delta_rule, op_rmsnorm, op_rope, op_causal_conv1d, op_newton_schulz, op_muon_step,
	op_mixed_batch, op_qk_norm_rope, op_rmsnorm_fp8, op_gated_product;

const struct op *const ops[] = {
	&op_gated_delta_rule, &op_rmsnorm, &op_rope, &op_causal_conv1d, &op_newton_schulz, &op_muon_step, &op_mixed_batch,
	&op_qk_norm_rope, &op_rmsnorm_fp8, &op_gated_product, NULL
};

const struct op *op_find(const char *name)
{
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
int op_fault(const struct op *op, const char *name) { FIND(op->faults, name); }
int op_contract(const struct op *op, const char *name) { FIND(op->contracts, name); }
