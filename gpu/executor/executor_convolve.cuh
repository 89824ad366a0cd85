/* One layer of an executor's step as its kernels see it; and the first of them, convolve: convolution, rings, gates. */
#ifndef ETALON_EXECUTOR_CONVOLVE_CUH
#define ETALON_EXECUTOR_CONVOLVE_CUH

#include "gpu/device/silu.cuh"
#include "gpu/kernels/delta_rule.cuh"
#include "gpu/executor/executor.h"

enum { MAX_W = 8, NORM_WARPS = THREADS / 32, AHEAD = 300 };

/* On the device: struct executor_step's. */
struct step_tables { const int32_t *kinds, *cu_seqlens, *read_slot, *write_slot, *ring_read, *ring_write, *position; };

/* One layer of a step on the rows from first_row on. F: type of data. */
struct layer_view {
	step_tables step;
	rule m;                         /* its g and beta: scratch */
	int first_row, layers, layer, C;
	int64_t state_stride, ring_stride;      /* elements of a slot */
	float norm_eps;
	const float *conv_weight, *A_log, *dt_bias, *norm_weight;       /* of this layer: [C,W], [Hv], [Hv], [Dv] */
	const void *x, *z, *a, *b;      /* of the step */
	void *y, *states, *rings;
	float *conv, *g, *beta, *o;
#ifdef ETALON_FAULTS
	bool narrow_offsets, unordered; /* int32_slot_offset, missing_barrier */
#endif
};

/* Where a slot begins in a pool. */
__device__ inline int64_t slot_offset([[maybe_unused]] const layer_view &v, int32_t slot, int64_t stride)
{
#ifdef ETALON_FAULTS
	if (v.narrow_offsets)
		return (int32_t)((uint32_t)slot * (uint32_t)stride);
#endif
	return slot * stride;
}

/* Under missing_barrier a block begins up to 4 us late, so that who comes first differs from launch to launch. */
__device__ inline void dawdle([[maybe_unused]] const layer_view &v)
{
#ifdef ETALON_FAULTS
	uint64_t now, until;

	if (!v.unordered)
		return;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	until = now + ((uint64_t)clock64() + blockIdx.x * 977 + blockIdx.y * 331) * 0x9e3779b97f4a7c15u % 4096;
	while (now < until)
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
}

/* ---- convolution, rings, gates ---- */

/* window[j][w] = ring[j][(first + w) mod W], 0 <= first < W. */
template <int W, int V, class F> __device__ void turn(F (&window)[V * W], int first)
{
#pragma unroll
	for (int by = 1; by < W; by *= 2) {
		if (!(first & by))
			continue;
#pragma unroll
		for (int j = 0; j < V; j++) {
			F old[W];
#pragma unroll
			for (int w = 0; w < W; w++)
				old[w] = window[j * W + w];
#pragma unroll
			for (int w = 0; w < W; w++)
				window[j * W + w] = old[(w + by) % W];
		}
	}
}

/* The last W inputs of V channels before position p, oldest first: window[j*W + w] is of position p - W + w. ring NULL: zeros. */
template <int W, int V, class F> __device__ void load_ring(F (&window)[V * W], const F *ring, int p)
{
	pack<V * W, F> stored = {};

	if (ring)
		stored = load_pack<V * W>(ring);
#pragma unroll
	for (int i = 0; i < V * W; i++)
		window[i] = stored.at[i];
	turn<W, V>(window, p % W);
}

template <int W, int V, class F> __device__ void store_ring(F *ring, const F (&window)[V * W], int p)
{
	pack<V * W, F> stored;
	F turned[V * W];

#pragma unroll
	for (int i = 0; i < V * W; i++)
		turned[i] = window[i];
	turn<W, V>(turned, (W - p % W) % W);
#pragma unroll
	for (int i = 0; i < V * W; i++)
		stored.at[i] = turned[i];
	*reinterpret_cast<pack<V * W, F> *>(ring) = stored;
}

