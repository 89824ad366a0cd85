/* Tries of gpu/executor_decode.cuh's kernel, for bench-gpu --decode alone: each differs from it in what its plan says, and has its
 * bits. What wins goes into the kernel, the others are dropped. */
#ifndef ETALON_BENCH_GPU_DECODE_CUH
#define ETALON_BENCH_GPU_DECODE_CUH

#include "gpu/executor_decode.cuh"

enum { AS_OTHERS = 0, STAGGERED = -1, EVERYTHING = 99 };        /* pieces that a block fetches before it waits; or how many */
enum store_way { PLAIN, STREAMING, BULK };              /* BULK: by the copy engine, from where the state was read */

struct try_of {
	int blocks = 5;         /* on a multiprocessor: bounds the registers */
	int start = 2;          /* pieces that are fetched first */
	int piece = 8;          /* rows of a fetch: 8 or 4 */
	int first = AS_OTHERS;
	bool call = false;      /* the first wave calls its inputs into L2 before it waits */
	store_way store = PLAIN;
	bool evict = false;     /* states are read with evict_first */
	bool lean = false;      /* less memory: o's parts lie where the state was; rows are updated in fours */
	int most = 0;           /* blocks on a multiprocessor, by memory that is not used; 0: as many as there is room for */
	bool f32 = false;       /* states in float32, not in bf16 */
	bool counts = false;    /* waits until all blocks of the layer before have counted themselves, not until their grid is over */
};

static constexpr struct { const char *name; try_of of; } tries[] = {
	{ "5 as it is", { 5 } },
	{ "4", { 5, 2, 8, AS_OTHERS, false, PLAIN, false, false, 4 } },
	{ "4, 3 first", { 5, 3, 8, AS_OTHERS, false, PLAIN, false, false, 4 } },
	{ "6 lean", { 6, 2, 8, AS_OTHERS, false, PLAIN, false, true } },
	{ "6 lean, 1 first", { 6, 1, 8, AS_OTHERS, false, PLAIN, false, true } },
	{ "6 lean, 3 fours", { 6, 3, 4, AS_OTHERS, false, PLAIN, false, true } },
	{ "6 lean, 4 fours", { 6, 4, 4, AS_OTHERS, false, PLAIN, false, true } },
	{ "6 lean, called", { 6, 2, 8, AS_OTHERS, true, PLAIN, false, true } },
	{ "6 lean, stagger", { 6, 2, 8, STAGGERED, false, PLAIN, false, true } },
	{ "6 lean, both", { 6, 2, 8, STAGGERED, true, PLAIN, false, true } },
	{ "5 lean", { 5, 2, 8, AS_OTHERS, false, PLAIN, false, true } },
	{ "5 3 fours", { 5, 3, 4 } },
	{ "5 4 fours", { 5, 4, 4 } },
	{ "5 5 fours", { 5, 5, 4 } },
	{ "5 called", { 5, 2, 8, AS_OTHERS, true } },
	{ "5 stagger", { 5, 2, 8, STAGGERED } },
	{ "5 both", { 5, 2, 8, STAGGERED, true } },
	{ "5 everything", { 5, 2, 8, EVERYTHING, true } },
	{ "5 streamed", { 5, 2, 8, AS_OTHERS, false, STREAMING } },
	{ "5 evict first", { 5, 2, 8, AS_OTHERS, false, PLAIN, true } },
	{ "5 streamed+evict", { 5, 2, 8, AS_OTHERS, false, STREAMING, true } },
	{ "5, 1 in wave 1", { 5, 2, 8, 1 } },
	{ "5, 3 in wave 1", { 5, 2, 8, 3 } },
	{ "6 lean, 1 in wave 1", { 6, 2, 8, 1, false, PLAIN, false, true } },
	{ "5 counting", { 5, 2, 8, AS_OTHERS, true, PLAIN, false, false, 0, false, true } },
	{ "6 lean, counting", { 6, 2, 8, AS_OTHERS, true, PLAIN, false, true, 0, false, true } },
	{ "6, counting, both", { 6, 2, 8, STAGGERED, true, PLAIN, false, true, 0, false, true } },
	{ "5 bulk stores", { 5, 2, 8, AS_OTHERS, false, BULK } },
	{ "5 bulk, both", { 5, 2, 8, STAGGERED, true, BULK } },
	{ "5 bulk, 3 first", { 5, 3, 8, AS_OTHERS, true, BULK } },
	{ "3 as it is", { 3, 2, 8, AS_OTHERS, false, PLAIN, false, false, 0, true } },
	{ "3 called", { 3, 2, 8, AS_OTHERS, true, PLAIN, false, false, 0, true } },
	{ "3 stagger", { 3, 2, 8, STAGGERED, false, PLAIN, false, false, 0, true } },
	{ "3 both", { 3, 2, 8, STAGGERED, true, PLAIN, false, false, 0, true } },
	{ "3, 1 in wave 1", { 3, 2, 8, 1, false, PLAIN, false, false, 0, true } },
	{ "3, 4 fours", { 3, 4, 4, AS_OTHERS, false, PLAIN, false, false, 0, true } },
	{ "3 lean", { 3, 2, 8, AS_OTHERS, false, PLAIN, false, true, 0, true } },
	{ "3 bulk, called", { 3, 2, 8, AS_OTHERS, true, BULK, false, false, 0, true } },
	{ "3 counting", { 3, 2, 8, AS_OTHERS, true, PLAIN, false, false, 0, true, true } },
};
enum { TRIES = sizeof tries / sizeof *tries };

