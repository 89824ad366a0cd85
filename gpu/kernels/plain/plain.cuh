/* What the plain kernels share: one launch a call, operands of any type, a sequence's tokens. */
#ifndef ETALON_PLAIN_CUH
#define ETALON_PLAIN_CUH

#include "gpu/host/cuda.cuh"

__device__ inline void put(const result &to, size_t i, float x)
{
	const float one[1] = { x };

	store<1>(to, i, one);
}

/* The tokens of sequence n, begin to end. */
struct tokens {
	const int64_t *cuts;    /* [N+1] */

	__device__ int begin(int n) const { return (int)cuts[n]; }
	__device__ int end(int n) const { return (int)cuts[n + 1]; }
};

#endif
