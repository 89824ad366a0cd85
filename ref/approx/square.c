#include "square.h"

uint32_t approx_square(uint32_t x)
{
	uint64_t sum = 0;

	for (int i = 0; i < 17; i++) {
		uint64_t row = (uint64_t)(x >> (i + 1)) << (2 * i + 2) | 1ull << 2 * i;
		sum += -(uint64_t)(x >> i & 1) & row >> 19;
	}
	return (uint32_t)sum;
}
