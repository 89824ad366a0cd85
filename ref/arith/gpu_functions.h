/* Functions as GPUs' programs have them: for the arithmetics that add as GPUs do, so that what is left between two of them is how they add. */
#ifndef ETALON_GPU_FUNCTIONS_H
#define ETALON_GPU_FUNCTIONS_H

#include <math.h>

#include "ref/approx/approx.h"

/* As PyTorch has it: above 20 it is x. */
static inline float gpu_softplus(float x) { return x > 20 ? x : log1pf(approx_expf(x)); }

#define EXP2(x) approx(APPROX_EX2, x, false)
#define EXP approx_expf
#define SOFTPLUS gpu_softplus

#endif
