/* Rotary position embedding of the first rotary_dim dimensions; the others are copied.
 *
 *   (y_lo, y_hi) = (x_lo cos a - x_hi sin a, x_hi cos a + x_lo sin a)
 *   a = position * theta^(-2i/rotary_dim),  i = 0 .. rotary_dim/2 - 1
 *   lo, hi = i, i + rotary_dim/2 (half)  or  2i, 2i+1 (interleaved)
 *
 * x, y [T,H,D]; positions [T].
 *
 * Rung 0, rope: one block a token, any sizes. Its threads first share out the pairs' angles, into shared memory;
 * then each moves V pairs, or V dimensions to be copied, of one head at a time.
 * Rung 1, rope_warp: a warp has HEADS heads, all of which are on their way while it computes the angles, and waits for no other;
 * D = 32 V.
 *
 * Numbers: the angle is kept in half turns in f64, position * (theta^(-2i/rotary_dim) / pi), and
 * sincospi reduces it exactly: its error stays below 4e-16 |a|, which is 6e-11 at position
 * 131071 and reaches an f32 rounding (6e-8) only beyond position 10^8. cos and sin are rounded
 * to f32 once; the rotation is f32. Copied dimensions keep their bits. Rung 1 computes cosine and sine in f32
 * (angle_in_parts): off by 2 ulp. */
#include "gpu/kernels/rope.cuh"

#include <algorithm>
#include <cmath>
#include <cstring>

/* Rotates V pairs: in v [2V] the lo elements come first (half) or alternate with hi (interleaved). */
template <int V, bool INTERLEAVED> __device__ void rotate(float (&v)[2][V], const float2 *turn)
{
#pragma unroll
	for (int i = 0; i < V; i++) {
		float &lo = INTERLEAVED ? v[2 * i / V][2 * i % V] : v[0][i];
		float &hi = INTERLEAVED ? v[(2 * i + 1) / V][(2 * i + 1) % V] : v[1][i];
		float c = turn[i].x, s = turn[i].y, old = lo;

		lo = old * c - hi * s;
		hi = hi * c + old * s;
	}
}

template <int V, bool INTERLEAVED, class F> __global__ void __launch_bounds__(256) rope(rotation<F> m)
{
	extern __shared__ float2 turn[];        /* [P]: cos, sin */
	double position = (double)m.positions[blockIdx.x];

	for (int i = threadIdx.x; i < m.P; i += blockDim.x) {
		double s, c;
		sincospi(position * m.half_turns[i], &s, &c);
		turn[i] = make_float2((float)c, (float)s);
	}
	__syncthreads();

	int rotated = m.P / V, pieces = rotated + (m.D - 2 * m.P) / V;
	for (int j = threadIdx.x; j < m.H * pieces; j += blockDim.x) {
		int head = j / pieces, piece = j % pieces;
		size_t at = ((size_t)blockIdx.x * m.H + head) * m.D;

		if (piece < rotated) {
			size_t lo = at + (INTERLEAVED ? 2 * V : V) * piece;
			size_t hi = lo + (INTERLEAVED ? V : m.P);
			float v[2][V];

			load(v[0], m.x + lo);
			load(v[1], m.x + hi);
			rotate<V, INTERLEAVED>(v, turn + V * piece);
			store(m.y + lo, v[0]);
			store(m.y + hi, v[1]);
		} else {
			size_t d = at + 2 * m.P + (piece - rotated) * V;
			*reinterpret_cast<pack<V, F> *>(m.y + d) = load_pack<V>(m.x + d);
		}
	}
}

/* ---- rung 1 ---- */

enum { WARPS = 4, HEADS = 2 };  /* warps a block, at most; heads a warp */

/* Grid: tokens x (blockDim.y * HEADS of a token's heads). */
template <int V, bool INTERLEAVED, class F>
__global__ void __launch_bounds__(32 * WARPS) rope_warp(const __grid_constant__ rotation<F> m)
{
	extern __shared__ __align__(16) float2 turns[];         /* [blockDim.y,P] */
	int lane = (int)threadIdx.x, head = (int)(blockIdx.y * blockDim.y + threadIdx.y) * HEADS, count = min(HEADS, m.H - head);
	size_t at = ((size_t)blockIdx.x * m.H + head) * m.D + lane * V;
	float2 *turn = turns + threadIdx.y * m.P;
	pack<V, F> x[HEADS];

	if (count <= 0)
		return;
#pragma unroll
	for (int h = 0; h < HEADS; h++)
		x[h] = load_pack<V>(m.x + at + min(h, count - 1) * m.D);
	double position = (double)m.positions[blockIdx.x];
	for (int i = lane; i < m.P; i += 32)
		turn[i] = angle_in_parts(m.half_turns[i], position);
	__syncwarp();
#pragma unroll
	for (int h = 0; h < HEADS; h++) {
		float z[V];
#pragma unroll
		for (int i = 0; i < V; i++)
			z[i] = to_float(x[h].at[i]);
		if (INTERLEAVED)
			turn_neighbours(z, turn, m.P, lane);
		else
			turn_lanes(z, turn, m.P, lane);
		if (h >= count)
			return;
		if (lane * V < 2 * m.P)
			store(m.y + at + h * m.D, z);
		else
			*reinterpret_cast<pack<V, F> *>(m.y + at + h * m.D) = x[h];
	}
}

