/* What kernels of the study are made of: float32 numbers, their roundings, and sums in many orders. Nothing of ref/. */
#ifndef ETALON_STRANGERS_ARITH_H
#define ETALON_STRANGERS_ARITH_H

#include <math.h>

#include "fixtures/cases/capture.h"
#include "fixtures/io/random.h"

/* ---- numbers ---- */
enum number { F32, TF32, TF32_CUT, F16, BF16, NUMBERS };        /* TF32: to nearest, ties away; TF32_CUT: truncated */
extern const char *const number_name[NUMBERS];
float rounded(enum number to, float x);
void round_all(enum number to, float *x, size_t n);

/* ---- sums ---- */
/* One by one; the same by fused multiply-adds; the other way round; 32 lanes and a tree; halves; 16 at a time. */
enum order { IN_TURN, FUSED, BACKWARDS, LANES, HALVES, BLOCKS, ORDERS };
extern const char *const order_name[ORDERS];
/* from + Σ_i a[i as] b[i bs] */
float dot(enum order o, float from, const float *a, size_t as, const float *b, size_t bs, size_t n);
static inline float squares(enum order o, const float *x, size_t n) { return dot(o, 0, x, 1, x, 1, n); }

/* Element (i, j) is x[i row + j col]. */
struct view { const float *x; size_t row, col; };
static inline struct view plain(const float *x, size_t cols) { return (struct view){ x, cols, 1 }; }
static inline struct view turned(const float *x, size_t cols) { return (struct view){ x, 1, cols }; }
/* C [m,n] = A B, A [m,k]; where `more` the sums go on from what C holds. */
void product(enum order o, float *C, struct view A, struct view B, size_t m, size_t k, size_t n, bool more);

/* ---- functions ---- */
static inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }
static inline float silu(float x) { return x / (1 + expf(-x)); }
static inline float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* ---- memory of one kernel's run, one for each thread ---- */
float *floats(size_t n);                /* zeros */
float *floats_of(const float *x, size_t n);
size_t floats_mark(void);
void floats_release(size_t mark);

/* The elements of in.NAME, or NULL where the capture has none of that name. */
float *input(const struct capture *c, const char *name);
size_t dim_of(const struct capture *c, const char *name, int axis);     /* of in.NAME; 1 where it is not there */
/* Into out.NAME, where there is one. */
void output(struct capture *c, const char *name, const float *y);

/* ---- dice ---- */
struct dice { uint64_t state; };
size_t pick(struct dice *d, size_t n);                          /* 0 .. n-1 */
size_t between(struct dice *d, size_t low, size_t high);        /* low .. high */
bool chance(struct dice *d, int percent);
/* One of a few sizes. */
#define ONE_OF(d, ...) ((const size_t[]){ __VA_ARGS__ })[pick(d, sizeof(size_t[]){ __VA_ARGS__ } / sizeof(size_t))]

#endif
