/* A product in double-double whose rows are shared out among ranks. */
#ifndef ETALON_DD_RANKS_H
#define ETALON_DD_RANKS_H

#include "dd_form.h"

/* C [m,n] = A B over k terms, the same bits as dd_form()->gemm gives, for ranks that all call it; false, and nothing is done, where there
 * is one rank, or too little to do. */
bool dd_gemm_shared(dds C, struct dd_operand A, struct dd_operand B, size_t m, size_t n, size_t k);

#endif
