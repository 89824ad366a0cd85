/* Causal depthwise convolution over tokens, with a history for each sequence.
 *
 *   y_t = act(bias + sum_w weight[:,w] * x_{t-W+1+w}),  w = 0 .. W-1,  act none or silu
 *
 * x, y [T,C]; weight [C,W]; bias [C]; initial_state, final_state [N,C,W-1], oldest input first;
 * cuts [N+1]. Inputs before a sequence's first token come from initial_state, or are zero.
 *
 * Threads: V neighbouring channels each. Prefill: a block covers RUN tokens of 128 V channels;
 * a thread walks down its tokens with the last W inputs in registers, four loads ahead, and takes
 * up the next sequence's history where a sequence ends. A second kernel writes final_state.
 * Decode (each sequence one token): a thread reads one history, writes one output and the
 * shifted history.
 *
 * Numbers: f32 between load and store; the sum starts from the bias and runs from the oldest
 * input to the newest. Histories are stored inputs: they are moved, not computed. */
#include "gpu/kernels/causal_conv1d.cuh"

#include <cstring>

enum { THREADS = 128, RUN = 32, AHEAD = 4, MAX_W = 8 };

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

template <int W, int V, class F>
__device__ void emit(const conv<F> &m, const float (&taps)[V * W], const float (&bias)[V],
                     const float (&window)[W][V], int64_t t, int c)
{
	float y[V];

#pragma unroll
	for (int j = 0; j < V; j++) {
		y[j] = bias[j];
#pragma unroll
		for (int w = 0; w < W; w++)
			y[j] += taps[j * W + w] * window[w][j];
		if (m.silu)
			y[j] = silu(y[j]);
	}
	store(m.y + t * m.C + c, y);
}

/* The window before token t of sequence n, window[0] to be dropped. */
template <int W, int V, class F>
__device__ void look_back(float (&window)[W][V], const conv<F> &m, int n, int c, int64_t t)
{
#pragma unroll 1
	for (int w = 1; w < W; w++) {
		shift(window);
#pragma unroll
		for (int j = 0; j < V; j++)
			window[W - 1][j] = input_at<W>(m, n, c + j, t - W + w);
	}
}

template <int W, int V, class F> __global__ void __launch_bounds__(THREADS) conv_prefill(conv<F> m)
{
	int c = (int)(blockIdx.y * THREADS + threadIdx.x) * V;
	int64_t t = (int64_t)blockIdx.x * RUN, end = min(t + RUN, m.T), cut = t;
	int n = sequence_of(m.cuts, m.N, t);
	float taps[V * W], bias[V], window[W][V] = {};

	if (c >= m.C)
		return;
	load_taps<W>(taps, bias, m, c);
	while (t < end) {
		if (t == cut) { /* the first token here, or of a sequence; empty ones are passed over */
			while (m.cuts[n + 1] <= t)
				n++;
			cut = m.cuts[n + 1];
			look_back(window, m, n, c, t);
		}
		int64_t stop = min(min(t + AHEAD, end), cut);
		pack<V, F> x[AHEAD];
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			if (t + i < stop)
				x[i] = load_pack<V>(m.x + (t + i) * m.C + c);
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			if (t + i >= stop)
				break;
			shift(window);
#pragma unroll
			for (int j = 0; j < V; j++)
				window[W - 1][j] = to_float(x[i].at[j]);
			emit(m, taps, bias, window, t + i, c);
		}
		t = stop;
	}
}

/* One thread a sequence and channel. */
template <int W, class F> __global__ void __launch_bounds__(THREADS) conv_final_state(conv<F> m)
{
	int n = (int)blockIdx.x, c = (int)(blockIdx.y * THREADS + threadIdx.x);

	if (c >= m.C)
		return;
	for (int s = 0; s < W - 1; s++) {
		float last[1] = { input_at<W>(m, n, c, m.cuts[n + 1] - (W - 1) + s) };
		store(m.final_state, ((size_t)n * m.C + c) * (W - 1) + s, last);
	}
}

