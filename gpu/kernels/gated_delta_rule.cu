/* Gated delta rule. Per token and value head h, which reads key head h / (Hv/Hk), in this order:
 *
 *   q, k <- x (sum x^2 + l2_eps)^-1/2     if qk_l2norm;     q <- scale q
 *   g = -exp(A_log) softplus(a + dt_bias)                   beta = sigmoid(b)
 *   S <- exp(g) S;   u = beta (v - S'k);   S <- S + k u';   o = S'q
 *
 * q, k [T,Hk,Dk]; v, o [T,Hv,Dv]; a, b, g, beta [T,Hv]; A_log, dt_bias [Hv]; states [N,Hv,Dk,Dv].
 *
 * Threads: columns of S are independent. A tile of columns is held in registers by WIDTH lanes
 * across, COLS columns each, and 32/WIDTH lanes x WARPS warps down, ROWS rows each; the sums over
 * rows (S'k, S'q, the norms) go over lanes and, where WARPS > 1, through shared memory.
 *   prefill: tiles of 8 columns, a warp each, all tokens of a sequence one after the other; no
 *   barrier. A block is four neighbouring tiles; the next token is loaded during the present one.
 *   decode: one token a row; tiles of 32 (f32 state) or 64 (bf16) columns, so that a row of the
 *   tile is a whole 128-byte line; the block's four warps share the rows. The state is updated in
 *   place in a pool [slots,Hv,Dk,Dv], slot[row] says where; -1 is padding: nothing is touched.
 *
 * Numbers: all f32 from load to store, the state too; o and the state are rounded when stored,
 * the state once a call. A sum over rows runs down a thread's rows, then over lanes, then warps. */
#include "gpu/host/cuda.cuh"
#include "gpu/kernels/delta_chunk_launch.cuh"
#include "gpu/kernels/delta_rule.cuh"
#include "gpu/kernels/slots.cuh"

#include <algorithm>
#include <cmath>

/* Token t of head h. */
template <bool WIDE, class F, int ROWS, int COLS>
__device__ token<F, ROWS, COLS> fetch(const rule &m, const tokens<F> &x, int64_t t, int h, place my)
{
	size_t head = (size_t)t * m.Hk + h / (m.Hv / m.Hk), at = (size_t)t * m.Hv + h;
	token<F, ROWS, COLS> now;

	now.q = load_part<WIDE, ROWS>(x.q + head * m.Dk + my.row, m.Dk - my.row);
	now.k = load_part<WIDE, ROWS>(x.k + head * m.Dk + my.row, m.Dk - my.row);
	now.v = load_part<WIDE, COLS>(x.v + at * m.Dv + my.column, m.Dv - my.column);
	now.decay = decay_of(m, at, h);
	now.beta = beta_of(m, at);
	return now;
}

/* Grid: sequences x value heads x four tiles of 8 columns. initial.data NULL: zeros. */
template <bool WIDE, int ROWS, class F>
__global__ void __launch_bounds__(THREADS)
delta_prefill(rule m, tokens<F> x, const int64_t *cuts, operand initial, result final_state)
{
	constexpr int COLS = 4, WIDTH = 2;
	place my = place_in_tile<ROWS, COLS, WIDTH>(0, (int)(blockIdx.z * (THREADS / 32) + threadIdx.x / 32));
	int h = (int)blockIdx.y;
	size_t at = ((size_t)blockIdx.x * m.Hv + h) * m.Dk * m.Dv;
	int64_t t = cuts[blockIdx.x], end = cuts[blockIdx.x + 1];
	float S[ROWS][COLS] = {}, o[COLS];
	token<F, ROWS, COLS> next;

	if (my.column - my.column % (COLS * WIDTH) >= m.Dv)
		return;         /* the whole warp: its tile is beyond */
	if (initial.data && initial.dtype == DT_BF16)
		load_tile<WIDE>(S, static_cast<const bf16 *>(initial.data) + at, my, m.Dk, m.Dv);
	else if (initial.data)
		load_tile<WIDE>(S, static_cast<const float *>(initial.data) + at, my, m.Dk, m.Dv);
	if (t < end)
		next = fetch<WIDE, F, ROWS, COLS>(m, x, t, h, my);
	for (; t < end; t++) {
		token<F, ROWS, COLS> now = next;
		if (t + 1 < end)
			next = fetch<WIDE, F, ROWS, COLS>(m, x, t + 1, h, my);
		step<WIDTH, 1>(S, o, now, m, nullptr);
		if (my.row == 0)
			store_part<WIDE>(x.o + ((size_t)t * m.Hv + h) * m.Dv + my.column, o, m.Dv - my.column);
	}
	if (final_state.data && final_state.dtype == DT_BF16)
		store_tile<WIDE>(static_cast<bf16 *>(final_state.data) + at, S, my, m.Dk, m.Dv);
	else if (final_state.data)
		store_tile<WIDE>(static_cast<float *>(final_state.data) + at, S, my, m.Dk, m.Dv);
}

