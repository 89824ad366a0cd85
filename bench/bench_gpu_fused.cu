/* bench-gpu: fused small kernels against a copy of as many bytes and against the kernels that they replace, at
 * Qwen3.5-27B's sizes in bf16. Launches repeat on the same buffers: up to some 1000 tokens the cache holds them, in a
 * copy and in the kernels alike. */
#include <cstdio>
#include <cstring>
#include <numeric>

#include "bench/bench_gpu.h"
#include "bench/bench_gpu_table.cuh"
#include "gpu/kernels/qk_norm_rope.cuh"
#include "gpu/kernels/rmsnorm_fp8.cuh"
#include "gpu/kernels/rope.cuh"

enum { HIDDEN = 5120, HQ = 24, HK = 4, HEAD = 256, PAIRS = 32 };

/* What stands for the view, the chunk and the two copies of eager code. qg [T Hq,2,D] -> q, gate [T Hq,D] */
static __global__ void __launch_bounds__(256) split(const bf16 *qg, bf16 *q, bf16 *gate, size_t pieces)
{
	constexpr int V = 8, EACH = HEAD / V;
	size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;

	if (i >= pieces)
		return;
	size_t row = i / (2 * EACH), at = i % (2 * EACH);
	bf16 *to = at < EACH ? q + (row * EACH + at) * V : gate + (row * EACH + at - EACH) * V;
	*reinterpret_cast<pack<V, bf16> *>(to) = load_pack<V>(qg + i * V);
}

static void bench_norms(cudaStream_t stream, size_t R)
{
	size_t n = R * HIDDEN;
	double bytes = (double)n * sizeof(bf16);
	buffer x = drawn(n, 1, 1), residual = drawn(n, 4, 2), weight = drawn(HIDDEN, 0.2f, 3);
	buffer y(n * sizeof(bf16)), out(n * sizeof(bf16)), scale(R * sizeof(float));
	row_norm<bf16> m = {
		x.as<bf16>(), residual.as<bf16>(), nullptr, weights(weight), y.as<bf16>(), out.as<bf16>(), R, HIDDEN, 1e-6f, 1
	};
	row_norm<bf16> alone = m;
	quantised_norm<bf16> q = { m, y.as<uint8_t>(), scale.as<float>(), 0x1p-18f };
	copying copy(stream, 4 * bytes);
	char title[64];

	alone.residual = nullptr, alone.residual_out = nullptr;
	snprintf(title, sizeof title, "norms of %zu rows of %d", R, HIDDEN);
	table(stream, title, {
		{ "copy", 4 * bytes, [&] { copy(); } },
		{ "0 norm with residual, pieces", 4 * bytes, [&] { norm_rows(stream, m, NORM_PIECES); }, "norm_residual", "rmsnorm" },
		{ "1 norm with residual, held", 4 * bytes, [&] { norm_rows(stream, m, NORM_HELD); }, "norm_residual", "rmsnorm_held" },
		{ "0 norm, pieces", 2 * bytes, [&] { norm_rows(stream, alone, NORM_PIECES); }, "norm", "rmsnorm" },
		{ "1 norm, held", 2 * bytes, [&] { norm_rows(stream, alone, NORM_HELD); }, "norm", "rmsnorm_held" },
		{ "0 with residual into e4m3, block", 3.5 * bytes, [&] { quantise_rows(stream, q, FP8_BLOCK); }, "norm_fp8", "rmsnorm_fp8_block" },
		{ "1 with residual into e4m3, held", 3.5 * bytes, [&] { quantise_rows(stream, q, FP8_HELD); }, "norm_fp8", "rmsnorm_fp8_held" },
	});
}

