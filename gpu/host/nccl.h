/* The backend "nccl": calls over several devices. */
#ifndef ETALON_HOST_NCCL_H
#define ETALON_HOST_NCCL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "fixtures/cases/capture.h"

/* Runs c's op as backend_run (gpu/host/backend.h) does, over as many devices as the call has ranks.
 * Defined by gpu/nccl/cuda_ranks.cu, or by gpu/no_cuda.c. Without nccl.h at build time, or
 * libnccl when it runs, the error is E_NO_BACKEND. */
bool nccl_run(struct capture *c, struct error *e);

#ifdef __cplusplus
}
#endif

#endif
