/* bench-gpu: decoding steps of the executor at Qwen3.5-27B's sizes: 16 key and 48 value heads of
 * 128, data bf16, slots in no order. Times are those of one layer in a step of as many that no
 * cache holds their states. */
#include <memory>
#include <numeric>
#include <random>

#include "bench/gpu.h"
#include "bench/gpu_timed.cuh"
#include "gpu/executor/executor_cuda.cuh"

/* What is timed: a whole step replayed as a graph, as `decode` says, grids overlapping or not. */
static const struct mode { const char *name; enum decode_way decode; bool overlap; } modes[] = {
	{ "1 three kernels", DECODE_IN_THREE, false },
	{ "2 one launch", DECODE_IN_ONE, false },
	{ "2, overlapping", DECODE_IN_ONE, true },
};

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
		: rows_(rows), s(shape_of(rows, state)),
			bytes_((size_t)rows * executor_state_bytes(&s)),
		  weights_(numbers(s.layers)), y_(rows * s.layers * executor_channels(&s)),
		  x({ s, { weights_.data(), weights_.data(), weights_.data(), weights_.data() } }),
		  states_(bytes_)
	{
		give(false);
	}
	decoding(const decoding &) = delete;

	/* Rows of each mode, with a copy of as many bytes as the states in the same rounds, and
	 * with the states changed where they are, which is what no decoding can do without. */
	void measure(const std::string &work)
	{
		double one = 2.0 * (double)bytes_ / s.layers;   /* read and written, of one layer */
		std::vector<way> ways;

		for (const mode &m : modes)
			ways.push_back({ work, m.name, one, [&] {
				use(m);
				x.enqueue(rows_, rows_, false);
			} });
		ways.push_back({ work, "states in place", one, [&] {
			launch_on(x.stream(), "change", change,
				dim3(blocks(bytes_ / sizeof(uint4), 256)), 256, 0,
			          states_.as<uint4>());
		}, "in place" });
		raced found = race(x.stream(), 2.0 * (double)bytes_, ways, 1, (int)s.layers);
		for (size_t i = 0; i + 1 < ways.size(); i++)
			note("all bytes", work, ways[i].kernel, found.us[i],
				all_bytes() / found.rate, all_bytes(), "B");
	}

	/* Refuses with E_VALUE if a mode has other bits than the first: after a step from nothing,
	 * y of the next and two slots. */
	void check_bits()
	{
		std::vector<unsigned char> first, now(y_.size() * sizeof y_[0] + 2 * slot_bytes());

		for (const mode &m : modes) {
			use(m);
			for (bool fresh : { true, false }) {
				give(fresh);
				x.enqueue(rows_, rows_, false);
				x.download(rows_, y_.data());
			}
			memcpy(now.data(), y_.data(), y_.size() * sizeof y_[0]);
			for (int slot : { 0, rows_ - 1 }) {
				unsigned char *to = now.data()
					+ now.size() - (slot ? 1 : 2) * slot_bytes();
				x.read(slot, to, to + executor_state_bytes(&s));
			}
			if (first.empty())
				first = now;
			if (now != first)
				refuse(E_VALUE, m.name, "other bits than %s", modes[0].name);
		}
	}

private:
	int rows_;
	struct executor_shape s;
	size_t bytes_;          /* of all rows' states */
	std::vector<float> weights_;
	std::vector<uint16_t> y_;       /* [rows,layers,C], of which y has the beginning */
	device_executor x;
	buffer states_;

	void use(const mode &m) { x.decode = m.decode, x.overlap = m.overlap; }

	/* The states of one layer, and all that has to move beside them: rings of q, k and v, x, z
	 * and y. */
	double all_bytes() const
	{
		double C = (double)executor_channels(&s), size = (double)dtype_info[s.data].size;

		return 2.0 * (double)bytes_ / s.layers
			+ rows_ * size * (C * (2 * s.W + 1) + 2.0 * s.Hv * s.Dv);
	}

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
		std::vector<int32_t> slots(rows_), none(rows_, -1), kinds(rows_, ROW_DECODE),
			cuts(rows_ + 1), position(rows_, 9);
		std::vector<float> drawn = numbers(s.layers);
		std::vector<uint16_t> in(y_.size());
		const int32_t *slot = slots.data(), *from = fresh ? none.data() : slot;
		struct executor_step step = { rows_, rows_, rows_, kinds.data(), cuts.data(), from,
			slot, from, slot,
			position.data() };
		struct executor_data all = { in.data(), in.data(), in.data(), in.data(),
			y_.data() };

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
};

/* A row that prefills T tokens from its slot into it, one layer of a 27B's: token by token, and in chunks. */
class prefilling {
public:
	explicit prefilling(int T) : T_(T), s(shape_of(1, DT_F32))
	{
		s.layers = 1, s.max_tokens = T;
		weights_.resize(executor_channels(&s) * s.W, 0.3f);
		const float *w = weights_.data();
		struct executor_weights all = { w, w, w, w };
		for (bool chunks : { false, true }) {
			ways_.push_back(std::make_unique<device_executor>(s, all));
			ways_.back()->in_chunks = chunks;
			give(*ways_.back());
		}
	}

	void measure()
	{
		double C = (double)executor_channels(&s), heads = (double)s.Hv * s.Dv;
		double bytes = 2.0 * T_ * (C + 2 * heads) + 2.0 * (double)executor_state_bytes(&s);
		cudaStream_t stream = ways_[0]->stream();
		std::vector<way> ways;

		for (int i : { 0, 1 })
			ways.push_back({ "executor_" + std::to_string(T_), i ? "in chunks" : "token by token", bytes, [this, i, stream] {
				ways_[i]->enqueue_on(stream, 1);
			} });
		race(stream, bytes, ways, 1);
	}

private:
	int T_;
	struct executor_shape s;
	std::vector<float> weights_;
	std::vector<std::unique_ptr<device_executor>> ways_;

	void give(device_executor &x)
	{
		std::vector<int32_t> write(T_, -1);
		std::vector<uint16_t> in((size_t)T_ * executor_channels(&s)), y((size_t)T_ * s.Hv * s.Dv);
		const int32_t kind = ROW_PREFILL, slot = 0, position = 9, cuts[] = { 0, T_ };
		struct executor_step step = { 1, T_, 0, &kind, cuts, &slot, write.data(), &slot, write.data(), &position };
		struct executor_data all = { in.data(), in.data(), in.data(), in.data(), y.data() };
		std::mt19937 from(5);
		std::normal_distribution<double> normal;

		write.back() = 0;
		for (size_t i = 0; i < in.size(); i++) {
			double v = i < 1 << 16 ? normal(from) : 0;
			if (i < 1 << 16)
				dtype_store(DT_BF16, &v, 1, &in[i]);
			else
				in[i] = in[i % (1 << 16) * 31 % (1 << 16)];
		}
		x.upload(step, all);
		check(cudaStreamSynchronize(x.stream()), "data");
	}
};

void bench_executor()
{
	if (!limits().hopper) {
		fprintf(stderr, "bench-gpu: no decoding, for in one launch it needs a Hopper GPU\n");
		return;
	}
	for (int T : { 32, 64, 1024, 4096 })
		prefilling(T).measure();
	for (enum dtype state : { DT_F32, DT_BF16 })
		for (int rows : { 1, 16, 64, 256 }) {
			decoding d(rows, state);

			d.measure((state == DT_F32 ? "decode_f32_" : "decode_bf16_")
				+ std::to_string(rows));
			if (rows <= 16)
				d.check_bits();
		}
}
