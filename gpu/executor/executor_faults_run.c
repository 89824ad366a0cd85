/* What faults remember from step to step, and the run of a corrupted step. */
#ifdef ETALON_FAULTS
#include "gpu/executor/executor_faults_private.h"

#include <stdlib.h>
#include <string.h>

enum { AS_PLANNED = -2 };         /* no other slot than the planned one */

/* ---- memory ---- */

static size_t token_bytes(const struct executor_shape *s, int array)
{
	size_t Hv = (size_t)s->Hv, n = array == X ? executor_channels(s) : array == A || array == B ? Hv : Hv * (size_t)s->Dv;

	return (size_t)s->layers * n * dtype_info[s->data].size;
}

bool faults_open(struct executor *x, struct error *e)
{
	struct faults *f = x->faults = calloc(1, sizeof *f);
	size_t R = (size_t)x->shape.max_rows, T = (size_t)x->shape.max_tokens, handles = (size_t)x->handles;
	bool ok = f && tables_open(&f->tables, &x->shape);

	ok = ok && (f->request_reads = calloc(handles, sizeof(int32_t))) && (f->checkpoint_reads = calloc(handles, sizeof(int32_t)));
	ok = ok && (f->asked_by = calloc(handles, sizeof(int32_t))) && (f->home = calloc(x->shape.slots, sizeof(int32_t)));
	ok = ok && (f->graph = calloc((R + 1) * 2 * R, sizeof(int32_t))) && (f->captured = calloc(R + 1, sizeof(bool)));
	ok = ok && (f->token = calloc(T, sizeof(int32_t)));
	for (int i = 0; ok && i < ARRAYS; i++) ok = (f->packed[i] = calloc(T, token_bytes(&x->shape, i))) != NULL;
	return ok || error_set(e, E_MEMORY, "executor", NO_OFFSET, "what faults need");
}

void faults_close(struct executor *x)
{
	struct faults *f = x->faults;

	if (!f) return;
	void *all[] = { f->tables.kinds, f->request_reads, f->checkpoint_reads, f->asked_by, f->home, f->graph, f->captured, f->token };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
	for (int i = 0; i < ARRAYS; i++) free(f->packed[i]);
	free(f);
}

/* ---- what depends on earlier steps ---- */

/* stale_slot_table_in_graph: the tables of the first step with so many decode rows are the graph's. */
static void stale_graph(struct faults *f, const struct executor *x, bool replay)
{
	size_t n = (size_t)x->step.decode_rows, R = (size_t)x->shape.max_rows;
	int32_t *reads = f->graph + n * 2 * R, *writes = reads + R;

	if (!f->captured[n]) {
		f->captured[n] = true;
		memcpy(reads, x->step.read_slot, n * sizeof *reads);
		memcpy(writes, x->step.write_slot, n * sizeof *writes);
	}
	for (int r = 0; replay && r < x->step.decode_rows; r++) {
		read_from(f, r, reads[r]);
		write_to(f, r, writes[r]);
	}
}

/* A request or checkpoint whose memory is believed to be in another slot: its next row reads that. */
static void mislead(struct faults *f, const struct executor *x)
{
	for (int r = 0; r < x->step.rows; r++) {
		if (x->row_request[r] == NOWHERE) continue;
		int32_t *instead = &f->request_reads[x->row_request[r]];
		if (*instead != AS_PLANNED) read_from(f, r, *instead);
		*instead = AS_PLANNED;
	}
}

/* The request's next step has gone from its slot to another: checkpoints that wait for that are believed to be there. */
static void boundary(struct executor *x, int request, int32_t from, int32_t to)
{
	struct faults *f = x->faults;

	for (int i = 0; i < x->handles; i++) {
		if (!x->checkpoint[i].used || f->asked_by[i] != request || x->checkpoint[i].slot != from) continue;
		f->checkpoint_reads[i] = to;
	}
}

/* Forgets what was noted for another fault. */
static struct faults *notes(struct executor *x)
{
	struct faults *f = x->faults;
	const char *now = NULL;

