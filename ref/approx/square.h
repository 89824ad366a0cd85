/* x^2 as the interpolator makes it: of the folded array of bits x_i x_j 2^(i+j+1) (i < j) and x_i 2^2i the columns below 2^19 are
 * left out. x: 17 bits. In units of 2^19, 0 … 2^15 - 1. */
#ifndef ETALON_APPROX_SQUARE_H
#define ETALON_APPROX_SQUARE_H

#include <stdint.h>

uint32_t approx_square(uint32_t x);

#endif
