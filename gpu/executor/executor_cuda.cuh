/* The executor's memory on the device, and its steps: gpu/executor.h says what is computed,
 * gpu/executor_kernels.cuh how.
 *
 * One stream. A step runs its decode part (the first decode_rows rows), layer by layer, then its other rows, those that are
 * long in chunks (gpu/executor_chunks.cuh). The
 * decode part's launches depend on decode_rows alone, all else is read from the tables: a graph of them, captured at
 * the first replay with that many rows, serves all later ones. Nothing else is allocated after the constructor. */
#ifndef ETALON_EXECUTOR_CUDA_CUH
#define ETALON_EXECUTOR_CUDA_CUH

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "gpu/host/cuda.cuh"
#include "gpu/executor/executor_faults.h"
#include "gpu/executor/executor_decode_few.cuh"
#include "gpu/executor/executor_chunks.cuh"
#include "gpu/executor/guarded.cuh"

/* How rows of the decode part are computed: by convolve, recur and gate_norm; in one launch, as is best where few blocks run or
 * where many do; or in the one of these two for the number of rows. The numbers are the same to the bit. */
enum decode_way { DECODE_IN_THREE, DECODE_FEW, DECODE_MANY, DECODE_IN_ONE };

class device_executor {
public:
	/* Refuses with E_DIM, E_MEMORY, E_NO_DEVICE, E_DEVICE. */
	device_executor(const struct executor_shape &shape, const struct executor_weights &weights);
	~device_executor();
	device_executor(const device_executor &) = delete;

	void run(const struct executor_step &step, const struct executor_data &data, bool replay);
	/* The parts of run. */
	void upload(const struct executor_step &step, const struct executor_data &data);
	void enqueue(int rows, int decode_rows, bool replay);
	void download(int tokens, void *y);
	/* For measurements: the rows of the step that has been uploaded, none of which decodes, on another stream. */
	void enqueue_on(cudaStream_t stream, int rows)
	{
		std::swap(stream, stream_);
		enqueue(rows, 0, false);
		std::swap(stream, stream_);
	}

	void read(size_t slot, void *states, void *rings) { move_slot(slot, states, rings, false); }
	void write(size_t slot, const void *states, const void *rings)
	{
		move_slot(slot, const_cast<void *>(states), const_cast<void *>(rings), true);
	}
	void check_guards() const;
	cudaStream_t stream() const { return stream_; }

	/* For measurements. As the constructor leaves it: DECODE_IN_ONE where the device and the sizes are decode_layer's, else
	 * DECODE_IN_THREE; and a grid of it begins while the one before it ends. */
	enum decode_way decode = DECODE_IN_THREE;
	bool overlap = true;
	bool in_chunks = false;         /* true where the device and the sizes are those of the chunks' kernels; asked by upload */

private:
	struct part { void *data; size_t each; };       /* bytes for each token */

	struct executor_shape s;
	size_t C, heads;                /* channels; Hv Dv */
	size_t state_bytes, ring_bytes; /* of a slot */
	int processors = 0;
	bool hopper;
	cudaStream_t stream_ = nullptr, beside_ = nullptr;
	cudaEvent_t fork_ = nullptr, join_ = nullptr;   /* beside_, fork_, join_: for missing_barrier */
	int32_t *staged_ = nullptr;     /* the tables on the host, pinned */
	std::vector<cudaGraphExec_t> graphs;    /* [max_rows+1] */

	guarded states, rings, conv, g, beta, o, x, z, a, b, y, tables;
	guarded conv_weight, A_log, dt_bias, norm_weight;
	chunk_rows chunks;

