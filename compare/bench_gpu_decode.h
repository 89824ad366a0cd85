/* Ways of decoding a step that bench-gpu times. */
#ifndef ETALON_BENCH_GPU_DECODE_H
#define ETALON_BENCH_GPU_DECODE_H

#include <vector>

#include "gpu/executor_cuda.cuh"

/* A whole step replayed as a graph, as `decode` says or by `kernel`, grids overlapping or not. */
struct way { const char *name; enum decode_way decode; bool overlap; void (*kernel)(layer_view); int threads, shared; };

/* Kernels that are tried for such states. counting: those that wait for one another by counts, and might wait for ever. */
std::vector<way> decode_tries(enum dtype state, bool counting);

#endif
