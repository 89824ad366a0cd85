/* Rounding to 24 bits at random, up or down, without bias. */
#ifndef ETALON_NOISY_H
#define ETALON_NOISY_H

#include <math.h>

#include "calc_private.h"

static inline uint64_t draw(calc *c) { return random_at(c->noise++); }
static inline double uniform(calc *c) { return (double)(int64_t)draw(c) * 0x1p-63; }     /* [-1, 1) */

/* By the random bits r. Below float32's normal range every other number is flushed to zero. */
static inline double sr_by(uint32_t r, double x)
{
	union { double d; uint64_t u; } v = { x };
	double tiny = (int32_t)r < 0 ? x : 0;

	v.u = (v.u + (uint64_t)(r & 0x1fffffff)) & ~UINT64_C(0x1fffffff);
	return fabs(x) < 0x1p-126 ? tiny : v.d;
}

static inline double sr(calc *c, double x) { return sr_by((uint32_t)(draw(c) >> 32), x); }

/* The draws of up to ROW operations done side by side: those of two tables, each from a random place on, under a random mask. Draws of
 * two rows are independent by their masks, whatever the places. Within a row they are as the tables' numbers; over rows, what two
 * draws have in common falls as the number of places, once for each table. A sum's variance asks for pairs alone. */
enum { ROW = 2048, PLACES = 2048 };
struct draws { const uint32_t *first, *second; uint32_t mask; };
extern uint32_t noise_table[2][PLACES + ROW];
struct draws draws_at(uint64_t at);
static inline uint32_t drawn(const struct draws *d, size_t i) { return d->first[i] ^ d->second[i] ^ d->mask; }

#endif
