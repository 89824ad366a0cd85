/* Rounding to 24 bits at random, up or down, without bias. */
#ifndef ETALON_NOISY_H
#define ETALON_NOISY_H

#include <math.h>

#include "calc_private.h"

static inline uint64_t draw(calc *c) { return random_at(c->noise++); }
static inline double uniform(calc *c) { return (double)(int64_t)draw(c) * 0x1p-63; }     /* [-1, 1) */

/* By the highest random bits of w. Below float32's normal range every other number is flushed to zero. */
static inline double sr_normal(uint64_t w, double x)
{
	union { double d; uint64_t u; } v = { x };

	v.u = (v.u + (w >> 35)) & ~UINT64_C(0x1fffffff);
	return v.d;
}

static inline double sr_by(uint64_t w, double x)
{
	union { double d; uint64_t u; } v = { x };
	const uint64_t normal = UINT64_C(897) << 52;    /* 2^-126 */
	uint64_t flushed = ((v.u & INT64_MAX) - normal) & w;

	return (int64_t)flushed < 0 ? 0 : sr_normal(w, x);
}

static inline double sr(calc *c, double x) { return sr_by(draw(c), x); }

/* The draws of up to ROW operations done side by side: those of two tables, each from a random place on, under a random mask. Draws of
 * two rows are independent by their masks, whatever the places. Within a row they are as the tables' numbers; over rows, what two
 * draws have in common falls as the number of places, once for each table. A sum's variance asks for pairs alone. */
enum { ROW = 2048, PLACES = 2048, LANES = 16, WORDS = LANES / 2 };
struct draws { const uint32_t *first, *second; uint64_t mask; };        /* mask: the same 32 bits twice */
extern uint32_t noise_table[2][PLACES + ROW];
struct draws draws_at(uint64_t at);
static inline uint32_t drawn(const struct draws *d, size_t i) { return d->first[i] ^ d->second[i] ^ (uint32_t)d->mask; }

/* Draws 2i and 2i + 1, of which LANES operations side by side take first the low ones of WORDS words, then the high ones. */
typedef uint64_t two_draws __attribute__((aligned(4), may_alias));
static inline uint64_t word(const struct draws *d, size_t i)
{
	return ((const two_draws *)d->first)[i] ^ ((const two_draws *)d->second)[i] ^ d->mask;
}

/* From i on, m of n in a row. */
#define IN_ROWS(i, m, n) for (size_t i = 0, m; m = (n) - i < ROW ? (n) - i : ROW, i < (n); i += m, c->noise += m)

/* y [n] = x [n], rounded; y may be x. Of LONG products and more a sum in A B' is drawn at once: C [m,n], A [m,k], B [n,k]. */
void noisy_load(calc *c, void *y, const double *x, size_t n);
enum { LONG = 512 };
void noisy_long(calc *c, double *C, const double *A, const double *B, size_t m, size_t n, size_t k);

#endif
