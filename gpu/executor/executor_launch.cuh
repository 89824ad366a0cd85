/* Part of gpu/executor_cuda.cuh: the launches of one layer. */
#ifndef ETALON_EXECUTOR_LAUNCH_CUH
#define ETALON_EXECUTOR_LAUNCH_CUH

#include "gpu/executor/executor_cuda.cuh"

/* f on the rows from first_row on in one layer. */
template <class Call> void device_executor::view(int layer, int first_row, Call f) const
{
	operand none = {}, gate = { g.as<void>(), DT_F32 }, strength = { beta.as<void>(), DT_F32 };
	layer_view v = {
		device_tables(),
		{ none, none, none, none, gate, strength, s.Hk, s.Hv, s.Dk, s.Dv, true, true, s.l2_eps, 1 / sqrtf((float)s.Dk) },
		first_row, s.layers, layer, (int)C, (int64_t)(state_bytes / dtype_info[s.state].size),
		(int64_t)(ring_bytes / dtype_info[s.data].size), s.norm_eps, conv_weight.as<float>() + layer * C * s.W,
		A_log.as<float>() + (size_t)layer * s.Hv, dt_bias.as<float>() + (size_t)layer * s.Hv,
		norm_weight.as<float>() + (size_t)layer * s.Dv, x.as<void>(), z.as<void>(), a.as<void>(), b.as<void>(), y.as<void>(),
		states.as<void>(), rings.as<void>(), conv.as<float>(), g.as<float>(), beta.as<float>(), o.as<float>(),
#ifdef ETALON_FAULTS
		executor_fault_is("int32_slot_offset"), executor_fault_is("missing_barrier"),
#endif
	};

	f(v);
}

template <class F, int V> void device_executor::launch_convolve(const layer_view &v, int rows, cudaStream_t stream)
{
	dim3 grid(rows, blocks(C, (size_t)THREADS * V, 65534) + 1);
	auto with = [&](auto W) { launch_on(stream, "convolve", convolve<W(), V, F>, grid, THREADS, 0, v); };
	using std::integral_constant;

	switch (s.W) {
	case 1: return with(integral_constant<int, 1>{});
	case 2: return with(integral_constant<int, 2>{});
	case 3: return with(integral_constant<int, 3>{});
	case 4: return with(integral_constant<int, 4>{});
	case 5: return with(integral_constant<int, 5>{});
	case 6: return with(integral_constant<int, 6>{});
	case 7: return with(integral_constant<int, 7>{});
	default: return with(integral_constant<int, 8>{});
	}
}

/* Under missing_barrier it runs beside what comes next in the stream, which finds zeros where it comes too early. */
inline void device_executor::launch_convolve(const layer_view &v, int rows)
{
	bool unordered = executor_fault_is("missing_barrier");
	cudaStream_t stream = unordered ? beside_ : stream_;

	if (unordered) {
		check(cudaMemsetAsync(conv.as<void>(), 0, conv.bytes(), stream_), "conv");
		check(cudaEventRecord(fork_, stream_), "event");
		check(cudaStreamWaitEvent(beside_, fork_), "event");
	}
	by_data([&](auto zero) {
		using F = decltype(zero);
		if (C % 4 == 0)
			launch_convolve<F, 4>(v, rows, stream);
		else
			launch_convolve<F, 1>(v, rows, stream);
	});
	if (unordered)
		check(cudaEventRecord(join_, beside_), "event");
}

inline void device_executor::launch_recur(const layer_view &v, int rows)
{
	auto with = [&](auto zero) {
		using State = decltype(zero);
		dim3 grid(blocks(s.Dv, tile_columns<State>), s.Hv, rows);

		by_shape<tile_columns<State> / 8>(v.m, [&](auto wide, auto tall) {
			launch_on(stream_, "recur", recur<wide(), tall(), State>, grid, THREADS, 0, v);
		});
	};

	if (s.state == DT_BF16)
		with(bf16{});
	else
		with(float{});
}

