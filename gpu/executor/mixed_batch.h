/* The op mixed_batch on an executor's backend. */
#ifndef ETALON_MIXED_BATCH_H
#define ETALON_MIXED_BATCH_H

#include "fixtures/cases/capture.h"
#include "gpu/executor/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Plays the steps of a capture of mixed_batch: fills the pools from in.state_pool and in.conv_pool, runs each step
 * (replayed: decode rows from graphs) and fills out.y, out.state_pool and out.conv_pool. Within a step decode and
 * padding rows are moved before the others. y of padding is 0. Weights may be BF16, F16 or F32; x, z, a, b, y and conv_pool are
 * alike, BF16 or F32. Errors: E_MISSING, E_DIM, E_DTYPE, E_PARAM (a layout of convolution inputs other than ring, a scale
 * other than Dk^-1/2), E_VALUE (unsound tables), E_MEMORY, the backend's. */
bool mixed_batch_play(const struct executor_backend *backend, bool replay, struct capture *c, struct error *e);

/* The backend "cpu", which knows this op alone: plays c on executor_cpu. Also E_OP. */
bool mixed_batch_cpu(struct capture *c, struct error *e);

#ifdef __cplusplus
}
#endif
#endif
