/* Changes of a case towards etalon's own cases of the op: one size, one parameter, one input at a time, and whole cases. */
#ifndef ETALON_AUDIT_CHANGE_H
#define ETALON_AUDIT_CHANGE_H

#include "fixtures/cases/cases.h"
#include "ref/call/op.h"

enum { CHANGE_TEXT = 160, MAX_CHANGE = 256 };
struct change {
	char said[CHANGE_TEXT];         /* "T = 131", "g = F32 uniform(-0.5, 0)", "without z", "case lengths" */
	bool whole;                     /* a case of etalon's as it is */
	int settings;                   /* in which it differs from the inputs */
	struct test_case k;
	struct case_dim dims[MAX_DIM + 1];
	struct case_tensor in[MAX_IN + 1], out[MAX_OUT + 1];
	struct case_list lists[MAX_IN + 1];
	struct case_map maps[MAX_IN + 1];
	char *params;                   /* of its own; NULL: the case's */
};

/* The changes of `from`, single ones first, then the op's own cases that are not large, those that differ in the fewest settings first;
 * from NULL: whole cases alone. Not each single one is a call that there may be. Freed with changes_free; NULL: memory is short. */
struct change *changes_of(const struct op *op, const struct test_case *from, size_t *n);
void changes_free(struct change *c, size_t n);

#endif
