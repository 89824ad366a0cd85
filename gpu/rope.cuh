/* What the kernels of rope share with others that turn pairs and with what times them. */
#ifndef ETALON_ROPE_CUH
#define ETALON_ROPE_CUH

#include <cmath>

#include "gpu/cuda.cuh"

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

/* Enqueues the turning of T tokens. */
template <class F> void turn_rows(cudaStream_t stream, const rotation<F> &m, size_t T, bool interleaved);

#endif
