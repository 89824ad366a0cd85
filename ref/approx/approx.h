/* PTX's approximate functions of float32, to the bit, as Hopper answers (H100: all 2^32 inputs of each; docs/arithmetics.md). */
#ifndef ETALON_APPROX_H
#define ETALON_APPROX_H

#include <stdbool.h>

enum approx { APPROX_EX2, APPROX_LG2, APPROX_RCP, APPROX_RSQRT, APPROX_SQRT, APPROX_SIN, APPROX_COS, APPROX_TANH, APPROXES };

/* ex2, lg2, …: as in ex2.approx.f32. */
extern const char *const approx_names[APPROXES];

/* NAME.approx.f32; ftz: NAME.approx.ftz.f32 (tanh has no other). */
float approx(enum approx name, float x, bool ftz);

/* What CUDA's expf(x) computes without compiler flags, and with -use_fast_math less -ftz: ex2.approx(x log2(e) rounded). */
float approx_expf(float x);
float approx_fast_expf(float x);

#endif
