/* bench-gpu: prefill of the gated delta rule at Qwen3.5-27B's sizes: 16 key and 48 value heads of 128, bf16, states in f32; of
 * one sequence, and of as many as the convolution has: the chunked kernels, at 4096 tokens the sequential one too, against a
 * copy of what a call reads and writes. */
#include <cmath>

#include "bench/gpu.h"
#include "bench/gpu_timed.cuh"
#include "bench/gpu_works.h"
#include "gpu/kernels/delta_chunk_launch.cuh"

enum { HK = 16, HV = 48, WIDTH = 128 };

static void bench_tokens(cudaStream_t stream, size_t T, bool ragged)
{
	const size_t N = ragged ? RAGGED : 1, keys = (size_t)T * HK * WIDTH, values = (size_t)T * HV * WIDTH,
		states = N * HV * WIDTH * WIDTH;
	const double bytes = 2.0 * (double)(2 * keys + 2 * values + 2 * T * HV)
		+ 8.0 * (double)states;
	buffer q = drawn(keys, 1, 1), k = drawn(keys, 1, 2), v = drawn(values, 1, 3),
		a = drawn(T * HV, 1, 4), b = drawn(T * HV, 1, 5);
	buffer A_log = drawn(HV, 1.5f, 6), initial = drawn<float>(states, 0.3f, 7);
	buffer dt_bias = uploaded(std::vector<bf16>(HV, __float2bfloat16(-4.0f)));
	buffer o(values * sizeof(bf16)), last(states * sizeof(float));
	std::vector<int64_t> cuts = { 0 };
	for (size_t i = 1; i <= N; i++)
		cuts.push_back((int64_t)(ragged ? ragged_cut((int)i, T) : T));
	buffer device_cuts = uploaded(cuts);
	rule sizes = { weights(a), weights(b), weights(A_log), weights(dt_bias), {}, {}, HK, HV,
		WIDTH, WIDTH, true, true, 1e-6f,
	               1 / sqrtf(WIDTH) };
	tokens<bf16> view = { q.as<bf16>(), k.as<bf16>(), v.as<bf16>(), o.as<bf16>() };
	operand first = { initial.as<void>(), DT_F32 };
	result end = { last.as<void>(), DT_F32 };
	chunked::prefill<1> fast(sizes, cuts);
	chunked::prefill<2> precise(sizes, cuts);

	std::string work = (ragged ? "prefill_ragged_" : "prefill_") + std::to_string(T);
	std::vector<way> ways = {
		{ work, "prefill_chunk_fast", bytes,
			[&] { fast.enqueue(view, first, end, stream); } },
		{ work, "prefill_chunk_precise", bytes,
			[&] { precise.enqueue(view, first, end, stream); } },
	};
	if (T == 4096 && !ragged)
		ways.insert(ways.begin(), { work, "prefill", bytes, [&] {
			prefill_token_by_token(sizes, view, device_cuts.as<int64_t>(), 1, first,
				end, stream);
		} });
	race(stream, bytes, ways, 1);
}

void bench_prefill(cudaStream_t stream)
{
	for (size_t T : { 1024, 4096, 16384, 65536 })
		bench_tokens(stream, T, false);
	bench_tokens(stream, 16384, true);
}
