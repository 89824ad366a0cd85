/* Rounding to 24 bits at random, up or down, without bias. */
#ifndef ETALON_NOISY_H
#define ETALON_NOISY_H

#include <math.h>

#include "calc_private.h"

static inline uint32_t draw(calc *c) { return random_half(c->noise++); }
static inline double uniform(calc *c) { return (double)(int32_t)draw(c) * 0x1p-31; }     /* [-1, 1) */

/* By the random bits r. Below float32's normal range every other number is flushed to zero. */
static inline double sr_by(uint32_t r, double x)
{
	union { double d; uint64_t u; } v = { x };
	double tiny = r >> 31 ? x : 0;

	v.u = (v.u + (r & 0x1fffffff)) & ~UINT64_C(0x1fffffff);
	return fabs(x) < 0x1p-126 ? tiny : v.d;
}

static inline double sr(calc *c, double x) { return sr_by(draw(c), x); }

#endif
