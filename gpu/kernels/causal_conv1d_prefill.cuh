/* Part of causal_conv1d.cu, which says what is computed: the two kernels that prefill. */
#ifndef ETALON_CAUSAL_CONV1D_PREFILL_CUH
#define ETALON_CAUSAL_CONV1D_PREFILL_CUH

#include "gpu/device/hopper.cuh"
#include "gpu/device/silu.cuh"
#include "gpu/device/stored.cuh"
#include "gpu/kernels/causal_conv1d.cuh"

/* RUN: tokens of a block; LONG_RUN where a grid of those ends sooner. */
enum { THREADS = 128, RUN = 16, LONG_RUN = 20, MAX_W = 8 };

/* The input of channel c at token t < cuts[n+1]; t may reach back W-1 before cuts[n]. */
template <int W, class F> __device__ float input_at(const conv<F> &m, int n, int c, int64_t t)
{
	int64_t start = m.cuts[n];

	if (t >= start)
		return to_float(m.x[t * m.C + c]);
	if (!m.initial.data)
		return 0.0f;
	return m.initial.at(((size_t)n * m.C + c) * (W - 1) + (size_t)(t - start + W - 1));
}

/* Drops the oldest input; the newest is to be put into window[W-1]. */
template <int W, int V> __device__ void shift(float (&window)[W][V])
{
#pragma unroll
	for (int w = 0; w + 1 < W; w++)
#pragma unroll
		for (int j = 0; j < V; j++)
			window[w][j] = window[w + 1][j];
}

/* Taps of V channels as stored: taps[j*W+w] = weight[c+j,w]. */
template <int W, int V, class F>
__device__ void load_taps(float (&taps)[V * W], float (&bias)[V], const conv<F> &m, int c)
{
	load(taps, m.weight, (size_t)c * W);
	if (m.bias.data) {
		load(bias, m.bias, c);
		return;
	}
#pragma unroll
	for (int j = 0; j < V; j++)
		bias[j] = 0.0f;
}

/* Of V channels; window[(first + w) % W] is what tap w multiplies. */
template <int W, int V>
__device__ void output_of(float (&y)[V], const float (&taps)[V * W], const float (&bias)[V], const float (&window)[W][V],
                          int first, bool activated)
{
#pragma unroll
	for (int j = 0; j < V; j++) {
		y[j] = bias[j];
#pragma unroll
		for (int w = 0; w < W; w++)
			y[j] += taps[j * W + w] * window[(first + w) % W][j];
		if (activated)
			y[j] = silu_approx(y[j]);
	}
}

/* Where a block's tokens and channels begin: blocks are numbered over pieces of a row, then over runs. */
struct run_place {
	int64_t first;
	int channel;

	__device__ run_place(int C, int width, int run)
	{
		unsigned pieces = (C + width - 1) / width;

		first = (int64_t)(blockIdx.x / pieces) * run;
		channel = (int)(blockIdx.x % pieces) * width;
	}
};

/* The W - 1 last inputs of channel c of sequence n. */
template <int W, class F> __device__ void keep_last(const conv<F> &m, int n, int c)
{
	for (int s = 0; s < W - 1; s++) {
		float last[1] = { input_at<W>(m, n, c, m.cuts[n + 1] - (W - 1) + s) };
		store(m.final_state, ((size_t)n * m.C + c) * (W - 1) + s, last);
	}
}

/* One thread a sequence and channel. */
template <int W, class F> __global__ void __launch_bounds__(THREADS) conv_states(conv<F> m)
{
	int n = (int)blockIdx.x, c = (int)(blockIdx.y * THREADS + threadIdx.x);

	if (c < m.C)
		keep_last<W>(m, n, c);
}

/* ---- prefill, any width ---- */

/* The window before token t of sequence n, window[0] to be dropped. */
template <int W, class F> __device__ void look_back(float (&window)[W][1], const conv<F> &m, int n, int c, int64_t t)
{
#pragma unroll 1
	for (int w = 1; w < W; w++) {
		shift(window);
		window[W - 1][0] = input_at<W>(m, n, c, t - W + w);
	}
}