	size_t data_bytes(size_t each) const { return (size_t)s.max_tokens * s.layers * each * dtype_info[s.data].size; }
	size_t scratch_bytes(size_t each) const { return (size_t)s.max_tokens * each * sizeof(float); }
	std::vector<const guarded *> all() const
	{
		std::vector<const guarded *> list = { &states, &rings, &conv, &g, &beta, &o, &x, &z, &a, &b, &y, &tables, &conv_weight,
			&A_log, &dt_bias, &norm_weight }, more = chunks.all();

		list.insert(list.end(), more.begin(), more.end());
		return list;
	}
	step_tables device_tables() const;
	void move_slot(size_t slot, void *state, void *ring, bool up);
	void copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) const
	{
		check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "copy");
	}
	template <class Call> void by_data(Call f) const
	{
		if (s.data == DT_BF16)
			f(bf16{});
		else
			f(float{});
	}
	template <class Call> void view(int layer, int first_row, Call f) const;
	void check_step(const struct executor_step &step) const;
	void run_rows(int first, int rows, bool one_token);
	void run_chunks();
	void launch_decode(const layer_view &v, int rows);
	template <class plan, class F> void launch_decode(const layer_view &v, int rows);
	void launch_layer(void (*kernel)(layer_view), const layer_view &v, int blocks, int threads, int shared);
	void launch_convolve(const layer_view &v, int rows);
	template <class F, int V> void launch_convolve(const layer_view &v, int rows, cudaStream_t stream);
	void launch_recur(const layer_view &v, int rows);
	void launch_norm(const layer_view &v, int rows, int slices);
	bool any_fault() const { return fault_of_scratch() || executor_fault_is("int32_slot_offset"); }
	bool fault_of_scratch() const { return executor_fault_is("workspace_overflow") || executor_fault_is("missing_barrier"); }
	void apply_faults();
};

/* ---- memory ---- */

/* Under int32_slot_offset elements up to 2^31 before the pool are written to. */
inline size_t before_pool(const struct executor_shape &s, size_t slot_bytes)
{
#ifdef ETALON_FAULTS
	size_t each = dtype_info[s.state].size;
	return s.slots * (slot_bytes / each) > INT32_MAX ? each << 31 : 0;
#else
	(void)s, (void)slot_bytes;
	return 0;
#endif
}

inline bool device_is_hopper()
{
	int major, device;

	check(cudaGetDevice(&device), "device");
	check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
	return major == 9;
}

inline device_executor::device_executor(const struct executor_shape &shape, const struct executor_weights &w)
	: s(shape), C(executor_channels(&s)), heads((size_t)s.Hv * s.Dv),
	  state_bytes((size_t)s.layers * heads * s.Dk * dtype_info[s.state].size),
	  ring_bytes(s.layers * C * s.W * dtype_info[s.data].size), hopper(device_is_hopper()), graphs(s.max_rows + 1),
	  states("states", s.slots * state_bytes, before_pool(s, state_bytes)), rings("rings", s.slots * ring_bytes),
	  conv("conv", scratch_bytes(C)), g("g", scratch_bytes(s.Hv)), beta("beta", scratch_bytes(s.Hv)),
	  o("o", scratch_bytes(heads)), x("x", data_bytes(C)), z("z", data_bytes(heads)), a("a", data_bytes(s.Hv)),
	  b("b", data_bytes(s.Hv)), y("y", data_bytes(heads)),
	  tables("tables", sizeof(int32_t) * (5 * (size_t)s.max_rows + 1 + 2 * (size_t)s.max_tokens)),
	  conv_weight("conv_weight", sizeof(float) * s.layers * C * s.W), A_log("A_log", sizeof(float) * s.layers * s.Hv),
	  dt_bias("dt_bias", sizeof(float) * s.layers * s.Hv), norm_weight("norm_weight", sizeof(float) * s.layers * s.Dv),
	  chunks(s, hopper && prefills_in_chunks(s))
{
	small(s.Dk, "Dk", MAX_DK);
	small(s.W, "W", MAX_W);
	small(s.Hv, "Hv", 65535);
	small(s.max_rows, "max_rows", 65535);
	small(C, "C", 1 << 24);
	check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
	check(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking), "stream");
	check(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "event");
	check(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming), "event");
	check(cudaMallocHost(&staged_, tables.bytes()), "tables");
	for (guarded *pool : { &states, &rings })
		pool->fill(0);
	for (guarded *scratch : { &conv, &g, &beta, &o, &x, &z, &a, &b, &y })
		scratch->fill(0xff);    /* NaN */
	const struct { guarded &to; const float *from; } list[] = {
		{ conv_weight, w.conv }, { A_log, w.A_log }, { dt_bias, w.dt_bias }, { norm_weight, w.norm }
	};
	for (const auto &one : list)
		check(cudaMemcpy(one.to.as<void>(), one.from, one.to.bytes(), cudaMemcpyHostToDevice), one.to.name());
	int device;
	check(cudaGetDevice(&device), "device");
	check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "device");
	in_chunks = hopper && prefills_in_chunks(s);
	if (in_chunks)
		view(0, 0, [](const layer_view &v) { chunked::make_ready<2>(v.m); });
	if (hopper && s.Dk == DECODE_D && s.Dv == DECODE_D && s.W == DECODE_W)
		decode = DECODE_IN_ONE;
	check(cudaDeviceSynchronize(), "open");         /* the stream does not wait for the default one */
}

