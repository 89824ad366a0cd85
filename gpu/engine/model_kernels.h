/* The engine's kernels that are no op's. T tokens; all on the default stream. For nvcc. */
#ifndef ETALON_GPU_MODEL_KERNELS_H
#define ETALON_GPU_MODEL_KERNELS_H

#include "gpu/host/cuda.cuh"

/* to[t] <- table[id[t]], rows of E. */
void engine_embed(bf16 *to, const bf16 *table, const int32_t *id, size_t T, int E);

/* y [T,R] <- x [T,E] w' [R,E], in float32 throughout. */
void engine_project(float *y, const bf16 *x, const operand &w, size_t T, int R, int E);

/* to [T,n] <- columns [first, first + n) of from [T,C]. */
void engine_cut(bf16 *to, const bf16 *from, size_t T, int first, int n, int C);

/* Causal attention of T queries behind `past` tokens: q, o [T,H,D]; keys, values [past + T,G,D]; query head h reads head
 * h / (H/G). o <- softmax(q k' / sqrt D) v; scores, probabilities and sums in float32. D up to 256. */
struct engine_attention { const bf16 *q, *keys, *values; bf16 *o; int H, G, D; size_t T, past; };
void engine_attend(const engine_attention &m);

/* x [n] <- x + y, rounded once. */
void engine_add(bf16 *x, const float *y, size_t n);

/* y [R,J] <- silu(gate) up; rows of gate and up are `stride` apart. */
void engine_swiglu(bf16 *y, const bf16 *gate, const bf16 *up, size_t R, int J, int stride);

/* Of logits [T,X]: expert [T,K] <- the K largest, the first among equals; weight [T,K] <- their softmax over all X, over its
 * sum over them. */
void engine_route(int32_t *expert, float *weight, const float *logits, size_t T, int X, int K);

/* to[i] <- from[row[i]], rows of E; row[i] < 0: zeros. */
void engine_gather(bf16 *to, const bf16 *from, const int32_t *row, size_t R, int E);

/* x [T,E] <- x + sum_i weight[t,i] y[place[t,i]] + sigmoid(gate[t]) shared[t]; i < K; summed in float32, rounded once. */
struct engine_mixture { bf16 *x; const float *y, *shared, *weight, *gate; const int32_t *place; size_t T; int E, K; };
void engine_mix(const engine_mixture &m);

#endif
