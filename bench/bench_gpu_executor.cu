/* bench-gpu: decoding steps of the executor at Qwen3.5-27B's sizes: 16 key and 48 value heads of 128. Times are those of one
 * layer in a step of as many that no cache holds their states; ways of running take turns. */
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>

#include "bench/bench_gpu.h"
#include "bench/bench_gpu_page.h"
#include "bench/timed.cuh"
#include "gpu/executor/executor_cuda.cuh"

/* What is timed: a whole step replayed as a graph, as `decode` says, grids overlapping or not; a copy of the states; and the
 * states changed where they are, which is what no decoding can do without. */
struct way { const char *name; enum decode_way decode; bool overlap; };

static const way ways[] = {
	{ "1 three kernels", DECODE_IN_THREE, false },
	{ "2 one launch", DECODE_IN_ONE, false },
	{ "2, overlapping", DECODE_IN_ONE, true },
};
enum { COPY = sizeof ways / sizeof *ways, IN_PLACE, WAYS };

static const char *name_of(int w) { return w == COPY ? "copy of states" : w == IN_PLACE ? "states in place" : ways[w].name; }

static __global__ void __launch_bounds__(256) change(uint4 *x)
{
	size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
	uint4 w = x[i];

	x[i] = make_uint4(~w.x, ~w.y, ~w.z, ~w.w);
}

static struct executor_shape shape_of(int rows, enum dtype state)
{
	struct executor_shape s = {};

	s.layers = std::max(8, 48 / rows), s.Hk = 16, s.Hv = 48, s.Dk = 128, s.Dv = 128, s.W = 4;
	s.slots = rows, s.max_tokens = rows, s.max_rows = rows;
	s.state = state, s.data = DT_BF16, s.l2_eps = 1e-6f, s.norm_eps = 1e-6f;
	return s;
}

class decoding {
public:
	decoding(int rows, enum dtype state)
		: rows_(rows), s(shape_of(rows, state)), bytes_((size_t)rows * executor_state_bytes(&s)), weights_(numbers(s.layers)),
		  y_(rows * s.layers * executor_channels(&s)),
		  x({ s, { weights_.data(), weights_.data(), weights_.data(), weights_.data() } }), from_(bytes_), to_(bytes_)
	{
		check(cudaEventCreate(&begin_), "event");
		check(cudaEventCreate(&end_), "event");
		give(false);
		for (const auto &w : ways)
			graphs_.emplace_back(new timed(x.stream(), [] {}, [&] {
				x.decode = w.decode, x.overlap = w.overlap;
				x.enqueue(rows_, rows_, false);
			}));
	}
	~decoding() { cudaEventDestroy(begin_), cudaEventDestroy(end_); }
	decoding(const decoding &) = delete;

	/* Read and written, of one layer: states; and all: rings of q, k and v too, x, z and y. */
	double state_bytes() const { return 2.0 * (double)bytes_ / s.layers; }
	double all_bytes() const
	{
		double C = (double)executor_channels(&s), size = (double)dtype_info[s.data].size;

		return state_bytes() + rows_ * size * (C * (2 * s.W + 1) + 2.0 * s.Hv * s.Dv);
	}

	/* Refuses with E_VALUE if a way has other bits than the first: after a step from nothing, y of the next and two slots. */
	void check_bits()
	{
		std::vector<unsigned char> first, now(y_.size() * sizeof y_[0] + 2 * slot_bytes());

		for (const auto &w : ways) {
			x.decode = w.decode, x.overlap = w.overlap;
			for (bool fresh : { true, false }) {
				give(fresh);
				x.enqueue(rows_, rows_, false);
				x.download(rows_, y_.data());
			}
			memcpy(now.data(), y_.data(), y_.size() * sizeof y_[0]);
			for (int slot : { 0, rows_ - 1 }) {
				unsigned char *to = now.data() + now.size() - (slot ? 1 : 2) * slot_bytes();
				x.read(slot, to, to + executor_state_bytes(&s));
			}
			if (first.empty())
				first = now;
			if (now != first)
				refuse(E_VALUE, w.name, "other bits than %s", ways[0].name);
		}
	}

	/* Microseconds of a layer. */
	double once(int w) { return (w >= COPY ? pass(w == COPY) : graphs_[w]->once()) / s.layers; }

private:
	int rows_;
	struct executor_shape s;
	size_t bytes_;          /* of all rows' states */
	std::vector<float> weights_;
	std::vector<uint16_t> y_;       /* [rows,layers,C], of which y has the beginning */
	device_executor x;
	buffer from_, to_;
	cudaEvent_t begin_, end_;
	std::vector<std::unique_ptr<timed>> graphs_;