inline device_executor::~device_executor()
{
	for (cudaGraphExec_t graph : graphs)
		if (graph)
			cudaGraphExecDestroy(graph);
	if (staged_)
		cudaFreeHost(staged_);
	for (cudaEvent_t event : { fork_, join_ })
		if (event)
			cudaEventDestroy(event);
	for (cudaStream_t stream : { stream_, beside_ })
		if (stream)
			cudaStreamDestroy(stream);
}

inline void device_executor::move_slot(size_t slot, void *state, void *ring, bool up)
{
	const struct { void *device, *host; size_t bytes; } parts[] = {
		{ states.as<char>() + slot * state_bytes, state, state_bytes }, { rings.as<char>() + slot * ring_bytes, ring, ring_bytes }
	};

	for (const auto &p : parts)
		if (up)
			copy(p.device, p.host, p.bytes, cudaMemcpyHostToDevice);
		else
			copy(p.host, p.device, p.bytes, cudaMemcpyDeviceToHost);
	check(cudaStreamSynchronize(stream_), "slot");
}

inline void device_executor::check_guards() const { check_bands(all(), stream_); }

/* ---- one step ---- */

/* kinds, read_slot, ring_read, position [max_rows]; write_slot, ring_write [max_tokens]; cu_seqlens [max_rows+1]. */
inline step_tables device_executor::device_tables() const
{
	const int32_t *at = tables.as<const int32_t>();
	size_t R = s.max_rows, T = s.max_tokens;

	return { at, at + 4 * R + 2 * T, at + R, at + 4 * R, at + 2 * R, at + 4 * R + T, at + 3 * R };
}

/* Refuses with E_DIM or E_VALUE what would lead a kernel out of its buffers. */
inline void device_executor::check_step(const struct executor_step &step) const
{
	auto sound = [&](int32_t slot) { return slot >= -1 && slot < (int64_t)s.slots; };

	small(step.rows, "rows", s.max_rows);
	small(step.tokens, "tokens", s.max_tokens);
	small(step.decode_rows, "decode_rows", step.rows);
	for (int r = 0; r < step.rows; r++)
		if (step.cu_seqlens[r] < 0 || step.cu_seqlens[r] >= step.cu_seqlens[r + 1] || step.cu_seqlens[r + 1] > step.tokens)
			refuse(E_VALUE, "cu_seqlens", "row %d has no token of the step's %d", r, step.tokens);
		else if (!sound(step.read_slot[r]) || !sound(step.ring_read[r]) || step.position[r] < 0)
			refuse(E_VALUE, "read_slot", "row %d: no slot of %zu, or a position below 0", r, s.slots);
	for (int r = 0; r < step.decode_rows; r++)
		if (step.cu_seqlens[r] != r || step.cu_seqlens[r + 1] != r + 1)
			refuse(E_VALUE, "cu_seqlens", "decode row %d has not the token %d alone", r, r);
	for (int t = 0; t < step.tokens; t++)
		if (!sound(step.write_slot[t]) || !sound(step.ring_write[t]))
			refuse(E_VALUE, "write_slot", "token %d: no slot of %zu", t, s.slots);
}

