/* Mamba-3 of one input and one output a head: gpu/kernels/plain/mamba3.cuh at rank 1. */
#include "gpu/kernels/plain/mamba3.cuh"

const char *run_mamba3(capture &c) { return run_rank(c, false); }
