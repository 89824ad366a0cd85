/* Decoding in one launch: what convolve, recur and gate_norm of gpu/executor_kernels.cuh do, for rows of one
 * token, heads of 128 x 128 and a convolution of DECODE_W taps; on Hopper.
 *
 * PARTS blocks, a cluster, share a row's value head by columns of its state: with one, the head's state is one
 * piece of memory (64 KiB in f32); several answer sooner where there are few rows. The copy engine brings the state to shared
 * memory while the threads convolve; they walk over it in tiles of columns, and the engine carries it back. Three
 * heads in f32, five in bf16, are under way on a multiprocessor at a time.
 *
 * Each head convolves its key head's q and k for itself: of a group's Hv/Hk heads the first one's first block
 * writes their rings. The others may come after it. Where the row writes another slot than it reads, no one reads
 * what is written (gpu/executor.h: sound tables). Where it writes the slot that it reads, it writes column p mod W
 * alone, which held the input at p - W: the convolution at p reads p - W + 1 .. p - 1 from the ring and p from x,
 * and whoever loads that column drops it, old or new (convolve_next).
 *
 * The next grid may begin, load states, rings and weights before this one is done; it waits before it reads
 * activations and before it writes. States and rings of a layer are written by that layer alone, and no grid ends
 * before the one before it: what it loads early is an earlier step's, which is over.
 *
 * Numbers: those of the three kernels, to the bit: the same functions on the same threads' rows. */
#ifndef ETALON_EXECUTOR_DECODE_CUH
#define ETALON_EXECUTOR_DECODE_CUH

#include <cooperative_groups.h>

#include "gpu/executor_kernels.cuh"
#include "gpu/hopper.cuh"

enum { DECODE_D = THREADS, DECODE_W = 4 };

template <int PARTS, int COLS, class State> struct decode_memory {
	static constexpr int D = DECODE_D, COLUMNS = D / PARTS;
	alignas(128) State S[D][COLUMNS];
	alignas(16) float q[D], k[D], v[COLUMNS], o[D];
	float part[2 * THREADS / 32 * 8 * COLS], norm_part[THREADS / 32 * 8 * 2];
	uint64_t arrived;
};

/* A channel's ring and taps, loaded ahead of its input. */
template <class F> struct tap_line {
	F window[DECODE_W];
	float taps[DECODE_W];
	int c;
};

/* Where channel c's ring of this layer lies in a slot. */
template <class F> __device__ F *ring_of(const layer_view &v, int slot, int c)
{
	return static_cast<F *>(v.rings) + slot_offset(v, slot, v.ring_stride) + ((int64_t)v.layer * v.C + c) * DECODE_W;
}

template <class F> __device__ tap_line<F> load_line(const layer_view &v, int row, int c)
{
	int slot = v.step.ring_read[row];
	tap_line<F> line;

	line.c = c;
	load(line.taps, v.conv_weight + (int64_t)c * DECODE_W);
	load_ring<DECODE_W, 1>(line.window, slot < 0 ? nullptr : ring_of<F>(v, slot, c), v.step.position[row]);
	return line;
}

/* The channel's output at token t; keep: its ring is this thread's to write. */
template <class F> __device__ float convolve_line(const layer_view &v, int row, int t, tap_line<F> &line, bool keep)
{
	int from = v.step.ring_read[row], to = v.step.ring_write[t], p = v.step.position[row];
	pack<1, F> x = load_pack<1>(static_cast<const F *>(v.x) + ((int64_t)t * v.layers + v.layer) * v.C + line.c);
	float y[1];

	convolve_next<DECODE_W, 1>(y, line.window, line.taps, x);
	if (keep && to >= 0 && to == from)
		ring_of<F>(v, to, line.c)[p % DECODE_W] = x.at[0];
	else if (keep && to >= 0)
		store_ring<DECODE_W, 1>(ring_of<F>(v, to, line.c), line.window, p + 1);
	return y[0];
}

/* The block's columns of a head's state, from or to global memory `at`: one copy, or one for each row. */
template <int PARTS, int COLS, class State, class Copy>
__device__ void copy_state(decode_memory<PARTS, COLS, State> &m, State *at, Copy copy)
{
	int i = (int)threadIdx.x;

	if (PARTS > 1)
		copy(m.S[i], at + i * DECODE_D, sizeof m.S[i]);
	else if (i == 0)
		copy(m.S, at, sizeof m.S);
}

/* y of a head by one warp, a lane on four columns. */
template <class F> struct head_norm {
	int64_t at;
	pack<4, float> weight;
	pack<4, F> z;

	__device__ head_norm(const layer_view &v, int64_t t, int h)
		: at(((t * v.layers + v.layer) * v.m.Hv + h) * DECODE_D + threadIdx.x % 32 * 4),
		  weight(load_pack<4>(v.norm_weight + threadIdx.x % 32 * 4)), z(load_pack<4>(static_cast<const F *>(v.z) + at))
	{
	}

	__device__ void finish(const layer_view &v, const float *o) const
	{
		pack<4, float> mine = load_pack<4>(o + threadIdx.x % 32 * 4);
		float squares = 0.0f, y[4];

#pragma unroll
		for (int j = 0; j < 4; j++)
			squares += mine.at[j] * mine.at[j];
		gate_part(y, mine, inverse_norm(v, squares), weight, z);
		store(static_cast<F *>(v.y) + at, y);
	}
};

