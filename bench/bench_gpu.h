/* The parts of bench-gpu. */
#ifndef ETALON_BENCH_GPU_H
#define ETALON_BENCH_GPU_H

#include <string>

#include "gpu/kernels/newton_schulz.cuh"

/* Polar Express, five iterations, safety factor 1.05; gram restarts before the third. */
newton_schulz_plan polar_express(enum algorithm a);

/* Every product and the iterations against double precision on the host, a line for each that is
 * wrong and one that counts them. True if none is. */
bool selftest(cublas &general);

/* Prints times of symmetric products and of Newton-Schulz. folder: for rivals' files of the latter; empty: none are written. */
void bench_products(cublas &general, cudaStream_t stream, const std::string &folder);

/* Prints times of the executor's decoding step. */
void bench_executor();

/* Prints times of the kernels over rows that have no table of their own. */
void bench_rows(cudaStream_t stream);

/* Prints times of the fused small kernels and of those that they replace. */
void bench_fused();

/* Prints times and errors of the gated delta rule's prefill. */
void bench_prefill(cudaStream_t stream);

#endif
