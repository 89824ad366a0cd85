/* RMS norm, with an optional residual, into e4m3 with a scale for each row.
 *
 *   x' = x + residual,  residual_out = x'
 *   z = x' (mean x'^2 + eps)^-1/2 (weight_offset + weight)
 *   scale = max(max |z| / 448, min_scale),  y = e4m3(z / scale), to nearest even; 448 is the largest of e4m3
 *
 * x, residual, y, residual_out [R,D]; weight [D]; scale [R].
 *
 * Rung 0, rmsnorm_fp8_block: a block a row, which it keeps in shared memory; any D.
 * Rung 1, rmsnorm_fp8_held: a block a row, which it keeps in registers. One reduction finds the sum of squares and the
 * largest |x' (weight_offset + weight)| together.
 *
 * Numbers: float32 from load to store. Rung 1 computes y as x' (weight_offset + weight) times one factor, inverse / scale. */
#include "gpu/kernels/rmsnorm_fp8.cuh"

#include <cuda_fp8.h>

#include <cmath>

static constexpr float largest_e4m3 = 448.0f;

/* Largest over the block, for every thread; blockDim.x a multiple of 32; part [32] as for block_sum. */
__device__ static float block_max(float x, float *part)
{
	for (int bit = 1; bit < 32; bit *= 2)
		x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, bit));
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = x;
	__syncthreads();
	x = part[0];
	for (int w = 1; w < (int)blockDim.x / 32; w++)
		x = fmaxf(x, part[w]);
	return x;
}

/* ---- rung 0 ---- */

enum { BLOCK = 256 };

template <class F> __global__ void __launch_bounds__(BLOCK) rmsnorm_fp8_block(quantised_norm<F> q)
{
	extern __shared__ float z[];            /* [D] */
	__shared__ float sums[32], peaks[32];
	const row_norm<F> &m = q.rows;
	size_t row = (size_t)blockIdx.x * m.D;
	float squares = 0.0f, peak = 0.0f;

	for (int i = (int)threadIdx.x; i < m.D; i += BLOCK) {
		float x[1];
		load_sum(x, m, row + i);
		if (m.residual_out)
			store(m.residual_out + row + i, x);
		squares += x[0] * x[0];
		z[i] = x[0];
	}
	float inverse = 1.0f / sqrtf(block_sum(squares, sums) / (float)m.D + m.eps);
	for (int i = (int)threadIdx.x; i < m.D; i += BLOCK) {
		z[i] = z[i] * inverse * (m.offset + m.weight.at(i));
		peak = fmaxf(peak, fabsf(z[i]));
	}
	float scale = fmaxf(block_max(peak, peaks) / largest_e4m3, q.min_scale);
	for (int i = (int)threadIdx.x; i < m.D; i += BLOCK)
		q.y[row + i] = __nv_cvt_float_to_fp8(z[i] / scale, __NV_SATFINITE, __NV_E4M3);
	if (threadIdx.x == 0)
		q.scale[blockIdx.x] = scale;
}

/* ---- rung 1 ---- */

/* Sum and largest over the block, for every thread, with one barrier. */
__device__ static float2 block_sum_and_max(float sum, float peak, float2 *part)
{
	int warps = (int)blockDim.x / 32;

	for (int bit = 1; bit < 32; bit *= 2) {
		sum += __shfl_xor_sync(0xffffffffu, sum, bit);
		peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, bit));
	}
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = make_float2(sum, peak);
	__syncthreads();
	float2 all = part[0];
	for (int w = 1; w < warps; w++)
		all = make_float2(all.x + part[w].x, fmaxf(all.y, part[w].y));
	return all;
}

template <int V> __device__ void store_e4m3(uint8_t *y, const float (&z)[V])
{
	pack<V / 2, __nv_fp8x2_storage_t> raw;

#pragma unroll
	for (int i = 0; i < V / 2; i++)
		raw.at[i] = __nv_cvt_float2_to_fp8x2(make_float2(z[2 * i], z[2 * i + 1]), __NV_SATFINITE, __NV_E4M3);
	*reinterpret_cast<pack<V / 2, __nv_fp8x2_storage_t> *>(y) = raw;
}

