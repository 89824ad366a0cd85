/* Decoding in one launch: what convolve, recur and gate_norm of gpu/executor_kernels.cuh do, for rows of one
 * token, heads of 128 x 128 and a convolution of four taps; on Hopper.
 *
 * A block has one head. The copy engine brings its state, 64 KiB in f32, to shared memory: half of it while the threads
 * convolve, the other half piece by piece as they begin to read (decode_plan). The block walks over the rows twice:
 * once for u, and, when u is known, once to update them and for o, each row going straight to the slot. No state is held
 * in registers, and a warp writes whole rows, one after the other. Loads queue behind those before them, so what the
 * convolution waits for is asked for before the state.
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
 * Numbers: those of the three kernels to the bit. A sum over rows is theirs (tile.cuh): eight rows one after the other,
 * four such sums in pairs, four of those one after the other. */
#ifndef ETALON_EXECUTOR_DECODE_CUH
#define ETALON_EXECUTOR_DECODE_CUH

#include "gpu/executor/executor_decode_inputs.cuh"
#include "gpu/device/hopper.cuh"

enum { EIGHT = 8, FOUR = 4, LANE = 4 };  /* rows that are added one after the other; that are changed at a time; columns of a lane */

/* A block of four warps, each on as many rows of the state; BLOCKS of them on a multiprocessor. Of a warp's EIGHTS eights of
 * rows START are fetched first, and each of the others when one has arrived. */
template <class State_, int BLOCKS_> struct decode_plan {
	using State = State_;
	static constexpr int BLOCKS = BLOCKS_, WARPS = 4, THREADS = WARPS * 32, ROWS = DECODE_D / WARPS;
	static constexpr int EIGHTS = ROWS / EIGHT, START = 2;
};

/* A warp's rows of the state; of o its part, when no row is read any more. */
template <class State, int ROWS> union decode_rows { State S[ROWS][DECODE_D]; float o[DECODE_D]; };

template <class plan> struct decode_memory {
	alignas(128) decode_rows<typename plan::State, plan::ROWS> own[plan::WARPS];
	float q[plan::WARPS][plan::ROWS], k[plan::WARPS][plan::ROWS];                   /* normalised; each warp's own */
	float qkv[3][DECODE_D], u[plan::WARPS][DECODE_D];
	uint64_t arrived[plan::WARPS][plan::EIGHTS];
};

/* A multiprocessor has 228 KiB for its blocks, and each takes 1 KiB more than it asks for. */
template <class plan> constexpr bool has_room = plan::BLOCKS * (sizeof(decode_memory<plan>) + 1024) <= 228 * 1024;

/* ---- the kernel: sums in the order of tile.cuh's, where each 8 rows are a thread's and each 32 a warp's ---- */

/* (sum x^2 + eps)^-1/2 of q for lanes below 16, of k for the others. */
__device__ inline float inverse_length(const float (&qkv)[3][DECODE_D], float eps)
{
	int lane = (int)threadIdx.x % 32;
	float squares = 0.0f, x[EIGHT], sum = 0.0f;

	load(x, &qkv[lane / 16][lane % 16 * EIGHT]);
#pragma unroll
	for (int i = 0; i < EIGHT; i++)
		squares += x[i] * x[i];
	squares = lane_sum(squares, 1, 4);
#pragma unroll
	for (int w = 0; w < 4; w++)
		sum += __shfl_sync(0xffffffffu, squares, lane / 16 * 16 + w * 4);
	return 1.0f / sqrtf(sum + eps);
}

/* The sum of four terms: in pairs, and of the pairs. */
struct pairs {
	float sum[LANE], even[LANE];

	/* The n-th, in order. */
	__device__ void add(int n, const float (&x)[LANE])
	{
#pragma unroll
		for (int j = 0; j < LANE; j++)
			if (n % 2 == 0)
				even[j] = x[j];
			else
				sum[j] = n == 1 ? even[j] + x[j] : sum[j] + (even[j] + x[j]);
	}
};

/* A lane's columns, from `column` on, of a sum over all rows, from the parts [128] of 32 rows each. */
template <class Part> __device__ pack<LANE, float> over_parts(int column, Part part)
{
	pack<LANE, float> sum = {};

#pragma unroll
	for (int w = 0; w < 4; w++) {
		float x[LANE];
		load(x, part(w) + column);
#pragma unroll
		for (int j = 0; j < LANE; j++)
			sum.at[j] += x[j];
	}
	return sum;
}

