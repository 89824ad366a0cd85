/* The variants of tests/studies/approx_record.cu in their order, and its sums over inputs. */
#ifndef ETALON_TEST_VARIANTS_H
#define ETALON_TEST_VARIANTS_H

#include <stdint.h>
#include <string.h>

#include "ref/approx/approx.h"

enum { EXPF = 15, FAST_EXPF, EXP2F, VARIANTS, KEPT = FAST_EXPF };        /* KEPT: of the first so many a record is kept */
__attribute__((unused)) static const char *const variant_names[VARIANTS] = {
	"ex2", "ex2_ftz", "lg2", "lg2_ftz", "rcp", "rcp_ftz", "rsqrt", "rsqrt_ftz", "sqrt", "sqrt_ftz", "sin", "sin_ftz", "cos", "cos_ftz",
	"tanh", "expf", "fast_expf", "exp2f"
};

/* GPUs know one NaN, 0x7fffffff. */
static inline uint32_t variant_answer(int variant, uint32_t in)
{
	uint32_t out;
	float x, y;

	memcpy(&x, &in, 4);
	switch (variant) {
	case EXPF: y = approx_expf(x); break;
	case FAST_EXPF: y = approx_fast_expf(x); break;
	case EXP2F: y = approx(APPROX_EX2, x, false); break;
	default: y = approx((enum approx)(variant / 2), x, variant % 2); break;
	}
	memcpy(&out, &y, 4);
	return y != y ? 0x7fffffff : out;
}

static inline uint32_t variant_mixed(uint32_t in, uint32_t out)
{
	uint32_t z = in * 0x9e3779b1u ^ out;

	z = (z ^ z >> 15) * 0x85ebca6bu;
	z = (z ^ z >> 13) * 0xc2b2ae35u;
	return z ^ z >> 16;
}

/* Of the i-th of 256 samples: the input, one in each pair of octaves. */
static inline uint32_t variant_sample(uint32_t i)
{
	uint32_t upper = i << 8 | (variant_mixed(i, 1) & 255);

	return upper << 16 | variant_mixed(upper, 0) >> 16;
}

static inline uint32_t variant_sum(int variant, uint32_t first, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++) sum += variant_mixed(first + i, variant_answer(variant, first + i));
	return sum;
}

#endif
