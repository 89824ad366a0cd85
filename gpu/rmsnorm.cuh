/* What the kernels of rmsnorm share with others that norm rows and with what times them. */
#ifndef ETALON_RMSNORM_CUH
#define ETALON_RMSNORM_CUH

#include <cstdio>

#include "gpu/cuda.cuh"

template <class F> struct row_norm {
	const F *x, *residual, *gate;           /* residual, gate: NULL when absent */
	operand weight;
	F *y, *residual_out;
	size_t R;
	int D;
	float eps, offset;
};

/* z = x' of V elements from element i. */
template <int V, class F> __device__ void load_sum(float (&z)[V], const row_norm<F> &m, size_t i)
{
	load(z, m.x + i);
	if (!m.residual)
		return;

	float r[V];
	load(r, m.residual + i);
#pragma unroll
	for (int j = 0; j < V; j++)
		z[j] += r[j];
}

/* ---- rows held in registers: a block walks over rows, a thread holds HELD pieces of V elements of each ---- */

extern int held_count, held_grid, held_stream, held_quiet;    /* EXPERIMENT */

template <bool STREAM, int V, class F> __device__ pack<V, F> fetch_pack(const F *p)
{
	if constexpr (STREAM) {
		pack<V, F> x;
		*reinterpret_cast<uint4 *>(&x) = __ldcs(reinterpret_cast<const uint4 *>(p));
		return x;
	}
	return load_pack<V>(p);
}

template <bool STREAM, int V, class F> __device__ void put(F *p, const float (&x)[V])
{
	pack<V, F> raw;
#pragma unroll
	for (int i = 0; i < V; i++)
		from_float(raw.at[i], x[i]);
	if constexpr (STREAM)
		__stcs(reinterpret_cast<uint4 *>(p), *reinterpret_cast<uint4 *>(&raw));
	else
		*reinterpret_cast<pack<V, F> *>(p) = raw;
}

/* Of a thread's piece h in its row. */
template <int V> __device__ int held_at(int h) { return (int)(threadIdx.x + h * blockDim.x) * V; }

template <bool STREAM, int V, int HELD, class F> struct held_row {
	pack<V, F> x[HELD], r[HELD];

	__device__ void fetch(const row_norm<F> &m, size_t row)
	{
#pragma unroll
		for (int h = 0; h < HELD; h++) {
			size_t i = row * m.D + held_at<V>(h);
			x[h] = fetch_pack<STREAM, V>(m.x + i);
			if (m.residual)
				r[h] = fetch_pack<STREAM, V>(m.residual + i);
		}
	}

	/* z = x' of piece h, written to residual_out; returns the sum of squares. */
	__device__ float open(float (&z)[V], int h, const row_norm<F> &m, size_t row) const
	{
		float squares = 0.0f;

#pragma unroll
		for (int j = 0; j < V; j++)
			z[j] = to_float(x[h].at[j]) + (m.residual ? to_float(r[h].at[j]) : 0.0f);
		if (m.residual_out)
			put<STREAM, V>(m.residual_out + row * m.D + held_at<V>(h), z);
#pragma unroll
		for (int j = 0; j < V; j++)
			squares += z[j] * z[j];
		return squares;
	}
};

template <int V, class F> bool held_fits(const row_norm<F> &m)
{
	int pieces = m.D / V;

	return m.D % V == 0 && pieces % 32 == 0 && pieces >= 64 && pieces <= 640 && by_type(m.weight.dtype, F{});
}

inline bool by_type(enum dtype d, bf16) { return d == DT_BF16; }
inline bool by_type(enum dtype d, f16) { return d == DT_F16; }
inline bool by_type(enum dtype d, float) { return d == DT_F32; }

template <int V, int HELD, class F, class M> void launch_held(cudaStream_t stream, const char *name, void (*kernel)(M), const row_norm<F> &m, const M &given)
{
	int threads = m.D / V / HELD, each, multiprocessors;

	check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "multiprocessors");
	check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0), "occupancy");
	size_t resident = (size_t)each * multiprocessors, grid = held_grid == 0 ? m.R : m.R < resident ? m.R : resident;
	if (!held_quiet) { printf("%d x %d/SM ", threads, each); held_quiet = 1; }
	launch_on(stream, name, kernel, blocks(grid, 1), dim3(threads), 0, given);
}

/* The kernels of rmsnorm.cu, from the plainest on. */
enum norm_rung { NORM_PIECES, NORM_HELD, NORM_RUNGS };

/* Enqueues that one, or the plainest where it does not fit; returns its name, a constant. */
template <class F> const char *norm_rows(cudaStream_t stream, const row_norm<F> &m, enum norm_rung rung);

#endif
