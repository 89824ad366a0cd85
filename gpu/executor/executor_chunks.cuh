/* Rows of a step that prefill in chunks of 64 tokens (gpu/kernels/delta_chunk.cuh), beside rows that run token by token.
 *
 *   convolve_chunks   q, k, v = bf16(silu(convolution)), the rings, g and beta
 *   delta_chunks, delta_carry   o in bf16, and the states in the pool; operands as sums of two bf16 numbers
 *   finish_chunks     y
 *
 * To the kernels of executor_kernels.cuh such a row is padding. Its numbers are the same to the bit whatever other rows are in
 * the step; where its request is cut into other steps they are not, since the chunks are others. */
#ifndef ETALON_EXECUTOR_CHUNKS_CUH
#define ETALON_EXECUTOR_CHUNKS_CUH

#include "gpu/executor/executor_kernels.cuh"
#include "gpu/executor/guarded.cuh"
#include "gpu/kernels/delta_chunk_launch.cuh"

enum { CHUNKED_FROM = 32, CHUNKED_W = 4, AT_ONCE = 8 };       /* tokens of a row; taps; tokens that a thread loads together */

/* Shapes whose rows of CHUNKED_FROM tokens and more prefill in chunks, on a device of sm_90 or later. */
inline bool prefills_in_chunks(const struct executor_shape &s)
{
	return s.data == DT_BF16 && s.Dk == chunked::D && s.Dv == chunked::D && s.W == CHUNKED_W;
}

/* On the device: the step's chunks, their sequences being rows of the step; and q, k [tokens,Hk,D], v, o [tokens,Hv,D]. */
struct chunk_view {
	const chunked::extent *extents;
	bf16 *q, *k, *v, *o;
};

/* window[j*W + w] = the w-th of W tokens from `x` on, of the j-th of V channels. */
template <int W, int V> __device__ void load_inputs(bf16 (&window)[V * W], const bf16 *x, int64_t stride)
{
#pragma unroll
	for (int w = 0; w < W; w++) {
		pack<V, bf16> one = load_pack<V>(x + w * stride);
#pragma unroll
		for (int j = 0; j < V; j++)
			window[j * W + w] = one.at[j];
	}
}

/* V channels from c on, the tokens of chunk x. A row's first chunk reads the ring and then writes it, for both may be one. */
template <int W, int V> __device__ void convolve_chunk(const layer_view &v, const chunk_view &to, const chunked::extent &x, int c)
{
	int begin = v.step.cu_seqlens[x.sequence], end = v.step.cu_seqlens[x.sequence + 1], p = v.step.position[x.sequence];
	int keys = v.m.Hk * v.m.Dk, width = c < 2 * keys ? keys : v.m.Hv * v.m.Dv;
	int64_t stride = (int64_t)v.layers * v.C, at = (int64_t)v.layer * v.C + c;
	const bf16 *in = static_cast<const bf16 *>(v.x) + at;
	bf16 *rings = static_cast<bf16 *>(v.rings) + at * W, window[V * W];
	bf16 *out = c < keys ? to.q + c : c < 2 * keys ? to.k + (c - keys) : to.v + (c - 2 * keys);
	float taps[V * W];

	load(taps, v.conv_weight + (int64_t)c * W);
	if (x.start == begin) {
		int read = v.step.ring_read[x.sequence], write = v.step.ring_write[end - 1];
		load_ring<W, V>(window, read < 0 ? nullptr : rings + slot_offset(v, read, v.ring_stride), p);
		if (write >= 0) {
			bf16 last[V * W];
			load_inputs<W, V>(last, in + (end - W) * stride, stride);
			store_ring<W, V>(rings + slot_offset(v, write, v.ring_stride), last, p + end - begin);
		}
	} else {
		load_inputs<W, V>(window, in + (x.start - W) * stride, stride);
	}
	for (int i = 0; i < x.length; i += AT_ONCE) {
		pack<V, bf16> now[AT_ONCE];
#pragma unroll
		for (int a = 0; a < AT_ONCE; a++)
			if (i + a < x.length)
				now[a] = load_pack<V>(in + (x.start + i + a) * stride);
#pragma unroll
		for (int a = 0; a < AT_ONCE; a++)
			if (i + a < x.length) {
				float y[V];
				convolve_next<W, V>(y, window, taps, now[a]);
				store(out + (x.start + i + a) * width, y);
			}
	}
}

/* Grid: chunks x (tiles of THREADS V channels, and one for the gates). */
template <int W, int V> __global__ void __launch_bounds__(THREADS) convolve_chunks(layer_view v, chunk_view to)
{
	chunked::extent x = to.extents[blockIdx.x];
	int c = (int)(blockIdx.y * THREADS + threadIdx.x) * V;

	if (blockIdx.y + 1 == gridDim.y)
		gates<bf16>(v, x.start, x.start + x.length);
	else if (c < v.C)
		convolve_chunk<W, V>(v, to, x, c);
}

