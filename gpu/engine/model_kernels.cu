/* Kernels between the engine's products. All arithmetic is float32; a store to bf16 rounds to nearest even. */
#include "gpu/engine/model_kernels.h"

enum { THREADS = 256 };

/* ---- rows ---- */

/* Grid: rows. */
static __global__ void gather_rows(bf16 *to, const bf16 *from, const int32_t *row, int E)
{
	int at = row[blockIdx.x];

	for (int e = (int)threadIdx.x; e < E; e += THREADS)
		to[(size_t)blockIdx.x * E + e] = at < 0 ? __float2bfloat16_rn(0.0f) : from[(size_t)at * E + e];
}

void engine_gather(bf16 *to, const bf16 *from, const int32_t *row, size_t R, int E)
{
	launch("engine_gather", gather_rows, blocks(R, 1), THREADS, 0, to, from, row, E);
}

void engine_embed(bf16 *to, const bf16 *table, const int32_t *id, size_t T, int E) { engine_gather(to, table, id, T, E); }

void engine_cut(bf16 *to, const bf16 *from, size_t T, int first, int n, int C)
{
	check(cudaMemcpy2DAsync(to, n * sizeof *to, from + first, C * sizeof *from, n * sizeof *to, T, cudaMemcpyDeviceToDevice, nullptr),
	      "columns");
}

/* ---- products in full precision ---- */

/* A warp an element of y; grid: tokens x rows of w. */
template <int V> static __global__ void __launch_bounds__(THREADS) project_rows(float *y, const bf16 *x, operand w, int R, int E)
{
	int lane = (int)threadIdx.x % 32, r = (int)(blockIdx.y * (THREADS / 32) + threadIdx.x / 32);
	float sum = 0.0f, a[V], b[V];

	if (r >= R)
		return;
	for (int e = lane * V; e < E; e += 32 * V) {
		load(a, x + (size_t)blockIdx.x * E + e);
		load(b, w, (size_t)r * E + e);
#pragma unroll
		for (int i = 0; i < V; i++)
			sum += a[i] * b[i];
	}
	sum = lane_sum(sum, 1, 32);
	if (lane == 0)
		y[(size_t)blockIdx.x * R + r] = sum;
}

void engine_project(float *y, const bf16 *x, const operand &w, size_t T, int R, int E)
{
	dim3 grid((unsigned)small(T, "T"), blocks(R, THREADS / 32, 65535));

	launch("engine_project", E % 8 ? project_rows<1> : project_rows<8>, grid, THREADS, 0, y, x, w, R, E);
}

/* ---- the residual stream ---- */

template <int V> static __global__ void __launch_bounds__(THREADS) add_all(bf16 *x, const float *y, size_t n)
{
	size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V;
	float a[V], b[V];

	if (i >= n)
		return;
	load(a, x + i);
	load(b, y + i);
#pragma unroll
	for (int v = 0; v < V; v++)
		a[v] += b[v];
	store(x + i, a);
}

void engine_add(bf16 *x, const float *y, size_t n)
{
	launch("engine_add", n % 4 ? add_all<1> : add_all<4>, blocks(n, n % 4 ? THREADS : 4 * THREADS), THREADS, 0, x, y, n);
}

/* ---- the MLP ---- */

/* Grid: rows. */
static __global__ void swiglu_rows(bf16 *y, const bf16 *gate, const bf16 *up, int J, int stride)
{
	size_t row = blockIdx.x;

	for (int j = (int)(blockIdx.y * THREADS + threadIdx.x); j < J; j += (int)gridDim.y * THREADS)
		y[row * J + j] = __float2bfloat16_rn(silu(to_float(gate[row * stride + j])) * to_float(up[row * stride + j]));
}

void engine_swiglu(bf16 *y, const bf16 *gate, const bf16 *up, size_t R, int J, int stride)
{
	launch("engine_swiglu", swiglu_rows, dim3(blocks(R, 1), blocks(J, 4 * THREADS, 65535)), THREADS, 0, y, gate, up, J, stride);
}

/* The larger, of equals the one that stands first. */
static __device__ void take_larger(float &best, int &at, float x, int where)
{
	if (x > best || (x == best && where < at)) {
		best = x;
		at = where;
	}
}

/* A warp a token; p [X] in shared memory. */
static __global__ void route_rows(int32_t *expert, float *weight, const float *logits, int X, int K)
{
	extern __shared__ float p[];
	int lane = (int)threadIdx.x;
	size_t t = blockIdx.x;
	float largest = -INFINITY, sum = 0.0f, chosen = 0.0f;

	for (int e = lane; e < X; e += 32)
		largest = fmaxf(largest, p[e] = logits[t * X + e]);
	for (int bit = 1; bit < 32; bit *= 2)
		largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, bit));
	for (int e = lane; e < X; e += 32)
		sum += p[e] = expf(p[e] - largest);
	sum = lane_sum(sum, 1, 32);
	for (int i = 0; i < K; i++) {
		float best = -1.0f;
		int at = X;
		for (int e = lane; e < X; e += 32)
			take_larger(best, at, p[e], e);
		for (int bit = 1; bit < 32; bit *= 2) {
			float x = __shfl_xor_sync(0xffffffffu, best, bit);
			take_larger(best, at, x, __shfl_xor_sync(0xffffffffu, at, bit));
		}
		chosen += best / sum;
		if (lane == i) {
			expert[t * K + i] = at;
			weight[t * K + i] = best / sum;
		}
		if (at % 32 == lane && at < X)
			p[at] = -1.0f;          /* below every probability; the lane's own */
	}
	if (lane < K)
		weight[t * K + lane] /= chosen;
}

void engine_route(int32_t *expert, float *weight, const float *logits, size_t T, int X, int K)
{
	launch("engine_route", route_rows, blocks(T, 1), 32, X * sizeof(float), expert, weight, logits, X, small(K, "K", 32));
}

/* Grid: tokens. */
static __global__ void mix_rows(engine_mixture m)
{
	size_t t = blockIdx.x;
	float gate = sigmoid(m.gate[t]);

	for (int e = (int)threadIdx.x; e < m.E; e += THREADS) {
		float sum = to_float(m.x[t * m.E + e]);
		for (int i = 0; i < m.K; i++)
			sum += m.weight[t * m.K + i] * m.y[(size_t)m.place[t * m.K + i] * m.E + e];
		m.x[t * m.E + e] = __float2bfloat16_rn(sum + gate * m.shared[t * m.E + e]);
	}
}

void engine_mix(const engine_mixture &m) { launch("engine_mix", mix_rows, blocks(m.T, 1), THREADS, 0, m); }
