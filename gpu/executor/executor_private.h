/* Inside the executor: its books about slots, and the step that is planned. */
#ifndef ETALON_EXECUTOR_PRIVATE_H
#define ETALON_EXECUTOR_PRIVATE_H

#include "gpu/executor/executor.h"
#include "gpu/executor/executor_faults.h"

enum { NOWHERE = -1 };          /* no slot */

struct request {
	bool used;
	int32_t slot, position;
	int32_t drafts;         /* tokens of its open speculation; 0: none is open */
	int32_t first_draft;    /* the slot of the first; the others follow in next_draft */
	uint64_t plan;          /* the last plan that it is in */
};

struct checkpoint { bool used; int32_t slot, position; };

/* One allocation, which starts at kinds. */
struct tables {
	int32_t *kinds, *read_slot, *ring_read, *position;      /* [max_rows] */
	int32_t *cu_seqlens;                                    /* [max_rows+1] */
	int32_t *write_slot, *ring_write;                       /* [max_tokens] */
};

struct executor {
	const struct executor_backend *backend;
	void *pools;                            /* the backend's */
	struct executor_shape shape;

	int handles;                            /* length of request and of checkpoint */
	struct request *request;
	struct checkpoint *checkpoint;
	int32_t *holders;                       /* [slots]: requests, speculations and checkpoints that need the slot */
	int32_t *next_draft;                    /* [slots] */
	int32_t *free;                          /* [slots]: a stack; the next to be taken is free[n_free-1] */
	size_t n_free;

	bool planned;                           /* the step below can run */
	uint64_t plans;
	struct executor_step step;
	struct tables tables;
	int32_t *row_request;                   /* [max_rows]; NOWHERE: padding */
	size_t fresh;                           /* slots that the step takes from the stack */
#ifdef ETALON_FAULTS
	struct faults *faults;
#endif
};

bool tables_open(struct tables *t, const struct executor_shape *s);
/* One holder less; without any the slot is free. NOWHERE is allowed. */
void slot_drop(struct executor *x, int32_t slot);
/* NULL, and *e is E_VALUE, unless the handle is in use. */
struct request *request_of(const struct executor *x, int request, struct error *e);

#endif