template <int T> struct try_plan {
	static constexpr try_of of = tries[T].of;
	using State = std::conditional_t<of.f32, float, bf16>;
	static constexpr int WARPS = 4, THREADS = 128, ROWS = 32, EIGHTS = 4;
	static constexpr int PIECES = ROWS / of.piece, IN_EIGHT = EIGHT / of.piece, TOGETHER = of.lean ? 4 : EIGHT;
	static_assert(!(of.lean && of.store == BULK), "the copy engine reads the state until the end");
};

template <class plan> struct try_memory {
	alignas(128) typename plan::State S[4][32][DECODE_D];
	float q[4][32], k[4][32];
	float qkv[3][DECODE_D], u[4][DECODE_D];
	float o[plan::of.lean ? 1 : 4][DECODE_D];
	uint64_t arrived[4][plan::PIECES];

	__device__ float *o_part(int warp)
	{
		if constexpr (plan::of.lean)
			return reinterpret_cast<float *>(S[warp]);
		else
			return o[warp];
	}
};

__device__ inline uint64_t evict_first()
{
	uint64_t policy;

	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
	return policy;
}

template <class plan>
__device__ void fetch_piece(try_memory<plan> &m, const layer_view &v, const decode_head &at, int warp, int n)
{
	using State = typename plan::State;
	constexpr unsigned bytes = plan::of.piece * DECODE_D * sizeof(State);
	const State *from = head_states<State>(v, max(at.read, 0), at.h) + (warp * 32 + n * plan::of.piece) * DECODE_D;
	void *to = m.S[warp][n * plan::of.piece];

	hopper::arrive_expecting(m.arrived[warp][n], at.read < 0 ? 0 : bytes);
	if (at.read < 0)
		return;
	if constexpr (plan::of.evict)
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
		             :: "r"(hopper::shared_address(to)), "l"(from), "r"(bytes), "r"(hopper::shared_address(&m.arrived[warp][n])),
		                "l"(evict_first()) : "memory");
	else
		hopper::copy_run(to, from, bytes, m.arrived[warp][n]);
}

template <class plan> __device__ void try_normalise(try_memory<plan> &m, const layer_view &v, int warp)
{
	int lane = (int)threadIdx.x % 32, row = warp * 32 + lane;
	float inverse = v.m.l2norm ? inverse_length(m.qkv, v.m.l2_eps) : 1.0f;
	float q_inverse = __shfl_sync(0xffffffffu, inverse, 0), k_inverse = __shfl_sync(0xffffffffu, inverse, 16);

	m.q[warp][lane] = m.qkv[0][row] * q_inverse * v.m.scale;
	m.k[warp][lane] = m.qkv[1][row] * k_inverse;
	__syncwarp();
}

