/* Rotary position embedding of the first rotary_dim dimensions; the others are copied.
 *
 *   (y_lo, y_hi) = (x_lo cos a - x_hi sin a, x_hi cos a + x_lo sin a)
 *   a = position * theta^(-2i/rotary_dim),  i = 0 .. rotary_dim/2 - 1
 *   lo, hi = i, i + rotary_dim/2 (half)  or  2i, 2i+1 (interleaved)
 *
 * x, y [T,H,D]; positions [T].
 *
 * Threads: one block a token. Its threads first share out the pairs' angles, into shared memory;
 * then each moves V pairs, or V dimensions to be copied, of one head at a time.
 *
 * Numbers: the angle is kept in half turns in f64, position * (theta^(-2i/rotary_dim) / pi), and
 * sincospi reduces it exactly: its error stays below 4e-16 |a|, which is 6e-11 at position
 * 131071 and reaches an f32 rounding (6e-8) only beyond position 10^8. cos and sin are rounded
 * to f32 once; the rotation is f32. Copied dimensions keep their bits. */
#include "gpu/rope.cuh"

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

template <class F> void turn_rows(cudaStream_t stream, const rotation<F> &m, size_t T, bool interleaved)
{
	constexpr int V = 16 / sizeof(F);
	bool wide = m.D % V == 0 && m.P % V == 0;
	auto kernel = wide ? interleaved ? rope<V, true, F> : rope<V, false, F> : interleaved ? rope<1, true, F> : rope<1, false, F>;

	launch_on(stream, "rope", kernel, small(T, "T"), 256, m.P * sizeof(float2), m);
}

template void turn_rows(cudaStream_t, const rotation<bf16> &, size_t, bool);
template void turn_rows(cudaStream_t, const rotation<f16> &, size_t, bool);
template void turn_rows(cudaStream_t, const rotation<float> &, size_t, bool);

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
		turn_rows(nullptr, m, x.dim(0), interleaved);
	});
	y.fetch();
	return "rope";
}
