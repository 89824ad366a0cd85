/* bench-gpu: fused small kernels against a copy of as many bytes and against the kernels that they
 * replace, at Qwen3.5-27B's sizes in bf16. Launches repeat on the same buffers: up to some 1000
 * tokens the cache holds them, in a copy and in the kernels alike. */
#include <numeric>

#include "bench/gpu.h"
#include "bench/gpu_timed.cuh"
#include "gpu/kernels/qk_norm_rope.cuh"
#include "gpu/kernels/rmsnorm_fp8.cuh"
#include "gpu/kernels/rope.cuh"

enum { HIDDEN = 5120, HQ = 24, HK = 4, HEAD = 256, PAIRS = 32, ROWS = 4096 };

/* What stands for the view, the chunk and the two copies of eager code. qg [T Hq,2,D] -> q, gate
 * [T Hq,D] */
static __global__ void __launch_bounds__(256) split(const bf16 *qg, bf16 *q, bf16 *gate,
	size_t pieces)
{
	constexpr int V = 8, EACH = HEAD / V;
	size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;

	if (i >= pieces)
		return;
	size_t row = i / (2 * EACH), at = i % (2 * EACH);
	bf16 *to = at < EACH ? q + (row * EACH + at) * V : gate + (row * EACH + at - EACH) * V;
	*reinterpret_cast<pack<V, bf16> *>(to) = load_pack<V>(qg + i * V);
}

static void bench_norms(cudaStream_t s)
{
	size_t n = (size_t)ROWS * HIDDEN;
	double bytes = 2.0 * (double)n;
	buffer x = drawn(n, 1, 1), residual = drawn(n, 4, 2), weight = drawn(HIDDEN, 0.2f, 3);
	buffer y(n * sizeof(bf16)), out(n * sizeof(bf16)), scale(ROWS * sizeof(float));
	row_norm<bf16> m = { x.as<bf16>(), residual.as<bf16>(), nullptr, weights(weight),
		y.as<bf16>(), out.as<bf16>(), ROWS,
	                     HIDDEN, 1e-6f, 1 };
	row_norm<bf16> alone = m;
	quantised_norm<bf16> q = { m, y.as<uint8_t>(), scale.as<float>(), 0x1p-18f };

	alone.residual = nullptr, alone.residual_out = nullptr;
	race(s, 4 * bytes, {
		{ "norm_residual", "rmsnorm", 4 * bytes, [&] { norm_rows(s, m, NORM_PIECES); } },
		{ "norm_residual", "rmsnorm_held", 4 * bytes, [&] { norm_rows(s, m, NORM_HELD); } },
		{ "norm", "rmsnorm", 2 * bytes, [&] { norm_rows(s, alone, NORM_PIECES); } },
		{ "norm", "rmsnorm_held", 2 * bytes, [&] { norm_rows(s, alone, NORM_HELD); } },
		{ "norm_fp8", "rmsnorm_fp8_block", 3.5 * bytes,
			[&] { quantise_rows(s, q, FP8_BLOCK); } },
		{ "norm_fp8", "rmsnorm_fp8_held", 3.5 * bytes,
			[&] { quantise_rows(s, q, FP8_HELD); } },
	});
}

/* The five kernels hand q and k on in bf16: q1, k1 before their turn and q1 of the split before
 * its norm. */
static void bench_heads(cudaStream_t s, size_t T)
{
	size_t nq = T * HQ * HEAD, nk = T * HK * HEAD, q_bytes = nq * sizeof(bf16),
		k_bytes = nk * sizeof(bf16);
	double two_q = 2.0 * (double)q_bytes, two_k = 2.0 * (double)k_bytes,
		fused = 2 * two_q + two_k;
	buffer qg = drawn(2 * nq, 1, 1), k = drawn(nk, 1, 2), wq = drawn(HEAD, 0.2f, 3),
		wk = drawn(HEAD, 0.2f, 4);
	buffer q(q_bytes), k_out(k_bytes), gate(q_bytes), q1(q_bytes), q2(q_bytes), k1(k_bytes);
	std::vector<int64_t> place(T);
	std::iota(place.begin(), place.end(), 0);
	buffer positions = uploaded(place), half_turns = uploaded(turning(PAIRS, 1e7));
	const int64_t *at = positions.as<int64_t>();
	const double *turns = half_turns.as<double>();
	token_heads<bf16> m = { qg.as<bf16>(), k.as<bf16>(), weights(wq), weights(wk), at, turns,
		q.as<bf16>(), k_out.as<bf16>(),
	                        gate.as<bf16>(), HQ, HK, HEAD, PAIRS, 1e-6f };
	row_norm<bf16> norm_q = { q1.as<bf16>(), nullptr, nullptr, weights(wq), q2.as<bf16>(),
		nullptr, T * HQ, HEAD, 1e-6f, 1 };
	row_norm<bf16> norm_k = { k.as<bf16>(), nullptr, nullptr, weights(wk), k1.as<bf16>(),
		nullptr, T * HK, HEAD, 1e-6f, 1 };
	rotation<bf16> turn_q = { q2.as<bf16>(), at, turns, q.as<bf16>(), HQ, HEAD, PAIRS };
	rotation<bf16> turn_k = { k1.as<bf16>(), at, turns, k_out.as<bf16>(), HK, HEAD, PAIRS };
	std::string work = "heads_" + std::to_string(T);
	auto five = [&](enum rope_rung turn) {
		return [&, turn] {
			launch_on(s, "split", split, blocks(nq / 4, 256), 256, 0,
				qg.as<const bf16>(), q1.as<bf16>(), gate.as<bf16>(),
			          nq / 4);
			norm_rows(s, norm_q, NORM_HELD), norm_rows(s, norm_k, NORM_HELD);
			turn_rows(s, turn_q, T, false, turn), turn_rows(s, turn_k, T, false, turn);
		};
	};

	race(s, fused, {
		{ work, "five kernels", 2 * fused, five(ROPE_TOKEN) },
		{ work, "five kernels, turn by warps", 2 * fused, five(ROPE_WARP) },
		{ work, "qk_norm_rope_block", fused, [&] { norm_and_turn(s, m, T, HEADS_BLOCK); } },
		{ work, "qk_norm_rope_warp", fused, [&] { norm_and_turn(s, m, T, HEADS_WARP); } },
	});
}

void bench_fused(cudaStream_t stream)
{
	bench_norms(stream);
	for (size_t T : { 1, 64, 512, 1024, 4096, 16384 })
		bench_heads(stream, T);
}
