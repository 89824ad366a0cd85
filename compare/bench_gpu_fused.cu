/* bench-gpu: fused small kernels against a copy of as many bytes and against the kernels that they replace, at
 * Qwen3.5-27B's sizes in bf16. Launches repeat on the same buffers: up to some 1000 tokens the cache holds them, in a
 * copy and in the kernels alike. */
#include <cstdio>
#include <memory>
#include <numeric>

#include "compare/bench_gpu.h"
#include "compare/timed.cuh"
#include "gpu/gated_product.cuh"
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

/* One line of a table: `bytes` that it must move, each input read and each output written once. */
struct work { const char *name; double bytes; std::function<void()> once; };

/* The first line is the copy that the shares are of. */
static void table(cudaStream_t stream, const char *title, const std::vector<work> &list)
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
	printf("\n%s\n  %-32s %9s %9s %9s %9s\n", title, "", "us", "MB", "TB/s", "of copy");
	for (size_t i = 0; i < list.size(); i++)
		printf("  %-32s %9.2f %9.2f %9.3f %7.1f %%\n", list[i].name, t[i] / LAUNCHES, list[i].bytes * 1e-6,
		       list[i].bytes / t[i] * LAUNCHES * 1e-6, 100 * list[i].bytes / t[i] / copy);
}

/* Copies half of `bytes`, so that as many are moved. */
class copying {
public:
	copying(cudaStream_t stream, double bytes) : stream_(stream), half_((size_t)bytes / 2), from_(half_), to_(half_)
	{
		from_.poison();
	}
	void operator()() const
	{
		check(cudaMemcpyAsync(to_.as<void>(), from_.as<void>(), half_, cudaMemcpyDeviceToDevice, stream_), "copy");
	}

private:
	cudaStream_t stream_;
	size_t half_;
	buffer from_, to_;
};

static operand weights(const buffer &b) { return { b.as<const void>(), DT_BF16 }; }

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
		{ "0 norm with residual, pieces", 4 * bytes, [&] { norm_rows(stream, m, NORM_PIECES); } },
		{ "1 norm with residual, held", 4 * bytes, [&] { norm_rows(stream, m, NORM_HELD); } },
		{ "0 norm, pieces", 2 * bytes, [&] { norm_rows(stream, alone, NORM_PIECES); } },
		{ "1 norm, held", 2 * bytes, [&] { norm_rows(stream, alone, NORM_HELD); } },
		{ "0 with residual into e4m3, block", 3.5 * bytes, [&] { quantise_rows(stream, q, FP8_BLOCK); } },
		{ "1 with residual into e4m3, held", 3.5 * bytes, [&] { quantise_rows(stream, q, FP8_HELD); } },
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
	const std::vector<work> five = {
		{ "  split q | gate", 4.0 * (double)q_bytes, [&] {
			launch_on(stream, "split", split, blocks(nq / 4, 256), 256, 0, qg.as<const bf16>(), q1.as<bf16>(), gate.as<bf16>(), nq / 4);
		} },
		{ "  norm q", 2.0 * (double)q_bytes, [&] { norm_rows(stream, norm_q, NORM_HELD); } },
		{ "  norm k", 2.0 * (double)k_bytes, [&] { norm_rows(stream, norm_k, NORM_HELD); } },
		{ "  turn q", 2.0 * (double)q_bytes, [&] { turn_rows(stream, turn_q, T, false); } },
		{ "  turn k", 2.0 * (double)k_bytes, [&] { turn_rows(stream, turn_k, T, false); } },
	};
	copying copy(stream, fused);
	std::vector<work> list = {
		{ "copy", fused, [&] { copy(); } },
		{ "0 fused, a block a head", fused, [&] { norm_and_turn(stream, m, T, HEADS_BLOCK); } },
		{ "1 fused, a warp a head", fused, [&] { norm_and_turn(stream, m, T, HEADS_WARP); } },
		{ "the five kernels", 2 * fused, [&] {
			for (const work &w : five)
				w.once();
		} },
	};
	char title[96];

	list.insert(list.end(), five.begin(), five.end());
	snprintf(title, sizeof title, "q/k norm, turn and gate split: %zu tokens, %d + %d heads of %d", T, HQ, HK, HEAD);
	table(stream, title, list);
}

/* Attention's output times its gate, and a shared expert's gate, product and sum; bytes in tensors of R x D. */
static void bench_gates(cudaStream_t stream, size_t R, int D)
{
	size_t n = R * D;
	double bytes = (double)n * sizeof(bf16);
	buffer x = drawn(n, 1, 1), gate = drawn(n, 2, 2), addend = drawn(n, 1, 3), weight = drawn(D, 0.03f, 4), y(n * sizeof(bf16));
	gated_rows<bf16> each = { x.as<bf16>(), gate.as<bf16>(), nullptr, nullptr, nullptr, y.as<bf16>(), R, D, D, 0 };
	gated_rows<bf16> shared = {
		x.as<bf16>(), nullptr, gate.as<bf16>(), weight.as<bf16>(), addend.as<bf16>(), y.as<bf16>(), R, D, 1, D
	};
	copying copy(stream, 4 * bytes);
	char title[64];

	snprintf(title, sizeof title, "gated products of %zu rows of %d", R, D);
	table(stream, title, {
		{ "copy", 4 * bytes, [&] { copy(); } },
		{ "0 attention's output, single", 3 * bytes, [&] { gate_rows(stream, each, GATED_SINGLE); } },
		{ "1 attention's output, wide", 3 * bytes, [&] { gate_rows(stream, each, GATED_WIDE); } },
		{ "0 shared expert, single", 4 * bytes, [&] { gate_rows(stream, shared, GATED_SINGLE); } },
		{ "1 shared expert, wide", 4 * bytes, [&] { gate_rows(stream, shared, GATED_WIDE); } },
	});
}

void bench_fused()
{
	cudaStream_t stream;

	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	bench_norms(stream, 4096);
	bench_gates(stream, 4096, HIDDEN);
	for (size_t T : { 1, 64, 512, 1024, 4096, 16384 })
		bench_heads(stream, T);
	check(cudaStreamDestroy(stream), "stream");
}
