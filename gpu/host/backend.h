/* Backends run a kernel on the inputs of a capture and fill its outputs. Nothing here knows ref/. */
#ifndef ETALON_BACKEND_H
#define ETALON_BACKEND_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "fixtures/cases/capture.h"

/* Runs c's op on the backend named by spec: "cuda" (this folder's kernels), "cpu" (plain C, of the
 * op mixed_batch only) or "plugin:LIB.so" (see plugin.h). c has its inputs and, for every output, a
 * tensor of the right shape and dtype; on success these are filled, and etalon.producer and
 * etalon.device are set (and for cuda etalon.source_sha256). An output dtype or a parameter that
 * the kernel has no form for is refused. Errors: E_NO_BACKEND (built without nvcc), E_NO_DEVICE, E_DEVICE, E_USAGE, E_OP,
 * E_PARAM, E_DIM, E_DTYPE, E_MEMORY. */
bool backend_run(const char *spec, struct capture *c, struct error *e);

/* SHA-256 (64 hex digits) of the sources in gpu/ that make up the op's kernels, or those of the engine, which is "model", taken
 * at build time (gpu/sources.sh). NULL for an op with no kernel. */
const char *gpu_source_sha256(const char *op);

/* Defined by cuda_ops.cu, or by no_cuda.c in a build without nvcc. */
bool cuda_run(struct capture *c, struct error *e);

/* Loads `library` (a path; one without '/' is of the working directory) and calls it. */
bool plugin_run(const char *library, struct capture *c, struct error *e);

/* Sets etalon.producer, etalon.device and, unless NULL, etalon.source_sha256 of c and of its
 * metadata; the strings are copied. */
bool backend_stamp(struct capture *c, const char *producer, const char *device, const char *sha256,
                   struct error *e);

#ifdef __cplusplus
}
#endif
#endif
