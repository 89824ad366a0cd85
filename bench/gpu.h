/* The parts of bench-gpu. Each prints rows (bench/row.h). */
#ifndef ETALON_BENCH_GPU_H
#define ETALON_BENCH_GPU_H

#include <string>

#include "gpu/kernels/newton_schulz.cuh"

/* Polar Express, five iterations, safety factor 1.05; gram restarts before the third. */
newton_schulz_plan polar_express(enum algorithm a);

/* Every product and the iterations against double precision on the host, a line for each that is
 * wrong and one that counts them. True if none is. */
bool selftest(cublas &general);

/* Symmetric products and Newton-Schulz. folder: for rivals' files of the latter; empty: none are
 * written. */
void bench_products(cublas &general, cudaStream_t stream, const std::string &folder);

void bench_executor();                          /* the executor's decoding step */
void bench_rows(cudaStream_t stream);           /* kernels over rows that have nothing to be fused with */
void bench_fused(cudaStream_t stream);          /* fused small kernels, and those that they replace */
void bench_prefill(cudaStream_t stream);        /* the gated delta rule's prefill */

#endif
