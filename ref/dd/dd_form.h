/* Vector operations in double-double, one source in several forms: compiled with AVX-512, with AVX2 and FMA, and with
 * neither. The forms give the same bits, as an element's operations and the order of every sum are the same. */
#ifndef ETALON_DD_FORM_H
#define ETALON_DD_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "dd.h"
#include "ref/approx/fn.h"

/* n high parts and n low parts. */
typedef struct { double *hi, *lo; } dds;

/* A matrix as an operand: element (i, j) is at i row + j column of both parts. */
struct dd_operand { dds at; size_t row, column; };

/* Shapes and results are ref/arith/arith.h's. Bounds, with u^2 = 2^-106 and S = Σ|terms|, hold barring underflow; those of the
 * functions are in dd_functions.h.
 *   binary        add, sub 3 u^2, mul 5 u^2, div 15 u^2 of the result; max exact
 *   axpy, ger     7 u^2 |a x| + 4 u^2 (|y| + |a x|)
 *   scan          3 u^2 per addition, of the sums before it
 *   dot, gemv, gemv_t, gemm (k terms): dd_sum_error(k) S. Terms are added to an unnormalised pair, and the pair is
 *                 normalised after every DD_TERMS. */
struct dd_form {
	const char *name;                       /* "avx512", "avx2", "plain" */
	bool (*runs)(void);                     /* on this processor */
	void (*binary)(enum binary op, dds y, dds a, dds b, size_t b_step, size_t n);
	void (*map)(enum fn f, dds y, dds x, size_t n);
	void (*axpy)(dds y, dd a, dds x, size_t n);
	void (*dot)(dds y, dds a, dds b, size_t n);
	void (*gemv_t)(dds y, dds A, dds x, size_t rows, size_t cols);
	/* C [m,n], rows of length stride, = A B over k terms; lower: only what is on and below the diagonal counts. */
	void (*gemm)(dds C, size_t stride, struct dd_operand A, struct dd_operand B, size_t m, size_t n, size_t k, bool lower);
};

enum { DD_TERMS = 16 };
double dd_sum_error(size_t k);

extern const struct dd_form dd_avx512, dd_avx2, dd_plain;
extern const struct dd_form *const dd_forms[];          /* from the fastest; then NULL */

/* The first that runs here, or the one that dd_use chose. */
const struct dd_form *dd_form(void);
/* For tests and timing; NULL: the first that runs here. Not while another thread computes. */
void dd_use(const struct dd_form *f);

/* ---- a product whose rows are shared out among ranks: dd_ranks.c ---- */

/* C [m,n] = A B over k terms, the same bits as dd_form()->gemm gives, for ranks that all call it; false, and nothing is done, where there
 * is one rank, or too little to do. */
bool dd_gemm_shared(dds C, struct dd_operand A, struct dd_operand B, size_t m, size_t n, size_t k);

#endif