/* Sequence n is token n. */
template <int W, int V, class F> __global__ void __launch_bounds__(THREADS) conv_decode(conv<F> m)
{
	constexpr int H = W > 1 ? W - 1 : 1;    /* W = 1 has no history */
	int n = (int)blockIdx.x, c = (int)(blockIdx.y * THREADS + threadIdx.x) * V;
	size_t at = ((size_t)n * m.C + c) * H;
	float taps[V * W], bias[V], window[W][V], history[V * H] = {}, x[V];

	if (c >= m.C)
		return;
	if (W > 1 && m.initial.data)
		load(history, m.initial, at);
	load(x, m.x + (int64_t)n * m.C + c);
	load_taps<W>(taps, bias, m, c);
#pragma unroll
	for (int j = 0; j < V; j++) {
#pragma unroll
		for (int w = 0; w + 1 < W; w++)
			window[w][j] = history[j * H + w];
		window[W - 1][j] = x[j];
#pragma unroll
		for (int w = 0; w < H; w++)
			history[j * H + w] = window[W - H + w][j];
	}
	emit(m, taps, bias, window, n, c);
	if (W > 1 && m.final_state.data)
		store(m.final_state, at, history);
}

template <int W, int V, class F> static void launch_conv(const conv<F> &m, bool decode, cudaStream_t stream)
{
	dim3 grid(decode ? (unsigned)m.N : blocks((size_t)m.T, RUN), blocks(m.C, THREADS * V, 65535));
	dim3 states((unsigned)m.N, blocks(m.C, THREADS, 65535));

	if (decode) {
		launch_on(stream, "conv_decode", conv_decode<W, V, F>, grid, THREADS, 0, m);
		return;
	}
	launch_on(stream, "conv_prefill", conv_prefill<W, V, F>, grid, THREADS, 0, m);
	if (W > 1 && m.final_state.data)
		launch_on(stream, "conv_final_state", conv_final_state<W, F>, states, THREADS, 0, m);
}

template <int V, class F> static void launch_width(const conv<F> &m, int W, bool decode, cudaStream_t stream)
{
	switch (W) {
	case 1: return launch_conv<1, V>(m, decode, stream);
	case 2: return launch_conv<2, V>(m, decode, stream);
	case 3: return launch_conv<3, V>(m, decode, stream);
	case 4: return launch_conv<4, V>(m, decode, stream);
	case 5: return launch_conv<5, V>(m, decode, stream);
	case 6: return launch_conv<6, V>(m, decode, stream);
	case 7: return launch_conv<7, V>(m, decode, stream);
	case 8: return launch_conv<8, V>(m, decode, stream);
	default: refuse(E_DIM, "W", "%d; the kernel goes from 1 to %d", W, MAX_W);
	}
}

template <class F> void convolve(const conv<F> &m, int W, bool decode, cudaStream_t stream)
{
	constexpr int V = 16 / sizeof(F);

	if (m.C % V == 0)
		launch_width<V>(m, W, decode, stream);
	else
		launch_width<1>(m, W, decode, stream);
}

template void convolve(const conv<bf16> &, int, bool, cudaStream_t);

static bool is_silu(const capture &c)
{
	const char *activation = capture_string(&c, "activation", "none");

	if (strcmp(activation, "none") != 0 && strcmp(activation, "silu") != 0)
		refuse(E_PARAM, "activation", "none or silu, not %s", activation);
	return strcmp(activation, "silu") == 0;
}

const char *run_causal_conv1d(capture &c)
{
	input x(c, "x", REQUIRED), weight(c, "weight", REQUIRED), bias(c, "bias", OPTIONAL);
	input initial(c, "initial_state", OPTIONAL);
	output y(c, "y", REQUIRED), final_state(c, "final_state", OPTIONAL);
	std::vector<int64_t> cuts = sequence_cuts(c, x.dim(0));
	buffer device_cuts = uploaded(cuts);
	bool decode = one_token_each(cuts), silu = is_silu(c);
	int W = small(weight.dim(1), "W", MAX_W);

	float_dtypes({ &weight.host(), capture_in(&c, "bias"), capture_in(&c, "initial_state"),
	               capture_out(&c, "final_state") });
	same_dtype({ &x.host(), &y.host() });
	by_dtype(x.host(), [&](auto zero) {
		using F = decltype(zero);
		conv<F> m = {
			x.as<F>(), weight.any(), bias.any(), initial.any(), y.as<F>(), final_state.any(),
			device_cuts.as<int64_t>(), small(cuts.size() - 1, "N"), small(x.dim(1), "C"),
			(int64_t)x.dim(0), silu
		};
		convolve(m, W, decode);
	});
	y.fetch();
	final_state.fetch();
	return decode ? "causal_conv1d decode" : "causal_conv1d prefill";
}