/* Grid: (value heads x PARTS) x rows. */
template <int PARTS, int COLS, int BLOCKS, class F, class State>
__global__ void __cluster_dims__(PARTS) __launch_bounds__(THREADS, BLOCKS) decode_layer(layer_view v, int hints)
{
	using M = decode_memory<PARTS, COLS, State>;
	constexpr int D = DECODE_D, ROWS = D / 16, WIDTH = 8, WARPS = THREADS / 32;
	extern __shared__ __align__(128) unsigned char shared[];
	M &m = *reinterpret_cast<M *>(shared);
	auto cluster = cooperative_groups::this_cluster();
	int row = v.first_row + (int)blockIdx.y, h = (int)blockIdx.x / PARTS, rank = (int)blockIdx.x % PARTS, i = (int)threadIdx.x;
	int slot = v.step.read_slot[row], t = v.step.cu_seqlens[row], group = v.m.Hv / v.m.Hk, key = h / group * D;
	uint64_t policy = hopper::passing_through(), in = policy, out = policy;

	hopper::let_later_grid_begin();
	if (v.step.kinds[row] == ROW_PADDING) {
		hopper::wait_for_earlier_grid();
		return;
	}
	if (!(hints & 1)) asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(in));
	if (!(hints & 2)) asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(out));
	if (i == 0) {
		hopper::barrier_init(m.arrived, 1);
		hopper::barrier_fence();
		hopper::arrive_expecting(m.arrived, slot < 0 ? 0 : sizeof m.S);
	}
	if (PARTS > 1) {
		__syncthreads();
		cluster.barrier_arrive();
	}
	if (slot >= 0)
		copy_state(m, head_states<State>(v, slot, h) + rank * M::COLUMNS, [&](void *here, const void *there, unsigned bytes) {
			hopper::copy_in(here, there, bytes, m.arrived, in);
		});
	tap_line<F> q = load_line<F>(v, row, key + i), k = load_line<F>(v, row, v.m.Hk * D + key + i), own;
	if (i < M::COLUMNS)
		own = load_line<F>(v, row, 2 * v.m.Hk * D + h * D + rank * M::COLUMNS + i);

	hopper::wait_for_earlier_grid();
	bool first = h % group == 0 && rank == 0;
	head_norm<F> norm(v, t, h);
	gate_inputs gate = load_gates<F>(v, t, h);
	m.q[i] = convolve_line(v, row, t, q, first);
	m.k[i] = convolve_line(v, row, t, k, first);
	if (i < M::COLUMNS)
		m.v[i] = convolve_line(v, row, t, own, true);
	__syncthreads();

	place my = place_in_tile<ROWS, COLS, WIDTH>(i / 32, 0);
	token<float, ROWS, COLS> now;
	float S[ROWS][COLS] = {}, o[COLS], q_row[ROWS], k_row[ROWS];
	now.q = load_pack<ROWS>(m.q + my.row);
	now.k = load_pack<ROWS>(m.k + my.row);
	now.decay = expf(log_decay(gate));
	now.beta = sigmoid(gate.b);
	prepare<WIDTH, WARPS>(q_row, k_row, now, v.m, m.norm_part);
	hopper::wait(m.arrived, 0);
#pragma unroll 1
	for (; my.column < M::COLUMNS; my.column += WIDTH * COLS) {
		if (slot >= 0)
			load_tile<true>(S, &m.S[0][0], my, D, M::COLUMNS);
		else
			for (auto &line : S)
				for (float &x : line)
					x = 0.0f;
		now.v = load_pack<COLS>(m.v + my.column);
		advance<WIDTH, WARPS>(S, o, q_row, k_row, now, m.part);
		store_tile<true>(&m.S[0][0], S, my, D, M::COLUMNS);
		if (my.row == 0)
			store(m.o + rank * M::COLUMNS + my.column, o);
	}
	hopper::show_to_copies();
	__syncthreads();
	int to = v.step.write_slot[t];
	if (to >= 0) {
		copy_state(m, head_states<State>(v, to, h) + rank * M::COLUMNS, [&](const void *here, void *there, unsigned bytes) {
			hopper::copy_out(there, here, bytes, out);
		});
	}
	if (PARTS > 1) {
		cluster.barrier_wait();
		if (rank && i < M::COLUMNS)
			cluster.map_shared_rank(m.o, 0)[rank * M::COLUMNS + i] = m.o[rank * M::COLUMNS + i];
		cluster.sync();
	}
	if (rank == 0 && i < 32)
		norm.finish(v, m.o);
	if (to >= 0)
		hopper::copies_out_read();
}

#endif