	/* For `layers` layers' taps. */
	std::vector<float> numbers(int layers) const
	{
		std::vector<float> list(layers * executor_channels(&s) * s.W);
		std::mt19937 from(11);
		std::normal_distribution<float> normal;

		for (float &f : list)
			f = 0.5f * normal(from);
		return list;
	}

	/* Slots in no order, or read from nowhere; x, z, a and b normal numbers. */
	void give(bool fresh)
	{
		std::vector<int32_t> slots(rows_), none(rows_, -1), kinds(rows_, ROW_DECODE), cuts(rows_ + 1), position(rows_, 9);
		std::vector<float> drawn = numbers(s.layers);
		std::vector<uint16_t> in(y_.size());
		const int32_t *slot = slots.data(), *from = fresh ? none.data() : slot;
		struct executor_step step = { rows_, rows_, rows_, kinds.data(), cuts.data(), from, slot, from, slot, position.data() };
		struct executor_data all = { in.data(), in.data(), in.data(), in.data(), y_.data() };

		for (size_t i = 0; i < in.size(); i++) {
			double v = drawn[(i * 31 + i / drawn.size()) % drawn.size()];
			dtype_store(DT_BF16, &v, 1, &in[i]);
		}
		std::iota(slots.begin(), slots.end(), 0);
		std::iota(cuts.begin(), cuts.end(), 0);
		std::shuffle(slots.begin(), slots.end(), std::mt19937(27));
		x.upload(step, all);
		check(cudaStreamSynchronize(x.stream()), "data");
	}

	size_t slot_bytes() const { return executor_state_bytes(&s) + executor_ring_bytes(&s); }

	double pass(bool copy)
	{
		float ms;

		check(cudaEventRecord(begin_, x.stream()), "event");
		if (copy)
			check(cudaMemcpyAsync(to_.as<void>(), from_.as<void>(), bytes_, cudaMemcpyDeviceToDevice, x.stream()), "copy");
		else
			launch_on(x.stream(), "change", change, dim3(blocks(bytes_ / sizeof(uint4), 256)), 256, 0, from_.as<uint4>());
		check(cudaEventRecord(end_, x.stream()), "event");
		check(cudaStreamSynchronize(x.stream()), "pass");
		check(cudaEventElapsedTime(&ms, begin_, end_), "event");
		return ms * 1000.0;
	}
};

static std::vector<double> medians(decoding &d)
{
	std::vector<double> times[WAYS], middle;

	for (int round = 0; round < WARM + ROUNDS; round++)
		for (int w = 0; w < WAYS; w++) {
			double t = d.once(w);
			if (round >= WARM)
				times[w].push_back(t);
		}
	for (const auto &list : times)
		middle.push_back(median(list));
	return middle;
}

void bench_executor()
{
	if (!limits().hopper) {
		printf("\nexecutor: not measured, for decoding in one launch needs a Hopper GPU\n");
		return;
	}
	printf("\nexecutor: a decoding step, 16 key and 48 value heads of 128, data bf16, slots in no order, replayed; one layer of many.\n"
	       "GB/s and share count the states read and written, share is of the copy's rate in the same rounds; all: rings, x, z and\n"
	       "y are counted too. overlapping: a layer's grid begins, and loads states, while the one before it ends\n"
	       "states  rows  what                   us  state MB     GB/s   share     all\n");
	for (enum dtype state : { DT_F32, DT_BF16 })
		for (int rows : { 1, 16, 64, 256 }) {
			decoding d(rows, state);
			std::vector<double> t = medians(d);
			double moved = d.state_bytes();

			for (int w = 0; w < WAYS; w++) {
				double share = 100 * t[COPY] / t[w], all = w >= COPY ? 1 : d.all_bytes() / moved;

				printf("%-6s  %4d  %-16s %8.2f  %8.1f %8.0f  %5.1f%%  %5.1f%%\n", dtype_info[state].name, rows,
				       name_of(w), t[w], 1e-6 * moved, 1e-3 * moved / t[w], share, share * all);
				if (w < COPY)
					note({ std::string(state == DT_F32 ? "decode_f32_" : "decode_bf16_") + std::to_string(rows), ways[w].name, t[w],
					       moved, moved / t[COPY], false, d.all_bytes() });
			}
			if (rows <= 16)
				d.check_bits();
		}
}