template <int V, int HELD, class F> __global__ void __launch_bounds__(HELD_THREADS, 3) rmsnorm_fp8_held(const quantised_norm<F> q)
{
	__shared__ float2 part[32];
	const row_norm<F> &m = q.rows;
	held_row<V, HELD, F> row;
	float z[HELD][V], squares = 0.0f, peak = 0.0f;

	row.fetch(m, blockIdx.x);
#pragma unroll
	for (int h = 0; h < HELD; h++) {
		squares += row.open(z[h], h, m, blockIdx.x);
#pragma unroll
		for (int j = 0; j < V; j++) {
			z[h][j] *= m.offset + to_float(row.w[h].at[j]);
			peak = fmaxf(peak, fabsf(z[h][j]));
		}
	}
	float2 all = block_sum_and_max(squares, peak, part);
	float inverse = 1.0f / sqrtf(all.x / (float)m.D + m.eps);
	float scale = fmaxf(all.y * inverse / largest_e4m3, q.min_scale), factor = inverse / scale;
#pragma unroll
	for (int h = 0; h < HELD; h++) {
#pragma unroll
		for (int j = 0; j < V; j++)
			z[h][j] *= factor;
		store_e4m3(q.y + blockIdx.x * (size_t)m.D + held_at<V>(h), z[h]);
	}
	if (threadIdx.x == 0)
		q.scale[blockIdx.x] = scale;
}

template <class F> const char *quantise_rows(cudaStream_t stream, const quantised_norm<F> &q, enum fp8_rung rung)
{
	constexpr int V = 16 / sizeof(F);
	const row_norm<F> &m = q.rows;
	unsigned threads = rung == FP8_HELD ? held_threads<V, 2>(m) : 0;

	if (threads) {
		launch_on(stream, "rmsnorm_fp8_held", rmsnorm_fp8_held<V, 2, F>, blocks(m.R, 1), threads, 0, q);
		return "rmsnorm_fp8_held";
	}
	launch_on(stream, "rmsnorm_fp8_block", rmsnorm_fp8_block<F>, blocks(m.R, 1), BLOCK, m.D * sizeof(float), q);
	return "rmsnorm_fp8_block";
}

template const char *quantise_rows(cudaStream_t, const quantised_norm<bf16> &, enum fp8_rung);

const char *run_rmsnorm_fp8(capture &c)
{
	double eps = capture_number(&c, "eps", 1e-6), offset = capture_number(&c, "weight_offset", NAN);
	double min_scale = capture_number(&c, "min_scale", 0x1p-18);
	input x(c, "x", REQUIRED), weight(c, "weight", REQUIRED), residual(c, "residual", OPTIONAL);
	output y(c, "y", REQUIRED), scale(c, "scale", REQUIRED), residual_out(c, "residual_out", OPTIONAL);
	const char *name = nullptr;

	if (!std::isfinite(offset))
		refuse(E_PARAM, "weight_offset", "must be given: 1 for a zero-centred weight, 0 for a plain one");
	if (y.host().dtype != DT_F8_E4M3)
		refuse(E_DTYPE, "y", "F8_E4M3, not %s", dtype_info[y.host().dtype].name);
	if (scale.host().dtype != DT_F32)
		refuse(E_DTYPE, "scale", "F32, not %s", dtype_info[scale.host().dtype].name);
	same_dtype({ &x.host(), capture_in(&c, "residual"), capture_out(&c, "residual_out") });
	float_dtypes({ &weight.host() });
	by_dtype(x.host(), [&](auto zero) {
		using F = decltype(zero);
		row_norm<F> rows = {
			x.as<F>(), residual.as<F>(), nullptr, weight.any(), nullptr, residual_out.as<F>(),
			x.dim(0), small(x.dim(1), "D", 49152 / sizeof(float) - 64), (float)eps, (float)offset
		};
		quantised_norm<F> all = { rows, y.as<uint8_t>(), scale.as<float>(), (float)min_scale };
		name = quantise_rows(nullptr, all, (enum fp8_rung)rung_of(c, FP8_HELD));
	});
	for (output *o : { &y, &scale, &residual_out })
		o->fetch();
	return name;
}