/* The n-th eight of a warp's rows of the state (slot -1: zeros, nothing comes) on their way. One lane. */
template <class plan>
__device__ void fetch_eight(decode_memory<plan> &m, const layer_view &v, const decode_head &at, int warp, int n)
{
	const auto *from = head_states<typename plan::State>(v, max(at.read, 0), at.h) + (warp * plan::ROWS + n * EIGHT) * DECODE_D;
	constexpr unsigned bytes = sizeof m.own[0].S / plan::EIGHTS;

	hopper::arrive_expecting(m.arrived[warp][n], at.read < 0 ? 0 : bytes);
	if (at.read >= 0)
		hopper::copy_run(m.own[warp].S[n * EIGHT], from, bytes, m.arrived[warp][n]);
}

/* The first `start` eights of a warp's rows. One lane. */
template <class plan>
__device__ void fetch_first(decode_memory<plan> &m, const layer_view &v, const decode_head &at, int warp, int start)
{
	for (int n = 0; n < start; n++)
		fetch_eight(m, v, at, warp, n);
}

/* q and k of a warp's rows. */
template <class plan> __device__ void normalise_rows(decode_memory<plan> &m, const layer_view &v, int warp)
{
	int lane = (int)threadIdx.x % 32, row = warp * plan::ROWS + lane;
	float inverse = v.m.l2norm ? inverse_length(m.qkv, v.m.l2_eps) : 1.0f;
	float q_inverse = __shfl_sync(0xffffffffu, inverse, 0), k_inverse = __shfl_sync(0xffffffffu, inverse, 16);

	if (lane < plan::ROWS) {
		m.q[warp][lane] = m.qkv[0][row] * q_inverse * v.m.scale;
		m.k[warp][lane] = m.qkv[1][row] * k_inverse;
	}
	__syncwarp();
}

/* A lane's columns of a row: in whole accesses, which the compiler splits (nvcc 13.0). */
__device__ inline void store_row(float *to, const float (&x)[LANE])
{
	asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}
__device__ inline void store_row(bf16 *to, const float (&x)[LANE])
{
	pack<LANE, bf16> row;
	uint2 w;

#pragma unroll
	for (int j = 0; j < LANE; j++)
		from_float(row.at[j], x[j]);
	memcpy(&w, &row, sizeof w);
	asm volatile("st.global.v2.b32 [%0], {%1, %2};" :: "l"(to), "r"(w.x), "r"(w.y) : "memory");
}

/* y of a head by one warp, from o. */
template <class F>
__device__ void finish_head(const layer_view &v, const decode_head &at, const words<4, F> &z, const pack<4, float> &weight,
                            const pack<4, float> &mine)
{
	int column = (int)threadIdx.x % 32 * 4;
	float squares = 0.0f, y[4];

#pragma unroll
	for (int j = 0; j < 4; j++)
		squares += mine.at[j] * mine.at[j];
	gate_part(y, mine, inverse_norm(v, squares), weight, elements<4, F>(z));
	if (!at.padding())
		store(static_cast<F *>(v.y) + (((int64_t)at.t * v.layers + v.layer) * v.m.Hv + at.h) * DECODE_D + column, y);
}

/* u = k' exp(g) S of a warp's rows, of which `start` eights are under way. */
template <class plan>
__device__ void read_rows(decode_memory<plan> &m, const layer_view &v, const decode_head &at, int warp, int start, float decay)
{
	int column = (int)threadIdx.x % 32 * LANE;
	pairs all;

#pragma unroll 1
	for (int n = 0; n < plan::EIGHTS; n++) {
		float k[EIGHT], u[LANE] = {};
		load(k, &m.k[warp][n * EIGHT]);
		hopper::wait(m.arrived[warp][n], 0);
		if (n + start < plan::EIGHTS && threadIdx.x % 32 == 0)
			fetch_eight(m, v, at, warp, n + start);
#pragma unroll
		for (int i = 0; i < EIGHT; i++) {
			float S[LANE] = {};
			if (at.read >= 0)
				load(S, &m.own[warp].S[n * EIGHT + i][column]);
#pragma unroll
			for (int j = 0; j < LANE; j++)
				u[j] = __fmaf_rn(__fmul_rn(S[j], decay), k[i], u[j]);
		}
		all.add(n, u);
	}
	store(&m.u[warp][column], all.sum);
}

