/* bench-gpu --decode: the tries of bench_gpu_decode.cuh as ways of decoding. */
#include "compare/bench_gpu_decode.cuh"

#include <utility>

#include "compare/bench_gpu_decode.h"

/* Of a multiprocessor's 228 KB a block takes 1 KB more than it asks for. */
template <int T> static way way_of()
{
	using plan = try_plan<T>;
	constexpr int needed = sizeof(try_memory<plan>), most = plan::of.most;
	int shared = most ? std::max(needed, 228 * 1024 / most - 1024) : needed, resident;

	check(cudaFuncSetAttribute(decode_try<plan>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), tries[T].name);
	check(cudaFuncSetAttribute(decode_try<plan>, cudaFuncAttributePreferredSharedMemoryCarveout, 100), tries[T].name);
	check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, decode_try<plan>, plan::THREADS, shared), tries[T].name);
	printf("%-18s %d bytes of shared memory, %d blocks on a multiprocessor\n", tries[T].name, shared, resident);
	return { tries[T].name, DECODE_MANY, true, decode_try<plan>, plan::THREADS, shared };
}

template <int... T> static std::vector<way> ways_of(enum dtype state, bool counting, std::integer_sequence<int, T...>)
{
	std::vector<way> list;

	((tries[T].of.counts == counting && tries[T].of.f32 == (state == DT_F32) ? list.push_back(way_of<T>()) : void()), ...);
	return list;
}

std::vector<way> decode_tries(enum dtype state, bool counting)
{
	return ways_of(state, counting, std::make_integer_sequence<int, TRIES>{});
}
