/* An arithmetic is a way to compute: one table of vector operations. What an element is, only its
 * arithmetic knows; `c` gives it the precision (mpfr) and the random stream (noisy). Pointers are
 * to the first of n contiguous elements; results may be operands, except of the matrix operations. */
#ifndef ETALON_ARITH_H
#define ETALON_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/approx/fn.h"

typedef struct calc calc;

struct arith {
	const char *name;
	const char *what;       /* one line for `etalon list` */
	int precision;          /* significant bits; 0: a parameter, "NAME:BITS" */
	bool wide;              /* more than a double: read gives a low part */
	bool plain;             /* an element is a double, and load needs no other memory */
	bool split;             /* a vector's low parts lie apart from it, in the second half of its block of the arena */
	size_t (*size)(const calc *c);                          /* bytes of one element; of its high part, where split */
	void (*init)(calc *c, void *y, size_t n);               /* raw memory to zeros */
	void (*moved)(calc *c, void *y, size_t n);              /* the bytes of elements were copied to y; NULL: that is all */
	void (*load)(calc *c, void *y, const double *x, size_t n);
	void (*read)(calc *c, double *hi, double *lo, const void *x, size_t n); /* hi + lo; lo may be NULL */
	/* y_i = a_i OP b_{i·b_step} */
	void (*binary)(calc *c, enum binary op, void *y, const void *a, const void *b, size_t b_step, size_t n);
	void (*map)(calc *c, enum fn f, void *y, const void *x, size_t n);
	void (*axpy)(calc *c, void *y, const void *a, const void *x, size_t n);
	void (*scan)(calc *c, void *y, const void *x, size_t n);        /* y_i = x_0 + ... + x_i; not in place */
	void (*dot)(calc *c, void *y, const void *a, const void *b, size_t n);
	/* y = A'x */
	void (*gemv_t)(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols);
	void (*ger)(calc *c, void *A, const void *x, const void *y, size_t rows, size_t cols);
	/* C [m,n] = A B with A [m,k]; ta: A is stored [k,m]; tb: B is stored [n,k] */
	void (*gemm)(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k);
	/* C += A B where the sum goes on from C; NULL: where the product is added to it */
	void (*gemm_add)(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k);
	void (*enter)(calc *c), (*leave)(calc *c);              /* around a run, on each thread; may be NULL */
};

/* f32, f32_fma, f32_tree, f64, f64up (f64 rounding toward +infinity: its distance from f64 shows f64's
 * error), dd, mpfr:BITS, noisy. */
extern const struct arith arith_f32, arith_f32_fma, arith_f32_tree, arith_f64, arith_f64up, arith_dd, arith_mpfr, arith_noisy;
/* noisy, also where float32 happens to be exact; neither it nor the next has a name to be found by. */
extern const struct arith arith_noisy_all;
/* dd that keeps how far sampled elements of its operations are from MPFR's. */
extern const struct arith arith_judged;
/* Of arith_judged: an element of an operation for each `stride` operations; how many were made again; the largest distance, as a
 * share of the result, and of Σ|terms| of a sum. */
struct judged { uint64_t stride, elements; double apart; };
/* mma:ARCH: products of matrices as NVIDIA's tensor cores add. From MMA_ARCHES on those of vectors, too, as they are rows of one matrix in a
 * kernel that has many; these have no name to be found by. */
enum { MMA_VOLTA, MMA_TURING, MMA_AMPERE, MMA_ADA, MMA_HOPPER, MMA_BLACKWELL, MMA_ARCHES };
extern const struct arith arith_mma[2 * MMA_ARCHES];
extern const struct arith *const ariths[];      /* all of them, then NULL */

/* "mpfr:128" -> &arith_mpfr and 128; bits is the arithmetic's own where it has no parameter.
 * false for an unknown name or bits outside 24 .. 4096. */
bool arith_by_name(const char *spec, const struct arith **a, int *bits);

#endif
