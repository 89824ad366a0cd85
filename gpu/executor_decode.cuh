/* Decoding in one launch: what convolve, recur and gate_norm of gpu/executor_kernels.cuh do, for rows of one
 * token, heads of 128 x 128 and a convolution of four taps; on Hopper.
 *
 * A block has one head at a time, or walks over several (decode_plan). The copy engine brings a head's state, one piece
 * of memory of 64 KiB in f32, to shared memory while the threads convolve; each four warps hold a tile of its columns
 * in registers, and store it to its slot.
 *
 * Each head convolves its key head's q and k for itself; of a group's Hv/Hk heads the first one writes their
 * rings, and the others may come later. Where the row writes another slot than it reads, no one reads what is
 * written (gpu/executor.h: sound tables). Where it writes the slot that it reads, it writes column p mod W alone,
 * which held the input at p - W: the convolution at p takes p - W + 1 .. p - 1 from the ring and p from x, and
 * whoever loads that column drops it, old or new (convolve_next).
 *
 * The next grid may begin, and load states, rings and weights, before this one is done; it waits before it reads
 * activations and before it writes. A layer's states and rings are written by that layer alone, and no grid ends
 * before the one before it: what is loaded early is of an earlier step, which is over.
 *
 * Numbers: those of the three kernels to the bit, by the same functions on the same rows. */
#ifndef ETALON_EXECUTOR_DECODE_CUH
#define ETALON_EXECUTOR_DECODE_CUH

#include "gpu/executor_kernels.cuh"
#include "gpu/hopper.cuh"

enum { DECODE_D = 128, DECODE_W = 4 };

/* GROUPS of four warps, each with tiles of COLS columns a lane; BLOCKS on a multiprocessor. With one stage a block has one
 * head; with more it walks over heads, and what the next ones need is loaded while it computes. */
template <class State_, int COLS_, int GROUPS_, int BLOCKS_, int STAGES_> struct decode_plan {
	using State = State_;
	static constexpr int COLS = COLS_, GROUPS = GROUPS_, WARPS = 4, WIDTH = 8, BLOCKS = BLOCKS_, STAGES = STAGES_;
	static constexpr int THREADS = GROUPS * WARPS * 32;
	static constexpr bool WALKS = STAGES > 1;
};

template <class plan> struct decode_memory {
	alignas(128) typename plan::State S[plan::STAGES][DECODE_D][DECODE_D];
	alignas(16) float qkv[3][DECODE_D], o[DECODE_D];
	float part[plan::GROUPS][3 * plan::WARPS * plan::WIDTH * plan::COLS];
	uint64_t arrived[plan::STAGES];
};

/* ---- what is loaded ahead ---- */

/* A value head of a decode row, whose token is t: the tables' rows that concern it. Heads are counted over rows. */
struct decode_head {
	int t, h, read, write, ring_read, ring_write, position, kind;

	__device__ decode_head(const layer_view &v, int at) : t(at / v.m.Hv), h(at % v.m.Hv)
	{
		read = v.step.read_slot[t], write = v.step.write_slot[t], position = v.step.position[t];
		ring_read = v.step.ring_read[t], ring_write = v.step.ring_write[t], kind = v.step.kinds[t];
	}

	__device__ bool padding() const { return kind == ROW_PADDING; }
};

template <class F> __device__ F *ring_of(const layer_view &v, int slot, int c)
{
	return static_cast<F *>(v.rings) + slot_offset(v, slot, v.ring_stride) + ((int64_t)v.layer * v.C + c) * DECODE_W;
}

/* Elements as they are stored, in whole registers: a conversion would wait for its load. */
template <int N, class F> using words = pack<N * sizeof(F) / 4, uint32_t>;
__device__ inline uint32_t load_bits(const bf16 *p) { return *reinterpret_cast<const uint16_t *>(p); }
__device__ inline uint32_t load_bits(const float *p) { return *reinterpret_cast<const uint32_t *>(p); }
template <int N, class F> __device__ words<N, F> load_words(const F *p)
{
	return load_pack<N * sizeof(F) / 4>(reinterpret_cast<const uint32_t *>(p));
}
template <int N, class F, class Words> __device__ pack<N, F> elements(const Words &w)
{
	pack<N, F> x;

	memcpy(&x, &w, sizeof x);
	return x;
}

/* One channel. */
template <class F> struct tap_line {
	pack<DECODE_W, float> taps;
	words<DECODE_W, F> ring;
	uint32_t x;
	int c;

	/* The output; keep: the ring is this thread's to write. */
	__device__ float convolve(const layer_view &v, const decode_head &at, bool keep) const
	{
		pack<DECODE_W, F> stored = elements<DECODE_W, F>(ring);
		pack<1, F> now = elements<1, F>(x);
		F window[DECODE_W];
		float y[1];

#pragma unroll
		for (int w = 0; w < DECODE_W; w++)
			window[w] = at.ring_read < 0 ? F(0.0f) : stored.at[w];
		turn<DECODE_W, 1>(window, at.position % DECODE_W);
		convolve_next<DECODE_W, 1>(y, window, taps.at, now);
		if (keep && at.ring_write >= 0 && at.ring_write == at.ring_read)
			ring_of<F>(v, at.ring_write, c)[at.position % DECODE_W] = now.at[0];
		else if (keep && at.ring_write >= 0)
			store_ring<DECODE_W, 1>(ring_of<F>(v, at.ring_write, c), window, at.position + 1);
		return y[0];
	}
};

