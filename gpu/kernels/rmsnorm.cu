/* RMS norm, with an optional residual and an optional gate.
 *
 *   x' = x + residual,  residual_out = x'
 *   y  = x' * (mean x'^2 + eps)^-1/2 * (weight_offset + weight) [* silu(gate)]
 *
 * x, residual, gate, y, residual_out [R,D]; weight [D].
 *
 * Rung 0, rmsnorm: blockDim.x threads on a row, blockDim.y rows a block; any D. A row of up to 32 threads is a power of
 * two of neighbouring lanes; a longer one has the block to itself. A thread holds HELD pieces of
 * V elements, blockDim.x pieces apart, and reads what lies beyond them a second time.
 * Rung 1, rmsnorm_held: a block a row, all of it in registers, no gate. The weight, too, is on its way before the sum.
 * rmsnorm_gated: the same for short rows with a gate, as of heads: a piece a thread, rows side by side in a warp.
 *
 * Numbers: everything between load and store is f32. The norm sees x' before it is rounded for
 * residual_out. The sum runs over a thread's pieces, then over lanes, then over warps. */
#include "gpu/kernels/rmsnorm.cuh"

#include <algorithm>
#include <cmath>
#include <cstring>

/* First sight of a piece: residual_out is written; returns the sum of squares. */
template <int V, class F> __device__ float open_piece(float (&z)[V], const row_norm<F> &m, size_t i)
{
	float squares = 0.0f;

	load_sum(z, m, i);
	if (m.residual_out)
		store(m.residual_out + i, z);
#pragma unroll
	for (int j = 0; j < V; j++)
		squares += z[j] * z[j];
	return squares;
}

/* column: of the piece's first element, i = row * D + column. */
template <int V, class F>
__device__ void close_piece(float (&z)[V], const row_norm<F> &m, float inverse, size_t i, int column)
{
	float w[V], s[V];

	load(w, m.weight, column);
#pragma unroll
	for (int j = 0; j < V; j++)
		z[j] = z[j] * inverse * (m.offset + w[j]);
	if (m.gate) {
		load(s, m.gate + i);
#pragma unroll
		for (int j = 0; j < V; j++)
			z[j] *= silu(s[j]);
	}
	store(m.y + i, z);
}

template <int V, int HELD, class F> __global__ void __launch_bounds__(1024) rmsnorm(row_norm<F> m)
{
	__shared__ float part[32];
	size_t row = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
	int pieces = row < m.R ? m.D / V : 0;   /* none beyond the last row, but all lanes sum */
	int stride = (int)blockDim.x, first = (int)threadIdx.x;
	float held[HELD][V], z[V], squares = 0.0f;

#pragma unroll
	for (int h = 0; h < HELD; h++)
		if (first + h * stride < pieces)
			squares += open_piece(held[h], m, row * m.D + (first + h * stride) * V);
	for (int p = first + HELD * stride; p < pieces; p += stride)
		squares += open_piece(z, m, row * m.D + p * V);

	float sum = stride > 32 ? block_sum(squares, part) : lane_sum(squares, 1, stride);
	float inverse = 1.0f / sqrtf(sum / (float)m.D + m.eps);

#pragma unroll
	for (int h = 0; h < HELD; h++)
		if (first + h * stride < pieces)
			close_piece(held[h], m, inverse, row * m.D + (first + h * stride) * V, (first + h * stride) * V);
	for (int p = first + HELD * stride; p < pieces; p += stride) {
		load_sum(z, m, row * m.D + p * V);
		close_piece(z, m, inverse, row * m.D + p * V, p * V);
	}
}

/* Threads on a row of that many pieces: a power of two up to 32, then a multiple of 32. */
static unsigned row_threads(size_t pieces, size_t held)
{
	size_t wanted = (pieces + held - 1) / held, n = 1;

	if (wanted > 32)
		return (unsigned)std::min<size_t>((wanted + 31) / 32 * 32, 1024);
	while (n < wanted)
		n *= 2;
	return (unsigned)n;
}

template <int V, int HELD, class F> static void launch_pieces(cudaStream_t stream, const row_norm<F> &m)
{
	unsigned threads = row_threads(m.D / V, HELD);
	unsigned rows = threads > 32 ? 1 : 128 / threads;

	launch_on(stream, "rmsnorm", rmsnorm<V, HELD, F>, blocks(m.R, rows), dim3(threads, rows), 0, m);
}

/* ---- rung 1 ---- */

template <int V, int HELD, class F> __global__ void __launch_bounds__(HELD_THREADS, 4) rmsnorm_held(const row_norm<F> m)
{
	__shared__ float part[32];
	held_row<V, HELD, F> row;
	float z[HELD][V], squares = 0.0f;

	row.fetch(m, blockIdx.x);
#pragma unroll
	for (int h = 0; h < HELD; h++)
		squares += row.open(z[h], h, m, blockIdx.x);
	float inverse = 1.0f / sqrtf(block_sum(squares, part) / (float)m.D + m.eps);
#pragma unroll
	for (int h = 0; h < HELD; h++) {
#pragma unroll
		for (int j = 0; j < V; j++)
			z[h][j] = z[h][j] * inverse * (m.offset + to_float(row.w[h].at[j]));
		store(m.y + blockIdx.x * (size_t)m.D + held_at<V>(h), z[h]);
	}
}

