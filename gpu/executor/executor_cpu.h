/* The CPU backend's own: its buffers, and the layer that it computes. */
#ifndef ETALON_EXECUTOR_CPU_H
#define ETALON_EXECUTOR_CPU_H

#include "gpu/executor/executor.h"
#include "gpu/executor/guarded_buffer.h"

/* L layers, T max_tokens, R max_rows. All float, but for the first two (state, data) and the tables (int32). */
enum {
	STATES,                         /* [slots,L,Hv,Dk,Dv] */
	RINGS,                          /* [slots,L,C,W] */
	CONVOLVED,                      /* [T,C]: after SiLU; q and k after their norm */
	GATES,                          /* [T,Hv,2]: exp(g), beta */
	OUTPUT,                         /* [T,Hv,Dv]: o */
	WINDOW,                         /* [R,W,C]: a row's last inputs, the one at position p in p mod W */
	STATE,                          /* [R,Dk,Dv]: of the head at work */
	VECTOR,                         /* [max(C,Hv Dv)] */
	WEIGHTS,                        /* conv [L,W,C], A_log, dt_bias [L,Hv], norm [L,Dv] */
	TABLES,
	BUFFERS
};

struct executor_cpu {
	struct executor_shape shape;
	size_t C;
	struct guarded_buffer buffer[BUFFERS];
	struct executor_step step;      /* its tables lie in TABLES */
};

/* One layer of the step. */
void executor_cpu_layer(struct executor_cpu *b, int layer, const struct executor_data *data);

/* n elements of d at p to float; from float, to nearest even. NaNs stay NaN. */
void executor_cpu_load(float *to, enum dtype d, const void *p, size_t n);
void executor_cpu_store(void *p, enum dtype d, const float *from, size_t n);

/* A slot's part of one layer, in a pool of `stride` elements of `size` bytes per slot. */
void *executor_cpu_slot(const struct guarded_buffer *pool, size_t slot, size_t stride, size_t size, size_t within);

#endif
