/* bench-gpu: prefill of the gated delta rule at Qwen3.5-27B's sizes: 4096 tokens, 16 key and 48
 * value heads of 128, bf16, states in f32: the sequential kernel and the chunked ones, against a
 * copy of what a call reads and writes. */
#include <cmath>

#include "bench/gpu.h"
#include "bench/gpu_timed.cuh"
#include "gpu/kernels/delta_chunk_launch.cuh"

enum { T = 4096, HK = 16, HV = 48, WIDTH = 128 };

void bench_prefill(cudaStream_t stream)
{
	const size_t keys = (size_t)T * HK * WIDTH, values = (size_t)T * HV * WIDTH,
		states = (size_t)HV * WIDTH * WIDTH;
	const double bytes = 2.0 * (double)(2 * keys + 2 * values + 2 * T * HV)
		+ 8.0 * (double)states;
	buffer q = drawn(keys, 1, 1), k = drawn(keys, 1, 2), v = drawn(values, 1, 3),
		a = drawn(T * HV, 1, 4), b = drawn(T * HV, 1, 5);
	buffer A_log = drawn(HV, 1.5f, 6), initial = drawn<float>(states, 0.3f, 7);
	buffer dt_bias = uploaded(std::vector<bf16>(HV, __float2bfloat16(-4.0f)));
	buffer o(values * sizeof(bf16)), last(states * sizeof(float));
	std::vector<int64_t> cuts = { 0, T };
	buffer device_cuts = uploaded(cuts);
	rule sizes = { weights(a), weights(b), weights(A_log), weights(dt_bias), {}, {}, HK, HV,
		WIDTH, WIDTH, true, true, 1e-6f,
	               1 / sqrtf(WIDTH) };
	tokens<bf16> view = { q.as<bf16>(), k.as<bf16>(), v.as<bf16>(), o.as<bf16>() };
	operand first = { initial.as<void>(), DT_F32 };
	result end = { last.as<void>(), DT_F32 };
	chunked::prefill<1> fast(sizes, cuts);
	chunked::prefill<2> precise(sizes, cuts);

	race(stream, bytes, {
		{ "prefill", "prefill", bytes, [&] {
			prefill_token_by_token(sizes, view, device_cuts.as<int64_t>(), 1, first,
				end, stream);
		} },
		{ "prefill", "prefill_chunk_fast", bytes,
			[&] { fast.enqueue(view, first, end, stream); } },
		{ "prefill", "prefill_chunk_precise", bytes,
			[&] { precise.enqueue(view, first, end, stream); } },
	}, 1);
}
