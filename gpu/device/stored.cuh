/* Operands that are loaded first and converted later. */
#ifndef ETALON_STORED_CUH
#define ETALON_STORED_CUH

#include "gpu/device/device.cuh"

/* N elements of an operand as they are stored: a conversion would wait for its load. */
template <int N> struct stored {
	uint32_t word[N];
	enum dtype dtype;

	__device__ stored(const operand &from, size_t i) : dtype(from.dtype)
	{
		const char *at = static_cast<const char *>(from.data) + i * (dtype == DT_F32 ? 4 : 2);

		if (dtype == DT_F32)
			take<N>(at);
		else
			take<N / 2>(at);
	}

	__device__ void convert(float (&x)[N]) const
	{
#pragma unroll
		for (int i = 0; i < N; i++) {
			uint32_t two = word[i / 2];
			if (dtype == DT_F32)
				x[i] = __uint_as_float(word[i]);
			else if (dtype == DT_BF16)
				x[i] = __uint_as_float(i % 2 ? two & 0xffff0000u : two << 16);
			else
				x[i] = to_float(__ushort_as_half((unsigned short)(i % 2 ? two >> 16 : two)));
		}
	}

private:
	template <int M> __device__ void take(const char *at)
	{
		pack<M, uint32_t> raw = load_pack<M>(reinterpret_cast<const uint32_t *>(at));

#pragma unroll
		for (int i = 0; i < M; i++)
			word[i] = raw.at[i];
	}
};

#endif