/* A head's q, k and v by N threads, thread i on the channels i, i + N .. of the three; what its gates are made of; z, a
 * lane on four columns. Two steps: what the layer's own earlier steps left, and what the layers before it have just made. */
template <int N, class F> struct decode_inputs {
	static constexpr int LINES = (3 * DECODE_D + N - 1) / N;
	tap_line<F> line[LINES];
	uint32_t a, b;
	float A_log, dt_bias;
	words<4, F> z;

	static __device__ int channel(int i) { return i * N + (int)threadIdx.x; }
	static __device__ bool has(int i) { return (i + 1) * N <= 3 * DECODE_D || channel(i) < 3 * DECODE_D; }

	__device__ void load_memory(const layer_view &v, const decode_head &at)
	{
		int key = at.h / (v.m.Hv / v.m.Hk);

#pragma unroll
		for (int i = 0; i < LINES; i++) {
			int n = min(channel(i), 3 * DECODE_D - 1);
			int c = (n < 2 * DECODE_D ? n / DECODE_D * v.m.Hk + key : 2 * v.m.Hk + at.h) * DECODE_D + n % DECODE_D;
			line[i].c = c;
			line[i].taps = load_pack<DECODE_W>(v.conv_weight + (int64_t)c * DECODE_W);
			line[i].ring = load_words<DECODE_W>(ring_of<F>(v, max(at.ring_read, 0), c));
		}
		A_log = v.A_log[at.h], dt_bias = v.dt_bias[at.h];
	}

	__device__ void load_activations(const layer_view &v, const decode_head &at)
	{
		int64_t token = (int64_t)at.t * v.layers + v.layer, head = token * v.m.Hv + at.h;

#pragma unroll
		for (int i = 0; i < LINES; i++)
			line[i].x = load_bits(static_cast<const F *>(v.x) + token * v.C + line[i].c);
		a = load_bits(static_cast<const F *>(v.a) + head), b = load_bits(static_cast<const F *>(v.b) + head);
		z = load_words<4>(static_cast<const F *>(v.z) + head * DECODE_D + threadIdx.x % 32 * 4);
	}

	__device__ void convolve(float (&qkv)[3][DECODE_D], const layer_view &v, const decode_head &at) const
	{
		bool first = at.h % (v.m.Hv / v.m.Hk) == 0;

#pragma unroll
		for (int i = 0; i < LINES; i++)
			if (has(i))
				(&qkv[0][0])[channel(i)] = line[i].convolve(v, at, !at.padding() && (first || channel(i) >= 2 * DECODE_D));
	}

	__device__ gate_inputs gate() const
	{
		return { to_float(elements<1, F>(a).at[0]), to_float(elements<1, F>(b).at[0]), A_log, dt_bias };
	}
};

/* ---- the kernel ---- */

/* The state in `slot` (-1: zeros, nothing comes) on its way to a stage whose last state has been read. One thread. */
template <class State>
__device__ void fetch_state(const layer_view &v, State (&to)[DECODE_D][DECODE_D], uint64_t &arrived, int slot, int h)
{
	hopper::arrive_expecting(arrived, slot < 0 ? 0 : sizeof to);
	if (slot >= 0)
		hopper::copy_run(to, head_states<State>(v, slot, h), sizeof to, arrived);
}

/* store_tile in whole accesses: from the compiler's hands these came as stores of one element each (nvcc 13.0). */
template <int ROWS, int COLS, class State> __device__ void store_state(State *p, const float (&S)[ROWS][COLS], place my)
{
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		pack<COLS, State> row;
		uint32_t w[sizeof row / 4];
		State *to = p + (my.row + i) * DECODE_D + my.column;

#pragma unroll
		for (int j = 0; j < COLS; j++)
			from_float(row.at[j], S[i][j]);
		memcpy(w, &row, sizeof row);
		if constexpr (sizeof row == 16)
			asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" :: "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
		else
			asm volatile("st.global.v2.b32 [%0], {%1, %2};" :: "l"(to), "r"(w[0]), "r"(w[1]) : "memory");
	}
}

