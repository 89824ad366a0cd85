/* The kernels of gated_product, for its launcher and for what times them. */
#ifndef ETALON_GATED_PRODUCT_CUH
#define ETALON_GATED_PRODUCT_CUH

#include "gpu/host/cuda.cuh"

template <class F> struct gated_rows {
	const F *x, *gate, *hidden, *gate_weight, *addend;      /* NULL when absent: either gate or hidden and gate_weight */
	F *y;
	size_t R;
	int D, G, E;
};

/* From the plainest on. */
enum gated_rung { GATED_SINGLE, GATED_WIDE, GATED_AT_ONCE, GATED_RUNGS };

/* Enqueues that kernel, or the best below it that fits; returns its name, a constant. */
template <class F> const char *gate_rows(cudaStream_t stream, const gated_rows<F> &m, enum gated_rung rung);

#endif
