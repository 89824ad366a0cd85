/* Mamba-3 of R inputs and outputs a head: gpu/kernels/plain/mamba3.cuh. */
#include "gpu/kernels/plain/mamba3.cuh"

const char *run_mamba3_mimo(capture &c) { return run_rank(c, true); }
