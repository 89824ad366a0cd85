/* The delta rule with a decay for each key channel, one value column a thread: kda and gdn2 differ in what they read and write.
 *
 *   S <- diag(e^g) S;  u = written - S' read_key;  S <- S + key u;  o = S' query
 *
 * S [Dk] is the thread's column of the state, its elements Dv apart in global memory. Everything is f32; sums over Dk run from its
 * first element on. */
#ifndef ETALON_DELTA_CHANNELS_CUH
#define ETALON_DELTA_CHANNELS_CUH

#include "gpu/kernels/plain/plain.cuh"

/* g, read_key, key, query: the element of a channel. */
template <class G, class R, class K, class Q>
__device__ float delta_step(float *S, int Dk, int Dv, float written, G g, R read_key, K key, Q query)
{
	float retrieved = 0.0f, o = 0.0f;

	for (int d = 0; d < Dk; d++) {
		S[d * Dv] *= expf(g(d));
		retrieved += S[d * Dv] * read_key(d);
	}
	float u = written - retrieved;
	for (int d = 0; d < Dk; d++) {
		S[d * Dv] += key(d) * u;
		o += S[d * Dv] * query(d);
	}
	return o;
}

#endif
