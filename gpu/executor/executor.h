/* Runs the core of gated delta layers for batches that mix decoding, speculating and prefilling
 * requests, over pools of memory that live in slots. Per layer, token and value head h, which reads
 * key head h / (Hv/Hk):
 *
 *   c = silu(sum_w conv_weight[:,w] x_{p-W+1+w});   q | k | v = c
 *   q, k <- x (sum x^2 + l2_eps)^-1/2;   q <- Dk^-1/2 q
 *   g = -exp(A_log) softplus(a + dt_bias);   beta = sigmoid(b)
 *   S <- exp(g) S;   u = beta (v - S'k);   S <- S + k u';   o = S'q
 *   y = o (mean o^2 + norm_eps)^-1/2 norm_weight silu(z)
 *
 * A slot holds a request's memory: states [layers,Hv,Dk,Dv] and rings [layers,C,W], the last W inputs
 * of the convolution, the one at position p of its request in column p mod W; an input before the
 * request's first is zero. C = 2 Hk Dk + Hv Dv, in the order q, k, v.
 *
 * The executor is plain C: it decides which slot a row reads and which its tokens write. A backend
 * holds the pools and computes. All is allocated when it is opened, nothing in a step.
 *
 * Functions that can fail return false, or a negative number, and set *e. */
#ifndef ETALON_EXECUTOR_H
#define ETALON_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fixtures/io/dtype.h"
#include "fixtures/io/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct executor_shape {
	int layers, Hk, Hv, Dk, Dv, W;
	size_t slots;
	int max_tokens, max_rows;       /* of a step, padding included */
	enum dtype state;               /* of the states in the pool: DT_F32 or DT_BF16 */
	enum dtype data;                /* of x, z, a, b, y and the rings: DT_F32 or DT_BF16 */
	float l2_eps, norm_eps;
};

static inline size_t executor_channels(const struct executor_shape *s)
{
	return 2 * (size_t)s->Hk * (size_t)s->Dk + (size_t)s->Hv * (size_t)s->Dv;
}
/* Bytes of one slot's states [layers,Hv,Dk,Dv] and rings [layers,C,W]. */
size_t executor_state_bytes(const struct executor_shape *s);
size_t executor_ring_bytes(const struct executor_shape *s);

/* Of all layers, in float32: conv [layers,C,W], A_log, dt_bias [layers,Hv], norm [layers,Dv]. */
struct executor_weights { const float *conv, *A_log, *dt_bias, *norm; };

/* ---- one step, as a backend gets it ---- */

enum row_kind { ROW_DECODE, ROW_PREFILL, ROW_SPECULATIVE, ROW_PADDING };

/* The tables of a step. Its first decode_rows rows have one token each and are ROW_DECODE or
 * ROW_PADDING; the others are ROW_PREFILL or ROW_SPECULATIVE. ring_read and ring_write are read_slot
 * and write_slot again, for the rings. Decode rows run at once, then the others at once: sound tables let no row write
 * a slot that another one of the step reads or writes. */
struct executor_step {
	int rows, tokens, decode_rows;
	const int32_t *kinds;           /* [rows] */
	const int32_t *cu_seqlens;      /* [rows+1]: row r has tokens cu_seqlens[r] .. cu_seqlens[r+1]-1 */
	const int32_t *read_slot;       /* [rows]: the memory before the row's first token; -1: zeros, or padding */
	const int32_t *write_slot;      /* [tokens]: where the memory after that token goes; -1: nowhere */
	const int32_t *ring_read, *ring_write;
	const int32_t *position;        /* [rows]: of the row's first token in its request */
};

/* Host pointers, in the order of the step's tokens. y of a padding row is not touched. */
struct executor_data {
	const void *x;                  /* [tokens,layers,C] */
	const void *z;                  /* [tokens,layers,Hv,Dv] */
	const void *a, *b;              /* [tokens,layers,Hv] */
	void *y;                        /* [tokens,layers,Hv,Dv] */
};

/* What a backend promises of a request's y and memory, to the bit. BATCH: the same whatever other rows, their order and
 * padding are in the step. SPLIT: and into whatever steps its tokens are split, if states are kept in float32. A backend that prefills in
 * chunks promises no SPLIT for shapes that it does so with: the chunks of another split are others. F32: nothing is rounded
 * between load and store; without it, the convolution's output and o may be, to the type of data. */
enum { PROMISE_BATCH = 1, PROMISE_SPLIT = 2, PROMISE_F32 = 4 };

