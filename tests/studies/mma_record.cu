/* Recorded tests/ref/arith/mma_hopper.safetensors: what one mma.sync answers for given operands, on the device that
 * runs this. Not part of the build:
 *   nvcc -O2 -arch=sm_90 -o mma_record tests/studies/mma_record.cu && ./mma_record TYPE <operands >results
 * TYPE is bf16, f16 or tf32. Operands, results: tiles of A [16,K], B [K,8], C [16,8] and D [16,8], all
 * 32-bit floats that the type holds; K is 16, for tf32 8. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

enum { M = 16, N = 8 };

template <class F> __device__ uint32_t pair(float x, float y)
{
	F two[2] = { (F)x, (F)y };
	uint32_t bits;

	memcpy(&bits, two, 4);
	return bits;
}

#define MMA(shape, type) \
	asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

/* One tile for a warp; which lane holds which element is in the PTX manual, section on mma. */
template <int K> __global__ void run(const float *operands, float *results, int type)
{
	const float *A = operands + (size_t)blockIdx.x * (M * K + K * N + M * N), *B = A + M * K, *C = B + K * N;
	float *D = results + (size_t)blockIdx.x * M * N, d[4];
	int g = threadIdx.x / 4, t = threadIdx.x % 4;
	uint32_t a[4], b[2];

	for (int i = 0; i < 4; i++)
		d[i] = C[(g + i / 2 * 8) * N + t * 2 + i % 2];
	for (int i = 0; i < 4; i++) {
		const float *at = A + (g + i % 2 * 8) * K + (K == 16 ? t * 2 + i / 2 * 8 : t + i / 2 * 4);
		a[i] = K == 8 ? __float_as_uint(at[0]) : type ? pair<__half>(at[0], at[1]) : pair<__nv_bfloat16>(at[0], at[1]);
	}
	for (int i = 0; i < 2; i++) {
		const float *at = B + (K == 16 ? t * 2 + i * 8 : t + i * 4) * N + g;
		b[i] = K == 8 ? __float_as_uint(at[0]) : type ? pair<__half>(at[0], at[N]) : pair<__nv_bfloat16>(at[0], at[N]);
	}
	if (K == 8)
		MMA("m16n8k8", "tf32");
	else if (type)
		MMA("m16n8k16", "f16");
	else
		MMA("m16n8k16", "bf16");
	for (int i = 0; i < 4; i++)
		D[(g + i / 2 * 8) * N + t * 2 + i % 2] = d[i];
}

int main(int argc, char **argv)
{
	int type = argc > 1 && !strcmp(argv[1], "tf32") ? 2 : argc > 1 && !strcmp(argv[1], "f16"), K = type == 2 ? 8 : 16;
	size_t tile = M * K + K * N + M * N;
	std::vector<float> in, one(tile);
	float *operands, *results;

	while (fread(one.data(), 4, tile, stdin) == tile)
		in.insert(in.end(), one.begin(), one.end());
	size_t tiles = in.size() / tile;
	std::vector<float> out(tiles * M * N);
	cudaMalloc(&operands, in.size() * 4);
	cudaMalloc(&results, out.size() * 4);
	cudaMemcpy(operands, in.data(), in.size() * 4, cudaMemcpyHostToDevice);
	if (K == 8)
		run<8><<<tiles, 32>>>(operands, results, type);
	else
		run<16><<<tiles, 32>>>(operands, results, type);
	cudaMemcpy(out.data(), results, out.size() * 4, cudaMemcpyDeviceToHost);
	fwrite(out.data(), 4, out.size(), stdout);
	fprintf(stderr, "%zu tiles: %s\n", tiles, cudaGetErrorString(cudaGetLastError()));
	return cudaGetLastError() != cudaSuccess;
}