/* Grid: rows x value heads x tiles. Row r is token r; its state is pool[slot[r]]. */
template <bool WIDE, int ROWS, class F, class State>
__global__ void __launch_bounds__(THREADS, 2)
delta_decode(rule m, tokens<F> x, const int32_t *slot, State *pool)
{
	constexpr int COLS = 16 / sizeof(State), WIDTH = 8, WARPS = THREADS / 32;
	__shared__ float part[3 * WARPS * WIDTH * COLS];
	place my = place_in_tile<ROWS, COLS, WIDTH>((int)threadIdx.x / 32, (int)blockIdx.z);
	int64_t row = blockIdx.x;
	int h = (int)blockIdx.y;
	float S[ROWS][COLS], o[COLS];

	if (slot[row] < 0)
		return;
	State *state = pool + ((int64_t)slot[row] * m.Hv + h) * m.Dk * m.Dv;
	load_tile<WIDE>(S, state, my, m.Dk, m.Dv);
	step<WIDTH, WARPS>(S, o, fetch<WIDE, F, ROWS, COLS>(m, x, row, h, my), m, part);
	if (my.row == 0)
		store_part<WIDE>(x.o + ((size_t)row * m.Hv + h) * m.Dv + my.column, o, m.Dv - my.column);
	store_tile<WIDE>(state, S, my, m.Dk, m.Dv);
}

/* ---- host ---- */

/* All but the states and the sequences. */
struct call {
	input q, k, v, a, b, A_log, dt_bias, g, beta;
	output o;
	rule m;

	explicit call(const capture &c);
	template <class F> tokens<F> view() const { return { q.as<F>(), k.as<F>(), v.as<F>(), o.as<F>() }; }
};

/* The inputs that g is made of. */
static presence for_g(const capture &c)
{
	return capture_bool(&c, "gated", true) && !capture_in(&c, "g") ? REQUIRED : OPTIONAL;
}

call::call(const capture &c)
	: q(c, "q", REQUIRED), k(c, "k", REQUIRED), v(c, "v", REQUIRED), a(c, "a", for_g(c)),
	  b(c, "b", capture_in(&c, "beta") ? OPTIONAL : REQUIRED), A_log(c, "A_log", for_g(c)),
	  dt_bias(c, "dt_bias", for_g(c)), g(c, "g", OPTIONAL), beta(c, "beta", OPTIONAL), o(c, "o", REQUIRED)
{
	for (const char *name : { "a", "b", "A_log", "dt_bias", "g", "beta" })
		float_dtypes({ capture_in(&c, name) });
	same_dtype({ &q.host(), &k.host(), &v.host(), &o.host() });
	m = {
		a.any(), b.any(), A_log.any(), dt_bias.any(), g.any(), beta.any(),
		small(q.dim(1), "Hk"), small(v.dim(1), "Hv", 65535), small(q.dim(2), "Dk", MAX_DK),
		small(v.dim(2), "Dv", 1 << 20), capture_bool(&c, "gated", true), capture_bool(&c, "qk_l2norm", false),
		(float)capture_number(&c, "l2_eps", 1e-6), (float)capture_number(&c, "scale", 1 / sqrt((double)q.dim(2)))
	};
	if (m.Hv % m.Hk)
		refuse(E_DIM, "Hv", "%d value heads are no multiple of %d key heads", m.Hv, m.Hk);
}

