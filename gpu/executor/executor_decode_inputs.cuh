/* What a head of gpu/executor_decode.cuh or gpu/executor_decode_few.cuh needs but its state: its tables' rows, and its inputs
 * in registers. */
#ifndef ETALON_EXECUTOR_DECODE_INPUTS_CUH
#define ETALON_EXECUTOR_DECODE_INPUTS_CUH

#include "gpu/executor/executor_kernels.cuh"

enum { DECODE_D = 128, DECODE_W = 4 };

/* A value head of a decode row, whose token is t: the tables' rows that concern it. Heads are counted over rows. */
struct decode_head {
	int t, h, read, write, ring_read, ring_write, position, kind;

	__device__ decode_head(const layer_view &v, int at) : t(at / v.m.Hv), h(at % v.m.Hv)
	{
		read = v.step.read_slot[t], write = v.step.write_slot[t], position = v.step.position[t];
		ring_read = v.step.ring_read[t], ring_write = v.step.ring_write[t], kind = v.step.kinds[t];
	}

	__device__ bool padding() const { return kind == ROW_PADDING; }
};

template <class F> __device__ F *ring_of(const layer_view &v, int slot, int c)
{
	return static_cast<F *>(v.rings) + slot_offset(v, slot, v.ring_stride) + ((int64_t)v.layer * v.C + c) * DECODE_W;
}

/* Elements as they are stored, in whole registers: a conversion would wait for its load. */
template <int N, class F> using words = pack<N * sizeof(F) / 4, uint32_t>;
__device__ inline uint32_t load_bits(const bf16 *p) { return *reinterpret_cast<const uint16_t *>(p); }
__device__ inline uint32_t load_bits(const float *p) { return *reinterpret_cast<const uint32_t *>(p); }
template <int N, class F> __device__ words<N, F> load_words(const F *p)
{
	return load_pack<N * sizeof(F) / 4>(reinterpret_cast<const uint32_t *>(p));
}
template <int N, class F, class Words> __device__ pack<N, F> elements(const Words &w)
{
	pack<N, F> x;

	memcpy(&x, &w, sizeof x);
	return x;
}

template <class F> __device__ float rounded(float x)
{
	F y;

	from_float(y, x);
	return to_float(y);
}

/* One channel. */
template <class F> struct tap_line {
	pack<DECODE_W, float> taps;
	words<DECODE_W, F> ring;
	uint32_t x;
	int c;

	/* The output; keep: the ring is this thread's to write. */
	__device__ float convolve(const layer_view &v, const decode_head &at, bool keep) const
	{
		pack<DECODE_W, F> stored = elements<DECODE_W, F>(ring);
		pack<1, F> now = elements<1, F>(x);
		F window[DECODE_W];
		float y[1];

#pragma unroll
		for (int w = 0; w < DECODE_W; w++)
			window[w] = at.ring_read < 0 ? F(0.0f) : stored.at[w];
		turn<DECODE_W, 1>(window, at.position % DECODE_W);
		convolve_next<DECODE_W, 1>(y, window, taps.at, now);
		if (keep && at.ring_write >= 0 && at.ring_write == at.ring_read)
			ring_of<F>(v, at.ring_write, c)[at.position % DECODE_W] = now.at[0];
		else if (keep && at.ring_write >= 0)
			store_ring<DECODE_W, 1>(ring_of<F>(v, at.ring_write, c), window, at.position + 1);
		return y[0];
	}
};

/* A head's q, k and v by N threads, thread i on the channels i, i + N .. of the three; what its gates are made of, a and b of
 * type G; z, a lane on four columns. Two steps: what the layer's own earlier steps left, and what the layers before it have
 * just made. ROUNDS: q, k and v are rounded to F, as if they were stored. */
template <int N, class F, class G = F, bool ROUNDS = false> struct decode_inputs {
	static constexpr int LINES = (3 * DECODE_D + N - 1) / N;
	tap_line<F> line[LINES];
	uint32_t a, b;
	float A_log, dt_bias;
	words<4, F> z;

	static __device__ int channel(int i) { return i * N + (int)threadIdx.x; }
	static __device__ bool has(int i) { return (i + 1) * N <= 3 * DECODE_D || channel(i) < 3 * DECODE_D; }

	__device__ void load_memory(const layer_view &v, const decode_head &at)
	{
		int key = at.h / (v.m.Hv / v.m.Hk);

#pragma unroll
		for (int i = 0; i < LINES; i++) {
			int n = min(channel(i), 3 * DECODE_D - 1);
			int c = (n < 2 * DECODE_D ? n / DECODE_D * v.m.Hk + key : 2 * v.m.Hk + at.h) * DECODE_D + n % DECODE_D;
			line[i].c = c;
			line[i].taps = load_pack<DECODE_W>(v.conv_weight + (int64_t)c * DECODE_W);
			line[i].ring = load_words<DECODE_W>(ring_of<F>(v, max(at.ring_read, 0), c));
		}
		A_log = v.A_log[at.h], dt_bias = v.dt_bias[at.h];
	}

	__device__ void load_activations(const layer_view &v, const decode_head &at)
	{
		int64_t token = (int64_t)at.t * v.layers + v.layer, head = token * v.m.Hv + at.h;

#pragma unroll
		for (int i = 0; i < LINES; i++)
			line[i].x = load_bits(static_cast<const F *>(v.x) + token * v.C + line[i].c);
		a = load_bits(static_cast<const G *>(v.a) + head), b = load_bits(static_cast<const G *>(v.b) + head);
		z = load_words<4>(static_cast<const F *>(v.z) + head * DECODE_D + threadIdx.x % 32 * 4);
	}

	/* On their way to L2, where an earlier grid may still write them. */
	__device__ void prefetch_activations(const layer_view &v, const decode_head &at) const
	{
		int64_t token = (int64_t)at.t * v.layers + v.layer, head = token * v.m.Hv + at.h;

#pragma unroll
		for (int i = 0; i < LINES; i++)
			asm volatile("prefetch.global.L2 [%0];" :: "l"(static_cast<const F *>(v.x) + token * v.C + line[i].c));
		asm volatile("prefetch.global.L2 [%0];" :: "l"(static_cast<const F *>(v.z) + head * DECODE_D + threadIdx.x % 32 * 4));
		asm volatile("prefetch.global.L2 [%0];" :: "l"(static_cast<const G *>(threadIdx.x % 2 ? v.a : v.b) + head));
	}

	__device__ void convolve(float (&qkv)[3][DECODE_D], const layer_view &v, const decode_head &at) const
	{
		bool first = at.h % (v.m.Hv / v.m.Hk) == 0;

#pragma unroll
		for (int i = 0; i < LINES; i++)
			if (has(i)) {
				float y = line[i].convolve(v, at, !at.padding() && (first || channel(i) >= 2 * DECODE_D));
				(&qkv[0][0])[channel(i)] = ROUNDS ? rounded<F>(y) : y;
			}
	}

	__device__ gate_inputs gate() const
	{
		return { to_float(elements<1, G>(a).at[0]), to_float(elements<1, G>(b).at[0]), A_log, dt_bias };
	}
};

#endif
