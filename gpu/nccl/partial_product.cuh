/* A rank's part of a product whose inner dimension is split over ranks. */
#ifndef ETALON_PARTIAL_PRODUCT_CUH
#define ETALON_PARTIAL_PRODUCT_CUH

#include "gpu/host/cuda.cuh"

/* out [M,N] = A [M,K] B', B [N,K]: a thread an element, in order of k, in f32 until the store. */
template <class F, class Out>
__global__ void partial_product(const F *A, const F *B, Out *out, int M, int N, int K)
{
	int n = (int)(blockIdx.x * blockDim.x + threadIdx.x), m = (int)blockIdx.y;
	float sum = 0.0f;

	if (n >= N)
		return;
	for (int k = 0; k < K; k++)
		sum = fmaf(to_float(A[(size_t)m * K + k]), to_float(B[(size_t)n * K + k]), sum);
	from_float(out[(size_t)m * N + n], sum);
}

template <class F, class Out>
void multiply_part(cudaStream_t stream, const F *A, const F *B, Out *out, size_t M, size_t N, size_t K)
{
	dim3 grid(blocks(N, 128), small(M, "rows", 65535));

	launch_on(stream, "partial_product", partial_product<F, Out>, grid, 128, 0, A, B, out, (int)M,
	          small(N, "columns"), small(K, "the inner dimension"));
}

#endif
