/* The parts of bench-gpu. */
#ifndef ETALON_BENCH_GPU_H
#define ETALON_BENCH_GPU_H

#include "gpu/newton_schulz.cuh"

/* Polar Express, five iterations, safety factor 1.05; gram restarts before the third. */
newton_schulz_plan polar_express(enum algorithm a);

/* Every product and the iterations against double precision on the host, a line for each that is
 * wrong and one that counts them. True if none is. */
bool selftest(cublas &general);

/* Prints times of the executor's decoding step. */
void bench_executor();

/* Prints times of the fused small kernels and of those that they replace. */
void bench_fused();

/* Prints times and errors of the gated delta rule's prefill. Writes its numbers and the answers in f32 to the safetensors file
 * `path` (q, k, v, a, b, A_log, dt_bias, initial_state, o, final_state) unless it is NULL. */
void bench_prefill(cudaStream_t stream, const char *path);

#endif
