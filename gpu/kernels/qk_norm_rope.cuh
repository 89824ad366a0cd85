/* The kernels of qk_norm_rope, for its launcher and for what times them. */
#ifndef ETALON_QK_NORM_ROPE_CUH
#define ETALON_QK_NORM_ROPE_CUH

#include "gpu/host/cuda.cuh"

template <class F> struct token_heads {
	const F *qg, *k;                /* [T,Hq,2D]: each head's query, then its gate; [T,Hk,D] */
	operand q_weight, k_weight;     /* [D], zero-centred */
	const int64_t *positions;       /* [T] */
	const double *half_turns;       /* [P]: theta^(-i/P) / pi */
	F *q, *k_out, *gate;            /* [T,Hq,D], [T,Hk,D], [T,Hq,D] */
	int Hq, Hk, D, P;               /* P = rotary_dim / 2 pairs a head */
	float eps;
};

/* From the plainest on. */
enum heads_rung { HEADS_BLOCK, HEADS_WARP };

/* Enqueues that kernel for T tokens, or the plainest where it does not fit; returns its name, a constant. */
template <class F> const char *norm_and_turn(cudaStream_t stream, const token_heads<F> &m, size_t T, enum heads_rung rung);

#endif
