/* Softmax attention of ragged sequences, a query and head at a time.
 *
 *   s_i = softcap(scale (q_descale q)'(k_descale k_i));  o = v_descale sum e^s_i v_i / (e^sink + sum e^s_i);  lse = ln (e^sink + sum e^s_i)
 *
 * q, o [T,Hq,D|Dv]; k, v [S,Hk,D|Dv]; sinks [Hq]; descales [Hk]; pages [N,P]; lse [Hq,T].
 *
 * Threads: a block of 128 a query and head, its scores in shared memory; thread i takes keys i, i + 128, ..., then elements of o.
 *
 * Numbers: everything between load and store is f32, no operand of a product is rounded; a sum over keys runs from the first on. */
#include "gpu/kernels/plain/plain.cuh"

#include <cuda_fp8.h>

enum { THREADS = 128, KEYS_MOST = 11 << 10 };

struct attention_call {
	operand q, k, v, sinks, q_descale, k_descale, v_descale;
	result o, lse;
	const int64_t *pages, *keys;    /* NULL or [N,P]; [N+1] */
	tokens of;
	int T, N, Hq, Hk, D, Dv, P, page, window;
	bool causal;
	float scale, softcap;
};

__device__ static float number(const operand &x, size_t i)
{
	return x.dtype == DT_F8_E4M3 ? float(static_cast<const __nv_fp8_e4m3 *>(x.data)[i]) : x.at(i);
}

__device__ static float largest(float x, float *part)
{
	for (int bit = 1; bit < 32; bit *= 2)
		x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, bit));
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = x;
	__syncthreads();
	return fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
}

__global__ void attention(const __grid_constant__ attention_call m)
{
	extern __shared__ float e[];
	__shared__ float part[32], sums[32];
	int t = (int)blockIdx.x, h = (int)blockIdx.y, j = h / (m.Hq / m.Hk), n = sequence_of(m.of.cuts, m.N, t);
	int first = (int)m.keys[n], count = (int)m.keys[n + 1] - first, at = t - m.of.end(n) + count;
	int low = m.window && at >= m.window ? at - m.window + 1 : 0;
	int high = m.causal ? at + 1 : m.window ? min(at + m.window, count) : count;
	size_t query = ((size_t)t * m.Hq + h) * m.D;
	float unit = m.scale * (m.q_descale.data ? m.q_descale.at(j) : 1.0f) * (m.k_descale.data ? m.k_descale.at(j) : 1.0f);
	float sink = m.sinks.data ? m.sinks.at(h) : -INFINITY, top = sink, sum = 0.0f;
	auto row = [&](int i) { return (size_t)(m.pages ? m.pages[(size_t)n * m.P + i / m.page] * m.page + i % m.page : first + i) * m.Hk + j; };

	for (int i = low + (int)threadIdx.x; i < high; i += THREADS) {
		float s = 0.0f;
		for (int d = 0; d < m.D; d++)
			s += number(m.q, query + d) * number(m.k, row(i) * m.D + d);
		s *= unit;
		e[i - low] = m.softcap != 0 ? m.softcap * tanhf(s / m.softcap) : s;
		top = fmaxf(top, e[i - low]);
	}
	top = largest(top, part);
	for (int i = (int)threadIdx.x; i < high - low; i += THREADS)
		sum += e[i] = expf(e[i] - top);
	sum = block_sum(sum, sums) + expf(sink - top);
	for (int d = (int)threadIdx.x; d < m.Dv; d += THREADS) {
		float o = 0.0f;
		for (int i = low; i < high; i++)
			o += e[i - low] * number(m.v, row(i) * m.Dv + d);
		put(m.o, ((size_t)t * m.Hq + h) * m.Dv + d, (m.v_descale.data ? m.v_descale.at(j) : 1.0f) * (o / sum));
	}
	if (m.lse.data && threadIdx.x == 0)
		put(m.lse, (size_t)h * m.T + t, top + logf(sum));
}

const char *run_attention(capture &c)
{
	input q(c, "q", REQUIRED), k(c, "k", REQUIRED), v(c, "v", REQUIRED), sinks(c, "sinks", OPTIONAL), q_descale(c, "q_descale", OPTIONAL);
	input k_descale(c, "k_descale", OPTIONAL), v_descale(c, "v_descale", OPTIONAL);
	output o(c, "o", REQUIRED), lse(c, "lse", OPTIONAL);
	const tensor *table = capture_in(&c, "pages"), *cu_keys = capture_in(&c, "cu_keys");
	std::vector<int64_t> cuts = sequence_cuts(c, q.dim(0)), ends = { 0, (int64_t)capture_number(&c, "keys", (double)k.dim(0)) };
	buffer of = uploaded(cuts), keys = uploaded(cu_keys ? integers(*cu_keys) : ends);
	buffer pages = uploaded(table ? integers(*table) : std::vector<int64_t>{ 0 });
	int T = small(q.dim(0), "T", 1 << 20), Hq = small(q.dim(1), "Hq", 65535), D = small(q.dim(2), "D");

	float_dtypes({ capture_in(&c, "sinks"), capture_in(&c, "q_descale"), capture_in(&c, "k_descale"), capture_in(&c, "v_descale"), &o.host() });
	for (const input *x : { &q, &k, &v })
		if (x->host().dtype != DT_F8_E4M3)
			float_dtypes({ &x->host() });
	attention_call m = {
		q.any(), k.any(), v.any(), sinks.any(), q_descale.any(), k_descale.any(), v_descale.any(), o.any(), lse.any(),
		table ? pages.as<int64_t>() : nullptr, keys.as<int64_t>(), { of.as<int64_t>() }, T, (int)cuts.size() - 1, Hq,
		small(k.dim(1), "Hk"), D, small(v.dim(2), "Dv"), table ? small(table->shape[1], "P") : 0, (int)capture_number(&c, "page", 16),
		(int)capture_number(&c, "window", 0), capture_bool(&c, "causal", false), (float)capture_number(&c, "scale", 1 / sqrt((double)D)),
		(float)capture_number(&c, "softcap", 0)
	};
	size_t most = table ? (size_t)m.P * m.page : k.dim(0);
	launch("attention", attention, dim3(T, Hq), THREADS, small(most, "keys", KEYS_MOST) * sizeof(float), m);
	o.fetch();
	lse.fetch();
	return "attention";
}
