/* Arithmetics that multiply matrices by OpenBLAS. */
#ifndef ETALON_ARITH_BLAS_H
#define ETALON_ARITH_BLAS_H

#include "arith.h"

/* For .enter: pieces run on threads of their own; OpenBLAS's would only stand in their way. */
void blas_enter(calc *c);

#endif
