/* Faults of the executor, in a build with -DETALON_FAULTS only: the step as the backend is handed it. In f->step and
 * f->tables a copy of the planned step is corrupted; the planned one stays as it was published. */
#ifndef ETALON_EXECUTOR_FAULTS_PRIVATE_H
#define ETALON_EXECUTOR_FAULTS_PRIVATE_H

#include "gpu/executor/executor_private.h"

enum { X, Z, A, B, Y, ARRAYS };

struct faults {
	const char *noted;              /* all notes below were taken for this fault */
	struct executor_step step;
	struct tables tables;
	/* a slot to read in place of the planned one: for a request's next row, and for requests from a checkpoint */
	int32_t *request_reads;         /* [handles] */
	int32_t *checkpoint_reads;      /* [handles] */
	int32_t *asked_by;              /* [handles]: the request after whose next step the checkpoint is taken; NOWHERE: in time */
	int32_t *home;                  /* [slots]: where the memory is that should be in the slot */
	int32_t *graph;                 /* [max_rows+1,2,max_rows]: by decode_rows, the first slots read, and written */
	bool *captured;                 /* [max_rows+1] */
	int tokens;                     /* those that the backend is handed; -1: all, where they are */
	int32_t *token;                 /* [max_tokens]: which */
	unsigned char *packed[ARRAYS];  /* their data */
};

static inline void read_from(struct faults *f, int row, int32_t slot)
{
	f->tables.read_slot[row] = f->tables.ring_read[row] = slot;
}

static inline void write_to(struct faults *f, int token, int32_t slot)
{
	f->tables.write_slot[token] = f->tables.ring_write[token] = slot;
}

static inline int last_token(const struct executor_step *s, int row) { return s->cu_seqlens[row + 1] - 1; }
/* The slot that its last token writes to. */
static inline int32_t row_writes(const struct executor_step *s, int row) { return s->write_slot[last_token(s, row)]; }

/* As the injected fault has it, where that depends on this step alone or on where memory has its home. */
void faults_corrupt(struct faults *f, const struct executor_step *planned);

#endif
