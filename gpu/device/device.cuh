/* What kernels share: number formats, 16-byte accesses, sums over a warp or a block, sequences.
 *
 * All arithmetic is f32. A load converts to f32, which is exact; a store rounds to nearest even. */
#ifndef ETALON_DEVICE_CUH
#define ETALON_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "fixtures/io/dtype.h"

using bf16 = __nv_bfloat16;
using f16 = __half;

__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }
__device__ inline float to_float(f16 x) { return __half2float(x); }
__device__ inline float to_float(float x) { return x; }

__device__ inline void from_float(bf16 &y, float x) { y = __float2bfloat16_rn(x); }
__device__ inline void from_float(f16 &y, float x) { y = __float2half_rn(x); }
__device__ inline void from_float(float &y, float x) { y = x; }

/* ---- wide accesses ---- */

/* Largest power of two that divides n bytes, at most 16. */
constexpr unsigned access_bytes(size_t n)
{
	size_t low = n & (~n + 1);
	return low < 16 ? (unsigned)low : 16;
}

/* N neighbours of a row, moved by accesses of up to 16 bytes. */
template <int N, class F> struct alignas(access_bytes(N * sizeof(F))) pack { F at[N]; };

/* p is a multiple of N elements away from a 16-byte boundary. */
template <int N, class F> __device__ pack<N, F> load_pack(const F *p)
{
	return *reinterpret_cast<const pack<N, F> *>(p);
}

template <int N, class F> __device__ void load(float (&x)[N], const F *p)
{
	pack<N, F> raw = load_pack<N>(p);
#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = to_float(raw.at[i]);
}

template <int N, class F> __device__ void store(F *p, const float (&x)[N])
{
	pack<N, F> raw;
#pragma unroll
	for (int i = 0; i < N; i++)
		from_float(raw.at[i], x[i]);
	*reinterpret_cast<pack<N, F> *>(p) = raw;
}

/* The first `valid` of N elements (all or none if WIDE: then p is aligned), zeros beyond. */
template <bool WIDE, int N, class F> __device__ pack<N, F> load_part(const F *p, int valid)
{
	pack<N, F> x = {};

	if constexpr (WIDE) {
		if (valid > 0)
			x = load_pack<N>(p);
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			if (i < valid)
				x.at[i] = p[i];
	}
	return x;
}

template <bool WIDE, int N, class F> __device__ void store_part(F *p, const float (&x)[N], int valid)
{
	if constexpr (WIDE) {
		if (valid > 0)
			store(p, x);
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			if (i < valid)
				from_float(p[i], x[i]);
	}
}

/* ---- operands whose format is known at run time only ---- */

/* data NULL: the operand is absent. */
struct operand {
	const void *data;
	enum dtype dtype;       /* DT_BF16, DT_F16 or DT_F32 */

	__device__ float at(size_t i) const
	{
		switch (dtype) {
		case DT_BF16: return to_float(static_cast<const bf16 *>(data)[i]);
		case DT_F16: return to_float(static_cast<const f16 *>(data)[i]);
		default: return static_cast<const float *>(data)[i];
		}
	}
};

struct result {
	void *data;
	enum dtype dtype;
};

/* x = elements [i, i + N); i a multiple of N. */
template <int N> __device__ void load(float (&x)[N], const operand &from, size_t i)
{
	switch (from.dtype) {
	case DT_BF16: load(x, static_cast<const bf16 *>(from.data) + i); break;
	case DT_F16: load(x, static_cast<const f16 *>(from.data) + i); break;
	default: load(x, static_cast<const float *>(from.data) + i);
	}
}

template <int N> __device__ void store(const result &to, size_t i, const float (&x)[N])
{
	switch (to.dtype) {
	case DT_BF16: store(static_cast<bf16 *>(to.data) + i, x); break;
	case DT_F16: store(static_cast<f16 *>(to.data) + i, x); break;
	default: store(static_cast<float *>(to.data) + i, x);
	}
}

/* ---- arithmetic ---- */

/* 1 / (1 + exp(-x)); the exponent is never positive, so that neither side overflows. The divisor is in [1,2]: its reciprocal,
 * refined once, needs none of a division's branches, which would keep the elements of a thread one after the other. */
__device__ inline float sigmoid(float x)
{
	float e = expf(-fabsf(x)), d = 1.0f + e, r;

	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
	r = fmaf(r, fmaf(-d, r, 1.0f), r);
	return x < 0 ? e * r : r;
}

__device__ inline float silu(float x) { return x * sigmoid(x); }

/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)). */
__device__ inline float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

/* Adds x over the lanes whose numbers differ in the bits of [low, high), powers of two; every lane
 * gets the same sum to the bit. All 32 lanes take part. */
__device__ inline float lane_sum(float x, int low, int high)
{
	for (int bit = low; bit < high; bit *= 2)
		x += __shfl_xor_sync(0xffffffffu, x, bit);
	return x;
}

/* Sum over the block, for every thread; blockDim a multiple of 32; part [32] in shared memory,
 * used by no other sum of the kernel. */
__device__ inline float block_sum(float x, float *part)
{
	int warps = (int)(blockDim.x * blockDim.y / 32);
	int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);

	x = lane_sum(x, 1, 32);
	if (thread % 32 == 0)
		part[thread / 32] = x;
	__syncthreads();
	x = 0.0f;
	for (int w = 0; w < warps; w++)
		x += part[w];
	return x;
}

/* ---- sequences ---- */

/* The n with cuts[n] <= t < cuts[n+1]; cuts [N+1] ascends from 0 and ends above t. */
__device__ inline int sequence_of(const int64_t *cuts, int N, int64_t t)
{
	int below = 0, above = N;       /* cuts[below] <= t < cuts[above] */

	while (above - below > 1) {
		int middle = below + (above - below) / 2;
		if (cuts[middle] <= t)
			below = middle;
		else
			above = middle;
	}
	return below;
}

#endif