static void check_state(const tensor *state)
{
	if (state && state->dtype != DT_F32 && state->dtype != DT_BF16)
		refuse(E_DTYPE, state->name, "a state is F32 or BF16, not %s", dtype_info[state->dtype].name);
}

template <class F>
void prefill_token_by_token(const rule &m, const tokens<F> &x, const int64_t *cuts, size_t N, const operand &initial,
                            const result &final_state, cudaStream_t stream)
{
	dim3 grid(small(N, "N"), m.Hv, blocks(m.Dv, 8 * THREADS / 32));

	by_shape<4>(m, [&](auto wide, auto rows) {
		launch_on(stream, "delta_prefill", delta_prefill<wide(), rows(), F>, grid, THREADS, 0, m, x, cuts, initial, final_state);
	});
}

template void prefill_token_by_token(const rule &, const tokens<bf16> &, const int64_t *, size_t, const operand &,
                                     const result &, cudaStream_t);
template void prefill_token_by_token(const rule &, const tokens<float> &, const int64_t *, size_t, const operand &,
                                     const result &, cudaStream_t);

namespace chunked {

template <int PARTS> prefill<PARTS>::prefill(const rule &m, const std::vector<int64_t> &cuts) : m_(m), firsts_(1, 0)
{
	int device = 0, major = 0;

	if (m.Dk != D || m.Dv != D)
		refuse(E_DIM, "Dk, Dv", "%d, %d; the chunked kernel has heads of %d", m.Dk, m.Dv, D);
	check(cudaGetDevice(&device), "device");
	check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
	if (major < 9)
		refuse(E_DEVICE, nullptr, "the chunked kernel needs compute capability 9.0");
	for (size_t n = 0; n + 1 < cuts.size(); n++) {
		for (int64_t t = cuts[n]; t < cuts[n + 1]; t += CHUNK)
			extents_.push_back({ t, (int)std::min<int64_t>(CHUNK, cuts[n + 1] - t) });
		firsts_.push_back(small(extents_.size(), "chunks"));
	}
	device_extents_ = uploaded(extents_);
	device_firsts_ = uploaded(firsts_);
	keys_ = buffer(extents_.size() * m.Hk * sizeof(key_record));
	heads_ = buffer(extents_.size() * m.Hv * sizeof(head_record<PARTS>));
	check(cudaFuncSetAttribute(delta_chunks<PARTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(workspace)), "delta_chunks");
	check(cudaFuncSetAttribute(delta_carry<PARTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(ring<PARTS>)), "delta_carry");
}

template <int PARTS>
void prefill<PARTS>::enqueue(const tokens<bf16> &x, const operand &initial, const result &final_state, cudaStream_t stream)
{
	unsigned chunks = (unsigned)extents_.size();
	cudaLaunchAttribute early = {};
	cudaLaunchConfig_t config = {};

	if (chunks)
		launch_on(stream, "delta_chunks", delta_chunks<PARTS>, blocks(chunks, 1, INT32_MAX / m_.Hk) * m_.Hk, WARPS * 32,
		          sizeof(workspace), m_, x, device_extents_.as<const extent>(), keys_.as<key_record>(),
		          heads_.as<head_record<PARTS>>());
	early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	early.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = dim3((unsigned)firsts_.size() - 1, (unsigned)m_.Hv, SLICES);
	config.blockDim = dim3(CARRY_THREADS);
	config.dynamicSmemBytes = sizeof(ring<PARTS>);
	config.stream = stream;
	config.attrs = &early;
	config.numAttrs = chunks > 0;
	check(cudaLaunchKernelEx(&config, delta_carry<PARTS>, m_, x, device_extents_.as<const extent>(), device_firsts_.as<const int>(),
	                         keys_.as<const key_record>(), heads_.as<const head_record<PARTS>>(), initial, final_state), "delta_carry");
}

template class prefill<1>;
template class prefill<2>;

}

