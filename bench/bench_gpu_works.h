/* The calls at real sizes that bench-gpu shares with rivals: inputs, what is right, and how far a kernel is from it. */
#ifndef ETALON_BENCH_GPU_WORKS_H
#define ETALON_BENCH_GPU_WORKS_H

#include "fixtures/io/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_ERRORS = 4, HEAD_SIZES = 6 };

/* Errors of a kernel of ours, |x - y| / |y| of each output, y the reference in float64. kernel: as a capture's producer has
 * it, without "etalon" and CUDA's version; or the case that picked it. */
typedef void errors_found(const char *work, const char *kernel, int n, const double *errors);

/* Runs each rung of each work's op on the work's inputs, tells `found`, and writes DIR/WORK.safetensors: the inputs "in.NAME",
 * the parameters, and "truth.NAME" for every output, F64 where the output is F32 and F32 where it is narrower. False and *e:
 * the backend's errors, E_MEMORY, E_OPEN. */
bool bench_works(const char *dir, errors_found *found, struct error *e);

#ifdef __cplusplus
}
#endif
#endif