enum { GATED_THREADS = 256 };

/* D = V ROW, and ROW neighbouring lanes have a row; grid: GATED_THREADS / ROW rows. */
template <int V, int ROW, class F>
__global__ void __launch_bounds__(GATED_THREADS, 5) rmsnorm_gated(const __grid_constant__ row_norm<F> m)
{
	size_t row = blockIdx.x * (size_t)(GATED_THREADS / ROW) + threadIdx.x / ROW;
	int column = (int)threadIdx.x % ROW * V;
	size_t at = (row < m.R ? row : m.R - 1) * (V * ROW) + column;   /* beyond the last row: that one again, and not stored */
	pack<V, F> x = load_pack<V>(m.x + at), gate = load_pack<V>(m.gate + at);
	pack<V, F> w = load_pack<V>(static_cast<const F *>(m.weight.data) + column);
	float z[V], squares = 0.0f;

#pragma unroll
	for (int j = 0; j < V; j++) {
		z[j] = to_float(x.at[j]);
		squares += z[j] * z[j];
	}
	float inverse = rsqrtf(lane_sum(squares, 1, ROW) / (V * ROW) + m.eps);
#pragma unroll
	for (int j = 0; j < V; j++)
		z[j] = z[j] * inverse * (m.offset + to_float(w.at[j])) * silu(to_float(gate.at[j]));
	if (row < m.R)
		store(m.y + at, z);
}

/* Whether it was launched: rows of 16 or 32 pieces, and nothing is added. */
template <class F> static bool norm_gated_rows(cudaStream_t stream, const row_norm<F> &m)
{
	constexpr int V = 16 / sizeof(F);
	bool half = m.D == 16 * V, fits = (half || m.D == 32 * V) && !m.residual && !m.residual_out && is_stored_as(m.weight.dtype, F{});

	if (fits)
		launch_on(stream, "rmsnorm_gated", half ? rmsnorm_gated<V, 16, F> : rmsnorm_gated<V, 32, F>,
		          blocks(m.R, GATED_THREADS / (m.D / V)), GATED_THREADS, 0, m);
	return fits;
}

template <class F> const char *norm_rows(cudaStream_t stream, const row_norm<F> &m, enum norm_rung rung)
{
	constexpr int V = 16 / sizeof(F);
	unsigned threads = rung == NORM_HELD && !m.gate ? held_threads<V, 2>(m) : 0;

	if (rung == NORM_HELD && m.gate && norm_gated_rows(stream, m))
		return "rmsnorm_gated";
	if (threads) {
		launch_on(stream, "rmsnorm_held", rmsnorm_held<V, 2, F>, blocks(m.R, 1), threads, 0, m);
		return "rmsnorm_held";
	}
	if (m.D % V == 0)
		launch_pieces<V, 2>(stream, m);
	else
		launch_pieces<1, 4>(stream, m);
	return "rmsnorm";
}

template const char *norm_rows(cudaStream_t, const row_norm<bf16> &, enum norm_rung);
template const char *norm_rows(cudaStream_t, const row_norm<f16> &, enum norm_rung);
template const char *norm_rows(cudaStream_t, const row_norm<float> &, enum norm_rung);

static bool is_gated(const capture &c)
{
	const char *gate = capture_string(&c, "gate", "none");

	if (strcmp(gate, "none") != 0 && strcmp(gate, "silu") != 0)
		refuse(E_PARAM, "gate", "none or silu, not %s", gate);
	return strcmp(gate, "silu") == 0;
}

const char *run_rmsnorm(capture &c)
{
	bool gated = is_gated(c);
	const char *name = nullptr;
	double eps = capture_number(&c, "eps", 1e-6), offset = capture_number(&c, "weight_offset", NAN);
	input x(c, "x", REQUIRED), weight(c, "weight", REQUIRED), residual(c, "residual", OPTIONAL);
	input gate(c, "gate", gated ? REQUIRED : OPTIONAL);
	output y(c, "y", REQUIRED), residual_out(c, "residual_out", OPTIONAL);

	if (!std::isfinite(offset))
		refuse(E_PARAM, "weight_offset", "must be given: 1 for a zero-centred weight, 0 for a plain one");
	same_dtype({ &x.host(), capture_in(&c, "residual"), capture_in(&c, "gate"),
	             &y.host(), capture_out(&c, "residual_out") });
	float_dtypes({ &weight.host() });
	by_dtype(x.host(), [&](auto zero) {
		using F = decltype(zero);
		row_norm<F> m = {
			x.as<F>(), residual.as<F>(), gated ? gate.as<F>() : nullptr, weight.any(),
			y.as<F>(), residual_out.as<F>(), x.dim(0), small(x.dim(1), "D"),
			(float)eps, (float)offset
		};
		name = norm_rows(nullptr, m, (enum norm_rung)rung_of(c, NORM_HELD));
	});
	y.fetch();
	residual_out.fetch();
	return name;
}