template <bool INTERLEAVED, class F> static bool turn_heads(cudaStream_t stream, const rotation<F> &m, size_t T)
{
	int V = m.D / 32;
	bool fits = m.D % 32 == 0 && (V == 2 || V == 4 || V == 8) && (INTERLEAVED ? 2 * m.P : m.P) % V == 0 && m.P <= 48 * 1024 / 8 / WARPS;
	unsigned warps = std::min<unsigned>(WARPS, (m.H + HEADS - 1) / HEADS);
	dim3 grid((unsigned)small(T, "T"), blocks(m.H, warps * HEADS, 65535));
	auto kernel = V == 2 ? rope_warp<2, INTERLEAVED, F> : V == 4 ? rope_warp<4, INTERLEAVED, F> : rope_warp<8, INTERLEAVED, F>;

	if (fits)
		launch_on(stream, "rope_warp", kernel, grid, dim3(32, warps), warps * m.P * sizeof(float2), m);
	return fits;
}

template <class F>
const char *turn_rows(cudaStream_t stream, const rotation<F> &m, size_t T, bool interleaved, enum rope_rung rung)
{
	constexpr int V = 16 / sizeof(F);
	bool wide = m.D % V == 0 && m.P % V == 0;
	auto kernel = wide ? interleaved ? rope<V, true, F> : rope<V, false, F> : interleaved ? rope<1, true, F> : rope<1, false, F>;

	if (rung == ROPE_WARP && (interleaved ? turn_heads<true>(stream, m, T) : turn_heads<false>(stream, m, T)))
		return "rope_warp";
	launch_on(stream, "rope", kernel, small(T, "T"), 256, m.P * sizeof(float2), m);
	return "rope";
}

template const char *turn_rows(cudaStream_t, const rotation<bf16> &, size_t, bool, enum rope_rung);

static bool is_interleaved(const capture &c)
{
	const char *layout = capture_string(&c, "layout", "half");

	if (strcmp(layout, "half") != 0 && strcmp(layout, "interleaved") != 0)
		refuse(E_PARAM, "layout", "half or interleaved, not %s", layout);
	return strcmp(layout, "interleaved") == 0;
}

/* rotary_dim / 2; its cosines and sines have to fit 48 KB of shared memory. */
static int count_pairs(const capture &c, size_t D)
{
	double rotary_dim = capture_number(&c, "rotary_dim", NAN);

	if (!(rotary_dim >= 2 && rotary_dim <= (double)D && fmod(rotary_dim, 2) == 0))
		refuse(E_PARAM, "rotary_dim", "must be given: an even number from 2 to D = %zu, not %g", D, rotary_dim);
	return small((size_t)rotary_dim / 2, "rotary_dim / 2", 49152 / sizeof(float2));
}

const char *run_rope(capture &c)
{
	input x(c, "x", REQUIRED);
	output y(c, "y", REQUIRED);
	const tensor *positions = capture_in(&c, "positions");
	double theta = capture_number(&c, "theta", NAN);
	bool interleaved = is_interleaved(c);
	int P = count_pairs(c, x.dim(2));
	const char *name = nullptr;

	if (!positions)
		refuse(E_MISSING, "positions", "the kernel of %s reads this input", c.op);
	if (!(theta > 0 && std::isfinite(theta)))
		refuse(E_PARAM, "theta", "must be given: a positive number, not %g", theta);
	buffer position = uploaded(integers(*positions)), half_turns = uploaded(turning(P, theta));

	same_dtype({ &x.host(), &y.host() });
	by_dtype(x.host(), [&](auto zero) {
		using F = decltype(zero);
		rotation<F> m = {
			x.as<F>(), position.as<int64_t>(), half_turns.as<double>(), y.as<F>(),
			small(x.dim(1), "H"), small(x.dim(2), "D"), P
		};
		small(x.dim(1) * x.dim(2), "H * D");
		name = turn_rows(nullptr, m, x.dim(0), interleaved, (enum rope_rung)rung_of(c, ROPE_WARP));
	});
	y.fetch();
	return name;
}
