/* What an op has, by name. */
#include <string.h>

#include "op.h"

/* The tables' entries all begin with their name. */
#define FIND(table, name) \
	for (int i = 0; (table)[i].name; i++) \
		if (!strcmp((table)[i].name, name)) return i; \
	return -1

int op_site(const struct op *op, const char *name) { FIND(op->sites, name); }
int op_fault(const struct op *op, const char *name) { FIND(op->faults, name); }
int op_contract(const struct op *op, const char *name) { FIND(op->contracts, name); }

const struct test_case *op_case(const struct op *op, const char *name)
{
	if (!op->cases) return case_find(op->name, name);
	for (const struct test_case *k = op->cases; k->op; k++)
		if (!strcmp(k->name, name)) return k;
	return NULL;
}
