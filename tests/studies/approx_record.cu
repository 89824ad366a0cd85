/* What the GPU that runs this answers for PTX's approximate functions (ref/arith/approx*). Not part of the build:
 *   nvcc -O2 -arch=sm_90 -o approx_record tests/studies/approx_record.cu
 *   ./approx_record sums >SUMS        for each variant, 32-bit sums over the 2^18 inputs of each of 2^14 blocks: all 2^32 inputs
 *   ./approx_record samples >SAMPLES  for each variant, two answers for each of the 2^16 upper halves of an input (lower half: 0; mixed)
 *   ./approx_record octave VARIANT SIGN EXPONENT >OUT    the answers for all 2^23 mantissas of one octave
 *   ./approx_record names             the variants in the order of the files
 * All numbers are little-endian 32-bit words. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define VARIANTS(X) \
	X(ex2, "ex2.approx.f32") X(ex2_ftz, "ex2.approx.ftz.f32") X(lg2, "lg2.approx.f32") X(lg2_ftz, "lg2.approx.ftz.f32") \
	X(rcp, "rcp.approx.f32") X(rcp_ftz, "rcp.approx.ftz.f32") X(rsqrt, "rsqrt.approx.f32") X(rsqrt_ftz, "rsqrt.approx.ftz.f32") \
	X(sqrt, "sqrt.approx.f32") X(sqrt_ftz, "sqrt.approx.ftz.f32") X(sin, "sin.approx.f32") X(sin_ftz, "sin.approx.ftz.f32") \
	X(cos, "cos.approx.f32") X(cos_ftz, "cos.approx.ftz.f32") X(tanh, "tanh.approx.f32")

#define DEFINE(name, instruction) \
	struct f_##name { __device__ static float at(float x) { float y; asm volatile(instruction " %0, %1;" : "=f"(y) : "f"(x)); return y; } };
VARIANTS(DEFINE)
/* CUDA's expf, as compiled without flags; and under -use_fast_math, without and with -ftz. */
struct f_expf { __device__ static float at(float x) { return expf(x); } };
struct f_fast_expf { __device__ static float at(float x) { return __expf(x); } };
struct f_exp2f { __device__ static float at(float x) { return exp2f(x); } };

__host__ __device__ static uint32_t mixed(uint32_t in, uint32_t out)
{
	uint32_t z = in * 0x9e3779b1u ^ out;

	z = (z ^ z >> 15) * 0x85ebca6bu;
	z = (z ^ z >> 13) * 0xc2b2ae35u;
	return z ^ z >> 16;
}

template <class F> __device__ uint32_t answer(uint32_t in)
{
	return __float_as_uint(F::at(__uint_as_float(in)));
}

template <class F> __global__ void sums(uint32_t *out)
{
	uint32_t first = blockIdx.x << 18, sum = 0;

	for (uint32_t i = threadIdx.x; i < 1u << 18; i += blockDim.x)
		sum += mixed(first + i, answer<F>(first + i));
	atomicAdd(out + blockIdx.x, sum);
}

template <class F> __global__ void samples(uint32_t *out)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = answer<F>(i << 16);
	out[i + (1 << 16)] = answer<F>(i << 16 | mixed(i, 0) >> 16);
}

template <class F> __global__ void octave(uint32_t *out, uint32_t first)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = answer<F>(first + i);
}

template <class F> static void run(const char *mode, uint32_t first)
{
	size_t n = !strcmp(mode, "sums") ? 1 << 14 : !strcmp(mode, "samples") ? 1 << 17 : 1 << 23;
	std::vector<uint32_t> out(n);
	uint32_t *device;

	cudaMalloc(&device, n * 4);
	cudaMemset(device, 0, n * 4);
	if (!strcmp(mode, "sums"))
		sums<F><<<1 << 14, 256>>>(device);
	else if (!strcmp(mode, "samples"))
		samples<F><<<256, 256>>>(device);
	else
		octave<F><<<1 << 15, 256>>>(device, first);
	if (cudaMemcpy(out.data(), device, n * 4, cudaMemcpyDeviceToHost) != cudaSuccess) {
		fprintf(stderr, "approx_record: %s\n", cudaGetErrorString(cudaGetLastError()));
		exit(4);
	}
	cudaFree(device);
	fwrite(out.data(), 4, n, stdout);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "names", *only = argc > 2 ? argv[2] : NULL;
	uint32_t first = argc > 4 ? (uint32_t)atoi(argv[3]) << 31 | (uint32_t)(127 + atoi(argv[4])) << 23 : 0;

#define ONE(name, instruction) \
	if (!strcmp(mode, "names")) \
		puts(#name); \
	else if (!only || !strcmp(only, #name)) \
		run<f_##name>(mode, first);
	VARIANTS(ONE) ONE(expf, 0) ONE(fast_expf, 0) ONE(exp2f, 0)
	return fflush(stdout) != 0 || cudaGetLastError() != cudaSuccess;
}