template <class plan>
__device__ void try_read(try_memory<plan> &m, const layer_view &v, const decode_head &at, int warp, int start, float decay)
{
	int column = (int)threadIdx.x % 32 * LANE;
	pairs all;

#pragma unroll 1
	for (int n = 0; n < plan::EIGHTS; n++) {
		float k[EIGHT], u[LANE] = {};
		load(k, &m.k[warp][n * EIGHT]);
#pragma unroll
		for (int i = 0; i < EIGHT; i++) {
			int piece = n * plan::IN_EIGHT + i / plan::of.piece;
			if (i % plan::of.piece == 0) {
				hopper::wait(m.arrived[warp][piece], 0);
				if (piece + start < plan::PIECES && threadIdx.x % 32 == 0)
					fetch_piece(m, v, at, warp, piece + start);
			}
			float S[LANE] = {};
			if (at.read >= 0)
				load(S, &m.S[warp][n * EIGHT + i][column]);
#pragma unroll
			for (int j = 0; j < LANE; j++)
				u[j] = __fmaf_rn(__fmul_rn(S[j], decay), k[i], u[j]);
		}
		all.add(n, u);
	}
	store(&m.u[warp][column], all.sum);
}

template <class plan, class State> __device__ void try_store(State *to, State *here, const float (&x)[LANE])
{
	if constexpr (plan::of.store == PLAIN) {
		store_row(to, x);
	} else if constexpr (plan::of.store == BULK) {
		store(here, x);
	} else {
		static_assert(!plan::of.f32, "streaming is tried for bf16 alone");
		pack<LANE, bf16> row;
		uint2 w;
#pragma unroll
		for (int j = 0; j < LANE; j++)
			from_float(row.at[j], x[j]);
		memcpy(&w, &row, sizeof w);
		asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" :: "l"(to), "r"(w.x), "r"(w.y) : "memory");
	}
}

/* The eight rows at `here` go to `to`. */
template <class State> __device__ void send_eight(State *to, const State *here)
{
	hopper::shared_fence();
	__syncwarp();
	if (threadIdx.x % 32 == 0) {
		asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
		             :: "l"(to), "r"(hopper::shared_address(here)), "r"((unsigned)(EIGHT * DECODE_D * sizeof(State))) : "memory");
		asm volatile("cp.async.bulk.commit_group;" ::: "memory");
	}
}

template <class plan>
__device__ void try_write(try_memory<plan> &m, int warp, float decay, bool any, const pack<LANE, float> &u,
                          typename plan::State *to, bool keep)
{
	int column = (int)threadIdx.x % 32 * LANE;
	pairs all;

#pragma unroll 1
	for (int n = 0; n < plan::EIGHTS; n++) {
		float o[LANE] = {};
#pragma unroll
		for (int part = 0; part < EIGHT; part += plan::TOGETHER) {
			constexpr int R = plan::TOGETHER;
			float k[R], q[R], S[R][LANE] = {};
			int first = n * EIGHT + part;
			load(k, &m.k[warp][first]);
			load(q, &m.q[warp][first]);
			if (any)
#pragma unroll
				for (int i = 0; i < R; i++)
					load(S[i], &m.S[warp][first + i][column]);
#pragma unroll
			for (int i = 0; i < R; i++) {
#pragma unroll
				for (int j = 0; j < LANE; j++) {
					S[i][j] = __fmaf_rn(k[i], u.at[j], __fmul_rn(S[i][j], decay));
					o[j] = __fmaf_rn(S[i][j], q[i], o[j]);
				}
				if (keep)
					try_store<plan>(to + (warp * 32 + first + i) * DECODE_D + column, &m.S[warp][first + i][column], S[i]);
			}
		}
		if (plan::of.store == BULK && keep)
			send_eight(to + (warp * 32 + n * EIGHT) * DECODE_D, &m.S[warp][n * EIGHT][0]);
		all.add(n, o);
	}
	__syncwarp();
	store(m.o_part(warp) + column, all.sum);
}