inline void device_executor::launch_norm(const layer_view &v, int rows, int slices)
{
	dim3 grid(rows, blocks(s.Hv, NORM_WARPS, 65535), slices);

	if (executor_fault_is("missing_barrier"))
		check(cudaStreamWaitEvent(stream_, join_), "event");    /* the next layer's scratch is its own again */
	by_data([&](auto zero) {
		if (s.Dv % 4 == 0)
			launch_on(stream_, "gate_norm", gate_norm<true, decltype(zero)>, grid, THREADS, 0, v);
		else
			launch_on(stream_, "gate_norm", gate_norm<false, decltype(zero)>, grid, THREADS, 0, v);
	});
}

/* All layers of the rows that prefill in chunks. */
inline void device_executor::run_chunks()
{
	constexpr int V = 4;
	dim3 grid(chunks.chunks(), blocks(C, (size_t)THREADS * V, 65534) + 1);
	chunk_view scratch = chunks.view();
	tokens<bf16> in = { scratch.q, scratch.k, scratch.v, scratch.o };

	for (int layer = 0; layer < s.layers; layer++)
		view(layer, 0, [&](const layer_view &v) {
			char *pool = states.as<char>() + (size_t)layer * heads * s.Dk * dtype_info[s.state].size;
			launch_on(stream_, "convolve_chunks", convolve_chunks<CHUNKED_W, V>, grid, THREADS, 0, v, scratch);
			chunked::enqueue<2>(v.m, chunks.memory(), in, operand{ pool, s.state }, result{ pool, s.state }, stream_);
			launch_on(stream_, "finish_chunks", finish_chunks, dim3(chunks.chunks(), s.Hv), THREADS, 0, v, scratch);
		});
}

/* A kernel of a whole layer, which may begin before the layer before it is done. */
inline void device_executor::launch_layer(void (*kernel)(layer_view), const layer_view &v, int blocks, int threads, int shared)
{
	cudaLaunchAttribute overlapping = {};
	cudaLaunchConfig_t config = {};

	overlapping.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	overlapping.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = dim3(blocks);
	config.blockDim = dim3(threads);
	config.dynamicSmemBytes = shared;
	config.stream = stream_;
	config.attrs = &overlapping;
	config.numAttrs = overlap && v.layer > 0;       /* a layer's own grid before it has to be over */
	check(cudaLaunchKernelEx(&config, kernel, v), "decode_layer");
}

template <class plan, class F> void device_executor::launch_decode(const layer_view &v, int rows)
{
	auto kernel = decode_layer<plan, F>;
	constexpr int bytes = sizeof(decode_memory<plan>);

	check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "decode_layer");
	check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100), "decode_layer");
	launch_layer(kernel, v, rows * s.Hv, plan::THREADS, bytes);
}

/* Which kernel, how many blocks: measured on an H200, docs/performance-gpu-decode.md. */
inline void device_executor::launch_decode(const layer_view &v, int rows)
{
	bool few = decode == DECODE_FEW || (decode == DECODE_IN_ONE && rows * s.Hv <= processors);
	bool f32 = s.state == DT_F32;

	by_data([&](auto zero) {
		using F = decltype(zero);

		if (few)
			return launch_layer(f32 ? decode_few<float, F> : decode_few<bf16, F>, v, rows * s.Hv, FEW_THREADS, 0);
		if (f32)
			return launch_decode<decode_plan<float, 3>, F>(v, rows);
		launch_decode<decode_plan<bf16, 6>, F>(v, rows);
	});
}

/* ---- faults on purpose ---- */

/* workspace_overflow: conv is as wide as v, and its guard band begins there. */
inline void device_executor::apply_faults()
{
#ifdef ETALON_FAULTS
	conv.claim(executor_fault_is("workspace_overflow") ? scratch_bytes(heads) : conv.bytes());
#endif
}

#endif
