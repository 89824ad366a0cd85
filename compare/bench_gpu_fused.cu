/* bench-gpu: fused small kernels against a copy of as many bytes and against the kernels that they replace, at
 * Qwen3.5-27B's sizes in bf16. */
#include <cstdio>
#include <random>

#include "compare/bench_gpu.h"
#include "compare/timed.cuh"
#include "gpu/qk_norm_rope.cuh"
#include "gpu/rmsnorm_fp8.cuh"
#include "gpu/rope.cuh"

enum { LAUNCHES = 8 };          /* in one timed graph */
enum { HIDDEN = 5120, HQ = 24, HK = 4, HEAD = 256, PAIRS = 32 };

/* Normal numbers of a hash of the place. */
static __global__ void draw(bf16 *x, size_t n, float deviation, uint64_t seed)
{
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
		uint64_t z = (i + seed) * 0x9e3779b97f4a7c15u + 1;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		z ^= z >> 31;
		float u = ((float)(z >> 40) + 1) * 0x1p-24f, v = (float)(z & 0xffffff) * 0x1p-24f;
		from_float(x[i], deviation * sqrtf(-2 * logf(u)) * cospif(2 * v));
	}
}

static buffer drawn(size_t n, float deviation, uint64_t seed)
{
	buffer b(n * sizeof(bf16));

	draw<<<1024, 256>>>(b.as<bf16>(), n, deviation, seed);
	check(cudaDeviceSynchronize(), "draw");
	return b;
}

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

/* One line of the table: median time of a launch, `bytes` it must move. */
struct work { const char *name; double bytes; std::function<void()> once; };

static void table(cudaStream_t stream, const std::vector<work> &list)
{
	std::vector<std::unique_ptr<timed>> all;
	std::vector<timed *> turns;

	for (const work &w : list) {
		auto once = w.once;
		all.emplace_back(new timed(stream, once, [once] {
			for (int i = 0; i < LAUNCHES; i++)
				once();
		}));
		turns.push_back(all.back().get());
	}
	std::vector<double> t = times_of(turns);
	double copy = list[0].bytes / t[0];
	for (size_t i = 0; i < list.size(); i++) {
		double us = t[i] / LAUNCHES;
		printf("  %-34s %9.2f %9.2f %8.3f %7.1f %%\n", list[i].name, us, list[i].bytes * 1e-6, list[i].bytes / us * 1e-6,
		       100 * list[i].bytes / t[i] / copy);
	}
}

extern int heads_variant;
static void bench_norm(cudaStream_t stream, size_t R)
{
	size_t n = R * HIDDEN, bytes = n * sizeof(bf16);
	buffer x = drawn(n, 1, 1), residual = drawn(n, 4, 2), weight = drawn(HIDDEN, 0.2f, 3), y(bytes), out(bytes), scale(R * 4), from(2 * bytes), to(2 * bytes);
	row_norm<bf16> m = { x.as<bf16>(), residual.as<bf16>(), nullptr, { weight.as<void>(), DT_BF16 }, y.as<bf16>(), out.as<bf16>(), R, HIDDEN, 1e-6f, 1 };
	row_norm<bf16> alone = { x.as<bf16>(), nullptr, nullptr, { weight.as<void>(), DT_BF16 }, y.as<bf16>(), nullptr, R, HIDDEN, 1e-6f, 1 };
	quantised_norm<bf16> q = { m, y.as<uint8_t>(), scale.as<float>(), 0x1p-18f };

	from.poison();
	for (int h : { 3, 4 }) {
		held_min = h;
		printf("at least %d blocks\n", h);
		table(stream, {
			{ "copy", 4.0 * bytes, [&] { check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), 2 * bytes, cudaMemcpyDeviceToDevice, stream), "copy"); } },
			{ "norm + residual, pieces", 4.0 * bytes, [&] { norm_rows(stream, m, NORM_PIECES); } },
			{ "norm + residual, held", 4.0 * bytes, [&] { norm_rows(stream, m, NORM_HELD); } },
			{ "norm, pieces", 2.0 * bytes, [&] { norm_rows(stream, alone, NORM_PIECES); } },
			{ "norm, held", 2.0 * bytes, [&] { norm_rows(stream, alone, NORM_HELD); } },
			{ "norm + residual + fp8, block", 3.5 * bytes, [&] { quantise_rows(stream, q, FP8_BLOCK); } },
			{ "norm + residual + fp8, held", 3.5 * bytes, [&] { quantise_rows(stream, q, FP8_HELD); } },
		});
	}
}