template <int W, class F> __global__ void __launch_bounds__(THREADS) conv_channel(conv<F> m)
{
	run_place at(m.C, THREADS, RUN);
	int c = at.channel + (int)threadIdx.x;
	int64_t t = at.first, end = min(t + RUN, m.T);
	float taps[W], bias[1], window[W][1] = {};

	if (c >= m.C)
		return;
	int n = sequence_of(m.cuts, m.N, t);
	load_taps<W>(taps, bias, m, c);
	while (t < end) {
		while (m.cuts[n + 1] <= t)      /* empty ones are passed over */
			n++;
		int64_t cut = min(end, m.cuts[n + 1]);
		look_back(window, m, n, c, t);
		for (; t < cut; t++) {
			float y[1];
			shift(window);
			window[W - 1][0] = to_float(m.x[t * m.C + c]);
			output_of<W>(y, taps, bias, window, 0, m.silu);
			store(m.y + t * m.C + c, y);
		}
	}
}

/* ---- prefill by tiles ---- */

/* A thread's 8 bytes of a row. GROUP: tokens at a time, a multiple of W, so that a place in the window is a constant. */
template <int W, class F> struct tile_plan {
	static constexpr int V = 8 / sizeof(F), CHANNELS = THREADS * V, BACK = W - 1, GROUP = W < 4 ? 4 - 4 % W : W;
};

/* Row r is the token BACK before the run's r-th; the last GROUP - 1 are read for nothing. */
template <int W, int TOKENS, class F> struct alignas(128) conv_rows {
	using plan = tile_plan<W, F>;
	F row[plan::BACK + TOKENS + plan::GROUP - 1][plan::CHANNELS];
	uint64_t arrived;
};

/* The rows of `count` tokens from `first` on, and those before, on their way: each warp, one lane of it, calls every WARPS-th, for
 * the copies of a warp's lanes go out one after the other. One barrier of the block. */
template <int W, int TOKENS, class F>
__device__ void fetch_rows(conv_rows<W, TOKENS, F> &to, const conv<F> &m, int64_t first, int count, int channel)
{
	constexpr int BACK = tile_plan<W, F>::BACK, WARPS = THREADS / 32;
	int before = (int)min(first, (int64_t)BACK);
	unsigned bytes = min(tile_plan<W, F>::CHANNELS, m.C - channel) * sizeof(F);

	if (threadIdx.x == 0) {
		hopper::barrier_init(to.arrived, 1);
		hopper::barrier_fence();
		hopper::arrive_expecting(to.arrived, (before + count) * bytes);
	}
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		for (int r = BACK - before + (int)threadIdx.x / 32; r < BACK + count; r += WARPS)
			hopper::copy_run(to.row[r], m.x + (first - BACK + r) * m.C + channel, bytes, to.arrived);
}

/* sequence_of by a warp, 32 cuts at a time. */
__device__ static int sequence_by_warp(const int64_t *cuts, int N, int64_t t)
{
	int below = 0, count = N;       /* it is one of `count` from `below` on */

	while (count > 1) {
		int each = (count + 31) / 32, at = (int)threadIdx.x % 32 * each;
		unsigned begun = __ballot_sync(0xffffffffu, at < count && cuts[below + at] <= t);
		int passed = (31 - __clz((int)begun)) * each;

		below += passed, count = min(each, count - passed);
	}
	return below;
}

/* The last W - 1 inputs of sequence n at a place where `count` tokens of it have been, fewer than that: of its history the
 * newest, to last[s][j]; those of the tokens are there already. */
template <int W, int V, class F>
__device__ void fill_from_history(float (&last)[W - 1][V], const conv<F> &m, int n, int count, int c)
{
	constexpr int BACK = W - 1;
	float held[V * BACK] = {};

	if (m.initial.data)
		stored<V * BACK>(m.initial, ((size_t)n * m.C + c) * BACK).convert(held);
#pragma unroll
	for (int passed = 0; passed < BACK; passed++)
#pragma unroll
		for (int s = 0; s + passed < BACK; s++)
#pragma unroll
			for (int j = 0; j < V; j++)
				if (passed == count)
					last[s][j] = held[j * BACK + s + passed];
}

/* A sequence's last W - 1 inputs before the run's token a, oldest first, to last[s][j]. `count` tokens of it, or W - 1 and more,
 * stand before a. */