/* over_parts of o. */
template <class plan> __device__ pack<LANE, float> over_o(try_memory<plan> &m, int column)
{
	pack<LANE, float> sum = {};

#pragma unroll
	for (int w = 0; w < 4; w++) {
		float x[LANE];
		load(x, m.o_part(w) + column);
#pragma unroll
		for (int j = 0; j < LANE; j++)
			sum.at[j] += x[j];
	}
	return sum;
}

/* ---- counts [layers] of blocks that are done, in scratch that the kernels in one launch leave alone; for tries only: that the first
 * layer's first block clears them before any counts itself is likely, not certain ---- */

__device__ inline unsigned *counts_of(const layer_view &v) { return reinterpret_cast<unsigned *>(v.beta); }

__device__ inline void clear_counts(const layer_view &v)
{
	if (v.layer == 0 && blockIdx.x == 0 && (int)threadIdx.x < v.layers)
		counts_of(v)[threadIdx.x] = 0;
	__threadfence();
	__syncthreads();
}

__device__ inline void wait_for_counts(const layer_view &v)
{
	unsigned done = 0;

	if (v.layer == 0)
		return;
	if (threadIdx.x == 0)
		while (done < gridDim.x)
			asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(done) : "l"(counts_of(v) + v.layer - 1) : "memory");
	__syncthreads();
}

/* All other warps have stored before the last barrier. */
__device__ inline void count(const layer_view &v)
{
	__syncwarp();
	__threadfence();
	if (threadIdx.x == 0)
		atomicAdd(counts_of(v) + v.layer, 1u);
}

/* Grid: value heads of all rows. */
template <class plan> __global__ void __launch_bounds__(128, plan::of.blocks) decode_try(layer_view v)
{
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
	__trap();
#endif
	extern __shared__ __align__(128) unsigned char shared[];
	auto &m = *reinterpret_cast<try_memory<plan> *>(shared);
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, start = plan::of.start, processors;
	pack<LANE, float> weight = load_pack<LANE>(v.norm_weight + lane * LANE);
	decode_inputs<128, bf16> inputs;
	decode_head here(v, (int)blockIdx.x);
	bool any = here.read >= 0, keep = here.write >= 0 && !here.padding();

	asm("mov.u32 %0, %%nsmid;" : "=r"(processors));
	bool waits = (int)blockIdx.x < processors * plan::of.blocks;    /* it is placed while the grid before it ends */
	if (plan::of.first == STAGGERED && waits)
		start = 1 + (int)blockIdx.x / processors % plan::PIECES;
	if (plan::of.first > 0 && waits)
		start = min(plan::of.first, plan::PIECES);
	if (plan::of.counts)
		clear_counts(v);
	hopper::let_later_grid_begin();
	if (lane == 0) {
		for (uint64_t &b : m.arrived[warp])
			hopper::barrier_init(b, 1);
		hopper::barrier_fence();
		for (int n = 0; n < start; n++)
			fetch_piece(m, v, here, warp, n);
	}
	inputs.load_memory(v, here);
	if (plan::of.call && waits)
		inputs.prefetch_activations(v, here);
	if (plan::of.counts)
		wait_for_counts(v);
	else
		hopper::wait_for_earlier_grid();
	inputs.load_activations(v, here);
	inputs.convolve(m.qkv, v, here);
	float decay = expf(log_decay(inputs.gate())), beta = sigmoid(inputs.gate().b);
	__syncthreads();
	try_normalise(m, v, warp);
	try_read(m, v, here, warp, start, decay);
	__syncthreads();
	pack<LANE, float> u = over_parts(m.u, lane * LANE), own = load_pack<LANE>(m.qkv[2] + lane * LANE);
#pragma unroll
	for (int j = 0; j < LANE; j++)
		u.at[j] = beta * (own.at[j] - u.at[j]);
	try_write(m, warp, decay, any, u, head_states<typename plan::State>(v, max(here.write, 0), here.h), keep);
	__syncthreads();
	if (warp == 0)
		finish_head<bf16>(v, here, inputs.z, weight, over_o(m, lane * LANE));
	if (plan::of.store == BULK && lane == 0)
		asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
	if (plan::of.counts)
		count(v);
}

#endif
