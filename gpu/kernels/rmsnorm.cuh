/* What the kernels of rmsnorm share with others that norm rows and with what times them. */
#ifndef ETALON_RMSNORM_CUH
#define ETALON_RMSNORM_CUH

#include "gpu/host/cuda.cuh"

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

/* ---- a row held in a block's registers: HELD pieces of V elements of a thread's, D = V HELD blockDim.x ---- */

enum { HELD_THREADS = 320 };    /* at most */

/* Of a thread's piece h in its row. */
template <int V> __device__ int held_at(int h) { return (int)(threadIdx.x + h * blockDim.x) * V; }

template <int V, int HELD, class F> struct held_row {
	pack<V, F> x[HELD], r[HELD], w[HELD];

	/* All loads of the row and of its weights are on their way before any is used. */
	__device__ void fetch(const row_norm<F> &m, size_t row)
	{
#pragma unroll
		for (int h = 0; h < HELD; h++) {
			x[h] = load_pack<V>(m.x + row * m.D + held_at<V>(h));
			if (m.residual)
				r[h] = load_pack<V>(m.residual + row * m.D + held_at<V>(h));
		}
#pragma unroll
		for (int h = 0; h < HELD; h++)
			w[h] = load_pack<V>(static_cast<const F *>(m.weight.data) + held_at<V>(h));
	}

	/* z = x' of piece h, written to residual_out; returns the sum of squares. */
	__device__ float open(float (&z)[V], int h, const row_norm<F> &m, size_t row) const
	{
		float squares = 0.0f;

#pragma unroll
		for (int j = 0; j < V; j++)
			z[j] = to_float(x[h].at[j]) + (m.residual ? to_float(r[h].at[j]) : 0.0f);
		if (m.residual_out)
			store(m.residual_out + row * m.D + held_at<V>(h), z);
#pragma unroll
		for (int j = 0; j < V; j++)
			squares += z[j] * z[j];
		return squares;
	}
};

template <class F> bool is_stored_as(enum dtype d, F)
{
	return d == (__is_same(F, bf16) ? DT_BF16 : __is_same(F, f16) ? DT_F16 : DT_F32);
}

/* Threads for rows held HELD pieces a thread; 0 where they do not fit or the weight is of another type. */
template <int V, int HELD, class F> unsigned held_threads(const row_norm<F> &m)
{
	int threads = m.D / (V * HELD);
	bool fits = m.D % (V * HELD) == 0 && threads % 32 == 0 && threads >= 64 && threads <= HELD_THREADS;

	return fits && is_stored_as(m.weight.dtype, F{}) ? threads : 0;
}

/* The kernels of rmsnorm.cu, from the plainest on. */
enum norm_rung { NORM_PIECES, NORM_HELD, NORM_RUNGS };

/* Enqueues that one, or the plainest where it does not fit; returns its name, a constant. */
template <class F> const char *norm_rows(cudaStream_t stream, const row_norm<F> &m, enum norm_rung rung);

#endif
