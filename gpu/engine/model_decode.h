/* Decoding of one token in a linear layer of the engine, in one launch. For nvcc. */
#ifndef ETALON_GPU_MODEL_DECODE_H
#define ETALON_GPU_MODEL_DECODE_H

#include "gpu/host/cuda.cuh"

/* One layer: qkv [C], z, y [heads,128] in bf16, C = (2 key_heads + heads) 128; a, b [heads] in f32; its memory: ring [C,4] in bf16,
 * state [heads,128,128] in f32; its weights in f32: conv_weight [C,4], A_log, dt_bias [heads], norm_weight [128]. table: of
 * engine_decode_table, on the device. */
struct engine_decoding {
	const int32_t *table;
	const bf16 *qkv, *z;
	const float *a, *b, *conv_weight, *A_log, *dt_bias, *norm_weight;
	bf16 *y, *ring;
	float *state;
	int key_heads, heads;
	float l2_eps, norm_eps;
};

/* y <- the gated norm of the delta rule's output; the state and the ring take the token in. On the default stream. */
void engine_decode(const engine_decoding &x);

/* Whether there is such a kernel for these sizes, and the device is one that it is for: as many heads as multiprocessors. */
bool engine_decodes_at_once(int key_head, int value_head, int W, int heads);

/* Fills table (NULL: does not) for a token at `position`; returns how many numbers it has. */
size_t engine_decode_table(int32_t *table, size_t position);

/* The last W - 1 inputs before `position`, history [C,W-1], into the ring [C,W], or from it. */
void engine_turn_history(void *ring, void *history, size_t C, int W, size_t position, bool to_ring);

#endif
