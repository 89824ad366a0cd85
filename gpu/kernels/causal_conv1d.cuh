/* The kernels of causal_conv1d, for its launcher, for the engine of whole models and for what times them. */
#ifndef ETALON_CAUSAL_CONV1D_CUH
#define ETALON_CAUSAL_CONV1D_CUH

#include "gpu/host/cuda.cuh"

template <class F> struct conv {
	const F *x;
	operand weight, bias, initial;  /* bias, initial: data NULL when absent */
	F *y;
	result final_state;             /* data NULL when not asked for; may be initial's, for one sequence */
	const int64_t *cuts;
	int N, C;
	int64_t T;
	bool silu;
};

/* Enqueues it; decode: every sequence has one token. x and y lie at multiples of 16 bytes. Returns the kernel's name, a
 * constant. Refuses W above 8. */
template <class F> const char *convolve(const conv<F> &m, int W, bool decode, cudaStream_t stream = nullptr);

#endif