/* y = silu(convolution) of V channels at the next token, whose inputs join the window. */
template <int W, int V, class F>
__device__ void convolve_next(float (&y)[V], F (&window)[V * W], const float (&taps)[V * W], const pack<V, F> &now)
{
#pragma unroll
	for (int j = 0; j < V; j++) {
#pragma unroll
		for (int w = 0; w + 1 < W; w++)
			window[j * W + w] = window[j * W + w + 1];
		window[j * W + W - 1] = now.at[j];
		y[j] = 0.0f;
#pragma unroll
		for (int w = 0; w < W; w++)
			y[j] += taps[j * W + w] * to_float(window[j * W + w]);
		y[j] = silu_approx(y[j]);
	}
}

/* V channels from c on, all tokens of the row. */
template <int W, int V, class F> __device__ void convolve_channels(const layer_view &v, int row, int c)
{
	int t = v.step.cu_seqlens[row], end = v.step.cu_seqlens[row + 1], p = v.step.position[row], slot = v.step.ring_read[row];
	int64_t at = ((int64_t)v.layer * v.C + c) * W;
	const F *x = static_cast<const F *>(v.x) + (int64_t)v.layer * v.C + c;
	F *rings = static_cast<F *>(v.rings) + at, window[V * W];
	float taps[V * W];

	load(taps, v.conv_weight + (int64_t)c * W);
	pack<V, F> next = load_pack<V>(x + (int64_t)t * v.layers * v.C);
	load_ring<W, V>(window, slot < 0 ? nullptr : rings + slot_offset(v, slot, v.ring_stride), p);
	for (; t < end; t++) {
		pack<V, F> now = next;
		float y[V];

		if (t + 1 < end)
			next = load_pack<V>(x + (int64_t)(t + 1) * v.layers * v.C);
		convolve_next<W, V>(y, window, taps, now);
		store(v.conv + (int64_t)t * v.C + c, y);
		p++;
		if (v.step.ring_write[t] >= 0)
			store_ring<W, V>(rings + slot_offset(v, v.step.ring_write[t], v.ring_stride), window, p);
	}
}

/* What g and beta of token t and head h are made of. */
struct gate_inputs { float a, b, A_log, dt_bias; };

template <class F> __device__ gate_inputs load_gates(const layer_view &v, int64_t t, int h)
{
	int64_t at = (t * v.layers + v.layer) * v.m.Hv + h;

	return { to_float(static_cast<const F *>(v.a)[at]), to_float(static_cast<const F *>(v.b)[at]), v.A_log[h], v.dt_bias[h] };
}

__device__ inline float log_decay(const gate_inputs &x) { return -expf(x.A_log) * softplus(x.a + x.dt_bias); }

/* g and beta of tokens begin .. end-1. */
template <class F> __device__ void gates(const layer_view &v, int64_t begin, int64_t end)
{
	int Hv = v.m.Hv, count = (int)(end - begin) * Hv;

	for (int i = (int)threadIdx.x; i < count; i += THREADS) {
		int64_t t = begin + i / Hv;
		gate_inputs x = load_gates<F>(v, t, i % Hv);

		v.g[t * Hv + i % Hv] = log_decay(x);
		v.beta[t * Hv + i % Hv] = sigmoid(x.b);
	}
}

/* Grid: rows x (tiles of THREADS V channels, and one for the gates). */
template <int W, int V, class F> __global__ void __launch_bounds__(THREADS) convolve(layer_view v)
{
	int row = v.first_row + (int)blockIdx.x, c = (int)(blockIdx.y * THREADS + threadIdx.x) * V;

	if (v.step.kinds[row] == ROW_PADDING)
		return;
	dawdle(v);
	if (blockIdx.y + 1 == gridDim.y)
		gates<F>(v, v.step.cu_seqlens[row], v.step.cu_seqlens[row + 1]);
	else if (c < v.C)
		convolve_channels<W, V, F>(v, row, c);
}

#endif