inline void device_executor::upload(const struct executor_step &step, const struct executor_data &data)
{
	step_tables device = device_tables();
	size_t R = step.rows, T = step.tokens, each = s.layers * dtype_info[s.data].size;
	const struct { const int32_t *from, *to; size_t count; } lists[] = {
		{ step.kinds, device.kinds, R }, { step.read_slot, device.read_slot, R }, { step.ring_read, device.ring_read, R },
		{ step.position, device.position, R }, { step.write_slot, device.write_slot, T },
		{ step.ring_write, device.ring_write, T }, { step.cu_seqlens, device.cu_seqlens, R + 1 }
	};

	memset(staged_, 0xff, tables.bytes());
	for (const auto &l : lists)
		memcpy(staged_ + (l.to - tables.as<const int32_t>()), l.from, l.count * sizeof *l.from);
	chunks.plan(step, staged_, in_chunks && !any_fault() ? (int64_t)(state_bytes / dtype_info[s.state].size) : 0);
	chunks.upload([&](void *to, const void *from, size_t bytes) { copy(to, from, bytes, cudaMemcpyHostToDevice); });
	copy(tables.as<void>(), staged_, tables.bytes(), cudaMemcpyHostToDevice);
	/* y too: what no row computes has to come back as it was */
	const struct { const guarded &to; const void *from; size_t each; } parts[] = {
		{ x, data.x, C }, { z, data.z, heads }, { a, data.a, (size_t)s.Hv }, { b, data.b, (size_t)s.Hv }, { y, data.y, heads }
	};
	for (const auto &p : parts)
		copy(p.to.as<void>(), p.from, T * p.each * each, cudaMemcpyHostToDevice);
}

inline void device_executor::download(int tokens, void *to)
{
	copy(to, y.as<void>(), tokens * heads * s.layers * dtype_info[s.data].size, cudaMemcpyDeviceToHost);
	check(cudaStreamSynchronize(stream_), "step");
}

inline void device_executor::run(const struct executor_step &step, const struct executor_data &data, bool replay)
{
	check_step(step);
	apply_faults();
	upload(step, data);
	enqueue(step.rows, step.decode_rows, replay && !any_fault());
	download(step.tokens, data.y);
}

inline void device_executor::enqueue(int rows, int decode_rows, bool replay)
{
	if (decode_rows && replay) {
		cudaGraphExec_t &ready = graphs[decode_rows];

		if (!ready) {
			cudaGraph_t graph;
			check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "graph");
			run_rows(0, decode_rows, true);
			check(cudaStreamEndCapture(stream_, &graph), "graph");
			cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
			cudaGraphDestroy(graph);
			check(status, "graph");
		}
		check(cudaGraphLaunch(ready, stream_), "graph");
	} else if (decode_rows) {
		run_rows(0, decode_rows, true);
	}
	if (rows - decode_rows > chunks.rows())
		run_rows(decode_rows, rows - decode_rows, false);
	if (chunks.rows())
		run_chunks();
}

inline void device_executor::run_rows(int first, int rows, bool one_token)
{
	for (int layer = 0; layer < s.layers; layer++)
		view(layer, first, [&](const layer_view &v) {
			if (one_token && decode != DECODE_IN_THREE && !fault_of_scratch())
				return launch_decode(v, rows);
			launch_convolve(v, rows);
			launch_recur(v, rows);
			launch_norm(v, rows, one_token ? 1 : 16);
		});
}

#include "gpu/executor/executor_launch.cuh"

#endif