	for (const struct executor_fault *t = executor_faults; t->name; t++)
		if (executor_fault_is(t->name)) now = t->name;
	if (now == f->noted) return f;
	f->noted = now;
	for (int i = 0; i < x->handles; i++) {
		f->request_reads[i] = f->checkpoint_reads[i] = AS_PLANNED;
		f->asked_by[i] = NOWHERE;
	}
	for (size_t i = 0; i < x->shape.slots; i++) f->home[i] = (int32_t)i;
	memset(f->captured, 0, (size_t)x->shape.max_rows + 1);
	return f;
}

void faults_checkpointed(struct executor *x, int request, int checkpoint)
{
	struct faults *f = notes(x);

	f->checkpoint_reads[checkpoint] = f->request_reads[request];
	f->asked_by[checkpoint] = executor_fault_is("checkpoint_at_wrong_boundary") ? request : NOWHERE;
}

void faults_admitted(struct executor *x, int request, int checkpoint)
{
	struct faults *f = notes(x);

	f->request_reads[request] = checkpoint < 0 ? AS_PLANNED : f->checkpoint_reads[checkpoint];
}

void faults_accepted(struct executor *x, int request, int k)
{
	struct faults *f = notes(x);
	const struct request *r = &x->request[request];
	int32_t kept = r->slot, slot = r->first_draft;

	for (int i = 1; i <= r->drafts; i++, slot = x->next_draft[slot]) {
		if (i == k) kept = slot;
		if (i == k + 1 && executor_fault_is("accepted_row_off_by_one")) f->request_reads[request] = slot;
	}
	boundary(x, request, r->slot, kept);
}

/* ---- running ---- */

static void copy_step(struct faults *f, const struct executor_step *s)
{
	const struct tables *t = &f->tables;
	size_t R = (size_t)s->rows * sizeof(int32_t), T = (size_t)s->tokens * sizeof(int32_t);

	memcpy(t->kinds, s->kinds, R);
	memcpy(t->cu_seqlens, s->cu_seqlens, R + sizeof(int32_t));
	memcpy(t->read_slot, s->read_slot, R);
	memcpy(t->ring_read, s->ring_read, R);
	memcpy(t->position, s->position, R);
	memcpy(t->write_slot, s->write_slot, T);
	memcpy(t->ring_write, s->ring_write, T);
	f->tokens = -1;
	f->step = (struct executor_step){
		s->rows, s->tokens, s->decode_rows, t->kinds, t->cu_seqlens, t->read_slot, t->write_slot, t->ring_read, t->ring_write,
		t->position
	};
}

/* Data of the kept tokens, one behind the other; back: y returns to its places. */
static void pack(struct faults *f, const struct executor *x, const struct executor_data *d, bool back)
{
	const void *from[ARRAYS] = { [X] = d->x, [Z] = d->z, [A] = d->a, [B] = d->b, [Y] = d->y };

	for (int i = back ? Y : X; i < ARRAYS; i++) {
		size_t n = token_bytes(&x->shape, i);
		for (int t = 0; t < f->tokens; t++) {
			size_t at = (size_t)f->token[t] * n;
			if (back) memcpy((char *)d->y + at, f->packed[i] + (size_t)t * n, n);
			else memcpy(f->packed[i] + (size_t)t * n, (const char *)from[i] + at, n);
		}
	}
}

bool faults_run(struct executor *x, const struct executor_data *data, bool replay, struct error *e)
{
	struct faults *f = notes(x);
	const struct executor_step *s = &x->step;

	copy_step(f, s);
	faults_corrupt(f, s);
	if (executor_fault_is("stale_slot_table_in_graph")) stale_graph(f, x, replay);
	mislead(f, x);
	for (int r = 0; r < s->rows; r++)
		if (s->kinds[r] == ROW_DECODE || s->kinds[r] == ROW_PREFILL)
			boundary(x, x->row_request[r], s->read_slot[r], row_writes(s, r));
	if (f->tokens < 0) return x->backend->run(x->pools, &f->step, data, replay, e);
	if (f->tokens == 0) return true;
	const struct executor_data packed = { f->packed[X], f->packed[Z], f->packed[A], f->packed[B], f->packed[Y] };
	pack(f, x, data, false);
	if (!x->backend->run(x->pools, &f->step, &packed, replay, e)) return false;
	pack(f, x, data, true);
	return true;
}

#endif