static const char *run_prefill(capture &c, call &all, const std::vector<int64_t> &cuts)
{
	input initial(c, "initial_state", OPTIONAL);
	output final_state(c, "final_state", OPTIONAL);
	buffer device_cuts = uploaded(cuts);

	by_dtype(all.q.host(), [&](auto zero) {
		prefill_token_by_token(all.m, all.view<decltype(zero)>(), device_cuts.as<int64_t>(), cuts.size() - 1, initial.any(),
		                       final_state.any(), nullptr);
	});
	final_state.fetch();
	return "gated_delta_rule prefill";
}

template <int PARTS> static void run_chunked(capture &c, call &all, const std::vector<int64_t> &cuts)
{
	input initial(c, "initial_state", OPTIONAL);
	output final_state(c, "final_state", OPTIONAL);
	chunked::prefill<PARTS> work(all.m, cuts);

	if (all.q.host().dtype != DT_BF16)
		refuse(E_DTYPE, "q", "the chunked kernel takes BF16, not %s", dtype_info[all.q.host().dtype].name);
	work.enqueue(all.view<bf16>(), initial.any(), final_state.any(), nullptr);
	final_state.fetch();
}

/* Rungs. Only the first, which is the usual one, is in f32 throughout. */
enum delta_rung { DELTA_TOKENS, DELTA_CHUNKS, DELTA_CHUNKS_OF_PAIRS };

template <class State> static void launch_decode(const call &all, const slot_pool &pool)
{
	constexpr int COLS = 16 / sizeof(State);
	dim3 grid((unsigned)pool.rows(), all.m.Hv, blocks(all.m.Dv, 8 * COLS));

	by_dtype(all.q.host(), [&](auto zero) {
		by_shape<COLS>(all.m, [&](auto wide, auto rows) {
			launch("delta_decode", delta_decode<wide(), rows(), decltype(zero), State>, grid, THREADS, 0,
			       all.m, all.view<decltype(zero)>(), pool.table(), pool.as<State>());
		});
	});
}

static const char *run_decode(capture &c, call &all)
{
	tensor *final_state = capture_out(&c, "final_state");
	slot_pool pool(capture_in(&c, "initial_state"), final_state, all.q.dim(0), (size_t)all.m.Hv * all.m.Dk * all.m.Dv);

	if (pool.dtype() == DT_BF16)
		launch_decode<bf16>(all, pool);
	else
		launch_decode<float>(all, pool);
	pool.gather(final_state);
	return "gated_delta_rule decode";
}

/* The kernel's name. */
static const char *run_rung(capture &c, call &all, const std::vector<int64_t> &cuts, enum delta_rung rung)
{
	switch (rung) {
	case DELTA_CHUNKS: run_chunked<1>(c, all, cuts); return "gated_delta_rule prefill in chunks, bf16";
	case DELTA_CHUNKS_OF_PAIRS: run_chunked<2>(c, all, cuts); return "gated_delta_rule prefill in chunks, bf16 x 2";
	default: return one_token_each(cuts) ? run_decode(c, all) : run_prefill(c, all, cuts);
	}
}

const char *run_gated_delta_rule(capture &c)
{
	call all(c);
	std::vector<int64_t> cuts = sequence_cuts(c, all.q.dim(0));

	check_state(capture_in(&c, "initial_state"));
	check_state(capture_out(&c, "final_state"));
	const char *name = run_rung(c, all, cuts, (enum delta_rung)rung_of(c, DELTA_CHUNKS_OF_PAIRS, DELTA_TOKENS));
	all.o.fetch();
	return name;
}
