/* Rounding to 24 bits at random, up or down, without bias. */
#ifndef ETALON_NOISY_H
#define ETALON_NOISY_H

#include <math.h>

#include "calc_private.h"

static inline uint64_t draw(calc *c) { return random_at(c->noise++); }
static inline double uniform(calc *c) { return (double)(int64_t)draw(c) * 0x1p-63; }     /* [-1, 1) */

/* By the random bits r. Below float32's normal range every other number is flushed to zero. */
static inline double sr_by(uint64_t r, double x)
{
	union { double d; uint64_t u; } v = { x };
	double tiny = r >> 63 ? x : 0;

	v.u = (v.u + (r >> 1 & 0x1fffffff)) & ~UINT64_C(0x1fffffff);
	return fabs(x) < 0x1p-126 ? tiny : v.d;
}

static inline double sr(calc *c, double x) { return sr_by(draw(c), x); }

#endif
