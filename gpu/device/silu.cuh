/* SiLU of a convolution's output, for the kernels that have one: those that prefill and those that decode agree to the bit. */
#ifndef ETALON_SILU_CUH
#define ETALON_SILU_CUH

/* x / (1 + exp(-x)) in five instructions where device.cuh's has sixteen, which a kernel that otherwise only loads and stores
 * would wait for. Relative errors: ex2.approx 2^-22, rcp.approx 2^-23 (PTX ISA); -x log2(e), with its factor and rounded,
 * is within 1.25 |x| 2^-24 / ln 2; sum and product 2^-24 each: together below (8 + 1.25 |x|) 2^-24. Below -87.3, where
 * 1 + exp(-x) has no normal reciprocal, it is -0: off by less than 2^-119. */
__device__ inline float silu_approx(float x)
{
	float e, r;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.4426950408889634f));
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
	return x * r;
}

#endif
