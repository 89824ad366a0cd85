/* Part of causal_conv1d.cu, which says what is computed: the two kernels that prefill. */
#ifndef ETALON_CAUSAL_CONV1D_PREFILL_CUH
#define ETALON_CAUSAL_CONV1D_PREFILL_CUH

#include "gpu/device/hopper.cuh"
#include "gpu/device/silu.cuh"
#include "gpu/kernels/causal_conv1d.cuh"

enum { THREADS = 128, RUN = 16, MAX_W = 8 };

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

/* The W - 1 last inputs of channel c of sequence n. */
template <int W, class F> __device__ void keep_last(const conv<F> &m, int n, int c)
{
	for (int s = 0; s < W - 1; s++) {
		float last[1] = { input_at<W>(m, n, c, m.cuts[n + 1] - (W - 1) + s) };
		store(m.final_state, ((size_t)n * m.C + c) * (W - 1) + s, last);
	}
}

/* What a block of the two prefill kernels is for, in channels from `channel` on: tokens from `first` on or, where it is not
 * negative, the final state of `sequence`. Blocks are numbered over pieces of a row, then over runs and sequences. */
struct share {
	int64_t first;
	int sequence, channel;

	__device__ share(int64_t T, int C, int width, unsigned skipped)
	{
		unsigned pieces = (C + width - 1) / width, piece = blockIdx.x % pieces;
		int64_t at = skipped + blockIdx.x / pieces, runs = (T + RUN - 1) / RUN;

		first = at * RUN, sequence = (int)(at - runs);
		channel = (int)piece * width;
	}
};

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

template <int W, class F> __global__ void __launch_bounds__(THREADS) conv_channel(conv<F> m, unsigned skipped)
{
	share mine(m.T, m.C, THREADS, skipped);
	int c = mine.channel + (int)threadIdx.x;
	int64_t t = mine.first, end = min(t + RUN, m.T);
	float taps[W], bias[1], window[W][1] = {};

	if (c >= m.C)
		return;
	if (mine.sequence >= 0) {
		keep_last<W>(m, mine.sequence, c);
		return;
	}
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
template <int W, class F> struct alignas(128) conv_rows {
	using plan = tile_plan<W, F>;
	F row[plan::BACK + RUN + plan::GROUP - 1][plan::CHANNELS];
	uint64_t arrived;
};

/* The rows of `count` tokens from `first` on, and those before, on their way. One warp. */
template <int W, class F>
__device__ void fetch_rows(conv_rows<W, F> &to, const conv<F> &m, int64_t first, int count, int channel)
{
	constexpr int BACK = tile_plan<W, F>::BACK;
	int lane = (int)threadIdx.x, before = (int)min(first, (int64_t)BACK);
	unsigned bytes = min(tile_plan<W, F>::CHANNELS, m.C - channel) * sizeof(F);

	if (lane == 0) {
		hopper::barrier_init(to.arrived, 1);
		hopper::barrier_fence();
		hopper::arrive_expecting(to.arrived, (before + count) * bytes);
	}
	__syncwarp();
	for (int r = BACK - before + lane; r < BACK + count; r += 32)
		hopper::copy_run(to.row[r], m.x + (first - BACK + r) * m.C + channel, bytes, to.arrived);
}

/* N elements of an operand as they are stored: a conversion would wait for its load. */
template <int N> struct stored {
	uint32_t word[N];
	enum dtype dtype;

	__device__ stored(const operand &from, size_t i) : dtype(from.dtype)
	{
		const char *at = static_cast<const char *>(from.data) + i * (dtype == DT_F32 ? 4 : 2);

		if (dtype == DT_F32)
			take<N>(at);
		else
			take<N / 2>(at);
	}

	__device__ void convert(float (&x)[N]) const
	{
#pragma unroll
		for (int i = 0; i < N; i++) {
			uint32_t two = word[i / 2];
			if (dtype == DT_F32)
				x[i] = __uint_as_float(word[i]);
			else if (dtype == DT_BF16)
				x[i] = __uint_as_float(i % 2 ? two & 0xffff0000u : two << 16);
			else
				x[i] = to_float(__ushort_as_half((unsigned short)(i % 2 ? two >> 16 : two)));
		}
	}

private:
	template <int M> __device__ void take(const char *at)
	{
		pack<M, uint32_t> raw = load_pack<M>(reinterpret_cast<const uint32_t *>(at));

#pragma unroll
		for (int i = 0; i < M; i++)
			word[i] = raw.at[i];
	}
};

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

/* The window before the run's token a of sequence n, which began at token `start`. */
template <int W, int V, class F>
__device__ void take_up(float (&window)[W][V], const conv<F> &m, const conv_rows<W, F> &rows, int64_t first, int a, int n,
                        int64_t start, int c)
{
#pragma unroll
	for (int s = 1; s < W; s++) {
		int64_t before = first + a - W + s - start;     /* negative: of the history */
#pragma unroll
		for (int j = 0; j < V; j++)
			window[s][j] = 0.0f;
		if (before >= 0)
			load(window[s], &rows.row[a + s - 1][threadIdx.x * V]);
		else if (m.initial.data)
#pragma unroll
			for (int j = 0; j < V; j++)
				window[s][j] = m.initial.at(((size_t)n * m.C + c + j) * (W - 1) + (size_t)(before + W - 1));
	}
}

/* Outputs of the run's tokens [a, stop), of one sequence, to `to`. */
template <int W, int V, class F>
__device__ void convolve_rows(F *to, float (&window)[W][V], const conv<F> &m, const conv_rows<W, F> &rows, int a, int stop,
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

template <int W, class F>
__global__ void __launch_bounds__(THREADS, W <= 4 ? 8 : 4) conv_tile(const __grid_constant__ conv<F> m, unsigned skipped)
{
	using plan = tile_plan<W, F>;
	constexpr int V = plan::V;
	__shared__ conv_rows<W, F> rows;
	share mine(m.T, m.C, plan::CHANNELS, skipped);
	int64_t first = mine.first;
	int c = mine.channel + (int)threadIdx.x * V, count = (int)min((int64_t)RUN, m.T - first);

	if (mine.sequence >= 0) {
		for (int i = mine.channel + (int)threadIdx.x; i < min(mine.channel + plan::CHANNELS, m.C); i += THREADS)
			keep_last<W>(m, mine.sequence, i);
		return;
	}
	if (threadIdx.x < 32)
		fetch_rows(rows, m, first, count, mine.channel);
	stored<V * W> raw(m.weight, (size_t)min(c, m.C - V) * W);
	float taps[V * W], bias[V] = {}, window[W][V] = {};
	int n = sequence_by_warp(m.cuts, m.N, first);
	int64_t start = m.cuts[n], cut = m.cuts[n + 1];
	if (m.bias.data)
		load(bias, m.bias, min(c, m.C - V));
	raw.convert(taps);
	__syncthreads();
	hopper::wait(rows.arrived, 0);
	if (c >= m.C)
		return;
	for (int a = 0, stop; a < count; a = stop) {
		while (cut <= first + a)        /* empty ones are passed over */
			start = cut, n++, cut = m.cuts[n + 1];
		stop = (int)min((int64_t)count, cut - first);
		take_up<W>(window, m, rows, first, a, n, start, c);
		convolve_rows<W>(m.y + (first + a) * m.C + c, window, m, rows, a, stop, taps, bias);
	}
}

#endif
