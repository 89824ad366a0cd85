/* The kernels of rmsnorm_fp8, for its launcher and for what times them. */
#ifndef ETALON_RMSNORM_FP8_CUH
#define ETALON_RMSNORM_FP8_CUH

#include "gpu/kernels/rmsnorm.cuh"

/* rows.y and rows.gate are not used. */
template <class F> struct quantised_norm {
	row_norm<F> rows;
	uint8_t *y;                     /* [R,D], e4m3 */
	float *scale;                   /* [R] */
	float min_scale;
};

/* From the plainest on. */
enum fp8_rung { FP8_BLOCK, FP8_HELD, FP8_RUNGS };

/* Enqueues that kernel, or the plainest where it does not fit; returns its name, a constant. */
template <class F> const char *quantise_rows(cudaStream_t stream, const quantised_norm<F> &m, enum fp8_rung rung);

#endif
