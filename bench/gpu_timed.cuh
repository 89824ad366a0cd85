/* Medians of times of work on a stream, replayed as CUDA graphs, several kinds of work taking
 * turns; and rows of them. */
#ifndef ETALON_BENCH_GPU_TIMED_CUH
#define ETALON_BENCH_GPU_TIMED_CUH

#include <algorithm>
#include <functional>
#include <list>
#include <string>

#include "bench/row.h"
#include "gpu/host/cuda.cuh"

enum { WARM = 3, ROUNDS = 15 };

/* A graph of work of which the part between begin() and end() is timed. */
class timed {
public:
	timed(cudaStream_t stream, const std::function<void()> &before,
		const std::function<void()> &work)
		: stream_(stream)
	{
		cudaGraph_t graph;

		check(cudaEventCreate(&begin_), "event");
		check(cudaEventCreate(&end_), "event");
		before();
		work();                 /* plans and attributes are made outside the graph */
		check(cudaStreamSynchronize(stream), "first run");
		check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
		before();
		check(cudaEventRecordWithFlags(begin_, stream, cudaEventRecordExternal), "event");
		work();
		check(cudaEventRecordWithFlags(end_, stream, cudaEventRecordExternal), "event");
		check(cudaStreamEndCapture(stream, &graph), "capture");
		check(cudaGraphInstantiate(&graph_, graph, 0), "graph");
		cudaGraphDestroy(graph);
	}
	~timed()
	{
		cudaGraphExecDestroy(graph_);
		cudaEventDestroy(begin_);
		cudaEventDestroy(end_);
	}
	timed(const timed &) = delete;

	/* Microseconds. */
	double once()
	{
		float ms;

		check(cudaGraphLaunch(graph_, stream_), "graph");
		check(cudaStreamSynchronize(stream_), "graph");
		check(cudaEventElapsedTime(&ms, begin_, end_), "event");
		return ms * 1000.0;
	}

private:
	cudaStream_t stream_;
	cudaEvent_t begin_, end_;
	cudaGraphExec_t graph_;
};

/* What is timed, and what comes before it in the graph. */
struct job { std::function<void()> work, before = [] { }; };

/* Median microseconds of one of `launches` in a graph, of each job, all taking turns. */
inline std::vector<double> times_of(cudaStream_t stream, const std::vector<job> &jobs,
	int launches = 1)
{
	std::list<timed> graphs;
	std::vector<std::vector<double>> times(jobs.size());
	std::vector<double> medians;

	for (const job &j : jobs)
		graphs.emplace_back(stream, j.before, [&] {
			for (int i = 0; i < launches; i++)
				j.work();
		});
	for (int round = 0; round < WARM + ROUNDS; round++) {
		auto list = times.begin();
		for (timed &graph : graphs) {
			double t = graph.once();
			if (round >= WARM)
				list->push_back(t / launches);
			++list;
		}
	}
	for (auto &list : times) {
		std::nth_element(list.begin(), list.begin() + ROUNDS / 2, list.end());
		medians.push_back(list[ROUNDS / 2]);
	}
	return medians;
}

/* errors: |x - y| / |y| of each output, blanks between. */
inline void note(const char *table, const std::string &row, const std::string &way = "",
	double us = 0, double floor = 0,
                 double moved = 0, const char *unit = "", const std::string &errors = "")
{
	row_print({ table, row.c_str(), way.c_str(), us, floor, moved, unit, "", 0, 0, 0,
		errors.c_str() });
}

/* ---- kernels that move bytes, against a copy of as many ---- */

/* One way of doing a work; bytes that it must move, each input read and each output written once.
 * The last of a work stands beside its rivals. */
struct way {
	std::string work, kernel;
	double bytes;
	std::function<void()> once;
	const char *table = "kernel";
};

/* 64 bytes a thread. */
template <int PIECES = 4> __global__ void __launch_bounds__(256) copy_pieces(uint4 *to, const uint4 *from, size_t count)
{
	size_t first = (size_t)blockIdx.x * PIECES * 256 + threadIdx.x;
	uint4 x[PIECES];

#pragma unroll
	for (int i = 0; i < PIECES; i++)
		if (first + i * 256 < count)
			x[i] = from[first + i * 256];
#pragma unroll
	for (int i = 0; i < PIECES; i++)
		if (first + i * 256 < count)
			to[first + i * 256] = x[i];
}

/* Rows of all ways and, in the same rounds, of a copy that moves `bytes`: the faster of cudaMemcpyAsync, which on some machines
 * is slow from a gigabyte on, and of a kernel. A graph has `launches`
 * of a way, and each is `parts` times the way's work. Returns microseconds of each way and bytes
 * that the copy moves in one. */
struct raced { std::vector<double> us; double rate; };
inline raced race(cudaStream_t stream, double bytes, const std::vector<way> &ways, int launches = 8,
	int parts = 1)
{
	size_t half = (size_t)bytes / 2;
	buffer from(half), to(half);
	std::vector<job> jobs;

	from.poison();
	for (const way &w : ways)
		jobs.push_back({ w.once });
	jobs.push_back({ [&] {
		check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), half,
			cudaMemcpyDeviceToDevice, stream), "copy");
	} });
	size_t pieces = std::max<size_t>(1, half / sizeof(uint4));
	jobs.push_back({ [&] {
		launch_on(stream, "copy", copy_pieces<>, dim3(blocks(pieces, 4 * 256)), 256, 0,
			to.as<uint4>(), from.as<const uint4>(), pieces);
	} });
	raced found = { times_of(stream, jobs, launches), 0 };
	double copy = std::min(found.us[ways.size()], found.us[ways.size() + 1]);
	found.rate = bytes / copy;
	note("copy", ways[0].work, "", copy / parts, 0, bytes / parts, "B");
	found.us.resize(ways.size());
	for (size_t i = 0; i < ways.size(); i++) {
		const way &w = ways[i];
		found.us[i] /= parts;
		note(w.table, w.work, w.kernel, found.us[i], w.bytes / found.rate, w.bytes, "B");
	}
	return found;
}

/* ---- numbers on the device ---- */

/* Normal numbers of a hash of the place; rows of m shrink from 1 to `last`. */
template <class F> __global__ void draw_normal(F *x, size_t n, size_t m, float deviation,
	float last, uint64_t seed)
{
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
		i += (size_t)gridDim.x * blockDim.x) {
		uint64_t z = (i + seed) * 0x9e3779b97f4a7c15u + 1;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		z ^= z >> 31;
		float u = ((float)(z >> 40) + 1) * 0x1p-24f, v = (float)(z & 0xffffff) * 0x1p-24f;
		float size = deviation * powf(last, (float)(i / m) / (float)(n / m));
		from_float(x[i], size * sqrtf(-2 * logf(u)) * cospif(2 * v));
	}
}

template <class F = bf16> buffer drawn(size_t n, float deviation, uint64_t seed, size_t m = 1,
	float last = 1)
{
	buffer b(n * sizeof(F));

	draw_normal<<<1024, 256>>>(b.as<F>(), n, m, deviation, last, seed);
	check(cudaDeviceSynchronize(), "draw");
	return b;
}

inline operand weights(const buffer &b) { return { b.as<const void>(), DT_BF16 }; }

#endif
