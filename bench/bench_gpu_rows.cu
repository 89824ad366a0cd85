/* bench-gpu: the kernels that go over rows and have no ladder of their own in bench_gpu_fused.cu: gated norm and product, turn,
 * convolution, Muon's elementwise part; at Qwen3.5-27B's sizes in bf16. */
#include <numeric>

#include "bench/bench_gpu.h"
#include "bench/bench_gpu_table.cuh"
#include "gpu/kernels/causal_conv1d.cuh"
#include "gpu/kernels/gated_product.cuh"
#include "gpu/kernels/muon_step.cuh"
#include "gpu/kernels/rmsnorm.cuh"
#include "gpu/kernels/rope.cuh"

enum { T = 4096, HEADS = 48, WIDTH = 128, ATTENTION = 6144, EXPERT = 2048, Q_HEADS = 24, Q_WIDTH = 256, CHANNELS = 10240, TAPS = 4 };

static void bench_gated_norm(cudaStream_t stream)
{
	size_t n = (size_t)T * HEADS * WIDTH;
	double bytes = 3.0 * (double)n * sizeof(bf16);
	buffer x = drawn(n, 1, 1), gate = drawn(n, 1.5f, 2), weight = drawn(WIDTH, 0.2f, 3), y(n * sizeof(bf16));
	row_norm<bf16> m = { x.as<bf16>(), nullptr, gate.as<bf16>(), weights(weight), y.as<bf16>(), nullptr, (size_t)T * HEADS, WIDTH, 1e-6f, 0 };
	copying copy(stream, bytes);

	table(stream, "norm gated by SiLU: 48 heads of 128, 4096 tokens", {
		{ "copy", bytes, [&] { copy(); } },
		{ "0 pieces", bytes, [&] { norm_rows(stream, m, NORM_PIECES); }, "norm_gated", "rmsnorm" },
		{ "1 rows side by side in a warp", bytes, [&] { norm_rows(stream, m, NORM_HELD); }, "norm_gated", "rmsnorm_gated" },
	});
}

static void bench_gates(cudaStream_t stream, const char *title, const std::string &page, const char *best, const gated_rows<bf16> &m,
                        double bytes)
{
	copying copy(stream, bytes);

	table(stream, title, {
		{ "copy", bytes, [&] { copy(); } },
		{ "0 an element a thread", bytes, [&] { gate_rows(stream, m, GATED_SINGLE); }, page, "gated_product" },
		{ "1 16 bytes a thread", bytes, [&] { gate_rows(stream, m, GATED_WIDE); }, page, "gated_product_wide" },
		{ "2 all loads at once", bytes, [&] { gate_rows(stream, m, GATED_AT_ONCE); }, page, best },
	});
}

static void bench_gated_products(cudaStream_t stream)
{
	size_t n = (size_t)T * ATTENTION, few = (size_t)T * EXPERT;
	buffer x = drawn(n, 1, 1), gate = drawn(n, 2, 2), hidden = drawn(few, 1, 3), weight = drawn(EXPERT, 0.03f, 4), addend = drawn(few, 1, 5);
	buffer y(n * sizeof(bf16));

	bench_gates(stream, "sigmoid(gate) x: 4096 rows of 6144", "gated_attention", "gated_product_flat",
	            { x.as<bf16>(), gate.as<bf16>(), nullptr, nullptr, nullptr, y.as<bf16>(), T, ATTENTION, ATTENTION, 0 },
	            3.0 * (double)n * sizeof(bf16));
	bench_gates(stream, "sigmoid(hidden weight) x + addend: 4096 rows of 2048", "gated_expert", "gated_product_held",
	            { x.as<bf16>(), nullptr, hidden.as<bf16>(), weight.as<bf16>(), addend.as<bf16>(), y.as<bf16>(), T, EXPERT, 1, EXPERT },
	            4.0 * (double)few * sizeof(bf16));
}

static void bench_turn(cudaStream_t stream)
{
	size_t n = (size_t)T * Q_HEADS * Q_WIDTH;
	double bytes = 2.0 * (double)n * sizeof(bf16);
	buffer x = drawn(n, 1, 1), y(n * sizeof(bf16));
	std::vector<int64_t> place(T);
	std::iota(place.begin(), place.end(), 0);
	buffer positions = uploaded(place), half_turns = uploaded(turning(32, 1e7));
	rotation<bf16> m = { x.as<bf16>(), positions.as<int64_t>(), half_turns.as<double>(), y.as<bf16>(), Q_HEADS, Q_WIDTH, 32 };
	copying copy(stream, bytes);

	table(stream, "turn: 64 of 256 dimensions, 24 heads, 4096 tokens", {
		{ "copy", bytes, [&] { copy(); } },
		{ "0 a block a token", bytes, [&] { turn_rows(stream, m, T, false, ROPE_TOKEN); }, "rope", "rope" },
		{ "1 a warp two heads", bytes, [&] { turn_rows(stream, m, T, false, ROPE_WARP); }, "rope", "rope_warp" },
	});
}

static void bench_convolution(cudaStream_t stream)
{
	size_t n = (size_t)T * CHANNELS;
	double bytes = 2.0 * (double)n * sizeof(bf16);
	buffer x = drawn(n, 1, 1), weight = drawn(CHANNELS * TAPS, 0.5f, 2), state = drawn(CHANNELS * (TAPS - 1), 1, 3), y(n * sizeof(bf16));
	buffer last(CHANNELS * (TAPS - 1) * sizeof(bf16)), cuts = uploaded(std::vector<int64_t>{ 0, T });
	conv<bf16> m = { x.as<bf16>(), weights(weight), {}, weights(state), y.as<bf16>(), { last.as<void>(), DT_BF16 },
	                 cuts.as<int64_t>(), 1, CHANNELS, T, true };
	copying copy(stream, bytes);

	table(stream, "convolution of 4 taps and SiLU: 4096 tokens, 10240 channels", {
		{ "copy", bytes, [&] { copy(); } },
		{ "convolution", bytes, [&] { convolve(m, TAPS, false, stream); }, "convolution", "causal_conv1d prefill" },
	});
}

/* All but the iteration, which bench_gpu.cu times. */
static void bench_muon(cudaStream_t stream)
{
	size_t n = (size_t)2048 * 8192;
	double bytes = 7.0 * (double)n * sizeof(float);
	buffer W(n * sizeof(float)), G(n * sizeof(float)), V(n * sizeof(float)), U(n * sizeof(float)), O(n * sizeof(float));
	for (buffer *b : { &W, &G, &V, &O })
		check(cudaMemset(b->as<void>(), 0x3a, n * sizeof(float)), "cudaMemset");        /* some 7e-4 */
	muon m = { { W.as<void>(), DT_F32 }, { G.as<void>(), DT_F32 }, { V.as<void>(), DT_F32 }, { W.as<void>(), DT_F32 },
	           { V.as<void>(), DT_F32 }, U.as<float>(), O.as<float>(), 8192, 0.02f, 0.95f, 0.1f, true, RMS_SCALE };
	copying copy(stream, bytes);

	table(stream, "Muon before and after the iteration: 2048 x 8192, float32", {
		{ "copy", bytes, [&] { copy(); } },
		{ "momentum and step", bytes, [&] { enqueue_momentum(stream, m, n), enqueue_step(stream, m, 0, n, 18); },
		  "muon_2048x8192", "muon_step" },
	});
}

void bench_rows(cudaStream_t stream)
{
	bench_muon(stream);
	bench_gated_norm(stream);
	bench_gated_products(stream);
	bench_turn(stream);
	bench_convolution(stream);
}