/* Grid: chunks x value heads; a warp on every fourth token, each lane on V neighbours. */
static __global__ void __launch_bounds__(THREADS) finish_chunks(layer_view v, chunk_view from)
{
	constexpr int V = chunked::D / 32;
	chunked::extent x = from.extents[blockIdx.x];
	int h = (int)blockIdx.y, first = (int)threadIdx.x % 32 * V;
	pack<V, float> weight = load_pack<V>(v.norm_weight + first);

	for (int64_t t = x.start + threadIdx.x / 32; t < x.start + x.length; t += THREADS / 32) {
		int64_t at = ((t * v.layers + v.layer) * v.m.Hv + h) * chunked::D + first;
		pack<V, bf16> stored = load_pack<V>(from.o + (t * v.m.Hv + h) * chunked::D + first);
		pack<V, bf16> z = load_pack<V>(static_cast<const bf16 *>(v.z) + at);
		pack<V, float> o;
		float y[V], squares = 0.0f;

#pragma unroll
		for (int j = 0; j < V; j++) {
			o.at[j] = to_float(stored.at[j]);
			squares += o.at[j] * o.at[j];
		}
		gate_part(y, o, inverse_norm(v, squares), weight, z);
		store(static_cast<bf16 *>(v.y) + at, y);
	}
}

/* ---- host ---- */

/* Which rows of a step prefill in chunks, and the memory for them; without any where `possible` is false. */
class chunk_rows {
public:
	chunk_rows(const struct executor_shape &shape, bool possible)
		: s(shape), most_rows(possible ? s.max_tokens / CHUNKED_FROM : 0),
		  most_chunks(possible ? std::min(s.max_tokens / CHUNKED_FROM, s.max_tokens / chunked::CHUNK + s.max_rows) : 0),
		  q("chunks' q", of_tokens(s.Hk)), k("chunks' k", of_tokens(s.Hk)), v("chunks' v", of_tokens(s.Hv)),
		  o("chunks' o", of_tokens(s.Hv)), keys("chunks' keys", (size_t)most_chunks * s.Hk * sizeof(chunked::key_record)),
		  heads("chunks' heads", (size_t)most_chunks * s.Hv * sizeof(chunked::head_record<2>)),
		  extents("chunks", most_chunks * sizeof(chunked::extent)), firsts("chunks of rows", (most_rows + 1) * sizeof(int)),
		  places("slots of chunks", 2 * (size_t)most_rows * sizeof(int64_t))
	{
		for (guarded *scratch : { &q, &k, &v, &o, &keys, &heads })
			scratch->fill(0xff);    /* NaN */
	}

	/* Finds the step's; `kinds`, as the other kernels will see them, says padding there. slot_states: elements of a slot, 0: no row is to. */
	void plan(const struct executor_step &step, int32_t *kinds, int64_t slot_states)
	{
		list.clear(), first.assign(1, 0), from.clear(), to.clear();
		if (!most_chunks || !slot_states)
			return;
		for (int r = step.decode_rows; r < step.rows; r++) {
			int begin = step.cu_seqlens[r], end = step.cu_seqlens[r + 1];
			if (!whole(step, begin, end))
				continue;
			kinds[r] = ROW_PADDING;
			for (int t = begin; t < end; t += chunked::CHUNK)
				list.push_back({ t, std::min<int>(chunked::CHUNK, end - t), r });
			first.push_back((int)list.size());
			from.push_back(step.read_slot[r] < 0 ? -1 : step.read_slot[r] * slot_states);
			to.push_back(step.write_slot[end - 1] < 0 ? -1 : step.write_slot[end - 1] * slot_states);
		}
	}
	int rows() const { return (int)from.size(); }
	unsigned chunks() const { return (unsigned)list.size(); }

	template <class Copy> void upload(Copy copy) const
	{
		size_t n = from.size();
		if (!n)
			return;
		copy(extents.as<void>(), list.data(), list.size() * sizeof list[0]);
		copy(firsts.as<void>(), first.data(), first.size() * sizeof first[0]);
		copy(places.as<int64_t>(), from.data(), n * sizeof from[0]);
		copy(places.as<int64_t>() + n, to.data(), n * sizeof to[0]);
	}

	chunk_view view() const { return { extents.as<chunked::extent>(), q.as<bf16>(), k.as<bf16>(), v.as<bf16>(), o.as<bf16>() }; }
	chunked::call_memory memory() const
	{
		return { extents.as<chunked::extent>(), firsts.as<int>(), chunks(), (unsigned)rows(), keys.as<chunked::key_record>(),
			heads.as<void>(), { places.as<int64_t>(), places.as<int64_t>() + from.size() } };
	}
	std::vector<const guarded *> all() const { return { &q, &k, &v, &o, &keys, &heads, &extents, &firsts, &places }; }

private:
	struct executor_shape s;
	int most_rows, most_chunks;
	guarded q, k, v, o, keys, heads, extents, firsts, places;
	std::vector<chunked::extent> list;
	std::vector<int> first;
	std::vector<int64_t> from, to;

	size_t of_tokens(int H) const { return most_chunks ? (size_t)s.max_tokens * H * chunked::D * sizeof(bf16) : 0; }

	/* Is the row long enough, and its memory kept after the last token alone? */
	static bool whole(const struct executor_step &step, int begin, int end)
	{
		for (int t = begin; t + 1 < end; t++)
			if (step.write_slot[t] >= 0 || step.ring_write[t] >= 0)
				return false;
		return end - begin >= CHUNKED_FROM;
	}
};

#endif
