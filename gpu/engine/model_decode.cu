/* A linear layer's decoding of one token in one launch: gpu/executor_decode_few.cuh, which has the convolution, the delta rule and
 * the gated norm, over the layer's memory as the one slot of a pool.
 *
 * Numbers: q, k, v and o are rounded to bf16 where the kernels of gpu/model_forward.cu store them, a and b come in float32: the
 * contract is theirs; sums have another order. */
#include "gpu/engine/model_decode.h"

#include "gpu/executor/executor_decode_few.cuh"

/* The row's tables, on the device: kind, slot, position. */
enum { TABLE_KIND, TABLE_SLOT, TABLE_POSITION, TABLE_SIZE };

/* ring [C,W] and history [C,W-1]: the input at position p stands in column p mod W, and, of the last W - 1 before `position`,
 * the oldest first. */
static __global__ void __launch_bounds__(256)
turn_history(bf16 *ring, bf16 *history, size_t C, int W, size_t position, bool to_ring)
{
	size_t c = (size_t)blockIdx.x * 256 + threadIdx.x;

	for (int i = 0; c < C && i < W - 1; i++) {
		bf16 *at = ring + c * W + (position + 1 + i) % W, *old = history + c * (W - 1) + i;
		if (to_ring)
			*at = *old;
		else
			*old = *at;
	}
}

void engine_turn_history(void *ring, void *history, size_t C, int W, size_t position, bool to_ring)
{
	launch("engine_history", turn_history, blocks(C, 256), 256, 0, static_cast<bf16 *>(ring), static_cast<bf16 *>(history), C, W,
	       position, to_ring);
}

bool engine_decodes_at_once(int key_head, int value_head, int W, int heads)
{
	cudaDeviceProp device = first_device();

	return device.major == 9 && key_head == DECODE_D && value_head == DECODE_D && W == DECODE_W && heads <= device.multiProcessorCount;
}

size_t engine_decode_table(int32_t *table, size_t position)
{
	const int32_t row[TABLE_SIZE] = { ROW_DECODE, 0, small(position, "position") };

	for (int i = 0; table && i < TABLE_SIZE; i++)
		table[i] = row[i];
	return TABLE_SIZE;
}

void engine_decode(const engine_decoding &x)
{
	const int32_t *kind = x.table + TABLE_KIND, *slot = x.table + TABLE_SLOT, *position = x.table + TABLE_POSITION;
	operand none = {};
	layer_view v = {};

	v.step = { kind, nullptr, slot, slot, slot, slot, position };
	v.m = { none, none, none, none, none, none, x.key_heads, x.heads, DECODE_D, DECODE_D, true, true, x.l2_eps,
		1 / sqrtf((float)DECODE_D) };
	v.layers = 1, v.C = (2 * x.key_heads + x.heads) * DECODE_D, v.norm_eps = x.norm_eps;
	v.conv_weight = x.conv_weight, v.A_log = x.A_log, v.dt_bias = x.dt_bias, v.norm_weight = x.norm_weight;
	v.x = x.qkv, v.z = x.z, v.a = x.a, v.b = x.b, v.y = x.y, v.states = x.state, v.rings = x.ring;
	launch("engine_decode", decode_few<float, bf16, float, true>, dim3(x.heads), FEW_THREADS, 0, v);
}