template <int W, int V, int TOKENS, class F>
__device__ void inputs_before(float (&last)[W > 1 ? W - 1 : 1][V], const conv<F> &m, const conv_rows<W, TOKENS, F> &rows, int a, int n,
                              int count, int c)
{
	if constexpr (W > 1) {
#pragma unroll
		for (int s = 0; s < W - 1; s++)
			load(last[s], &rows.row[a + s][threadIdx.x * V]);
		if (count < W - 1)
			fill_from_history<W>(last, m, n, count, c);
	}
}

/* Outputs of the run's tokens [a, stop), of one sequence, to `to`. */
template <int W, int V, int TOKENS, class F>
__device__ void convolve_rows(F *to, float (&window)[W][V], const conv<F> &m, const conv_rows<W, TOKENS, F> &rows, int a, int stop,
                              const float (&taps)[V * W], const float (&bias)[V])
{
	using plan = tile_plan<W, F>;

	for (; a < stop; a += plan::GROUP, to += (int64_t)plan::GROUP * m.C) {
		pack<V, F> x[plan::GROUP];
#pragma unroll
		for (int i = 0; i < plan::GROUP; i++)
			x[i] = load_pack<V>(&rows.row[plan::BACK + a + i][threadIdx.x * V]);
#pragma unroll
		for (int i = 0; i < plan::GROUP; i++) {
			float y[V];
#pragma unroll
			for (int j = 0; j < V; j++)
				window[i % W][j] = to_float(x[i].at[j]);
			output_of<W>(y, taps, bias, window, i + 1, m.silu);
			if (a + i < stop)
				store(to + (int64_t)i * m.C, y);
		}
	}
}

/* Blocks on a multiprocessor. */
template <int W> constexpr int tiles_together = W <= 4 ? 8 : 4;

/* KEEPS: final_state too. */
template <int W, bool KEEPS, int TOKENS, class F>
__global__ void __launch_bounds__(THREADS, tiles_together<W>) conv_tile(const __grid_constant__ conv<F> m)
{
	using plan = tile_plan<W, F>;
	constexpr int V = plan::V, BACK = plan::BACK;
	__shared__ conv_rows<W, TOKENS, F> rows;
	run_place at(m.C, plan::CHANNELS, TOKENS);
	int64_t first = at.first;
	int c = at.channel + (int)threadIdx.x * V, count = (int)min((int64_t)TOKENS, m.T - first);

	stored<V * W> raw(m.weight, (size_t)min(c, m.C - V) * W);
	fetch_rows(rows, m, first, count, at.channel);
	int n = first ? sequence_by_warp(m.cuts, m.N, first) : 0;
	/* in the run, as far as it matters */
	auto place = [=](int64_t t) { return (int)max((int64_t)-BACK, min(t - first, (int64_t)count + 1)); };
	int start = place(m.cuts[n]), cut = place(m.cuts[n + 1]);
	float taps[V * W], bias[V] = {}, window[W][V] = {}, last[BACK > 0 ? BACK : 1][V];
	if (m.bias.data)
		load(bias, m.bias, min(c, m.C - V));
	hopper::wait(rows.arrived, 0);
	raw.convert(taps);
	if (c >= m.C)
		return;
	/* the sequences that have a token in the run or end in it, those of no tokens among them */
	for (int a = 0;; start = cut, cut = place(m.cuts[n + 1])) {
		int stop = min(count, cut);
		if (a < stop) {
			inputs_before<W>(last, m, rows, a, n, a - start, c);
#pragma unroll
			for (int s = 0; s < BACK; s++)
#pragma unroll
				for (int j = 0; j < V; j++)
					window[s + 1][j] = last[s][j];
			convolve_rows<W>(m.y + (first + a) * m.C + c, window, m, rows, a, stop, taps, bias);
			a = stop;
		}
		if (cut > count)
			return;
		if constexpr (KEEPS) {
			float kept[V * BACK];
			inputs_before<W>(last, m, rows, stop, n, cut - start, c);
#pragma unroll
			for (int s = 0; s < BACK; s++)
#pragma unroll
				for (int j = 0; j < V; j++)
					kept[j * BACK + s] = last[s][j];
			store(m.final_state, ((size_t)n * m.C + c) * BACK, kept);
		}
		if (++n == m.N)
			return;
	}
}

#endif
