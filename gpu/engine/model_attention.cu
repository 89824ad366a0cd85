/* Causal attention of grouped heads: o_t = sum_s softmax_s(q_t k_s / sqrt D) v_s, s <= past + t.
 *
 * q, o [T,H,D]; keys, values [past + T,G,D]; query head h reads head h / (H/G).
 *
 * Threads: a block a query, its WARPS warps take every WARPS-th group of AHEAD keys; a lane has V neighbours of a row. Each warp runs
 * through its keys once: the largest score so far m, the sum l of e^(score - m), and o l so far; warps are merged at the
 * end through shared memory.
 *
 * Numbers: float32 from load to store, scores, probabilities and sums too. */
#include "gpu/engine/model_kernels.h"

enum { WARPS = 8, AHEAD = 4 };

/* What a warp, or all of them, know of a query: o [V] of a lane. */
template <int V> struct partial { float m, l, o[V]; };

/* -inf where the key is beyond `end`. */
template <bool WIDE, int V>
static __device__ float score_of(const float (&q)[V], const bf16 *key, int valid, bool there)
{
	pack<V, bf16> k = load_part<WIDE, V>(key, there ? valid : 0);
	float sum = 0.0f;

#pragma unroll
	for (int i = 0; i < V; i++)
		sum += q[i] * to_float(k.at[i]);
	sum = lane_sum(sum, 1, 32);
	return there ? sum : -INFINITY;
}

/* Takes in keys s .. s + AHEAD - 1, of which the first is below `end`. */
template <bool WIDE, int V>
static __device__ void take_in(partial<V> &p, const float (&q)[V], const bf16 *keys, const bf16 *values, size_t stride, int valid,
                               size_t s, size_t end)
{
	float score[AHEAD], m = p.m;

#pragma unroll
	for (int a = 0; a < AHEAD; a++) {
		score[a] = score_of<WIDE>(q, keys + (s + a) * stride, valid, s + a < end);
		m = fmaxf(m, score[a]);
	}
	float shrink = expf(p.m - m);           /* 0 at first */
	p.l *= shrink;
#pragma unroll
	for (int i = 0; i < V; i++)
		p.o[i] *= shrink;
#pragma unroll
	for (int a = 0; a < AHEAD; a++) {
		float w = expf(score[a] - m);
		pack<V, bf16> v = load_part<WIDE, V>(values + (s + a) * stride, s + a < end ? valid : 0);
		p.l += w;
#pragma unroll
		for (int i = 0; i < V; i++)
			p.o[i] += w * to_float(v.at[i]);
	}
	p.m = m;
}

/* Grid: queries x heads. */
template <bool WIDE, int V> static __global__ void __launch_bounds__(32 * WARPS) attend(engine_attention x)
{
	__shared__ partial<V> part[WARPS][32];
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, valid = x.D - lane * V;
	size_t end = x.past + blockIdx.x + 1, stride = (size_t)x.G * x.D, head = blockIdx.y;
	size_t at = head / (x.H / x.G) * x.D + lane * V, mine = (blockIdx.x * x.H + head) * x.D + lane * V;
	partial<V> p = { -INFINITY, 0.0f, {} };
	pack<V, bf16> raw = load_part<WIDE, V>(x.q + mine, valid);
	float q[V], scale = 1.0f / sqrtf((float)x.D);

#pragma unroll
	for (int i = 0; i < V; i++)
		q[i] = to_float(raw.at[i]) * scale;
	for (size_t s = (size_t)warp * AHEAD; s < end; s += WARPS * AHEAD)
		take_in<WIDE>(p, q, x.keys + at, x.values + at, stride, valid, s, end);
	part[warp][lane] = p;
	__syncthreads();
	if (warp)
		return;
	float m = p.m, l = 0.0f, o[V] = {};             /* warp 0 has key 0: finite unless the scores are not */
	for (int w = 1; w < WARPS; w++)
		m = fmaxf(m, part[w][lane].m);
	for (int w = 0; w < WARPS; w++) {
		float share = expf(part[w][lane].m - m);
		l += share * part[w][lane].l;
#pragma unroll
		for (int i = 0; i < V; i++)
			o[i] += share * part[w][lane].o[i];
	}
#pragma unroll
	for (int i = 0; i < V; i++)
		o[i] /= l;
	store_part<WIDE>(x.o + mine, o, valid);
}

template <int V> static void attend_rows(const engine_attention &m)
{
	dim3 grid((unsigned)small(m.T, "T"), small(m.H, "heads", 65535));

	launch("engine_attend", m.D % V ? attend<false, V> : attend<true, V>, grid, 32 * WARPS, 0, m);
}

void engine_attend(const engine_attention &m)
{
	if (m.D <= 32)
		attend_rows<1>(m);
	else if (m.D <= 64)
		attend_rows<2>(m);
	else if (m.D <= 128)
		attend_rows<4>(m);
	else
		attend_rows<8>(m);
}
