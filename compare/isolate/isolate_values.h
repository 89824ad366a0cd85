/* Captures and plays against the reference of mixed_batch: each request alone, in order, from its own slot. */
#ifndef ETALON_ISOLATE_VALUES_H
#define ETALON_ISOLATE_VALUES_H

#include "isolate.h"
#include "ref/call/op.h"

struct values {
	struct breach breach;           /* law "values", at the first token or slot that is wrong; NULL: none is */
	double worst;                   /* error of y in sigma */
	size_t tokens, wrong;           /* of rows that are not padding */
	size_t first_wrong;             /* a token; where wrong is not 0 */
	double share;                   /* the largest error of a wrong token or slot, as a share of its size */
};

/* Of a capture of mixed_batch that has its outputs; its contract, or f32. */
bool values_of(struct values *v, const struct capture *c, struct error *e);

/* Of a play that has run to its end; the breach knows its request. */
bool values_judge(struct values *v, const struct play *p, struct error *e);

/* Which fault answers as the executor did, over the tables that the scenario means. */
struct named {
	const struct fault_spec *fault;     /* NULL: none explains half of what is wrong */
	size_t wrong, explained;        /* tokens whose y is not the reference's; of these, those that are the fault's */
	bool alone;                     /* no other explains as much */
};
bool values_name(struct named *n, const struct capture *c, struct error *e);


/* Which faults would have shown in a play of this scenario: visible [faults of mixed_batch], set where one would. */
bool values_coverage(bool *visible, const struct capture *c, struct error *e);

#endif
