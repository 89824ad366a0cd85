/* bench-gpu: prefill of the gated delta rule at Qwen3.5-27B's sizes: 4096 tokens, 16 key and 48 value heads of 128, bf16, states
 * in f32. The chunked kernels against the sequential one's answers, and a copy of what a kernel has to read and write. */
#include <cmath>
#include <cstdio>
#include <random>

#include "bench/bench_gpu.h"
#include "bench/bench_gpu_page.h"
#include "bench/timed.cuh"
#include "gpu/kernels/delta_chunk_launch.cuh"

enum { T = 4096, HK = 16, HV = 48, WIDTH = 128 };

template <class F> struct answers {
	buffer o{ sizeof(F) * T * HV * WIDTH }, state{ sizeof(float) * HV * WIDTH * WIDTH };

	answers() { o.poison(), state.poison(); }
	result final_state() const { return { state.as<void>(), DT_F32 }; }
};

/* The same numbers in both types. */
struct drawn {
	buffer narrow, wide;

	drawn(size_t count, float mean, float sigma, std::mt19937 &random)
	{
		std::normal_distribution<float> normal(mean, sigma);
		std::vector<float> x(count);
		std::vector<bf16> half(count);

		for (size_t i = 0; i < count; i++)
			x[i] = __bfloat162float(half[i] = __float2bfloat16(normal(random)));
		narrow = uploaded(half);
		wide = uploaded(x);
	}
	template <class F> const F *as() const { return (sizeof(F) == sizeof(float) ? wide : narrow).as<F>(); }
	operand any() const { return { wide.as<void>(), DT_F32 }; }
	operand half() const { return { narrow.as<void>(), DT_BF16 }; }
};

/* The inputs of one call. */
struct prefill_call {
	std::mt19937 random{ 8 };
	drawn q{ (size_t)T * HK * WIDTH, 0, 1, random }, k{ (size_t)T * HK * WIDTH, 0, 1, random };
	drawn v{ (size_t)T * HV * WIDTH, 0, 1, random }, a{ (size_t)T * HV, 0, 1, random }, b{ (size_t)T * HV, 0, 1, random };
	drawn A_log{ HV, 0, 1.5f, random }, dt_bias{ HV, -4, 1.5f, random }, initial{ (size_t)HV * WIDTH * WIDTH, 0, 0.3f, random };

	rule sizes() const
	{
		return { a.half(), b.half(), A_log.any(), dt_bias.any(), {}, {}, HK, HV, WIDTH, WIDTH, true, true, 1e-6f, 1 / sqrtf(WIDTH) };
	}
	template <class F> tokens<F> view(const answers<F> &to) const
	{
		return { q.as<F>(), k.as<F>(), v.as<F>(), to.o.template as<F>() };
	}
	size_t bytes() const
	{
		return sizeof(bf16) * T * (2 * HK * WIDTH + 2 * HV * WIDTH + 2 * HV) + 2 * sizeof(float) * HV * WIDTH * WIDTH;
	}
};

/* |x - right| / |right|; NaN if either has one. */
template <class F> static double distance(const buffer &x, const buffer &right, size_t count)
{
	std::vector<F> got(count);
	std::vector<float> want(count);
	double apart = 0, size = 0;

	x.download(got.data());
	right.download(want.data());
	for (size_t i = 0; i < count; i++) {
		double d = (double)(float)got[i] - (double)want[i];
		apart += d * d, size += (double)want[i] * (double)want[i];
	}
	return sqrt(apart / size);
}

template <int PARTS> struct chunked_work {
	answers<bf16> got;
	chunked::prefill<PARTS> work;

	chunked_work(const prefill_call &call, const std::vector<int64_t> &cuts) : work(call.sizes(), cuts) { }
	void enqueue(const prefill_call &call, cudaStream_t stream)
	{
		work.enqueue(call.view(got), call.initial.any(), got.final_state(), stream);
	}
	void print_errors(const answers<float> &right) const
	{
		printf("  %.3e  %.3e", distance<bf16>(got.o, right.o, (size_t)T * HV * WIDTH),
		       distance<float>(got.state, right.state, (size_t)HV * WIDTH * WIDTH));
	}
};

void bench_prefill(cudaStream_t stream)
{
	/* of: the case that has the kernel run, its name on the page */
	static const struct { const char *name, *of; } kernels[] = {
		{ "sequential, f32", "prefill" }, { "chunks, bf16", "prefill_chunk_fast" }, { "chunks, bf16 x 2", "prefill_chunk_precise" },
		{ "copy", nullptr }
	};
	prefill_call call;
	answers<float> right;
	buffer from(call.bytes() / 2), to(call.bytes() / 2);
	std::vector<int64_t> cuts = { 0, T };
	buffer device_cuts = uploaded(cuts);
	chunked_work<1> one(call, cuts);
	chunked_work<2> two(call, cuts);
	std::vector<std::unique_ptr<timed>> all;
	std::vector<timed *> list;
	auto add = [&](const std::function<void()> &work) {
		all.emplace_back(new timed(stream, [] {}, work));
		list.push_back(all.back().get());
	};

	add([&] {
		prefill_token_by_token(call.sizes(), call.view(right), device_cuts.as<int64_t>(), 1, call.initial.any(),
		                       right.final_state(), stream);
	});
	add([&] { one.enqueue(call, stream); });
	add([&] { two.enqueue(call, stream); });
	add([&] { check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), call.bytes() / 2, cudaMemcpyDeviceToDevice, stream), "copy"); });
	std::vector<double> t = times_of(list);
	printf("\nprefill of %d tokens, %d key and %d value heads of %d, bf16, states f32; copy: of the bytes that a call reads and\n"
	       "writes, %.0f MB; errors |x - y|/|y|, y in f32 by the sequential kernel\n"
	       "kernel                    us  speedup  error o    error state\n", T, HK, HV, WIDTH, 1e-6 * (double)call.bytes());
	for (size_t i = 0; i + 1 < t.size(); i++)
		note({ "prefill", kernels[i].of, t[i], (double)call.bytes(), (double)call.bytes() / t.back(), false });
	for (size_t i = 0; i < t.size(); i++) {
		printf("%-18s %9.1f %8.2f", kernels[i].name, t[i], t[0] / t[i]);
		if (i == 1) one.print_errors(right);
		if (i == 2) two.print_errors(right);
		printf("\n");
	}
}
