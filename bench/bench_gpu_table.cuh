/* What the parts of bench-gpu share that time lists of small kernels: buffers of numbers, and a table with a copy of as many
 * bytes. */
#ifndef ETALON_BENCH_GPU_TABLE_CUH
#define ETALON_BENCH_GPU_TABLE_CUH

#include <cstdio>
#include <memory>

#include "bench/bench_gpu_page.h"
#include "bench/timed.cuh"

enum { LAUNCHES = 8 };          /* in one timed graph */

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

inline buffer drawn(size_t n, float deviation, uint64_t seed)
{
	buffer b(n * sizeof(bf16));

	draw<<<1024, 256>>>(b.as<bf16>(), n, deviation, seed);
	check(cudaDeviceSynchronize(), "draw");
	return b;
}

/* One line of a table: `bytes` that it must move, each input read and each output written once. */
struct work {
	const char *name;
	double bytes;
	std::function<void()> once;
	std::string page = "", kernel = "";     /* its row on the page: the work's and the kernel's names; none if empty */
};

/* The first line is the copy that the shares are of. */
inline void table(cudaStream_t stream, const char *title, const std::vector<work> &list)
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
	for (size_t i = 0; i < list.size(); i++)
		if (!list[i].page.empty())
			note({ list[i].page, list[i].kernel, t[i] / LAUNCHES, list[i].bytes, copy * LAUNCHES, false });
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

inline operand weights(const buffer &b) { return { b.as<const void>(), DT_BF16 }; }

#endif