/* The five kernels hand q and k on in bf16: q1, k1 before their turn and q1 of the split before its norm. */
static void bench_heads(cudaStream_t stream, size_t T)
{
	size_t nq = T * HQ * HEAD, nk = T * HK * HEAD, q_bytes = nq * sizeof(bf16), k_bytes = nk * sizeof(bf16);
	double fused = 4.0 * (double)q_bytes + 2.0 * (double)k_bytes;
	buffer qg = drawn(2 * nq, 1, 1), k = drawn(nk, 1, 2), wq = drawn(HEAD, 0.2f, 3), wk = drawn(HEAD, 0.2f, 4);
	buffer q(q_bytes), k_out(k_bytes), gate(q_bytes), q1(q_bytes), q2(q_bytes), k1(k_bytes);
	std::vector<int64_t> place(T);
	std::iota(place.begin(), place.end(), 0);
	buffer positions = uploaded(place), half_turns = uploaded(turning(PAIRS, 1e7));
	const int64_t *at = positions.as<int64_t>();
	const double *turns = half_turns.as<double>();
	token_heads<bf16> m = { qg.as<bf16>(), k.as<bf16>(), weights(wq), weights(wk), at, turns,
	                        q.as<bf16>(), k_out.as<bf16>(), gate.as<bf16>(), HQ, HK, HEAD, PAIRS, 1e-6f };
	row_norm<bf16> norm_q = { q1.as<bf16>(), nullptr, nullptr, weights(wq), q2.as<bf16>(), nullptr, T * HQ, HEAD, 1e-6f, 1 };
	row_norm<bf16> norm_k = { k.as<bf16>(), nullptr, nullptr, weights(wk), k1.as<bf16>(), nullptr, T * HK, HEAD, 1e-6f, 1 };
	rotation<bf16> turn_q = { q2.as<bf16>(), at, turns, q.as<bf16>(), HQ, HEAD, PAIRS };
	rotation<bf16> turn_k = { k1.as<bf16>(), at, turns, k_out.as<bf16>(), HK, HEAD, PAIRS };
	auto five = [&](enum rope_rung turn) -> std::vector<work> {
		return {
			{ "  split q | gate", 4.0 * (double)q_bytes, [&] {
				launch_on(stream, "split", split, blocks(nq / 4, 256), 256, 0, qg.as<const bf16>(), q1.as<bf16>(), gate.as<bf16>(), nq / 4);
			} },
			{ "  norm q", 2.0 * (double)q_bytes, [&] { norm_rows(stream, norm_q, NORM_HELD); } },
			{ "  norm k", 2.0 * (double)k_bytes, [&] { norm_rows(stream, norm_k, NORM_HELD); } },
			{ "  turn q", 2.0 * (double)q_bytes, [&, turn] { turn_rows(stream, turn_q, T, false, turn); } },
			{ "  turn k", 2.0 * (double)k_bytes, [&, turn] { turn_rows(stream, turn_k, T, false, turn); } },
		};
	};
	const std::vector<work> plain = five(ROPE_TOKEN), best = five(ROPE_WARP);
	auto all = [](const std::vector<work> &list) {
		for (const work &w : list)
			w.once();
	};
	copying copy(stream, fused);
	std::string page = "heads_" + std::to_string(T);
	work one = { "1 fused, a warp a head", fused, [&] { norm_and_turn(stream, m, T, HEADS_WARP); }, page, "qk_norm_rope_warp" };
	work two = { "2 fused, a warp two heads", fused, [&] { norm_and_turn(stream, m, T, HEADS_PAIR); }, page, "qk_norm_rope_pair" };
	bool pairs = !strcmp(norm_and_turn(stream, m, T, HEADS_BEST), "qk_norm_rope_pair");
	std::vector<work> list = {
		{ "copy", fused, [&] { copy(); } },
		{ "the five kernels", 2 * fused, [&] { all(plain); }, page, "five kernels" },
		{ "the five, turn by warps", 2 * fused, [&] { all(best); }, page, "five kernels, turn by warps" },
		{ "0 fused, a block a head", fused, [&] { norm_and_turn(stream, m, T, HEADS_BLOCK); }, page, "qk_norm_rope_block" },
		pairs ? one : two, pairs ? two : one,           /* the last is the one that is taken */
	};
	char title[96];

	list.insert(list.end(), plain.begin(), plain.end());
	snprintf(title, sizeof title, "q/k norm, turn and gate split: %zu tokens, %d + %d heads of %d", T, HQ, HK, HEAD);
	table(stream, title, list);
}

void bench_fused()
{
	cudaStream_t stream;

	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	bench_norms(stream, 4096);
	for (size_t T : { 1, 64, 512, 1024, 4096, 16384 })
		bench_heads(stream, T);
	check(cudaStreamDestroy(stream), "stream");
}
