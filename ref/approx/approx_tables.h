#ifndef ETALON_APPROX_TABLES_H
#define ETALON_APPROX_TABLES_H

#include <stdint.h>

/* On interval i, in units of 2^-40: F(x) = C0 2^14 + bias + C1 x + 2 C2 approx_square(x), x: the 17 bits behind the interval's index. */
struct approx_table { int32_t bias; struct { int32_t c0, c1, c2; } at[128]; };
extern const struct approx_table approx_ex2, approx_lg2, approx_rcp, approx_rsqrt, approx_sqrt, approx_sin, approx_tanh;

#endif
