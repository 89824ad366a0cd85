/* The kernels of muon_step before and after the iteration, for its launcher and for what times them. */
#ifndef ETALON_MUON_STEP_CUH
#define ETALON_MUON_STEP_CUH

#include "gpu/host/cuda.cuh"

enum scale_rule { RMS_SCALE, SPECTRAL_SCALE };

struct muon {
	operand W, G, V;
	result new_W, new_V;
	float *U, *O;           /* [N,M] */
	size_t M;
	float lr, mu, decay;
	bool nesterov;
	enum scale_rule rule;
	bool mean = false;      /* momentum_kind */
};

/* U and new_V of `count` elements. */
void enqueue_momentum(cudaStream_t stream, const muon &m, size_t count);
/* new_W of elements [first, first + count), whose step is scaled by s. */
void enqueue_step(cudaStream_t stream, const muon &m, size_t first, size_t count, float s);

#endif
