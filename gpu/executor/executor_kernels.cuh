/* The kernels of one layer of an executor's step; the formulas and the memory are gpu/executor.h's.
 *
 *   convolve   conv = silu(convolution), the rings, g and beta
 *   recur      o, and the states in the pool
 *   gate_norm  y
 *
 * In between lie conv [tokens,C], g, beta [tokens,Hv], o [tokens,Hv,Dv] in f32.
 *
 * A row's tokens are walked one after the other by the same threads, whatever the row's kind and wherever
 * it stands: its numbers are the same to the bit in every batch and, with f32 states, in every split
 * into chunks. A block that finds padding returns; a slot of -1 is zeros to read and nowhere to write.
 *
 * The readable version; gpu/executor_decode.cuh has decoding in one launch, docs/performance-gpu-decode.md the times.
 *
 * Numbers: all f32 between load and store. States are rounded where they are stored in the pool, not
 * between a row's tokens. Rings are stored inputs: moved, not computed. */
#ifndef ETALON_EXECUTOR_KERNELS_CUH
#define ETALON_EXECUTOR_KERNELS_CUH

#include "gpu/executor/executor_convolve.cuh"

/* ---- recurrence ---- */

/* So that a row of a tile is a whole 128-byte line. */
template <class State> constexpr int tile_columns = 128 / sizeof(State);

/* Token t of head h; its decay is g still, for nothing here is to wait for a load. */
template <bool WIDE, int ROWS, int COLS>
__device__ token<float, ROWS, COLS> fetch(const layer_view &v, int64_t t, int h, place my)
{
	const rule &m = v.m;
	const float *q = v.conv + t * v.C + h / (m.Hv / m.Hk) * m.Dk, *k = q + m.Hk * m.Dk;
	const float *own = v.conv + t * v.C + 2 * m.Hk * m.Dk + (int64_t)h * m.Dv;
	token<float, ROWS, COLS> now;

	now.q = load_part<WIDE, ROWS>(q + my.row, m.Dk - my.row);
	now.k = load_part<WIDE, ROWS>(k + my.row, m.Dk - my.row);
	now.v = load_part<WIDE, COLS>(own + my.column, m.Dv - my.column);
	now.decay = v.g[t * m.Hv + h];
	now.beta = v.beta[t * m.Hv + h];
	return now;
}

template <class State> __device__ State *head_states(const layer_view &v, int slot, int h)
{
	return static_cast<State *>(v.states) + slot_offset(v, slot, v.state_stride) + ((int64_t)v.layer * v.m.Hv + h) * v.m.Dk * v.m.Dv;
}

/* Calls into the cache what the block AHEAD of this one, about half a wave later, will load; saves 5 % (H200). */
template <class State> __device__ void call_ahead(const layer_view &v)
{
	unsigned next = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z) + AHEAD, heads = next / gridDim.x;

	if (heads >= gridDim.y * gridDim.z)
		return;
	int slot = v.step.read_slot[v.first_row + (int)(heads / gridDim.y)];
	if (slot < 0)
		return;
	const State *S = head_states<State>(v, slot, (int)(heads % gridDim.y)) + next % gridDim.x * tile_columns<State>;
	for (int i = (int)threadIdx.x; i < v.m.Dk; i += THREADS)
		asm volatile("prefetch.global.L2 [%0];" :: "l"(S + (int64_t)i * v.m.Dv));
}

/* Grid: tiles of columns x value heads x rows, so that blocks that run at a time read what lies side by side; a block's
 * four warps share the rows of its tile. The sums of one token and those of the next use the same shared memory: two
 * barriers lie between a sum's last read and its next write. */