/* S <- exp(g) S + k u' of a warp's rows, to memory; o = S'q of them. */
template <class plan>
__device__ void write_rows(decode_memory<plan> &m, int warp, float decay, bool any, const pack<LANE, float> &u,
                           typename plan::State *to, bool keep)
{
	int column = (int)threadIdx.x % 32 * LANE;
	pairs all;

#pragma unroll 1
	for (int n = 0; n < plan::EIGHTS; n++) {
		float o[LANE] = {};
#pragma unroll
		for (int row = n * EIGHT; row < (n + 1) * EIGHT; row += FOUR) {
			float k[FOUR], q[FOUR], S[FOUR][LANE] = {};
			load(k, &m.k[warp][row]);
			load(q, &m.q[warp][row]);
			if (any)
#pragma unroll
				for (int i = 0; i < FOUR; i++)
					load(S[i], &m.own[warp].S[row + i][column]);
#pragma unroll
			for (int i = 0; i < FOUR; i++) {
#pragma unroll
				for (int j = 0; j < LANE; j++) {
					S[i][j] = __fmaf_rn(k[i], u.at[j], __fmul_rn(S[i][j], decay));
					o[j] = __fmaf_rn(S[i][j], q[i], o[j]);
				}
				if (keep)
					store_row(to + (warp * plan::ROWS + row + i) * DECODE_D + column, S[i]);
			}
		}
		all.add(n, o);
	}
	__syncwarp();
	store(&m.own[warp].o[column], all.sum);
}

/* Grid: value heads of all rows. */
template <class plan, class F>
__global__ void __launch_bounds__(plan::THREADS, plan::BLOCKS) decode_layer(layer_view v)
{
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
	__trap();       /* hopper.cuh is empty */
#endif
	static_assert(has_room<plan>);
	using State = typename plan::State;
	extern __shared__ __align__(128) unsigned char shared[];
	auto &m = *reinterpret_cast<decode_memory<plan> *>(shared);
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, processors = hopper::processors(), start = plan::START;
	pack<LANE, float> weight = load_pack<LANE>(v.norm_weight + lane * LANE);
	decode_inputs<plan::THREADS, F> inputs;
	decode_head here(v, (int)blockIdx.x);
	bool any = here.read >= 0, keep = here.write >= 0 && !here.padding();
	bool early = (int)blockIdx.x < processors * plan::BLOCKS;       /* placed while the grid before this one ends */

	hopper::let_later_grid_begin();
	if (early)
		start = 1 + (int)blockIdx.x / processors % 3;           /* or all of them would read, and then all write */
	if (lane == 0) {
		for (uint64_t &b : m.arrived[warp])
			hopper::barrier_init(b, 1);
		hopper::barrier_fence();
		if (early)
			fetch_first(m, v, here, warp, start);
	}
	inputs.load_memory(v, here);
	if (early)
		inputs.prefetch_activations(v, here);
	hopper::wait_for_earlier_grid();
	inputs.load_activations(v, here);
	if (!early && lane == 0)
		fetch_first(m, v, here, warp, start);
	inputs.convolve(m.qkv, v, here);
	float decay = expf(log_decay(inputs.gate())), beta = sigmoid(inputs.gate().b);
	__syncthreads();
	normalise_rows(m, v, warp);
	read_rows(m, v, here, warp, start, decay);
	__syncthreads();
	pack<LANE, float> u = over_parts(lane * LANE, [&](int w) { return m.u[w]; }), own = load_pack<LANE>(m.qkv[2] + lane * LANE);
#pragma unroll
	for (int j = 0; j < LANE; j++)
		u.at[j] = beta * (own.at[j] - u.at[j]);
	write_rows(m, warp, decay, any, u, head_states<State>(v, max(here.write, 0), here.h), keep);
	__syncthreads();
	if (warp == 0)
		finish_head<F>(v, here, inputs.z, weight, over_parts(lane * LANE, [&](int w) { return m.own[w].o; }));
}

#endif
