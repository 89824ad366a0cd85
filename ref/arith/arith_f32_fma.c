/* f32_fma: float, sums in order, y + a x rounded once. */
#include <math.h>

#include "calc_private.h"
#include "gpu_functions.h"

#define E float
#define F(name) name##f
#define FUSED
#include "arith_real.h"

const struct arith arith_f32_fma = {
	.name = "f32_fma", .what = "float, sums in order by fused multiply-adds", .precision = 24,
	.size = size, .init = init, .load = load, .read = take, ARITH_LOOPS_WITH(gemm_in_order)
};
