/* bench-gpu: a decoding step of the executor at Qwen3.5-27B's sizes: 64 rows, 16 key and 48 value heads of 128. Times are
 * those of one layer in a step of LAYERS, whose states no cache holds; ways of running take turns. */
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

#include "compare/bench_gpu.h"
#include "compare/timed.cuh"
#include "gpu/executor_cuda.cuh"

enum { ROWS = 64, LAYERS = 8 };

/* What is timed: the whole step, launched kernel by kernel or as a graph; the recurrences alone; a copy of the states. */
enum way { EAGER, REPLAYED, RECURRENCE, COPY, WAYS };

static struct executor_shape shape_of(enum dtype state)
{
	struct executor_shape s = {};

	s.layers = LAYERS, s.Hk = 16, s.Hv = 48, s.Dk = 128, s.Dv = 128, s.W = 4;
	s.slots = ROWS, s.max_tokens = ROWS, s.max_rows = ROWS;
	s.state = state, s.data = DT_BF16, s.l2_eps = 1e-6f, s.norm_eps = 1e-6f;
	return s;
}

class decoding {
public:
	decoding(enum dtype state, bool shuffled)
		: s(shape_of(state)), bytes_((size_t)ROWS * executor_state_bytes(&s)), slots_(s.slots), weights_(weights()),
		  x({ s, { weights_.data(), weights_.data(), weights_.data(), weights_.data() } }), from_(bytes_), to_(bytes_)
	{
		std::iota(slots_.begin(), slots_.end(), 0);
		if (shuffled)
			std::shuffle(slots_.begin(), slots_.end(), std::mt19937(27));
		check(cudaEventCreate(&begin_), "event");
		check(cudaEventCreate(&end_), "event");
		give();
	}
	~decoding() { cudaEventDestroy(begin_), cudaEventDestroy(end_); }
	decoding(const decoding &) = delete;

	size_t state_bytes() const { return bytes_; }

	/* Microseconds. */
	double once(enum way w)
	{
		float ms;

		check(cudaEventRecord(begin_, x.stream()), "event");
		switch (w) {
		case RECURRENCE:
			for (int layer = 0; layer < LAYERS; layer++)
				x.enqueue_recurrence(layer, ROWS);
			break;
		case COPY:
			check(cudaMemcpyAsync(to_.as<void>(), from_.as<void>(), bytes_, cudaMemcpyDeviceToDevice, x.stream()), "copy");
			break;
		default: x.enqueue(ROWS, ROWS, w == REPLAYED);
		}
		check(cudaEventRecord(end_, x.stream()), "event");
		check(cudaStreamSynchronize(x.stream()), "step");
		check(cudaEventElapsedTime(&ms, begin_, end_), "event");
		return ms * 1000.0 / LAYERS;
	}

private:
	struct executor_shape s;
	size_t bytes_;          /* of all rows' states */
	std::vector<int32_t> slots_;
	std::vector<float> weights_;
	device_executor x;
	buffer from_, to_;
	cudaEvent_t begin_, end_;

	std::vector<float> weights() const
	{
		std::vector<float> list(LAYERS * executor_channels(&s) * s.W);

		for (size_t i = 0; i < list.size(); i++)
			list[i] = (float)(i % 17) / 17 - 0.5f;
		return list;
	}

	/* The rows' slots and inputs. */
	void give()
	{
		std::vector<int32_t> kinds(ROWS, ROW_DECODE), cuts(ROWS + 1), position(ROWS, 9);
		std::vector<uint16_t> one(ROWS * LAYERS * executor_channels(&s), 0x3e80), y(one.size());         /* 1/4 */
		const int32_t *slot = slots_.data();
		struct executor_step step = { ROWS, ROWS, ROWS, kinds.data(), cuts.data(), slot, slot, slot, slot, position.data() };
		struct executor_data all = { one.data(), one.data(), one.data(), one.data(), y.data() };

		std::iota(cuts.begin(), cuts.end(), 0);
		x.upload(step, all);
		check(cudaStreamSynchronize(x.stream()), "data");
	}
};

static std::vector<double> medians(decoding &d)
{
	std::vector<double> times[WAYS], middle;

	for (int round = 0; round < WARM + ROUNDS; round++)
		for (int w = 0; w < WAYS; w++) {
			double t = d.once((enum way)w);
			if (round >= WARM)
				times[w].push_back(t);
		}
	for (const auto &list : times)
		middle.push_back(median(list));
	return middle;
}

void bench_executor()
{
	static const char *const names[WAYS] = { "step, eager", "step, replayed", "recurrence alone", "copy" };

	printf("\nexecutor: a decoding step of %d rows, 16 key and 48 value heads of 128, data bf16; one layer of %d.\n"
	       "state MB: read and written; share: of the rate of a device copy of them in the same rounds\n"
	       "states  slots     what                   us  state MB     GB/s   share\n", ROWS, LAYERS);
	for (enum dtype state : { DT_F32, DT_BF16 })
		for (bool shuffled : { true, false }) {
			decoding d(state, shuffled);
			std::vector<double> t = medians(d);
			double moved = (double)d.state_bytes() / LAYERS;

			for (int w = 0; w < WAYS; w++)
				printf("%-6s  %-8s  %-16s %8.1f  %8.1f %8.0f  %5.1f%%\n", dtype_info[state].name,
				       shuffled ? "shuffled" : "identity", names[w], t[w], 2e-6 * moved,
				       2e-3 * moved / t[w], 100 * t[COPY] / t[w]);
		}
}
