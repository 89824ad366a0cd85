/* Requests and checkpoints: who holds which slot. */
#include "gpu/executor/executor_private.h"

void slot_drop(struct executor *x, int32_t slot)
{
	if (slot != NOWHERE && --x->holders[slot] == 0) x->free[x->n_free++] = slot;
}

struct request *request_of(const struct executor *x, int request, struct error *e)
{
	if (request >= 0 && request < x->handles && x->request[request].used) return &x->request[request];
	error_set(e, E_VALUE, "request", NO_OFFSET, "there is no request %d", request);
	return NULL;
}

static struct checkpoint *checkpoint_of(const struct executor *x, int checkpoint, struct error *e)
{
	if (checkpoint >= 0 && checkpoint < x->handles && x->checkpoint[checkpoint].used) return &x->checkpoint[checkpoint];
	error_set(e, E_VALUE, "checkpoint", NO_OFFSET, "there is no checkpoint %d", checkpoint);
	return NULL;
}

int executor_admit(struct executor *x, int checkpoint, struct error *e)
{
	const struct checkpoint *c = checkpoint < 0 ? NULL : checkpoint_of(x, checkpoint, e);
	int i = 0;

	if (checkpoint >= 0 && !c) return -1;
	while (i < x->handles && x->request[i].used) i++;
	if (i == x->handles) {
		error_set(e, E_MEMORY, "request", NO_OFFSET, "all %d are in use", x->handles);
		return -1;
	}
	x->request[i] = (struct request){ .used = true, .slot = c ? c->slot : NOWHERE, .position = c ? c->position : 0 };
	if (c) x->holders[c->slot]++;
#ifdef ETALON_FAULTS
	faults_admitted(x, i, checkpoint);
#endif
	return i;
}

/* The request keeps its first k drafts' memory and loses the others; 0: none of them. */
static void settle(struct executor *x, struct request *r, int k)
{
	int32_t slot = r->first_draft, before = r->slot;

	for (int i = 1; i <= r->drafts; i++) {
		int32_t next = x->next_draft[slot];

		if (i == k) r->slot = slot;
		else slot_drop(x, slot);
		slot = next;
	}
	if (k) slot_drop(x, before);
	r->position += k;
	r->drafts = 0;
}

bool executor_release(struct executor *x, int request, struct error *e)
{
	struct request *r = request_of(x, request, e);

	if (!r) return false;
	settle(x, r, 0);
	slot_drop(x, r->slot);
	r->used = false;
	x->planned = false;
	return true;
}

int executor_position(const struct executor *x, int request)
{
	const struct request *r = request_of(x, request, NULL);

	return r ? r->position : -1;
}

int executor_slot(const struct executor *x, int request)
{
	const struct request *r = request_of(x, request, NULL);

	return r ? r->slot : NOWHERE;
}

int executor_checkpoint(struct executor *x, int request, struct error *e)
{
	const struct request *r = request_of(x, request, e);
	int i = 0;

	if (!r) return -1;
	if (r->slot == NOWHERE || r->drafts) {
		error_set(e, E_VALUE, "request", NO_OFFSET, r->drafts ? "the speculation of request %d is open" :
		          "request %d has no memory yet", request);
		return -1;
	}
	while (i < x->handles && x->checkpoint[i].used) i++;
	if (i == x->handles) {
		error_set(e, E_MEMORY, "checkpoint", NO_OFFSET, "all %d are in use", x->handles);
		return -1;
	}
	x->checkpoint[i] = (struct checkpoint){ true, r->slot, r->position };
	x->holders[r->slot]++;
	x->planned = false;
#ifdef ETALON_FAULTS
	faults_checkpointed(x, request, i);
#endif
	return i;
}

bool executor_forget(struct executor *x, int checkpoint, struct error *e)
{
	struct checkpoint *c = checkpoint_of(x, checkpoint, e);

	if (!c) return false;
	slot_drop(x, c->slot);
	c->used = false;
	x->planned = false;
	return true;
}

bool executor_accept(struct executor *x, int request, int k, struct error *e)
{
	struct request *r = request_of(x, request, e);

	if (!r) return false;
	if (!r->drafts) return error_set(e, E_VALUE, "request", NO_OFFSET, "request %d has no open speculation", request);
	if (k < 0 || k > r->drafts)
		return error_set(e, E_VALUE, "k", NO_OFFSET, "expected 0 .. %d, got %d", (int)r->drafts, k);
#ifdef ETALON_FAULTS
	faults_accepted(x, request, k);
#endif
	settle(x, r, k);
	x->planned = false;
	return true;
}