/* y of a head by one warp. */
template <class F>
__device__ void finish_head(const layer_view &v, const decode_head &at, const words<4, F> &z, const pack<4, float> &weight,
                            const float *o)
{
	int column = (int)threadIdx.x % 32 * 4;
	pack<4, float> mine = load_pack<4>(o + column);
	float squares = 0.0f, y[4];

#pragma unroll
	for (int j = 0; j < 4; j++)
		squares += mine.at[j] * mine.at[j];
	gate_part(y, mine, inverse_norm(v, squares), weight, elements<4, F>(z));
	if (!at.padding())
		store(static_cast<F *>(v.y) + (((int64_t)at.t * v.layers + v.layer) * v.m.Hv + at.h) * DECODE_D + column, y);
}

/* The state of a head, tile by tile: from the stage to the slot it is written to, and o. */
template <class plan, class F>
__device__ void walk_state(decode_memory<plan> &m, int stage, const layer_view &v, const decode_head &at, const gate_inputs &gate)
{
	using State = typename plan::State;
	constexpr int D = DECODE_D, COLS = plan::COLS, WIDTH = plan::WIDTH, WARPS = plan::WARPS, ROWS = D / 16;
	int warp = (int)threadIdx.x / 32, group = warp / WARPS;
	place my = place_in_tile<ROWS, COLS, WIDTH>(warp % WARPS, group);
	float q[ROWS], k[ROWS];
	token<float, ROWS, COLS> now;

	now.q = load_pack<ROWS>(m.qkv[0] + my.row);
	now.k = load_pack<ROWS>(m.qkv[1] + my.row);
	now.decay = expf(log_decay(gate));
	now.beta = sigmoid(gate.b);
	prepare<WIDTH, WARPS>(q, k, now, v.m, m.part[group]);
	hopper::wait(m.arrived[stage % plan::STAGES], stage / plan::STAGES & 1);
#pragma unroll 1
	for (; my.column < D; my.column += plan::GROUPS * WIDTH * COLS) {
		float S[ROWS][COLS] = {}, o[COLS];

		now.v = load_pack<COLS>(m.qkv[2] + my.column);
		if (at.read >= 0)
			load_tile<true>(S, &m.S[stage % plan::STAGES][0][0], my, D, D);
		advance<WIDTH, WARPS>(S, o, q, k, now, m.part[group] + WARPS * WIDTH * COLS);
		if (at.write >= 0 && !at.padding())
			store_state(head_states<State>(v, at.write, at.h), S, my);
		if (my.row == 0)
			store(m.o + my.column, o);
	}
}

/* Grid: value heads of all rows; or fewer blocks that walk: block b has the heads b, b + gridDim.x .. */
template <class plan, class F>
__global__ void __launch_bounds__(plan::THREADS, plan::BLOCKS) decode_layer(layer_view v, int heads)
{
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
	__trap();       /* hopper.cuh is empty */
#endif
	using State = typename plan::State;
	constexpr int STAGES = plan::STAGES;
	extern __shared__ __align__(128) unsigned char shared[];
	auto &m = *reinterpret_cast<decode_memory<plan> *>(shared);
	int i = (int)threadIdx.x, at = (int)blockIdx.x, each = (int)gridDim.x;
	auto within = [&](int head) { return min(head, heads - 1); };
	pack<4, float> weight = load_pack<4>(v.norm_weight + i % 32 * 4);
	decode_inputs<plan::THREADS, F> inputs;
	decode_head here(v, at), next(v, plan::WALKS ? within(at + each) : at);
	int ahead = plan::WALKS ? v.step.read_slot[within(at + STAGES * each) / v.m.Hv] : 0;

	hopper::let_later_grid_begin();
	if (i == 0) {
		for (uint64_t &b : m.arrived)
			hopper::barrier_init(b, 1);
		hopper::barrier_fence();
		for (int n = 0; n < STAGES && at + n * each < heads; n++) {
			int head = at + n * each;
			fetch_state<State>(v, m.S[n], m.arrived[n], n == 0 ? here.read : v.step.read_slot[head / v.m.Hv], head % v.m.Hv);
		}
	}
	inputs.load_memory(v, here);
	hopper::wait_for_earlier_grid();
	inputs.load_activations(v, here);
	for (int n = 0; at < heads; n++, at += each) {
		words<4, F> z = inputs.z;
		gate_inputs gate = inputs.gate();
		decode_head past = here;

		inputs.convolve(m.qkv, v, past);
		if (plan::WALKS && at + each < heads) {
			here = next;
			inputs.load_memory(v, here);
			inputs.load_activations(v, here);
			next = decode_head(v, within(at + 2 * each));
		}
		__syncthreads();
		walk_state<plan, F>(m, n, v, past, gate);
		if (plan::WALKS) {      /* all have read the stage: two barriers of walk_state lie behind that */
			if (i == 0 && at + STAGES * each < heads)
				fetch_state<State>(v, m.S[n % STAGES], m.arrived[n % STAGES], ahead, (at + STAGES * each) % v.m.Hv);
			ahead = v.step.read_slot[within(at + (STAGES + 1) * each) / v.m.Hv];
		}
		__syncthreads();
		if (i < 32)
			finish_head<F>(v, past, z, weight, m.o);
		if (!plan::WALKS)
			return;
	}
}

#endif
