/* What single elements add to sums, many at a time. The sums go on in order, whatever the vectors' width. */
#ifndef ETALON_XRAY_TERMS_H
#define ETALON_XRAY_TERMS_H

#include <stddef.h>

enum { TERMS = 256 };

/* Of one step of Fisher's scoring: 0 for an element that takes no part. scale [n]: of its block. */
void terms_of_step(const double *r, const double *shape2, const double *floor2, const double *scale, size_t n, double *term, double *weight);

/* d² and the square of what it makes of what is stored, over floor2: 0 where d is not finite or floor2 is 0. */
void terms_of_size(const double *d, const double *with, const double *without, const double *floor2, size_t n, double *term, double *stored);

#endif
