/* What the kernels of rope share with others that turn pairs and with what times them. */
#ifndef ETALON_ROPE_CUH
#define ETALON_ROPE_CUH

#include <cmath>

#include "gpu/host/cuda.cuh"

template <class F> struct rotation {
	const F *x;
	const int64_t *positions;
	const double *half_turns;       /* [P]: a / (pi * position) */
	F *y;
	int H, D, P;                    /* P = rotary_dim / 2 pairs a head */
};

/* theta^(-2i/rotary_dim) / pi */
inline std::vector<double> turning(int P, double theta)
{
	const long double pi = 3.14159265358979323846264338327950288L;
	std::vector<double> half_turns(P);

	for (int i = 0; i < P; i++)
		half_turns[i] = (double)(powl((long double)theta, -(long double)i / P) / pi);
	return half_turns;
}

/* From the plainest on. */
enum rope_rung { ROPE_TOKEN, ROPE_WARP, ROPE_RUNGS };

/* Enqueues that kernel for T tokens, or the plainest where it does not fit; returns its name, a constant. */
template <class F>
const char *turn_rows(cudaStream_t stream, const rotation<F> &m, size_t T, bool interleaved, enum rope_rung rung);

/* ---- a warp on whole heads, lane l with the dimensions l V .. l V + V - 1 of D = 32 V ---- */

/* cos and sin of position * theta^(-i/P). Whole turns are taken away in f64, which is exact; what is left, r half turns, goes on
 * in f32 as high + low, of which low moves cosine and sine by less than 2^-24 and is taken to first order. */
__device__ inline float2 angle_in_parts(double half_turns, double position)
{
	const float pi = 3.14159265f;
	double turns = position * half_turns, r = turns - 2.0 * rint(0.5 * turns);
	float high = (float)r, low = pi * (float)(r - (double)high), s, c;

	sincospif(high, &s, &c);
	return make_float2(fmaf(-low, s, c), fmaf(low, c, s));
}

/* z turns, x_i with x_{i+P}, which the lane P / V away holds; P a multiple of V. turn [P]: cos, sin. */
template <int V> __device__ void turn_lanes(float (&z)[V], const float2 *turn, int P, int lane)
{
	int pairs = P / V;
	bool low = lane < pairs, turns = lane < 2 * pairs;
	int other = !turns ? lane : low ? lane + pairs : lane - pairs;
	float w[V];

#pragma unroll
	for (int i = 0; i < V; i++)
		w[i] = __shfl_sync(0xffffffffu, z[i], other);
	if (!turns)
		return;
	pack<2 * V, float> t = load_pack<2 * V>(reinterpret_cast<const float *>(turn + (low ? lane : other) * V));
#pragma unroll
	for (int i = 0; i < V; i++)
		z[i] = z[i] * t.at[2 * i] + w[i] * (low ? -t.at[2 * i + 1] : t.at[2 * i + 1]);
}

/* The same for x_2i with x_{2i+1}, which one lane holds; 2 P a multiple of V. */
template <int V> __device__ void turn_neighbours(float (&z)[V], const float2 *turn, int P, int lane)
{
	if (lane * V >= 2 * P)
		return;
	pack<V, float> t = load_pack<V>(reinterpret_cast<const float *>(turn + lane * V / 2));
#pragma unroll
	for (int i = 0; i < V; i += 2) {
		float old = z[i];
		z[i] = old * t.at[i] - z[i + 1] * t.at[i + 1];
		z[i + 1] = z[i + 1] * t.at[i] + old * t.at[i + 1];
	}
}

#endif