struct executor_backend {
	const char *name;
	unsigned (*promises)(const struct executor_shape *s);
	/* Copies weights. The pools are zero at first. */
	void *(*open)(const struct executor_shape *s, const struct executor_weights *w, struct error *e);
	void (*close)(void *b);         /* NULL is allowed */
	/* All layers of a step. replay: the rows of the decode part run from a graph that was captured once for this
	 * number of rows; only the tables and the data are new. A backend without graphs ignores it. */
	bool (*run)(void *b, const struct executor_step *step, const struct executor_data *data, bool replay, struct error *e);
	/* One slot, from and to host memory of executor_state_bytes and executor_ring_bytes. */
	bool (*read)(void *b, size_t slot, void *states, void *rings, struct error *e);
	bool (*write)(void *b, size_t slot, const void *states, const void *rings, struct error *e);
	/* Are the guard bands around every buffer intact? If not, E_VALUE: the buffer's name and the first byte's offset. */
	bool (*guards)(void *b, struct error *e);
};

extern const struct executor_backend executor_cpu;      /* plain float32 loops */
/* The CUDA backend; NULL, and *e is E_NO_BACKEND, in a build without nvcc. */
const struct executor_backend *executor_cuda(struct error *e);

/* ---- requests ---- */

struct executor;

/* Borrows nothing. NULL and *e: E_DIM, E_DTYPE, E_MEMORY, or the backend's errors. */
struct executor *executor_open(const struct executor_backend *backend, const struct executor_shape *s,
                               const struct executor_weights *w, struct error *e);
void executor_close(struct executor *x);                /* NULL is allowed */

/* A new request, at position 0, or where the checkpoint was taken (checkpoint >= 0). It takes no slot until it runs.
 * Returns its handle; handles of released requests are used again. At most slots + max_rows requests, and as many
 * checkpoints, at a time: E_MEMORY. */
int executor_admit(struct executor *x, int checkpoint, struct error *e);
/* Ends a request, at once and at any time; preemption is release and, later, admission. */
bool executor_release(struct executor *x, int request, struct error *e);
int executor_position(const struct executor *x, int request);   /* tokens that its memory has seen */
int executor_slot(const struct executor *x, int request);       /* where its memory is; -1: nowhere yet */

/* Keeps the request's present memory for later requests and returns the checkpoint's handle. Nothing is copied: the
 * slot is shared, and whoever writes next writes elsewhere. E_VALUE: it has no memory yet, or its speculation is open. */
int executor_checkpoint(struct executor *x, int request, struct error *e);
bool executor_forget(struct executor *x, int checkpoint, struct error *e);

/* What one request does in a step: `tokens` of its input, one after the other; or a speculation on them, where the
 * memory after each token is kept until executor_accept. */
struct executor_work { int request, tokens; bool speculative; };

/* Plans a step of n >= 1 pieces of work, no request twice. A request that has memory and runs one token not
 * speculatively decodes; decode rows stand first, in the order of work, and are padded to decode_rows (0: not padded;
 * at least as many as there are). order [rows of the step] receives the index of each row's work, -1 for padding.
 * The step's tables are x's own until the next plan. A free slot is taken last in, first out; first of all 0 and the pool's
 * last one. Nothing is taken before the step has run: a plan may be dropped for another. E_MEMORY where slots run out;
 * E_VALUE (unknown, or its speculation is open), E_DUPLICATE, E_EMPTY, E_DIM (too many rows or tokens). */
bool executor_plan(struct executor *x, const struct executor_work *work, int n, int decode_rows, struct executor_step *step,
                   int *order, struct error *e);
/* Runs the planned step, once. E_USAGE: none is planned, or a release, checkpoint, forget or accept came since. After the
 * backend's own errors the pools hold no one knows what. */
bool executor_run(struct executor *x, const struct executor_data *data, bool replay, struct error *e);
/* After a speculative row of n tokens: its first k, 0 <= k <= n, stand. No copy: an index moves. A request whose
 * speculation is open can be neither planned nor checkpointed. */
bool executor_accept(struct executor *x, int request, int k, struct error *e);

/* For laws: slots from outside, and what the executor's backend says. */
bool executor_read(struct executor *x, size_t slot, void *states, void *rings, struct error *e);
bool executor_write(struct executor *x, size_t slot, const void *states, const void *rings, struct error *e);
bool executor_guards(struct executor *x, struct error *e);

/* ---- faults on purpose, to test laws with ---- */

struct executor_fault { const char *name, *what, *seen; };
/* All faults, ending with a NULL name; none in a build without -DETALON_FAULTS. */
extern const struct executor_fault executor_faults[];
/* Makes the named fault from now on, in executors opened later too; NULL: none. False: unknown, or not compiled in. */
bool executor_inject(const char *name);

#ifdef __cplusplus
}
#endif
#endif
