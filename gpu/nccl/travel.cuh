/* Sums over ranks whose terms may travel in a narrower type than they have. */
#ifndef ETALON_TRAVEL_CUH
#define ETALON_TRAVEL_CUH

#include <cuda_fp8.h>

#include "gpu/nccl/ranks.cuh"

template <class From, class To> __global__ void convert(const From *from, To *to, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		to[i] = To(float(from[i]));
}

template <class F, class Narrow> void add_as(ranks &all, F *part, size_t n, enum travels type)
{
	buffer narrow(n * sizeof(Narrow));
	Narrow *at = narrow.as<Narrow>();

	launch_on(all.stream(), "convert", convert<F, Narrow>, blocks(n, 256), 256, 0, (const F *)part, at, n);
	all.all_reduce(at, n, type);
	launch_on(all.stream(), "convert", convert<Narrow, F>, blocks(n, 256), 256, 0, (const Narrow *)at, part, n);
	all.wait();
}

/* The ranks' n elements become their sum. rung 0: added as they are; 1: in bf16; 2: in e4m3. */
template <class F> void add_over_ranks(ranks &all, F *part, size_t n, int rung)
{
	if (rung == 1)
		add_as<F, bf16>(all, part, n, TRAVELS_BF16);
	else if (rung == 2)
		add_as<F, __nv_fp8_e4m3>(all, part, n, TRAVELS_E4M3);
	else
		all.all_reduce(part, n, travels_as<F>);
}

/* Those rungs are of sums of float32. */
template <class F> int travel_rung(const capture &c) { return rung_of(c, __is_same(F, float) ? 2 : 0, 0); }

#endif