template <bool WIDE, int ROWS, class State>
__global__ void __launch_bounds__(THREADS, ROWS > 8 ? 2 : sizeof(State) == 4 ? 5 : 4) recur(layer_view v)
{
	constexpr int COLS = tile_columns<State> / 8, WIDTH = 8, WARPS = THREADS / 32;
	__shared__ float part[3 * WARPS * WIDTH * COLS];
	int row = v.first_row + (int)blockIdx.z, h = (int)blockIdx.y, slot = v.step.read_slot[row];
	int t = v.step.cu_seqlens[row], end = v.step.cu_seqlens[row + 1];
	place my = place_in_tile<ROWS, COLS, WIDTH>((int)threadIdx.x / 32, (int)blockIdx.x);
	float S[ROWS][COLS] = {}, o[COLS];

	if (v.step.kinds[row] == ROW_PADDING)
		return;
	token<float, ROWS, COLS> now = fetch<WIDE, ROWS, COLS>(v, t, h, my);
	if (slot >= 0)
		load_tile<WIDE>(S, head_states<State>(v, slot, h), my, v.m.Dk, v.m.Dv);
	call_ahead<State>(v);
	while (true) {
		int to = v.step.write_slot[t];

		now.decay = expf(now.decay);
		step<WIDTH, WARPS>(S, o, now, v.m, part);
		if (my.row == 0)
			store_part<WIDE>(v.o + ((int64_t)t * v.m.Hv + h) * v.m.Dv + my.column, o, v.m.Dv - my.column);
		if (to >= 0)
			store_tile<WIDE>(head_states<State>(v, to, h), S, my, v.m.Dk, v.m.Dv);
		if (++t == end)
			return;
		now = fetch<WIDE, ROWS, COLS>(v, t, h, my);
	}
}

/* ---- gated norm ---- */

/* V neighbours of y, of o, the norm's weight and z; inverse: (mean o^2 + norm_eps)^-1/2. */
template <int V, class F>
__device__ void gate_part(float (&y)[V], const pack<V, float> &o, float inverse, const pack<V, float> &weight,
                          const pack<V, F> &z)
{
#pragma unroll
	for (int j = 0; j < V; j++)
		y[j] = o.at[j] * inverse * weight.at[j] * silu(to_float(z.at[j]));
}

__device__ inline float inverse_norm(const layer_view &v, float squares)
{
	return 1.0f / sqrtf(lane_sum(squares, 1, 32) / (float)v.m.Dv + v.norm_eps);
}

/* Grid: rows x blocks of NORM_WARPS heads x slices of a row's tokens; a warp on a token's head, each lane
 * on V neighbours. */
template <bool WIDE, class F> __global__ void __launch_bounds__(THREADS) gate_norm(layer_view v)
{
	constexpr int V = 4;
	int row = v.first_row + (int)blockIdx.x, h = (int)(blockIdx.y * NORM_WARPS + threadIdx.x / 32), D = v.m.Dv;
	int first = (int)threadIdx.x % 32 * V;

	if (v.step.kinds[row] == ROW_PADDING || h >= v.m.Hv)
		return;
	for (int64_t t = v.step.cu_seqlens[row] + (int)blockIdx.z; t < v.step.cu_seqlens[row + 1]; t += gridDim.z) {
		const float *o = v.o + (t * v.m.Hv + h) * D;
		int64_t at = ((t * v.layers + v.layer) * v.m.Hv + h) * D;
		float squares = 0.0f;

		for (int i = first; i < D; i += 32 * V) {
			pack<V, float> part = load_part<WIDE, V>(o + i, D - i);
#pragma unroll
			for (int j = 0; j < V; j++)
				squares += part.at[j] * part.at[j];
		}
		float inverse = inverse_norm(v, squares);
		for (int i = first; i < D; i += 32 * V) {
			pack<V, float> part = load_part<WIDE, V>(o + i, D - i), weight = load_part<WIDE, V>(v.norm_weight + i, D - i);
			pack<V, F> z = load_part<WIDE, V>(static_cast<const F *>(v.z) + at + i, D - i);
			float y[V];
			gate_part(y, part, inverse, weight, z);
			store_part<WIDE>(static_cast<F *>(v.y) + at + i, y, D - i);
		}
	}
}

#endif
