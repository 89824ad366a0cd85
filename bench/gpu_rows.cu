/* bench-gpu: the kernels that go over rows and replace no others: gated norm and product, turn,
 * convolution, Muon's elementwise part; at Qwen3.5-27B's sizes in bf16, against a copy of as many
 * bytes. */
#include <numeric>

#include "bench/gpu.h"
#include "bench/gpu_timed.cuh"
#include "bench/gpu_works.h"
#include "gpu/kernels/causal_conv1d.cuh"
#include "gpu/kernels/gated_product.cuh"
#include "gpu/kernels/muon_step.cuh"
#include "gpu/kernels/rmsnorm.cuh"
#include "gpu/kernels/rope.cuh"

enum { T = 4096, HEADS = 48, WIDTH = 128, ATTENTION = 6144, EXPERT = 2048, Q_HEADS = 24,
	Q_WIDTH = 256, CHANNELS = 10240, TAPS = 4 };

static buffer room(size_t n) { return buffer(n * sizeof(bf16)); }

static void bench_gated_norm(cudaStream_t s)
{
	size_t n = (size_t)T * HEADS * WIDTH;
	double bytes = 6.0 * (double)n;
	buffer x = drawn(n, 1, 1), gate = drawn(n, 1.5f, 2), weight = drawn(WIDTH, 0.2f, 3),
		y = room(n);
	row_norm<bf16> m = { x.as<bf16>(), nullptr, gate.as<bf16>(), weights(weight), y.as<bf16>(),
		nullptr, (size_t)T * HEADS,
	                     WIDTH, 1e-6f, 0 };

	race(s, bytes, {
		{ "norm_gated", "rmsnorm", bytes, [&] { norm_rows(s, m, NORM_PIECES); } },
		{ "norm_gated", "rmsnorm_gated", bytes, [&] { norm_rows(s, m, NORM_HELD); } },
	});
}

static void bench_gates(cudaStream_t s, const char *work, const char *best,
	const gated_rows<bf16> &m, double bytes)
{
	race(s, bytes, {
		{ work, "gated_product", bytes, [&] { gate_rows(s, m, GATED_SINGLE); } },
		{ work, "gated_product_wide", bytes, [&] { gate_rows(s, m, GATED_WIDE); } },
		{ work, best, bytes, [&] { gate_rows(s, m, GATED_AT_ONCE); } },
	});
}

static void bench_gated_products(cudaStream_t s)
{
	size_t n = (size_t)T * ATTENTION, few = (size_t)T * EXPERT;
	buffer x = drawn(n, 1, 1), gate = drawn(n, 2, 2), hidden = drawn(few, 1, 3),
		weight = drawn(EXPERT, 0.03f, 4);
	buffer addend = drawn(few, 1, 5), y = room(n);

	bench_gates(s, "gated_attention", "gated_product_flat",
	            { x.as<bf16>(), gate.as<bf16>(), nullptr, nullptr, nullptr, y.as<bf16>(), T,
	            	ATTENTION, ATTENTION, 0 },
	            6.0 * (double)n);
	bench_gates(s, "gated_expert", "gated_product_held",
	            { x.as<bf16>(), nullptr, hidden.as<bf16>(), weight.as<bf16>(),
	            	addend.as<bf16>(), y.as<bf16>(), T, EXPERT, 1,
	              EXPERT }, 8.0 * (double)few);
}

static void bench_turn(cudaStream_t s)
{
	size_t n = (size_t)T * Q_HEADS * Q_WIDTH;
	double bytes = 4.0 * (double)n;
	buffer x = drawn(n, 1, 1), y = room(n);
	std::vector<int64_t> place(T);
	std::iota(place.begin(), place.end(), 0);
	buffer positions = uploaded(place), half_turns = uploaded(turning(32, 1e7));
	rotation<bf16> m = { x.as<bf16>(), positions.as<int64_t>(), half_turns.as<double>(),
		y.as<bf16>(), Q_HEADS, Q_WIDTH, 32 };

	race(s, bytes, {
		{ "rope", "rope", bytes, [&] { turn_rows(s, m, T, false, ROPE_TOKEN); } },
		{ "rope", "rope_warp", bytes, [&] { turn_rows(s, m, T, false, ROPE_WARP); } },
	});
}

/* Tokens in one sequence, or in those that rivals get (bench/gpu_works.h). */
static void bench_convolution(cudaStream_t s, size_t tokens, bool ragged)
{
	size_t n = tokens * CHANNELS, N = ragged ? RAGGED : 1, history = N * CHANNELS * (TAPS - 1);
	double bytes = 4.0 * (double)n;
	std::vector<int64_t> cut = { 0 };
	for (size_t i = 1; i <= N; i++)
		cut.push_back((int64_t)(ragged ? ragged_cut((int)i, tokens) : tokens));
	buffer x = drawn(n, 1, 1), weight = drawn(CHANNELS * TAPS, 0.5f, 2),
		state = drawn(history, 1, 3), y = room(n);
	buffer last = room(history), cuts = uploaded(cut);
	conv<bf16> m = { x.as<bf16>(), weights(weight), {}, weights(state), y.as<bf16>(),
		{ last.as<void>(), DT_BF16 },
	                 cuts.as<int64_t>(), (int)N, CHANNELS, (int64_t)tokens, true };

	race(s, bytes, { { (ragged ? "ragged_" : "convolution_") + std::to_string(tokens),
		"causal_conv1d prefill", bytes, [&] { convolve(m, TAPS, false, s); } } });
}

/* All but the iteration, which bench/gpu_products.cu times. */
static void bench_muon(cudaStream_t s)
{
	size_t n = (size_t)2048 * 8192;
	double bytes = 7.0 * (double)n * sizeof(float);
	buffer W(n * sizeof(float)), G(n * sizeof(float)), V(n * sizeof(float)),
		U(n * sizeof(float)), O(n * sizeof(float));
	for (buffer *b : { &W, &G, &V, &O })
		check(cudaMemset(b->as<void>(), 0x3a, n * sizeof(float)), "cudaMemset");        /* some 7e-4 */
	muon m = { { W.as<void>(), DT_F32 }, { G.as<void>(), DT_F32 }, { V.as<void>(), DT_F32 },
		{ W.as<void>(), DT_F32 },
	           { V.as<void>(), DT_F32 }, U.as<float>(), O.as<float>(), 8192, 0.02f, 0.95f, 0.1f,
	           	true, RMS_SCALE };

	race(s, bytes, { { "muon_2048x8192", "muon_step", bytes, [&] {
		enqueue_momentum(s, m, n), enqueue_step(s, m, 0, n, 18);
	} } });
}

void bench_rows(cudaStream_t stream)
{
	bench_muon(stream);
	bench_gated_norm(stream);
	bench_gated_products(stream);
	bench_turn(stream);
	for (bool ragged : { false, true })
		for (size_t tokens : { 1024, 4096, 16384 })
			bench_convolution(stream, tokens, ragged);
}
