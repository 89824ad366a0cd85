/* f32: float throughout, sums in order. */
#include <math.h>

#include "calc_private.h"

#define E float
#define F(name) name##f
#include "arith_real.h"

const struct arith arith_f32 = {
	.name = "f32", .what = "float, sums in order", .precision = 24,
	.size = size, .init = init, .load = load, .read = take, ARITH_LOOPS_WITH(gemm_in_order)
};
