/* Causal depthwise convolution over tokens, with a history for each sequence.
 *
 *   y_t = act(bias + sum_w weight[:,w] * x_{t-W+1+w}),  w = 0 .. W-1,  act none or silu
 *
 * x, y [T,C]; weight [C,W]; bias [C]; initial_state, final_state [N,C,W-1], oldest input first;
 * cuts [N+1]. Inputs before a sequence's first token come from initial_state, or are zero.
 *
 * Prefill where rows are whole 16-byte pieces, conv_tile: the copy engine brings RUN tokens of a row's piece, and the W - 1
 * tokens before them, to shared memory; a thread has V neighbouring channels, and takes up the next sequence's history where a
 * sequence ends. Runs are short and eight blocks are on a multiprocessor, so that some load while others compute.
 * It writes final_state too, from the rows that are there.
 * Prefill else, conv_channel: a thread walks down the tokens of one channel; then conv_states.
 * Decode (each sequence one token): a thread reads one history, writes one output and the
 * shifted history.
 *
 * Numbers: f32 between load and store; the sum starts from the bias and runs from the oldest
 * input to the newest. Histories are stored inputs: they are moved, not computed. */
#include "gpu/kernels/causal_conv1d_prefill.cuh"

#include <cstring>

/* ---- decode ---- */

/* Sequence n is token n. */
template <int W, int V, class F> __global__ void __launch_bounds__(THREADS) conv_decode(conv<F> m)
{
	constexpr int H = W > 1 ? W - 1 : 1;    /* W = 1 has no history */
	int n = (int)blockIdx.x, c = (int)(blockIdx.y * THREADS + threadIdx.x) * V;
	size_t at = ((size_t)n * m.C + c) * H;
	float taps[V * W], bias[V], window[W][V], history[V * H] = {}, x[V], y[V];

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
	output_of<W>(y, taps, bias, window, 0, m.silu);
	store(m.y + (int64_t)n * m.C + c, y);
	if (W > 1 && m.final_state.data)
		store(m.final_state, at, history);
}

/* ---- launches ---- */

template <int W, int TOKENS, class F> static void launch_runs(const conv<F> &m, bool keeps, cudaStream_t stream)
{
	auto kernel = keeps ? conv_tile<W, W != 1, TOKENS, F> : conv_tile<W, false, TOKENS, F>;
	dim3 grid(small(blocks(m.C, tile_plan<W, F>::CHANNELS) * blocks((size_t)m.T, TOKENS), "blocks"));

	check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100), "conv_tile");
	launch_on(stream, "conv_tile", kernel, grid, THREADS, 0, m);
}

static size_t multiprocessors()
{
	int device, n;

	check(cudaGetDevice(&device), "device");
	check(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device), "device");
	return (size_t)n;
}

/* The most tokens that blocks of `run` at one place of a multiprocessor take in turn. */
template <int W, class F> static size_t tokens_in_turn(const conv<F> &m, size_t run)
{
	size_t n = blocks(m.C, tile_plan<W, F>::CHANNELS) * (size_t)blocks((size_t)m.T, run);

	return blocks(n, multiprocessors() * tiles_together<W>) * run;
}

template <int W, class F> static void launch_tiles(const conv<F> &m, bool keeps, cudaStream_t stream)
{
	if (tokens_in_turn<W>(m, LONG_RUN) < tokens_in_turn<W>(m, RUN))
		launch_runs<W, LONG_RUN>(m, keeps, stream);
	else
		launch_runs<W, RUN>(m, keeps, stream);
}

/* Final states in place of the initial ones are written when all tokens are done. */
template <int W, class F> static const char *launch_prefill(const conv<F> &m, cudaStream_t stream)
{
	bool tiles = m.C % (16 / sizeof(F)) == 0, states = W > 1 && m.final_state.data;
	bool keeps = tiles && states && m.final_state.data != m.initial.data;

	if (tiles)
		launch_tiles<W>(m, keeps, stream);
	else
		launch_on(stream, "conv_channel", conv_channel<W, F>, dim3(small(blocks(m.C, THREADS) * blocks((size_t)m.T, RUN), "blocks")), THREADS, 0, m);
	if (states && !keeps)
		launch_on(stream, "conv_states", conv_states<W, F>, dim3((unsigned)m.N, blocks(m.C, THREADS, 65535)), THREADS, 0, m);
	return tiles ? "causal_conv1d prefill" : "causal_conv1d prefill, any width";
}

template <int W, class F> static const char *launch_decode(const conv<F> &m, cudaStream_t stream)
{
	constexpr int V = 16 / sizeof(F);
	bool wide = m.C % V == 0;
	dim3 grid((unsigned)m.N, blocks(m.C, THREADS * (wide ? V : 1), 65535));

	launch_on(stream, "conv_decode", wide ? conv_decode<W, V, F> : conv_decode<W, 1, F>, grid, THREADS, 0, m);
	return "causal_conv1d decode";
}

template <int W, class F> static const char *launch_width(const conv<F> &m, bool decode, cudaStream_t stream)
{
	return decode ? launch_decode<W>(m, stream) : launch_prefill<W>(m, stream);
}

template <class F> const char *convolve(const conv<F> &m, int W, bool decode, cudaStream_t stream)
{
	switch (W) {
	case 1: return launch_width<1>(m, decode, stream);
	case 2: return launch_width<2>(m, decode, stream);
	case 3: return launch_width<3>(m, decode, stream);
	case 4: return launch_width<4>(m, decode, stream);
	case 5: return launch_width<5>(m, decode, stream);
	case 6: return launch_width<6>(m, decode, stream);
	case 7: return launch_width<7>(m, decode, stream);
	case 8: return launch_width<8>(m, decode, stream);
	default: refuse(E_DIM, "W", "%d; the kernel goes from 1 to %d", W, MAX_W);
	}
}

template const char *convolve(const conv<bf16> &, int, bool, cudaStream_t);

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
	const char *name = nullptr;

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
		name = convolve(m, W, decode);
	});
	y.fetch();
	final_state.fetch();
	return name;
}
