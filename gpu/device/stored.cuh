/* Operands that are loaded first and converted later. */
#ifndef ETALON_STORED_CUH
#define ETALON_STORED_CUH

#include "gpu/device/device.cuh"

/* N elements of an operand as they are stored, N even: a conversion would wait for its load, and so would a choice between what
 * two loads brought. The words of N 16-bit elements, and as many more where elements are f32. */
template <int N> struct stored {
	pack<N / 2, uint32_t> words, more;
	enum dtype dtype;

	__device__ stored(const operand &from, size_t i) : dtype(from.dtype)
	{
		const uint32_t *at = static_cast<const uint32_t *>(from.data) + i / (dtype == DT_F32 ? 1 : 2);

		words = load_pack<N / 2>(at);
		if (dtype == DT_F32)
			more = load_pack<N / 2>(at + N / 2);
	}

	__device__ void convert(float (&x)[N]) const
	{
		if (dtype == DT_F32)
#pragma unroll
			for (int i = 0; i < N; i++)
				x[i] = __uint_as_float(i < N / 2 ? words.at[i % (N / 2)] : more.at[i % (N / 2)]);
		else if (dtype == DT_BF16)
#pragma unroll
			for (int i = 0; i < N; i++)
				x[i] = __uint_as_float(i % 2 ? words.at[i / 2] & 0xffff0000u : words.at[i / 2] << 16);
		else
#pragma unroll
			for (int i = 0; i < N; i++)
				x[i] = to_float(__ushort_as_half((unsigned short)(i % 2 ? words.at[i / 2] >> 16 : words.at[i / 2])));
	}
};

#endif
