/* Medians of times of work on a stream, replayed as CUDA graphs, several kinds of work taking turns. */
#ifndef ETALON_TIMED_CUH
#define ETALON_TIMED_CUH

#include <algorithm>
#include <functional>

#include "gpu/host/cuda.cuh"

enum { WARM = 3, ROUNDS = 15 };

inline double median(std::vector<double> x)
{
	std::sort(x.begin(), x.end());
	return x.size() % 2 ? x[x.size() / 2] : (x[x.size() / 2 - 1] + x[x.size() / 2]) / 2;
}

/* A graph of work of which the part between begin() and end() is timed. */
class timed {
public:
	timed(cudaStream_t stream, const std::function<void()> &before, const std::function<void()> &work) : stream_(stream)
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

/* The medians of all, which take turns. */
inline std::vector<double> times_of(const std::vector<timed *> &all)
{
	std::vector<std::vector<double>> list(all.size());
	std::vector<double> middle;

	for (int round = 0; round < WARM + ROUNDS; round++)
		for (size_t i = 0; i < all.size(); i++) {
			double t = all[i]->once();
			if (round >= WARM)
				list[i].push_back(t);
		}
	for (const auto &t : list)
		middle.push_back(median(t));
	return middle;
}

#endif