static void bench_heads(cudaStream_t stream, size_t T)
{
	size_t nq = T * HQ * HEAD, nk = T * HK * HEAD;
	buffer qg = drawn(2 * nq, 1, 1), k = drawn(nk, 1, 2), wq = drawn(HEAD, 0.2f, 3), wk = drawn(HEAD, 0.2f, 4);
	buffer q(nq * 2), kk(nk * 2), gate(nq * 2), q1(nq * 2), q2(nq * 2), k1(nk * 2), from(2 * nq * 2 + nk * 2), to(2 * nq * 2 + nk * 2);
	std::vector<int64_t> place(T);
	for (size_t t = 0; t < T; t++) place[t] = (int64_t)t;
	buffer positions = uploaded(place), half_turns = uploaded(turning(PAIRS, 1e7));
	operand w_q = { wq.as<void>(), DT_BF16 }, w_k = { wk.as<void>(), DT_BF16 };
	token_heads<bf16> m = { qg.as<bf16>(), k.as<bf16>(), w_q, w_k, positions.as<int64_t>(), half_turns.as<double>(),
		q.as<bf16>(), kk.as<bf16>(), gate.as<bf16>(), HQ, HK, HEAD, PAIRS, 1e-6f };
	double fused = 2.0 * (4 * nq + 2 * nk);
	row_norm<bf16> norm_q = { q1.as<bf16>(), nullptr, nullptr, w_q, q2.as<bf16>(), nullptr, T * HQ, HEAD, 1e-6f, 1 };
	row_norm<bf16> norm_k = { k.as<bf16>(), nullptr, nullptr, w_k, k1.as<bf16>(), nullptr, T * HK, HEAD, 1e-6f, 1 };
	rotation<bf16> rope_q = { q2.as<bf16>(), positions.as<int64_t>(), half_turns.as<double>(), q.as<bf16>(), HQ, HEAD, PAIRS };
	rotation<bf16> rope_k = { k1.as<bf16>(), positions.as<int64_t>(), half_turns.as<double>(), kk.as<bf16>(), HK, HEAD, PAIRS };
	auto do_split = [&] { launch_on(stream, "split", split, blocks(2 * nq / 8, 256), 256, 0, qg.as<const bf16>(), q1.as<bf16>(), gate.as<bf16>(), 2 * nq / 8); };
	auto norm1 = [&] { norm_rows(stream, norm_q, NORM_PIECES); };
	auto norm2 = [&] { norm_rows(stream, norm_k, NORM_PIECES); };
	auto rope1 = [&] { turn_rows(stream, rope_q, T, false); };
	auto rope2 = [&] { turn_rows(stream, rope_k, T, false); };

	for (int v = 0; v < 12; v++) {
		heads_variant = v;
		printf("T %zu, variant %d\n", T, v);
		table(stream, {
			{ "copy", fused, [&] { check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), (size_t)fused / 2, cudaMemcpyDeviceToDevice, stream), "copy"); } },
			{ "fused, block a head", fused, [&] { norm_and_turn(stream, m, T, HEADS_BLOCK); } },
			{ "fused, warp a head", fused, [&] { norm_and_turn(stream, m, T, HEADS_WARP); } },
			{ "five kernels", 2.0 * (8 * nq + 4 * nk), [&] { do_split(), norm1(), norm2(), rope1(), rope2(); } },
			{ "split", 2.0 * 4 * nq, do_split }, { "norm q", 4.0 * nq, norm1 }, { "norm k", 4.0 * nk, norm2 },
			{ "rope q", 4.0 * nq, rope1 }, { "rope k", 4.0 * nk, rope2 },
		});
	}
}

void bench_fused()
{
	cudaStream_t stream;

	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	bench_norm(stream, 4096);
	for (size_t T : { 1, 64, 512, 1024, 4096 }) bench_heads(stream, T);
}
